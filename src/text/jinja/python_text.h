// Python's string operations on UTF-8: positions count code points, white space is Unicode's. All run in linear time.
//
//   strip("  a ", Side::kBoth) == "a";   split_text("a,b,c", ",", 1) == {"a", "b,c"};
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roundel::jinja {

enum class Side { kLeft, kRight, kBoth };

size_t count_characters(std::string_view text);
// The code point at byte `at`, which moves behind it. An invalid byte counts as one U+FFFD.
char32_t take_character(std::string_view text, size_t& at);
void append_character(std::string& text, char32_t character);
// Byte of the index-th code point (text.size() when there are fewer).
size_t byte_of(std::string_view text, size_t characters, size_t index);

bool is_space(char32_t character);
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view characters);

// Byte positions; npos when absent. `from`: first byte looked at.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view part);
// Non-overlapping occurrences, as str.count and str.replace see them (between all code points for an empty part).
size_t count_text(std::string_view text, std::string_view part);
// The first `limit` occurrences.
std::string replace_text(std::string_view text, std::string_view part, std::string_view by, size_t limit);

// At most `limit` cuts, from the left or (from_right) from the right; the order of the parts is that of the text.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator, size_t limit,
                                         bool from_right = false);
std::vector<std::string_view> split_space(std::string_view text, size_t limit, bool from_right = false);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

std::string reversed_text(std::string_view text);
// str.islower and the like: `name` is alpha, digit, decimal, numeric, alnum, space, lower, upper or title.
bool text_is(std::string_view text, std::string_view name);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        // str.title()
std::string to_capitalized(std::string_view text);  // str.capitalize()

std::string repr_of(std::string_view text);  // repr(str)
std::string float_text(double value);        // repr(float)
std::string escaped_html(std::string_view text);

}  // namespace roundel::jinja
