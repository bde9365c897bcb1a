// A build without CUDA: no devices, no kernels for them.
#include "base/error.h"
#include "kernels/device_list.h"

namespace roundel {

std::unique_ptr<Device> open_device(int index) {
  fail(ErrorCode::kDevice,
       "cuda:{}: this program was built without CUDA; build it with ./dev cuda (needs nvcc), or use --device "
       "cpu",
       index);
}
int device_count() {
  return 0;
}
std::span<const DeviceLinearKernel* const> device_linear_kernels() {
  return {};
}
std::span<const DeviceOps* const> device_ops_list() {
  return {};
}

}  // namespace roundel
