// Runs as JSON, the same at every door: the API, `show --json`, results.
#pragma once

#include <boost/json/object.hpp>

#include "core/run.h"
#include "core/vocabulary.h"

namespace pawl {

Json time_of(Instant at);

// False when a call was made whose price nobody knows, as the output's `usage` says (model.chat): what is told as cost
// is then only the rest.
bool cost_is_known(const Step& step);
bool cost_is_known(const Run& run);

boost::json::object run_object(const Run& run, Vocabulary vocabulary = Vocabulary::contract_v1);
boost::json::object approval_object(const Run& run, const Approval& approval);
boost::json::object receipt_object(const Run& run, const Receipt& receipt);
boost::json::object diagnostic_object(const Diagnostic& diagnostic);

}  // namespace pawl
