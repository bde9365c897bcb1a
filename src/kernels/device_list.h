// The GPU side of the lists of kernels. A build without CUDA has the same functions and an empty list.
//
//   std::unique_ptr<Device> gpu = open_device(0);
//   const DeviceLinearKernel& kernel = choose_device_linear(problem, gpu->info(), &refused);
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/device_linear.h"
#include "kernels/api/device_ops.h"
#include "kernels/list.h"

namespace roundel {

// Error(kDevice) that says what to do: built without CUDA, no GPU, no such index, a GPU that is too old, no driver.
std::unique_ptr<Device> open_device(int index);
int device_count();  // 0 without CUDA, driver or GPU

std::span<const DeviceLinearKernel* const> device_linear_kernels();
std::span<const DeviceOps* const> device_ops_list();

// Error(kUnsupported) naming the reasons when no kernel supports the problem.
const DeviceLinearKernel& choose_device_linear(const LinearProblem& problem, const DeviceInfo& info,
                                               std::vector<Refusal>* refused = nullptr);
const DeviceOps& device_ops(const DeviceInfo& info);

}  // namespace roundel
