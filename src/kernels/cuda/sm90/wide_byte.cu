// wide.cuh for codes of a byte: 8-bit integers and E4M3.
#include "kernels/cuda/sm90/wide.cuh"

namespace roundel::cuda {

void launch_wide_bytes(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, size_t shared_bytes, DeviceStream stream) {
  const auto go = a.code == WideCode::kE4M3 ? start_wide<Codes::kE4M3> : start_wide<Codes::kInt8>;
  go(a, width, tiles, x, w, shared_bytes, stream);
}

}  // namespace roundel::cuda
