// A device for tests whose memory is the host's, so much of it.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/error.h"
#include "kernels/api/device.h"

namespace roundel {

class FakeDevice : public Device {
 public:
  explicit FakeDevice(size_t limit) : limit_(limit) {}
  const DeviceInfo& info() const override { return info_; }
  void use_tuned(std::shared_ptr<const TileTable> table) override { info_.tuned = std::move(table); }
  DeviceStream stream() override { return nullptr; }
  void* allocate(size_t bytes, const char* what) override {
    if (allocated_ + bytes > limit_) fail(ErrorCode::kLimit, "no room for {} bytes of {}", bytes, what);
    void* memory = std::malloc(bytes);
    sizes_[memory] = bytes;
    allocated_ += bytes;
    return memory;
  }
  void release(void* memory) noexcept override {
    allocated_ -= sizes_.at(memory);
    sizes_.erase(memory);
    std::free(memory);
  }
  void* allocate_pinned(size_t bytes) override { return std::malloc(bytes); }
  void release_pinned(void* memory) noexcept override { std::free(memory); }
  size_t allocated() const override { return allocated_; }
  size_t peak_allocated() const override { return allocated_; }
  size_t free_memory() const override { return limit_ - allocated_; }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void upload_from(void* to, size_t bytes, Fill fill, void* context) override { fill(context, to, 0, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_rows(void*, size_t, const void*, size_t, size_t, size_t) override {}
  void clear(void* memory, size_t bytes) override { std::memset(memory, 0, bytes); }
  void synchronize() override {}
  void begin_record() override {}
  DeviceGraph end_record() override { return nullptr; }
  void cancel_record() noexcept override {}
  void launch(DeviceGraph) override {}
  void release_graph(DeviceGraph) noexcept override {}
  void start_timer() override {}
  double stop_timer() override { return 0; }

 private:
  DeviceInfo info_;
  size_t limit_, allocated_ = 0;
  std::map<void*, size_t> sizes_;
};

}  // namespace roundel
