// The secrets of one attempt: put where its input names them at the last moment, and taken out of whatever comes back.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include "secrets/scrubber.h"
#include "secrets/secrets.h"
#include "tools/tool.h"

namespace pawl {

// Who wants to use which secret, for what.
struct SecretRequest {
  TenantId tenant;
  WorkflowName workflow;
  ToolName tool;
  std::string_view secret;
};

// Checks that it may be used so, then looks it up. Thread-safe; may block.
using FindSecret = std::function<std::expected<std::string, NoSecret>(const SecretRequest& request)>;

class SecretUse {
 public:
  // `find` must outlive this; it may be empty, and then there are no secrets here.
  SecretUse(const FindSecret& find, const Lease& lease)
      : find_(find), request_{lease.tenant, lease.workflow, lease.tool, {}} {}

  // What the template says with its secrets in place. Each value is remembered.
  std::expected<JsonText, Failed> fill(const JsonText& shown);

  // Nothing of a secret is left in these afterwards. Of an action, what it writes is left as it is: that is a template.
  void scrub(ToolResult& result) const;
  void scrub(Failed& failed) const;
  void scrub(Plan& plan) const;
  std::string scrub(std::string_view text) const { return scrubber_.text(text); }

 private:
  void scrub(Completed& completed) const;

  const FindSecret& find_;
  const SecretRequest request_;  // without the name
  Scrubber scrubber_;
};

}  // namespace pawl
