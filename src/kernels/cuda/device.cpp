#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "base/error.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/device_list.h"

namespace roundel {
namespace cuda {

namespace {

// The first error after which CUDA refuses every further call of this process.
std::string lost_because;

// Whether the same call, or another, may succeed later.
bool passes(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNotReady:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(int status, const char* what) {
  if (status == cudaSuccess) return;
  const auto code = static_cast<cudaError_t>(status);
  static_cast<void>(cudaGetLastError());
  if (code == cudaErrorMemoryAllocation)
    fail(
        ErrorCode::kLimit,
        "CUDA: {} ({}) in {}: the GPU's memory is used up, by this program or others (nvidia-smi shows them)",
        cudaGetErrorString(code), cudaGetErrorName(code), what);
  const std::string text =
      fmt::format("CUDA: {} ({}) in {}", cudaGetErrorString(code), cudaGetErrorName(code), what);
  if (passes(code)) throw Error(ErrorCode::kDevice, text);
  if (lost_because.empty())
    lost_because =
        text +
        ", or in work that was queued before; this program can not use the GPU any more: start it again";
  throw Error(ErrorCode::kDevice, lost_because);
}

namespace {
bool early_allowed = true;
}

bool early_start() {
  static const bool can = [] {
    int device = 0, major = 0;
    check(cudaGetDevice(&device), "asking for the GPU");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the GPU");
    return major >= 9;
  }();
  return can && early_allowed;
}
void allow_early_start(bool allow) {
  early_allowed = allow;
}

void* Workspace::take(size_t bytes) {
  bytes = (bytes + 255) / 256 * 256;
  if (bytes > left_)
    fail(ErrorCode::kLimit, "a GPU kernel needs {} bytes of workspace, {} are left", bytes, left_);
  uint8_t* piece = at_;
  at_ += bytes;
  left_ -= bytes;
  return piece;
}

}  // namespace cuda

namespace {

using cuda::check;

// ROUNDEL_GPU_MEMORY_MIB: the most that allocate() gives; 0: all there is.
size_t memory_limit() {
  const char* text = std::getenv("ROUNDEL_GPU_MEMORY_MIB");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const unsigned long long mib = std::strtoull(text, &end, 10);
  if (*end || mib == 0 || mib > (1 << 24))
    fail(ErrorCode::kUsage, "ROUNDEL_GPU_MEMORY_MIB is \"{}\", expected a number of MiB", text);
  return static_cast<size_t>(mib) << 20;
}

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& p) {
    info_.index = index;
    info_.name = p.name;
    info_.major = p.major;
    info_.minor = p.minor;
    info_.multiprocessors = p.multiProcessorCount;
    info_.shared_memory = p.sharedMemPerBlockOptin;
    info_.total_memory = p.totalGlobalMem;
    check(cudaSetDevice(index), "selecting the GPU");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreate(&timer_start_), "making an event");
    check(cudaEventCreate(&timer_stop_), "making an event");
    for (Stage& s : ring_) {
      check(cudaMallocHost(&s.memory, kStageBytes), "pinning host memory");
      check(cudaEventCreateWithFlags(&s.done, cudaEventDisableTiming), "making an event");
    }
  }
  ~CudaDevice() override {
    cudaStreamSynchronize(stream_);
    for (Stage& s : ring_) {
      cudaFreeHost(s.memory);
      cudaEventDestroy(s.done);
    }
    cudaEventDestroy(timer_start_);
    cudaEventDestroy(timer_stop_);
    cudaStreamDestroy(stream_);
  }

  const DeviceInfo& info() const override { return info_; }
  void use_tuned(std::shared_ptr<const TileTable> table) override { info_.tuned = std::move(table); }
  DeviceStream stream() override { return stream_; }

  void* allocate(size_t bytes, const char* what) override {
    void* memory = nullptr;
    const bool allowed = limit_ == 0 || allocated_ + bytes <= limit_;
    const cudaError_t status =
        allowed ? cudaMalloc(&memory, std::max<size_t>(bytes, 1)) : cudaErrorMemoryAllocation;
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      fail(ErrorCode::kLimit,
           "cuda:{} has no room for {:.1f} MiB of {}: {} of {} MiB are free, this program holds {} MiB; use "
           "another GPU, a smaller model or scheme, a shorter context or fewer sequences",
           info_.index, static_cast<double>(bytes) / (1 << 20), what, free_memory() >> 20,
           info_.total_memory >> 20, allocated_ >> 20);
    }
    check(status, what);
    sizes_[memory] = bytes;
    allocated_ += bytes;
    peak_ = std::max(peak_, allocated_);
    return memory;
  }
  void release(void* memory) noexcept override {
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return;
    allocated_ -= found->second;
    sizes_.erase(found);
    cudaFree(memory);
  }
  void* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "pinning host memory");
    return memory;
  }
  void release_pinned(void* memory) noexcept override { cudaFreeHost(memory); }
  size_t allocated() const override { return allocated_; }
  size_t peak_allocated() const override { return peak_; }
  size_t free_memory() const override {
    size_t free_bytes = 0, total = 0;
    check(cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
    return limit_ == 0 ? free_bytes : std::min(free_bytes, limit_ - std::min(limit_, allocated_));
  }

  void upload(void* to, const void* from, size_t bytes) override {
    const auto fill = [](void* source, void* stage, size_t offset, size_t n) {
      std::memcpy(stage, static_cast<const uint8_t*>(source) + offset, n);
    };
    upload_from(to, bytes, fill, const_cast<void*>(from));
  }
  void upload_from(void* to, size_t bytes, Fill fill, void* context) override {
    for (size_t at = 0; at < bytes; at += kStageBytes) {
      const size_t n = std::min(kStageBytes, bytes - at);
      Stage& stage = ring_[next_stage_++ % kStages];
      check(cudaEventSynchronize(stage.done), "waiting for a copy to the GPU");
      fill(context, stage.memory, at, n);
      copy(static_cast<uint8_t*>(to) + at, stage.memory, n);
      check(cudaEventRecord(stage.done, stream_), "recording an event");
    }
  }
  void download(void* to, const void* from, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kStageBytes) {
      const size_t n = std::min(kStageBytes, bytes - at);
      Stage& stage = ring_[next_stage_++ % kStages];
      check(cudaEventSynchronize(stage.done), "waiting for a copy to the GPU");
      copy(stage.memory, static_cast<const uint8_t*>(from) + at, n);
      synchronize();
      std::memcpy(static_cast<uint8_t*>(to) + at, stage.memory, n);
    }
  }
  void copy(void* to, const void* from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying");
  }
  void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                 size_t rows) override {
    check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, cudaMemcpyDeviceToDevice, stream_),
          "copying rows");
  }
  void clear(void* memory, size_t bytes) override {
    check(cudaMemsetAsync(memory, 0, bytes, stream_), "clearing memory");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "running kernels"); }

  void begin_record() override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a graph");
  }
  DeviceGraph end_record() override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "recording a graph");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "making a graph ready");
    return ready;
  }
  void cancel_record() noexcept override {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    static_cast<void>(cudaGetLastError());
  }
  void launch(DeviceGraph graph) override {
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_), "launching a graph");
  }
  void release_graph(DeviceGraph graph) noexcept override {
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }
  void start_timer() override { check(cudaEventRecord(timer_start_, stream_), "recording an event"); }
  double stop_timer() override {
    check(cudaEventRecord(timer_stop_, stream_), "recording an event");
    check(cudaEventSynchronize(timer_stop_), "running kernels");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, timer_start_, timer_stop_), "reading a timer");
    return static_cast<double>(ms) / 1e3;
  }

 private:
  static constexpr size_t kStages = 4, kStageBytes = 8 << 20;
  struct Stage {
    void* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t timer_start_ = nullptr, timer_stop_ = nullptr;
  Stage ring_[kStages];
  size_t next_stage_ = 0, allocated_ = 0, peak_ = 0;
  size_t limit_ = memory_limit();
  std::map<void*, size_t> sizes_;
};

// Devices, or Error(kDevice) that says why there are none.
int count_or_fail() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver)
    fail(ErrorCode::kDevice,
         "the NVIDIA driver is missing or older than this program's CUDA {}.{}: install a newer driver, or "
         "use "
         "--device cpu",
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (status == cudaErrorNoDevice || count == 0)
    fail(ErrorCode::kDevice, "no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES?); use --device cpu");
  check(status, "looking for GPUs");
  return 0;
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

std::unique_ptr<Device> open_device(int index) {
  const int count = count_or_fail();
  if (index < 0 || index >= count)
    fail(ErrorCode::kDevice, "cuda:{}: there {} {} GPU{}, numbered from 0", index, count == 1 ? "is" : "are",
         count, count == 1 ? "" : "s");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
  if (properties.major < 8)
    fail(ErrorCode::kDevice, "cuda:{} is a {} of compute capability {}.{}: 8.0 (Ampere) or newer is needed",
         index, properties.name, properties.major, properties.minor);
  return std::make_unique<CudaDevice>(index, properties);
}

}  // namespace roundel
