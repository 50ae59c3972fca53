// A workflow with all that a run can meet, for targets that need one.
#pragma once

#include "core/workflow.h"
#include "yaml/yaml.h"

namespace pawl::fuzz {

inline constexpr std::string_view some_workflow_source = R"(workflow: w
timeout: 1h
budget_usd: "2.50"
steps:
  - id: a
    tool: work
    with: {from: "${{ input.from }}", at: "${{ run.created_at }}", attempt: "${{ run.attempt }}"}
    retry: {max_attempts: 3}
  - id: gate
    tool: approval
    tier: high
    two_person: true
    expires: 15m
    prompt: "Send ${{ steps.a.output }}?"
  - id: b
    tool: work
    needs: [a]
    with: {from: "${{ steps.a.output.list[0] }}"}
  - id: c
    tool: write
    needs: [gate, b]
    idempotency_key: "c-${{ run.id }}"
)";

inline const Workflow& some_workflow() {
  static const Workflow workflow = [] {
    auto made = read_workflow(read_yaml(some_workflow_source).value(), nullptr).value();
    made.version = 1;
    return made;
  }();
  return workflow;
}

}  // namespace pawl::fuzz
