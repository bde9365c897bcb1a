#include "kernels/device_list.h"

#include "base/error.h"
#include "kernels/choose.h"

namespace roundel {

const DeviceLinearKernel& choose_device_linear(const LinearProblem& problem, const DeviceInfo& info,
                                               std::vector<Refusal>* refused) {
  return choose_kernel(
      device_linear_kernels(), "device linear",
      [&](const DeviceLinearKernel& k) { return k.supports(problem, info); }, refused);
}

const DeviceOps& device_ops(const DeviceInfo& info) {
  return choose_kernel(
      device_ops_list(), "device", [&](const DeviceOps& ops) { return ops.supports(info); }, nullptr);
}

}  // namespace roundel
