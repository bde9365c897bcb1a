// The bench driver: every kernel is checked against the reference first, then timed against what the machine can do,
// measured in the same run.
//
//   ./dev bench                 all kernels
//   ./dev bench avx512_w4a16    those whose name contains this
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace roundel {

class ThreadPool;

struct BenchOptions {
  std::string filter;
  int threads = 0;  // 0: all cores
  int64_t n = 4096, k = 4096;
  std::vector<int64_t> tokens = {1, 512};
  std::string weight;    // only kinds of weight whose name begins with this
  double seconds = 0.6;  // for each measurement
};

// What the machine can do with all threads of the pool.
struct Roofs {
  double read_gbs = 0;                            // reading memory that no cache holds
  double fma_gflops = 0;                          // float multiply-adds from registers, of the widest vectors
  double int8_gops = 0;                           // int8 multiply-adds by VNNI; 0 without VNNI
  double amx_int8_gops = 0, amx_bf16_gflops = 0;  // of tiles in registers; 0 without AMX
};
Roofs measure_roofs(ThreadPool& pool);

// Seconds since some moment; of the process's own CPU time after count_cpu_time().
double now();
void count_cpu_time();

// Seconds of one call: the lower quartile of calls repeated for about `seconds`, which other work on the machine
// disturbs less than a mean.
template <class Call>
double quartile_time(double seconds, Call call) {
  std::vector<double> times;
  const double start = now();
  while (times.size() < 5 || now() - start < seconds) {
    const double begin = now();
    call();
    times.push_back(now() - begin);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
  return times[times.size() / 4];
}

// True when all kernels agree with the reference.
bool bench_linear(const BenchOptions& options, const Roofs& roofs, ThreadPool& pool);
bool bench_ops(const BenchOptions& options, const Roofs& roofs, ThreadPool& pool);
bool bench_attention(const BenchOptions& options, const Roofs& roofs, ThreadPool& pool);

}  // namespace roundel
