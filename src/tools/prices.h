// What model calls cost: a table of prices with a version, longest matching name first. It is data: one comes with pawl
// (prices.json), an operator may have another.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/money.h"

namespace pawl {

// In the words of the roll-up: input that was not cached, was read from a cache, or was written to one.
struct TokenCounts {
  std::int64_t input_uncached = 0;
  std::int64_t input_cache_read = 0;
  std::int64_t input_cache_write_5m = 0;
  std::int64_t input_cache_write_1h = 0;
  std::int64_t output = 0;
  std::int64_t reasoning = 0;  // inside output
};

// USD for a million tokens. One that is absent is not known: a call that used such tokens has no computed cost.
struct ModelPrice {
  std::string provider;
  std::string model;  // the beginning of the model's name
  std::optional<Money> input, cache_read, cache_write_5m, cache_write_1h, output;
};

class Prices {
 public:
  static std::expected<Prices, std::string> read(std::string_view json);
  // The table that comes with pawl.
  static const Prices& shipped();

  const std::string& version() const { return version_; }
  // Nothing when the table does not know: that is not the same as for nothing.
  std::optional<Money> cost(std::string_view provider, std::string_view model, const TokenCounts& tokens) const;

 private:
  const ModelPrice* find(std::string_view provider, std::string_view model) const;

  std::string version_;
  std::vector<ModelPrice> prices_;
};

}  // namespace pawl
