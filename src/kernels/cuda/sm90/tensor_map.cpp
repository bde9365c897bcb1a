#include "kernels/cuda/sm90/tensor_map.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/launch.h"

namespace roundel::cuda {
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
  check(found ? 0 : static_cast<int>(cudaErrorNotSupported), "looking for the driver's tensor maps");
  return found;
}

}  // namespace

CUtensorMap describe_rows(const void* data, MapType type, int64_t rows, int64_t columns, int64_t pitch,
                          int box_rows, int box_bytes) {
  const bool bytes = type == MapType::kBytes;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(pitch)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(bytes ? box_bytes : box_bytes / 2),
                             static_cast<cuuint32_t>(box_rows)},
                   steps[2] = {1, 1};
  CUtensorMap map;
  const CUresult status =
      encoder()(&map, bytes ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                box_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS ? 0 : static_cast<int>(cudaErrorInvalidValue), "describing a matrix");
  return map;
}

CUtensorMap describe_units(const uint8_t* packed, const UnitLayout& u, int box_units) {
  const auto bytes = static_cast<cuuint64_t>(u.unit_bytes), units_k = static_cast<cuuint64_t>(u.units_k);
  const cuuint64_t sizes[3] = {bytes / 8, units_k, static_cast<cuuint64_t>(u.units_n)};
  const cuuint64_t strides[2] = {bytes, bytes * units_k};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(bytes / 8), 1, static_cast<cuuint32_t>(box_units)},
                   steps[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_INT64, 3, const_cast<uint8_t*>(packed), sizes, strides, box,
                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS ? 0 : static_cast<int>(cudaErrorInvalidValue), "describing units");
  return map;
}

}  // namespace roundel::cuda
