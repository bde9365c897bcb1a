// The ordered lists of a build with CUDA: best first.
#include "kernels/device_list.h"

namespace roundel {

extern const DeviceLinearKernel kSm90Units;
extern const DeviceLinearKernel kSm80Dense;
extern const DeviceLinearKernel kSm80Units;
extern const DeviceLinearKernel kSm80Plain;
extern const DeviceOps kSm90Ops;
extern const DeviceOps kSm80Ops;

namespace {

constexpr const DeviceLinearKernel* kLinear[] = {&kSm90Units, &kSm80Dense, &kSm80Units, &kSm80Plain};
constexpr const DeviceOps* kOps[] = {&kSm90Ops, &kSm80Ops};

}  // namespace

std::span<const DeviceLinearKernel* const> device_linear_kernels() {
  return kLinear;
}
std::span<const DeviceOps* const> device_ops_list() {
  return kOps;
}

}  // namespace roundel
