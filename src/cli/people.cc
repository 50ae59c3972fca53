// pawl people: who stands behind which keys and accounts.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/text.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

}  // namespace

ExitCode manage_people(const PeopleOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  using enum PeopleAction;
  if (options.what != list && options.name.empty()) throw Stop(exit_usage, "say whom: pawl people set NAME --key KEY");
  std::string path = "/people/" + percent_encode(options.name);
  if (options.what == list) {
    Json people = remote.get("/people");
    if (!options.json)
      for (Json& person : people.at("items").as_array())
        for (const char* key : {"keys", "accounts", "groups"}) person.as_object()[key] = joined_texts(person.at(key));
    print_table(people, options.json, {"name", "groups", "keys", "accounts"},
                "nobody is known here; say who decides with: pawl people set NAME --key KEY");
    return exit_success;
  }
  Json person;
  if (options.what == set) {
    auto list = [](const std::vector<std::string>& texts) { return array(texts.begin(), texts.end()); };
    person = remote.put(path, boost::json::serialize(object{{"keys", list(options.keys)},
                                                            {"accounts", list(options.accounts)},
                                                            {"groups", list(options.groups)}}));
  } else {
    person = remote.remove(path);
  }
  if (options.json)
    print_json(person);
  else if (options.what == set)
    fmt::print("{} is {}\n", options.name, joined_texts(person.at("keys")) + " " + joined_texts(person.at("accounts")));
  else
    fmt::print("{} is forgotten; their keys stay\n", options.name);
  return exit_success;
}

}  // namespace pawl
