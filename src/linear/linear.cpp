#include "linear/linear.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"

namespace roundel {
namespace {

ScaleType scale_type_of(DType dtype) {
  return dtype == DType::kBF16 ? ScaleType::kBF16 : dtype == DType::kF16 ? ScaleType::kF16 : ScaleType::kF32;
}

CodeType dense_code(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::kBF16:
      return CodeType::kBF16;
    case DType::kF16:
      return CodeType::kF16;
    case DType::kF32:
      return CodeType::kF32;
    case DType::kF8E4M3:
      return CodeType::kE4M3;
    default:
      fail(ErrorCode::kUnsupported, "{}.weight is {}, a dense weight must be BF16, F16 or F32", name,
           dtype_name(dtype));
  }
}

int64_t group_columns(const QuantArgs& w, int64_t k) {
  if (w.strategy == Strategy::kGroup) return std::min(w.group_size, k);
  if (w.strategy == Strategy::kBlock) return std::min(w.block_cols, k);
  return k;
}

}  // namespace

// Integer activations meet integer weights as codes; every other pair
// meets as floats that were rounded to the activation's format.
ActForm activation_form(const Scheme& scheme) {
  ActForm form;
  if (!scheme.weights || !scheme.input) return form;
  const QuantArgs& in = *scheme.input;
  if (in.strategy == Strategy::kGroup) form.group = in.group_size;
  if (in.type == NumberType::kFloat) {
    form.kind = ActForm::Kind::kFakeE4M3;
    return form;
  }
  form.bits = in.num_bits;
  const bool codes = in.num_bits == 8 && scheme.weights->type == NumberType::kInt && form.group == 0;
  if (!codes) {
    form.kind = ActForm::Kind::kFakeInt;
  } else if (in.dynamic == DynamicMode::kStatic) {
    form.kind = ActForm::Kind::kInt8Static;
  } else {
    form.kind = in.symmetric ? ActForm::Kind::kInt8 : ActForm::Kind::kInt8Asym;
  }
  return form;
}

LinearProblem linear_problem(const LinearSpec& spec) {
  LinearProblem p;
  p.n = spec.n;
  p.k = spec.k;
  if (!spec.scheme.weights) {
    p.code = dense_code(spec.dtype, spec.name);
    p.bits = static_cast<int>(dtype_size(spec.dtype)) * 8;
    p.group = spec.k;
    return p;
  }
  const QuantArgs& w = *spec.scheme.weights;
  p.code = w.type == NumberType::kInt ? CodeType::kInt : CodeType::kE4M3;
  p.bits = w.num_bits;
  p.has_scale = true;
  p.has_zero_point = !w.symmetric;
  p.group = group_columns(w, spec.k);
  p.scale_type = scale_type_of(spec.dtype);
  const ActForm::Kind kind = activation_form(spec.scheme).kind;
  const bool codes =
      kind == ActForm::Kind::kInt8 || kind == ActForm::Kind::kInt8Asym || kind == ActForm::Kind::kInt8Static;
  p.act = codes ? ActType::kInt8 : ActType::kFloat;
  p.fp8_blocks = p.code == CodeType::kE4M3 && w.strategy == Strategy::kBlock && w.block_rows == kFp8Block &&
                 w.block_cols == kFp8Block && kind == ActForm::Kind::kFakeE4M3 &&
                 spec.scheme.input->group_size == kFp8Block &&
                 spec.scheme.input->strategy == Strategy::kGroup &&
                 spec.scheme.input->dynamic != DynamicMode::kStatic;
  return p;
}

Linear::Linear(LinearSpec spec)
    : spec_(std::move(spec)),
      problem_(linear_problem(spec_)),
      kernel_(&choose_linear(problem_)),
      form_(activation_form(spec_.scheme)),
      packed_(kernel_->packed_bytes(problem_)),
      packed_bytes_(packed_.size()) {}

void Linear::use_packed(const uint8_t* bytes) {
  mapped_ = bytes;
  packed_ = Buffer();
}

WeightRows Linear::view_of(const QuantizedRows& rows) const {
  CHECK(spec_.scheme.weights && rows.cols == spec_.k && rows.groups == problem_.groups());
  return {rows.row0, rows.rows, rows.codes.data(), rows.scales.data(),
          problem_.has_zero_point ? rows.zero_points.data() : nullptr};
}

void Linear::pack_with(const QuantizedRows& rows, ThreadPool& pool) {
  if (!form_.order.empty()) return pack(rows);
  const WeightRows all = view_of(rows);
  pool.parallel_for(rows.rows, kRowUnit, [&](int64_t begin, int64_t end) {
    WeightRows part = all;
    part.row0 += begin, part.rows = end - begin;
    part.codes = static_cast<const int8_t*>(all.codes) + begin * rows.cols;
    part.scales += begin * rows.groups;
    if (part.zero_points) part.zero_points += begin * rows.groups;
    kernel_->pack(problem_, part, packed_.data());
  });
}

void Linear::pack(const QuantizedRows& rows) {
  WeightRows view = view_of(rows);
  std::vector<int8_t> ordered;
  if (!form_.order.empty()) {
    ordered = reorder_columns(rows, form_.order);
    view.codes = ordered.data();
  }
  kernel_->pack(problem_, view, packed_.data());
}

void Linear::pack_dense(int64_t row0, int64_t rows, const void* data) {
  CHECK(!spec_.scheme.weights);
  kernel_->pack(problem_, WeightRows{row0, rows, data, nullptr, nullptr}, packed_.data());
}

void Linear::pack_dense(int64_t row0, int64_t rows, const void* data, ThreadPool& pool) {
  // Packing rows is independent work; kRowUnit rows at a time keep the packed blocks whole.
  const auto* bytes = static_cast<const uint8_t*>(data);
  const int64_t row_bytes = spec_.k * static_cast<int64_t>(dtype_size(spec_.dtype));
  pool.parallel_for(rows, kRowUnit, [&](int64_t begin, int64_t end) {
    pack_dense(row0 + begin, end - begin, bytes + begin * row_bytes);
  });
}

void Linear::set_bias(std::vector<float> bias) {
  CHECK(static_cast<int64_t>(bias.size()) == spec_.n);
  bias_ = std::move(bias);
}

void Linear::set_input_scale(float scale, int32_t zero_point) {
  form_.scale = scale;
  form_.zero_point = zero_point;
}

void Linear::set_output_scale(float scale, int32_t zero_point) {
  output_scale_ = scale;
  output_zero_ = zero_point;
}

void Linear::set_group_index(const std::vector<int32_t>& group_of_column) {
  CHECK(static_cast<int64_t>(group_of_column.size()) == spec_.k);
  form_.order = group_order(group_of_column);
}

void Linear::forward(LinearInput& input, float* y, int64_t ldy, ThreadPool& pool) const {
  LinearArgs args = input.form(form_, pool, kernel_->round_x);
  args.bias = bias_.empty() ? nullptr : bias_.data();
  args.y = y;
  args.ldy = ldy;
  kernel_->run(problem_, packed(), args, pool);
  if (output_scale_ > 0) round_output(y, args.m, ldy, pool);
}

// To the codes of output_activations and back.
void Linear::round_output(float* y, int64_t rows, int64_t ldy, ThreadPool& pool) const {
  const VectorOps& ops = vector_ops();
  const bool is_float = spec_.scheme.output->type == NumberType::kFloat;
  pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(is_float ? 0 : static_cast<size_t>(spec_.n));
    for (int64_t r = begin; r < end; ++r) {
      float* row = y + r * ldy;
      if (is_float) {
        ops.fake_quantize_e4m3(row, spec_.n, output_scale_, row);
        continue;
      }
      ops.quantize_int8_static(row, spec_.n, output_scale_, output_zero_, codes.data());
      for (size_t i = 0; i < codes.size(); ++i)
        row[i] = static_cast<float>(codes[i] - output_zero_) * output_scale_;
    }
  });
}

void Linear::read_row(int64_t row, float* out) const {
  kernel_->unpack_row(problem_, packed(), row, out);
  if (form_.order.empty()) return;
  const std::vector<float> ordered(out, out + spec_.k);
  for (int64_t c = 0; c < spec_.k; ++c) out[form_.order[c]] = ordered[c];
}

}  // namespace roundel
