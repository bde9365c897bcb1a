// The listed encode operations: which instruction set each needs.
#include "kernels/api/encode.h"

#include "base/cpu_features.h"
#include "kernels/cpu/common/encode.h"

namespace roundel {
namespace {

Support supports_avx2(const CpuFeatures& cpu) {
  return cpu.avx2 ? Support{} : Support{false, "needs AVX2"};
}

Support supports_avx512(const CpuFeatures& cpu) {
  return cpu.avx512 ? Support{} : Support{false, "needs AVX-512"};
}

}  // namespace

extern const EncodeOps kAvx2Encode = {"avx2_encode",    supports_avx2,  avx2_range,      avx2_encode_int,
                                      avx2_encode_e4m3, avx2_pack_bits, avx2_unpack_bits};
extern const EncodeOps kAvx512Encode = {"avx512_encode",   supports_avx512,    avx512_range,
                                        avx512_encode_int, avx512_encode_e4m3, avx512_pack_bits,
                                        avx512_unpack_bits};

}  // namespace roundel
