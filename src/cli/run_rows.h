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
  std::string where() const { return remote_ ? remote_->url() : folder_.string(); }
  // For a server that should not be waited for.
  void answer_within(std::chrono::milliseconds limit);

 private:
  std::vector<ListedRun> from_server(const RunsWanted& wanted, std::size_t limit) const;

  std::optional<Remote> remote_;
  std::filesystem::path folder_;
};

boost::json::object row_object(const ListedRun& row);
Line row_line(const ListedRun& row, Instant now, const Look& look);

}  // namespace pawl
