#include "scheme/storage_format.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/nearest.h"

namespace roundel {
namespace {

constexpr std::pair<std::string_view, std::string_view> kRefused[] = {
    {"sparse-bitmask",
     "sparse checkpoints were removed from compressed-tensors in 0.15; save the dense model again"},
    {"sparse-24-bitmask",
     "2:4 sparse checkpoints were removed from compressed-tensors in 0.15; save the dense model again"},
    {"marlin-24",
     "its weights are permuted for one GPU kernel and compressed-tensors itself cannot unpack them"},
    {"nvfp4-pack-quantized", "NVFP4 (4-bit float, groups of 16) is not supported"},
    {"mxfp4-pack-quantized", "MXFP4 (4-bit float, groups of 32) is not supported"},
    {"mxfp6-pack-quantized", "MXFP6 (6-bit float, groups of 32) is not supported"},
    {"mxfp8-quantized", "MXFP8 (float8, groups of 32 with power-of-two scales) is not supported"},
};

bool is_float(const QuantArgs& a, int bits) {
  return a.type == NumberType::kFloat && a.num_bits == bits;
}
bool is_quantizable(const std::string& class_name) {
  return class_name == "Linear" || class_name == "Embedding";
}

// The microscaling and 4-bit float formats, which come first in the original's order; "" for all other
// schemes.
std::string infer_float_pack(const QuantArgs& w) {
  if (is_float(w, 4) && w.group_size == 32) return "mxfp4-pack-quantized";
  if (is_float(w, 6) && w.group_size == 32) return "mxfp6-pack-quantized";
  if (is_float(w, 8) && w.group_size == 32 && w.scale_dtype == "torch.uint8") return "mxfp8-quantized";
  if (is_float(w, 4) && w.group_size == 16) return "nvfp4-pack-quantized";
  return "";
}

bool is_packed(std::string_view format) {
  return format.find("pack-quantized") != std::string_view::npos;
}

}  // namespace

const std::vector<std::string>& supported_formats() {
  static const std::vector<std::string> kFormats = {"dense", "int-quantized", "float-quantized",
                                                    "naive-quantized", "pack-quantized"};
  return kFormats;
}

void require_format(const std::string& name, const std::string& where) {
  std::vector<std::string> known = supported_formats();
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  for (const auto& [refused, why] : kRefused) {
    if (name == refused)
      fail(ErrorCode::kUnsupported, "{}: format \"{}\" is not supported: {} (supported: {})", where, name,
           why, fmt::join(supported_formats(), ", "));
    known.emplace_back(refused);
  }
  fail(ErrorCode::kInvalid, "{}: unknown format \"{}\"{} (supported: {})", where, name,
       did_you_mean(name, known), fmt::join(supported_formats(), ", "));
}

std::string infer_stored_format(const Scheme& scheme, const std::string& class_name) {
  if (!scheme.weights || !is_quantizable(class_name)) return "dense";
  const QuantArgs& w = *scheme.weights;
  if (std::string format = infer_float_pack(w); !format.empty()) return format;
  if (w.type == NumberType::kFloat) return scheme.input ? "float-quantized" : "naive-quantized";
  if (scheme.input) return "int-quantized";
  return w.num_bits <= 8 ? "pack-quantized" : "naive-quantized";
}

std::string infer_format(const Scheme& scheme, const std::string& class_name) {
  std::string format = infer_stored_format(scheme, class_name);
  if (format == "int-quantized" && scheme.weights->num_bits < 8) format = "pack-quantized";
  return format;
}

bool format_holds(std::string_view format, const Scheme& scheme) {
  if (!scheme.weights) return format == "dense";
  const QuantArgs& w = *scheme.weights;
  const bool bytes = w.num_bits == 8 || (w.type == NumberType::kInt && w.num_bits < 8);
  if (format == "pack-quantized") return w.type == NumberType::kInt && w.num_bits <= 8;
  if (format == "int-quantized") return w.type == NumberType::kInt && bytes;
  if (format == "float-quantized") return w.type == NumberType::kFloat && bytes;
  if (format == "naive-quantized") return bytes;
  return format != "dense" && format == infer_float_pack(w);
}

StoredBits stored_bits(const Scheme& scheme, int64_t rows, int64_t cols, DType scale_dtype) {
  const double r = static_cast<double>(rows), c = static_cast<double>(cols);
  const double scale_bits = 8.0 * static_cast<double>(dtype_size(scale_dtype));
  if (!scheme.weights) return {.codes = r * c * scale_bits};
  const QuantArgs& w = *scheme.weights;
  const std::string format = scheme.format.empty() ? infer_format(scheme, "Linear") : scheme.format;
  const bool packed = is_packed(format);
  double scale_rows = 1, scale_cols = 1;
  if (w.strategy == Strategy::kChannel || w.group_size > 0) scale_rows = r;
  if (w.group_size > 0) scale_cols = static_cast<double>(ceil_div(cols, w.group_size));
  if (w.strategy == Strategy::kBlock) {
    scale_rows = static_cast<double>(ceil_div(rows, w.block_rows));
    scale_cols = static_cast<double>(ceil_div(cols, w.block_cols));
  }
  const bool byte_scales = w.scale_dtype == "torch.uint8" || w.scale_dtype.starts_with("torch.float8");
  const bool words = format == "pack-quantized";  // rows of 32-bit words; the float formats fill bytes
  StoredBits bits;
  bits.codes = packed ? r * (words ? static_cast<double>(round_up(cols * w.num_bits, 32)) : c * w.num_bits)
                      : 8 * r * c;
  bits.scales = scale_rows * scale_cols * (byte_scales ? 8.0 : scale_bits);
  if (w.symmetric) return bits;
  const bool packed_zeros = words && (w.strategy == Strategy::kChannel || w.strategy == Strategy::kGroup);
  bits.zero_points = packed_zeros ? static_cast<double>(round_up(rows * w.num_bits, 32)) * scale_cols
                                  : 8 * scale_rows * scale_cols;
  return bits;
}

}  // namespace roundel
