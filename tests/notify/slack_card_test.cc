// Cards: what is proposed stands in them, within Slack's limits, and nothing in it is taken for anything but text.
#include "notify/slack_card.h"

#include <gtest/gtest.h>

#include "engine/workflows.h"

namespace pawl::notify {
namespace {

class CardTest : public testing::Test {
 protected:
  CardTest() {
    auto compiled =
        compile_workflow("workflow: triage\nsteps: [{id: assign, tool: servicenow.incident.update}]", "t", nullptr);
    workflow_ = std::move(compiled.value());
    run_.workflow = &workflow_;
    run_.id = RunId{{1, 2}};
    run_.steps.resize(1);
    approval_.id = ApprovalId{{3, 4}};
    approval_.expires_at = {1'794'790'000'000};
    approval_.terms.tier = Tier::med;
    approval_.policy_reason = {7, "R-12", "writes need approval"};
    propose(R"({"fields":{"assignment_group":"Network Ops","urgency":1},"sys_id":"8a50"})",
            R"({"assignment_group":"Service Desk"})");
  }

  void propose(std::string fields, std::string before) {
    approval_.proposal = std::make_shared<const Proposal>(Proposal{.action = {.connector = "servicenow",
                                                                              .operation = "incident.update",
                                                                              .target = "acme/incident/8a50",
                                                                              .fields = std::move(fields)},
                                                                   .digest = {},
                                                                   .before = std::move(before)});
  }
  boost::json::object card() {
    return card_of({.tenant = "acme", .run = run_, .approval = approval_, .requesters = {"op", "op's key <ci>"}});
  }
  // Of the one block with this kind of rich text.
  std::string literal(std::string_view kind) {
    auto made = card();
    for (const Json& block : made.at("blocks").as_array())
      if (block.at("type") == "rich_text" && block.at("elements").at(0).at("type").as_string() == kind)
        return std::string(block.at("elements").at(0).at("elements").at(0).at("text").as_string());
    return "";
  }

  Workflow workflow_;
  pawl::Run run_;
  Approval approval_;
};

TEST_F(CardTest, shows_field_before_and_after) {
  EXPECT_EQ(literal("rich_text_preformatted"),
            "field                    before          after\n"
            "fields.assignment_group  \"Service Desk\"  \"Network Ops\"\n"
            "fields.urgency           (unknown)       1\n"
            "sys_id                   (unknown)       \"8a50\"");
}

TEST_F(CardTest, says_why_somebody_is_asked) {
  std::string text = canonical(card());
  for (std::string_view said :
       {"rule R-12, version 7", "writes need approval", "*Risk tier*\\nmed", "<!date^1794790000^", "acme/incident/8a50",
        "Approval needed: servicenow.incident.update", "*Requested by*\\nop, op's key &lt;ci&gt;"})
    EXPECT_NE(text.find(said), text.npos) << said;
}

TEST_F(CardTest, takes_text_for_text) {
  approval_.policy_reason.reason = "<!channel> & co";
  propose(R"({"note":"<!here> ```"})", "");
  std::string blocks = canonical(card().at("blocks"));
  EXPECT_EQ(blocks.find("<!channel>"), blocks.npos);
  EXPECT_NE(blocks.find("&lt;!channel&gt; &amp; co"), blocks.npos);
  EXPECT_NE(literal("rich_text_preformatted").find("<!here> ```"), std::string::npos) << "literal, in rich text";
}

TEST_F(CardTest, keeps_the_limits_and_says_what_is_cut) {
  std::string fields = "{";
  for (int i = 0; i < 200; ++i)
    fields += (i ? ",\"" : "\"") + std::string(100, 'k') + std::to_string(i) + "\":\"" + std::string(500, 'v') + "\"";
  propose(fields + "}", "{}");
  approval_.policy_reason.reason = std::string(5000, '<');
  std::string name;
  for (int i = 0; i < 100; ++i) name += "é";
  approval_.status = ApprovalStatus::rejected;
  approval_.resolved_by = {"person:" + name};
  approval_.reason = std::string(5000, '>');
  auto made = card();
  EXPECT_LE(made.at("text").as_string().size(), 3000u);
  EXPECT_LE(made.at("blocks").as_array().size(), 50u);
  for (const Json& block : made.at("blocks").as_array()) {
    if (block.at("type") != "section") continue;
    if (const Json* text = block.as_object().if_contains("text")) {
      EXPECT_LE(text->at("text").as_string().size(), 3000u);
    } else {
      for (const Json& field : block.at("fields").as_array()) EXPECT_LE(field.at("text").as_string().size(), 2000u);
    }
  }
  std::string table = literal("rich_text_preformatted");
  EXPECT_LE(table.size(), 3000u);
  EXPECT_NE(table.find("(cut)"), table.npos);
  EXPECT_EQ(canonical(made).find("\"actions\""), std::string::npos) << "what is decided has no buttons";
}

TEST_F(CardTest, has_buttons_that_lead_back) {
  auto made = card();
  for (const Json& block : made.at("blocks").as_array()) {
    if (block.at("type") != "actions") continue;
    auto read = read_button(block.at("elements").at(0).at("value").as_string());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->tenant, "acme");
    EXPECT_EQ(read->run, run_.id);
    EXPECT_EQ(read->approval, approval_.id);
    return;
  }
  FAIL() << "no buttons";
}

TEST(CardButtons, that_are_not_ours_are_nothing) {
  for (std::string_view bad : {"", "{}", "[]", "null", "x", R"({"run":"run_x","approval":"apr_x","tenant":"t"})"})
    EXPECT_FALSE(read_button(bad)) << bad;
  EXPECT_FALSE(read_button(std::string(5000, ' ')));
}

}  // namespace
}  // namespace pawl::notify
