// Keys of other systems that authors of workflows try, and what to write instead. For workflow.cc only.
#pragma once

#include <array>

#include "core/source_reader.h"

namespace pawl {

inline constexpr std::string_view no_conditions =
    "steps have no conditions; decide inside a `transform` or `shell` step, or start another workflow when it applies";
inline constexpr std::string_view no_loops =
    "there are no loops; give the whole list to one step, or start a run for each item: POST /runs/batch";
inline constexpr std::string_view no_handlers =
    "a step that fails ends its run; `retry` tries it again, and `pawl undo` undoes what the run did";
inline constexpr std::string_view write_needs = "write `needs: [fetch]`; without it a step waits for the one before";
inline constexpr std::string_view write_with = "write `with: {...}`: what the tool is given";
inline constexpr std::string_view write_shell = "write `tool: shell` and `with: {argv: [make, test]}`";
inline constexpr std::string_view write_retry = "write `retry: {max_attempts: 3}`";
inline constexpr std::string_view write_timeout = "write `timeout: 90s`";
inline constexpr std::array<KeyAdvice, 33> step_advice{KeyAdvice{"if", no_conditions},
                                                       {"when", no_conditions},
                                                       {"condition", no_conditions},
                                                       {"unless", no_conditions},
                                                       {"switch", no_conditions},
                                                       {"for_each", no_loops},
                                                       {"foreach", no_loops},
                                                       {"loop", no_loops},
                                                       {"matrix", no_loops},
                                                       {"repeat", no_loops},
                                                       {"while", no_loops},
                                                       {"catch", no_handlers},
                                                       {"on_error", no_handlers},
                                                       {"on_failure", no_handlers},
                                                       {"continue_on_error", no_handlers},
                                                       {"continue-on-error", no_handlers},
                                                       {"depends_on", write_needs},
                                                       {"dependsOn", write_needs},
                                                       {"requires", write_needs},
                                                       {"args", write_with},
                                                       {"inputs", write_with},
                                                       {"input", write_with},
                                                       {"params", write_with},
                                                       {"parameters", write_with},
                                                       {"run", write_shell},
                                                       {"command", write_shell},
                                                       {"script", write_shell},
                                                       {"uses", "write `tool: NAME`"},
                                                       {"retries", write_retry},
                                                       {"max_retries", write_retry},
                                                       {"timeout_seconds", write_timeout},
                                                       {"timeout-minutes", write_timeout},
                                                       {"name", "write `id: fetch`, and `description` for people"}};
inline constexpr std::array<KeyAdvice, 8> workflow_advice{
    KeyAdvice{"name", "write `workflow: NAME`"},
    {"jobs", "write `steps`"},
    {"tasks", "write `steps`"},
    {"inputs", "a run's input is given when it is started, and read as ${{ input.KEY }}"},
    {"input", "a run's input is given when it is started, and read as ${{ input.KEY }}"},
    {"concurrency", "write `caps: {max_concurrency: 4}`"},
    {"finally", no_handlers},
    {"retries", write_retry}};

}  // namespace pawl
