#include <fmt/core.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "bench/bench.h"
#include "kernels/list.h"

namespace roundel {
namespace {

std::vector<float> randoms(int64_t n, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(4 * random_unit(seed, i) - 2);
  return x;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - b[i]);
    most = d <= most ? most : d;  // NaN stays
  }
  return most;
}

using Operation = void (*)(const VectorOps&, const float* a, const float* b, int64_t n, float* y);

void codes_as_floats(const int8_t* codes, int64_t n, float* y) {
  for (int64_t i = 0; i < std::min<int64_t>(n, 64); ++i) y[i] = codes[i];
}

constexpr std::pair<const char*, Operation> kOperations[] = {
    {"rms_norm", [](const VectorOps& o, const float* a, const float* b, int64_t n,
                    float* y) { o.rms_norm(a, b, n, 1e-5f, y); }},
    {"silu_mul",
     [](const VectorOps& o, const float* a, const float* b, int64_t n, float* y) { o.silu_mul(a, b, n, y); }},
    {"gelu_mul",
     [](const VectorOps& o, const float* a, const float* b, int64_t n, float* y) { o.gelu_mul(a, b, n, y); }},
    {"quantize_int8_sym",
     [](const VectorOps& o, const float* a, const float*, int64_t n, float* y) {
       static std::vector<int8_t> codes(1 << 16);
       o.quantize_int8_sym(a, n, codes.data());
       codes_as_floats(codes.data(), n, y);
     }},
    {"fake_quantize_e4m3", [](const VectorOps& o, const float* a, const float*, int64_t n,
                              float* y) { o.fake_quantize_e4m3(a, n, 0, y); }},
    {"dot",
     [](const VectorOps& o, const float* a, const float* b, int64_t n, float* y) { y[0] = o.dot(a, b, n); }},
};

}  // namespace

bool bench_ops(const BenchOptions& o, const Roofs&, ThreadPool&) {
  bool good = true;
  const int64_t n = 4096;
  const auto a = randoms(n, 1), b = randoms(n, 2);
  fmt::print("\nrows of {} floats, one thread\n{:22} {:20} {:>12} {:>10} {:>10}\n", n, "kernel", "operation",
             "difference", "us", "Gfloats/s");
  for (const VectorOps* ops : vector_ops_list()) {
    if (std::string(ops->name).find(o.filter) == std::string::npos || !ops->supports(cpu_features()).ok)
      continue;
    for (const auto& [name, operation] : kOperations) {
      std::vector<float> y(n), wanted(n);
      operation(*ops, a.data(), b.data(), n, y.data());
      operation(*vector_ops_list().back(), a.data(), b.data(), n, wanted.data());
      const double difference = largest_difference(y, wanted);
      if (!(difference < 1e-2)) good = false;
      const double seconds =
          quartile_time(o.seconds / 10, [&] { operation(*ops, a.data(), b.data(), n, y.data()); });
      fmt::print("{:22} {:20} {:12.2g} {:10.2f} {:10.2f}\n", ops->name, name, difference, seconds * 1e6,
                 static_cast<double>(n) / seconds / 1e9);
    }
  }
  return good;
}

bool bench_attention(const BenchOptions& o, const Roofs& roofs, ThreadPool& pool) {
  bool good = true;
  AttentionArgs args;
  args.heads = 32, args.kv_heads = 8, args.head_dim = 128;
  args.scale = 1 / std::sqrt(128.0f);
  const int64_t prefill = *std::max_element(o.tokens.begin(), o.tokens.end());
  const int64_t positions = 2048, width = args.heads * args.head_dim;
  args.ldq = args.ldo = width;
  args.kv_stride = positions * args.head_dim;
  const auto q = randoms(prefill * width, 3), k = randoms(args.kv_heads * args.kv_stride, 4),
             v = randoms(args.kv_heads * args.kv_stride, 5);
  args.q = q.data(), args.k = k.data(), args.v = v.data();
  fmt::print(
      "\nattention: 32 heads, 8 key/value heads, 128 dimensions\n{:22} {:>8} {:>8} {:>12} {:>10} {:>9} "
      "{:>8}\n",
      "kernel", "tokens", "context", "difference", "us", "GFLOP/s", "of peak");
  for (const AttentionKernel* kernel : attention_kernels()) {
    if (kernel == attention_kernels().back() || !kernel->supports(cpu_features()).ok) continue;
    if (std::string(kernel->name).find(o.filter) == std::string::npos) continue;
    for (const int64_t tokens : {int64_t{1}, std::min(prefill, positions)}) {
      args.tokens = tokens;
      args.start = tokens == 1 ? positions - 1 : 0;
      std::vector<float> y(static_cast<size_t>(tokens * width)), wanted(y.size());
      args.out = wanted.data();
      attention_kernels().back()->run(args, pool);
      args.out = y.data();
      kernel->run(args, pool);
      const double difference = largest_difference(y, wanted);
      if (!(difference < 1e-3)) good = false;
      const double seconds = quartile_time(o.seconds, [&] { kernel->run(args, pool); });
      double pairs = 0;  // of a token and a position it sees
      for (int64_t t = 0; t < tokens; ++t) pairs += static_cast<double>(args.start + t + 1);
      const double gflops = 4 * pairs * static_cast<double>(width) / seconds / 1e9;
      fmt::print("{:22} {:8} {:8} {:12.2g} {:10.1f} {:9.1f} {:7.0f}%\n", kernel->name, tokens,
                 args.start + tokens, difference, seconds * 1e6, gflops, 100 * gflops / roofs.fma_gflops);
    }
  }
  return good;
}

}  // namespace roundel
