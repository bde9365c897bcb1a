// Ranges and rounding of weights, written once over a vector type V (cpu/<isa>/encode.cpp).
//
// A group of weights (32 to some thousand, in the L1 cache) is read twice: range() finds its ends, encode_*() divides by
// the scale. Range: the bits of a float, with those below the sign inverted when it is negative, order like integers, so
// minima and maxima take 16-bit lanes and two operations, and an end beyond the largest finite number shows that there are
// NaNs or infinities. Division: x / s costs 16 cycles for 16 lanes; x * (1/s) corrected by the remainder x - q * s costs
// three multiply-adds and gives the same correctly rounded quotient. Both inexact steps are harmless because BF16 and F16
// values have at most 11 significant bits: the remainder is exact, and a quotient of two such numbers is never within
// 2^-12 units of the middle between two floats, while the corrected value is off by 2^-22 units at most.
#pragma once
#include <stdint.h>
#include <string.h>

#include "kernels/api/encode.h"

namespace roundel {

#define ROUNDEL_ENCODE static inline __attribute__((always_inline))

template <class V, SourceType kType>
struct EncodeFloat {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr bool kWide = kType == SourceType::kF32;
  static constexpr int64_t kElementBytes = kWide ? 4 : 2;

  static const char* at(const void* x, int64_t i) { return static_cast<const char*>(x) + i * kElementBytes; }

  // ---- range: bits as ordered integers ----
  static constexpr int32_t kSignBits = kWide ? 31 : 15;
  static constexpr int32_t kBelowSign = kWide ? 0x7fffffff : 0x7fff;
  static constexpr int32_t kInfinity = kWide ? 0x7f800000 : kType == SourceType::kBF16 ? 0x7f80 : 0x7c00;

  ROUNDEL_ENCODE int32_t ordered(int32_t bits) {
    return bits ^ ((bits >> 31) & kBelowSign);
  }  // its own inverse
  ROUNDEL_ENCODE float value(int32_t key) {
    const int32_t bits = ordered(key);
    if constexpr (kType == SourceType::kF16) return V::f16_value(bits);
    const int32_t word = kWide ? bits : static_cast<int32_t>(static_cast<uint32_t>(bits) << 16);
    float f;
    memcpy(&f, &word, 4);
    return f;
  }
  ROUNDEL_ENCODE int32_t scalar_bits(const void* x, int64_t i) {  // sign-extended
    if constexpr (kWide) {
      int32_t bits;
      memcpy(&bits, at(x, i), 4);
      return bits;
    }
    int16_t bits;
    memcpy(&bits, at(x, i), 2);
    return bits;
  }

  static __attribute__((noinline)) RangeResult range_with_not_finite(const void* x, int64_t n) {
    RangeResult r;
    int32_t lo = 0, hi = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t bits = scalar_bits(x, i);
      if ((bits & kBelowSign) >= kInfinity) {
        if (r.not_finite++ == 0) r.first_not_finite = i;
        continue;
      }
      const int32_t key = ordered(bits);
      if (key < lo) lo = key;
      if (key > hi) hi = key;
    }
    r.lo = value(lo);
    r.hi = value(hi);
    return r;
  }

  static RangeResult range(const void* x, int64_t n) {
    constexpr int64_t kStep = sizeof(I) / kElementBytes;
    I lo = V::izero(), hi = V::izero();
    const auto take = [&](const void* p) __attribute__((always_inline)) {
      const I bits = V::iload(p);
      const I key = kWide ? V::ordered32(bits) : V::ordered16(bits);
      lo = kWide ? V::min32(lo, key) : V::min16(lo, key);
      hi = kWide ? V::max32(hi, key) : V::max16(hi, key);
    };
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) take(at(x, i));
    if (i < n) {
      alignas(64) char rest[sizeof(I)] = {};
      memcpy(rest, at(x, i), static_cast<size_t>((n - i) * kElementBytes));
      take(rest);
    }
    const int32_t lo_key = kWide ? V::least32(lo) : V::least16(lo);
    const int32_t hi_key = kWide ? V::most32(hi) : V::most16(hi);
    if (hi_key >= kInfinity || lo_key <= ~kInfinity) return range_with_not_finite(x, n);
    RangeResult r;
    r.lo = value(lo_key);
    r.hi = value(hi_key);
    return r;
  }

  // ---- codes ----
  ROUNDEL_ENCODE F load(const char* p) {
    if constexpr (kType == SourceType::kBF16) return V::load_bf16(p);
    if constexpr (kType == SourceType::kF16) return V::load_f16(p);
    return V::load(p);
  }
  ROUNDEL_ENCODE F round(F t) {
    if constexpr (kType == SourceType::kBF16) return V::round_bf16(t);
    if constexpr (kType == SourceType::kF16) return V::round_f16(t);
    return t;
  }

  struct True {  // division by the divider
    explicit True(float scale) : s(V::set1(scale)) {}
    __attribute__((always_inline)) F operator()(F x) const { return V::div(x, s); }
    F s;
  };
  struct Fast {
    explicit Fast(float scale) : s(V::set1(scale)), r(V::set1(1.0f / scale)) {}
    __attribute__((always_inline)) F operator()(F x) const {
      const F q = V::mul(x, r);
      return V::correct(q, V::fnma(q, s, x), r);
    }
    F s, r;
  };
  // Away from the ends of the exponents, so that no remainder that matters underflows.
  static bool fast_scale(float scale) { return !kWide && scale >= 0x1p-90f && scale <= 0x1p90f; }

  // Codes of all n weights; code(F) -> I gives those of a vector in its low bytes.
  template <class Code>
  ROUNDEL_ENCODE void for_all(const void* x, int64_t n, int8_t* codes, Code code) {
    constexpr int64_t kStep = V::kLanes * V::kVectors;
    const auto step = [&](const char* p, int8_t* to) __attribute__((always_inline)) {
      I q[V::kVectors];
      for (int v = 0; v < V::kVectors; ++v) q[v] = code(load(p + v * V::kLanes * kElementBytes));
      V::store_low_bytes(to, q);
    };
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) step(at(x, i), codes + i);
    if (i < n) {
      alignas(64) char rest[kStep * kElementBytes] = {};
      alignas(64) int8_t rest_codes[kStep];
      memcpy(rest, at(x, i), static_cast<size_t>((n - i) * kElementBytes));
      step(rest, rest_codes);
      memcpy(codes + i, rest_codes, static_cast<size_t>(n - i));
    }
  }

  template <class Divide>
  static void encode_int_by(Divide divide, const void* x, int64_t n, float zero_point, float qmin, float qmax,
                            int8_t* codes) {
    const F lo = V::set1(qmin), hi = V::set1(qmax), zero = V::set1(zero_point);
    // min and max give their second argument where one is NaN; NaN becomes 0x80000000, whose low byte is 0.
    const auto finish = [&](F t) __attribute__((always_inline)) {
      return V::round_even(V::min(hi, V::max(lo, t)));
    };
    if (zero_point == 0) {
      for_all(
          x, n, codes, [&](F v) __attribute__((always_inline)) { return finish(round(divide(v))); });
    } else {
      for_all(
          x, n, codes, [&](F v) __attribute__((always_inline)) {
            return finish(round(V::add(round(divide(v)), zero)));
          });
    }
  }

  static void encode_int(const void* x, int64_t n, float scale, float zero_point, float qmin, float qmax,
                         int8_t* codes) {
    if (fast_scale(scale)) {
      encode_int_by(Fast(scale), x, n, zero_point, qmin, qmax, codes);
    } else {
      encode_int_by(True(scale), x, n, zero_point, qmin, qmax, codes);
    }
  }

  // E4M3 of t: above 2^-6 a mantissa rounded to 3 bits by integer arithmetic; below, steps of 2^-9, to which the
  // adder rounds when 2^14 is added. The sign is that of x: the corrected quotient of -0 is +0.
  ROUNDEL_ENCODE I e4m3(F x, F t) {
    const F magnitude = V::min(V::set1(448.0f), V::floats(V::iand(V::bits(t), V::iset1(0x7fffffff))));
    const I a = V::bits(magnitude);
    const I odd = V::iand(V::template srl32<20>(a), V::iset1(1));
    const I normal = V::template srl32<20>(V::iadd(V::iadd(a, odd), V::iset1(0x7ffff - 0x3c000000)));
    const I tiny = V::isub(V::bits(V::add(magnitude, V::set1(16384.0f))), V::iset1(0x46800000));
    const I code = V::select_less(a, V::iset1(0x3c800000), tiny, normal);
    const I sign = V::iand(V::template srl32<24>(V::bits(x)), V::iset1(0x80));
    return V::select_less(V::iset1(0x7f800000), a, V::izero(), V::ior(code, sign));  // NaN: 0
  }

  template <class Divide>
  static void encode_e4m3_by(Divide divide, const void* x, int64_t n, uint8_t* codes) {
    for_all(
        x, n, reinterpret_cast<int8_t*>(codes), [&](F v) __attribute__((always_inline)) {
          return e4m3(v, round(divide(v)));
        });
  }

  static void encode_e4m3(const void* x, int64_t n, float scale, uint8_t* codes) {
    if (fast_scale(scale)) {
      encode_e4m3_by(Fast(scale), x, n, codes);
    } else {
      encode_e4m3_by(True(scale), x, n, codes);
    }
  }
};

}  // namespace roundel
