// The encode operations with AVX2, 8 floats or 32 codes at a time. The algorithms are in kernels/cpu/common.
#include "kernels/cpu/common/encode.h"

#include <immintrin.h>

#include "kernels/cpu/common/encode_bits.h"
#include "kernels/cpu/common/encode_float.h"

namespace roundel {
namespace {

struct Avx2Encode {
  using F = __m256;
  using I = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 4;  // that store_low_bytes() takes

  ROUNDEL_ENCODE F set1(float x) { return _mm256_set1_ps(x); }
  ROUNDEL_ENCODE F load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  ROUNDEL_ENCODE F load_bf16(const void* p) {
    return floats(sll32<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))));
  }
  ROUNDEL_ENCODE F load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  ROUNDEL_ENCODE F add(F a, F b) { return _mm256_add_ps(a, b); }
  ROUNDEL_ENCODE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  ROUNDEL_ENCODE F div(F a, F b) { return _mm256_div_ps(a, b); }
  ROUNDEL_ENCODE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  // b where one of them is NaN.
  ROUNDEL_ENCODE F min(F a, F b) { return _mm256_min_ps(a, b); }
  ROUNDEL_ENCODE F max(F a, F b) { return _mm256_max_ps(a, b); }
  // q + rest * r, or q where the rest is not finite: the quotient is, or x was, infinite or NaN.
  ROUNDEL_ENCODE F correct(F q, F rest, F r) {
    const F magnitude = floats(iand(bits(rest), iset1(0x7fffffff)));
    const F finite = _mm256_cmp_ps(magnitude, floats(iset1(0x7f800000)), _CMP_LT_OQ);
    return _mm256_fmadd_ps(_mm256_and_ps(rest, finite), r, q);
  }
  // To nearest even; finite values and infinities, and NaNs that came from BF16.
  ROUNDEL_ENCODE F round_bf16(F x) {
    const I b = bits(x);
    const I odd = iand(srl32<16>(b), iset1(1));
    return floats(iand(iadd(iadd(b, iset1(0x7fff)), odd), iset1(-0x10000)));
  }
  ROUNDEL_ENCODE F round_f16(F x) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  ROUNDEL_ENCODE I round_even(F x) { return _mm256_cvtps_epi32(x); }
  ROUNDEL_ENCODE I bits(F x) { return _mm256_castps_si256(x); }
  ROUNDEL_ENCODE F floats(I x) { return _mm256_castsi256_ps(x); }
  ROUNDEL_ENCODE float f16_value(int32_t bits) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits & 0xffff)));
  }

  ROUNDEL_ENCODE I izero() { return _mm256_setzero_si256(); }
  ROUNDEL_ENCODE I iset1(int32_t x) { return _mm256_set1_epi32(x); }
  ROUNDEL_ENCODE I iset64(uint64_t x) { return _mm256_set1_epi64x(static_cast<int64_t>(x)); }
  ROUNDEL_ENCODE I iload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  ROUNDEL_ENCODE void istore(void* p, I x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  ROUNDEL_ENCODE I iand(I a, I b) { return _mm256_and_si256(a, b); }
  ROUNDEL_ENCODE I ior(I a, I b) { return _mm256_or_si256(a, b); }
  ROUNDEL_ENCODE I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
  ROUNDEL_ENCODE I isub(I a, I b) { return _mm256_sub_epi32(a, b); }
  ROUNDEL_ENCODE I add8(I a, I b) { return _mm256_add_epi8(a, b); }
  ROUNDEL_ENCODE I sub8(I a, I b) { return _mm256_sub_epi8(a, b); }
  template <int S>
  ROUNDEL_ENCODE I sll16(I a) {
    return _mm256_slli_epi16(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I sll32(I a) {
    return _mm256_slli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I sll64(I a) {
    return _mm256_slli_epi64(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl16(I a) {
    return _mm256_srli_epi16(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl32(I a) {
    return _mm256_srli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl64(I a) {
    return _mm256_srli_epi64(a, S);
  }
  ROUNDEL_ENCODE I min16(I a, I b) { return _mm256_min_epi16(a, b); }
  ROUNDEL_ENCODE I max16(I a, I b) { return _mm256_max_epi16(a, b); }
  ROUNDEL_ENCODE I ordered16(I a) { return _mm256_xor_si256(a, srl16<1>(_mm256_srai_epi16(a, 15))); }
  ROUNDEL_ENCODE I min32(I a, I b) { return _mm256_min_epi32(a, b); }
  ROUNDEL_ENCODE I max32(I a, I b) { return _mm256_max_epi32(a, b); }
  ROUNDEL_ENCODE I ordered32(I a) { return _mm256_xor_si256(a, srl32<1>(_mm256_srai_epi32(a, 31))); }
  ROUNDEL_ENCODE I select_less(I a, I b, I yes, I no) {
    return _mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(b, a));
  }

  // Across lanes. The machine has a minimum of unsigned 16-bit lanes, to which flipped bits bring the others.
  ROUNDEL_ENCODE int32_t least16(I a) {
    const __m128i c = _mm_min_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(c, _mm_set1_epi16(-0x8000)));
    return (_mm_cvtsi128_si32(least) & 0xffff) - 0x8000;
  }
  ROUNDEL_ENCODE int32_t most16(I a) {
    const __m128i c = _mm_max_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(c, _mm_set1_epi16(0x7fff)));
    return 0x7fff - (_mm_cvtsi128_si32(least) & 0xffff);
  }
  ROUNDEL_ENCODE int32_t least32(I a) {
    const __m128i b = _mm_min_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i c = _mm_min_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_min_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
  }
  ROUNDEL_ENCODE int32_t most32(I a) {
    const __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i c = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
  }
  ROUNDEL_ENCODE void store_low_bytes(int8_t* p, const I* x) {
    const I low = iset1(0xff);
    const I ab = _mm256_packs_epi32(iand(x[0], low), iand(x[1], low));
    const I cd = _mm256_packs_epi32(iand(x[2], low), iand(x[3], low));
    // Packing works in each half: words a b c d a b c d.
    istore(p, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd),
                                          _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  ROUNDEL_ENCODE I shuffle8(I a, const uint8_t (&control)[16]) {
    return _mm256_shuffle_epi8(
        a, _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(control))));
  }
  // 16 bytes from each of p, p + stride.
  ROUNDEL_ENCODE I load_halves(const char* p, int stride) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + stride)), 1);
  }
};

using Bf16 = EncodeFloat<Avx2Encode, SourceType::kBF16>;
using F16 = EncodeFloat<Avx2Encode, SourceType::kF16>;
using F32 = EncodeFloat<Avx2Encode, SourceType::kF32>;

}  // namespace

RangeResult avx2_range(SourceType type, const void* x, int64_t n) {
  if (type == SourceType::kBF16) return Bf16::range(x, n);
  if (type == SourceType::kF16) return F16::range(x, n);
  return F32::range(x, n);
}

void avx2_encode_int(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                     float qmax, int8_t* codes) {
  if (type == SourceType::kBF16) return Bf16::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
  if (type == SourceType::kF16) return F16::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
  F32::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
}

void avx2_encode_e4m3(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes) {
  if (type == SourceType::kBF16) return Bf16::encode_e4m3(x, n, scale, codes);
  if (type == SourceType::kF16) return F16::encode_e4m3(x, n, scale, codes);
  F32::encode_e4m3(x, n, scale, codes);
}

void avx2_pack_bits(const int8_t* codes, int64_t n, int bits, uint32_t* words) {
  EncodeAllBits<Avx2Encode>::pack(codes, n, bits, words);
}

void avx2_unpack_bits(const uint32_t* words, int64_t n, int bits, int8_t* codes) {
  EncodeAllBits<Avx2Encode>::unpack(words, n, bits, codes);
}

}  // namespace roundel
