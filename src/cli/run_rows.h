// Lists of runs, newest first, from a folder or a server, and how they are shown.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/history.h"
#include "cli/remote.h"
#include "cli/text.h"

namespace pawl {

class RunRows {
 public:
  // The server that is named, or else the folder, also beside a process that writes it.
  RunRows(const std::string& server_flag, std::filesystem::path folder);

  std::vector<ListedRun> newest(const RunsWanted& wanted, std::size_t limit) const;
  // The same, with why they do not move as a server on the folder knows it: who is connected, and which cap is reached.
  std::vector<ListedRun> newest_with_reasons(const RunsWanted& wanted, std::size_t limit) const;
  std::string where() const { return remote_ ? remote_->url() : folder_.string(); }
  // For a server that should not be waited for.
  void answer_within(std::chrono::milliseconds limit);

 private:
  static std::vector<ListedRun> from_server(const Remote& remote, const RunsWanted& wanted, std::size_t limit);

  std::optional<Remote> remote_;
  std::filesystem::path folder_;
};

boost::json::object row_object(const ListedRun& row);
// One line, or two where `columns` are too few for all of it; 0 = as many as it takes.
std::vector<Line> row_lines(const ListedRun& row, Instant now, const Look& look, std::size_t columns);

}  // namespace pawl
