// y[M,N] = x[M,K] . w[N,K]^T with float activations, over one tile. Included by an instruction set's folder only.
//
// Lanes are output rows (tile.h): a step loads 16 rows' weights of one column, decodes them to floats and multiplies
// them with a broadcast activation. Scales are applied to the sum over a segment (a group, or 256 columns of one):
//   total[r] += scale[g][r] * sum over the segment's columns of x[c] * (q[r][c] - zp[g][r])
// Two ways, the same sums in the same order, so that a token's result does not depend on how many come with it:
//   direct (up to 4 tokens)  the packed weights are read and decoded once, in registers: bound by memory
//   panel  (more)            a panel of decoded weights in the L1 cache serves all tokens: bound by multiply-adds
//
//            16*kPanelBlocks rows            panel [256 columns][16 rows] float, one for each block
//   x copy  ┌──────────┐ totals              x copy [panel][token][256 + pad]
//   [token] │ MR x 16B │ [blocks][token][16*kPanelBlocks]
//           └──────────┘
#pragma once
#include "kernels/cpu/common/linear_finish.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {

// Weight: how 8 columns of 16 rows are decoded.
//   static constexpr bool kInteger;                     // may have zero points
//   static constexpr int kBytes;                        // of 8 columns x 16 rows
//   static constexpr float kFactor;                     // the decoded floats times this are the values
//   static void decode(const uint8_t* p, F (&w)[8][V]);
template <class Isa, class Weight>
struct FloatLinear {
  using F = typename Isa::F;
  static constexpr int V = kBlockRows / Isa::kLanes;
  static constexpr int B = Isa::kPanelBlocks;
  static constexpr int64_t kXStride = kFloatSegment + kXPad / 4;  // floats
  using Finish = LinearFinish<Isa>;

  // ---- direct ----

  template <int MR, int NB, bool kZero>
  static void direct_blocks(const LinearTile& t, int64_t block) {
    alignas(64) float total[MR][NB * kBlockRows] = {};
    const uint8_t* base[NB];
    for (int b = 0; b < NB; ++b) base[b] = t.packed + (block + b) * t.stride;
    const float* x[MR];
    for (int m = 0; m < MR; ++m) x[m] = t.args->x + (t.token0 + m) * t.args->ldx;

    for (int64_t g = 0; g < t.groups; ++g) {
      const int64_t begin = g * t.group, end = begin + t.group < t.k ? begin + t.group : t.k;
      F zero[NB][V];
      if (kZero) {
        for (int b = 0; b < NB; ++b) {
          for (int v = 0; v < V; ++v) zero[b][v] = Finish::zero_point(t, base[b], g, v);
        }
      }
      for (int64_t k0 = begin; k0 < end; k0 += kFloatSegment) {
        const int64_t k1 = k0 + kFloatSegment < end ? k0 + kFloatSegment : end;
        F acc[MR][NB][V];
#pragma GCC unroll 4
        for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
          for (int b = 0; b < NB; ++b)
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) acc[m][b][v] = Isa::zero();
        for (int64_t k = k0; k < k1; k += kStep) {
#pragma GCC unroll 4
          for (int b = 0; b < NB; ++b) {
            // Each block loads the activations anew: kept for all blocks they would fill the registers.

#pragma GCC unroll 4
            for (int m = 0; m < MR; ++m) __asm__("" : "+r"(x[m]));
            const uint8_t* codes = base[b] + k * (Weight::kBytes / kStep);
#pragma GCC unroll 8
            for (int i = 0; i < Weight::kBytes; i += 64) __builtin_prefetch(codes + i + kPrefetch);
            F w[kStep][V];
            Weight::decode(codes, w);
#pragma GCC unroll 8
            for (int c = 0; c < kStep; ++c) {
#pragma GCC unroll 2
              for (int v = 0; v < V; ++v) {
                if (kZero) w[c][v] = Isa::sub(w[c][v], zero[b][v]);
#pragma GCC unroll 4
                for (int m = 0; m < MR; ++m) {
                  acc[m][b][v] = Isa::fma(Isa::set1(x[m][k + c]), w[c][v], acc[m][b][v]);
                }
              }
            }
          }
        }
#pragma GCC unroll 4
        for (int b = 0; b < NB; ++b) {
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) {
            const F scale = Finish::scale(t, base[b], g, v, Weight::kFactor);
#pragma GCC unroll 4
            for (int m = 0; m < MR; ++m) {
              float* to = &total[m][b * kBlockRows + v * Isa::kLanes];
              Isa::store(to, Finish::fold(t.has_scale, acc[m][b][v], scale, Isa::load(to)));
            }
          }
        }
      }
    }
    for (int m = 0; m < MR; ++m) {
      for (int b = 0; b < NB; ++b) Finish::float_row(t, block + b, t.token0 + m, &total[m][b * kBlockRows]);
    }
  }

  template <int MR, bool kZero>
  static void direct(const LinearTile& t) {
    constexpr int NB = Isa::direct_blocks(MR);
    int64_t block = t.block0;
    for (; block + NB <= t.block1; block += NB) direct_blocks<MR, NB, kZero>(t, block);
    for (; block < t.block1; ++block) direct_blocks<MR, 1, kZero>(t, block);
  }

  template <bool kZero>
  static void direct_tokens(const LinearTile& t) {
    switch (t.token1 - t.token0) {
      case 1:
        return direct<1, kZero>(t);
      case 2:
        return direct<2, kZero>(t);
      case 3:
        return direct<3, kZero>(t);
      default:
        return direct<4, kZero>(t);
    }
  }

  // ---- panel ----

  using Segments = PanelSegments<Isa, kFloatSegment>;
  static constexpr int kMaxSegments = Segments::kMost;
  struct Panel : Segments {
    alignas(64) float weights[B][kFloatSegment * kBlockRows];
    alignas(64) float scales[kMaxSegments][B * kBlockRows];
  };

  template <bool kZero>
  static void decode_block(const LinearTile& t, int64_t block, int b, Panel& p) {
    const uint8_t* base = t.packed + block * t.stride;
    float* to = p.weights[b];
    int64_t k = p.begin;
    for (int s = 0; s < p.segments; ++s) {
      F zero[V];
      for (int v = 0; v < V; ++v) {
        if (kZero) zero[v] = Finish::zero_point(t, base, p.group[s], v);
        Isa::store(&p.scales[s][b * kBlockRows + v * Isa::kLanes],
                   Finish::scale(t, base, p.group[s], v, Weight::kFactor));
      }
      for (const int64_t end = k + p.length[s]; k < end; k += kStep) {
        F w[kStep][V];
        Weight::decode(base + k * (Weight::kBytes / kStep), w);
#pragma GCC unroll 8
        for (int c = 0; c < kStep; ++c) {
          for (int v = 0; v < V; ++v) {
            Isa::store(to + v * Isa::kLanes, kZero ? Isa::sub(w[c][v], zero[v]) : w[c][v]);
          }
          to += kBlockRows;
        }
      }
    }
  }

  template <int MR>
  static void micro(bool has_scale, const float* x, const float* const* w, int64_t columns,
                    const float* scale, float* total, const PanelAhead<B>& next) {
    F acc[MR][B][V];
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) acc[m][b][v] = Isa::zero();
    const float* wb[B];
    const uint8_t* ahead[B];
    for (int b = 0; b < B; ++b) wb[b] = w[b], ahead[b] = next.at[b];
    for (int64_t k = 0; k < columns; ++k) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b, ahead[b - 1] += next.step) __builtin_prefetch(ahead[b], 0, 2);
      F wk[B][V];
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) wk[b][v] = Isa::load(wb[b] + k * kBlockRows + v * Isa::kLanes);
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        const F xk = Isa::set1(x[m * kXStride + k]);
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) acc[m][b][v] = Isa::fma(xk, wk[b][v], acc[m][b][v]);
      }
    }
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const int64_t lane = b * kBlockRows + v * Isa::kLanes;
        const F s = Isa::load(scale + lane);
#pragma GCC unroll 16
        for (int m = 0; m < MR; ++m) {
          float* to = total + m * B * kBlockRows + lane;
          Isa::store(to, Finish::fold(has_scale, acc[m][b][v], s, Isa::load(to)));
        }
      }
  }

  template <int MR>
  static void micro_tokens(const LinearTile& t, const Panel& p, const float* x, float* total,
                           PanelAhead<B> next) {
    int64_t done = 0;
    for (int s = 0; s < p.segments; ++s) {
      const float* w[B];
      for (int b = 0; b < B; ++b) w[b] = p.weights[b] + done * kBlockRows;
      micro<MR>(t.has_scale, x + done, w, p.length[s], p.scales[s], total, next);
      next.advance(p.length[s]);
      done += p.length[s];
    }
  }
  using MicroFn = void (*)(const LinearTile&, const Panel&, const float*, float*, PanelAhead<B>);

  template <int MR>
  static MicroFn micro_for(int64_t tokens) {
    if constexpr (MR > 1) {
      if (tokens < MR) return micro_for<MR - 1>(tokens);
    }
    return micro_tokens<MR>;
  }

  // As even as can be: 16 tokens are 8 + 8, not 14 + 2.
  // next: the codes of the panel that follows, for its blocks.
  static void multiply(const LinearTile& t, const Panel& p, const float* x, float* total,
                       const uint8_t* const* next) {
    const int64_t tokens = t.token1 - t.token0;
    const int64_t passes = (tokens + Isa::kPanelTokens - 1) / Isa::kPanelTokens;
    PanelAhead<B> ahead(next, Weight::kBytes / kStep, passes);
    int64_t left = passes;
    for (int64_t m = 0; m < tokens; --left) {
      const int64_t rows = (tokens - m + left - 1) / left;
      micro_for<Isa::kPanelTokens>(rows)(t, p, x + m * kXStride, total + m * B * kBlockRows, ahead);
      ahead.advance(p.columns);
      m += rows;
    }
  }

  // Where the copied activations of panel i and the tile's first token are.
  static float* x_of(const LinearTile& t, int64_t i) {
    return reinterpret_cast<float*>(t.x) + (i * t.args->m + t.token0) * kXStride;
  }

  static void copy_panels(const LinearTile& t) {
    Segments p;
    int64_t i = 0;
    for (int64_t begin = 0; begin < t.k; begin = p.begin + p.columns, ++i) {
      p.plan(t, begin);
      float* to = x_of(t, i);
      for (int64_t m = t.token0; m < t.token1; ++m, to += kXStride) {
        const float* from = t.args->x + m * t.args->ldx + begin;
        int64_t k = 0;
        for (; k + Isa::kLanes <= p.columns; k += Isa::kLanes) Isa::store(to + k, Isa::load(from + k));
        for (; k < p.columns; ++k) to[k] = from[k];
      }
    }
  }

  template <bool kZero>
  static void panels(const LinearTile& t) {
    const int64_t tokens = t.token1 - t.token0;
    static_assert(kTileTokens * kXStride * 4 <= kTileXBytes);
    const int64_t most = kTileXBytes / 4 / (tokens * kXStride);
    const int64_t strips = (t.block1 - t.block0 + B - 1) / B;
    const int64_t strip_size = tokens * B * kBlockRows;
    for (int64_t i = 0; i < strips * strip_size; i += Isa::kLanes) Isa::store(t.totals + i, Isa::zero());

    Panel p;
    for (int64_t k = 0, first = 0; k < t.k; first += most) {
      int64_t end = k;
      for (int64_t i = 0; i < most && end < t.k; ++i) {
        p.plan(t, end);
        end = p.begin + p.columns;
      }
      for (int64_t strip = 0; strip < strips; ++strip) {
        int64_t at = k;
        for (int64_t i = 0; at < end; ++i) {
          p.plan(t, at);
          for (int b = 0; b < B; ++b) {
            const int64_t block = t.block0 + strip * B + b;
            // Rows beyond the last block are computed from it and thrown away.
            decode_block<kZero>(t, block < t.block1 ? block : t.block1 - 1, b, p);
          }
          at = p.begin + p.columns;
          const uint8_t* next[B];
          for (int b = 0; b < B; ++b) {
            const int64_t block = t.block0 + (at < end ? strip : strip + 1) * B + b;
            next[b] = t.packed + block * t.stride + (at < end ? at : k) * (Weight::kBytes / kStep);
          }
          multiply(t, p, x_of(t, first + i), t.totals + strip * strip_size, next);
        }
      }
      k = end;
    }
    for (int64_t m = 0; m < tokens; ++m) {  // a token's outputs at once: they lie side by side
      for (int64_t strip = 0; strip < strips; ++strip) {
        for (int b = 0; b < B && t.block0 + strip * B + b < t.block1; ++b) {
          Finish::float_row(t, t.block0 + strip * B + b, t.token0 + m,
                            t.totals + strip * strip_size + (m * B + b) * kBlockRows);
        }
      }
    }
  }

  static void run(const LinearTile& t) {
    if (t.prepare) return copy_panels(t);
    const bool direct = t.args->m <= kDirectTokens;
    if constexpr (Weight::kInteger) {
      if (t.has_zero) return direct ? direct_tokens<true>(t) : panels<true>(t);
    }
    return direct ? direct_tokens<false>(t) : panels<false>(t);
  }
};

}  // namespace roundel
