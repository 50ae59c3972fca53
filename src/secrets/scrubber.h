// Takes secrets out of what a tool gives back: wherever one of the values that the attempt was given stands, plainly or
// in the spellings that protocols give it (JSON, URL, form, base64, hex), in whatever letter case, `[secret NAME]`
// stands afterwards. Base64 and hex are found of the value as it is, and of all of it in lower or in upper case.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace pawl {

class Scrubber {
 public:
  // The same one again changes nothing.
  void add(std::string_view name, std::string_view value);
  bool empty() const { return forms_.empty(); }

  // Of text that was cut, with "..." where, also the part of a value that is left there.
  std::string text(std::string_view text) const;
  // Of JSON text: its strings, keys and numbers, so that it is JSON afterwards whatever the secret is. What cannot be
  // read as JSON is scrubbed as text.
  JsonText json(const JsonText& text) const;

 private:
  struct Form {
    std::string spelling;  // in lower case
    std::string name;
    bool is_plain = false;
  };
  Json value(const Json& value) const;
  void add_form(std::string spelling, std::string_view name, bool is_plain = false);
  void add_encodings(std::string_view name, std::string_view value);
  std::string without_cut_ends(std::string text) const;

  std::vector<Form> forms_;  // longest first: what holds another goes before it
  bool starts_form_[256] = {};
};

}  // namespace pawl
