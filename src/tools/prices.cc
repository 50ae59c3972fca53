#include "tools/prices.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/invariant.h"
#include "core/json.h"
#include "tools/shipped_prices.h"

namespace pawl {
namespace {

constexpr std::int64_t tokens_a_price = 1'000'000;
constexpr std::int64_t tokens_max = 1'000'000'000;

struct Part {
  std::string_view key;
  std::optional<Money> ModelPrice::*at;
};
constexpr std::array parts{Part{"input", &ModelPrice::input}, Part{"cache_read", &ModelPrice::cache_read},
                           Part{"cache_write_5m", &ModelPrice::cache_write_5m},
                           Part{"cache_write_1h", &ModelPrice::cache_write_1h}, Part{"output", &ModelPrice::output}};

std::string text_of(const boost::json::object& map, std::string_view key) {
  const auto* value = map.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::expected<ModelPrice, std::string> read_row(const Json& row) {
  const auto* map = row.if_object();
  if (!map) return std::unexpected("each of `models` must be a map");
  ModelPrice out{.provider = text_of(*map, "provider"), .model = text_of(*map, "model")};
  if (out.provider.empty() || out.model.empty()) return std::unexpected("a model needs `provider` and `model`");
  for (const auto& [key, value] : *map) {
    if (key == "provider" || key == "model") continue;
    const auto part = std::ranges::find(parts, std::string_view(key), &Part::key);
    if (part == parts.end())
      return std::unexpected(fmt::format("{}: unknown key `{}`", out.model, std::string_view(key)));
    const auto amount = value.is_string() ? parse_money(value.get_string()) : std::nullopt;
    if (!amount)
      return std::unexpected(
          fmt::format("{}: `{}` must be an amount in quotes, like \"2.50\"", out.model, std::string_view(key)));
    out.*part->at = *amount;
  }
  return out;
}

// A name goes on with a date or a variant; "gpt-4" is not the beginning of "gpt-4.1".
bool begins(std::string_view model, std::string_view prefix) {
  if (!model.starts_with(prefix)) return false;
  return model.size() == prefix.size() || std::string_view("-@:").contains(model[prefix.size()]);
}

}  // namespace

std::expected<Prices, std::string> Prices::read(std::string_view json) {
  const auto document = parse_json(json);
  if (!document) return std::unexpected("is not JSON: " + document.error());
  const auto* map = document->if_object();
  const auto* models = map ? map->if_contains("models") : nullptr;
  if (!models || !models->is_array()) return std::unexpected("must be a map with `version` and a list `models`");
  Prices out;
  out.version_ = text_of(*map, "version");
  if (out.version_.empty()) return std::unexpected("needs a `version`: results name it");
  for (const Json& row : models->get_array()) {
    auto price = read_row(row);
    if (!price) return std::unexpected(std::move(price.error()));
    out.prices_.push_back(std::move(*price));
  }
  return out;
}

const Prices& Prices::shipped() {
  static const Prices prices = [] {
    auto read = Prices::read(shipped_prices);
    invariant(read.has_value(), "the prices that come with pawl can be read");
    return std::move(*read);
  }();
  return prices;
}

const ModelPrice* Prices::find(std::string_view provider, std::string_view model) const {
  const ModelPrice* best = nullptr;
  for (const ModelPrice& price : prices_)
    if (price.provider == provider && begins(model, price.model) && (!best || price.model.size() > best->model.size()))
      best = &price;
  return best;
}

std::optional<Money> Prices::cost(std::string_view provider, std::string_view model, const TokenCounts& tokens) const {
  const ModelPrice* price = find(provider, model);
  if (!price) return std::nullopt;
  __extension__ using Wide = __int128;
  Wide micros = 0;
  const auto add = [&](std::int64_t count, const std::optional<Money>& each) {
    if (count == 0) return true;
    if (!each || count < 0 || count > tokens_max) return false;
    micros += Wide(count) * each->micros;
    return true;
  };
  if (!add(tokens.input_uncached, price->input) || !add(tokens.input_cache_read, price->cache_read) ||
      !add(tokens.input_cache_write_5m, price->cache_write_5m) ||
      !add(tokens.input_cache_write_1h, price->cache_write_1h) || !add(tokens.output, price->output))
    return std::nullopt;
  const Wide rounded = (micros + tokens_a_price / 2) / tokens_a_price;
  return Money{rounded > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(rounded)};
}

}  // namespace pawl
