#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "bench/bench.h"
#include "tensor/tensor.h"

namespace roundel {
namespace {

constexpr int64_t kIterations = 200'000;

// 16 independent chains: two in flight for each of 4 cycles and 2 ports.
__attribute__((target("avx512f"))) float fma512() {
  __m512 acc[16];
  for (auto& a : acc) a = _mm512_set1_ps(1.0f);
  __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < kIterations; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, y);
    __asm__ volatile("" : "+v"(x));
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm512_cvtss_f32(a);
  return sum;
}

__attribute__((target("avx2,fma"))) float fma256() {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_set1_ps(1.0f);
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, y);
    __asm__ volatile("" : "+x"(x));
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm256_cvtss_f32(a);
  return sum;
}

__attribute__((target("avx512f,avx512vnni"))) float vnni512() {
  __m512i acc[16];
  for (auto& a : acc) a = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi32(0x01020304), y = x;
  for (int64_t i = 0; i < kIterations; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_dpbusd_epi32(a, x, y);
    __asm__ volatile("" : "+v"(x));
  }
  int sum = 0;
  alignas(64) int lanes[16];
  for (auto& a : acc) {
    _mm512_store_si512(lanes, a);
    sum += lanes[0];
  }
  return static_cast<float>(sum);
}

// Eight tiles: four sums, each 52 cycles behind the last product of its own, 16 behind the one before.
constexpr int64_t kTileProducts = 400'000;

struct alignas(64) Tiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

template <bool kInt8>
float tile_products() {
  const Tiles tiles;
  __asm__ volatile("ldtilecfg %0" : : "m"(tiles) : "memory");
  __asm__ volatile("tilezero %tmm0\n tilezero %tmm1\n tilezero %tmm2\n tilezero %tmm3");
  __asm__ volatile("tilezero %tmm4\n tilezero %tmm5\n tilezero %tmm6\n tilezero %tmm7");
  for (int64_t i = 0; i < kTileProducts; i += 4) {
    if constexpr (kInt8) {
      __asm__ volatile(
          "tdpbsud %tmm6, %tmm4, %tmm0\n tdpbsud %tmm7, %tmm4, %tmm1\n"
          "tdpbsud %tmm6, %tmm5, %tmm2\n tdpbsud %tmm7, %tmm5, %tmm3");
    } else {
      __asm__ volatile(
          "tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
          "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3");
    }
  }
  __asm__ volatile("tilerelease");
  return 0;
}

double rate(ThreadPool& pool, float (*loop)(), double work) {
  volatile float sink = 0;
  const double seconds = quartile_time(0.3, [&] {
    pool.parallel_for(pool.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sink = loop();
    });
  });
  (void)sink;
  return work * static_cast<double>(pool.size()) / seconds / 1e9;
}

// A weight's worth of memory at a time, out of more than any cache holds.
double read_rate(ThreadPool& pool) {
  constexpr int64_t kBytes = int64_t{768} << 20, kPart = int64_t{16} << 20;
  Buffer memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  int64_t part = 0;
  const double seconds = quartile_time(1.0, [&] {
    const uint8_t* from = memory.data() + part++ % (kBytes / kPart) * kPart;
    pool.parallel_for(kPart, 1 << 18, [&](int64_t begin, int64_t end) {
      // Four streams at a time, which hides more latency than one.
      __m128i sum[4] = {};
      const int64_t quarter = (end - begin) / 4 / 64 * 64;
      for (int64_t i = begin; i < begin + quarter; i += 64) {
        for (int j = 0; j < 4; ++j) {
          const __m128i* line = reinterpret_cast<const __m128i*>(from + i + j * quarter);
          _mm_prefetch(line + 64, _MM_HINT_T0);
          for (int i4 = 0; i4 < 4; ++i4) sum[j] = _mm_xor_si128(sum[j], _mm_load_si128(line + i4));
        }
      }
      for (auto& s : sum) __asm__ volatile("" ::"x"(s));
    });
  });
  return kPart / seconds / 1e9;
}

clockid_t clock_used = CLOCK_MONOTONIC;

}  // namespace

void count_cpu_time() {
  clock_used = CLOCK_PROCESS_CPUTIME_ID;
}

double now() {
  timespec t{};
  clock_gettime(clock_used, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Roofs measure_roofs(ThreadPool& pool) {
  Roofs roofs;
  roofs.read_gbs = read_rate(pool);
  const CpuFeatures& cpu = cpu_features();
  if (cpu.avx512) {
    roofs.fma_gflops = rate(pool, fma512, kIterations * 16.0 * 32);
  } else if (cpu.avx2) {
    roofs.fma_gflops = rate(pool, fma256, kIterations * 12.0 * 16);
  }
  if (cpu.avx512_vnni) roofs.int8_gops = rate(pool, vnni512, kIterations * 16.0 * 128);
  if (cpu.amx_int8) roofs.amx_int8_gops = rate(pool, tile_products<true>, kTileProducts * 32768.0);
  if (cpu.amx_bf16) roofs.amx_bf16_gflops = rate(pool, tile_products<false>, kTileProducts * 16384.0);
  return roofs;
}

}  // namespace roundel
