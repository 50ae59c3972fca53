// What is kept of an agent's session beside the journal: enough to resume it in a later attempt, or in a later run.
//
//   <data>/logs/<run>/<step>/agent.json            which session the step has, where it works, what it has spent
//   <data>/logs/<run>/<step>/denials.json          calls that the agent was not permitted; no file when there were none
//   <data>/agents/<tenant>/<session>/session.json  what the session has cost, and how much of that no run was told yet
//   <data>/agents/<tenant>/<session>/home          the HOME of an agent in a sandbox
//
// Losing them costs a session that is begun anew, and no more.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/money.h"
#include "engine/lease.h"
#include "tools/agent.h"
#include "tools/agent_stream.h"

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
  // Calls that were not permitted, by this step, in all attempts, and in those of an earlier run that it goes on with.
  std::vector<AgentDenial> denials;  // at most agent_denials_max
  std::size_t denials_left_out = 0;

  std::filesystem::path folder;  // agents/<tenant>/<session>
  std::string workspace;         // where it works; a session is found again only there
  bool is_recorded = false;      // by an earlier attempt of this step

  // Nothing that is found is trusted to be well-formed.
  static AgentSession load(const AgentContext& context, const Lease& lease, std::string wanted);
  void save(const AgentContext& context, const Lease& lease) const;
  // The process that has ended knows its own denials only: adds them to those of earlier ones, and keeps all of them
  // for a later one. Secrets are taken out.
  void note_denials(const AgentContext& context, const Lease& lease, const AgentStory& story,
                    const LogSecrets& secrets);
  // That of the step in an earlier run, if it is known.
  void go_on_with(const AgentContext& context, const Lease& lease, RunId earlier);
  // Another one in its place, for the same step.
  void begin_anew(const AgentContext& context, const Lease& lease);

 private:
  void find_costs(const AgentContext& context, const Lease& lease);
  void find_denials(const AgentContext& context, RunId run, const StepId& step);
};

}  // namespace pawl
