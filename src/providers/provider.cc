#include "providers/provider.h"

#include <boost/json/object.hpp>

namespace pawl::providers {

std::string refusal_text(const Decided& decided) {
  std::string out = decided.gate + " was " + std::string(to_string(decided.status));
  if (!decided.by.empty()) out += " by " + decided.by;
  if (!decided.reason.empty()) out += ": " + decided.reason;
  return out + " (" + decided.approval.str() + ")";
}

JsonText decision_object(const Decided& decided) {
  return canonical(Json(boost::json::object{{"approval", decided.approval.str()},
                                            {"gate", decided.gate},
                                            {"decision", to_string(decided.status)},
                                            {"by", decided.by},
                                            {"reason", decided.reason}}));
}

}  // namespace pawl::providers
