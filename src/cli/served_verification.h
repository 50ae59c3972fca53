// Checks what a server hands out, without trusting it: every run of the tenant, its stream, its hashes, and that the
// run is what its stream says.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/remote.h"
#include "cli/verification.h"

namespace pawl {

class ServedVerification {
 public:
  ServedVerification(const Remote& remote, Found found, Progress progress);
  VerifyCounts check();

 private:
  void check_run(RunId id);
  bool check_chain(const WholeStream& stream, RunId id);
  // Null when it is not what the run was created with; that is reported.
  const Workflow* workflow_of(const RunCreated& created, const std::string& run);
  void report(std::string subject, std::uint64_t seq, std::string what) {
    found_({std::move(subject), seq, std::move(what)});
  }

  const Remote& remote_;
  Found found_;
  Progress progress_;
  TenantId tenant_;
  VerifyCounts counts_;
  std::map<std::pair<std::string, int>, std::unique_ptr<const Workflow>> workflows_;
};

}  // namespace pawl
