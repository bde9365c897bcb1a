// Arithmetic on sizes that come from files: throws Error(kInvalid) instead of wrapping around.
//
//   uint64_t bytes = checked_mul(rows, cols, "tensor size");
#pragma once
#include <cstdint>

#include "base/error.h"

namespace roundel {

inline uint64_t checked_mul(uint64_t a, uint64_t b, const char* what) {
  uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r))
    fail(ErrorCode::kInvalid, "{}: {} * {} overflows 64 bits", what, a, b);
  return r;
}
inline uint64_t checked_add(uint64_t a, uint64_t b, const char* what) {
  uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r))
    fail(ErrorCode::kInvalid, "{}: {} + {} overflows 64 bits", what, a, b);
  return r;
}
// Smallest multiple of `unit` that is >= a.
inline uint64_t checked_round_up(uint64_t a, uint64_t unit, const char* what) {
  return checked_add(a, unit - 1, what) / unit * unit;
}
// For sizes that are known to be sane (already checked against a file or a tensor).
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace roundel
