// Runs as JSON, the same at every door: the API, `show --json`, results.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/run.h"
#include "core/tenant.h"
#include "core/vocabulary.h"

namespace pawl {

Json time_of(Instant at);

// False when a call was made whose price nobody knows, as the output's `usage` says (model.chat): what is told as cost
// is then only the rest.
bool cost_is_known(const Step& step);
bool cost_is_known(const Run& run);

// `tenant`: of the run, to say whose keys its requesters used; null where that is not known.
boost::json::object run_object(const Run& run, Vocabulary vocabulary = Vocabulary::contract_v1,
                               const Tenant* tenant = nullptr);
boost::json::object approval_object(const Run& run, const Approval& approval, const Tenant* tenant = nullptr);
// Everybody who asked for the run, the creator first: {actor, person, key_name, text}; without a tenant the actor only.
boost::json::array requester_objects(const Run& run, const Tenant* tenant);
boost::json::object receipt_object(const Run& run, const Receipt& receipt);
boost::json::object diagnostic_object(const Diagnostic& diagnostic);

}  // namespace pawl
