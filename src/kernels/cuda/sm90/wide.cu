// Starting wide.cuh, and its 4-bit kernels.
#include "kernels/cuda/sm90/wide.cuh"

namespace roundel::cuda {

void start_wide_bytes(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                      size_t shared_bytes, DeviceStream stream);  // wide_byte.cu

namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &result),
          "looking for the driver's tensor maps");
    return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
  }();
  return found;
}

void start_wide_int4(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                     size_t shared_bytes, DeviceStream stream) {
  start_wide<Codes::kInt4>(a, width, tiles, x, shared_bytes, stream);
}

}  // namespace

void launch_wide(const WideArgs& a, const uint16_t* x, int64_t ldx, int width, const WideTiles& tiles,
                 size_t shared_bytes, DeviceStream stream) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(a.k), static_cast<cuuint64_t>(a.m)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(ldx) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(width)}, steps[2] = {1, 1};
  const Encode encode = encoder();
  check(encode ? 0 : static_cast<int>(cudaErrorNotSupported), "looking for the driver's tensor maps");
  const CUresult status = encode(
      &map, a.code == WideCode::kInt4 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
      const_cast<uint16_t*>(x), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS ? 0 : static_cast<int>(cudaErrorInvalidValue), "describing activations");
  (a.code == WideCode::kInt4 ? start_wide_int4 : start_wide_bytes)(a, width, tiles, map, shared_bytes,
                                                                   stream);
}

}  // namespace roundel::cuda
