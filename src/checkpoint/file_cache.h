// Files that are opened when needed: hundreds of shards must not need hundreds of open files.
//
//   FileCache cache([&](size_t i) { return File::open_read(paths[i]); });
//   cache.file(3)->read_at(offset, to, bytes);
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file.h"

namespace roundel {

class FileCache {
 public:
  // `open` is called under the lock. `capacity` files stay open; 0: a quarter of what the process may open, at most 64.
  explicit FileCache(std::function<File(size_t)> open, size_t capacity = 0);
  // The file with this number, open. It stays open as long as the caller holds it. Thread-safe.
  std::shared_ptr<File> file(size_t index);
  void close_all();
  size_t open_files() const;

 private:
  struct Slot {
    size_t index;
    uint64_t used;
    std::shared_ptr<File> file;
  };
  std::function<File(size_t)> open_;
  size_t capacity_;
  mutable std::mutex mutex_;
  uint64_t clock_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace roundel
