// Runs as JSON, the same at every door: the API, `show --json`, results.
#pragma once

#include <boost/json/object.hpp>

#include "core/run.h"
#include "core/vocabulary.h"

namespace pawl {

boost::json::object run_object(const Run& run, Vocabulary vocabulary = Vocabulary::contract_v1);
boost::json::object approval_object(const Run& run, const Approval& approval);
boost::json::object receipt_object(const Run& run, const Receipt& receipt);
boost::json::object diagnostic_object(const Diagnostic& diagnostic);

}  // namespace pawl
