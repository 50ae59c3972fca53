#include "api/problem_codes.h"

namespace pawl::api {

std::string problem_reference() {
  std::string out = "| code | status | what it means | what to do |\n|---|---|---|---|\n";
  for (const ProblemCode& row : problem_codes)
    out += "| `" + std::string(row.code) + "` | " + std::to_string(row.status) + " | " + std::string(row.meaning) +
           " | " + std::string(row.what_to_do) + " |\n";
  return out;
}

}  // namespace pawl::api
