// The nearest known word to a misspelt one, for messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace roundel {

int edit_distance(std::string_view a, std::string_view b);  // Damerau-Levenshtein, case-insensitive
// Empty when nothing is near enough to be useful.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// "; did you mean \"x\"?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace roundel
