// The people of a tenant: who stands behind which keys and accounts. Two keys of one person are one person.
#include <boost/json/array.hpp>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t identities_max = 100;

object person_object(const std::string& name, const Tenant::Person& person) {
  array keys, accounts, groups(person.groups.begin(), person.groups.end());
  for (KeyId key : person.keys) keys.emplace_back(key.str());
  for (const std::string& account : person.accounts) accounts.emplace_back(account);
  return {{"name", name}, {"keys", std::move(keys)}, {"accounts", std::move(accounts)}, {"groups", std::move(groups)}};
}

void list_people(CallPtr call) {
  call->query.only({});
  array items;
  auto tenant = call->api.tenants().find(call->who.tenant);
  for (const auto& [name, person] : tenant->people) items.push_back(person_object(name, person));
  call->answer(200, object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

std::vector<std::string> texts_in(const Input& input, std::string_view key) {
  std::vector<std::string> out;
  const Json* list = input.find(key);
  if (!list) return out;
  if (!list->is_array() || list->get_array().size() > identities_max)
    input.refuse(key, "must be a list of at most 100 texts");
  for (const Json& item : list->get_array()) {
    if (!item.is_string()) input.refuse(key, "must hold texts");
    out.emplace_back(item.get_string());
  }
  return out;
}

void set_person(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"keys", "accounts", "groups"});
  PersonSet person{.name = call->path[0], .keys = {}, .accounts = {}};
  for (const std::string& text : texts_in(input, "keys")) {
    auto key = KeyId::parse(text);
    if (!key) input.refuse("keys", "must hold ids of keys, like " + KeyId{}.str());
    person.keys.insert(*key);
  }
  for (std::string& text : texts_in(input, "accounts")) person.accounts.insert(std::move(text));
  for (std::string& text : texts_in(input, "groups")) person.groups.insert(std::move(text));
  call->api.runtime().post([call, person](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, person, call->who.actor()},
                   [call, name = person.name](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     // Behind this answer, the directory knows what was just committed.
                     call->api.answers().post(call->who.tenant, [call, name] {
                       auto tenant = call->api.tenants().find(call->who.tenant);
                       auto found = tenant->people.find(name);
                       if (found == tenant->people.end()) return call->answer(not_found());
                       call->answer(200, person_object(name, found->second));
                     });
                   });
  });
}

void remove_person(CallPtr call) {
  call->query.only({});
  auto tenant = call->api.tenants().find(call->who.tenant);
  auto found = tenant->people.find(call->path[0]);
  if (found == tenant->people.end()) throw not_found();
  object gone = person_object(found->first, found->second);
  call->api.runtime().post([call, gone](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, PersonRemoved{call->path[0]}, call->who.actor()},
                   [call, gone](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     call->answer(200, gone);
                   });
  });
}

}  // namespace

std::vector<Route> people_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/people", viewer, list_people, "The people of this tenant, with their keys and accounts"},
      {put, "/people/{name}", admin, set_person,
       "Say whose keys and accounts are one person's, and which groups they are in"},
      {delete_, "/people/{name}", admin, remove_person, "Forget a person; their keys stay"},
  };
}

}  // namespace pawl::api
