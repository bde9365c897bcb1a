// y[M,N] = x[M,K] . w[N,K]^T in integers, over one tile. Included by an instruction set's folder only. Activations are
// int8 codes, or floats, of which each segment is rounded here to 16-bit integers with a scale of its own.
//
// Lanes are output rows (tile.h): a step multiplies four columns of 16 rows, unsigned bytes, with four broadcast
// activations, signed bytes, and adds the four products to 32-bit sums, exactly. Weights are stored as q + offset
// (128 or 8), so for a segment (a group, or kSegment columns of one):
//   sum x (q - zp) = sum x (q + offset) - (offset + zp) * sum x
//   total[r] += scale[g][r] * float(that)
//   y = (total - x_zero * row_sum[r]) * x_scale
// With floats, scale[g][r] is times the segment's x scale, and y = total.
// 1024 columns stay exact: 1024 * 128 * 255 < 2^31, and 1024 * 32767 * (15 + 16) < 2^31 for weights of 4 bits. Floats and
// weights of 8 bits have segments of 256: 256 * 32767 * 255 < 2^31.
// As with floats there are two ways with equal results: direct for up to 4 tokens, and panel, where bytes are read in place
// and nibbles are unpacked to bytes once for all tokens:
//   panel [columns/4][16 rows][4] bytes, 16 KiB for each block; x copy [panel][token][1024 + pad]
#pragma once
#include "kernels/cpu/common/linear_finish.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {

// Floats as 16-bit integers: the step for a largest magnitude of these bits; returns 1 / step. It is a power of two, at most
// the largest value / 16383, so half a step is closer to the float than BF16 is wherever the value is above a 64th of the
// largest; values of few bits (FP8 activations) stay what they are. NaN and infinity go on through the step, and where
// everything is too small for a quotient it is taken for zero.
static inline float int16_step(int32_t bits, float* step) {
  float amax;
  __builtin_memcpy(&amax, &bits, 4);
  *step = amax;
  if (bits >= 0x7f800000) return 0;
  *step = 0;
  if (amax < 1e-30f) return 0;
  const float least = amax / 32767.0f;
  __builtin_memcpy(&bits, &least, 4);
  const int32_t up = (bits + 0x7fffff) & 0x7f800000;  // to the next power of two
  const int32_t down = 0x7f000000 - up;
  float inverse;
  __builtin_memcpy(step, &up, 4);
  __builtin_memcpy(&inverse, &down, 4);
  return inverse;
}

// Isa8: how integers are multiplied.
//   using W, X;                              // columns of kLanes rows; activations, broadcast
//   static constexpr int kParts;             // four columns are multiplied in so many parts, one after the other: fewer
//                                            // registers hold them
//   static constexpr int kXBytes;            // bytes of one prepared activation
//   template <int kPart> static W weights(I bytes);
//   template <int kPart> static X load_x(const uint8_t* x, int64_t k);
//   using Sum;                               // kLanes int32, a vector of int so that no cast splits it
//   static Sum dot(Sum sum, W w, X x);       // sum + the part's products
//   static constexpr bool kFloats;           // whether activations are floats
//   static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to);   // returns the sum; pads with zeros to 8
//   static int32_t prepare(const float* x, int64_t n, uint8_t* to, float* scale);   // of kFloats
template <class Isa8, bool kNibbles>
struct IntLinear {
  using Isa = typename Isa8::Isa;
  using F = typename Isa::F;
  using I = typename Isa::I;
  using Finish = LinearFinish<Isa>;
  static constexpr int V = kBlockRows / Isa::kLanes;
  static constexpr int B = Isa::kPanelBlocks;
  static constexpr int kTokens = Isa::kIntPanelTokens;
  static constexpr int kBytes = kNibbles ? 64 : 128;  // of 8 columns x 16 rows
  static constexpr int32_t kOffset = kNibbles ? 8 : 128;
  static constexpr int64_t kXStride = kIntSegment * Isa8::kXBytes + kXPad;
  static constexpr int64_t kSegment = Isa8::kFloats && !kNibbles ? kInt16Segment : kIntSegment;

  // What is known of a segment of a token's activations.
  struct XSegment {
    int32_t sum;
    float scale;  // of kFloats
  };
  static_assert(sizeof(XSegment) == 8);

  static XSegment prepare(const LinearTile& t, int64_t token, int64_t k, int64_t n, uint8_t* to) {
    XSegment s;
    if constexpr (Isa8::kFloats) {
      s.sum = Isa8::prepare(t.args->x + token * t.args->ldx + k, n, to, &s.scale);
    } else {
      s.sum = Isa8::prepare(t.args->x_codes + token * t.args->ldx + k, n, to);
      s.scale = 1;
    }
    return s;
  }

  template <int kPart>
  struct Part {
    static constexpr int value = kPart;
  };
  template <class Function>
  static inline __attribute__((always_inline)) void each_part(Function f) {
    f(Part<0>());
    if constexpr (Isa8::kParts == 2) f(Part<1>());
  }

  // Eight columns: the first four and the last four.
  static inline __attribute__((always_inline)) void decode(const uint8_t* p, I (&w)[2][V]) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const I bytes = Isa::iload(p + v * Isa::kLanes * 4);
      if (kNibbles) {
        const I low = Isa::iset1(0x0f0f0f0f);
        w[0][v] = Isa::iand(bytes, low);
        w[1][v] = Isa::iand(Isa::template srl<4>(bytes), low);
      } else {
        w[0][v] = bytes;
        w[1][v] = Isa::iload(p + 64 + v * Isa::kLanes * 4);
      }
    }
  }

  static I correction(const LinearTile& t, const uint8_t* base, int64_t g, int v) {
    const I offset = Isa::iset1(kOffset);
    return t.has_zero ? Isa::iadd(offset, Finish::zero_point_int(t, base, g, v)) : offset;
  }

  static inline __attribute__((always_inline)) void fold(typename Isa8::Sum sum, bool has_zero, I corr,
                                                         const XSegment& x, F scale, float* total) {
    const I exact = Isa::isub(
        (I)sum, has_zero ? Isa::imul(corr, Isa::iset1(x.sum))
                         : Isa::iset1(static_cast<int32_t>(static_cast<uint32_t>(x.sum) * kOffset)));
    if (Isa8::kFloats) scale = Isa::mul(scale, Isa::set1(x.scale));
    Isa::store(total, Isa::fma(Isa::to_float(exact), scale, Isa::load(total)));
  }

  static void finish(const LinearTile& t, int64_t block, int64_t token, const float* total) {
    if (Isa8::kFloats) {
      Finish::float_row(t, block, token, total);
    } else {
      Finish::int_row(t, block, token, total);
    }
  }

  // ---- direct ----

  template <int MR, int NB>
  static void direct_blocks(const LinearTile& t, int64_t block, int64_t x_stride, const XSegment* xs,
                            int64_t segments) {
    alignas(64) float total[MR][NB * kBlockRows] = {};
    const uint8_t* base[NB];
    for (int b = 0; b < NB; ++b) base[b] = t.packed + (block + b) * t.stride;
    const uint8_t* x[MR];
    for (int m = 0; m < MR; ++m) x[m] = t.x + m * x_stride;
    int64_t segment = 0;
    for (int64_t g = 0; g < t.groups; ++g) {
      const int64_t begin = g * t.group, end = begin + t.group < t.k ? begin + t.group : t.k;
      for (int64_t k0 = begin; k0 < end; k0 += kSegment, ++segment) {
        const int64_t k1 = k0 + kSegment < end ? k0 + kSegment : end;
        typename Isa8::Sum acc[MR][NB][V];
#pragma GCC unroll 4
        for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
          for (int b = 0; b < NB; ++b)
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) acc[m][b][v] = typename Isa8::Sum{};
        for (int64_t k = k0; k < k1; k += kStep) {
#pragma GCC unroll 4
          for (int b = 0; b < NB; ++b) {
            // Each block loads the activations anew: kept for all blocks they would fill the registers.
#pragma GCC unroll 4
            for (int m = 0; m < MR; ++m) __asm__("" : "+r"(x[m]));
            const uint8_t* codes = base[b] + k * (kBytes / kStep);
            __builtin_prefetch(codes + kPrefetch);
            if (!kNibbles) __builtin_prefetch(codes + kPrefetch + 64);
            I w[2][V];
            decode(codes, w);
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 2
              for (int v = 0; v < V; ++v) {
                each_part([&](auto part) __attribute__((always_inline)) {
                  const typename Isa8::W wide = Isa8::template weights<part.value>(w[h][v]);
#pragma GCC unroll 4
                  for (int m = 0; m < MR; ++m) {
                    acc[m][b][v] =
                        Isa8::dot(acc[m][b][v], wide, Isa8::template load_x<part.value>(x[m], k + 4 * h));
                  }
                });
              }
            }
          }
        }
#pragma GCC unroll 4
        for (int b = 0; b < NB; ++b) {
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) {
            const F scale = Finish::scale(t, base[b], g, v, 1.0f);
            const I corr = correction(t, base[b], g, v);
#pragma GCC unroll 4
            for (int m = 0; m < MR; ++m) {
              fold(acc[m][b][v], t.has_zero, corr, xs[m * segments + segment], scale,
                   &total[m][b * kBlockRows + v * Isa::kLanes]);
            }
          }
        }
      }
    }
    for (int m = 0; m < MR; ++m) {
      for (int b = 0; b < NB; ++b) finish(t, block + b, t.token0 + m, &total[m][b * kBlockRows]);
    }
  }

  template <int MR>
  static void direct(const LinearTile& t) {
    const int64_t x_stride = (t.k + kStep - 1) / kStep * kStep * Isa8::kXBytes;
    auto* const xs = reinterpret_cast<XSegment*>(t.x_segments);
    int64_t segments = 0;
    for (int m = 0; m < MR; ++m) {
      int64_t segment = 0;
      for (int64_t g = 0; g < t.groups; ++g) {
        const int64_t begin = g * t.group, end = begin + t.group < t.k ? begin + t.group : t.k;
        for (int64_t k = begin; k < end; k += kSegment) {
          const int64_t n = end - k < kSegment ? end - k : kSegment;
          xs[m * segments + segment++] =
              prepare(t, t.token0 + m, k, n, t.x + m * x_stride + k * Isa8::kXBytes);
        }
      }
      segments = segment;
    }
    constexpr int NB = Isa::direct_blocks(MR);
    int64_t block = t.block0;
    for (; block + NB <= t.block1; block += NB) direct_blocks<MR, NB>(t, block, x_stride, xs, segments);
    for (; block < t.block1; ++block) direct_blocks<MR, 1>(t, block, x_stride, xs, segments);
  }

  // ---- panel ----

  using Segments = PanelSegments<Isa, kIntSegment, kSegment>;
  static constexpr int kMaxSegments = Segments::kMost;
  struct Panel : Segments {
    bool has_zero;
    const uint8_t* weights[B];
    alignas(64) uint8_t bytes[kNibbles ? B : 1][kNibbles ? kIntSegment * kBlockRows : 64];
    alignas(64) float scales[kMaxSegments][B * kBlockRows];
    alignas(64) int32_t corrections[kMaxSegments][B * kBlockRows];
  };

  static void decode_block(const LinearTile& t, int64_t block, int b, Panel& p) {
    const uint8_t* base = t.packed + block * t.stride;
    for (int s = 0; s < p.segments; ++s) {
      for (int v = 0; v < V; ++v) {
        const int lane = b * kBlockRows + v * Isa::kLanes;
        Isa::store(&p.scales[s][lane], Finish::scale(t, base, p.group[s], v, 1.0f));
        Isa::istore(&p.corrections[s][lane], correction(t, base, p.group[s], v));
      }
    }
    const uint8_t* from = base + p.begin * (kBytes / kStep);
    p.weights[b] = from;
    if constexpr (kNibbles) {
      p.weights[b] = p.bytes[b];
      uint8_t* to = p.bytes[b];
      for (int64_t k = 0; k < p.columns; k += kStep, from += kBytes, to += 128) {
        I w[2][V];
        decode(from, w);
        for (int h = 0; h < 2; ++h)
          for (int v = 0; v < V; ++v) Isa::istore(to + 64 * h + v * Isa::kLanes * 4, w[h][v]);
      }
    }
  }

  template <int MR>
  static void micro(const uint8_t* x, const uint8_t* const* weights, int64_t columns, const float* scales,
                    const int32_t* corrections, const XSegment* xs, float* total, const PanelAhead<B>& next,
                    bool has_zero) {
    typename Isa8::Sum acc[MR][B][V];
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) acc[m][b][v] = typename Isa8::Sum{};
    const uint8_t* wb[B];
    const uint8_t* ahead[B];
    for (int b = 0; b < B; ++b) wb[b] = weights[b], ahead[b] = next.at[b];
    for (int64_t k = 0; k < columns; k += 4) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b, ahead[b - 1] += next.step) __builtin_prefetch(ahead[b], 0, 2);
      each_part([&](auto part) __attribute__((always_inline)) {
        typename Isa8::W w[B][V];
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) {
            const I bytes = Isa::iload(wb[b] + k * kBlockRows + v * Isa::kLanes * 4);
            w[b][v] = Isa8::template weights<part.value>(bytes);
          }
#pragma GCC unroll 16
        for (int m = 0; m < MR; ++m) {
          const typename Isa8::X xk = Isa8::template load_x<part.value>(x + m * kXStride, k);
#pragma GCC unroll 2
          for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) acc[m][b][v] = Isa8::dot(acc[m][b][v], w[b][v], xk);
        }
      });
    }
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const int lane = b * kBlockRows + v * Isa::kLanes;
        const F scale = Isa::load(scales + lane);
        const I corr = Isa::iload(corrections + lane);
#pragma GCC unroll 16
        for (int m = 0; m < MR; ++m) {
          fold(acc[m][b][v], has_zero, corr, xs[m * kMaxSegments], scale, total + m * B * kBlockRows + lane);
        }
      }
  }

  template <int MR>
  static void micro_tokens(const Panel& p, const uint8_t* x, const XSegment* xs, float* total,
                           PanelAhead<B> next) {
    int64_t done = 0;
    for (int s = 0; s < p.segments; ++s) {
      const uint8_t* w[B];
      for (int b = 0; b < B; ++b) w[b] = p.weights[b] + done * kBlockRows;
      micro<MR>(x + done * Isa8::kXBytes, w, p.length[s], p.scales[s], p.corrections[s], xs + s, total, next,
                p.has_zero);
      next.advance(p.length[s] / 4);
      done += p.length[s];
    }
  }
  using MicroFn = void (*)(const Panel&, const uint8_t*, const XSegment*, float*, PanelAhead<B>);

  template <int MR>
  static MicroFn micro_for(int64_t tokens) {
    if constexpr (MR > 1) {
      if (tokens < MR) return micro_for<MR - 1>(tokens);
    }
    return micro_tokens<MR>;
  }

  // next: the codes of the panel that follows, for its blocks.
  static void multiply(const LinearTile& t, const Panel& p, const uint8_t* x, const XSegment* xs,
                       float* total, const uint8_t* const* next) {
    const int64_t tokens = t.token1 - t.token0, passes = (tokens + kTokens - 1) / kTokens;
    PanelAhead<B> ahead(next, kBytes / 2, passes);
    int64_t left = passes;
    for (int64_t m = 0; m < tokens; --left) {
      const int64_t rows = (tokens - m + left - 1) / left;
      micro_for<kTokens>(rows)(p, x + m * kXStride, xs + m * kMaxSegments, total + m * B * kBlockRows, ahead);
      ahead.advance(p.columns / 4);
      m += rows;
    }
  }

  // Where the prepared activations of panel i and the tile's first token are, and their segments.
  static uint8_t* x_of(const LinearTile& t, int64_t i) {
    return t.x + (i * t.args->m + t.token0) * kXStride;
  }
  static XSegment* segments_of(const LinearTile& t, int64_t i) {
    return reinterpret_cast<XSegment*>(t.x_segments) + (i * t.args->m + t.token0) * kMaxSegments;
  }

  static void prepare_panels(const LinearTile& t) {
    Segments p;
    int64_t i = 0;
    for (int64_t k = 0; k < t.k; k = p.begin + p.columns, ++i) {
      p.plan(t, k);
      uint8_t* to = x_of(t, i);
      XSegment* xs = segments_of(t, i);
      for (int64_t m = t.token0; m < t.token1; ++m, to += kXStride, xs += kMaxSegments) {
        int64_t done = 0;
        for (int s = 0; s < p.segments; ++s) {
          xs[s] = prepare(t, m, k + done, p.length[s], to + done * Isa8::kXBytes);
          done += p.length[s];
        }
      }
    }
  }

  static void panels(const LinearTile& t) {
    const int64_t tokens = t.token1 - t.token0;
    static_assert(kTileTokens * kXStride <= kTileXBytes);
    const int64_t most = kTileXBytes / (tokens * kXStride);
    const int64_t strips = (t.block1 - t.block0 + B - 1) / B;
    const int64_t strip_size = tokens * B * kBlockRows;
    for (int64_t i = 0; i < strips * strip_size; i += Isa::kLanes) Isa::store(t.totals + i, Isa::zero());

    Panel p;
    p.has_zero = t.has_zero;
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
            decode_block(t, block < t.block1 ? block : t.block1 - 1, b, p);
          }
          at = p.begin + p.columns;
          const uint8_t* next[B];
          for (int b = 0; b < B; ++b) {
            const int64_t block = t.block0 + (at < end ? strip : strip + 1) * B + b;
            next[b] = t.packed + block * t.stride + (at < end ? at : k) * (kBytes / kStep);
          }
          multiply(t, p, x_of(t, first + i), segments_of(t, first + i), t.totals + strip * strip_size, next);
        }
      }
      k = end;
    }
    for (int64_t m = 0; m < tokens; ++m) {  // a token's outputs at once: they lie side by side
      for (int64_t strip = 0; strip < strips; ++strip) {
        for (int b = 0; b < B && t.block0 + strip * B + b < t.block1; ++b) {
          finish(t, t.block0 + strip * B + b, t.token0 + m,
                 t.totals + strip * strip_size + (m * B + b) * kBlockRows);
        }
      }
    }
  }

  static void run(const LinearTile& t) {
    if (t.prepare) return prepare_panels(t);
    if (t.args->m > kDirectTokens) return panels(t);
    switch (t.token1 - t.token0) {
      case 1:
        return direct<1>(t);
      case 2:
        return direct<2>(t);
      case 3:
        return direct<3>(t);
      default:
        return direct<4>(t);
    }
  }
};

}  // namespace roundel
