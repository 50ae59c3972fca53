// The request that would undo an http.request, as the author of the step declared it with `undo`. Values of the answer
// may fill parts of the path, the query and the fields of the body, encoded as what they stand in; never the scheme,
// the host, the method or the headers, which hold credentials.
#pragma once

#include <memory>

#include "core/action.h"
#include "tools/arguments.h"

namespace pawl {

// Refuses an `undo` that could not be sent, before the effect has happened.
void check_http_undo(Arguments& with, const Lease& lease);

// The declared undo with the values of `response`, which is the text of the step's output. Null when there is none, or
// when the response lacks a value, or has one that cannot stand where it should.
std::shared_ptr<const Action> http_undo(const Lease& lease, const JsonText& response);

}  // namespace pawl
