// Values as text: str(), repr() and json.dumps() of Python.
//
//   std::string out;
//   append_text(value, out, budget);
//   append_json(value, {.indent = "  ", .item_separator = ","}, out, budget);
#pragma once
#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace roundel::jinja {

void append_text(const Value& value, std::string& out, Budget& budget);
void append_repr(const Value& value, std::string& out, Budget& budget);
std::string text_of(const Value& value, Budget& budget);

struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // text of one level; without: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Throws for what JSON cannot hold (undefined values, macros, keys that are tuples).
void append_json(const Value& value, const JsonStyle& style, std::string& out, Budget& budget);

}  // namespace roundel::jinja
