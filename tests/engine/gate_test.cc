// The gate as the engine has it: who may decide, that an approval is for exactly what was approved, and that a policy
// which cannot decide lets nothing happen.
#include <gtest/gtest.h>

#include <functional>

#include "crypto/sha256.h"
#include "engine/test_server.h"
#include "govern/policies.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

constexpr const char* writing = "workflow: w\nsteps: [{id: a, tool: write}]";
constexpr const char* ask_one = "policy: p\nrules: [{id: ask, effect: needs_approval}]";

Action an_action() {
  return {.connector = "desk",
          .operation = "ticket.update",
          .target = "desk/ticket/1",
          .fields = R"({"group":"network"})",
          .risk = Tier::med,
          .idempotency_key = "desk:1:network"};
}

// A server whose one worker proposes, by whatever policy is published.
struct GatedServer : TestServer {
  Worker& only_worker = worker("w1", 8);

  Answer<GateAnswer> propose(const Lease& lease, const Action& action) {
    Verdict verdict = policies.judge(*engine().find_tenant(tenant), action, lease.workspace, lease.workflow);
    Answer<GateAnswer> answer;
    engine().request(ProposeEffect{.tenant = tenant,
                                   .run = lease.run,
                                   .step = lease.step,
                                   .proof = lease.proof(),
                                   .proposal = std::make_shared<const Proposal>(
                                       Proposal{.action = action, .digest = digest_of(sha256, action)}),
                                   .verdict = verdict},
                     answer.reply());
    turn();
    return answer;
  }
  Lease lease() {
    offer(only_worker, 1);
    turn();
    return only_worker.take();
  }
  RunId create_by(const std::string& actor, const std::string& workflow = "w") {
    NewRun wanted = request(workflow);
    wanted.by.text = actor;
    return create(std::move(wanted));
  }

  Policies policies;
};

// ---- Leases

TEST(GateLease, what_ran_out_allows_nothing_even_before_anybody_noticed) {
  GatedServer server;
  server.publish(writing);
  server.publish_policy("policy: p\nrules: [{id: all, effect: allow}]");
  server.create("w");
  Lease lease = server.lease();
  server.wait(lease.term);
  EXPECT_TRUE(server.propose(lease, an_action()).refused_as(RefusalCode::lease_lost));
  Lease again = server.lease();
  EXPECT_GT(again.token, lease.token);
  EXPECT_EQ(server.propose(again, an_action()).value().effect, Effect::allow);
}

TEST(GateLease, a_worker_in_the_process_holds_its_lease_as_long_as_it_is_there) {
  GatedServer server;
  server.publish(writing);
  server.publish_policy("policy: p\nrules: [{id: all, effect: allow}]");
  server.create("w");
  Worker& local = server.worker("local/1", 1);
  server.engine().remove_worker(server.only_worker.name);
  server.turn();
  Lease lease = local.take();
  server.wait(10 * lease.term);
  EXPECT_EQ(server.propose(lease, an_action()).value().effect, Effect::allow);
}

// ---- Who is who

// Ada has two keys and an account; with one of them she made a key that is nobody's, and with that another. Bob has a
// key and an account, cyd an account. One more key is nobody's.
struct People : GatedServer {
  std::map<std::string, std::string> actors;

  People() {
    add_key("ada-1", "admin");
    add_key("ada-2", "admin");
    add_key("bob-1", "admin");
    add_key("nobodys", "admin");
    add_key("made-by-ada", actors.at("ada-1"));
    add_key("made-by-that", actors.at("made-by-ada"));
    set("ada", {"ada-1", "ada-2"});
    set("bob", {"bob-1"});
    set("cyd", {});
    set("dee", {});
    for (const char* name : {"ada", "bob", "cyd", "dee"}) {
      actors[std::string(name) + "-slack"] = account(name);
      actors[name] = std::string("person:") + name;
    }
    actors["stranger-slack"] = account("stranger");
    turn();
  }

  static std::string account(const std::string& name) { return "slack:T1:" + name; }
  void add_key(const std::string& name, const std::string& by) {
    KeyId key{{1, ++keys_made_}};
    engine().request(TenantRequest{tenant, KeyCreated{key, name, Role::operator_, "hash", end_of_time}, Actor{by}});
    actors[name] = actor_of(key).text;
    keys_[name] = key;
  }
  void set(const std::string& name, const std::vector<std::string>& keys) {
    PersonSet person{name, {}, {account(name)}};
    for (const std::string& key : keys) person.keys.insert(keys_.at(key));
    engine().request(TenantRequest{tenant, person, Actor{"admin"}});
  }

 private:
  std::uint64_t keys_made_ = 0;
  std::map<std::string, KeyId> keys_;
};

constexpr auto counted = std::nullopt;  // as a vote, or as a repeat of one
constexpr auto self = RefusalCode::self_approval;
constexpr auto nobody = RefusalCode::not_a_person;

struct Matrix {
  const char* name;
  const char* terms;
  const char* asked_by;
  std::vector<std::pair<const char*, std::optional<RefusalCode>>> votes;
  bool approved;
};

const std::vector<Matrix> matrix{
    {"the one who asked", "two_person: true", "ada", {{"ada", self}}, false},
    {"the same person by another key", "two_person: true", "ada-1", {{"ada-2", self}}, false},
    {"the same key", "two_person: true", "ada-1", {{"ada-1", self}}, false},
    {"the same person by a Slack account", "two_person: true", "ada-1", {{"ada-slack", self}}, false},
    {"the same person by name", "two_person: true", "ada-1", {{"ada", self}}, false},
    {"asked in Slack, decided by key", "two_person: true", "ada-slack", {{"ada-2", self}}, false},
    {"a key that the one who asked made", "two_person: true", "ada-1", {{"made-by-ada", self}}, false},
    {"a key made by such a key", "two_person: true", "ada-2", {{"made-by-that", self}}, false},
    {"asked by a key that one made", "two_person: true", "made-by-ada", {{"ada-2", self}, {"ada-slack", self}}, false},
    {"asked by a key made by such a key", "two_person: true", "made-by-that", {{"ada", self}}, false},
    {"a key that is nobody's", "two_person: true", "ada-1", {{"nobodys", nobody}}, false},
    {"an account that is nobody's", "two_person: true", "ada-1", {{"stranger-slack", nobody}}, false},
    {"one other person", "two_person: true", "ada-1", {{"bob-1", counted}}, false},
    {"one other person, twice", "two_person: true", "ada-1", {{"bob-1", counted}, {"bob-1", counted}}, false},
    {"one other person by two identities",
     "two_person: true",
     "ada-1",
     {{"bob-1", counted}, {"bob-slack", counted}, {"bob", counted}},
     false},
    {"one other and the one who asked", "two_person: true", "ada-1", {{"bob-1", counted}, {"ada-2", self}}, false},
    {"one other and a key that is nobody's",
     "two_person: true",
     "ada-1",
     {{"bob-1", counted}, {"nobodys", nobody}},
     false},
    {"two other people", "two_person: true", "ada-1", {{"bob-1", counted}, {"cyd-slack", counted}}, true},
    {"two people, asked by a key that is nobody's",
     "two_person: true",
     "nobodys",
     {{"ada-1", counted}, {"bob", counted}},
     true},
    {"two people, one of them late",
     "two_person: true",
     "ada",
     {{"bob-slack", counted}, {"ada", self}, {"cyd", counted}},
     true},
    {"three of three", "quorum: 3", "ada-1", {{"ada-2", counted}, {"bob-1", counted}, {"cyd-slack", counted}}, true},
    {"three identities of two people",
     "quorum: 3",
     "ada-1",
     {{"ada-2", counted}, {"ada-slack", counted}, {"bob", counted}},
     false},
    {"two of three", "quorum: 3", "ada-1", {{"bob-1", counted}, {"cyd", counted}, {"bob-slack", counted}}, false},
    {"one of one", "quorum: 1", "ada-1", {{"ada-1", counted}}, true},
};

void expect_votes(People& server, RunId run, const Matrix& row) {
  for (const auto& [who, refused] : row.votes) {
    auto answer = server.command(run, ResolveApproval{{}, true, Actor{server.actors.at(who)}, {}});
    ASSERT_TRUE(answer.came());
    if (refused)
      EXPECT_TRUE(answer.refused_as(*refused)) << row.name << ": " << who;
    else
      EXPECT_TRUE(answer.accepted()) << row.name << ": " << who;
  }
  auto status = server.inspect(run).approvals.at(0).status;
  EXPECT_EQ(status, row.approved ? ApprovalStatus::approved : ApprovalStatus::requested) << row.name;
}

TEST(Identity, who_may_approve_a_gate_of_the_workflow) {
  for (const Matrix& row : matrix) {
    People server;
    server.publish("workflow: g\nsteps: [{id: ok, tool: approval, " + std::string(row.terms) + "}]");
    RunId run = server.create_by(server.actors.at(row.asked_by), "g");
    server.turn();
    expect_votes(server, run, row);
  }
}

// Asked for by one, and retried by bob: neither of them, by whatever identity, and no key that either made.
const std::vector<Matrix> retried_matrix{
    {"the one who asked first", "two_person: true", "ada-1", {{"ada-1", self}}, false},
    {"the same person by another key", "two_person: true", "ada-1", {{"ada-2", self}, {"ada-slack", self}}, false},
    {"the same person by name", "two_person: true", "ada-slack", {{"ada", self}}, false},
    {"a key that the one who asked first made", "two_person: true", "ada-1", {{"made-by-ada", self}}, false},
    {"a key made by such a key", "two_person: true", "ada-2", {{"made-by-that", self}}, false},
    {"asked first by a key that one made", "two_person: true", "made-by-ada", {{"ada-2", self}}, false},
    {"who retried it", "two_person: true", "ada-1", {{"bob-1", self}, {"bob-slack", self}, {"bob", self}}, false},
    {"two others", "two_person: true", "ada-1", {{"cyd-slack", counted}, {"dee", counted}}, true},
    {"one of one", "quorum: 1", "ada-1", {{"ada-1", counted}}, true},
};

TEST(Identity, who_may_approve_a_retried_run) {
  for (const Matrix& row : retried_matrix)
    for (bool twice : {false, true}) {
      People server;
      server.publish("workflow: g\nsteps: [{id: ok, tool: approval, " + std::string(row.terms) + "}]");
      RunId run = server.create_by(server.actors.at(row.asked_by), "g");
      for (int i = 0; i < (twice ? 2 : 1); ++i) {
        server.turn();
        server.cancel(run);
        Answer<RunAnswer> again;
        server.engine().request(RetryRun{server.tenant, run, Actor{server.actors.at("bob-1")}}, again.reply());
        server.turn();
        run = again.value().run;
      }
      expect_votes(server, run, row);
    }
}

TEST(Identity, who_may_approve_an_action) {
  for (const Matrix& row : matrix) {
    People server;
    server.publish(writing);
    server.publish_policy("policy: p\nrules: [{id: ask, effect: needs_approval, " + std::string(row.terms) + "}]");
    RunId run = server.create_by(server.actors.at(row.asked_by));
    EXPECT_EQ(server.propose(server.lease(), an_action()).value().effect, Effect::needs_approval);
    expect_votes(server, run, row);
    EXPECT_TRUE(server.inspect(run).receipts.empty());
    if (!row.approved) continue;
    EXPECT_EQ(server.propose(server.lease(), an_action()).value().effect, Effect::allow) << row.name;
  }
}

TEST(Identity, a_key_that_is_given_to_the_other_person_in_between_is_still_one_vote_a_person) {
  People server;
  server.publish("workflow: g\nsteps: [{id: ok, tool: approval, two_person: true}]");
  RunId run = server.create_by(server.actors.at("ada-1"), "g");
  server.command(run, ResolveApproval{{}, true, Actor{server.actors.at("bob-1")}, {}});
  server.set("cyd", {"nobodys"});
  server.turn();
  EXPECT_TRUE(server.command(run, ResolveApproval{{}, true, Actor{server.actors.at("bob-slack")}, {}}).accepted());
  EXPECT_EQ(server.inspect(run).approvals[0].votes.size(), 1u);
  EXPECT_TRUE(server.command(run, ResolveApproval{{}, true, Actor{server.actors.at("nobodys")}, {}}).accepted());
  const auto now = server.inspect(run);
  EXPECT_EQ(now.approvals[0].status, ApprovalStatus::approved);
  EXPECT_EQ(now.approvals[0].votes[1].by, Actor{"person:cyd"});
  EXPECT_EQ(now.approvals[0].votes[1].via, Actor{server.actors.at("nobodys")});
}

// ---- Exactly what was approved

TEST(Approved, each_field_changed_afterwards_is_denied_or_asked_about_anew) {
  const std::vector<std::pair<const char*, std::function<void(Action&)>>> changes{
      {"connector", [](Action& a) { a.connector = "other"; }},
      {"operation", [](Action& a) { a.operation = "ticket.delete"; }},
      {"target", [](Action& a) { a.target = "desk/ticket/2"; }},
      {"fields", [](Action& a) { a.fields = R"({"group":"root"})"; }},
      {"risk", [](Action& a) { a.risk = Tier::low; }},
      {"idempotency_key", [](Action& a) { a.idempotency_key = "another"; }},
  };
  for (const auto& [field, change] : changes) {
    GatedServer server;
    server.publish(writing);
    server.publish_policy(ask_one);
    RunId run = server.create("w");
    server.propose(server.lease(), an_action());
    server.approve(run, "person:ada");
    Action other = an_action();
    change(other);
    auto answer = server.propose(server.lease(), other);
    const auto now = server.inspect(run);
    EXPECT_NE(answer.value().effect, Effect::allow) << field;
    EXPECT_TRUE(now.receipts.empty()) << field;
    if (std::string_view(field) == "idempotency_key")
      EXPECT_EQ(now.status, RunStatus::waiting) << "an action of its own, which nobody has approved";
    else
      EXPECT_EQ(now.diagnostic->error_code, "ACTION_CHANGED") << field;
  }
}

TEST(Approved, under_a_policy_that_was_replaced_counts_for_nothing) {
  GatedServer server;
  server.publish(writing);
  server.publish_policy(ask_one);
  RunId run = server.create("w");
  server.propose(server.lease(), an_action());
  server.approve(run, "person:ada");
  server.publish_policy("policy: p\nrules: [{id: asks-too, effect: needs_approval}]");
  EXPECT_EQ(server.propose(server.lease(), an_action()).value().effect, Effect::needs_approval);
  EXPECT_TRUE(server.inspect(run).receipts.empty());
}

TEST(Approved, a_thousand_copies_of_one_decision_are_one_decision_and_one_event) {
  GatedServer server;
  server.publish(writing);
  server.publish_policy(ask_one);
  RunId run = server.create("w");
  server.propose(server.lease(), an_action());
  ApprovalId approval = server.inspect(run).approvals[0].id;
  std::uint64_t before = server.inspect(run).seq;
  std::vector<Answer<RunAnswer>> answers(1000);
  for (auto& answer : answers)
    server.engine().request(RunRequest{server.tenant, run, ResolveApproval{approval, true, Actor{"person:ada"}, {}}},
                            answer.reply());
  server.turn();
  for (auto& answer : answers) ASSERT_TRUE(answer.accepted());
  EXPECT_EQ(server.inspect(run).seq, before + 4) << "approved, the step ready, the run resumed, the step claimed";
  EXPECT_EQ(server.inspect(run).approvals[0].votes.size(), 1u);
}

// ---- A policy that cannot decide

TEST(PolicyFault, what_cannot_be_published_changes_nothing) {
  for (const char* condition :
       {"risk = ", "conector = 'desk'", "readfile('/etc/passwd') = ''", "load_extension('x') = 1",
        "1); ATTACH 'x.db' AS x; --", "(SELECT count(*) FROM sqlite_master) > 0",
        "(SELECT 1 FROM pragma_database_list)", "writefile('x', 'y') = 1", "1; PRAGMA journal_mode=OFF",
        "edit('x') = 1", "fts3_tokenizer('x') = 1"}) {
    std::string source = "policy: p\nrules:\n- {id: r, effect: allow, when: \"" + std::string(condition) +
                         "\"}\n- {id: all, effect: allow}";
    EXPECT_FALSE(PolicySource::read(source, "test")) << condition;
  }
}

TEST(PolicyFault, what_fails_when_it_is_asked_has_no_effect) {
  const std::string huge = R"({"text":")" + std::string(action_fields_bytes_max + 1, 'x') + R"("})";
  std::string long_list = R"({"a":[0)";
  for (int i = 1; i < 300; ++i) long_list += ",0";
  long_list += "]}";
  const std::vector<std::tuple<const char*, const char*, std::string>> faults{
      {"an error", "abs(-9223372036854775807 - 1) > 0", "{}"},
      {"a wrong path", "json_extract(fields, 'a') = 1", "{}"},
      {"a time-out",
       "(SELECT count(*) FROM json_each(fields, '$.a') x, json_each(fields, '$.a') y, json_each(fields, '$.a') z) > 0",
       long_list},
      {"neither true nor false", "target", "{}"},
      {"a huge input", "1", huge},
  };
  for (const auto& [name, condition, fields] : faults) {
    GatedServer server;
    server.publish(writing);
    const std::string source = "policy: p\nrules:\n- {id: r, effect: allow, when: \"" + std::string(condition) +
                               "\"}\n- {id: all, effect: allow}";
    if (!PolicySource::read(source, "test")) {
      ADD_FAILURE() << name << " should be found when it is asked: " << PolicySource::read(source, "test").error();
      continue;
    }
    server.publish_policy(source);
    RunId run = server.create("w");
    Action action = an_action();
    action.fields = fields;
    const auto answer = server.propose(server.lease(), action);
    const auto now = server.inspect(run);
    EXPECT_TRUE(now.receipts.empty()) << name;
    if (fields.size() > action_fields_bytes_max) {
      EXPECT_TRUE(answer.refused_as(RefusalCode::invalid)) << name << " is no action, so no rule is asked about it";
      continue;
    }
    EXPECT_EQ(answer.value().effect, Effect::deny) << name;
    EXPECT_EQ(now.status, RunStatus::denied) << name;
    EXPECT_EQ(now.diagnostic->error_code, "POLICY_DENIED") << name;
  }
}

}  // namespace
}  // namespace pawl::tests
