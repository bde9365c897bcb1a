#include "bench/bench.h"

namespace roundel {

bool bench_ops(const BenchOptions&, const Roofs&, ThreadPool&) {
  return true;
}
bool bench_attention(const BenchOptions&, const Roofs&, ThreadPool&) {
  return true;
}

}  // namespace roundel
