// The three documents that define what a run and a step may do, each with its own transition table, in its own words.
// This is data copied from the documents, not from the code: what the code does is held against it.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/vocabulary.h"

namespace pawl::tests {

// Where a row comes from.
enum class Source {
  written,  // it stands in the document's table or diagram
  // The document's text needs it though its diagram leaves it out; the comment beside the row says why.
  implied
};

struct Edge {
  std::string_view from;
  std::string_view to;
  Source source = Source::written;
};

// Two rows in one commit: what a reader of commits sees is `from`, then `to`. Both rows must be in the table.
struct TwoEdges {
  std::string_view from;
  std::string_view over;
  std::string_view to;
};

struct Document {
  std::string_view name;
  Vocabulary vocabulary;
  std::span<const Edge> run;
  std::span<const Edge> step;
  std::span<const TwoEdges> run_in_one_commit;
  std::span<const TwoEdges> step_in_one_commit;
};

// --- "State Machine": run and step transition tables ---

namespace state_machine_document {

inline constexpr std::array run{
    Edge{"PENDING", "RUNNING"},           Edge{"RUNNING", "WAITING_APPROVAL"},   Edge{"WAITING_APPROVAL", "RUNNING"},
    Edge{"RUNNING", "SUCCEEDED"},         Edge{"WAITING_APPROVAL", "SUCCEEDED"}, Edge{"RUNNING", "FAILED"},
    Edge{"WAITING_APPROVAL", "FAILED"},   Edge{"PENDING", "CANCELED"},           Edge{"RUNNING", "CANCELED"},
    Edge{"WAITING_APPROVAL", "CANCELED"},
};

inline constexpr std::array step{
    Edge{"PENDING", "RUNNING"},  Edge{"RUNNING", "SUCCEEDED"},        Edge{"RUNNING", "PENDING"},
    Edge{"RUNNING", "FAILED"},   Edge{"PENDING", "WAITING_APPROVAL"}, Edge{"WAITING_APPROVAL", "SUCCEEDED"},
    Edge{"PENDING", "CANCELED"}, Edge{"RUNNING", "CANCELED"},         Edge{"WAITING_APPROVAL", "CANCELED"},
    Edge{"RUNNING", "RUNNING"},  // reclaimed
};

// A template whose first step is a gate: the run starts and reaches the gate at once, for no worker has anything to do
// in between. Stopping in the middle would leave a running run that nothing runs.
inline constexpr std::array run_in_one_commit{TwoEdges{"PENDING", "RUNNING", "WAITING_APPROVAL"}};

}  // namespace state_machine_document

inline constexpr Document state_machine_words{"state machine",
                                              Vocabulary::state_machine,
                                              state_machine_document::run,
                                              state_machine_document::step,
                                              state_machine_document::run_in_one_commit,
                                              {}};

// --- "Runtime queue + worker state machine": diagrams 2.1 and 2.2 ---

namespace runtime_document {

inline constexpr std::array run{
    Edge{"queued", "running"},
    Edge{"running", "waiting_approval"},
    Edge{"waiting_approval", "running"},
    Edge{"waiting_approval", "failed_terminal"},
    Edge{"running", "succeeded"},
    Edge{"running", "failed_retryable"},
    Edge{"running", "failed_terminal"},
    Edge{"queued", "canceled"},
    Edge{"running", "canceled"},
    // The diagram leads into failed_retryable and never out; section 6 schedules the next attempt. A run that backs
    // off is a running run, so it may also end as one: by its SLA, by another step's failure, by cancel.
    Edge{"failed_retryable", "running", Source::implied},
    Edge{"failed_retryable", "failed_terminal", Source::implied},
    Edge{"failed_retryable", "canceled", Source::implied},
    // Section 1.3 lets an approval become canceled, which only a run canceled while it waits can bring about; and
    // contract v1, which is authoritative for runs, has waiting -> canceled.
    Edge{"waiting_approval", "canceled", Source::implied},
};

inline constexpr std::array step{
    Edge{"ready", "running"},
    Edge{"running", "succeeded"},
    Edge{"running", "waiting_approval"},
    Edge{"waiting_approval", "ready"},
    Edge{"waiting_approval", "failed_terminal"},
    Edge{"running", "failed_retryable"},
    Edge{"running", "failed_terminal"},
    Edge{"ready", "canceled"},
    Edge{"running", "canceled"},
    Edge{"failed_retryable", "ready", Source::implied},
    // Section 3.2 leases only what is ready, and 3.1 has the same step seen again when a worker ends without a result:
    // so a step that is running becomes ready when its lease is over. Here that is a worker that gives its lease back.
    Edge{"running", "ready", Source::implied},
    Edge{"failed_retryable", "canceled", Source::implied},
    Edge{"waiting_approval", "canceled", Source::implied},
};

// A step that max_writes_per_run stops is leased and denied at once (section 5: fail closed); when it is the first one,
// so is its run.
inline constexpr std::array run_in_one_commit{TwoEdges{"queued", "running", "failed_terminal"}};
inline constexpr std::array step_in_one_commit{TwoEdges{"ready", "running", "failed_terminal"}};

}  // namespace runtime_document

inline constexpr Document runtime_words{"runtime",
                                        Vocabulary::runtime,
                                        runtime_document::run,
                                        runtime_document::step,
                                        runtime_document::run_in_one_commit,
                                        runtime_document::step_in_one_commit};

// --- "Run Status Model (Contract v1)": valid transitions. It says nothing about steps. ---

namespace contract_v1_document {

inline constexpr std::array statuses{std::string_view("created"), std::string_view("running"),
                                     std::string_view("waiting"), std::string_view("success"),
                                     std::string_view("failed"),  std::string_view("denied"),
                                     std::string_view("timeout"), std::string_view("canceled")};

inline constexpr std::array terminal{std::string_view("success"), std::string_view("failed"),
                                     std::string_view("denied"), std::string_view("timeout"),
                                     std::string_view("canceled")};

inline constexpr std::array run{
    Edge{"created", "running"}, Edge{"running", "waiting"},  Edge{"waiting", "running"},
    Edge{"running", "success"}, Edge{"running", "failed"},   Edge{"running", "denied"},
    Edge{"running", "timeout"}, Edge{"running", "canceled"}, Edge{"waiting", "canceled"},
};

// The contract is about transitions, each of which is an event: it is checked event by event, so no commit needs an
// excuse here.
}  // namespace contract_v1_document

inline constexpr Document contract_v1_words{
    "contract v1", Vocabulary::contract_v1, contract_v1_document::run, {}, {}, {}};

// --- asking them ---

constexpr bool has_edge(std::span<const Edge> edges, std::string_view from, std::string_view to) {
  for (const auto& edge : edges)
    if (edge.from == from && edge.to == to) return true;
  return false;
}

constexpr bool has_edge(std::span<const TwoEdges> edges, std::string_view from, std::string_view to) {
  for (const auto& edge : edges)
    if (edge.from == from && edge.to == to) return true;
  return false;
}

// Whether one commit may show `to` where `from` was: nothing, one row, or two rows that the document's list names.
constexpr bool may_show(std::span<const Edge> edges, std::span<const TwoEdges> in_one_commit, std::string_view from,
                        std::string_view to) {
  return from == to || has_edge(edges, from, to) || has_edge(in_one_commit, from, to);
}

constexpr bool made_of_edges(std::span<const TwoEdges> pairs, std::span<const Edge> edges) {
  for (const auto& pair : pairs)
    if (!has_edge(edges, pair.from, pair.over) || !has_edge(edges, pair.over, pair.to) ||
        has_edge(edges, pair.from, pair.to))
      return false;
  return true;
}
static_assert(made_of_edges(state_machine_words.run_in_one_commit, state_machine_words.run));
static_assert(made_of_edges(runtime_words.run_in_one_commit, runtime_words.run));
static_assert(made_of_edges(runtime_words.step_in_one_commit, runtime_words.step));

// What a reader of a vocabulary sees of a run between two commits.
struct Seen {
  std::string_view run;
  std::vector<std::string_view> steps;
};

inline Seen seen(const Run& run, Vocabulary vocabulary) {
  Seen out{run_word(vocabulary, run), {}};
  for (const auto& step : run.steps) out.steps.push_back(step_word(vocabulary, step.status));
  return out;
}

}  // namespace pawl::tests
