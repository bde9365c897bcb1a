#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "bench/bench.h"
#include "kernels/list.h"
#include "tensor/tensor.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {
namespace {

// Weights are read from memory, not from a cache, when so many bytes of them are used in turn.
constexpr size_t kRotated = size_t{640} << 20;

struct Kind {
  const char* name;
  CodeType code;
  int bits;
  int64_t group;  // 0: one scale for each row; -1: none
  bool has_zero_point;
  ActType act;
};

constexpr Kind kKinds[] = {
    {"W8A8", CodeType::kInt, 8, 0, false, ActType::kInt8},
    {"W8A8 g128", CodeType::kInt, 8, 128, false, ActType::kInt8},
    {"W4A8 g128", CodeType::kInt, 4, 128, false, ActType::kInt8},
    {"W4A16 g128", CodeType::kInt, 4, 128, false, ActType::kFloat},
    {"W4A16 g32", CodeType::kInt, 4, 32, false, ActType::kFloat},
    {"W4A16 g128 asym", CodeType::kInt, 4, 128, true, ActType::kFloat},
    {"W8A16", CodeType::kInt, 8, 0, false, ActType::kFloat},
    {"FP8", CodeType::kE4M3, 8, 0, false, ActType::kFloat},
    {"BF16", CodeType::kBF16, 16, -1, false, ActType::kFloat},
    {"F16", CodeType::kF16, 16, -1, false, ActType::kFloat},
    {"F32", CodeType::kF32, 32, -1, false, ActType::kFloat},
};

LinearProblem problem_of(const Kind& kind, int64_t n, int64_t k) {
  LinearProblem p;
  p.n = n, p.k = k, p.code = kind.code, p.bits = kind.bits;
  p.has_scale = kind.group >= 0, p.has_zero_point = kind.has_zero_point;
  p.group = kind.group > 0 ? kind.group : k;
  p.act = kind.act;
  return p;
}

// Largest |error| / budget over the outputs: must not exceed 1.
double verify(const LinearKernel& kernel, const LinearProblem& p, ThreadPool& pool) {
  LinearProblem small = p;
  small.n = std::min<int64_t>(p.n, 200);
  const LinearKernel& reference = *linear_kernels().back();
  const LinearCase c = make_case(small, 37, false, false, 11);
  std::vector<uint8_t> wanted_memory = c.pack(reference, small.n), memory = c.pack(kernel);
  const uint8_t* wanted_packed = LinearCase::aligned(wanted_memory);
  std::vector<float> wanted(c.m * small.n), y(c.m * small.n), row(small.k);
  reference.run(small, wanted_packed, c.args(wanted.data(), small.n), pool);
  kernel.run(small, LinearCase::aligned(memory), c.args(y.data(), small.n), pool);
  double worst = 0;
  for (int64_t n = 0; n < small.n; ++n) {
    reference.unpack_row(small, wanted_packed, n, row.data());
    for (int64_t m = 0; m < c.m; ++m) {
      const double error = std::fabs(static_cast<double>(y[m * small.n + n]) - wanted[m * small.n + n]);
      const double share = error / error_budget(small, magnitude_of(c, m, n, row.data()));
      worst = share <= worst ? worst : share;  // NaN stays
    }
  }
  return worst;
}

struct Speed {
  double decode_gbs, decode_us, prefill_gops;
};

Speed measure(const LinearKernel& kernel, const LinearProblem& p, const BenchOptions& o, ThreadPool& pool) {
  const LinearCase c = make_case(p, o.prefill, false, false, 12);
  std::vector<uint8_t> memory = c.pack(kernel);
  const size_t bytes = kernel.packed_bytes(p);
  const size_t copies = std::max<size_t>(1, kRotated / bytes);
  const size_t stride = (bytes + 4095) / 4096 * 4096;
  Buffer weights(stride * copies);
  for (size_t i = 0; i < copies; ++i) {
    std::memcpy(weights.data() + i * stride, LinearCase::aligned(memory), bytes);
  }
  std::vector<float> y(static_cast<size_t>(o.prefill * p.n));
  LinearArgs args = c.args(y.data(), p.n);

  Speed speed{};
  size_t turn = 0;
  const auto call = [&] { kernel.run(p, weights.data() + turn++ % copies * stride, args, pool); };
  args.m = 1;
  const double decode = quartile_time(o.seconds, call);
  speed.decode_us = decode * 1e6;
  speed.decode_gbs = static_cast<double>(bytes) / decode / 1e9;
  args.m = o.prefill;
  speed.prefill_gops =
      2.0 * static_cast<double>(p.n * p.k * o.prefill) / quartile_time(o.seconds, call) / 1e9;
  return speed;
}

}  // namespace

bool bench_linear(const BenchOptions& o, const Roofs& roofs, ThreadPool& pool) {
  bool good = true;
  fmt::print("\ny[M,N] = x[M,K] . w[N,K]^T, N {} K {}; decode M 1, prefill M {}\n", o.n, o.k, o.prefill);
  fmt::print("{:22} {:16} {:>9} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "kernel", "weight", "err/limit",
             "decode us", "GB/s", "of read", "GOP/s", "of peak");
  for (const LinearKernel* kernel : linear_kernels()) {
    if (std::string(kernel->name).find(o.filter) == std::string::npos) continue;
    if (kernel == linear_kernels().back()) continue;
    for (const Kind& kind : kKinds) {
      const LinearProblem p = problem_of(kind, o.n, o.k);
      if (!kernel->supports(p, cpu_features()).ok) continue;
      const double error = verify(*kernel, p, pool);
      if (!(error <= 1)) {
        fmt::print("{:22} {:16} {:9.2f}  WRONG, not timed\n", kernel->name, kind.name, error);
        good = false;
        continue;
      }
      const Speed s = measure(*kernel, p, o, pool);
      const double peak = p.act == ActType::kInt8 && roofs.int8_gops > 0 ? roofs.int8_gops : roofs.fma_gflops;
      fmt::print("{:22} {:16} {:9.4f} {:10.1f} {:8.2f} {:7.0f}% {:10.0f} {:7.0f}%\n", kernel->name, kind.name,
                 error, s.decode_us, s.decode_gbs, 100 * s.decode_gbs / roofs.read_gbs, s.prefill_gops,
                 100 * s.prefill_gops / peak);
      std::fflush(stdout);
    }
  }
  return good;
}

}  // namespace roundel
