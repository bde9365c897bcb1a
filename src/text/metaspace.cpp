#include "text/metaspace.h"

#include "base/error.h"
#include "base/utf8.h"

namespace roundel {

Metaspace Metaspace::parse(const Json& value, const std::string& where) {
  Metaspace m;
  m.replacement = require_string(value, "replacement", where);
  if (m.replacement.empty() || utf8_length(m.replacement[0]) != m.replacement.size())
    fail(ErrorCode::kInvalid, "{}: replacement is \"{}\", expected one character", where, m.replacement);
  const std::string scheme = optional_string(value, "prepend_scheme", where).value_or("always");
  if (scheme == "first") {
    m.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    m.prepend = Prepend::kNever;
  } else if (scheme != "always") {
    fail(ErrorCode::kInvalid, "{}: prepend_scheme is \"{}\", expected always, first or never", where, scheme);
  }
  if (!optional_bool(value, "add_prefix_space", where).value_or(true)) m.prepend = Prepend::kNever;
  m.split = optional_bool(value, "split", where).value_or(true);
  return m;
}

}  // namespace roundel
