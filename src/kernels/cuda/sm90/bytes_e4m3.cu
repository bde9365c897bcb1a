// bytes.cuh for E4M3.
#include "kernels/cuda/sm90/bytes.cuh"

namespace roundel::cuda {

void launch_bytes_e4m3(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, DeviceStream stream) {
  start_bytes<float, false>(a, tiles, x, w, stream);
}

}  // namespace roundel::cuda
