#include <algorithm>

#include "base/checked.h"
#include "codec/stored_tensors.h"

namespace roundel {
namespace {

constexpr int64_t kMaxSide = int64_t{1} << 40;  // of a weight: sizes in bits fit 64 bits

}  // namespace

void ModuleChecks::add(const char* suffix, const std::string& message) {
  problems_->add(stored_->module, fmt::format("{} {}", suffix, message));
}

const TensorSpec* ModuleChecks::require(const char* suffix, std::string_view why) {
  const TensorSpec* spec = find(suffix);
  if (!spec) add(suffix, fmt::format("is missing; {}", why));
  return spec;
}

bool ModuleChecks::has_dtype(const TensorSpec& spec, std::initializer_list<DType> accepted) {
  if (std::find(accepted.begin(), accepted.end(), spec.dtype) != accepted.end()) return true;
  std::string names;
  for (const DType dtype : accepted)
    names += fmt::format("{}{}", names.empty() ? "" : " or ", dtype_name(dtype));
  const std::string suffix = spec.name.substr(stored_->module.size() + 1);
  add(suffix.c_str(), fmt::format("has dtype {}, expected {} ({})", dtype_name(spec.dtype), names,
                                  describe(weight_args(*stored_))));
  return false;
}

bool ModuleChecks::take_shape(int64_t rows, int64_t cols, const char* from) {
  if (rows < 1 || cols < 1 || rows > kMaxSide || cols > kMaxSide) {
    add(from, fmt::format("gives the weight the shape [{}, {}], which is not possible", rows, cols));
    return false;
  }
  if ((stored_->rows > 0 && stored_->rows != rows) || (stored_->cols > 0 && stored_->cols != cols)) {
    add(from, fmt::format("gives the weight the shape [{}, {}], the model expects [{}, {}]", rows, cols,
                          stored_->rows, stored_->cols));
    return false;
  }
  stored_->rows = rows;
  stored_->cols = cols;
  return true;
}

bool ModuleChecks::scale_shaped(const TensorSpec& spec) const {
  const Shape expected = scale_shape(weight_args(*stored_), stored_->rows, stored_->cols);
  if (spec.shape == expected) return true;
  if (expected == Shape{1}) return spec.shape.empty() || spec.shape == Shape{1, 1};
  return expected[1] == 1 && spec.shape == Shape{expected[0]};
}

std::string ModuleChecks::expected_scales() const {
  const QuantArgs& args = weight_args(*stored_);
  const std::string shape = shape_text(scale_shape(args, stored_->rows, stored_->cols));
  std::string why;
  switch (args.strategy) {
    case Strategy::kGroup:
      why = fmt::format("{} columns in groups of group_size {}", stored_->cols, args.group_size);
      break;
    case Strategy::kBlock:
      why = fmt::format("[{}, {}] in blocks of [{}, {}]", stored_->rows, stored_->cols, args.block_rows,
                        args.block_cols);
      break;
    case Strategy::kChannel:
      why = "strategy channel: one for each row";
      break;
    default:
      why = "strategy tensor: one for all";
      break;
  }
  return fmt::format("expected {} ({})", shape, why);
}

void ModuleChecks::scales() {
  const TensorSpec* spec = require("weight_scale", expected_scales());
  if (!spec || !has_dtype(*spec, {DType::kBF16, DType::kF16, DType::kF32})) return;
  stored_->scale_dtype = spec->dtype;
  if (!scale_shaped(*spec)) {
    add("weight_scale", fmt::format("has shape {}, {}", shape_text(spec->shape), expected_scales()));
  }
}

void ModuleChecks::zero_points_i8(const TensorSpec& spec) {
  if (!has_dtype(spec, {DType::kI8})) return;
  if (!scale_shaped(spec)) {
    add("weight_zero_point", fmt::format("has shape {}, {}", shape_text(spec.shape), expected_scales()));
  }
}

void ModuleChecks::stray_zero_points() {
  const TensorSpec* spec = find("weight_zero_point");
  if (!spec) return;
  constexpr uint64_t kPiece = 1 << 16;
  const uint64_t bytes = spec->bytes();
  std::vector<uint8_t> piece(static_cast<size_t>(std::min(bytes, kPiece)));
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const auto n = static_cast<size_t>(std::min(kPiece, bytes - at));
    source_.read(*spec, at, piece.data(), n);
    if (std::any_of(piece.data(), piece.data() + n, [](uint8_t byte) { return byte != 0; })) {
      add("weight_zero_point", fmt::format("holds values other than zero, but the scheme is symmetric ({})",
                                           describe(weight_args(*stored_))));
      return;
    }
  }
}

}  // namespace roundel
