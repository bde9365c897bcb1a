#include "checkpoint/file_cache.h"

#include <sys/resource.h>

#include <algorithm>

namespace roundel {
namespace {

size_t default_capacity() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 16;
  return static_cast<size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 1, 64));
}

}  // namespace

FileCache::FileCache(std::function<File(size_t)> open, size_t capacity)
    : open_(std::move(open)), capacity_(capacity ? capacity : default_capacity()) {}

std::shared_ptr<File> FileCache::file(size_t index) {
  const std::lock_guard lock(mutex_);
  ++clock_;
  for (Slot& s : slots_) {
    if (s.index != index) continue;
    s.used = clock_;
    return s.file;
  }
  if (slots_.size() >= capacity_) {
    slots_.erase(std::min_element(slots_.begin(), slots_.end(),
                                  [](const Slot& a, const Slot& b) { return a.used < b.used; }));
  }
  slots_.push_back({index, clock_, std::make_shared<File>(open_(index))});
  return slots_.back().file;
}

void FileCache::close_all() {
  const std::lock_guard lock(mutex_);
  slots_.clear();
}

size_t FileCache::open_files() const {
  const std::lock_guard lock(mutex_);
  return slots_.size();
}

}  // namespace roundel
