// A run's events and the workflow they belong to, from a folder or a server.
#pragma once

#include <boost/json/array.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/history.h"
#include "cli/remote.h"

namespace pawl {

struct RecordedRun {
  TenantId tenant;  // nil when a server has it
  RunId id;
  WholeStream stream;
  std::shared_ptr<const Workflow> workflow;
  boost::json::array requesters = {};  // as requester_objects() gives them
  Json bundle = nullptr;               // where its evidence is stored (stored_bundle_object)

  // Before its first event.
  Run unborn() const;
  // As it is. Refers to the workflow here.
  Run folded() const;
};

// From the server that is named, or else from the folder, also beside a process that writes it.
RecordedRun read_run(const std::string& server_flag, const std::filesystem::path& folder, const std::string& text);
RecordedRun read_run(const Remote& remote, const std::string& text);

// A version of a published workflow; the latest without `version`. Stops the command when there is none.
struct WorkflowSource {
  std::string name;
  int version = 0;
  std::string digest;
  std::string text;
};
WorkflowSource read_workflow(const Remote& remote, const std::string& name, std::optional<int> version);
WorkflowSource read_workflow(const std::string& server_flag, const std::filesystem::path& folder,
                             const std::string& name, std::optional<int> version);

// The latest version of each, by name: {"items": [{name, version, digest}]}.
Json list_workflows(const std::string& server_flag, const std::filesystem::path& folder);

}  // namespace pawl
