// avx512vnni_int8_peak: sixteen independent sums: two start in each cycle and take 5.
#include <immintrin.h>

#include "kernels/api/int8_peak.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {
namespace {

constexpr int kRounds = 400'000;
constexpr int kSums = 16;
constexpr double kOperations = kRounds * kSums * 2.0 * 64;

void run() {
  __m512i sum[kSums];
  for (auto& s : sum) s = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi8(1), y = x;
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_dpbusd_epi32(s, x, y);
    __asm__ volatile("" : "+v"(x));
  }
#pragma GCC unroll 16
  for (auto& s : sum) __asm__ volatile("" : : "v"(s));
}

}  // namespace

extern const Int8Peak kAvx512Int8Peak = {"avx512vnni_int8_peak", avx512vnni_supports, kOperations, run};

}  // namespace roundel
