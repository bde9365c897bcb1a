// many.cuh for plain rows of bytes.
#include "kernels/cuda/sm90/many.cuh"

namespace roundel::cuda {

void launch_many_bytes(const ManyArgs& a, bool e4m3, const ManyTiles& tiles, unsigned blocks,
                       const CUtensorMap& x, const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes,
                       DeviceStream stream) {
  const auto go = e4m3 ? start_many<Codes::kE4M3, 1, false> : start_many<Codes::kInt8, 1, false>;
  go(a, tiles, blocks, x, w, y, shared_bytes, stream);
}

}  // namespace roundel::cuda
