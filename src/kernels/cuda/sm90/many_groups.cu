// many.cuh for groups of 32 and 64 columns, and zero points.
#include "kernels/cuda/sm90/many.cuh"

namespace roundel::cuda {

void launch_many_groups(const ManyArgs& a, int sets, bool zero, const ManyTiles& tiles, unsigned blocks,
                        const CUtensorMap& x, const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes,
                        DeviceStream stream) {
  const auto go = sets == 1 ? start_many<Codes::kInt4, 1, true>
                  : sets == 2
                      ? (zero ? start_many<Codes::kInt4, 2, true> : start_many<Codes::kInt4, 2, false>)
                      : (zero ? start_many<Codes::kInt4, 4, true> : start_many<Codes::kInt4, 4, false>);
  go(a, tiles, blocks, x, w, y, shared_bytes, stream);
}

}  // namespace roundel::cuda
