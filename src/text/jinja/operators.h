// Python's operators on values.
//
//   if (truthy(value)) ...
//   Value sum = arithmetic(Operator::kAdd, a, b, budget);
#pragma once
#include <compare>
#include <string>

#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace roundel::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
std::string_view spelling(Operator op);

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
// <=> of numbers, strings, lists and tuples; anything else is an Error naming `op`.
std::partial_ordering order(const Value& a, const Value& b, Operator op, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
bool compare(Operator op, const Value& a, const Value& b, Budget& budget);
Value arithmetic(Operator op, const Value& a, const Value& b, Budget& budget);
Value negated(const Value& value);
Value plus(const Value& value);
// Text with a limit; escapes what is not markup when one side is.
Value concatenated(const Value& a, const Value& b, Budget& budget);

// "%s %d" % values, where `values` is a tuple, a dict or one value.
std::string percent_format(std::string_view format, const Value& values, Budget& budget);
// "{} {name}".format(...)
std::string brace_format(std::string_view format, const Arguments& arguments, Budget& budget);

// str.replace within the limits; `limit`: at most that many.
std::string replaced(std::string_view text, std::string_view old, std::string_view by, size_t limit,
                     Budget& budget);
// Fills up to `width` characters: on the right (side 0), on both sides (1) or on the left (2).
std::string centered(std::string_view text, int64_t width, const std::string& filler, int side,
                     Budget& budget);

}  // namespace roundel::jinja
