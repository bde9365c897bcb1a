// Numbers from text, by Python's rules: white space around, "_" between digits, a sign.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace roundel::jinja {

// Nothing when the text is no number. Throws Error(kLimit) for an integer beyond 64 bits.
std::optional<int64_t> parse_int(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);
// digits[.digits][e[+-]digits]; too large is infinity, too small is 0.
double decimal_value(std::string_view digits);

}  // namespace roundel::jinja
