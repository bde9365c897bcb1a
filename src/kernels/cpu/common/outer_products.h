// h += sum over tokens of a_t b_t^T (kernels/api/vector_ops.h): a register tile of h takes all tokens of a part, then is
// added to h once. Lanes are columns of b, so neither matrix is transposed. Included by an instruction set's folder only.
//
//   columns of a, copied [tile][token][16]     columns of b, copied [token][2 vectors]     sums [kRows][2 vectors]
//   in the L2 cache, a tile in L1              in L1                                       in registers
// The copies are there because rows of a power of two times 3 floats would all fall into a few sets of the cache.
#pragma once
#include "kernels/cpu/common/tile.h"

namespace roundel {

template <class Isa>
struct OuterProducts {
  using F = typename Isa::F;
  static constexpr int64_t L = Isa::kLanes;
  static constexpr int kVectors = 2;
  static constexpr int64_t kColumns = kVectors * L;
  static constexpr int kRows = Isa::kPanelTokens;
  static constexpr int64_t kPart = 128;  // tokens: a sum starts anew after this many
  static constexpr int64_t kSlot = 16;   // floats of a tile's token
  static constexpr int64_t kTiles = 16;
  static_assert(kRows <= kSlot && kSlot % L == 0);

  struct Left {
    alignas(64) float a[kTiles * kPart * kSlot];
  };
  static void fill(Left* to, const float* a, int64_t lda, int64_t tokens, int64_t m) {
    for (int64_t t = 0; t < tokens; ++t, a += lda) {
      for (int64_t r = 0; r < m; r += kRows) {
        float* slot = to->a + (r / kRows * kPart + t) * kSlot;
        for (int64_t i = 0; i < kRows; i += L) {
          const int64_t left = m - r - i;
          Isa::store(slot + i, left >= L  ? Isa::load(a + r + i)
                               : left > 0 ? Isa::load_n(a + r + i, left)
                                          : Isa::zero());
        }
      }
    }
  }

  struct Panel {
    alignas(64) float b[kPart * kColumns];
    int64_t tokens, columns;
  };

  static void fill(Panel* p, const float* b, int64_t ldb, int64_t tokens, int64_t columns) {
    p->tokens = tokens;
    p->columns = columns;
    for (int64_t t = 0; t < tokens; ++t, b += ldb) {
      float* to = p->b + t * kColumns;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t left = columns - v * L;
        Isa::store(to + v * L, left >= L  ? Isa::load(b + v * L)
                               : left > 0 ? Isa::load_n(b + v * L, left)
                                          : Isa::zero());
      }
    }
  }

  template <int R>
  static void micro(const float* a, const Panel& p, float* h, int64_t ldh) {
    F sum[R][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Isa::zero();
    const float* b = p.b;
    for (int64_t t = 0; t < p.tokens; ++t, a += kSlot, b += kColumns) {
      F bv[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) bv[v] = Isa::load(b + v * L);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const F ar = Isa::set1(a[r]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[r][v] = Isa::fma(ar, bv[v], sum[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, h += ldh) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const int64_t left = p.columns - v * L;
        if (left >= L) {
          Isa::store(h + v * L, Isa::add(Isa::load(h + v * L), sum[r][v]));
        } else if (left > 0) {
          Isa::store_n(h + v * L, left, Isa::add(Isa::load_n(h + v * L, left), sum[r][v]));
        }
      }
    }
  }

  template <int R>
  static void rows(int64_t n, const float* a, const Panel& p, float* h, int64_t ldh) {
    if constexpr (R > 1) {
      if (n < R) return rows<R - 1>(n, a, p, h, ldh);
    }
    micro<R>(a, p, h, ldh);
  }

  static void run(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                  int64_t tokens, float* h, int64_t ldh) {
    Panel right;
    Left left;
    for (int64_t t = 0; t < tokens; t += kPart) {
      const int64_t part = tokens - t < kPart ? tokens - t : kPart;
      for (int64_t r0 = 0; r0 < m; r0 += kTiles * kRows) {
        const int64_t some = m - r0 < kTiles * kRows ? m - r0 : kTiles * kRows;
        fill(&left, a + t * lda + r0, lda, part, some);
        for (int64_t c = 0; c < n; c += kColumns) {
          fill(&right, b + t * ldb + c, ldb, part, n - c < kColumns ? n - c : kColumns);
          for (int64_t r = 0; r < some; r += kRows)
            rows<kRows>(some - r, left.a + r / kRows * kPart * kSlot, right, h + (r0 + r) * ldh + c, ldh);
        }
      }
    }
  }
};

}  // namespace roundel
