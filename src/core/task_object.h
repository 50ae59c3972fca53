// A task as the HTTP interface and the command line show it.
#pragma once

#include <boost/json/object.hpp>

#include "core/run.h"

namespace pawl {

// `run` has a task.
boost::json::object task_object(const Run& run);
// Without what may be long: for lists.
boost::json::object task_summary(const Run& run);

}  // namespace pawl
