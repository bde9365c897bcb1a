#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/bench.h"

namespace {

constexpr char kUsage[] =
    "usage: kernel_bench [KERNEL] [--threads N] [--n N] [--k N] [--tokens M,M,...] [--weight KIND] "
    "[--seconds S]\n"
    "                    [--cpu-time]\n"
    "Checks each kernel whose name contains KERNEL against the reference, then times it.\n"
    "--weight: only weights such as W8A8 or \"W4A16 g128\". --tokens: of the activations, 1,512 by default.\n"
    "--cpu-time counts the CPU time of one thread: on a machine that does other work too.\n";

bool parse(int argc, char** argv, roundel::BenchOptions& o) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') {
      o.filter = argv[i];
      continue;
    }
    if (!std::strcmp(argv[i], "--cpu-time")) {
      roundel::count_cpu_time();
      o.threads = 1;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    const char* name = argv[i - 1];
    if (!std::strcmp(name, "--threads")) {
      o.threads = std::atoi(value);
    } else if (!std::strcmp(name, "--n")) {
      o.n = std::atoll(value);
    } else if (!std::strcmp(name, "--k")) {
      o.k = std::atoll(value);
    } else if (!std::strcmp(name, "--tokens")) {
      o.tokens.clear();
      for (const char* at = value; at && *at; at = std::strchr(at, ','), at += at ? 1 : 0)
        o.tokens.push_back(std::atoll(at));
    } else if (!std::strcmp(name, "--weight")) {
      o.weight = value;
    } else if (!std::strcmp(name, "--seconds")) {
      o.seconds = std::atof(value);
    } else {
      return false;
    }
  }
  for (const int64_t m : o.tokens)
    if (m <= 0) return false;
  return o.n > 0 && o.k > 0 && !o.tokens.empty() && o.threads >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  roundel::BenchOptions options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    roundel::ThreadPool pool(options.threads);
    const roundel::Roofs roofs = roundel::measure_roofs(pool);
    fmt::print("{} threads, {}: reads {:.1f} GB/s, {:.0f} GFLOP/s float, {:.0f} GOP/s int8", pool.size(),
               roundel::describe(roundel::cpu_features()), roofs.read_gbs, roofs.fma_gflops, roofs.int8_gops);
    if (roofs.amx_int8_gops > 0)
      fmt::print("; AMX {:.0f} GOP/s int8, {:.0f} GFLOP/s BF16", roofs.amx_int8_gops, roofs.amx_bf16_gflops);
    fmt::print("\n");
    bool good = roundel::bench_linear(options, roofs, pool);
    good = roundel::bench_ops(options, roofs, pool) && good;
    good = roundel::bench_attention(options, roofs, pool) && good;
    return good ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
