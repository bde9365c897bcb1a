// avx2_int8_peak: bytes widened to 16 bits: products of pairs, then additions.
#include <immintrin.h>

#include "kernels/api/int8_peak.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {
namespace {

constexpr int kRounds = 400'000;
constexpr int kSums = 12;
constexpr double kOperations = kRounds * kSums * 2.0 * 16;

void run() {
  __m256i sum[kSums];
  for (auto& s : sum) s = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(1), y = x;
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) {
      s = _mm256_add_epi32(s, _mm256_madd_epi16(x, y));
      __asm__ volatile("" : "+x"(x));
    }
  }
#pragma GCC unroll 16
  for (auto& s : sum) __asm__ volatile("" : : "x"(s));
}

}  // namespace

extern const Int8Peak kAvx2Int8Peak = {"avx2_int8_peak", avx2_supports, kOperations, run};

}  // namespace roundel
