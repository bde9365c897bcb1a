#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <pcre2.h>

#include "base/error.h"

namespace roundel {

struct Regex::Impl {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  pcre2_match_data* data = nullptr;
  bool jit = false;
  ~Impl() {
    pcre2_match_data_free(data);
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Regex::Regex(std::string_view pattern, unsigned flags, const std::string& origin)
    : impl_(std::make_unique<Impl>()), pattern_(pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (flags & kAnchored) options |= PCRE2_ANCHORED;
  pcre2_compile_context* compile = pcre2_compile_context_create(nullptr);
  pcre2_set_parens_nest_limit(compile, 100);
  impl_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &at, compile);
  pcre2_compile_context_free(compile);
  if (!impl_->code) {
    PCRE2_UCHAR text[200];
    pcre2_get_error_message(error, text, sizeof(text));
    fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" does not compile: {} at position {}", origin, pattern,
         reinterpret_cast<const char*>(text), at);
  }
  impl_->jit = pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE) == 0;
  impl_->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(impl_->context, 1000000);
  pcre2_set_depth_limit(impl_->context, 10000);
  if (impl_->jit) {
    impl_->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr);
    pcre2_jit_stack_assign(impl_->context, nullptr, impl_->stack);
  }
  impl_->data = pcre2_match_data_create_from_pattern(impl_->code, nullptr);
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::matches(std::string_view text) const {
  const int r = pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, impl_->data,
                            impl_->context);
  if (r >= 0) return true;
  if (r == PCRE2_ERROR_NOMATCH) return false;
  fail(ErrorCode::kLimit, "the pattern \"{}\" takes too many steps on \"{}\"", pattern_, text);
}

bool Regex::find(std::string_view text, size_t from, size_t* begin, size_t* end) const {
  const int r = pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                            PCRE2_NO_UTF_CHECK, impl_->data, impl_->context);
  if (r == PCRE2_ERROR_NOMATCH) return false;
  if (r < 0) fail(ErrorCode::kLimit, "the pattern \"{}\" takes too many steps at byte {}", pattern_, from);
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(impl_->data);
  *begin = ovector[0];
  *end = ovector[1];
  return true;
}

}  // namespace roundel
