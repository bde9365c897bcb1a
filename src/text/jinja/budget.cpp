#include "text/jinja/budget.h"

#include <time.h>

#include "base/error.h"

namespace roundel::jinja {
namespace {

constexpr uint64_t kStepsBetweenLooks = 512;
// values alive at once: so many texts of the largest size, and the conversation
constexpr size_t kLiveTexts = 32, kLiveBytes = 16u << 20;

// Time of this thread, so that a busy machine does not refuse a good template.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Budget::Budget(const TemplateBudget& limits)
    : limits_(limits),
      next_look_(kStepsBetweenLooks),
      max_live_(limits.max_output * kLiveTexts + kLiveBytes),
      max_levels_(limits.max_depth),
      deadline_(thread_seconds() + limits.max_seconds) {}

void Budget::look() {
  if (steps_ > static_cast<uint64_t>(limits_.max_steps))
    fail(ErrorCode::kLimit, "the template takes more than {} steps", limits_.max_steps);
  if (thread_seconds() > deadline_)
    fail(ErrorCode::kLimit, "the template takes longer than {} seconds", limits_.max_seconds);
  next_look_ = steps_ + kStepsBetweenLooks;
}

void Budget::check_text(size_t bytes) const {
  if (bytes > limits_.max_output)
    fail(ErrorCode::kLimit, "the template makes a text of more than {} bytes", limits_.max_output);
}

void Budget::charge(size_t bytes) {
  if (bytes > max_live_ - live_)
    fail(ErrorCode::kLimit, "the template holds more than {} bytes of values", max_live_);
  live_ += bytes;
}

void Budget::check_nesting(int depth) const {
  if (depth > limits_.max_depth)
    fail(ErrorCode::kLimit, "the template nests values deeper than {} levels", limits_.max_depth);
}

void Budget::too_deep() {
  --depth_;
  fail(ErrorCode::kLimit, "the template calls and nests deeper than {} levels", max_levels_);
}

}  // namespace roundel::jinja
