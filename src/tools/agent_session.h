// What is kept of an agent's session beside the journal: enough to resume it in a later attempt, or in a later run.
//
//   <data>/logs/<run>/<step>/agent.json            which session the step has, where it works, what it has spent
//   <data>/agents/<tenant>/<session>/session.json  what the session has cost, and how much of that no run was told yet
//   <data>/agents/<tenant>/<session>/home          the HOME of an agent in a sandbox
//
// Losing them costs a session that is begun anew, and no more.
#pragma once

#include <filesystem>
#include <string>

#include "core/money.h"
#include "engine/lease.h"
#include "tools/agent.h"

namespace pawl {

// In the form that the Claude Code CLI wants.
bool is_uuid(std::string_view text);
std::string random_uuid();
// The same for the same step of the same run: whoever has lost everything else still knows it.
std::string uuid_of(RunId run, const StepId& step);

struct AgentSession {
  std::string id;
  bool was_started = false;  // a process was, for it
  bool has_begun = false;    // it said so itself
  Money spent;               // by this step, in all attempts
  Money total;               // by the session, as it reports it
  Money untold;              // of it, what no attempt has reported to its run

  std::filesystem::path folder;  // agents/<tenant>/<session>
  std::string workspace;         // where it works; a session is found again only there
  bool is_recorded = false;      // by an earlier attempt of this step

  // Nothing that is found is trusted to be well-formed.
  static AgentSession load(const AgentContext& context, const Lease& lease, std::string wanted);
  void save(const AgentContext& context, const Lease& lease) const;
  // That of the step in an earlier run, if it is known.
  void go_on_with(const AgentContext& context, const Lease& lease, RunId earlier);
  // Another one in its place, for the same step.
  void begin_anew(const AgentContext& context, const Lease& lease);

 private:
  void find_costs(const AgentContext& context, const Lease& lease);
};

}  // namespace pawl
