// avxvnni_int8_peak: twelve independent sums: two start in each cycle and take 5.
#include <immintrin.h>

#include "kernels/api/int8_peak.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {
namespace {

constexpr int kRounds = 500'000;
constexpr int kSums = 12;
constexpr double kOperations = kRounds * kSums * 2.0 * 32;

void run() {
  __m256i sum[kSums];
  for (auto& s : sum) s = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(1), y = x;
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm256_dpbusd_avx_epi32(s, x, y);
    __asm__ volatile("" : "+x"(x));
  }
#pragma GCC unroll 16
  for (auto& s : sum) __asm__ volatile("" : : "x"(s));
}

}  // namespace

extern const Int8Peak kAvxVnniInt8Peak = {"avxvnni_int8_peak", avxvnni_supports, kOperations, run};

}  // namespace roundel
