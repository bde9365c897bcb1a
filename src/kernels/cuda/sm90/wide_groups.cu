// wide.cuh for 4-bit codes with groups of 64 columns, or zero points: one size of tiles, 2 warpgroups and stages of a run.
#include "kernels/cuda/sm90/wide.cuh"

namespace roundel::cuda {
namespace {

template <int kSets, bool kZero>
void start(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x, const CUtensorMap& w,
           size_t shared_bytes, DeviceStream stream) {
  const auto kernel = width == 16   ? wide_kernel<Codes::kInt4, 16, 2, 1, kSets, kZero>
                      : width == 32 ? wide_kernel<Codes::kInt4, 32, 2, 1, kSets, kZero>
                                    : wide_kernel<Codes::kInt4, 64, 2, 1, kSets, kZero>;
  start_wide(kernel, a, tiles, x, w, shared_bytes, stream);
}

}  // namespace

void launch_wide_groups(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                        const CUtensorMap& w, size_t shared_bytes, DeviceStream stream) {
  const auto go = a.sets == 1 ? start<1, true> : a.zero ? start<2, true> : start<2, false>;
  go(a, width, tiles, x, w, shared_bytes, stream);
}

}  // namespace roundel::cuda
