// Text of string literals.
#pragma once
#include <string>
#include <string_view>

namespace roundel::jinja {

// The text between the quotes with Python's escapes (\n, \xhh, \uhhhh ...) replaced. Unknown escapes stay as they are.
// Throws Error for an incomplete escape and for half a surrogate pair.
std::string unescaped(std::string_view text);

}  // namespace roundel::jinja
