#include "secrets/scrubber.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <clocale>
#include <cstdint>
#include <cwctype>

namespace pawl {
namespace {

constexpr std::string_view ellipsis = "...";
// A shorter spelling, or rest of one, would be found where it is not.
constexpr std::size_t encoded_chars_min = 6;
constexpr std::size_t cut_chars_min = 4;

bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }
bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

std::string percent_encoded(std::string_view text, std::string_view kept, bool plus) {
  std::string out;
  for (const char c : text) {
    if (is_alphanumeric(c) || is_one_of(c, kept))
      out += c;
    else if (c == ' ' && plus)
      out += '+';
    else
      out += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string hex(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string utf8(std::uint32_t point) {
  std::string out;
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  }
  return out;
}

// The characters of base64 that say nothing but `text`, when `before` bytes of something else come first.
std::string base64_core(std::string_view text, std::size_t before, bool for_urls) {
  const std::string_view alphabet = for_urls ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                                             : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  const std::size_t first_bit = (before * 8 + 5) / 6 * 6;
  const std::size_t bits = (before + text.size()) * 8;
  for (std::size_t bit = first_bit; bit + 6 <= bits; bit += 6) {
    unsigned value = 0;
    for (std::size_t i = bit; i < bit + 6; ++i) {
      const auto byte = static_cast<unsigned char>(text[i / 8 - before]);
      value = value << 1 | ((byte >> (7 - i % 8)) & 1u);
    }
    out += alphabet[value];
  }
  return out;
}

std::string json_escaped(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

// As encoders write it that keep to ASCII: characters as \uXXXX, outside of the first plane as two of them.
std::string json_escaped_ascii(std::string_view text) {
  std::string out;
  const auto unit = [&](std::uint32_t value) { out += fmt::format("\\u{:04x}", value); };
  const std::string escaped = json_escaped(text);
  for (std::size_t i = 0; i < escaped.size();) {
    const auto lead = static_cast<unsigned char>(escaped[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size == 1) {
      out += escaped[i++];
      continue;
    }
    std::uint32_t point = lead & (0xFFu >> (size + 1));
    for (std::size_t k = 1; k < size && i + k < escaped.size(); ++k)
      point = point << 6 | (static_cast<unsigned char>(escaped[i + k]) & 0x3Fu);
    if (point >= 0x10000) {
      unit(0xD800 + ((point - 0x10000) >> 10));
      unit(0xDC00 + ((point - 0x10000) & 0x3FF));
    } else {
      unit(point);
    }
    i += size;
  }
  return out;
}

// Unicode, as far as it takes no more bytes: what is compared has the same length, so that a place in one is a place in
// the other.
std::string changed_case(std::string_view text, wint_t (*change)(wint_t, locale_t)) {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string out(text);
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    std::uint32_t point = size == 1 ? lead : lead & (0xFFu >> (size + 1));
    bool is_whole = i + size <= text.size() && (size > 1 || lead < 0x80);
    for (std::size_t k = 1; k < size && is_whole; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      is_whole = (byte & 0xC0) == 0x80;
      point = point << 6 | (byte & 0x3Fu);
    }
    if (!is_whole) {
      ++i;
      continue;
    }
    const std::string changed = utf8(change(point, locale));
    if (changed.size() == size) out.replace(i, size, changed);
    i += size;
  }
  return out;
}

// Most of what is scrubbed is ASCII.
std::string lower_case(std::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return changed_case(text, ::towlower_l);
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string with_escaped_slashes(std::string text) {
  for (std::size_t at = 0; (at = text.find('/', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

void Scrubber::add_form(std::string spelling, std::string_view name, bool is_plain) {
  spelling = lower_case(spelling);
  if (spelling.empty() || std::ranges::any_of(forms_, [&](const Form& form) { return form.spelling == spelling; }))
    return;
  starts_form_[static_cast<unsigned char>(spelling[0])] = true;
  const auto place =
      std::ranges::find_if(forms_, [&](const Form& form) { return form.spelling.size() < spelling.size(); });
  forms_.insert(place, {std::move(spelling), std::string(name), is_plain});
}

void Scrubber::add(std::string_view name, std::string_view value) {
  constexpr std::string_view unreserved = "-._~";        // RFC 3986
  constexpr std::string_view of_browsers = "-._~!*'()";  // encodeURIComponent
  constexpr std::string_view of_forms = "-._*";
  add_form(std::string(value), name, true);
  for (const std::string& cased : {std::string(value), lower_case(value), changed_case(value, ::towupper_l)}) {
    add_form(json_escaped(cased), name);
    add_form(with_escaped_slashes(json_escaped(cased)), name);
    add_form(json_escaped_ascii(cased), name);
    add_form(percent_encoded(cased, unreserved, false), name);
    add_form(percent_encoded(cased, of_browsers, false), name);
    add_form(percent_encoded(cased, of_forms, true), name);
    add_encodings(name, cased);
  }
}

void Scrubber::add_encodings(std::string_view name, std::string_view value) {
  if (auto digits = hex(value); digits.size() >= encoded_chars_min) add_form(std::move(digits), name);
  for (const bool for_urls : {false, true})
    for (std::size_t before = 0; before < 3; ++before)
      if (auto core = base64_core(value, before, for_urls); core.size() >= encoded_chars_min)
        add_form(std::move(core), name);
}

std::string Scrubber::text(std::string_view text) const {
  std::string out;
  const std::string lower = lower_case(text);
  for (std::size_t i = 0; i < text.size();) {
    const Form* found = nullptr;
    if (starts_form_[static_cast<unsigned char>(lower[i])])
      for (const Form& form : forms_)
        if (std::string_view(lower).substr(i).starts_with(form.spelling)) {
          found = &form;
          break;
        }
    if (!found) {
      out += text[i++];
      continue;
    }
    out += fmt::format("[secret {}]", found->name);
    i += found->spelling.size();
  }
  return without_cut_ends(std::move(out));
}

// What was cut to a length may have been cut in the middle of a value.
std::string Scrubber::without_cut_ends(std::string text) const {
  for (const Form& form : forms_) {
    if (!form.is_plain) continue;
    const std::string_view whole = form.spelling;
    const std::string mark = fmt::format("[secret {}]", form.name);
    const std::string lower = text.ends_with(ellipsis) ? lower_case(text) : std::string();
    if (!lower.empty())
      for (std::size_t size = whole.size(); size-- > cut_chars_min;)
        if (std::string_view(lower).substr(0, text.size() - ellipsis.size()).ends_with(whole.substr(0, size))) {
          text.replace(text.size() - ellipsis.size() - size, size, mark);
          break;
        }
    // A tail stands behind other words: "exited with 1: ...rest".
    const auto begin = text.find(ellipsis);
    if (begin == text.npos) continue;
    const std::string tail = lower_case(text.substr(begin + ellipsis.size(), whole.size()));
    for (std::size_t size = whole.size(); size-- > cut_chars_min;)
      if (tail.starts_with(whole.substr(whole.size() - size))) {
        text.replace(begin + ellipsis.size(), size, mark);
        break;
      }
  }
  return text;
}

Json Scrubber::value(const Json& value) const {
  if (const auto* words = value.if_string()) return Json(text(*words));
  if (const auto* array = value.if_array()) {
    boost::json::array out;
    for (const auto& item : *array) out.push_back(this->value(item));
    return out;
  }
  if (const auto* object = value.if_object()) {
    boost::json::object out;
    for (const auto& member : *object) out.insert_or_assign(text(member.key()), this->value(member.value()));
    return out;
  }
  if (value.is_number()) {
    const std::string digits = canonical(value);
    if (auto scrubbed = text(digits); scrubbed != digits) return Json(scrubbed);
  }
  return value;
}

JsonText Scrubber::json(const JsonText& words) const {
  if (empty() || words.empty()) return words;
  const auto parsed = parse_json(words);
  return parsed ? canonical(value(*parsed)) : text(words);
}

}  // namespace pawl
