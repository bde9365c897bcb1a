// many.cuh for groups of 128 columns and more, without zero points.
#include "kernels/cuda/sm90/many.cuh"

namespace roundel::cuda {

void launch_many_int4(const ManyArgs& a, const ManyTiles& tiles, unsigned blocks, const CUtensorMap& x,
                      const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes, DeviceStream stream) {
  start_many<Codes::kInt4, 1, false>(a, tiles, blocks, x, w, y, shared_bytes, stream);
}

}  // namespace roundel::cuda
