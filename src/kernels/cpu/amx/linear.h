// y[M,N] = x[M,K] . w[N,K]^T on the matrix unit: int8 codes, 16-bit integers a byte at a time, or BF16 activations and
// weights decoded to BF16.
//
// A product of tiles takes 16 tokens x 64 bytes of columns and 64 bytes of columns x 16 rows, and adds to 16 x 16 sums.
// Two tiles of tokens (A) and two blocks of rows (B) use each loaded tile twice: four products of 16 cycles for four
// loads of 8.
//
//              B: 64 bytes of columns x 16 rows of two blocks, 1 KiB each
//              ┌─────┬─────┐                 The packed layout (driver/linear_layout.h) interleaves 4 columns of int8
//   A          │ tmm6│ tmm7│                 or 2 of BF16 of 16 rows, which is a B tile: those codes are read in place,
//   ┌─────┐  ┌─┴─────┼─────┤                 all others are decoded into a panel.
//   │ tmm4│  │ tmm0  │ tmm1│
//   ├─────┤  ├───────┼─────┤
//   │ tmm5│  │ tmm2  │ tmm3│
//   └─────┘  └───────┴─────┘
//
// Sums of a segment (a group's columns, or as many of it as a panel has) go to a buffer, are scaled and added to totals as
// in common/linear_float.h and linear_int8.h. That of one segment is done while the products of the next one run.
// Integers are exact and folded in the order of linear_int8.h: the same bits as its. Two ways with equal results:
//   narrow (up to 32 tokens)  two streams of blocks are read once, decoded a tile at a time: bound by memory
//   wide   (more)             a panel of columns for two blocks serves all tokens
// 16-bit integers (floats rounded as in linear_int8.h) have one tile of tokens at a time: tmm4 holds their high bytes,
// signed, tmm5 their low bytes, unsigned, and 256 times the sums of the upper row of tiles plus those of the lower row
// are the same 32-bit sums as those of AVX-512. Up to 8 tokens fit one tile with both bytes, in half the products: there
// low bytes are signed too, less 128, and the sums of the weights times 128 are added.
// A row of a tile does not see the others, so a token's result does not depend on how many come with it.
#pragma once
#include <string.h>

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/amx/weights.h"
#include "kernels/cpu/common/amx.h"
#include "kernels/cpu/common/linear_finish.h"

namespace roundel {

template <class W, bool kZero>
struct AmxLinear {
  using F = Amx::F;
  using I = Amx::I;
  using Finish = LinearFinish<Amx>;
  static constexpr int64_t kElement = W::kInt ? 1 : 2;  // bytes of an activation
  static constexpr int64_t kTokens = 16;                // of a tile
  static constexpr int64_t kPair = 2 * kBlockRows;      // rows of two blocks
  static constexpr int kAtOnce = W::kSplit ? 1 : 2;     // tiles of tokens
  // Ahead of each of the two streams: 250 ns at 16 GB/s are 4 KiB.
  static constexpr int64_t kAhead = 2048;
  static constexpr int64_t kColumns = W::kInt ? kIntSegment : kAmxFloatColumns;
  using Segments = PanelSegments<Amx, kColumns>;

  struct Panel : Segments {
    int64_t segment0 = 0;  // index of the first one
    int64_t block[2];      // the second one may be the first again: then its rows are thrown away
    bool second;
    alignas(64) float scales[Segments::kMost * 8 / kAmxStep][kPair];
    alignas(64) int32_t
        corrections[W::kInt && kZero && !W::kSplit ? Segments::kMost * 8 / kAmxStep : 1][kPair];
  };

  // What a call knows from its beginning to its end.
  const AmxPart& t;
  const int64_t tokens, tiles, tile_rows;
  const bool paired;
  const int64_t step_bytes, step_columns, tile_bytes;
  const int64_t row_bytes, lda, strips;  // of activations; from a token to the next
  const uint8_t* x;
  alignas(64) int32_t sums[2][2 * kTokens][kPair];
  alignas(64) uint8_t ring[2][W::kInPlace ? 1 : 4][1024];  // tiles being decoded
  alignas(
      64) uint8_t tail[W::kInPlace ? 2 : 1][1024];  // the last step of columns in place, with zeros behind K
  alignas(64) int32_t row_sums[2][kPair];           // of a segment's weights
  Panel p;
  int buffer = 0;  // of sums, that the next segment takes

  explicit AmxLinear(const AmxPart& part)
      : t(part),
        tokens(t.token1 - t.token0),
        tiles((tokens + kTokens - 1) / kTokens),
        tile_rows(tokens < kTokens ? tokens : kTokens),
        paired(W::kSplit && t.paired),
        step_bytes(W::kInt && t.groups > 1 && t.group % 64 != 0 ? 32 : 64),
        step_columns(step_bytes / kElement),
        tile_bytes(step_bytes * kBlockRows),
        row_bytes(W::kSplit ? t.ldx : t.args->ldx * kElement),
        lda(W::kSplit && !paired ? 2 * row_bytes : row_bytes),
        strips((t.block1 - t.block0 + 1) / 2),
        x((W::kSplit ? t.x
           : W::kInt ? reinterpret_cast<const uint8_t*>(t.args->x_codes)
                     : reinterpret_cast<const uint8_t*>(t.args->x_bf16)) +
          t.token0 * lda) {}

  // The last tile reaches back to be whole.
  int64_t first_token(int64_t tile) const {
    const int64_t last = tokens - tile_rows;
    return tile * kTokens < last ? tile * kTokens : last;
  }
  const uint8_t* base(int b) const { return t.packed + p.block[b] * t.stride; }
  const uint8_t* codes(int b, int64_t column) const { return base(b) + column * (kBlockRows * W::kBits / 8); }

  // ---- products ----

  // A source has step(i, b0, b1): the B tiles of step i.
  template <int MT, class Source>
  void multiply(const uint8_t* a0, const uint8_t* a1, int64_t steps, Source& source) const {
    tile_zero<0>();
    tile_zero<1>();
    if (MT == 2) {
      tile_zero<2>();
      tile_zero<3>();
    }
    for (int64_t i = 0; i < steps; ++i) {
      const uint8_t *b0, *b1;
      source.step(i, b0, b1);
      tile_load<6>(b0, 64);
      tile_load<4>(a0, lda);
      dot<0, 4, 6>();
      tile_load<7>(b1, 64);
      dot<1, 4, 7>();
      a0 += step_bytes;
      if (MT == 2) {
        tile_load<5>(a1, lda);
        dot<2, 5, 6>();
        dot<3, 5, 7>();
        a1 += step_bytes;
      }
    }
  }
  template <int C, int A, int B>
  ROUNDEL_INLINE void dot() {
    if constexpr (W::kSplit && A == 5) {
      tile_dot_unsigned_signed<C, A, B>();
    } else if constexpr (W::kSplit) {
      tile_dot_signed<C, A, B>();
    } else if constexpr (W::kInt) {
      tile_dot_int8<C, A, B>();
    } else {
      tile_dot_bf16<C, A, B>();
    }
  }

  // Tiles that lie ready: in place or in the panel.
  struct Ready {
    const AmxLinear& l;
    const uint8_t *b0, *b1;
    int64_t full;  // steps before the tail's
    ROUNDEL_INLINE void fetch(const uint8_t* from, int64_t bytes) {
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
    }
    inline __attribute__((always_inline)) void step(int64_t i, const uint8_t*& to0,
                                                    const uint8_t*& to1) const {
      if (W::kInPlace && i == full) {
        to0 = l.tail[0], to1 = l.tail[W::kInPlace ? 1 : 0];
      } else {
        to0 = b0 + i * l.tile_bytes, to1 = b1 + i * l.tile_bytes;
      }
    }
  };
  struct ReadyOnce : Ready {
    inline __attribute__((always_inline)) void step(int64_t i, const uint8_t*& to0,
                                                    const uint8_t*& to1) const {
      Ready::step(i, to0, to1);
      const int64_t at = i * this->l.tile_bytes + kAhead;
      Ready::fetch(this->b0 + at, this->l.tile_bytes);
      Ready::fetch(this->b1 + at, this->l.tile_bytes);
    }
  };
  // The next panel's codes and the next columns' activations, a little with every step.
  struct Ahead {
    const uint8_t* w[2];
    int64_t w_at, w_end, w_step;
    const uint8_t* x;  // row of the next columns
    int64_t lda, x_at, x_bytes, rows, x_step;
    inline __attribute__((always_inline)) void step() {
      for (int64_t i = 0; i < w_step && w_at < w_end; ++i, w_at += 64) {
        __builtin_prefetch(w[0] + w_at, 0, 2);
        __builtin_prefetch(w[1] + w_at, 0, 2);
      }
      for (int64_t i = 0; i < x_step && rows > 0; ++i) {
        __builtin_prefetch(x + x_at, 0, 2);
        x_at += 64;
        if (x_at >= x_bytes) x_at = 0, x += lda, --rows;
      }
    }
  };
  struct ReadyOften : Ready {
    Ahead& ahead;
    inline __attribute__((always_inline)) void step(int64_t i, const uint8_t*& to0,
                                                    const uint8_t*& to1) const {
      ahead.step();
      Ready::step(i, to0, to1);
    }
  };

  // `columns` columns of a tile or panel of `full`, zeros behind them. Decoded padding may be anything finite, so only the
  // codes' activations, which may be anything there, need zero weights.
  template <class Zero>
  void decode_ragged(const uint8_t* from, int64_t columns, int64_t full, Zero zero, uint8_t* to) const {
    const int64_t padded = (columns + kStep - 1) / kStep * kStep, bytes = kBlockRows * kElement;
    if constexpr (W::kInPlace) {
      memcpy(to, from, static_cast<size_t>(padded * bytes));
    } else {
      W::template decode<kZero>(from, padded, zero, to);
    }
    memset(to + padded * bytes, 0, static_cast<size_t>((full - padded) * bytes));
    if (!W::kInt) return;
    for (int64_t c = columns; c < padded; ++c) {
      for (int64_t r = 0; r < kBlockRows; ++r) to[(c / 4 * kBlockRows + r) * 4 + c % 4] = 0;
    }
  }
  auto zero_of(int b, int64_t group) const {
    return W::zero(kZero ? reinterpret_cast<const int8_t*>(base(b) + t.zeros) + group * kBlockRows : nullptr);
  }

  // Decodes each tile just before it is multiplied.
  template <class Zero>
  struct Fused {
    AmxLinear& l;
    const uint8_t* from[2];
    int64_t columns;  // of the segment
    Zero zero[2];
    uint8_t* to[2];  // where tile 0 goes
    int64_t kept;    // tiles, a power of two
    I row_sums[2] = {Amx::iset1(0), Amx::iset1(0)};
    void store_row_sums(int32_t* sums_to) const {
      for (int b = 0; b < 2; ++b) Amx::istore(sums_to + b * kBlockRows, row_sums[b]);
    }
    inline __attribute__((always_inline)) void step(int64_t i, const uint8_t*& to0, const uint8_t*& to1) {
      const int64_t slot = (i & (kept - 1)) * l.tile_bytes;
      const int64_t done = i * l.step_columns, bytes = kBlockRows * W::kBits / 8;
      for (int b = 0; b < 2; ++b) {
        const uint8_t* at = from[b] + done * bytes;
        for (int64_t j = 0; j < l.step_columns * bytes; j += 64) __builtin_prefetch(at + kAhead + j);
        if (columns - done >= l.step_columns) {
          W::template decode<kZero>(at, l.step_columns, zero[b], to[b] + slot);
        } else {
          l.decode_ragged(at, columns - done, l.step_columns, zero[b], to[b] + slot);
        }
      }
      to0 = to[0] + slot, to1 = to[1] + slot;
      if (!W::kSplit || !l.paired) return;
      for (int64_t j = 0; j < l.tile_bytes; j += 64) {
        row_sums[0] = _mm512_dpbusd_epi32(row_sums[0], _mm512_set1_epi8(1), Amx::iload(to0 + j));
        row_sums[1] = _mm512_dpbusd_epi32(row_sums[1], _mm512_set1_epi8(1), Amx::iload(to1 + j));
      }
    }
  };

  // ---- from sums to y ----

  struct Fold {
    int64_t tile = -1;  // none
    int mt;
    int segment, buffer;
    bool first, last;
    float* totals;  // of the two blocks
  };

  // What a fold needs of one of the two blocks; in locals, which no store can change.
  struct Block {
    F scale, row_sum, bias;
    I correction;
    float* y;
    Amx::Mask lanes;  // rows that exist
  };
  Block block_of(int b, const Fold& f) const {
    Block k{};
    const int64_t row = p.block[b] * kBlockRows, left = b == 1 && !p.second ? 0 : t.n - row;
    k.lanes = left >= kBlockRows ? static_cast<Amx::Mask>(0xffff) : Amx::first(left);
    k.scale = Amx::load(&p.scales[f.segment][b * kBlockRows]);
    if constexpr (W::kSplit)
      k.correction = _mm512_slli_epi32(Amx::iload(&row_sums[f.buffer][b * kBlockRows]), 7);
    if constexpr (W::kInt && kZero && !W::kSplit)
      k.correction = Amx::iload(&p.corrections[f.segment][b * kBlockRows]);
    if constexpr (W::kInt && !W::kSplit)
      k.row_sum = Amx::load(reinterpret_cast<const float*>(base(b) + t.sums));
    if (t.args->bias) k.bias = _mm512_maskz_loadu_ps(k.lanes, t.args->bias + row);
    k.y = t.args->y + row;
    return k;
  }

  template <bool kFirst, bool kLast, bool kPaired>
  void fold_as(const Fold& f) const {
    const Block blocks[2] = {block_of(0, f), block_of(1, f)};
    const LinearArgs args = *t.args;
    const int64_t rows = tile_rows, segments = t.segments;
    const bool has_scale = t.has_scale, has_bias = args.bias != nullptr;
    for (int i = 0; i < f.mt; ++i) {
      float* total = f.totals + (f.tile + i) * kTokens * kPair;
      const int32_t* from = sums[f.buffer][i * kTokens];
      int64_t token = t.token0 + first_token(f.tile + i);
      const int64_t at = token * segments + p.segment0 + f.segment;
      const int32_t* token_sum = t.token_sums + at;
      const float* part_scale = t.part_scales + at;
      for (int64_t r = 0; r < rows; ++r, ++token, total += kPair, from += kPaired ? 2 * kPair : kPair) {
        I x_sum{};
        F x_scale{}, x_zero{};
        if constexpr (W::kSplit) {
          x_scale = Amx::set1(*part_scale);
          part_scale += segments;
        } else if constexpr (W::kInt) {
          x_sum = Amx::iset1(kZero ? *token_sum : *token_sum * W::kOffset);
          token_sum += segments;
          if (kLast) {
            x_scale = Amx::set1(args.x_scale[token]);
            x_zero = Amx::set1(args.x_zero ? static_cast<float>(args.x_zero[token]) : 0.0f);
          }
        }
#pragma GCC unroll 2
        for (int b = 0; b < 2; ++b) {
          const Block& k = blocks[b];
          const F before = kFirst ? Amx::zero() : Amx::load(total + b * kBlockRows);
          const I sum = Amx::iload(from + b * kBlockRows);
          F v;
          if constexpr (W::kSplit) {
            const I low = Amx::iload(from + (kPaired ? kPair : kTokens * kPair) + b * kBlockRows);
            I exact = Amx::iadd(_mm512_slli_epi32(sum, 8), low);
            if (kPaired) exact = Amx::iadd(exact, k.correction);
            v = Amx::fma(Amx::to_float(exact), Amx::mul(k.scale, x_scale), before);
          } else if constexpr (W::kInt) {
            const I exact = Amx::isub(sum, kZero ? Amx::imul(k.correction, x_sum) : x_sum);
            v = Amx::fma(Amx::to_float(exact), k.scale, before);
            if (kLast) v = Amx::mul(Amx::fnma(x_zero, k.row_sum, v), x_scale);
          } else {
            v = Finish::fold(has_scale, _mm512_castsi512_ps(sum), k.scale, before);
          }
          if (!kLast) {
            Amx::store(total + b * kBlockRows, v);
            continue;
          }
          if (has_bias) v = Amx::add(v, k.bias);
          _mm512_mask_storeu_ps(k.y + token * args.ldy, k.lanes, v);
        }
      }
    }
  }
  void finish(Fold& f) const {
    if (f.tile < 0) return;
    W::kSplit&& paired ? fold_of<W::kSplit>(f) : fold_of<false>(f);
    f.tile = -1;
  }
  template <bool kPaired>
  void fold_of(const Fold& f) const {
    if (f.first) {
      f.last ? fold_as<true, true, kPaired>(f) : fold_as<true, false, kPaired>(f);
    } else {
      f.last ? fold_as<false, true, kPaired>(f) : fold_as<false, false, kPaired>(f);
    }
  }

  // Products of one segment with one or two tiles of tokens; the sums of the one before are folded meanwhile.
  template <class Source>
  void segment(Fold& waiting, const Fold& mine, int64_t column, int64_t steps, Source&& source) {
    const uint8_t* a0 = x + first_token(mine.tile) * lda + column * kElement;
    if (W::kSplit && paired) {
      multiply<1>(a0, a0, steps, source);
      if constexpr (requires { source.store_row_sums(row_sums[0]); })
        source.store_row_sums(row_sums[mine.buffer]);
    } else if (W::kSplit) {
      multiply<2>(a0, a0 + row_bytes, steps, source);
    } else if (mine.mt == 2) {
      multiply<2>(a0, x + first_token(mine.tile + 1) * lda + column * kElement, steps, source);
    } else {
      multiply<1>(a0, a0, steps, source);
    }
    finish(waiting);
    tile_store<0>(&sums[mine.buffer][0][0], kPair * 4);
    tile_store<1>(&sums[mine.buffer][0][kBlockRows], kPair * 4);
    if ((W::kSplit && !paired) || mine.mt == 2) {
      tile_store<2>(&sums[mine.buffer][kTokens][0], kPair * 4);
      tile_store<3>(&sums[mine.buffer][kTokens][kBlockRows], kPair * 4);
    }
    waiting = mine;
  }

  // ---- loops ----

  // Two streams through memory: the first and the second half of the part's blocks.
  void choose_blocks(int64_t strip) {
    p.block[0] = t.block0 + strip;
    p.second = p.block[0] + strips < t.block1;
    p.block[1] = p.second ? p.block[0] + strips : p.block[0];
  }

  void load_scales() {
    for (int s = 0; s < p.segments; ++s) {
      for (int b = 0; b < 2; ++b) {
        float factor = 1;
        if constexpr (!W::kInt) factor = W::kFactor;
        Amx::store(&p.scales[s][b * kBlockRows], Finish::scale(t, base(b), p.group[s], 0, factor));
        if constexpr (W::kInt && kZero && !W::kSplit) {
          const I zero = Finish::zero_point_int(t, base(b), p.group[s], 0);
          Amx::istore(&p.corrections[s][b * kBlockRows], Amx::iadd(Amx::iset1(W::kOffset), zero));
        }
      }
    }
    if constexpr (W::kInPlace) {
      const int64_t rest = p.length[p.segments - 1] % step_columns;
      for (int b = 0; b < 2 && rest > 0; ++b)
        decode_ragged(codes(b, p.begin + p.columns - rest), rest, step_columns, 0, tail[b]);
    }
  }

  int64_t steps_of(int s) const {
    return (p.length[s] + step_columns - 1) / step_columns;
  }
  bool last() const {
    return p.begin + p.columns == t.k;
  }

  template <class Source>
  void segment_of_tile(Fold& waiting, int64_t tile, int s, bool first, int64_t column, Source&& source) {
    const Fold mine{tile,  W::kSplit ? 1 : static_cast<int>(tiles), s,       buffer,
                    first, last() && s + 1 == p.segments,           t.totals};
    segment(waiting, mine, column, steps_of(s), source);
    buffer ^= 1;
  }

  void narrow() {
    for (int64_t strip = 0; strip < strips; ++strip) {
      choose_blocks(strip);
      Fold waiting;
      p.segment0 = 0;
      for (int64_t k = 0; k < t.k; k += p.columns, p.segment0 += p.segments) {
        p.plan(t, k);
        load_scales();
        int64_t column = p.begin;
        for (int s = 0; s < p.segments; ++s) {
          const bool first = k == 0 && s == 0;
          const bool again = W::kSplit && tiles == 2;
          const int64_t full = p.length[s] / step_columns;
          if constexpr (W::kInPlace) {
            const Ready ready{*this, codes(0, column), codes(1, column), full};
            segment_of_tile(waiting, 0, s, first, column, ReadyOnce{ready});
            if (again) segment_of_tile(waiting, 1, s, first, column, ready);
          } else {
            using Zero = decltype(zero_of(0, 0));
            uint8_t* const to0 = again ? t.panel : ring[0][0];
            uint8_t* const to1 = again ? t.panel + kAmxPanelBytes / 2 : ring[1][0];
            segment_of_tile(waiting, 0, s, first, column,
                            Fused<Zero>{*this,
                                        {codes(0, column), codes(1, column)},
                                        p.length[s],
                                        {zero_of(0, p.group[s]), zero_of(1, p.group[s])},
                                        {to0, to1},
                                        again ? kIntSegment : 4});
            if (again) segment_of_tile(waiting, 1, s, first, column, Ready{*this, to0, to1, full});
          }
          column += p.length[s];
        }
        finish(waiting);
      }
    }
  }

  // The panel's columns of both blocks as B tiles, one after the other.
  void decode_panel() {
    if constexpr (!W::kInPlace) {
      for (int b = 0; b < 2; ++b) {
        uint8_t* to = t.panel + b * (kAmxPanelBytes / 2);
        int64_t column = p.begin;
        for (int s = 0; s < p.segments; ++s) {
          const int64_t rest = p.length[s] % step_columns, whole = p.length[s] - rest;
          W::template decode<kZero>(codes(b, column), whole, zero_of(b, p.group[s]), to);
          to += whole * kBlockRows * kElement;
          if (rest > 0)
            decode_ragged(codes(b, column + whole), rest, step_columns, zero_of(b, p.group[s]), to);
          column += p.length[s];
        }
      }
    }
  }

  // What is wanted after this panel: the same columns of the next blocks, or the next columns of the first.
  void look_ahead(int64_t strip, Ahead& a) const {
    const bool more = strip + 1 < strips;
    const int64_t column = more ? p.begin : last() ? 0 : p.begin + p.columns;
    const int64_t block = t.block0 + (more ? strip + 1 : 0);
    const int64_t other = block + strips < t.block1 ? block + strips : block;
    const int64_t offset = column * (kBlockRows * W::kBits / 8);
    a.w[0] = t.packed + block * t.stride + offset;
    a.w[1] = t.packed + other * t.stride + offset;
    a.w_at = 0;
    a.w_end = more || !last() ? p.columns * (kBlockRows * W::kBits / 8) : 0;
    int64_t steps = 0;
    for (int s = 0; s < p.segments; ++s) steps += steps_of(s);
    const int64_t calls = steps * ((tiles + kAtOnce - 1) / kAtOnce);
    a.w_step = (a.w_end / 64 + calls - 1) / calls;
    a.lda = row_bytes;
    // Each strip asks for its share of the 1 KiB of a row.
    a.x_bytes = p.columns == t.k ? 0 : (p.columns * kElement / 64 + strips - 1) / strips * 64;
    a.x_step = (2 * kTokens * a.x_bytes / 64 + steps - 1) / steps;
  }
  void look_ahead_at(int64_t strip, int64_t tile, Ahead& a) const {
    const int64_t column = last() ? 0 : p.begin + p.columns;
    a.x = x + first_token(tile) * lda + column * kElement + strip * a.x_bytes;
    a.x_at = 0;
    const int64_t left = (tokens - first_token(tile)) * (W::kSplit ? 2 : 1);
    const bool inside = column * kElement + (strip + 1) * a.x_bytes <= row_bytes;
    a.rows = a.x_bytes == 0 || !inside ? 0 : left < 2 * kTokens ? left : 2 * kTokens;
  }

  void wide() {
    p.segment0 = 0;
    for (int64_t k = 0; k < t.k; k += p.columns, p.segment0 += p.segments) {
      p.plan(t, k);
      for (int64_t strip = 0; strip < strips; ++strip) {
        choose_blocks(strip);
        load_scales();
        decode_panel();
        const uint8_t* b0 = W::kInPlace ? codes(0, p.begin) : t.panel;
        const uint8_t* b1 = W::kInPlace ? codes(1, p.begin) : t.panel + kAmxPanelBytes / 2;
        Ahead ahead;
        look_ahead(strip, ahead);
        float* totals = t.totals + strip * tiles * kTokens * kPair;
        Fold waiting;
        for (int64_t tile = 0; tile < tiles; tile += kAtOnce) {
          look_ahead_at(strip, tile, ahead);
          int64_t done = 0;
          for (int s = 0; s < p.segments; ++s, buffer ^= 1) {
            const Fold mine{tile,
                            tiles - tile < kAtOnce ? 1 : kAtOnce,
                            s,
                            buffer,
                            k == 0 && s == 0,
                            last() && s + 1 == p.segments,
                            totals};
            const int64_t at = done * kBlockRows * kElement;
            segment(waiting, mine, p.begin + done, steps_of(s),
                    ReadyOften{{*this, b0 + at, b1 + at, p.length[s] / step_columns}, ahead});
            done += p.length[s];
          }
        }
        finish(waiting);
      }
    }
  }

  void run() {
    // Two bytes of 512 tokens' columns and those of the next panel are to fit the L2 cache.
    if (W::kSplit && t.groups > 1 && t.group <= kColumns / 2) p.most = kColumns / 2;
    TileConfig config;
    const int64_t a_rows = paired ? 2 * tile_rows : tile_rows;
    for (int tile = 0; tile < 4; ++tile) config.set(tile, a_rows, 64);
    for (int tile = 4; tile < 6; ++tile) config.set(tile, a_rows, step_bytes);
    for (int tile = 6; tile < 8; ++tile) config.set(tile, step_bytes / 4, 64);
    tile_configure(config);
    tiles <= 2 ? narrow() : wide();
    tile_release();
  }
};

template <class W>
void run_amx(const AmxPart& t) {
  if (t.has_zero) {
    AmxLinear<W, true>(t).run();
  } else {
    AmxLinear<W, false>(t).run();
  }
}

}  // namespace roundel
