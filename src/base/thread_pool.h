// A pool for loops over independent pieces. Results must not depend on how the loop is cut: every output element is
// computed by one piece, in one order.
//
//   pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) { ... });   // begin is a multiple of 16
#pragma once
#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace roundel {

class ThreadPool {
 public:
  // threads: how many run a loop, the caller included; 0 = one for each usable core.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  // Calls fn(begin, end) over [0, n) in pieces whose begin is a multiple of `grain`; returns when all are done. The first
  // exception that a piece throws is thrown here. Not to be called from inside a piece.
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

int usable_cores();  // of this process (affinity and cgroup respected)

}  // namespace roundel
