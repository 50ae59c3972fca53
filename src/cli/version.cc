#include "cli/version.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sqlite3.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/version.hpp>

#include "cli/commands.h"
#include "core/event.h"
#include "revision.h"
#include "store/sqlite/schema.h"

namespace pawl {
namespace {

// What runs, not what it was built with, where a library can tell.
struct Library {
  std::string_view name;
  std::string version;
};

std::vector<Library> libraries() {
  return {{"sqlite", sqlite3_libversion()},
          {"boost", fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
          {"curl", curl_version_info(CURLVERSION_NOW)->version},
          {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)}};
}

}  // namespace

std::string version_text() {
  std::string_view revision = PAWL_REVISION;
  std::string out = "pawl " PAWL_VERSION;
  if (!revision.empty()) out += fmt::format(" ({})", revision);
  out += fmt::format("\n  journal   events of format {}, tables of format {}\n  made of  ", event_format_version,
                     sqlite::schema_version);
  for (const Library& library : libraries()) out += fmt::format(" {} {}", library.name, library.version);
  return out + "\n";
}

ExitCode print_version(const VersionOptions& options) {
  if (!options.json) {
    fmt::print("{}", version_text());
    return exit_success;
  }
  boost::json::object made_of;
  for (const Library& library : libraries()) made_of[library.name] = library.version;
  std::string_view revision = PAWL_REVISION;
  fmt::print("{}\n",
             boost::json::serialize(boost::json::object{{"version", PAWL_VERSION},
                                                        {"revision", revision.empty() ? Json(nullptr) : Json(revision)},
                                                        {"event_format", event_format_version},
                                                        {"schema_version", sqlite::schema_version},
                                                        {"libraries", std::move(made_of)}}));
  return exit_success;
}

}  // namespace pawl
