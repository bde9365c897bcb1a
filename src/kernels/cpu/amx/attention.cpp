// amxbf16_attention: causal attention of one key/value head for a tile of query rows, on the matrix unit.
//
// The same online softmax over tiles of 64 keys, at absolute multiples of 64, as common/attention.h; q, k, v and the weights
// are rounded to BF16 once, sums are floats. For each 64 keys, serving all rows of the part:
//   k  (64,D)  as B tiles: pairs of dimensions x 16 keys, 16 x 16 pairs transposed
//   v  (64,D)  as B tiles: pairs of keys x 16 dimensions, two rows interleaved
// then for each 16 rows
//   s = q . k^T                   4 C tiles, 4 KiB; those of the next rows are started before these are read
//   p = exp(s - max), sums        as A tiles (16 rows x 32 keys); o scaled to the new maximum
//   o += p . v                    C tiles that are loaded and stored again
// A row's arithmetic depends only on its own position: keys after its own count as exact zeros.
#include <string.h>

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/common/amx.h"

namespace roundel {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kTileBytes = 1024;
constexpr float kNone = -__builtin_inff();

// Up to 32 floats of which n exist, rounded; zeros behind them.
ROUNDEL_INLINE __m512i round_32(const float* x, int64_t n) {
  const __m512 low = n >= 16 ? Amx::load(x) : n > 0 ? Amx::load_n(x, n) : Amx::zero();
  const __m512 high = n >= 32 ? Amx::load(x + 16) : n > 16 ? Amx::load_n(x + 16, n - 16) : Amx::zero();
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  __m512i bits;
  __builtin_memcpy(&bits, &both, 64);
  return bits;
}

// The same of a cache that holds BF16.
ROUNDEL_INLINE __m512i round_32(const uint16_t* x, int64_t n) {
  return _mm512_maskz_loadu_epi16(n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0u, x);
}

// Up to 16 values of two rows of which n exist, the first in the low half.
ROUNDEL_INLINE __m512i round_rows(const uint16_t* even, const uint16_t* odd, int64_t n) {
  const __mmask16 mask = n >= 16 ? 0xffff : static_cast<__mmask16>((1u << n) - 1);
  const __m256i low = even ? _mm256_maskz_loadu_epi16(mask, even) : _mm256_setzero_si256();
  const __m256i high = odd ? _mm256_maskz_loadu_epi16(mask, odd) : _mm256_setzero_si256();
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

ROUNDEL_INLINE __m512i round_two(__m512 low, __m512 high) {
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  __m512i bits;
  __builtin_memcpy(&bits, &both, 64);
  return bits;
}

ROUNDEL_INLINE __m512i round_rows(const float* even, const float* odd, int64_t n) {
  const auto read = [&](const float* x) {
    return !x ? Amx::zero() : n >= 16 ? Amx::load(x) : Amx::load_n(x, n);
  };
  return round_two(read(even), read(odd));
}

// 16 x 16 numbers of 32 bits.
void transpose(__m512i (&r)[16], uint8_t* to) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    const __m512i c0 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    const __m512i c1 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    const __m512i c2 = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xdd);
    const __m512i c3 = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xdd);
    _mm512_store_si512(to + j * 64, _mm512_shuffle_i32x4(c0, c1, 0x88));
    _mm512_store_si512(to + (4 + j) * 64, _mm512_shuffle_i32x4(c2, c3, 0x88));
    _mm512_store_si512(to + (8 + j) * 64, _mm512_shuffle_i32x4(c0, c1, 0xdd));
    _mm512_store_si512(to + (12 + j) * 64, _mm512_shuffle_i32x4(c2, c3, 0xdd));
  }
}

// 2^t within 2^-18, of which 9 bits are kept: t = n + f, |f| <= 1/2, and 2^f = exp(f ln 2) by its Taylor series.
// 0 below -200; NaN stays.
ROUNDEL_INLINE __m512 exp2(__m512 t) {
  t = _mm512_max_ps(_mm512_set1_ps(-200.0f), t);
  const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(t, n);
  __m512 p = _mm512_set1_ps(1.33335581e-3f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.61812911e-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.55041087e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40226507e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93147181e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

struct Part {
  const AttentionTile& t;
  const AttentionArgs& a;
  const int64_t d, per_kv, rows, row_tiles;
  const int64_t q_steps, v_tiles, ldo;  // D in steps of 32, in tiles of 16
  const float to_log2;
  uint8_t *q, *k, *v;  // A tiles (row tile, step), B tiles (step, 16 keys), B tiles (32 keys, 16 dimensions)
  float *o, *maximum, *sum;  // (rows,ldo), (rows), (rows,16)
  alignas(64) float s[2][kTile][kKeyTile];
  alignas(64) uint8_t p[2][kTileBytes];

  explicit Part(const AttentionTile& tile)
      : t(tile),
        a(*tile.args),
        d(a.head_dim),
        per_kv(a.heads / a.kv_heads),
        rows((t.token1 - t.token0) * per_kv),
        row_tiles((rows + kTile - 1) / kTile),
        q_steps((d + 31) / 32),
        v_tiles((d + 15) / 16),
        ldo(v_tiles * 16),
        to_log2(a.scale * 1.44269504088896341f) {
    q = reinterpret_cast<uint8_t*>(t.scratch);
    k = q + row_tiles * q_steps * kTileBytes;
    v = k + q_steps * 4 * kTileBytes;
    o = reinterpret_cast<float*>(v + 2 * v_tiles * kTileBytes);
    sum = o + row_tiles * kTile * ldo;
    maximum = sum + row_tiles * kTile * 16;
  }

  int64_t position(int64_t row) const { return a.start + t.token0 + row / per_kv; }

  void begin() {
    for (int64_t r = 0; r < row_tiles * kTile; ++r) {
      const int64_t row = r < rows ? r : rows - 1;  // the rows that fill the last tile are thrown away
      const float* from = a.q + (t.token0 + row / per_kv) * a.ldq + (t.kv_head * per_kv + row % per_kv) * d;
      for (int64_t i = 0; i < q_steps; ++i) {
        uint8_t* to = q + (r / kTile * q_steps + i) * kTileBytes + r % kTile * 64;
        _mm512_store_si512(to, round_32(from + i * 32, d - i * 32));
      }
      for (int64_t i = 0; i < v_tiles; ++i) Amx::store(o + r * ldo + i * 16, Amx::zero());
      Amx::store(sum + r * 16, Amx::zero());
      maximum[r] = kNone;
    }
    memset(p, 0, sizeof p);
  }

  // Positions that nobody has written count as zeros.
  template <class Kv>
  void load_keys(const Kv* from, int64_t keys) {
    for (int64_t i = 0; i < q_steps; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        __m512i pairs[16];
        for (int64_t x = 0; x < 16; ++x) {
          const int64_t key = j * 16 + x;
          pairs[x] = key < keys ? round_32(from + key * d + i * 32, d - i * 32) : _mm512_setzero_si512();
        }
        transpose(pairs, k + (i * 4 + j) * kTileBytes);
      }
    }
  }
  template <class Kv>
  void load_values(const Kv* from, int64_t keys) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i interleave =
        _mm512_or_si512(lane, _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16));
    for (int64_t key = 0; key < kKeyTile; key += 2) {
      for (int64_t i = 0; i < v_tiles; ++i) {
        const int64_t left = d - i * 16;
        const Kv* x = from + key * d + i * 16;
        const __m512i both = round_rows(key < keys ? x : nullptr, key + 1 < keys ? x + d : nullptr, left);
        _mm512_store_si512(v + (key / 32 * v_tiles + i) * kTileBytes + key % 32 / 2 * 64,
                           _mm512_permutexvar_epi16(interleave, both));
      }
    }
  }

  void scores(int64_t row_tile) {
    tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
    for (int64_t i = 0; i < q_steps; ++i) {
      const uint8_t* b = k + i * 4 * kTileBytes;
      tile_load<4>(q + (row_tile * q_steps + i) * kTileBytes, 64);
      tile_load<6>(b, 64);
      tile_dot_bf16<0, 4, 6>();
      tile_load<7>(b + kTileBytes, 64);
      tile_dot_bf16<1, 4, 7>();
      tile_load<6>(b + 2 * kTileBytes, 64);
      tile_dot_bf16<2, 4, 6>();
      tile_load<7>(b + 3 * kTileBytes, 64);
      tile_dot_bf16<3, 4, 7>();
    }
    float* to = s[row_tile % 2][0];
    tile_store<0>(to, kKeyTile * 4);
    tile_store<1>(to + 16, kKeyTile * 4);
    tile_store<2>(to + 32, kKeyTile * 4);
    tile_store<3>(to + 48, kKeyTile * 4);
  }

  // Scores of one row to weights, of which keys [from, to) are seen.
  void weigh(const float* score, int64_t row, int64_t from, int64_t to, uint8_t* weights) {
    __m512i* p0 = reinterpret_cast<__m512i*>(weights);
    __m512i* p1 = reinterpret_cast<__m512i*>(weights + kTileBytes);
    if (from >= to) {
      _mm512_store_si512(p0, _mm512_setzero_si512());
      _mm512_store_si512(p1, _mm512_setzero_si512());
      return;
    }
    const uint64_t seen = (to >= 64 ? ~0ull : (1ull << to) - 1) & ~((1ull << from) - 1);
    const __m512 none = _mm512_set1_ps(kNone);
    __m512 x[4];
    for (int i = 0; i < 4; ++i)
      x[i] = _mm512_mask_blend_ps(static_cast<__mmask16>(seen >> (16 * i)), none, Amx::load(score + 16 * i));
    const float most =
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3])));
    const float before = maximum[row], now = most > before ? most : before;
    const __m512 factor = _mm512_set1_ps(to_log2), base = _mm512_set1_ps(now * to_log2);
    for (int i = 0; i < 4; ++i) {
      // A factor of nothing is 0 for keys that are not seen, whatever the sum of the others is.
      x[i] = _mm512_maskz_mov_ps(static_cast<__mmask16>(seen >> (16 * i)),
                                 exp2(_mm512_fmsub_ps(x[i], factor, base)));
    }
    __m512 total = Amx::load(sum + row * 16);
    if (now != before) {
      const __m512 shrink = exp2(_mm512_set1_ps((before - now) * to_log2));
      maximum[row] = now;
      total = Amx::mul(total, shrink);
      for (int64_t i = 0; i < v_tiles; ++i)
        Amx::store(o + row * ldo + i * 16, Amx::mul(Amx::load(o + row * ldo + i * 16), shrink));
    }
    total = Amx::add(total, Amx::add(Amx::add(x[0], x[1]), Amx::add(x[2], x[3])));
    Amx::store(sum + row * 16, total);
    _mm512_store_si512(p0, round_two(x[0], x[1]));
    _mm512_store_si512(p1, round_two(x[2], x[3]));
  }

  void weigh_tile(int64_t row_tile, int64_t at) {
    for (int64_t r = 0; r < kTile; ++r) {
      const int64_t row = row_tile * kTile + r;
      if (row >= rows) break;
      const int64_t own = position(row);
      const int64_t first = a.window > 0 && own - a.window + 1 > at ? own - a.window + 1 - at : 0;
      const int64_t last = own + 1 - at < kKeyTile ? own + 1 - at : kKeyTile;
      weigh(s[row_tile % 2][r], row, first, last, p[0] + r * 64);
    }
  }

  void add_values(int64_t row_tile) {
    tile_load<4>(p[0], 64);
    tile_load<5>(p[1], 64);
    float* to = o + row_tile * kTile * ldo;
    for (int64_t i = 0; i < v_tiles; i += 2) {
      const bool two = i + 1 < v_tiles;
      const uint8_t* b = v + i * kTileBytes;
      tile_load<0>(to + i * 16, ldo * 4);
      tile_load<6>(b, 64);
      tile_dot_bf16<0, 4, 6>();
      tile_load<7>(b + v_tiles * kTileBytes, 64);
      tile_dot_bf16<0, 5, 7>();
      if (two) {
        tile_load<1>(to + i * 16 + 16, ldo * 4);
        tile_load<6>(b + kTileBytes, 64);
        tile_dot_bf16<1, 4, 6>();
        tile_load<7>(b + (v_tiles + 1) * kTileBytes, 64);
        tile_dot_bf16<1, 5, 7>();
        tile_store<1>(to + i * 16 + 16, ldo * 4);
      }
      tile_store<0>(to + i * 16, ldo * 4);
    }
  }

  void finish() const {
    for (int64_t row = 0; row < rows; ++row) {
      float* to = a.out + (t.token0 + row / per_kv) * a.ldo + (t.kv_head * per_kv + row % per_kv) * d;
      const __m512 all = _mm512_set1_ps(_mm512_reduce_add_ps(Amx::load(sum + row * 16)));
      for (int64_t i = 0; i < d; i += 16) {
        const __m512 y =
            _mm512_mul_ps(_mm512_div_ps(Amx::load(o + row * ldo + i), all), _mm512_set1_ps(a.value_scale));
        d - i >= 16 ? Amx::store(to + i, y) : Amx::store_n(to + i, d - i, y);
      }
    }
  }

  template <class Kv>
  void load(int64_t at, int64_t keys) {
    const int64_t first = t.kv_head * a.kv_stride + at * d;
    load_keys(static_cast<const Kv*>(a.k) + first, keys);
    load_values(static_cast<const Kv*>(a.v) + first, keys);
  }

  void run() {
    TileConfig config;
    for (int tile = 0; tile < 8; ++tile) config.set(tile, kTile, 64);
    tile_configure(config);
    begin();
    const int64_t end = a.start + t.token1;  // behind the last row's own position
    int64_t first = a.window > 0 ? a.start + t.token0 - a.window + 1 : 0;
    if (first < 0) first = 0;
    for (int64_t at = first / kKeyTile * kKeyTile; at < end; at += kKeyTile) {
      const int64_t keys = end - at < kKeyTile ? end - at : kKeyTile;
      a.kv_bf16 ? load<uint16_t>(at, keys) : load<float>(at, keys);
      scores(0);
      for (int64_t tile = 0; tile < row_tiles; ++tile) {
        if (tile + 1 < row_tiles) scores(tile + 1);
        weigh_tile(tile, at);
        add_values(tile);
      }
    }
    finish();
    tile_release();
  }
};

}  // namespace

void amxbf16_attention_tile(const AttentionTile& t) {
  Part(t).run();
}

}  // namespace roundel
