// Streams as a journal might hold them, line by line: of a run, and of a tenant. Whoever wrote them, reading says what
// is wrong and never stops the process; what is read is written as it was.
#include <boost/json/object.hpp>

#include "core/decide.h"
#include "core/event_header.h"
#include "core/invariants.h"
#include "core/run_object.h"
#include "core/snapshot.h"
#include "core/tenant.h"
#include "fuzz.h"
#include "some_workflow.h"
#include "store/tenant_state.h"

namespace pawl::fuzz {
namespace {

template <class Event, class Parse>
void check_text(const Event& event, Parse parse) {
  std::string text;
  append_event(text, event);
  const auto value = parse_json(text);
  check(value.has_value(), "an event is written as JSON");
  check_equal(canonical(*value), text, "an event's text is canonical");
  check_equal(read_event_header(text).type, text_in(value->get_object(), "type"), "a header has the event's type");
  const auto again = parse(text);
  check(again.has_value(), "an event that was written can be read");
  std::string second;
  append_event(second, *again);
  check_equal(second, text, "an event that was read is written as it was");
}

class RunStream {
 public:
  RunStream() {
    run_.workflow = &some_workflow();
    run_.id = RunId{IdBits{0x0192'0000'0000'7000, 0x8000'0000'0000'0001}};
  }

  void read(std::string_view line) {
    const auto event = parse_run_event(line);
    if (!event) return check(!event.error().empty(), "a text that is no event is told so");
    check_text(*event, parse_run_event);
    const Run before = run_;
    const auto folded = evolve_checked(run_, *event);
    if (!folded) {
      check(!folded.error().empty(), "an event that does not fit is told so");
      return check(same_fold(before, run_), "an event that does not fit leaves no trace");
    }
    check(run_.seq == before.seq + 1, "an event counts");
    const auto copy = read_snapshot(write_snapshot(run_), some_workflow());
    check(copy && same_fold(*copy, run_), "a snapshot is the run");
    next_due(run_, event->at);
    // In the middle of a commit a run may look as none ever should.
    if (!check_run(run_).empty()) return;
    for (const auto vocabulary : {Vocabulary::contract_v1, Vocabulary::state_machine, Vocabulary::runtime})
      check(parse_json(canonical(run_object(run_, vocabulary))).has_value(), "a run can be shown");
    for (StepIndex i = 0; i < run_.steps.size(); ++i) {
      const auto input = render_input(run_, i);
      check(input ? parse_json(*input).has_value() : !input.error().empty(), "a step's input is JSON, or why not");
    }
  }

 private:
  Run run_;
};

class TenantStream {
 public:
  void read(std::string_view line) {
    const auto event = parse_tenant_event(line);
    if (!event) return check(!event.error().empty(), "a text that is no event is told so");
    check_text(*event, parse_tenant_event);
    const Tenant before = tenant_;
    const auto folded = evolve_checked(tenant_, *event);
    if (!folded) {
      check(!folded.error().empty(), "an event that does not fit is told so");
      return check(before == tenant_, "an event that does not fit leaves no trace");
    }
    const auto copy = read_tenant(tenant_.id, write_tenant(tenant_));
    check(copy && *copy == tenant_, "a tenant's row is the tenant");
  }

 private:
  Tenant tenant_;
};

}  // namespace

FUZZ_TARGET(stream) {
  RunStream run;
  TenantStream tenant;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    run.read(line);
    tenant.read(line);
  }
}

}  // namespace pawl::fuzz
