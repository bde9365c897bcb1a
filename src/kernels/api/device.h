// A GPU as the rest of the program sees it: memory, copies, one stream, recorded graphs. No CUDA header needed.
//
//   std::unique_ptr<Device> gpu = open_device(0);              // kernels/device_list.h
//   DeviceBuffer x(*gpu, bytes, "activations");
//   gpu->upload(x.data(), host, bytes);
//   gpu->synchronize();
// Everything is queued on the device's one stream. Throws Error(kDevice) with CUDA's own words when a call fails,
// Error(kLimit) when memory runs out. After an error that ends the program's use of the GPU (an illegal access, say) every
// call reports that first error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace roundel {

using DeviceStream = void*;  // a cudaStream_t
using DeviceGraph = void*;   // a recorded graph, ready to launch
struct TileTable;            // kernels/api/device_tiles.h

struct DeviceInfo {
  int index = 0;
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t shared_memory = 0;  // bytes that one block may use
  size_t total_memory = 0;
  std::shared_ptr<const TileTable> tuned;  // measured on this machine; null: nothing was
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual void use_tuned(std::shared_ptr<const TileTable> table) = 0;  // before anything is queued
  virtual DeviceStream stream() = 0;

  // `what` is for the message when there is not enough. Contents are undefined.
  virtual void* allocate(size_t bytes, const char* what) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void* allocate_pinned(size_t bytes) = 0;  // host memory that copies run from at full speed
  virtual void release_pinned(void* memory) noexcept = 0;
  virtual size_t allocated() const = 0;       // bytes now
  virtual size_t peak_allocated() const = 0;  // the most so far
  // Bytes that allocate() may still give: what the driver says is free, within ROUNDEL_GPU_MEMORY_MIB where that is set.
  virtual size_t free_memory() const = 0;

  // From any host memory, which may be reused on return: goes through a small pinned ring.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  // The same from wherever `fill` reads them: it writes `bytes` bytes from `offset` on into the ring itself.
  using Fill = void (*)(void* context, void* stage, size_t offset, size_t bytes);
  virtual void upload_from(void* to, size_t bytes, Fill fill, void* context) = 0;
  // Returns when the bytes are there.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  // Queued; `from` or `to` is pinned or on the device.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // `rows` runs of `bytes` bytes, the starts `to_pitch` and `from_pitch` apart; on the device.
  virtual void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                         size_t rows) = 0;
  virtual void clear(void* memory, size_t bytes) = 0;
  virtual void synchronize() = 0;

  // What is queued between begin and end is recorded instead of run.
  virtual void begin_record() = 0;
  virtual DeviceGraph end_record() = 0;
  virtual void cancel_record() noexcept = 0;
  virtual void launch(DeviceGraph graph) = 0;
  virtual void release_graph(DeviceGraph graph) noexcept = 0;
  // Seconds that the device took for what was queued between the two calls.
  virtual void start_timer() = 0;
  virtual double stop_timer() = 0;
};

// Device memory with an owner.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, size_t bytes, const char* what)
      : device_(&device), data_(device.allocate(bytes, what)), bytes_(bytes) {}
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  void reset() {
    if (data_) device_->release(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return bytes_; }
  bool empty() const { return data_ == nullptr; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace roundel
