#include "base/process.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"

namespace roundel {
namespace {
std::atomic<bool> g_interrupted{false};
void on_signal(int signal) {
  if (g_interrupted.exchange(true)) _exit(128 + signal);  // the second one ends at once
}
}  // namespace

// VmHWM, not ru_maxrss: the latter survives exec, so a large parent would show through.
uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t available_memory_bytes() {
  uint64_t available = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) available = std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  uint64_t most = 0;  // "max" is no number: no limit
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> most) available = std::min(available, most);
  return available;
}

void return_freed_buffers() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
}

void reuse_freed_buffers() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
}

void release_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void set_interrupted(bool on) {
  g_interrupted.store(on, std::memory_order_relaxed);
}
bool interrupted() {
  return g_interrupted.load(std::memory_order_relaxed);
}
void throw_if_interrupted() {
  if (interrupted()) fail(ErrorCode::kInterrupted, "interrupted");
}
bool stderr_is_terminal() {
  return isatty(2) == 1;
}
double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace roundel
