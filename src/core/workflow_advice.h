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
inline constexpr std::string_view no_blocks =
    "steps hold no other steps; those whose `needs` are done run side by side: `needs: [fetch]` on each of them";
inline constexpr std::string_view read_output = "what a step returns is kept, and read as ${{ steps.ID.output }}";
inline constexpr std::string_view write_env = "`shell` and agents take `with: {env: {NAME: value}}`";
inline constexpr std::string_view write_steps = "write `steps`";
inline constexpr std::string_view read_input =
    "a run's input is given when it is started, and read as ${{ input.KEY }}";
inline constexpr std::string_view no_triggers =
    "nothing here starts runs by itself; start them with POST /runs or `pawl run NAME`, from cron for example";
inline constexpr auto step_advice =
    std::to_array<KeyAdvice>({{"if", no_conditions},
                              {"when", no_conditions},
                              {"condition", no_conditions},
                              {"unless", no_conditions},
                              {"switch", no_conditions},
                              {"case", no_conditions},
                              {"else", no_conditions},
                              {"elif", no_conditions},
                              {"then", no_conditions},
                              {"for_each", no_loops},
                              {"foreach", no_loops},
                              {"loop", no_loops},
                              {"matrix", no_loops},
                              {"repeat", no_loops},
                              {"while", no_loops},
                              {"with_items", no_loops},
                              {"with_param", no_loops},
                              {"catch", no_handlers},
                              {"try", no_handlers},
                              {"rescue", no_handlers},
                              {"on_error", no_handlers},
                              {"on_failure", no_handlers},
                              {"always", no_handlers},
                              {"finally", no_handlers},
                              {"ignore_errors", no_handlers},
                              {"continue_on_error", no_handlers},
                              {"continue-on-error", no_handlers},
                              {"steps", no_blocks},
                              {"parallel", no_blocks},
                              {"branches", no_blocks},
                              {"block", no_blocks},
                              {"depends_on", write_needs},
                              {"dependsOn", write_needs},
                              {"requires", write_needs},
                              {"after", write_needs},
                              {"next", write_needs},
                              {"goto", write_needs},
                              {"args", write_with},
                              {"inputs", write_with},
                              {"input", write_with},
                              {"params", write_with},
                              {"parameters", write_with},
                              {"run", write_shell},
                              {"command", write_shell},
                              {"script", write_shell},
                              {"uses", "write `tool: NAME`"},
                              {"action", "write `tool: NAME`"},
                              {"type", "write `tool: NAME`"},
                              {"outputs", read_output},
                              {"output", read_output},
                              {"register", read_output},
                              {"save_as", read_output},
                              {"env", write_env},
                              {"environment", write_env},
                              {"secrets", "a secret stands where it is used: ${{ secrets.NAME }}"},
                              {"delay", "write a step of its own: `tool: wait` and `for: 3d`"},
                              {"retries", write_retry},
                              {"max_retries", write_retry},
                              {"max_attempts", write_retry},
                              {"timeout_seconds", write_timeout},
                              {"timeout-minutes", write_timeout},
                              {"name", "write `id: fetch`, and `description` for people"}});
inline constexpr auto workflow_advice =
    std::to_array<KeyAdvice>({{"name", "write `workflow: NAME`"},
                              {"id", "write `workflow: NAME`"},
                              {"version", "each change of a definition is published as a new version; remove it"},
                              {"jobs", write_steps},
                              {"tasks", write_steps},
                              {"stages", write_steps},
                              {"nodes", write_steps},
                              {"inputs", read_input},
                              {"input", read_input},
                              {"params", read_input},
                              {"parameters", read_input},
                              {"on", no_triggers},
                              {"triggers", no_triggers},
                              {"trigger", no_triggers},
                              {"schedule", no_triggers},
                              {"cron", no_triggers},
                              {"concurrency", "write `caps: {max_concurrency: 4}`"},
                              {"finally", no_handlers},
                              {"catch", no_handlers},
                              {"on_error", no_handlers},
                              {"on_failure", no_handlers},
                              {"undo_on", no_handlers},
                              {"if", no_conditions},
                              {"retries", write_retry},
                              {"output", read_output},
                              {"outputs", read_output},
                              {"env", write_env},
                              {"secrets", "a secret stands where it is used: ${{ secrets.NAME }}"}});

}  // namespace pawl
