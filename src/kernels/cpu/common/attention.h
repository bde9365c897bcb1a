// Causal attention of one key/value head for a tile of query rows. Included by an instruction set's folder only.
//
// A row is a token and one of the G query heads that share the head's keys and values, so these are loaded once for all
// of them. Keys come in tiles of 64 positions, at absolute multiples of 64; for each tile (online softmax):
//   k tile transposed (D,64)   s = q . k^T      rows x 64   lanes are keys
//   p = exp(s - max), sums     and o, sums scaled to the new maximum
//   o += p . v                 rows x D         lanes are dimensions
// Both products are the same small matrix product: MR rows x NV vectors in registers, one broadcast and NV multiply-adds
// for each row and step. A row's arithmetic depends only on its own position, not on the rows beside it, on the number
// of new tokens or on threads: keys after its own count as exact zeros.
// Keys and values are floats or bf16, which become floats in the transposed tile, and values for many rows in a tile of
// their own; few rows read them as they are.
// 64 keys: the transposed tile of 128 dimensions is 32 KiB, the L1 cache; scores of 48 rows are 12 KiB.
#pragma once
#include <immintrin.h>

#include "kernels/cpu/common/tile.h"
#include "kernels/cpu/common/vector_math.h"

namespace roundel {

template <class Isa>
struct Attention {
  using F = typename Isa::F;
  using Math = VectorMath<Isa>;
  static constexpr int64_t L = Isa::kLanes;
  static constexpr int kRows = 6;  // 6 x 4 sums of 32 registers, 6 x 2 of 16
  static constexpr int kVectors = L == 16 ? 4 : 2;

  static F load(const float* x) { return Isa::load(x); }
  static F load(const uint16_t* x) { return Isa::load_bf16(x); }
  static F load_n(const float* x, int64_t n) { return Isa::load_n(x, n); }
  static F load_n(const uint16_t*, int64_t) { return Isa::zero(); }  // never: run()
  static float widen(float x) { return x; }
  static float widen(uint16_t x) {
    const uint32_t bits = uint32_t{x} << 16;
    float y;
    __builtin_memcpy(&y, &bits, 4);
    return y;
  }
  static __m256 load_eight(const float* x) { return _mm256_loadu_ps(x); }
  static __m256 load_eight(const uint16_t* x) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  // c (MR, NV vectors) += a (MR,length) . b (length, NV vectors); the last vector has `last` lanes when kPart.
  template <int MR, int NV, bool kPart, class B>
  static void product(const float* a, int64_t lda, const B* b, int64_t ldb, int64_t length, int64_t last,
                      float* c, int64_t ldc) {
    F acc[MR][NV];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[m][v] = Isa::load(c + m * ldc + v * L);
    for (int64_t i = 0; i < length; ++i) {
      F bi[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        bi[v] = kPart && v == NV - 1 ? load_n(b + i * ldb + v * L, last) : load(b + i * ldb + v * L);
      }
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const F am = Isa::set1(a[m * lda + i]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) acc[m][v] = Isa::fma(am, bi[v], acc[m][v]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) Isa::store(c + m * ldc + v * L, acc[m][v]);
  }

  template <int MR, class B>
  static void product_columns(const float* a, int64_t lda, const B* b, int64_t ldb, int64_t length,
                              int64_t columns, float* c, int64_t ldc) {
    int64_t j = 0;
    for (; j + kVectors * L <= columns; j += kVectors * L) {
      product<MR, kVectors, false>(a, lda, b + j, ldb, length, 0, c + j, ldc);
    }
    for (; j + L <= columns; j += L) product<MR, 1, false>(a, lda, b + j, ldb, length, 0, c + j, ldc);
    if (j < columns) product<MR, 1, true>(a, lda, b + j, ldb, length, columns - j, c + j, ldc);
  }

  // c (rows,columns) += a (rows,length) . b (length,columns). Rows of c are padded to whole vectors.
  template <class B>
  static void multiply(int64_t rows, const float* a, int64_t lda, const B* b, int64_t ldb, int64_t length,
                       int64_t columns, float* c, int64_t ldc) {
    for (int64_t r = 0; r < rows; r += kRows) {
      const float* ar = a + r * lda;
      float* cr = c + r * ldc;
      switch (rows - r) {
        case 1:
          product_columns<1>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
        case 2:
          product_columns<2>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
        case 3:
          product_columns<3>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
        case 4:
          product_columns<4>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
        case 5:
          product_columns<5>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
        default:
          product_columns<kRows>(ar, lda, b, ldb, length, columns, cr, ldc);
          break;
      }
    }
  }

  // k (keys,D) to kt (D,64), in squares of 8 x 8; columns of missing keys are zero.
  template <class Kv>
  static void transpose(const Kv* k, int64_t keys, int64_t d, float* kt) {
    for (int64_t j = 0; j < keys; j += 8) {
      int64_t i = 0;
      for (; i + 8 <= d; i += 8) {
        __m256 r[8], s[8];
        for (int64_t x = 0; x < 8; ++x) {
          r[x] = j + x < keys ? load_eight(k + (j + x) * d + i) : _mm256_setzero_ps();
        }
        for (int x = 0; x < 8; x += 2) {
          s[x] = _mm256_unpacklo_ps(r[x], r[x + 1]);
          s[x + 1] = _mm256_unpackhi_ps(r[x], r[x + 1]);
        }
        for (int x = 0; x < 8; x += 4) {
          r[x] = _mm256_shuffle_ps(s[x], s[x + 2], 0x44);
          r[x + 1] = _mm256_shuffle_ps(s[x], s[x + 2], 0xee);
          r[x + 2] = _mm256_shuffle_ps(s[x + 1], s[x + 3], 0x44);
          r[x + 3] = _mm256_shuffle_ps(s[x + 1], s[x + 3], 0xee);
        }
        for (int x = 0; x < 4; ++x) {
          _mm256_storeu_ps(kt + (i + x) * kKeyTile + j, _mm256_permute2f128_ps(r[x], r[x + 4], 0x20));
          _mm256_storeu_ps(kt + (i + x + 4) * kKeyTile + j, _mm256_permute2f128_ps(r[x], r[x + 4], 0x31));
        }
      }
      for (; i < d; ++i) {
        for (int64_t x = 0; x < 8; ++x)
          kt[i * kKeyTile + j + x] = j + x < keys ? widen(k[(j + x) * d + i]) : 0.0f;
      }
    }
  }

  // Scores of one row (64) to weights, of which keys [from, to) of the tile are seen (all, unless kPart); o (D), maximum
  // and sum follow.
  template <bool kPart>
  static void softmax(float* s, int64_t from, int64_t to, float scale, float* o, int64_t d, float* maximum,
                      float* sum) {
    constexpr int V = kKeyTile / L;
    const F none = Isa::set1(-__builtin_inff());
    F value[V], most = none;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      value[v] = Isa::mul(Isa::load(s + v * L), Isa::set1(scale));
      if (kPart) {
        alignas(64) float lane[L];
        for (int64_t i = 0; i < L; ++i) lane[i] = static_cast<float>(v * L + i);
        const F at = Isa::load(lane);
        const F first = Isa::set1(static_cast<float>(from)), end = Isa::set1(static_cast<float>(to));
        value[v] = Isa::select_less(at, end, Isa::select_less(at, first, none, value[v]), none);
      }
      most = Isa::max(most, value[v]);
    }
    const float tile = Isa::most(most);
    const float now = tile > *maximum ? tile : *maximum;
    if (!(tile > -__builtin_inff()) && tile == tile) {  // nothing seen here
      for (int v = 0; v < V; ++v) Isa::store(s + v * L, Isa::zero());
      return;
    }
    F total = Isa::zero();
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const F p = Math::exp(Isa::sub(value[v], Isa::set1(now)));
      Isa::store(s + v * L, p);
      total = Isa::add(total, p);
    }
    if (now == *maximum) {  // exp(0) = 1
      *sum += Isa::sum(total);
      return;
    }
    alignas(64) float shrink[L];
    Isa::store(shrink, Math::exp(Isa::set1(*maximum - now)));
    *sum = *sum * shrink[0] + Isa::sum(total);
    *maximum = now;
    for (int64_t i = 0; i < d; i += L) Isa::store(o + i, Isa::mul(Isa::load(o + i), Isa::set1(shrink[0])));
  }

  static void to_floats(const uint16_t* x, int64_t n, float* y) {
    int64_t i = 0;
    for (; i + L <= n; i += L) Isa::store(y + i, Isa::load_bf16(x + i));
    for (; i < n; ++i) y[i] = widen(x[i]);
  }

  static void run(const AttentionTile& t) {
    t.args->kv_bf16 ? run_on<uint16_t>(t) : run_on<float>(t);
  }

  template <class Kv>
  static void run_on(const AttentionTile& t) {
    constexpr int64_t kManyRows = 2 * kRows;  // from here on values are widened once
    const AttentionArgs& a = *t.args;
    const int64_t d = a.head_dim, per_kv = a.heads / a.kv_heads, rows = (t.token1 - t.token0) * per_kv;
    const int64_t ldo = (d + 15) / 16 * 16;
    float* kt = t.scratch;
    float* wide = kt + d * kKeyTile;
    float* s = wide + d * kKeyTile;
    float* o = s + rows * kKeyTile;
    float* q = o + rows * ldo;
    float* maximum = q + rows * d;
    float* sum = maximum + rows;
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = a.q + (t.token0 + r / per_kv) * a.ldq + (t.kv_head * per_kv + r % per_kv) * d;
      for (int64_t i = 0; i < d; ++i) q[r * d + i] = from[i];
      for (int64_t i = 0; i < ldo; ++i) o[r * ldo + i] = 0;
      maximum[r] = -__builtin_inff();
      sum[r] = 0;
    }
    const Kv* k = static_cast<const Kv*>(a.k) + t.kv_head * a.kv_stride;
    const Kv* v = static_cast<const Kv*>(a.v) + t.kv_head * a.kv_stride;
    const int64_t end = a.start + t.token1;  // behind the last row's own position
    int64_t begin = a.window > 0 ? a.start + t.token0 - a.window + 1 : 0;
    if (begin < 0) begin = 0;
    for (int64_t at = begin / kKeyTile * kKeyTile; at < end; at += kKeyTile) {
      const int64_t keys = end - at < kKeyTile ? end - at : kKeyTile;
      transpose(k + at * d, keys, d, kt);
      // Rows before r0 are of tokens before this tile: they see none of it.
      const int64_t early = at - a.start - t.token0, r0 = early > 0 ? early * per_kv : 0;
      for (int64_t i = r0 * kKeyTile; i < rows * kKeyTile; i += L) Isa::store(s + i, Isa::zero());
      multiply(rows - r0, q + r0 * d, d, kt, kKeyTile, d, kKeyTile, s + r0 * kKeyTile, kKeyTile);
      for (int64_t r = r0; r < rows; ++r) {
        const int64_t own = a.start + t.token0 + r / per_kv;
        const int64_t first = a.window > 0 && own - a.window + 1 > at ? own - a.window + 1 - at : 0;
        const int64_t last = own + 1 - at < kKeyTile ? own + 1 - at : kKeyTile;
        const bool part = first > 0 || last < kKeyTile;
        (part ? softmax<true> : softmax<false>)(s + r * kKeyTile, first, last, a.scale, o + r * ldo, ldo,
                                                maximum + r, sum + r);
      }
      const float* weights = s + r0 * kKeyTile;
      if constexpr (sizeof(Kv) == 2)
        if (rows - r0 >= kManyRows || d % L != 0) {
          to_floats(v + at * d, keys * d, wide);
          multiply(rows - r0, weights, kKeyTile, wide, d, keys, d, o + r0 * ldo, ldo);
          continue;
        }
      multiply(rows - r0, weights, kKeyTile, v + at * d, d, keys, d, o + r0 * ldo, ldo);
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* to = a.out + (t.token0 + r / per_kv) * a.ldo + (t.kv_head * per_kv + r % per_kv) * d;
      for (int64_t i = 0; i < d; ++i) to[i] = o[r * ldo + i] / sum[r] * a.value_scale;
    }
  }
};

}  // namespace roundel
