// wide.cuh for 4-bit codes.
#include "kernels/cuda/sm90/wide.cuh"

namespace roundel::cuda {

void launch_wide_int4(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                      const CUtensorMap& w, size_t shared_bytes, DeviceStream stream) {
  start_wide<Codes::kInt4>(a, width, tiles, x, w, shared_bytes, stream);
}

}  // namespace roundel::cuda
