// What an author is told: place and reason, exactly.
#include <gtest/gtest.h>

#include "core/workflow_builder.h"

namespace pawl {
namespace {

struct Row {
  std::string text;
  std::string errors;
};

template <std::size_t N>
void expect_errors(const Row (&rows)[N]) {
  for (const auto& row : rows) EXPECT_EQ(errors_of(row.text), row.errors) << row.text;
}

// One step in line 3, and whatever else in it.
Row step(const std::string& keys, const std::string& errors) {
  return {"workflow: w\nsteps:\n- {id: a, tool: noop, " + keys + "}\n", errors};
}
Row gate(const std::string& keys, const std::string& errors) {
  return {"workflow: w\nsteps:\n- {id: a, tool: approval, " + keys + "}\n", errors};
}
Row head(const std::string& line, const std::string& errors) {
  return {"workflow: w\n" + line + "\nsteps: [{id: a, tool: noop}]\n", errors};
}

TEST(WorkflowErrors, suggest_the_nearest_key) {
  const Row rows[] = {
      head("timout: 5s", "2:1: unknown key `timout`; did you mean `timeout`?"),
      head("bugdet_usd: 5", "2:1: unknown key `bugdet_usd`; did you mean `budget_usd`?"),
      head("colour: red",
           "2:1: unknown key `colour`; a workflow takes workflow, description, provider, timeout, budget_usd, retry, "
           "caps, "
           "evidence and steps"),
      head("caps: {max_concurency: 1}", "2:8: unknown key `max_concurency`; did you mean `max_concurrency`?"),
      head("retry: {delay: 1s}",
           "2:9: unknown key `delay`; `retry` takes max_attempts, base, max, jitter and schedule"),
      step("colour: x",
           "3:23: unknown key `colour`; a step takes id, tool, description, needs, with, retry, timeout, lease, risk "
           "and idempotency_key"),
      step("need: []", "3:23: unknown key `need`; did you mean `needs`?"),
      gate("teir: low", "3:27: unknown key `teir`; did you mean `tier`?"),
      step("with: {note: x, noet: y}", "3:39: unknown key `noet`; did you mean `note`?"),
      step("with: {colour: x}", "3:30: unknown key `colour`; `noop` takes note"),
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, say_what_to_write_instead_of_what_other_systems_have) {
  const std::string no_conditions =
      "steps have no conditions; decide inside a `transform` or `shell` step, or start another workflow when it "
      "applies";
  const Row rows[] = {
      step("if: x", "3:23: unknown key `if`: " + no_conditions),
      {"workflow: w\nsteps:\n- {id: a, switch: []}\n", "3:11: unknown key `switch`: " + no_conditions},
      {"workflow: w\nsteps:\n- {id: a, tool: wait, for: 1s, when: x}\n", "3:32: unknown key `when`: " + no_conditions},
      {"workflow: w\nsteps:\n- {id: a, run: make}\n",
       "3:11: unknown key `run`: write `tool: shell` and `with: {argv: [make, test]}`"},
      step("parallel: []",
           "3:23: unknown key `parallel`: steps hold no other steps; those whose `needs` are done run side by side: "
           "`needs: [fetch]` on each of them"),
      step("outputs: {}",
           "3:23: unknown key `outputs`: what a step returns is kept, and read as ${{ steps.ID.output }}"),
      head("on: push",
           "2:1: unknown key `on`: nothing here starts runs by itself; start them with POST /runs or `pawl run NAME`, "
           "from cron for example"),
      {"workflow: w\nsteps:\n- {id: a, colour: red}\n",
       "3:3: this step has no `tool`; add one, such as `tool: http.request`"},
  };
  expect_errors(rows);
}

// A secret may stand only where it does not end up in the journal.
TEST(WorkflowErrors, say_where_a_secret_cannot_stand) {
  const std::string request =
      "workflow: w\nsteps:\n- id: a\n  tool: http.request\n  with:\n    url: https://x.example\n";
  const Row rows[] = {
      {request + "    headers: {Authorization: \"Bearer ${{ secrets.TOKEN }}\"}\n", "no error"},
      {request + "    method: \"${{ secrets.TOKEN }}\"\n",
       "7:14: no secret can stand in `method` of `http.request`, where it would be seen; it can in `headers`, `undo`"},
      step("with: {note: \"${{ secrets.TOKEN }}\"}",
           "3:37: no secret can stand in `note` of `noop`, where it would be seen; this tool takes none"),
      step("idempotency_key: \"k-${{ secrets.TOKEN }}\"",
           "3:43: `idempotency_key` is kept in the journal, so no secret can stand in it"),
      gate("prompt: \"${{ secrets.TOKEN }}?\"", "3:36: `prompt` is kept in the journal, so no secret can stand in it"),
      step("with: {note: \"${{ secrets.token }}\"}",
           "3:48: after `secrets` comes a name of capitals, digits and _: secrets.API_TOKEN"),
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, say_that_tools_of_others_are_given_no_secrets) {
  const auto document =
      read_yaml("workflow: w\nsteps:\n- {id: a, tool: deploy, with: {key: \"${{ secrets.TOKEN }}\"}}\n");
  ToolCatalog tools = test_tools();
  tools.expect_remote_tools();
  const auto workflow = read_workflow(*document, &tools);
  ASSERT_FALSE(workflow);
  EXPECT_EQ(print_error("w", workflow.error().at(0)),
            "w:3:38: only built-in tools are given secrets; `deploy` is worked on elsewhere and has to bring its own");
}

TEST(WorkflowErrors, say_what_is_missing) {
  const Row rows[] = {
      {"steps: [{id: a, tool: noop}]",
       "1:1: this document has no `workflow`; add one, such as `workflow: triage-incident`"},
      {"workflow: w", "1:1: this workflow has no `steps`; add one, such as `steps: [{id: first, tool: ...}]`"},
      {"workflow: w\nsteps:\n  - tool: noop", "3:5: this step has no `id`; add one, such as `id: fetch`"},
      {"workflow: w\nsteps:\n  - id: a", "3:5: this step has no `tool`; add one, such as `tool: http.request`"},
      {"workflow: w\nsteps: []", "2:8: `steps` is empty; a workflow has at least one step"},
      {"workflow: w\nsteps:\n- id: a\n  tool: http.request\n  with: {method: GET}",
       "5:3: `http.request` needs `url` in `with`: text"},
      {"workflow: w\nsteps:\n- id: a\n  tool: shell", "3:3: `shell` needs `args` in `with`: a list of texts"},
      {"", "1:1: the document is empty"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, say_which_kind_is_wanted_and_which_was_found) {
  const std::string too_long(description_chars_max + 1, 'x');
  const Row rows[] = {
      {"- a", "1:1: `workflow` must be a map that begins with `workflow: <name>`, not a list"},
      {"hello", "1:1: `workflow` must be a map that begins with `workflow: <name>`, not `hello`"},
      {"workflow: [w]\nsteps: [{id: a, tool: noop}]", "1:11: `workflow` must be a name, not a list"},
      {"workflow: w\nsteps: {a: noop}", "2:8: `steps` must be a list, not a map"},
      {"workflow: w\nsteps:\n- noop\n-",
       "3:3: `steps` must be a list of maps, not `noop`\n"
       "4:1: `steps` must be a list of maps, not empty"},
      head("description: [x]", "2:14: `description` must be text, not a list"),
      step("description: {a: b}", "3:36: `description` must be text, not a map"),
      gate("description: ~", "3:40: `description` must be text, not empty"),
      head("description: " + too_long, "2:14: `description` has at most 2000 characters; this one has 2001"),
      gate("description: " + too_long, "3:40: `description` has at most 2000 characters; this one has 2001"),
      head("caps: 5", "2:7: `caps` must be a map, not `5`"),
      head("retry: often", "2:8: `retry` must be a map, not `often`"),
      head("retry: {schedule: 5s}", "2:19: `schedule` must be a list, not `5s`"),
      head("retry: {max_attempts: \"4\"}",
           "2:23: `max_attempts` must be a whole number from 1 to 100, not the text `4`"),
      head("timeout:", "2:1: `timeout` must be a duration such as 90s, 15m or 4h, not empty"),
      step("with: 5", "3:29: `with` must be a map, not `5`"),
      step("needs: a", "3:30: `needs` must be a list, not `a`"),
      step("needs: [[a]]", "3:31: `needs` must be a list of step ids, not a list"),
      step("risk: medium", "3:29: `risk` must be low, med or high, not `medium`"),
      step("idempotency_key: [x]", "3:40: `idempotency_key` must be text, not a list"),
      step("idempotency_key: ''", "3:40: `idempotency_key` is empty; remove it to get one made of run and step"),
      gate("two_person: \"true\"", "3:39: `two_person` must be true or false, not the text `true`"),
      gate("two_person: yes", "3:39: `two_person` must be true or false, not `yes`"),
      gate("tier: 1", "3:33: `tier` must be low, med or high, not `1`"),
      gate("prompt: {a: b}", "3:35: `prompt` must be text, not a map"),
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, refuse_bad_names) {
  const std::string rule = ": a letter or digit first, then also `.`, `_` and `-`, at most 64 characters";
  const Row rows[] = {
      {"workflow: my flow\nsteps: [{id: a, tool: noop}]", "1:11: `workflow` must be a name, not `my flow`" + rule},
      {"workflow: w\nsteps: [{id: a/b, tool: noop}]", "2:14: `id` must be a name, not `a/b`" + rule},
      {"workflow: w\nsteps: [{id: \"\", tool: noop}]", "2:14: `id` must be a name, not ``" + rule},
      {"workflow: w\nsteps: [{id: " + std::string(65, 'x') + ", tool: noop}]",
       "2:14: `id` must be a name, not `" + std::string(60, 'x') + "...`" + rule},
      {"workflow: w\nsteps: [{id: a b, tool: noop}, {id: c, tool: noop, needs: [a b]}]",
       "2:14: `id` must be a name, not `a b`" + rule},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, suggest_the_nearest_tool) {
  const Row rows[] = {
      {"workflow: w\nsteps:\n- id: a\n  tool: http.reqest\n  with: {any: thing}",
       "4:9: there is no tool `http.reqest`; did you mean `http.request`?"},
      {"workflow: w\nsteps:\n- id: a\n  tool: aproval", "4:9: there is no tool `aproval`; did you mean `approval`?"},
      {"workflow: w\nsteps:\n- id: a\n  tool: teleport",
       "4:9: there is no tool `teleport`; there are approval, wait, noop, sleep, transform, http.request and shell"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, name_the_line_of_a_duplicate_step_id) {
  EXPECT_EQ(errors_of("workflow: w\nsteps:\n- id: a\n  tool: noop\n- id: b\n  tool: noop\n- id: a\n  tool: noop\n"),
            "7:7: step `a` is already defined in line 3; choose another id");
}

TEST(WorkflowErrors, refuse_needs_that_cannot_be_met) {
  const Row rows[] = {
      {"workflow: w\nsteps:\n- {id: fetch, tool: noop}\n- {id: b, tool: noop, needs: [fecth]}",
       "4:31: there is no step `fecth`; did you mean `fetch`?"},
      step("needs: [zzz]", "3:31: there is no step `zzz`"),
      step("needs: [a]", "3:31: a step cannot need itself; remove `a` from its `needs`"),
      {"workflow: w\nsteps:\n- {id: a, tool: noop}\n- {id: b, tool: noop, needs: [a, a]}",
       "4:34: step `a` is already in this list; remove one of the two"},
      {"workflow: w\nsteps:\n- {id: a, tool: noop, needs: [b]}\n- {id: b, tool: noop, needs: [a]}",
       "3:31: these steps wait for each other for ever: a -> b -> a"},
      {"workflow: w\nsteps:\n- {id: a, tool: noop, needs: [b]}\n- {id: b, tool: noop}",
       "3:31: these steps wait for each other for ever: a -> b -> a; `b` needs the step before it, because it has no "
       "`needs` of its own"},
      {"workflow: w\nsteps:\n- {id: x, tool: noop}\n- {id: a, tool: noop, needs: [x, c]}\n"
       "- {id: b, tool: noop, needs: [a]}\n- {id: c, tool: noop, needs: [b]}",
       "4:34: these steps wait for each other for ever: a -> c -> b -> a"},
      {"workflow: w\nsteps:\n- {id: a, tool: noop, needs: [b]}\n- {id: b, tool: noop, needs: [a]}\n"
       "- {id: c, tool: noop, needs: [d]}\n- {id: d, tool: noop, needs: [c]}",
       "3:31: these steps wait for each other for ever: a -> b -> a\n"
       "5:31: these steps wait for each other for ever: c -> d -> c"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, refuse_numbers_durations_and_money_out_of_range) {
  const std::string span = " must be a duration such as 90s, 15m or 4h of at most 366d";
  const std::string amount =
      "`budget_usd` must be an amount such as \"2.50\", with at most six decimals, from 0 to 1000000000";
  const Row rows[] = {
      head("timeout: 15 minutes", "2:10: `timeout`" + span + " and at least 1ms, not `15 minutes`"),
      head("timeout: 90", "2:10: `timeout`" + span + " and at least 1ms, not `90`"),
      head("timeout: 0s", "2:10: `timeout`" + span + " and at least 1ms, not `0s`"),
      head("timeout: 400d", "2:10: `timeout`" + span + " and at least 1ms, not `400d`"),
      head("budget_usd: -1", "2:13: " + amount + ", not `-1`"),
      head("budget_usd: 1.0000001", "2:13: " + amount + ", not `1.0000001`"),
      head("budget_usd: [1]", "2:13: " + amount + ", not a list"),
      head("retry: {max_attempts: 0}", "2:23: `max_attempts` must be a whole number from 1 to 100, not `0`"),
      head("retry: {max_attempts: 101}", "2:23: `max_attempts` must be a whole number from 1 to 100, not `101`"),
      head("retry: {max_attempts: 2.5}", "2:23: `max_attempts` must be a whole number from 1 to 100, not `2.5`"),
      head("retry: {jitter: 1.1}", "2:17: `jitter` must be a number from 0 to 1, not `1.1`"),
      head("retry: {jitter: -0.1}", "2:17: `jitter` must be a number from 0 to 1, not `-0.1`"),
      head("retry: {jitter: .nan}", "2:17: `jitter` must be a number from 0 to 1, not `.nan`"),
      head("retry: {base: fast}", "2:15: `base`" + span + ", not `fast`"),
      head("retry: {base: 20m}", "2:8: `base` (20m) must not be longer than `max` (10m, the default)"),
      head("retry: {base: 2m, max: 1m}", "2:8: `base` (2m) must not be longer than `max` (1m)"),
      head("retry: {schedule: []}", "2:19: `schedule` must hold 1 to 99 durations, such as [5s, 30s, 2m, 10m]"),
      head("retry: {schedule: [1s, x]}", "2:24: `schedule`" + span + ", not `x`"),
      head("retry: {schedule: [1s], base: 1s}", "2:25: `base` has no meaning beside `schedule`; remove one of the two"),
      head("caps: {max_concurrency: 0}", "2:25: `max_concurrency` must be a whole number from 1 to 1000000, not `0`"),
      head("caps: {max_runs_per_min: 1e3}",
           "2:26: `max_runs_per_min` must be a whole number from 1 to 1000000, not `1e3`"),
      head("caps: {max_writes_per_run: -1}",
           "2:28: `max_writes_per_run` must be a whole number from 0 to 1000000, not `-1`"),
      step("lease: 0s", "3:30: `lease`" + span + " and at least 1ms, not `0s`"),
      step("timeout: soon", "3:32: `timeout`" + span + " and at least 1ms, not `soon`"),
      step("retry: {max_attempts: 999}", "3:45: `max_attempts` must be a whole number from 1 to 100, not `999`"),
      gate("expires: never", "3:36: `expires`" + span + " and at least 1ms, not `never`"),
      gate("quorum: 0", "3:35: `quorum` must be a whole number from 1 to 20, not `0`"),
      gate("quorum: 21", "3:35: `quorum` must be a whole number from 1 to 20, not `21`"),
      gate("two_person: true, quorum: 3", "3:53: `two_person` means a quorum of 2; remove `quorum`, or set it to 2"),
      gate("approvers: ada", "3:38: `approvers` must be a list, not `ada`"),
      gate("approvers: []", "3:38: `approvers` names 1 to 50 people and groups, such as [ada, group:finance]"),
      gate("approvers: [ada, \"group:\"]", "3:44: `group:` is neither a person's name nor group:NAME"),
      gate("approvers: [ada, ada]", "3:44: `ada` is named twice"),
      gate("approvers: [ada], quorum: 2", "3:38: `approvers` names fewer people than must agree: 2"),
      gate("expires: 1h, remind: 1h", "3:48: `remind` is not before the approval expires, after 1h"),
      gate("expires: 1h, escalate: {after: 2h, to: [ada]}",
           "3:50: `after` is not before the approval expires, after 1h"),
      gate("escalate: {after: 2h}", "3:37: `escalate` has no `to`; add one, such as `to: [group:heads]`"),
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, keep_work_and_approvals_apart) {
  std::string text = "workflow: w\nsteps:\n- id: a\n  tool: approval\n";
  std::string errors;
  int line = 5;
  for (const std::string key :
       {"with: {}", "retry: {}", "timeout: 5s", "lease: 5s", "risk: low", "idempotency_key: x"}) {
    text += "  " + key + "\n";
    errors += std::to_string(line++) + ":3: `" + key.substr(0, key.find(':')) +
              "` has no meaning on an approval, which people decide and no worker runs; remove it\n";
  }
  errors.pop_back();
  EXPECT_EQ(errors_of(text), errors);

  text = "workflow: w\nsteps:\n- id: a\n  tool: noop\n";
  errors.clear();
  line = 5;
  for (const std::string key : {"tier: low", "two_person: true", "quorum: 2", "expires: 5s", "prompt: x",
                                "approvers: [ada]", "remind: 1h", "escalate: {after: 1h, to: [ada]}"}) {
    text += "  " + key + "\n";
    errors += std::to_string(line++) + ":3: `" + key.substr(0, key.find(':')) +
              "` belongs to a step with `tool: approval`; remove it\n";
  }
  errors.pop_back();
  EXPECT_EQ(errors_of(text), errors);
}

TEST(WorkflowErrors, say_how_a_timer_is_written) {
  const auto timer = [](const std::string& keys, const std::string& errors) {
    return Row{"workflow: w\nsteps:\n- {id: a, tool: wait" + keys + "}\n", errors};
  };
  const std::string either =
      "3:3: a wait has either `for`, a duration such as 3d, or `until`, a time such as "
      "2030-01-31T09:00:00Z";
  const Row rows[] = {
      timer("", either),
      timer(", for: 3d, until: \"2030-01-31T09:00:00Z\"", either),
      timer(", until: tomorrow", "3:30: `until` must be a time such as 2030-01-31T09:00:00Z"),
      timer(", for: 3d, retry: {}",
            "3:32: `retry` has no meaning on a wait, which is a timer and no worker runs; remove it"),
      {"workflow: w\nsteps:\n- {id: a, tool: sleep, with: {duration: 6s}, timeout: 2s}\n",
       "3:46: `timeout` has no meaning on a wait, which is a timer and no worker runs; remove it"},
  };
  expect_errors(rows);
  EXPECT_TRUE(errors_of("workflow: w\nsteps:\n- {id: a, tool: wait, for: soon}\n").starts_with("3:28: `for` "));
  EXPECT_TRUE(errors_of("workflow: w\nsteps:\n- {id: a, tool: wait, for: \"${{ secrets.PAUSE }}\"}\n")
                  .contains("no secret can stand in it"));
}

TEST(WorkflowErrors, point_into_an_expression) {
  const std::string expected = "an expression starts with `input`, `steps.<id>.output`, `run` or `secrets.<NAME>`";
  const Row rows[] = {
      step("with: {note: \"${{ env.HOME }}\"}", "3:41: " + expected),
      step("with: {note: 'x ${{ env.HOME }}'}", "3:43: " + expected),
      {"workflow: w\nsteps:\n- id: a\n  tool: noop\n  with:\n    note: größe ${{ env.HOME }}", "6:21: " + expected},
      // Escapes and folded lines move the columns: then the scalar itself is the place.
      step("with: {note: \"\\t${{ env.HOME }}\"}", "3:36: " + expected),
      {"workflow: w\nsteps:\n- id: a\n  tool: noop\n  with:\n    note: |\n      x\n      ${{ env.HOME }}",
       "6:11: " + expected},
      {"workflow: w\nsteps:\n- id: a\n  tool: noop\n  with:\n    note: >-\n      ${{ env.HOME }}", "6:11: " + expected},
      step("with: {note: \"${{ input.x\"}",
           "3:37: `${{` is not closed with `}}`; to mean the characters themselves, write `$${{`"),
      step("with: {note: \"${{ input.x | upper }}\"}", "3:49: an expression is one path and nothing else, then `}}`"),
      step("idempotency_key: \"${{ inputs.x }}\"", "3:45: " + expected),
      gate("prompt: \"${{ nope }}\"", "3:40: " + expected),
      {"workflow: w\nsteps:\n- id: a\n  tool: http.request\n  with: {url: u, body: {\"${{ input.x }}\": 1}}",
       "5:25: a key cannot hold an expression; only a value can"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, refuse_to_read_a_step_that_may_not_have_finished) {
  const std::string steps = "workflow: w\nsteps:\n- {id: a, tool: noop}\n- {id: b, tool: noop, needs: []}\n";
  const Row rows[] = {
      {steps + "- {id: c, tool: noop, with: {note: \"${{ steps.a.output }} ${{ steps.b.output }}\"}}",
       "5:37: step `a` may not have finished when this step starts; add it to this step's `needs`"},
      {steps + "- {id: c, tool: noop, needs: [a], with: {note: \"${{ input[\\\"}}\\\"] }} ${{ steps.b.output }}\"}}",
       "5:48: step `b` may not have finished when this step starts; add it to this step's `needs`"},
      {steps + "- {id: c, tool: noop, needs: [a], with: {note: '${{ input[\"}}\"] }} ${{ steps.b.output }}'}}",
       "5:68: step `b` may not have finished when this step starts; add it to this step's `needs`"},
      {steps + "- {id: c, tool: noop, needs: [a], with: {note: '$${{ steps.b $$${{ steps.b.output }}'}}",
       "5:64: step `b` may not have finished when this step starts; add it to this step's `needs`"},
      {steps + "- {id: fetch, tool: noop, with: {note: \"${{ steps.fecth.output }}\"}}",
       "5:41: there is no step `fecth`; did you mean `fetch`?"},
      {steps + "- {id: c, tool: noop, with: {note: \"${{ steps.c.output }}\"}}",
       "5:37: a step cannot read its own output"},
      {steps + "- {id: c, tool: approval, prompt: \"${{ steps.a.output }}\"}",
       "5:36: step `a` may not have finished when this step starts; add it to this step's `needs`"},
      {steps + "- {id: c, tool: noop, idempotency_key: \"${{ steps.z1.output }}\"}", "5:41: there is no step `z1`"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, allow_expressions_in_three_places_only) {
  const std::string hint = "; only `with`, `idempotency_key` and `prompt` may hold an expression";
  const Row rows[] = {
      head("timeout: ${{ input.t }}",
           "2:10: `timeout` must be a duration such as 90s, 15m or 4h of at most 366d and at least 1ms, not `${{ "
           "input.t }}`" +
               hint),
      head("description: ${{ input.t }}", "2:14: `description` must be text, not `${{ input.t }}`" + hint),
      {"workflow: w\nsteps:\n- {id: a, tool: \"${{ input.t }}\"}",
       "3:17: `tool` must be the name of a tool, not the text `${{ input.t }}`" + hint},
      {"workflow: w\nsteps:\n- {id: a, tool: http.request, with: {url: u, wait: \"$${{ input.t }}\"}}",
       "3:52: `wait` must be a duration such as 90s, 15m or 4h of at most 366d, not the text `$${{ input.t }}`"},
      {"workflow: w\nsteps:\n- {id: a, tool: http.request, with: {url: u, redirects: \"$${{ input.t }}\"}}",
       "3:57: `redirects` must be a number, not the text `$${{ input.t }}`"},
      step("risk: \"${{ input.r }}\"", "3:29: `risk` must be low, med or high, not the text `${{ input.r }}`" + hint),
  };
  expect_errors(rows);
}

Row http(const std::string& keys, const std::string& errors) {
  return {"workflow: w\nsteps:\n- id: a\n  tool: http.request\n  with: {url: u, " + keys + "}\n", errors};
}

TEST(WorkflowErrors, check_literals_against_the_kinds_of_the_tool) {
  const Row rows[] = {
      http("method: 5", "5:26: `method` must be text in quotes, not `5`"),
      http("method: [GET]", "5:26: `method` must be text, not a list"),
      http("method: ~", "5:26: `method` must be text, not empty"),
      http("headers: {A: 1, B: x}", "5:31: `A` must be text in quotes, not `1`"),
      http("headers: [x]", "5:27: `headers` must be a map of texts, not a list"),
      http("redirects: \"5\"", "5:29: `redirects` must be a number, not the text `5`"),
      http("redirects: \"5${{ input.x }}\"",
           "5:29: `redirects` must be a number; text around an expression makes it text"),
      http("insecure: yes", "5:28: `insecure` must be true or false, not `yes`"),
      http("wait: 5", "5:24: `wait` must be a duration such as 90s, 15m or 4h of at most 366d, not `5`"),
      http("body: 123456789012345678901234567890",
           "5:24: `123456789012345678901234567890` is too large for a whole number; put it in quotes to keep it as "
           "text"),
      http("redirects: .inf", "5:29: `.inf` is not a number that JSON knows; put it in quotes to keep it as text"),
      http("redirects: 1e999", "5:29: `1e999` is outside the range of numbers; put it in quotes to keep it as text"),
      {"workflow: w\nsteps:\n- id: a\n  tool: shell\n  with: {args: [ls, 5], env: [], files: {}}",
       "5:21: `args` must be text in quotes, not `5`\n5:30: `env` must be a map, not a list\n"
       "5:41: `files` must be a list, not a map"},
  };
  expect_errors(rows);
}

TEST(WorkflowErrors, name_the_first_step_over_the_limit) {
  std::string text = "workflow: w\nsteps:\n";
  for (std::size_t i = 0; i < steps_max; ++i) text += "- {id: s" + std::to_string(i) + ", tool: noop}\n";
  EXPECT_EQ(errors_of(text), "no error");
  text += "- {id: more, tool: noop}\n- {id: and-more, tool: noop}\n";
  EXPECT_EQ(errors_of(text), "1003:3: a workflow has at most 1000 steps; this one has 1002");
}

TEST(WorkflowErrors, come_sorted_by_place_and_not_without_end) {
  std::string text = "steps:\n";
  for (int i = 0; i < 30; ++i) text += "- {tool: nope, id: s" + std::to_string(i) + ", bad: 1}\n";
  text += "workflow: a b\n";
  const auto workflow = workflow_from(text);
  ASSERT_FALSE(workflow);
  const auto& errors = workflow.error();
  EXPECT_EQ(errors.size(), source_errors_max);
  EXPECT_EQ(errors[0].place.line, 2);
  for (std::size_t i = 1; i < errors.size(); ++i)
    EXPECT_LE(std::pair(errors[i - 1].place.line, errors[i - 1].place.column),
              std::pair(errors[i].place.line, errors[i].place.column));
}

TEST(WorkflowErrors, print_as_compilers_do) {
  EXPECT_EQ(print_error("flow.yaml", {{7, 12}, "reason"}), "flow.yaml:7:12: reason");
}

TEST(WorkflowErrors, of_a_workflow_that_another_engine_carries) {
  auto restate = [](const std::string& lines, const std::string& errors) {
    return Row{"workflow: w\nprovider: restate\n" + lines, errors};
  };
  auto step_functions = [](const std::string& target, const std::string& errors) {
    return Row{"workflow: w\nprovider: stepfunctions\ntarget: {" + target + "}\n", errors};
  };
  const std::string target = "target: {service: S, handler: h}\n";
  const std::string arn =
      "`state_machine` must be the ARN of a state machine, such as "
      "arn:aws:states:eu-west-1:123456789012:stateMachine:ship";
  const Row rows[] = {
      restate(target, "no error"),
      restate("", "1:1: this workflow has no `target`; add one, such as `target: {service: Shipping, handler: ship}`"),
      restate("target: {service: S}\n", "3:9: `target` has no `handler`; add one, such as `handler: ship`"),
      restate("target: {service: a/b, handler: h}\n",
              "3:19: `service` is a name, such as `service: Shipping`, not an address"),
      restate(target + "steps: [{id: a, tool: noop}]\n",
              "4:1: `steps` is for workflows whose steps pawl carries out; this one's `provider` has that itself; "
              "remove one of "
              "the two"),
      restate("target: {service: S, handler: h, key: \"${{ secrets.TOKEN }}\"}\n",
              "3:40: it is kept in the journal, so no secret can stand in it"),
      restate(
          target + "approvals: [{id: a, needs: [b]}]\n",
          "4:21: unknown key `needs`; an approval takes id, description, tier, two_person, quorum, expires, prompt, "
          "approvers, remind and escalate"),
      head("target: {service: S, handler: h}",
           "2:1: `target` belongs to a workflow with `provider: restate` or `provider: stepfunctions`; add that, or "
           "remove it"),
      head("provider: temporal", "2:11: `provider` must be native, external, restate or stepfunctions, not `temporal`"),
      step_functions("state_machine: \"arn:aws:states:eu-west-1:123456789012:stateMachine:ship\"", "no error"),
      step_functions("state_machine: ship", "3:25: " + arn),
  };
  expect_errors(rows);
}

}  // namespace
}  // namespace pawl
