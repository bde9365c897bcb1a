// The names of storage formats, and which of them a scheme gets. How each lies in a file is the codec's
// business.
//
//   scheme.format = infer_format(scheme, "Linear");                // "pack-quantized" for W4A16
//   require_format(name, "config.json: quantization_config.format");
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "scheme/quant_args.h"

namespace roundel {

// The formats that roundel writes and reads.
const std::vector<std::string>& supported_formats();
// Throws Error(kUnsupported) for formats that are known but not supported (sparse, marlin, 4-bit float, MX)
// with the reason, Error(kInvalid) for unknown ones with the nearest name.
void require_format(const std::string& name, const std::string& where);

// The storage format a scheme gets when none is named: docs/format.md, 3, in the order of compressed-tensors,
// with one difference. Integer weights below 8 bits are packed also when activations are quantized (W4A8,
// W4AFP8): the original spends a byte on each such value. Classes other than Linear and Embedding, and no
// weights: "dense".
std::string infer_format(const Scheme& scheme, const std::string& class_name);
// The same without that difference: what a checkpoint holds whose config names no format.
std::string infer_stored_format(const Scheme& scheme, const std::string& class_name);
// Whether the numbers fit: packed words hold integers of 1 to 8 bits; int-, float- and naive-quantized are
// one layout of a byte per value under three names.
bool format_holds(std::string_view format, const Scheme& scheme);

// Bits stored for a whole weight matrix under a scheme: codes (with the padding of packed rows), scales of
// `scale_dtype` unless the scheme names a type, zero points. A scheme without weights: codes = rows * cols *
// bits of `scale_dtype`. Not counted: weight_shape, weight_g_idx, input scales. Divide by rows * cols for
// bits per weight (docs/format.md, 16).
struct StoredBits {
  double codes = 0, scales = 0, zero_points = 0;
  double total() const { return codes + scales + zero_points; }
};
StoredBits stored_bits(const Scheme& scheme, int64_t rows, int64_t cols, DType scale_dtype);

}  // namespace roundel
