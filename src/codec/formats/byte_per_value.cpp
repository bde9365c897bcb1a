// int-quantized, float-quantized and naive-quantized: one layout under three names, a byte for each value.
//
//   weight             I8 or F8_E4M3 [out, in]; integers below 8 bits too take a byte, not offset
//   weight_scale       BF16, F16 or F32, shape by strategy
//   weight_zero_point  I8, shaped like the scales; asymmetric only
#include <algorithm>

#include "base/checked.h"
#include "base/log.h"
#include "codec/formats/formats.h"
#include "codec/stored_tensors.h"

namespace roundel {
namespace {

DType code_dtype(const QuantArgs& args) {
  return args.type == NumberType::kFloat ? DType::kF8E4M3 : DType::kI8;
}

std::vector<TensorSpec> layout(const StoredWeight& stored) {
  const QuantArgs& args = weight_args(stored);
  const Shape scales = scale_shape(args, stored.rows, stored.cols);
  std::vector<TensorSpec> specs = {
      {tensor_name(stored, "weight"), code_dtype(args), {stored.rows, stored.cols}},
      {tensor_name(stored, "weight_scale"), stored.scale_dtype, scales}};
  if (!args.symmetric) specs.push_back({tensor_name(stored, "weight_zero_point"), DType::kI8, scales});
  return specs;
}

void store(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink) {
  sink(tensor_name(stored, "weight"), static_cast<uint64_t>(rows.row0 * rows.cols), rows.codes.data(),
       static_cast<size_t>(rows.rows * rows.cols));
  store_scales(stored, rows, sink);
  if (!weight_args(stored).symmetric) store_zero_points_i8(stored, rows, sink);
}

void open(StoredWeight* stored, const TensorSource& source, const std::string&, Problems* problems) {
  ModuleChecks checks(stored, source, problems);
  const QuantArgs& args = weight_args(*stored);
  const TensorSpec* weight =
      checks.require("weight", fmt::format("it holds the codes of {}", describe(args)));
  if (!weight || !checks.has_dtype(*weight, {code_dtype(args)})) return;
  if (weight->shape.size() != 2) {
    checks.add("weight", fmt::format("has shape {}, expected two dimensions", shape_text(weight->shape)));
    return;
  }
  if (!checks.take_shape(weight->shape[0], weight->shape[1], "weight")) return;
  checks.scales();
  if (args.symmetric) {
    checks.stray_zero_points();
  } else if (const TensorSpec* zero = checks.require("weight_zero_point", "the scheme is asymmetric")) {
    checks.zero_points_i8(*zero);
  }
}

// What kernels would take for other numbers: codes beyond the bits of the scheme.
void check_codes(const StoredWeight& stored, const QuantizedRows& rows) {
  const QuantArgs& args = weight_args(stored);
  if (args.type == NumberType::kFloat) {
    const auto nan = [](int8_t code) { return (code & 0x7f) == 0x7f; };
    const int64_t count = std::count_if(rows.codes.begin(), rows.codes.end(), nan);
    if (count == 0) return;
    const int64_t at = std::find_if(rows.codes.begin(), rows.codes.end(), nan) - rows.codes.begin();
    log_warn("{}.weight: {} NaN in rows {} to {}, the first at [{}, {}]", stored.module, count, rows.row0,
             rows.row0 + rows.rows - 1, rows.row0 + at / rows.cols, at % rows.cols);
    return;
  }
  if (args.num_bits >= 8) return;
  const auto least = static_cast<int8_t>(args.qmin()), most = static_cast<int8_t>(args.qmax());
  int64_t outside = 0;
  for (const int8_t code : rows.codes) outside += code < least || code > most;
  if (outside == 0) return;
  const auto first = std::find_if(rows.codes.begin(), rows.codes.end(),
                                  [&](int8_t code) { return code < least || code > most; });
  const int64_t at = first - rows.codes.begin();
  fail(ErrorCode::kInvalid, "{}.weight: value {} at [{}, {}] is outside [{}, {}], the range of {} bits",
       stored.module, *first, rows.row0 + at / rows.cols, at % rows.cols, least, most, args.num_bits);
}

void load(const StoredWeight& stored, const TensorSource& source, int64_t row0, int64_t rows,
          QuantizedRows* out) {
  out->row0 = row0;
  out->rows = rows;
  out->cols = stored.cols;
  out->groups = scale_groups(stored);
  out->codes.resize(static_cast<size_t>(rows * stored.cols));
  read_tensor(stored, source, "weight", static_cast<uint64_t>(row0 * stored.cols), out->codes.data(),
              out->codes.size());
  check_codes(stored, *out);
  load_scales(stored, source, out);
  out->zero_points.clear();
  if (!weight_args(stored).symmetric) load_zero_points_i8(stored, source, out);
}

std::vector<std::string> optional_tensors(const StoredWeight& stored) {
  std::vector<std::string> names = {tensor_name(stored, "weight_g_idx")};
  if (weight_args(stored).symmetric) names.push_back(tensor_name(stored, "weight_zero_point"));
  return names;
}

}  // namespace

extern const StorageFormat kIntQuantized = {"int-quantized", layout, store, open, load, optional_tensors};
extern const StorageFormat kFloatQuantized = {"float-quantized", layout, store, open, load, optional_tensors};
extern const StorageFormat kNaiveQuantized = {"naive-quantized", layout, store, open, load, optional_tensors};

}  // namespace roundel
