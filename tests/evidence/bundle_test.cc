// A bundle of a real run, made by the notary on an engine with its threads; then every way to tamper with it.
#include "evidence/bundle.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <set>

#include "core/checkpoint.h"
#include "crypto/sha256.h"
#include "engine/runtime.h"
#include "evidence/archive.h"
#include "evidence/bundle_check.h"
#include "evidence/notary.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view canary = "canary-71c5";

class BundleTest : public testing::Test {
 protected:
  BundleTest() {
    std::string name = (fs::temp_directory_path() / "pawl-bundle-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    SqliteOptions options;
    options.folder = folder_ / "data";
    store_.emplace(options);
    tools_.expect_remote_tools();
    runtime_.emplace(*store_, tools_, clock_);
    runtime_->start();
    tenant_ = ask(CreateTenant{"default", {"admin"}});
    notary_.emplace(Notary::Parts{*runtime_, *store_, clock_, folder_ / "signing-key.json"});
  }
  ~BundleTest() override {
    runtime_->stop();
    runtime_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  template <class R>
  typename R::Answer ask(R value) {
    return runtime_->ask(std::move(value)).value();
  }
  // A gate that is approved and one that ends the run: no worker is needed.
  RunId run(const std::string& evidence = "metadata") {
    const std::string source = "workflow: w-" + evidence + "\nevidence: " + evidence +
                               "\nsteps:\n- {id: first, tool: approval, prompt: 'ship ${{ input.what }}?'}\n"
                               "- {id: second, tool: approval, two_person: false}\n";
    ask(PublishWorkflow{tenant_, source, "w", {"admin"}});
    NewRun request;
    request.tenant = tenant_;
    request.workflow.text = "w-" + evidence;
    request.by.text = "person:asker";
    request.input = R"({"what":")" + std::string(canary) + "\"}";
    return ask(std::move(request)).run;
  }
  void approve(RunId id) { ask(RunRequest{tenant_, id, ResolveApproval{{}, true, Actor{"person:ada"}, "fine"}}); }
  RunId ended(const std::string& evidence = "metadata") {
    RunId id = run(evidence);
    approve(id);
    approve(id);
    return id;
  }
  std::set<std::string> trusted() { return {notary_->keys().current().id()}; }

  std::vector<BundleFinding> problems_of(std::string_view bytes, const std::set<std::string>& keys) {
    std::vector<BundleFinding> out;
    summary_ = check_bundle(bytes, keys, [&](const BundleFinding& finding) { out.push_back(finding); });
    return out;
  }
  std::vector<BundleFinding> problems_of(std::string_view bytes) { return problems_of(bytes, trusted()); }

  // Signs anew what was changed: as an attacker would who has a key, or the server itself.
  std::string sealed(std::vector<ArchivePart> parts, const PrivateKey& key) {
    auto find = [&](std::string_view name) -> std::string& {
      return std::ranges::find(parts, name, &ArchivePart::name)->bytes;
    };
    auto manifest = parse_json(find("manifest.json")).value();
    for (Json& sum : manifest.as_object().at("parts").as_array()) {
      std::string& bytes = find(std::string(sum.at("name").as_string()));
      sum.as_object()["sha256"] = sha256(bytes).hex();
      sum.as_object()["bytes"] = bytes.size();
    }
    find("manifest.json") = canonical(manifest) + "\n";
    find("signature.json") =
        canonical(boost::json::object{{"key", key.public_key().id()},
                                      {"signature", key.sign(signed_manifest(find("manifest.json"))).hex()}}) +
        "\n";
    return write_archive(parts);
  }

  fs::path folder_;
  SystemClock clock_;
  ToolCatalog tools_;
  std::optional<SqliteStore> store_;
  std::optional<Runtime> runtime_;
  std::optional<Notary> notary_;
  TenantId tenant_;
  BundleSummary summary_;
};

TEST_F(BundleTest, a_bundle_is_good_and_the_same_each_time) {
  RunId id = ended();
  Bundle bundle = notary_->bundle(tenant_, id);
  for (const auto& finding : problems_of(bundle.bytes))
    ADD_FAILURE() << finding.part << " " << finding.seq << ": " << finding.what;
  EXPECT_EQ(summary_.status, "success");
  EXPECT_EQ(summary_.events, bundle.seq);
  EXPECT_TRUE(bundle.is_governed);
  ended();
  EXPECT_EQ(notary_->bundle(tenant_, id).bytes, bundle.bytes);
}

TEST_F(BundleTest, values_leave_only_when_the_workflow_says_so) {
  Bundle hidden = notary_->bundle(tenant_, ended());
  EXPECT_EQ(hidden.bytes.find(canary), std::string::npos);
  EXPECT_EQ(summary_.redacted, 0u);
  EXPECT_TRUE(problems_of(hidden.bytes).empty());
  EXPECT_EQ(summary_.redacted, 1u);
  Bundle full = notary_->bundle(tenant_, ended("full"));
  EXPECT_NE(full.bytes.find(canary), std::string::npos);
  EXPECT_TRUE(problems_of(full.bytes).empty());
  EXPECT_EQ(summary_.redacted, 0u);
}

TEST_F(BundleTest, a_run_that_goes_on_has_a_bundle_of_what_there_is) {
  RunId id = run();
  Bundle first = notary_->bundle(tenant_, id);
  EXPECT_TRUE(problems_of(first.bytes).empty());
  approve(id);
  Bundle second = notary_->bundle(tenant_, id);
  EXPECT_TRUE(problems_of(second.bytes).empty());
  EXPECT_GT(second.seq, first.seq);
}

TEST_F(BundleTest, every_byte_counts) {
  const std::string good = notary_->bundle(tenant_, ended()).bytes;
  for (std::size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    // A zip has fields that say nothing about its parts (versions, times, modes): whoever changes those changes no
    // evidence.
    auto parts = read_archive(bad);
    if (parts && write_archive(*parts) == good) continue;
    EXPECT_FALSE(problems_of(bad).empty()) << "byte " << i;
  }
  for (std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{10}, std::size_t{0}})
    EXPECT_FALSE(problems_of(good.substr(0, size)).empty());
  EXPECT_FALSE(problems_of(good + "x").empty());
  EXPECT_FALSE(problems_of("x" + good).empty());
}

TEST_F(BundleTest, parts_cannot_be_changed_removed_added_or_reordered) {
  const auto parts = read_archive(notary_->bundle(tenant_, ended()).bytes).value();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto changed = parts;
    changed[i].bytes += " ";
    EXPECT_FALSE(problems_of(write_archive(changed)).empty()) << "changed " << parts[i].name;
    auto removed = parts;
    removed.erase(removed.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(problems_of(write_archive(removed)).empty()) << "removed " << parts[i].name;
  }
  auto added = parts;
  added.push_back({"extra.json", "{}"});
  EXPECT_FALSE(problems_of(write_archive(added)).empty());
  auto moved = parts;
  std::swap(moved[3], moved[4]);
  EXPECT_FALSE(problems_of(write_archive(moved)).empty());
}

TEST_F(BundleTest, a_signer_cannot_say_what_the_events_do_not) {
  const auto parts = read_archive(notary_->bundle(tenant_, ended()).bytes).value();
  const PrivateKey key = notary_->keys().secret;
  ASSERT_TRUE(problems_of(sealed(parts, key)).empty());
  auto expect_found = [&](std::string_view name, std::string_view from, std::string_view to) {
    auto changed = parts;
    std::string& bytes = std::ranges::find(changed, name, &ArchivePart::name)->bytes;
    auto at = bytes.find(from);
    ASSERT_NE(at, bytes.npos) << name << " " << from;
    bytes.replace(at, from.size(), to);
    EXPECT_FALSE(problems_of(sealed(changed, key)).empty()) << name << ": " << from;
  };
  expect_found("run.json", "success", "failed");
  expect_found("steps.json", "succeeded", "canceled");
  expect_found("approvals.json", "person:ada", "person:eve");
  expect_found("receipts.json", "[]", "[{}]");
  expect_found("decisions.json", "\"decisions\":[]", "\"decisions\":[{}]");
  expect_found("cost.json", "0.00", "9.00");
  expect_found("events.jsonl", "person:ada", "person:eve");
  expect_found("workflow.yaml", "second", "secund");
  expect_found("checkpoint.json", "\"size\":", "\"size\":1");
}

TEST_F(BundleTest, a_stream_that_was_chained_anew_is_not_what_the_checkpoint_covers) {
  auto parts = read_archive(notary_->bundle(tenant_, ended()).bytes).value();
  problems_of(write_archive(parts));
  const RunId id = RunId::parse(summary_.run).value();
  std::string& lines = std::ranges::find(parts, "events.jsonl", &ArchivePart::name)->bytes;
  std::string chained;
  Hash head = genesis(StreamKey::of(tenant_, id));
  for (std::string_view rest = lines; !rest.empty();) {
    std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(line.size() + 1);
    if (auto at = line.find("person:ada"); at != line.npos) line.replace(at, 10, "person:eve");
    auto hash = line.rfind(",\"hash\":\"");
    head = chain_next(sha256, head, std::string_view(line).substr(9, hash - 9));
    chained += line.replace(hash + 9, 64, head.hex()) + "\n";
  }
  lines = chained;
  auto& manifest = std::ranges::find(parts, "manifest.json", &ArchivePart::name)->bytes;
  manifest.replace(manifest.find("\"head\":\"") + 8, 64, head.hex());
  auto problems = problems_of(sealed(parts, notary_->keys().secret));
  EXPECT_TRUE(std::ranges::any_of(problems, [](const BundleFinding& f) { return f.part == "checkpoint.json"; }));
}

TEST_F(BundleTest, another_key_is_not_trusted) {
  const std::string good = notary_->bundle(tenant_, ended()).bytes;
  EXPECT_FALSE(problems_of(good, {PrivateKey::make().public_key().id()}).empty());
  auto parts = read_archive(good).value();
  EXPECT_FALSE(problems_of(sealed(parts, PrivateKey::make())).empty());
}

TEST_F(BundleTest, a_key_that_took_over_is_followed_from_the_one_that_is_trusted) {
  RunId before = ended();
  const std::string old_bundle = notary_->bundle(tenant_, before).bytes;
  const std::set<std::string> first = trusted();
  notary_->rotate();
  const std::string new_bundle = notary_->bundle(tenant_, ended()).bytes;
  EXPECT_NE(trusted(), first);
  EXPECT_TRUE(problems_of(new_bundle, first).empty());
  EXPECT_TRUE(problems_of(new_bundle).empty());
  EXPECT_TRUE(problems_of(old_bundle, first).empty());
  // Trust does not go backwards: whoever knows only the new key cannot know who signed before it.
  EXPECT_FALSE(problems_of(old_bundle).empty());
}

TEST_F(BundleTest, checkpoints_go_on_from_each_other) {
  ended();
  EXPECT_TRUE(notary_->cover_all(tenant_));
  EXPECT_FALSE(notary_->cover_all(tenant_));
  ended();
  ended();
  EXPECT_TRUE(notary_->cover_all(tenant_));
  auto made = list_checkpoints(*store_, tenant_, {}, 10);
  ASSERT_EQ(made.size(), 2u);
  auto proof = find_consistency(*store_, tenant_, 1, 2);
  ASSERT_TRUE(proof);
  EXPECT_TRUE(check_consistency(*proof));
  EXPECT_TRUE(check_signature(proof->newer, notary_->keys().known));
  proof->older.checkpoint.root = proof->newer.checkpoint.root;
  EXPECT_FALSE(check_consistency(*proof));
  EXPECT_FALSE(find_consistency(*store_, tenant_, 1, 3));
}

}  // namespace
}  // namespace pawl
