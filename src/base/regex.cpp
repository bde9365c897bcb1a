#include "base/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "base/error.h"

namespace roundel {
namespace {

constexpr uint32_t kBaseSteps = 1000000;
constexpr uint32_t kStepsPerByte = 16;
constexpr size_t kJitStackBytes =
    64 << 20;  // reserved address space, touched only as far as a match needs it
constexpr uint32_t kHeapKibibytes = 256 << 10;

// One for each thread. Only the whole match is asked for, so one pair of offsets serves every pattern.
struct MatchState {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
  MatchState() {
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, kHeapKibibytes);
  }
  MatchState(const MatchState&) = delete;
  ~MatchState() {
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

MatchState& match_state(uint32_t steps, uint32_t depth) {
  thread_local MatchState state;
  if (!state.context || !state.data) throw std::bad_alloc();
  pcre2_set_match_limit(state.context, steps);
  pcre2_set_depth_limit(state.context, depth);
  return state;
}

}  // namespace

struct Regex::Impl {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Impl() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, unsigned flags, const std::string& origin)
    : impl_(std::make_unique<Impl>()), pattern_(pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (flags & kAnchored) options |= PCRE2_ANCHORED;
  if (flags & kMultiline) options |= PCRE2_MULTILINE;
  pcre2_compile_context* compile = pcre2_compile_context_create(nullptr);
  pcre2_set_parens_nest_limit(compile, 100);
  pcre2_set_newline(compile, PCRE2_NEWLINE_LF);
  impl_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                              &at, compile);
  pcre2_compile_context_free(compile);
  if (!impl_->code) {
    PCRE2_UCHAR text[200];
    pcre2_get_error_message(error, text, sizeof(text));
    fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" does not compile: {} at position {}", origin, pattern,
         reinterpret_cast<const char*>(text), at);
  }
  impl_->jit = pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::matches(std::string_view text) const {
  MatchState& state = match_state(kBaseSteps, 10000);
  const int r = pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                            state.data, state.context);
  if (r >= 0) return true;
  if (r == PCRE2_ERROR_NOMATCH) return false;
  fail(ErrorCode::kLimit, "the pattern \"{}\" takes too many steps on \"{}\"", pattern_, text);
}

bool Regex::find(std::string_view text, size_t from, size_t* begin, size_t* end) const {
  const uint64_t wanted = kBaseSteps + uint64_t{kStepsPerByte} * text.size();
  const auto steps = static_cast<uint32_t>(std::min<uint64_t>(wanted, UINT32_MAX));
  MatchState& state = match_state(steps, steps);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int r = impl_->jit ? pcre2_jit_match(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                             state.data, state.context)
                           : pcre2_match(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                         state.data, state.context);
  if (r == PCRE2_ERROR_NOMATCH) return false;
  if (r < 0) fail(ErrorCode::kLimit, "the pattern \"{}\" takes too many steps at byte {}", pattern_, from);
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data);
  *begin = ovector[0];
  *end = ovector[1];
  return true;
}

}  // namespace roundel
