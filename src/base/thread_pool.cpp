#include "base/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace roundel {

// One job at a time. Workers spin for a short while after a job (a decode step is a burst of small loops), then sleep.
struct ThreadPool::Impl {
  struct Job {
    FunctionRef<void(int64_t, int64_t)>* fn = nullptr;
    int64_t n = 0, step = 0;
  } job;
  std::atomic<int64_t> next{0};
  std::atomic<uint64_t> generation{0};
  std::atomic<int> busy{0};
  std::atomic<bool> stop{false};
  std::atomic<int> asleep{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  void work() {
    for (;;) {
      const int64_t begin = next.fetch_add(job.step, std::memory_order_relaxed);
      if (begin >= job.n) return;
      try {
        (*job.fn)(begin, std::min(job.n, begin + job.step));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(job.n, std::memory_order_relaxed);
      }
    }
  }

  void loop() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < 4000 && generation.load(std::memory_order_acquire) == seen && !stop; ++spin)
        _mm_pause();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        asleep.fetch_add(1);
        wake.wait(lock, [&] { return stop || generation.load(std::memory_order_acquire) != seen; });
        asleep.fetch_sub(1);
      }
      if (stop) return;
      seen = generation.load(std::memory_order_acquire);
      work();
      busy.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  if (threads <= 0) threads = usable_cores();
  for (int i = 1; i < threads; ++i) impl_->threads.emplace_back([this] { impl_->loop(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (std::thread& t : impl_->threads) t.join();
}

int ThreadPool::size() const {
  return static_cast<int>(impl_->threads.size()) + 1;
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> fn) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n + grain - 1) / grain;
  if (impl_->threads.empty() || pieces == 1) {
    fn(0, n);
    return;
  }
  Impl& p = *impl_;
  // About four pieces for each thread: even enough, and few atomic operations.
  const int64_t wanted = std::min<int64_t>(pieces, int64_t{4} * size());
  p.job = {&fn, n, (pieces + wanted - 1) / wanted * grain};
  p.error = nullptr;
  p.next.store(0, std::memory_order_relaxed);
  p.busy.store(static_cast<int>(p.threads.size()), std::memory_order_relaxed);
  p.generation.fetch_add(1);
  if (p.asleep.load() > 0) {
    std::lock_guard lock(p.mutex);
    p.wake.notify_all();
  }
  p.work();
  for (int spin = 0; p.busy.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < 4000) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (p.error) std::rethrow_exception(p.error);
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace roundel
