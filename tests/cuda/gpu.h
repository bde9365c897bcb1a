// The GPU that tests run on, and copies to and from it. Tests are skipped where there is none.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include <vector>

#include "kernels/device_list.h"

namespace roundel {

inline Device* gpu() {
  static const std::unique_ptr<Device> device = device_count() > 0 ? open_device(0) : nullptr;
  return device.get();
}
#define NEEDS_GPU() \
  if (!gpu()) GTEST_SKIP() << "no GPU"

template <class T>
DeviceBuffer to_gpu(const std::vector<T>& host) {
  DeviceBuffer buffer(*gpu(), host.size() * sizeof(T) + 16, "test data");
  gpu()->upload(buffer.data(), host.data(), host.size() * sizeof(T));
  return buffer;
}
template <class T>
std::vector<T> from_gpu(const DeviceBuffer& buffer, size_t count) {
  std::vector<T> host(count);
  gpu()->download(host.data(), buffer.data(), count * sizeof(T));
  return host;
}
// n values that no kernel would leave: not-a-number bytes.
inline DeviceBuffer poisoned(size_t bytes) {
  const std::vector<uint8_t> host(bytes, 0xff);
  return to_gpu(host);
}
// ||a - b|| / ||b||; a NaN anywhere gives NaN, which no comparison passes.
inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(error / size);
}

}  // namespace roundel
