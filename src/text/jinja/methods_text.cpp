// Methods of strings. Marked text (`safe`) stays marked, and what is put into it gets escaped.
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

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

Value like(Interpreter& in, const Value& self, std::string text) {
  return make_string(in.budget(), std::move(text), self.is_markup());
}

size_t limit_argument(std::string_view function, const Value& value) {
  int64_t limit = value.is(Kind::kNone) ? -1 : int_argument(function, value, -1);
  return limit < 0 ? kNoLimit : static_cast<size_t>(limit);
}

template <Side kSide>
Value strip_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [characters] = bind<1>("strip()", arguments, {"chars"});
  in.budget().work(self.text().size());
  bool given = !characters.is_absent() && !characters.is(Kind::kNone);
  return like(in, self,
              std::string(given ? strip(self.text(), kSide, text_argument("strip()", characters))
                                : strip(self.text(), kSide)));
}

template <std::string (*kChange)(std::string_view)>
Value change_method(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("the method", arguments);
  in.budget().step(1 + self.text().size() / 64);
  return like(in, self, kChange(self.text()));
}

Value parts_list(Interpreter& in, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string_view part : parts) items.push_back(like(in, self, std::string(part)));
  return make_list(in.budget(), std::move(items));
}

template <bool kFromRight>
Value split_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [separator, count] = bind<2>("split()", arguments, {"sep", "maxsplit"});
  size_t limit = limit_argument("split()", count);
  in.budget().work(self.text().size());
  if (separator.is_absent() || separator.is(Kind::kNone))
    return parts_list(in, self, split_space(self.text(), limit, kFromRight));
  const std::string& by = text_argument("split()", separator);
  if (by.empty()) fail(ErrorCode::kInvalid, "split(): empty separator");
  if (limit == kNoLimit) in.budget().step(count_text(self.text(), by));
  return parts_list(in, self, split_text(self.text(), by, limit, kFromRight));
}

Value splitlines_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [keep] = bind<1>("splitlines()", arguments, {"keepends"});
  in.budget().work(self.text().size());
  return parts_list(in, self, split_lines(self.text(), truthy(keep)));
}

template <bool kFromRight>
Value partition_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [separator] = bind<1>("partition()", arguments, {"sep"}, 1);
  const std::string& by = text_argument("partition()", separator);
  if (by.empty()) fail(ErrorCode::kInvalid, "partition(): empty separator");
  const std::string& text = self.text();
  size_t at = kFromRight ? find_last_text(text, by) : find_text(text, by);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    for (int i = 0; i < 3; ++i)
      parts.push_back(like(in, self, i == (kFromRight ? 2 : 0) ? text : std::string()));
  } else {
    for (std::string part : {text.substr(0, at), by, text.substr(at + by.size())})
      parts.push_back(like(in, self, std::move(part)));
  }
  return make_sequence(in.budget(), Kind::kTuple, std::move(parts));
}

// The part of the text between code points `start` and `stop`; `offset`: code points before it.
std::string_view window(const Value& self, const Value& start, const Value& stop, int64_t& offset,
                        bool& outside) {
  const auto& object = static_cast<const StringObject&>(*self.object());
  auto length = static_cast<int64_t>(object.characters);
  auto place = [&](const Value& bound, int64_t if_absent) {
    if (bound.is_absent() || bound.is(Kind::kNone)) return if_absent;
    int64_t at = int_argument("a position in a string", bound);
    return at < 0 ? std::max<int64_t>(at < -length ? 0 : at + length, 0) : at;
  };
  offset = place(start, 0);
  int64_t end = std::min(place(stop, length), length);
  outside = offset > end;
  if (outside) return {};
  size_t from = byte_of(object.text, object.characters, static_cast<size_t>(offset));
  size_t to = byte_of(object.text, object.characters, static_cast<size_t>(end));
  return std::string_view(object.text).substr(from, to - from);
}

template <bool kLast, bool kMustExist>
Value find_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [part, start, stop] = bind<3>("find()", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = text_argument("find()", part);
  in.budget().work(self.text().size());
  int64_t offset = 0;
  bool outside = false;
  std::string_view text = window(self, start, stop, offset, outside);
  size_t at = outside ? std::string::npos : kLast ? find_last_text(text, wanted) : find_text(text, wanted);
  if (at != std::string::npos)
    return Value::integer(offset + static_cast<int64_t>(count_characters(text.substr(0, at))));
  if (kMustExist) fail(ErrorCode::kInvalid, "index(): the text was not found");
  return Value::integer(-1);
}

Value count_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [part, start, stop] = bind<3>("count()", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = text_argument("count()", part);
  in.budget().work(self.text().size());
  int64_t offset = 0;
  bool outside = false;
  std::string_view text = window(self, start, stop, offset, outside);
  return Value::integer(outside ? 0 : static_cast<int64_t>(count_text(text, wanted)));
}

template <bool kEnd>
Value affix_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [affix, start, stop] = bind<3>("startswith()", arguments, {"prefix", "start", "end"}, 1);
  int64_t offset = 0;
  bool outside = false;
  std::string_view text = window(self, start, stop, offset, outside);
  in.budget().work(self.text().size());
  auto matches = [&](const Value& one) {
    const std::string& wanted = text_argument("startswith()", one);
    return !outside && (kEnd ? text.ends_with(wanted) : text.starts_with(wanted));
  };
  if (!affix.is(Kind::kTuple)) return Value::boolean(matches(affix));
  in.budget().step(affix.items().size());
  return Value::boolean(std::any_of(affix.items().begin(), affix.items().end(), matches));
}

template <bool kEnd>
Value remove_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [affix] = bind<1>("removeprefix()", arguments, {"prefix"}, 1);
  const std::string& wanted = text_argument("removeprefix()", affix);
  std::string_view text = self.text();
  if (kEnd && text.ends_with(wanted)) text.remove_suffix(wanted.size());
  if (!kEnd && text.starts_with(wanted)) text.remove_prefix(wanted.size());
  return like(in, self, std::string(text));
}

Value replace_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [old, by, count] = bind<3>("replace()", arguments, {"old", "new", "count"}, 2);
  text_argument("replace()", by);
  if (self.is_markup() && !by.is_markup()) by = make_string(in.budget(), escaped_html(by.text()), true);
  return like(in, self,
              replaced(self.text(), text_argument("replace()", old), by.text(),
                       limit_argument("replace()", count), in.budget()));
}

Value join_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [list] = bind<1>("join()", arguments, {"iterable"}, 1);
  Items items = items_of(list, in.budget());
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += self.text();
    const std::string& part = text_argument("join()", items[i]);
    out += self.is_markup() && !items[i].is_markup() ? escaped_html(part) : part;
    in.budget().work(part.size());
    in.budget().check_text(out.size());
  }
  return like(in, self, std::move(out));
}

Value format_method(Interpreter& in, const Value& self, Arguments& arguments) {
  return like(in, self, brace_format(self.text(), arguments, in.budget()));
}

enum class Pad { kLeft, kRight, kCenter };

template <Pad kPad>
Value pad_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [width, fill] = bind<2>("ljust()", arguments, {"width", "fillchar"}, 1);
  std::string filler = fill.is_absent() ? " " : text_argument("ljust()", fill);
  if (count_characters(filler) != 1)
    fail(ErrorCode::kInvalid, "ljust(): the fill character is not one character");
  return like(in, self,
              centered(self.text(), int_argument("ljust()", width), filler,
                       kPad == Pad::kLeft    ? 0
                       : kPad == Pad::kRight ? 2
                                             : 1,
                       in.budget()));
}

Value zfill_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [width] = bind<1>("zfill()", arguments, {"width"}, 1);
  std::string_view text = self.text();
  size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  int64_t rest = int_argument("zfill()", width) - static_cast<int64_t>(sign);
  return like(in, self,
              std::string(text.substr(0, sign)) + centered(text.substr(sign), rest, "0", 2, in.budget()));
}

constexpr char kAlpha[] = "alpha", kDigit[] = "digit", kDecimal[] = "decimal", kNumeric[] = "numeric",
               kAlnum[] = "alnum", kSpace[] = "space", kLower[] = "lower", kUpper[] = "upper",
               kTitle[] = "title";

template <const char* kName>
Value class_method(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("the method", arguments);
  in.budget().step(1 + self.text().size() / 64);
  return Value::boolean(text_is(self.text(), kName));
}

}  // namespace

std::string replaced(std::string_view text, std::string_view old, std::string_view by, size_t limit,
                     Budget& budget) {
  size_t count = std::min(count_text(text, old), limit);
  budget.work(text.size());
  budget.step(1 + count / 16);
  if (by.size() > old.size()) {
    if (count > budget.limits().max_output / (by.size() - old.size()))
      budget.check_text(std::numeric_limits<size_t>::max());
    budget.check_text(text.size() + count * (by.size() - old.size()));
  }
  return replace_text(text, old, by, limit);
}

// side: 0 fills on the right, 1 on both sides, 2 on the left.
std::string centered(std::string_view text, int64_t width, const std::string& filler, int side,
                     Budget& budget) {
  auto characters = static_cast<int64_t>(count_characters(text));
  if (width <= characters) return std::string(text);
  auto missing = static_cast<uint64_t>(width) - static_cast<uint64_t>(characters);
  budget.check_text(missing > budget.limits().max_output ? kNoLimit : text.size() + missing * filler.size());
  budget.work(missing);
  // str.center puts the odd one left when the width is odd
  uint64_t left = side == 0   ? 0
                  : side == 2 ? missing
                              : missing / 2 + (missing & static_cast<uint64_t>(width) & 1);
  std::string out;
  for (uint64_t i = 0; i < left; ++i) out += filler;
  out += text;
  for (uint64_t i = left; i < missing; ++i) out += filler;
  return out;
}

Native find_text_method(std::string_view name) {
  static constexpr NamedNative kMethods[] = {
      {"strip", strip_method<Side::kBoth>},
      {"lstrip", strip_method<Side::kLeft>},
      {"rstrip", strip_method<Side::kRight>},
      {"split", split_method<false>},
      {"rsplit", split_method<true>},
      {"splitlines", splitlines_method},
      {"partition", partition_method<false>},
      {"rpartition", partition_method<true>},
      {"startswith", affix_method<false>},
      {"endswith", affix_method<true>},
      {"removeprefix", remove_method<false>},
      {"removesuffix", remove_method<true>},
      {"find", find_method<false, false>},
      {"rfind", find_method<true, false>},
      {"index", find_method<false, true>},
      {"rindex", find_method<true, true>},
      {"count", count_method},
      {"replace", replace_method},
      {"join", join_method},
      {"format", format_method},
      {"upper", change_method<to_upper>},
      {"lower", change_method<to_lower>},
      {"title", change_method<to_title>},
      {"capitalize", change_method<to_capitalized>},
      {"ljust", pad_method<Pad::kLeft>},
      {"rjust", pad_method<Pad::kRight>},
      {"center", pad_method<Pad::kCenter>},
      {"zfill", zfill_method},
      {"isalpha", class_method<kAlpha>},
      {"isdigit", class_method<kDigit>},
      {"isdecimal", class_method<kDecimal>},
      {"isnumeric", class_method<kNumeric>},
      {"isalnum", class_method<kAlnum>},
      {"isspace", class_method<kSpace>},
      {"islower", class_method<kLower>},
      {"isupper", class_method<kUpper>},
      {"istitle", class_method<kTitle>},
  };
  return find_in(kMethods, name);
}

}  // namespace roundel::jinja
