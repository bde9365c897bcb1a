// What all linear tiles share: scales and zero points of 16 rows, and the way from totals to y.
#pragma once
#include "kernels/cpu/common/tile.h"

namespace roundel {

template <class Isa>
struct LinearFinish {
  using F = typename Isa::F;
  using I = typename Isa::I;

  // Scales of lanes v * kLanes .. of the block at `base`, times `factor`; 1 where the weight has none.
  static F scale(const LinearTile& t, const uint8_t* base, int64_t g, int v, float factor) {
    if (!t.has_scale) return Isa::set1(1.0f);
    const int64_t i = g * kBlockRows + v * Isa::kLanes;
    F s;
    switch (t.scale_type) {
      case ScaleType::kBF16:
        s = Isa::load_bf16(base + t.scales + i * 2);
        break;
      case ScaleType::kF16:
        s = Isa::load_f16(base + t.scales + i * 2);
        break;
      default:
        s = Isa::load(reinterpret_cast<const float*>(base + t.scales) + i);
        break;
    }
    return factor == 1.0f ? s : Isa::mul(s, Isa::set1(factor));
  }
  static I zero_point_int(const LinearTile& t, const uint8_t* base, int64_t g, int v) {
    return Isa::load_s8(reinterpret_cast<const int8_t*>(base + t.zeros) + g * kBlockRows + v * Isa::kLanes);
  }
  static F zero_point(const LinearTile& t, const uint8_t* base, int64_t g, int v) {
    return Isa::to_float(zero_point_int(t, base, g, v));
  }

  static F fold(bool has_scale, F segment, F scale, F total) {
    return has_scale ? Isa::fma(segment, scale, total) : Isa::add(total, segment);
  }

  // y of one token and the 16 rows of a block, from y(lanes, index of the block's lane).
  template <class Value>
  static void store_row(const LinearTile& t, int64_t block, int64_t token, Value value) {
    float* y = t.args->y + token * t.args->ldy + block * kBlockRows;
    const float* bias = t.args->bias ? t.args->bias + block * kBlockRows : nullptr;
    for (int64_t i = 0; i < kBlockRows; i += Isa::kLanes) {
      const int64_t left = t.n - block * kBlockRows - i;
      if (left >= Isa::kLanes) {
        const F v = value(i);
        Isa::store(y + i, bias ? Isa::add(v, Isa::load(bias + i)) : v);
      } else if (left > 0) {
        const F v = value(i);
        Isa::store_n(y + i, left, bias ? Isa::add(v, Isa::load_n(bias + i, left)) : v);
      }
    }
  }

  // total: 16 floats.
  static void float_row(const LinearTile& t, int64_t block, int64_t token, const float* total) {
    store_row(
        t, block, token, [&](int64_t i) __attribute__((always_inline)) { return Isa::load(total + i); });
  }

  // (total - x_zero * row sum) * x_scale
  static void int_row(const LinearTile& t, int64_t block, int64_t token, const float* total) {
    const float* sums = reinterpret_cast<const float*>(t.packed + block * t.stride + t.sums);
    const F scale = Isa::set1(t.args->x_scale[token]);
    const F zero = Isa::set1(t.args->x_zero ? static_cast<float>(t.args->x_zero[token]) : 0.0f);
    store_row(
        t, block, token, [&](int64_t i) __attribute__((always_inline)) {
          return Isa::mul(Isa::fnma(zero, Isa::load(sums + i), Isa::load(total + i)), scale);
        });
  }
};

// Reads the codes of the next panel into the L2 cache while this one is multiplied: a little of them at every step, so that
// all passes over this panel's tokens take their share, and memory is never idle.
template <int kBlocks>
struct PanelAhead {
  const uint8_t* at[kBlocks];
  int64_t step;
  // bytes: of a block's codes that one step multiplies; passes: over the panel.
  PanelAhead(const uint8_t* const* next, int64_t bytes, int64_t passes)
      : step((bytes + passes - 1) / passes) {
    for (int b = 0; b < kBlocks; ++b) at[b] = next[b];
  }
  void advance(int64_t steps) {
    for (int b = 0; b < kBlocks; ++b) at[b] += steps * step;
  }
};

// The whole segments, of at most kSegment columns, from a column where one begins, that fit a panel of kColumns columns.
template <class Isa, int64_t kColumns, int64_t kSegment = kColumns>
struct PanelSegments {
  static constexpr int kMost = kColumns / kStep;
  int64_t most = kColumns;  // columns of a panel; no segment has more
  int64_t begin, columns;
  int segments;
  int64_t length[kMost], group[kMost];

  void plan(const LinearTile& t, int64_t column) {
    begin = column;
    columns = 0;
    segments = 0;
    while (column < t.k) {
      const int64_t g = column / t.group;
      const int64_t end = (g + 1) * t.group < t.k ? (g + 1) * t.group : t.k;
      const int64_t n = end - column < kSegment ? end - column : kSegment;
      if (columns + n > most) break;
      length[segments] = n;
      group[segments++] = g;
      columns += n;
      column += n;
    }
  }
};

}  // namespace roundel
