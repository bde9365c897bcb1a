// Memory for one forward pass on a GPU: pieces that live until reset(), and a workspace that linears share.
//
//   DeviceArena arena(gpu);
//   arena.reset();
//   float* x = arena.take<float>(rows * cols, "activations");
// The same sequence of take() after reset() gives the same addresses, as recorded graphs need.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/api/device.h"

namespace roundel {

class DeviceArena {
 public:
  explicit DeviceArena(Device& device) : device_(device) {}
  void reset() { block_ = used_ = 0; }
  template <class T>
  T* take(int64_t count, const char* what) {
    return static_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T), what));
  }
  // At least that many bytes; what was there is lost. Growing moves it: generation() counts that.
  DeviceBuffer& workspace(size_t bytes) {
    if (workspace_.size() < bytes) {
      workspace_.reset();
      workspace_ = DeviceBuffer(device_, bytes, "workspace");
      ++generation_;
    }
    return workspace_;
  }
  // All memory; what recorded graphs use is gone with it.
  void give_back() {
    reset();
    blocks_.clear();
    workspace_.reset();
    ++generation_;
  }
  int64_t generation() const { return generation_; }
  Device& device() { return device_; }

 private:
  void* take_bytes(size_t bytes, const char* what) {
    constexpr size_t kBlock = 16 << 20;
    bytes = (bytes + 255) / 256 * 256;
    while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size()) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) blocks_.emplace_back(device_, std::max(bytes, kBlock), what);
    uint8_t* piece = blocks_[block_].data() + used_;
    used_ += bytes;
    return piece;
  }

  Device& device_;
  std::vector<DeviceBuffer> blocks_;
  size_t block_ = 0, used_ = 0;
  DeviceBuffer workspace_;
  int64_t generation_ = 0;
};

}  // namespace roundel
