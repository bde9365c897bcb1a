// Filters that make text.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

// The value as a string; marked text stays marked.
Value soft_text(Interpreter& in, const Value& value) {
  return value.is_string() ? value : make_string(in.budget(), text_of(value, in.budget()));
}

Value trim_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [characters] = bind<1>("trim", arguments, {"chars"});
  Value text = soft_text(in, self);
  in.budget().work(text.text().size());
  bool given = !characters.is_absent() && !characters.is(Kind::kNone);
  std::string_view out = given ? strip(text.text(), Side::kBoth, text_argument("trim", characters))
                               : strip(text.text(), Side::kBoth);
  return make_string(in.budget(), std::string(out), text.is_markup());
}

template <std::string (*kChange)(std::string_view)>
Value change_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("the filter", arguments);
  Value text = soft_text(in, self);
  in.budget().step(1 + text.text().size() / 64);
  return make_string(in.budget(), kChange(text.text()), text.is_markup());
}

// Jinja's own rule, which differs from str.title: words begin after white space and - ( { [ <.
std::string titled(std::string_view text) {
  std::string out;
  auto is_break = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    if (is_break(take_character(text, at))) {
      out += text.substr(start, at - start);
      continue;
    }
    out += to_upper(text.substr(start, at - start));
    size_t rest = at;
    while (at < text.size()) {
      size_t next = at;
      if (is_break(take_character(text, next))) break;
      at = next;
    }
    out += to_lower(text.substr(rest, at - rest));
  }
  return out;
}

Value title_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("title", arguments);
  std::string text = text_of(self, in.budget());
  in.budget().step(1 + text.size() / 64);
  return make_string(in.budget(), titled(text));
}

Value replace_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [old, by, count] = bind<3>("replace", arguments, {"old", "new", "count"}, 2);
  int64_t limit = count.is(Kind::kNone) ? -1 : int_argument("replace", count, -1);
  Budget& budget = in.budget();
  return make_string(
      budget, replaced(text_of(self, budget), text_of(old, budget), text_of(by, budget),
                       limit < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(limit), budget));
}

Value string_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("string", arguments);
  return soft_text(in, self);
}

Value safe_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("safe", arguments);
  return make_string(in.budget(), text_of(self, in.budget()), true);
}

template <bool kForce>
Value escape_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("escape", arguments);
  if (self.is_markup() && !kForce) return self;
  std::string text = text_of(self, in.budget());
  in.budget().check_text(text.size() * 5);
  return make_string(in.budget(), escaped_html(text), true);
}

Value indent_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [width, first, blank] = bind<3>("indent", arguments, {"width", "first", "blank"});
  const std::string& text = text_argument("indent", self);
  Budget& budget = in.budget();
  std::string indent;
  if (width.is_string()) {
    indent = width.text();
  } else {
    indent = centered("", int_argument("indent", width, 4), " ", 2, budget);
  }
  std::string source = text + "\n";
  auto lines = split_lines(source);
  budget.work(source.size());
  budget.step(lines.size());
  budget.check_text(lines.size() * indent.size() + source.size());
  std::string out = truthy(first) ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (truthy(blank) || !lines[i].empty()) out += indent;
    }
    out += lines[i];
  }
  return make_string(budget, std::move(out), self.is_markup());
}

Value format_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  Budget& budget = in.budget();
  Value values;
  if (!arguments.named.empty()) {
    if (!arguments.positional.empty())
      fail(ErrorCode::kInvalid, "format: positional and named arguments at the same time");
    std::vector<DictObject::Entry> entries;
    for (auto& [name, value] : arguments.named) entries.emplace_back(make_string(budget, name), value);
    values = make_dict(budget, std::move(entries));
  } else {
    values = make_sequence(budget, Kind::kTuple, arguments.positional);
  }
  Value text = soft_text(in, self);
  return make_string(budget, percent_format(text.text(), values, budget), text.is_markup());
}

Value center_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [width] = bind<1>("center", arguments, {"width"});
  Value text = soft_text(in, self);
  return make_string(in.budget(),
                     centered(text.text(), int_argument("center", width, 80), " ", 1, in.budget()),
                     text.is_markup());
}

Value join_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [glue, path] = bind<2>("join", arguments, {"d", "attribute"});
  Budget& budget = in.budget();
  std::string between = glue.is_absent() ? "" : text_of(glue, budget);
  Items items = items_of(self, budget);
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += between;
    append_text(at_path(in, items[i], path), out, budget);
    budget.step();
    budget.check_text(out.size());
  }
  return make_string(budget, std::move(out));
}

std::string separator_argument(const Value& separators, size_t at) {
  if ((!separators.is(Kind::kTuple) && !separators.is(Kind::kList)) || separators.items().size() != 2)
    fail(ErrorCode::kInvalid, "tojson: separators must be two strings");
  return text_argument("tojson", separators.items()[at]);
}

Value tojson_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [ascii, indent, separators, sort] =
      bind<4>("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = truthy(ascii);
  style.sort_keys = truthy(sort);
  if (indent.is_string()) {
    style.indent = indent.text();
  } else if (!indent.is_absent() && !indent.is(Kind::kNone)) {
    style.indent = centered("", int_argument("tojson", indent), " ", 2, in.budget());
  }
  if (style.indent) style.item_separator = ",";
  if (!separators.is_absent() && !separators.is(Kind::kNone)) {
    style.item_separator = separator_argument(separators, 0);
    style.key_separator = separator_argument(separators, 1);
  }
  std::string out;
  append_json(self, style, out, in.budget());
  return make_string(in.budget(), std::move(out));
}

Value wordcount_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("wordcount", arguments);
  std::string text = text_of(self, in.budget());
  in.budget().step(1 + text.size() / 64);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    bool word =
        take_character(text, at) == '_' || text_is(std::string_view(text).substr(start, at - start), "alnum");
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

}  // namespace

Native find_text_filter(std::string_view name) {
  static constexpr NamedNative kFilters[] = {
      {"trim", trim_filter},
      {"upper", change_filter<to_upper>},
      {"lower", change_filter<to_lower>},
      {"capitalize", change_filter<to_capitalized>},
      {"title", title_filter},
      {"replace", replace_filter},
      {"string", string_filter},
      {"safe", safe_filter},
      {"e", escape_filter<false>},
      {"escape", escape_filter<false>},
      {"forceescape", escape_filter<true>},
      {"indent", indent_filter},
      {"format", format_filter},
      {"center", center_filter},
      {"join", join_filter},
      {"tojson", tojson_filter},
      {"wordcount", wordcount_filter},
  };
  return find_in(kFilters, name);
}

}  // namespace roundel::jinja
