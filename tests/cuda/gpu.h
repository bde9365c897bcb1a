// The GPU that tests run on, and copies to and from it. Tests are skipped where there is none.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

// ROUNDEL_TEST_SHORT=1 in the environment: fewer shapes and numbers of tokens, but every kernel. For compute-sanitizer
// (./dev cuda --sanitize), under which the whole tables take too long.
inline bool short_run() {
  const char* value = std::getenv("ROUNDEL_TEST_SHORT");
  return value && *value && *value != '0';
}
// The first list, or in a short run the second.
template <class T>
std::vector<T> unless_short(std::initializer_list<T> whole, std::initializer_list<T> few) {
  return short_run() ? few : whole;
}

// ROUNDEL_TEST_NO_BLAS=1: without products that go to cuBLASLt, whose kernels racecheck is slow on and finds hazards in.
inline bool without_blas() {
  const char* value = std::getenv("ROUNDEL_TEST_NO_BLAS");
  return value && *value && *value != '0';
}
// Whether a run of this kernel is to be left out for that. Kernels that choose no tiles for a use leave it to cuBLASLt.
inline bool left_out(const DeviceLinearKernel& kernel, const LinearProblem& p, const TileUse& use) {
  if (!without_blas()) return false;
  return !kernel.tile_choice || kernel.tile_choice(p, use, gpu()->info()).key.kernel.empty();
}

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
// The cache of a sequence as kernels want it, made from one piece (heads, capacity, row_bytes), heads: all layers' keys and
// values. Pages lie in another order than their positions.
class PagedCache {
 public:
  PagedCache(const std::vector<uint8_t>& piece, int64_t heads, int64_t capacity, int64_t row_bytes)
      : heads_(heads), capacity_(capacity), row_bytes_(row_bytes), count_((capacity + 63) / 64) {
    std::vector<uint8_t> host(static_cast<size_t>(count_ * page_bytes()), 0xff);
    each([&](size_t in_piece, size_t in_pages) {
      std::copy_n(piece.begin() + static_cast<int64_t>(in_piece), row_bytes_,
                  host.begin() + static_cast<int64_t>(in_pages));
    });
    memory_ = to_gpu(host);
    std::vector<uint8_t*> pages;
    for (int64_t p = 0; p < count_; ++p) pages.push_back(memory_.data() + place(p) * page_bytes());
    table_ = to_gpu(pages);
  }
  uint8_t* const* pages() const { return table_.as<uint8_t*>(); }
  std::vector<uint8_t> piece() const {
    const auto host = from_gpu<uint8_t>(memory_, static_cast<size_t>(count_ * page_bytes()));
    std::vector<uint8_t> out(static_cast<size_t>(heads_ * capacity_ * row_bytes_));
    each([&](size_t in_piece, size_t in_pages) {
      std::copy_n(host.begin() + static_cast<int64_t>(in_pages), row_bytes_,
                  out.begin() + static_cast<int64_t>(in_piece));
    });
    return out;
  }

 private:
  int64_t page_bytes() const { return heads_ * kPageTokens * row_bytes_; }
  int64_t place(int64_t page) const { return count_ - 1 - page; }
  template <class F>
  void each(F&& f) const {
    for (int64_t h = 0; h < heads_; ++h)
      for (int64_t t = 0; t < capacity_; ++t)
        f(static_cast<size_t>((h * capacity_ + t) * row_bytes_),
          static_cast<size_t>(place(t / kPageTokens) * page_bytes() +
                              (h * kPageTokens + t % kPageTokens) * row_bytes_));
  }
  int64_t heads_, capacity_, row_bytes_, count_;
  DeviceBuffer memory_, table_;
};

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
