#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace roundel {

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

void Error::add_context(const std::string& context) {
  message_ = context + ": " + message_;
}

void Problems::throw_if_any(const std::string& headline, ErrorCode code) const {
  if (list_.empty()) return;
  std::string text = headline;
  for (const Problem& p : list_) text += "\n  " + (p.where.empty() ? "" : p.where + ": ") + p.message;
  throw Error(code, text);
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "internal error: %s does not hold (%s:%d). Please report this.\n", expression, file,
               line);
  std::abort();
}

}  // namespace roundel
