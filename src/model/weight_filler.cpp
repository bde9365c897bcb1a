#include "model/weight_filler.h"

#include <cmath>

#include "base/thread_pool.h"
#include "codec/weight_stream.h"

namespace roundel {

WeightFiller::WeightFiller(const ModelFiles& files, const Plan& plan, ThreadPool& pool)
    : files_(files),
      plan_(plan),
      pool_(pool),
      progress_("loading", files.checkpoint.total_tensor_bytes(), "B") {}

void WeightFiller::fill(WeightTarget& linear, bool packed) {
  const std::string& name = linear.spec().name;
  const StoredWeight* stored = files_.find_stored(name);
  if (stored) {
    const std::vector<int32_t> groups = load_group_index(*stored, files_.checkpoint);
    if (!groups.empty()) linear.set_group_index(groups);
    if (!packed)
      stream_stored(files_.checkpoint, *stored, pool_,
                    [&](const QuantizedRows& rows) { linear.pack_with(rows, pool_); });
  } else if (!packed) {
    fill_from_dense(linear);
  }
  progress_.advance(linear.packed_bytes());
  const auto& input = linear.spec().scheme.input;
  if (input && input->dynamic == DynamicMode::kStatic) {
    const int32_t zero = input->symmetric ? 0 : static_cast<int32_t>(scalar(name + ".input_zero_point"));
    linear.set_input_scale(scalar(name + ".input_scale"), zero);
  }
  if (const auto& output = linear.spec().scheme.output) {
    const int32_t zero = output->symmetric ? 0 : static_cast<int32_t>(scalar(name + ".output_zero_point"));
    linear.set_output_scale(scalar(name + ".output_scale"), zero);
  }
  if (files_.checkpoint.find(name + ".bias")) linear.set_bias(read_vector(files_, name + ".bias"));
}

void WeightFiller::fill_from_dense(WeightTarget& linear) {
  const std::string& name = linear.spec().name;
  const TensorSpec* spec = files_.checkpoint.find(weight_name(name));
  CHECK(spec != nullptr);
  if (linear.takes_source(spec->dtype)) {
    linear.pack_source(spec->dtype, [&](uint64_t offset, uint8_t* to, size_t bytes) {
      read_parallel(files_.checkpoint, *spec, offset, to, bytes, pool_);
    });
  } else if (const auto& weights = linear.spec().scheme.weights) {
    stream_encoded(files_.checkpoint, *spec, *weights, name, pool_, {},
                   [&](const QuantizedRows& rows) { linear.pack_with(rows, pool_); });
  } else {
    stream_dense(files_.checkpoint, *spec, pool_, [&](int64_t row0, int64_t rows, const void* data) {
      linear.pack_dense(row0, rows, data, pool_);
    });
  }
}

void WeightFiller::report_not_finite(const WeightTarget& linear) {
  const std::string& name = linear.spec().name;
  const TensorSpec* spec = files_.checkpoint.find(weight_name(name));
  CHECK(spec != nullptr && linear.spec().scheme.weights);
  stream_encoded(files_.checkpoint, *spec, *linear.spec().scheme.weights, name, pool_, {},
                 [](const QuantizedRows&) {});
  fail(ErrorCode::kDevice, "{}.weight: the GPU met values that are not finite, the CPU did not; run it again",
       name);
}

float WeightFiller::scalar(const std::string& name) {
  const TensorSpec* spec = files_.checkpoint.find(name);
  CHECK(spec != nullptr);
  uint8_t raw[8] = {};
  files_.checkpoint.read(*spec, 0, raw, dtype_size(spec->dtype));
  if (spec->dtype == DType::kI8) return static_cast<float>(static_cast<int8_t>(raw[0]));
  float value = 0;
  widen_to_float(spec->dtype, raw, &value, 1);
  if (name.ends_with("scale") && !(value > 0 && std::isfinite(value)))
    fail(ErrorCode::kInvalid, "{} is {}, expected a positive number", name, value);
  return value;
}

KvQuantizer WeightFiller::kv_quantizer(const std::string& attention) {
  if (!plan_.kv_cache) return {};
  const QuantArgs& args = *plan_.kv_cache;
  auto scale_of = [&](const char* which) {
    const std::string name = attention + which + "_scale";
    return scalar(files_.checkpoint.find(name) ? name : attention + which + "_proj.output_scale");
  };
  return {scale_of("k"), scale_of("v"), args.num_bits, args.type == NumberType::kFloat};
}

}  // namespace roundel
