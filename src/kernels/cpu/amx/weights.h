// How packed weights become the right operand of a tile product: 64 bytes hold, for each of 16 rows, four consecutive
// columns in int8 or two in BF16. W::decode writes n columns (a multiple of 8) of one block that way.
//   static constexpr bool kInt, kInPlace;      // in place: the packed codes are that operand already
//   static constexpr bool kSplit;              // of kInt: activations are the two bytes of 16-bit integers
//   static constexpr int kBits;                // of a packed code
//   static constexpr float kFactor;            // the decoded numbers times this are the values
//   using Zero; static Zero zero(base of the zero points of a group, or null);
#pragma once
#include <cstddef>

#include "kernels/cpu/amx/isa.h"

namespace roundel {

struct AmxU8 {
  static constexpr bool kInt = true, kInPlace = true, kSplit = false;
  static constexpr int kBits = 8;
  static constexpr int32_t kOffset = 128;  // stored is q + kOffset
};

struct AmxU4 {
  static constexpr bool kInt = true, kInPlace = false, kSplit = false;
  static constexpr int kBits = 4;
  static constexpr int32_t kOffset = 8;
  struct Zero {};
  ROUNDEL_INLINE Zero zero(const int8_t*) { return {}; }  // by correction, as in common/linear_int8.h
  template <bool>
  ROUNDEL_INLINE void decode(const uint8_t* from, int64_t columns, Zero, uint8_t* to) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int64_t k = 0; k < columns; k += 8, from += 64, to += 128) {
      const __m512i q = _mm512_loadu_si512(from);
      _mm512_store_si512(to, _mm512_and_si512(q, low));
      _mm512_store_si512(to + 64, _mm512_and_si512(_mm512_srli_epi32(q, 4), low));
    }
  }
};

// Signed, less the zero point.
struct AmxS4 {
  static constexpr bool kInt = true, kInPlace = false, kSplit = true;
  static constexpr int kBits = 4;
  static constexpr int32_t kOffset = 8;
  using Zero = __m512i;  // what is to be subtracted from each byte
  ROUNDEL_INLINE Zero zero(const int8_t* zeros) {
    if (!zeros) return _mm512_set1_epi8(kOffset);
    const __m512i z = _mm512_add_epi32(Amx::load_s8(zeros), _mm512_set1_epi32(kOffset));
    return _mm512_mullo_epi32(_mm512_and_si512(z, _mm512_set1_epi32(0xff)), _mm512_set1_epi32(0x01010101));
  }
  template <bool>
  ROUNDEL_INLINE void decode(const uint8_t* from, int64_t columns, Zero zero, uint8_t* to) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int64_t k = 0; k < columns; k += 8, from += 64, to += 128) {
      const __m512i q = _mm512_loadu_si512(from);
      _mm512_store_si512(to, _mm512_sub_epi8(_mm512_and_si512(q, low), zero));
      _mm512_store_si512(to + 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi32(q, 4), low), zero));
    }
  }
};

struct AmxBF16 {
  static constexpr bool kInt = false, kInPlace = true, kSplit = false;
  static constexpr int kBits = 16;
  static constexpr float kFactor = 1;
};

// A byte shuffle puts the nibbles of columns 0, 4, 2, 6 into the low and of 1, 5, 3, 7 into the high half of a lane;
// vpermw then looks up 32 numbers by the low five bits of each half: the fifth is a neighbour's, so without zero points
// the table holds its 16 numbers twice. With zero points the nibble less the zero point, -15 to 15, is the index.
struct AmxN4 {
  static constexpr bool kInt = false, kInPlace = false, kSplit = false;
  static constexpr int kBits = 4;
  static constexpr float kFactor = 1;
  using Zero = __m512i;  // 8 - zero point in both halves of a lane
  ROUNDEL_INLINE Zero zero(const int8_t* zeros) {
    if (!zeros) return _mm512_setzero_si512();
    const __m512i z = _mm512_sub_epi32(_mm512_set1_epi32(8), Amx::load_s8(zeros));
    return _mm512_or_si512(_mm512_slli_epi32(z, 16), _mm512_and_si512(z, _mm512_set1_epi32(0xffff)));
  }
  // BF16 of i - shift for i in 0..15, or 0..31.
  template <bool kZero>
  ROUNDEL_INLINE __m512i table() {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i even = _mm512_slli_epi32(lane, 1), odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i wrap = _mm512_set1_epi32(kZero ? 31 : 15), shift = _mm512_set1_epi32(kZero ? 16 : 8);
    const auto number = [&](__m512i i) __attribute__((always_inline)) {
      return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_and_si512(i, wrap), shift)));
    };
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(number(even), 16), number(odd));
  }
  template <bool kZero>
  ROUNDEL_INLINE void decode(const uint8_t* from, int64_t columns, Zero zero, uint8_t* to) {
    const __m512i numbers = table<kZero>(), low = _mm512_set1_epi16(15);
    const __m512i order = _mm512_set_epi32(
        0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200, 0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200,
        0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200, 0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200);
    const auto put = [&](int64_t at, __m512i q) __attribute__((always_inline)) {
      if (kZero) q = _mm512_add_epi16(_mm512_and_si512(q, low), zero);
      _mm512_store_si512(to + at, _mm512_permutexvar_epi16(q, numbers));
    };
    for (int64_t k = 0; k < columns; k += 8, from += 64, to += 256) {
      const __m512i q = _mm512_shuffle_epi8(_mm512_loadu_si512(from), order);
      put(0, q);
      put(128, _mm512_srli_epi16(q, 4));
      put(64, _mm512_srli_epi16(q, 8));
      put(192, _mm512_srli_epi16(q, 12));
    }
  }
};

// Floats whose low halves are zero, of two columns, as pairs of BF16.
ROUNDEL_INLINE __m512i bf16_pair(__m512 even, __m512 odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                 _mm512_castps_si512(odd));
}

// Integers up to 256 are exact in BF16, so q less its zero point is.
struct AmxS8 {
  static constexpr bool kInt = false, kInPlace = false, kSplit = false;
  static constexpr int kBits = 8;
  static constexpr float kFactor = 1;
  using Zero = __m512i;
  ROUNDEL_INLINE Zero zero(const int8_t* zeros) {
    return zeros ? Amx::load_s8(zeros) : _mm512_setzero_si512();
  }
  template <bool kZero>
  ROUNDEL_INLINE __m512 column(const uint8_t* from, Zero zero) {
    const __m512i q = Amx::load_s8(reinterpret_cast<const int8_t*>(from));
    return Amx::to_float(kZero ? _mm512_sub_epi32(q, zero) : q);
  }
  template <bool kZero>
  ROUNDEL_INLINE void decode(const uint8_t* from, int64_t columns, Zero zero, uint8_t* to) {
    for (int64_t k = 0; k < columns; k += 8) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i, from += 32, to += 64) {
        _mm512_store_si512(to, bf16_pair(column<kZero>(from, zero), column<kZero>(from + 16, zero)));
      }
    }
  }
};

// As in avx512/weights.h: E4M3 is the top of an F16 whose exponent is biased by 8 more.
struct AmxE4M3 {
  static constexpr bool kInt = false, kInPlace = false, kSplit = false;
  static constexpr int kBits = 8;
  static constexpr float kFactor = 256;
  struct Zero {};
  ROUNDEL_INLINE Zero zero(const int8_t*) { return {}; }
  template <bool>
  ROUNDEL_INLINE void decode(const uint8_t* from, int64_t columns, Zero, uint8_t* to) {
    const __m512i keep = _mm512_set1_epi16(static_cast<short>(0xbf80));
    for (int64_t k = 0; k < columns; k += 8) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i, from += 32, to += 64) {
        const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
        const __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), keep);
        _mm512_store_si512(to, bf16_pair(_mm512_cvtph_ps(_mm512_castsi512_si256(half)),
                                         _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1))));
      }
    }
  }
};

}  // namespace roundel
