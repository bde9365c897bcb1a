// Parses a template into its tree. Throws Error naming the template and the line; include, import and extends are
// refused by name.
//
//   Template parsed = parse_template("chat_template.jinja", text, limits.max_depth);
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/ast.h"

namespace roundel::jinja {

Template parse_template(const std::string& name, std::string_view text, int max_depth);

}  // namespace roundel::jinja
