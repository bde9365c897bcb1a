// The encode operations with AVX-512, 16 floats or 64 codes at a time. The algorithms are in kernels/cpu/common.
#include "kernels/cpu/common/encode.h"

#include <immintrin.h>

#include "kernels/cpu/common/encode_bits.h"
#include "kernels/cpu/common/encode_float.h"

namespace roundel {
namespace {

struct Avx512Encode {
  using F = __m512;
  using I = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 1;  // that store_low_bytes() takes

  ROUNDEL_ENCODE F set1(float x) { return _mm512_set1_ps(x); }
  ROUNDEL_ENCODE F load(const void* p) { return _mm512_loadu_ps(p); }
  ROUNDEL_ENCODE F load_bf16(const void* p) {
    return floats(sll32<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))));
  }
  ROUNDEL_ENCODE F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  ROUNDEL_ENCODE F add(F a, F b) { return _mm512_add_ps(a, b); }
  ROUNDEL_ENCODE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  ROUNDEL_ENCODE F div(F a, F b) { return _mm512_div_ps(a, b); }
  ROUNDEL_ENCODE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  // b where one of them is NaN.
  ROUNDEL_ENCODE F min(F a, F b) { return _mm512_min_ps(a, b); }
  ROUNDEL_ENCODE F max(F a, F b) { return _mm512_max_ps(a, b); }
  // q + rest * r, or q where the rest is not finite: the quotient is, or x was, infinite or NaN.
  ROUNDEL_ENCODE F correct(F q, F rest, F r) {
    constexpr int kNotFinite = 0x80 | 0x10 | 0x08 | 0x01;
    return _mm512_mask3_fmadd_ps(rest, r, q, _knot_mask16(_mm512_fpclass_ps_mask(rest, kNotFinite)));
  }
  // To nearest even; finite values and infinities, and NaNs that came from BF16.
  ROUNDEL_ENCODE F round_bf16(F x) {
    const I b = bits(x);
    const __mmask16 odd = _mm512_test_epi32_mask(b, iset1(0x10000));
    const I up = iadd(b, iset1(0x7fff));
    return floats(iand(_mm512_mask_add_epi32(up, odd, up, iset1(1)), iset1(-0x10000)));
  }
  ROUNDEL_ENCODE F round_f16(F x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  ROUNDEL_ENCODE I round_even(F x) { return _mm512_cvtps_epi32(x); }
  ROUNDEL_ENCODE I bits(F x) { return _mm512_castps_si512(x); }
  ROUNDEL_ENCODE F floats(I x) { return _mm512_castsi512_ps(x); }
  ROUNDEL_ENCODE float f16_value(int32_t bits) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits & 0xffff)));
  }

  ROUNDEL_ENCODE I izero() { return _mm512_setzero_si512(); }
  ROUNDEL_ENCODE I iset1(int32_t x) { return _mm512_set1_epi32(x); }
  ROUNDEL_ENCODE I iset64(uint64_t x) { return _mm512_set1_epi64(static_cast<int64_t>(x)); }
  ROUNDEL_ENCODE I iload(const void* p) { return _mm512_loadu_si512(p); }
  ROUNDEL_ENCODE void istore(void* p, I x) { _mm512_storeu_si512(p, x); }
  ROUNDEL_ENCODE I iand(I a, I b) { return _mm512_and_si512(a, b); }
  ROUNDEL_ENCODE I ior(I a, I b) { return _mm512_or_si512(a, b); }
  ROUNDEL_ENCODE I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  ROUNDEL_ENCODE I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
  ROUNDEL_ENCODE I add8(I a, I b) { return _mm512_add_epi8(a, b); }
  ROUNDEL_ENCODE I sub8(I a, I b) { return _mm512_sub_epi8(a, b); }
  template <int S>
  ROUNDEL_ENCODE I sll16(I a) {
    return _mm512_slli_epi16(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I sll32(I a) {
    return _mm512_slli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I sll64(I a) {
    return _mm512_slli_epi64(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl16(I a) {
    return _mm512_srli_epi16(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl32(I a) {
    return _mm512_srli_epi32(a, S);
  }
  template <int S>
  ROUNDEL_ENCODE I srl64(I a) {
    return _mm512_srli_epi64(a, S);
  }
  ROUNDEL_ENCODE I min16(I a, I b) { return _mm512_min_epi16(a, b); }
  ROUNDEL_ENCODE I max16(I a, I b) { return _mm512_max_epi16(a, b); }
  ROUNDEL_ENCODE I ordered16(I a) { return _mm512_xor_si512(a, srl16<1>(_mm512_srai_epi16(a, 15))); }
  ROUNDEL_ENCODE I min32(I a, I b) { return _mm512_min_epi32(a, b); }
  ROUNDEL_ENCODE I max32(I a, I b) { return _mm512_max_epi32(a, b); }
  ROUNDEL_ENCODE I ordered32(I a) { return _mm512_xor_si512(a, srl32<1>(_mm512_srai_epi32(a, 31))); }
  ROUNDEL_ENCODE I select_less(I a, I b, I yes, I no) {
    return _mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(a, b), no, yes);
  }

  // Across lanes. The machine has a minimum of unsigned 16-bit lanes, to which flipped bits bring the others.
  ROUNDEL_ENCODE int32_t least16(I a) {
    const __m256i b = _mm256_min_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i c = _mm_min_epi16(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(c, _mm_set1_epi16(-0x8000)));
    return (_mm_cvtsi128_si32(least) & 0xffff) - 0x8000;
  }
  ROUNDEL_ENCODE int32_t most16(I a) {
    const __m256i b = _mm256_max_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i c = _mm_max_epi16(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(c, _mm_set1_epi16(0x7fff)));
    return 0x7fff - (_mm_cvtsi128_si32(least) & 0xffff);
  }
  ROUNDEL_ENCODE int32_t least32(I a) { return _mm512_reduce_min_epi32(a); }
  ROUNDEL_ENCODE int32_t most32(I a) { return _mm512_reduce_max_epi32(a); }
  ROUNDEL_ENCODE void store_low_bytes(int8_t* p, const I* x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x[0]));
  }
  ROUNDEL_ENCODE I shuffle8(I a, const uint8_t (&control)[16]) {
    return _mm512_shuffle_epi8(
        a, _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(control))));
  }
  // 16 bytes from each of p, p + stride, ...
  ROUNDEL_ENCODE I load_halves(const char* p, int stride) {
    const auto at = [&](int h) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + h * stride)); };
    const I ab = _mm512_inserti32x4(_mm512_castsi128_si512(at(0)), at(1), 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(ab, at(2), 2), at(3), 3);
  }
};

using Bf16 = EncodeFloat<Avx512Encode, SourceType::kBF16>;
using F16 = EncodeFloat<Avx512Encode, SourceType::kF16>;
using F32 = EncodeFloat<Avx512Encode, SourceType::kF32>;

}  // namespace

RangeResult avx512_range(SourceType type, const void* x, int64_t n) {
  if (type == SourceType::kBF16) return Bf16::range(x, n);
  if (type == SourceType::kF16) return F16::range(x, n);
  return F32::range(x, n);
}

void avx512_encode_int(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                       float qmax, int8_t* codes) {
  if (type == SourceType::kBF16) return Bf16::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
  if (type == SourceType::kF16) return F16::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
  F32::encode_int(x, n, scale, zero_point, qmin, qmax, codes);
}

void avx512_encode_e4m3(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes) {
  if (type == SourceType::kBF16) return Bf16::encode_e4m3(x, n, scale, codes);
  if (type == SourceType::kF16) return F16::encode_e4m3(x, n, scale, codes);
  F32::encode_e4m3(x, n, scale, codes);
}

void avx512_pack_bits(const int8_t* codes, int64_t n, int bits, uint32_t* words) {
  EncodeAllBits<Avx512Encode>::pack(codes, n, bits, words);
}

void avx512_unpack_bits(const uint32_t* words, int64_t n, int bits, int8_t* codes) {
  EncodeAllBits<Avx512Encode>::unpack(words, n, bits, codes);
}

}  // namespace roundel
