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
      const double budget = error_budget(kernel, small, magnitude_of(c, m, n, row.data())) +
                            kernel.x_error * x_magnitude(c, m, row.data());
      const double share = error / budget;
      worst = share <= worst ? worst : share;  // NaN stays
    }
  }
  return worst;
}

// A weight of which copies are used in turn, so that it comes from memory each time.
class Rotated {
 public:
  Rotated(const LinearKernel& kernel, const LinearProblem& p, const LinearCase& c)
      : bytes_(kernel.packed_bytes(p)), stride_((bytes_ + 4095) / 4096 * 4096), weights_(stride_ * copies()) {
    std::vector<uint8_t> memory = c.pack(kernel);
    for (size_t i = 0; i < copies(); ++i)
      std::memcpy(weights_.data() + i * stride_, LinearCase::aligned(memory), bytes_);
  }
  const uint8_t* next() { return weights_.data() + turn_++ % copies() * stride_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t copies() const { return std::max<size_t>(1, kRotated / stride_); }
  size_t bytes_, stride_, turn_ = 0;
  Buffer weights_;
};

// The case's activations as a linear hands them over: on whole cache lines, rows an odd number of lines apart.
class Activations {
 public:
  Activations(const LinearCase& c, LinearArgs& args) {
    if (args.x_codes) copy(args.x_codes, c, args);
    if (args.x) copy(args.x, c, args);
    if (args.x_bf16) copy(args.x_bf16, c, args);
    args.ldx = ld_;
  }

 private:
  template <class T>
  void copy(const T*& x, const LinearCase& c, const LinearArgs& args) {
    ld_ = (c.problem.k + 63) / 64 * 64 + (sizeof(T) == 1 ? 64 : 32);
    Buffer to(static_cast<size_t>(c.m * ld_) * sizeof(T), true);
    for (int64_t m = 0; m < c.m; ++m)
      std::memcpy(to.as<T>() + m * ld_, x + m * args.ldx, static_cast<size_t>(c.problem.k) * sizeof(T));
    x = to.as<T>();
    buffers_.push_back(std::move(to));
  }
  int64_t ld_ = 0;
  std::vector<Buffer> buffers_;
};

double peak_of(const LinearKernel& kernel, const LinearProblem& p, const Roofs& roofs) {
  if (std::string(kernel.name).find("amx") == 0)
    return p.act == ActType::kInt8 ? roofs.amx_int8_gops : roofs.amx_bf16_gflops;
  return p.act == ActType::kInt8 && roofs.int8_gops > 0 ? roofs.int8_gops : roofs.fma_gflops;
}

void measure(const LinearKernel& kernel, const LinearProblem& p, const BenchOptions& o, const Roofs& roofs,
             ThreadPool& pool) {
  const int64_t most = *std::max_element(o.tokens.begin(), o.tokens.end());
  const LinearCase c = make_case(p, most, false, false, 12);
  Rotated weights(kernel, p, c);
  std::vector<float> y(static_cast<size_t>(most * p.n));
  LinearArgs args = c.args(y.data(), p.n);
  const Activations x(c, args);
  for (const int64_t m : o.tokens) {
    args.m = m;
    const double seconds = quartile_time(o.seconds, [&] { kernel.run(p, weights.next(), args, pool); });
    const double gbs = static_cast<double>(weights.bytes()) / seconds / 1e9;
    const double gops = 2.0 * static_cast<double>(p.n * p.k * m) / seconds / 1e9;
    fmt::print("{:>44} {:10.1f} {:8.2f} {:7.0f}% {:10.0f} {:7.0f}%\n", m, seconds * 1e6, gbs,
               100 * gbs / roofs.read_gbs, gops, 100 * gops / peak_of(kernel, p, roofs));
  }
}

}  // namespace

bool bench_linear(const BenchOptions& o, const Roofs& roofs, ThreadPool& pool) {
  bool good = true;
  fmt::print("\ny[M,N] = x[M,K] . w[N,K]^T, N {} K {}\n", o.n, o.k);
  fmt::print("{:20} {:16} {:>6} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "kernel", "weight", "M", "us", "GB/s",
             "of read", "GOP/s", "of peak");
  for (const LinearKernel* kernel : linear_kernels()) {
    if (std::string(kernel->name).find(o.filter) == std::string::npos) continue;
    if (kernel == linear_kernels().back()) continue;
    for (const Kind& kind : kKinds) {
      if (std::string(kind.name).find(o.weight) != 0) continue;
      const LinearProblem p = problem_of(kind, o.n, o.k);
      if (!kernel->supports(p, cpu_features()).ok) continue;
      const double error = verify(*kernel, p, pool);
      if (!(error <= 1)) {
        fmt::print("{:20} {:16} {:9.2f} of the error budget: WRONG, not timed\n", kernel->name, kind.name,
                   error);
        good = false;
        continue;
      }
      fmt::print("{:20} {:16} {:.4f} of the error budget\n", kernel->name, kind.name, error);
      measure(*kernel, p, o, roofs, pool);
      std::fflush(stdout);
    }
  }
  return good;
}

}  // namespace roundel
