// Memory for one forward pass on a GPU: pieces that live until reset(), or until their region is opened again, and a
// workspace that linears share.
//
//   DeviceArena arena(gpu);
//   arena.reset();                                        // region 0
//   float* x = arena.take<float>(rows * cols, "activations");
//   arena.open(1); ... arena.open(2); ... arena.open(1);  // what was taken from region 1 before is free again
// The same sequence of take() and open() after reset() gives the same addresses, as recorded graphs need.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/api/device.h"

namespace roundel {

class DeviceArena {
 public:
  explicit DeviceArena(Device& device) : device_(device) {}
  void reset() {
    for (Region& r : regions_) r.block = r.used = 0;
    now_ = &regions_[0];
  }
  // What is taken from now on comes from this region, 0 to 2; 1 and 2 are emptied. The stream's order must keep what is
  // still to be read of them from what is written there next.
  void open(int region) {
    now_ = &regions_[region];
    if (region > 0) now_->block = now_->used = 0;
  }
  template <class T>
  T* take(int64_t count, const char* what) {
    return static_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T), what));
  }
  // The same from region 0, whichever is open: until reset().
  template <class T>
  T* take_for_pass(int64_t count, const char* what) {
    Region* const open = now_;
    now_ = &regions_[0];
    T* piece = take<T>(count, what);
    now_ = open;
    return piece;
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
    for (Region& r : regions_) r.blocks.clear();
    workspace_.reset();
    ++generation_;
  }
  int64_t generation() const { return generation_; }
  Device& device() { return device_; }

 private:
  struct Region {
    std::vector<DeviceBuffer> blocks;
    size_t block = 0, used = 0;  // where the next piece is looked for
  };
  void* take_bytes(size_t bytes, const char* what) {
    Region& r = *now_;
    bytes = (bytes + 255) / 256 * 256;
    const size_t held =
        r.block + (r.used > 0);  // blocks before it hold what was taken since the region was opened
    while (r.block < r.blocks.size() && r.used + bytes > r.blocks[r.block].size()) {
      ++r.block;
      r.used = 0;
    }
    if (r.block == r.blocks.size()) grow(r, held, bytes, what);
    uint8_t* piece = r.blocks[r.block].data() + r.used;
    r.used += bytes;
    return piece;
  }
  // A block for a piece that fits none; those that hold nothing now would be in vain beside it.
  void grow(Region& r, size_t held, size_t bytes, const char* what) {
    constexpr size_t kBlock = 4 << 20;
    if (held < r.blocks.size()) {
      device_.synchronize();
      r.blocks.resize(held);
      ++generation_;
    }
    r.block = held;
    r.blocks.emplace_back(device_, std::max(bytes, kBlock), what);
  }

  Device& device_;
  Region regions_[3];
  Region* now_ = &regions_[0];
  DeviceBuffer workspace_;
  int64_t generation_ = 0;
};

}  // namespace roundel
