// Descriptions of matrices for the copy engine (tensor maps).
//
//   const CUtensorMap map = describe_rows(x, MapType::kBF16, m, k, ldx * 2, 32);   // boxes of 32 rows and 128 bytes
#pragma once
#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

enum class MapType : uint8_t { kBytes, kBF16 };

// A row-major matrix, rows `pitch` bytes apart, that is copied in boxes of box_rows rows (up to 256) and 128 or 64 bytes
// of columns, in the swizzle of as many bytes; what lies outside of the matrix is read as zeros. Throws Error(kDevice)
// where the copy engine cannot: base and pitch must be multiples of 16 bytes.
CUtensorMap describe_rows(const void* data, MapType type, int64_t rows, int64_t columns, int64_t pitch,
                          int box_rows, int box_bytes = 128);

// Units (common/layout.h), copied in boxes of one column of units and box_units rows of them, one after another.
CUtensorMap describe_units(const uint8_t* packed, const UnitLayout& u, int box_units);

}  // namespace roundel::cuda
