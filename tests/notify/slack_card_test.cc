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

  bool has_button(std::string_view action) {
    return canonical(card()).contains("\"action_id\":\"" + std::string(action) + "\"");
  }

  Workflow workflow_;
  pawl::Run run_;
  Approval approval_;
};

TEST_F(CardTest, shows_field_before_and_after) {
  EXPECT_EQ(literal("rich_text_preformatted"),
            "field                    before          after\n"
            "sys_id                   (unknown)       \"8a50\"\n"
            "fields.assignment_group  \"Service Desk\"  \"Network Ops\"\n"
            "fields.urgency           (unknown)       1");
}

TEST_F(CardTest, says_why_somebody_is_asked) {
  std::string text = canonical(card());
  for (std::string_view said :
       {"rule R-12, version 7", "writes need approval", "*Risk*\\nlow", "*Tier*\\nmed", "<!date^1794790000^",
        "acme/incident/8a50", "Approval needed: servicenow.incident.update",
        "*Requested by*\\nop, op's key &lt;ci&gt;"})
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

TEST_F(CardTest, shows_what_identifies_the_action_first_and_approves_only_what_it_shows_whole) {
  std::string fields = R"({"body":{)";
  for (int i = 0; i < 46; ++i) fields += (i ? ",\"f" : "\"f") + std::to_string(i) + "\":" + std::to_string(i);
  propose(fields + R"(},"method":"DELETE","url":"https://shop.example/orders/17"})", "");
  const std::string table = literal("rich_text_preformatted");
  EXPECT_LT(table.find("\"DELETE\""), table.find("https://shop.example/orders/17"));
  EXPECT_LT(table.find("https://shop.example/orders/17"), table.find("body.f0"));
  EXPECT_NE(table.find("(8 more fields are not shown)"), table.npos);
  EXPECT_FALSE(has_button("approval.approve"));
  EXPECT_TRUE(has_button("approval.reject"));
  const std::string text = canonical(card());
  EXPECT_NE(text.find("Too long to show here in full: `pawl approve " + run_.id.str() + " --approval " +
                      approval_.id.str() + "`"),
            text.npos);
}

TEST_F(CardTest, has_no_button_that_approves_when_anything_is_cut) {
  const std::string long_text(600, 'v');
  struct Case {
    std::string fields, before, target, prompt;
  };
  for (const Case& each :
       {Case{R"({"url":")" + long_text + "\"}", "", "t", ""},
        Case{R"({"a":1})", R"({"a":")" + long_text + "\"}", "t", ""},
        Case{R"({")" + long_text + R"(":1})", "", "t", ""}, Case{R"({"a":1})", "", std::string(5000, 't'), ""}}) {
    propose(each.fields, each.before);
    auto proposal = *approval_.proposal;
    proposal.action.target = each.target;
    approval_.proposal = std::make_shared<const Proposal>(proposal);
    EXPECT_FALSE(has_button("approval.approve")) << each.fields.substr(0, 20) << each.target.substr(0, 20);
    EXPECT_TRUE(has_button("approval.reject"));
  }
  approval_.proposal.reset();
  EXPECT_TRUE(has_button("approval.approve"));
  approval_.terms.prompt = std::string(5000, 'p');
  EXPECT_FALSE(has_button("approval.approve"));
  EXPECT_TRUE(has_button("approval.reject"));
}

TEST_F(CardTest, shows_values_of_usual_length_whole) {
  const std::string url = "https://shop.example/" + std::string(300, 'o');
  propose(R"({"method":"PUT","url":")" + url + "\"}", "");
  EXPECT_NE(literal("rich_text_preformatted").find("\"" + url + "\""), std::string::npos);
  EXPECT_TRUE(has_button("approval.approve"));
  EXPECT_NE(canonical(card()).find("`pawl show " + run_.id.str() + "`"), std::string::npos);
}

TEST_F(CardTest, shows_the_risk_of_the_action_and_the_tier_where_it_differs) {
  approval_.terms.two_person = true;
  approval_.terms.quorum = 2;
  approval_.terms.approvers = {"ada"};
  std::string text = canonical(card());
  EXPECT_NE(text.find("*Risk*\\nlow"), text.npos);
  EXPECT_NE(text.find("*Tier*\\nmed"), text.npos);
  approval_.terms.tier = Tier::low;
  text = canonical(card());
  EXPECT_NE(text.find("*Risk*\\nlow"), text.npos);
  EXPECT_EQ(text.find("*Tier*"), text.npos);
  approval_.proposal.reset();
  text = canonical(card());
  EXPECT_EQ(text.find("*Risk*"), text.npos) << "a gate has no action";
  EXPECT_NE(text.find("*Tier*\\nlow"), text.npos);
}

TEST_F(CardTest, counts_who_has_approved) {
  approval_.terms.quorum = 2;
  EXPECT_EQ(outcome_line(approval_), "0 of 2 have approved");
  approval_.votes.push_back({.by = {"person:bo"}, .via = {}, .at = {}});
  EXPECT_EQ(outcome_line(approval_), "1 of 2 have approved: bo");
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
