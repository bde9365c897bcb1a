// bytes.cuh for 8-bit integers.
#include "kernels/cuda/sm90/bytes.cuh"

namespace roundel::cuda {

void launch_bytes_int8(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, DeviceStream stream) {
  start_bytes<int, false>(a, tiles, x, w, stream);
}

}  // namespace roundel::cuda
