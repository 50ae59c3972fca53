// What Step Functions answers, read. Nothing here trusts what it reads: an answer that is none is nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "providers/history.h"
#include "providers/provider.h"
#include "providers/transport.h"

namespace pawl::providers::stepfunctions {

// "ExecutionDoesNotExist"; empty for an answer that is no error, or has no name.
std::string error_of(const Response& response);
// For people.
std::string message_of(const Response& response);
bool is_throttling(const Response& response);
bool may_be_asked_again(const Response& response);
Outcome outcome_of(const Response& response);

// Of StartExecution; empty when it does not say.
std::string read_started(std::string_view body);

struct Execution {
  std::string status;
  std::string input;
  JsonText output;      // JSON, whatever they sent
  std::string failure;  // error and cause
};
// Nothing when it has no status.
std::optional<Execution> read_execution(std::string_view body);

struct HistoryPage {
  std::vector<HistoryEvent> events;
  std::string next;
};
std::optional<HistoryPage> read_history_page(std::string_view body);

struct ExecutionsPage {
  std::vector<std::string> executions;  // their ARNs
  std::string next;
};
std::optional<ExecutionsPage> read_executions_page(std::string_view body);

// The body of a list without the token of the next page, which may be another one each time that the same is listed.
struct ListedText {
  std::string_view before, token, after;

  // A token that is written with escapes is not the token.
  bool is_plain() const { return token.find('\\') == token.npos; }
  std::size_t hash() const;
};
ListedText cut_token(std::string_view body);

bool is_same_json(const std::string& a, const std::string& b);

}  // namespace pawl::providers::stepfunctions
