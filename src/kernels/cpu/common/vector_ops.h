// The small operations (kernels/api/vector_ops.h) over any instruction set. Included by an instruction set's folder
// only. Lanes run along the row; a tail shorter than a vector is loaded and stored under a mask. Sums have four
// accumulators, which hides the latency of an addition, and one fixed order. The quantizers use the same operations as
// the reference (true division, or what rounds to the same code, clamp, round half to even): the same bits.
#pragma once
#include <cstdint>

#include "kernels/api/vector_ops.h"
#include "kernels/cpu/common/outer_products.h"
#include "kernels/cpu/common/tile.h"
#include "kernels/cpu/common/vector_math.h"

namespace roundel {

template <class Isa>
struct Ops {
  using F = typename Isa::F;
  using I = typename Isa::I;
  using Math = VectorMath<Isa>;
  static constexpr int64_t L = Isa::kLanes;

  // y[i] = f(x[i], z[i]); z may be null.
  template <class Function>
  static inline __attribute__((always_inline)) void map(const float* x, const float* z, int64_t n, float* y,
                                                        Function f) {
    int64_t i = 0;
    for (; i + L <= n; i += L) Isa::store(y + i, f(Isa::load(x + i), z ? Isa::load(z + i) : Isa::zero()));
    if (i < n) {
      const int64_t left = n - i;
      Isa::store_n(y + i, left, f(Isa::load_n(x + i, left), z ? Isa::load_n(z + i, left) : Isa::zero()));
    }
  }

  static float dot(const float* a, const float* b, int64_t n) {
    F sum[4] = {Isa::zero(), Isa::zero(), Isa::zero(), Isa::zero()};
    int64_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        sum[j] = Isa::fma(Isa::load(a + i + j * L), Isa::load(b + i + j * L), sum[j]);
    }
    for (; i + L <= n; i += L) sum[0] = Isa::fma(Isa::load(a + i), Isa::load(b + i), sum[0]);
    if (i < n) sum[1] = Isa::fma(Isa::load_n(a + i, n - i), Isa::load_n(b + i, n - i), sum[1]);
    return Isa::sum(Isa::add(Isa::add(sum[0], sum[1]), Isa::add(sum[2], sum[3])));
  }

  static void rms_norm(const float* x, const float* gain, int64_t n, float eps, float* y) {
    const float r = 1.0f / __builtin_sqrtf(dot(x, x, n) / static_cast<float>(n) + eps);
    const F rv = Isa::set1(r);
    map(
        x, gain, n, y, [&](F v, F g) __attribute__((always_inline)) { return Isa::mul(Isa::mul(v, rv), g); });
  }

  static void add(float* y, const float* x, int64_t n) {
    map(
        y, x, n, y, [](F a, F b) __attribute__((always_inline)) { return Isa::add(a, b); });
  }

  static void axpy(float a, const float* x, int64_t n, float* y) {
    const F av = Isa::set1(a);
    map(
        y, x, n, y, [&](F old, F v) __attribute__((always_inline)) { return Isa::fma(av, v, old); });
  }

  static void silu_mul(const float* gate, const float* up, int64_t n, float* y) {
    map(
        gate, up, n, y,
        [](F g, F u) __attribute__((always_inline)) { return Isa::mul(Math::times_logistic(g, g), u); });
  }

  // 0.5 (1 + tanh t) = 1 / (1 + exp(-2t))
  static void gelu_mul(const float* gate, const float* up, int64_t n, float* y) {
    map(
        gate, up, n, y, [](F z, F u) __attribute__((always_inline)) {
          const F cubic = Isa::fma(Isa::mul(Isa::set1(0.044715f), Isa::mul(z, z)), z, z);
          return Isa::mul(Math::times_logistic(z, Isa::mul(Isa::set1(1.5957691216f), cubic)),
                          u);  // 2 sqrt(2/pi)
        });
  }

  static void rope(float* x, const float* cos, const float* sin, int64_t half) {
    int64_t i = 0;
    for (; i + L <= half; i += L) {
      const F a = Isa::load(x + i), b = Isa::load(x + half + i), c = Isa::load(cos + i),
              s = Isa::load(sin + i);
      Isa::store(x + i, Isa::fnma(b, s, Isa::mul(a, c)));
      Isa::store(x + half + i, Isa::fma(a, s, Isa::mul(b, c)));
    }
    if (i < half) {
      const int64_t left = half - i;
      const F a = Isa::load_n(x + i, left), b = Isa::load_n(x + half + i, left);
      const F c = Isa::load_n(cos + i, left), s = Isa::load_n(sin + i, left);
      Isa::store_n(x + i, left, Isa::fnma(b, s, Isa::mul(a, c)));
      Isa::store_n(x + half + i, left, Isa::fma(a, s, Isa::mul(b, c)));
    }
  }

  // ---- quantizers ----

  // The largest |x|. Compared as integers, so that a NaN comes out as NaN.
  static float amax(const float* x, int64_t n) {
    const I magnitude = Isa::iset1(0x7fffffff);
    I most[2] = {Isa::izero(), Isa::izero()};
    int64_t i = 0;
    for (; i + 2 * L <= n; i += 2 * L) {
      most[0] = Isa::imax(most[0], Isa::iand(Isa::bits(Isa::load(x + i)), magnitude));
      most[1] = Isa::imax(most[1], Isa::iand(Isa::bits(Isa::load(x + i + L)), magnitude));
    }
    for (; i < n; i += L) {
      const F v = n - i >= L ? Isa::load(x + i) : Isa::load_n(x + i, n - i);
      most[0] = Isa::imax(most[0], Isa::iand(Isa::bits(v), magnitude));
    }
    const int32_t bits = Isa::imost(Isa::imax(most[0], most[1]));
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
  }

  static float nonzero(float scale) {
    return scale == 0 ? 1.1920929e-7f : scale;
  }  // float epsilon

  static inline __attribute__((always_inline)) I clamp_round(F t, F lo, F hi) {
    return Isa::round_even(Isa::max(Isa::min(t, hi), lo));
  }

  static void quantize_int8_static(const float* x, int64_t n, float scale, int32_t zero_point,
                                   int8_t* codes) {
    const F s = Isa::set1(scale), zero = Isa::set1(static_cast<float>(zero_point));
    const F lo = Isa::set1(-128.0f), hi = Isa::set1(127.0f);
    int64_t i = 0;
    const auto quotient = [&](int64_t at) __attribute__((always_inline)) {
      return Isa::div(Isa::load(x + at), s);
    };
    if constexpr (L == 16) {
      // A division of 16 lanes takes 16 cycles, of 8 lanes no more than the check below. A product with 1 / scale is within
      // 3 * 2^-24 of the quotient, relatively, so it rounds to the same code unless it lies next to a half: below 129, where
      // codes differ, 2^-15 is more than that.
      const bool plain = zero_point == 0 && scale > 1e-30f && scale < 1e30f;
      const F inverse = Isa::set1(1.0f / scale), near_half = Isa::set1(0.5f - 0x1p-15f);
      const I magnitude = Isa::iset1(0x7fffffff);
      for (; plain && i + L <= n; i += L) {
        F t = Isa::mul(Isa::load(x + i), inverse);
        const F away = Isa::sub(t, Isa::to_float(Isa::round_even(t)));
        if (Isa::any_greater(Isa::floats(Isa::iand(Isa::bits(away), magnitude)), near_half)) t = quotient(i);
        Isa::store_s8(codes + i, clamp_round(t, lo, hi));
      }
    }
    for (; i + L <= n; i += L) Isa::store_s8(codes + i, clamp_round(Isa::add(quotient(i), zero), lo, hi));
    if (i < n) {
      const F v = Isa::load_n(x + i, n - i);
      Isa::store_s8_n(codes + i, n - i, clamp_round(Isa::add(Isa::div(v, s), zero), lo, hi));
    }
  }

  static float quantize_int8_sym(const float* x, int64_t n, int8_t* codes) {
    const float scale = nonzero(amax(x, n) / 127.5f);
    quantize_int8_static(x, n, scale, 0, codes);
    return scale;
  }

  static float quantize_int8_asym(const float* x, int64_t n, int8_t* codes, int32_t* zero_point) {
    F lo = Isa::zero(), hi = Isa::zero();
    for (int64_t i = 0; i < n; i += L) {
      const F v = n - i >= L ? Isa::load(x + i) : Isa::load_n(x + i, n - i);
      lo = Isa::min(v, lo);
      hi = Isa::max(v, hi);
    }
    const float least = -Isa::most(Isa::sub(Isa::zero(), lo));
    float scale = nonzero((Isa::most(hi) - least) / 255.0f);
    int32_t lanes[L];
    Isa::istore(lanes,
                clamp_round(Isa::set1(-128.0f - least / scale), Isa::set1(-128.0f), Isa::set1(127.0f)));
    *zero_point = lanes[0];
    const float most = amax(x, n);
    if (most != most) scale = most;
    quantize_int8_static(x, n, scale, *zero_point, codes);
    return scale;
  }

  // E4M3 keeps 3 bits after the leading one down to 2^-6, and below that steps of 2^-9. Rounding half to even: on the bit
  // pattern, and there by adding 2^14, whose last bit is worth 2^-9.
  static void fake_quantize_e4m3(const float* x, int64_t n, float scale, float* y) {
    if (scale <= 0) scale = nonzero(amax(x, n) / 448.0f);
    const F s = Isa::set1(scale);
    map(
        x, nullptr, n, y, [&](F v, F) __attribute__((always_inline)) {
          const F t = Isa::div(v, s);
          const I sign = Isa::iand(Isa::bits(t), Isa::iset1(static_cast<int32_t>(0x80000000u)));
          const F a = Isa::min(Isa::set1(448.0f), Isa::floats(Isa::ixor(Isa::bits(t), sign)));  // NaN stays
          const I bits = Isa::bits(a);
          const I odd = Isa::iand(Isa::template srl<20>(bits), Isa::iset1(1));
          const I up = Isa::iadd(Isa::iadd(bits, odd), Isa::iset1(0x7ffff));
          const F normal = Isa::floats(Isa::iand(up, Isa::iset1(static_cast<int32_t>(0xfff00000u))));
          const F step = Isa::set1(16384.0f);
          const F small = Isa::sub(Isa::add(a, step), step);
          F rounded = Isa::select_less(a, Isa::set1(0x1p-6f), small, Isa::min(Isa::set1(448.0f), normal));
          rounded =
              Isa::add(rounded, Isa::mul(a, Isa::zero()));  // NaN again, should it have been carried away
          return Isa::mul(Isa::floats(Isa::ior(Isa::bits(rounded), sign)), s);
        });
  }

  static void fake_quantize_int(const float* x, int64_t n, int bits, float scale, float* y) {
    const float hi = static_cast<float>((1 << (bits - 1)) - 1);
    if (scale <= 0) scale = nonzero(amax(x, n) / (static_cast<float>((1 << bits) - 1) / 2));
    const F s = Isa::set1(scale), low = Isa::set1(-hi - 1), high = Isa::set1(hi);
    map(
        x, nullptr, n, y, [&](F v, F) __attribute__((always_inline)) {
          return Isa::mul(Isa::to_float(clamp_round(Isa::div(v, s), low, high)), s);
        });
  }

  static constexpr VectorOps table(const char* name, Support (*supports)(const CpuFeatures&)) {
    return {name,
            supports,
            rms_norm,
            add,
            silu_mul,
            gelu_mul,
            rope,
            quantize_int8_sym,
            quantize_int8_asym,
            quantize_int8_static,
            fake_quantize_e4m3,
            fake_quantize_int,
            dot,
            axpy,
            OuterProducts<Isa>::run};
  }
};

}  // namespace roundel
