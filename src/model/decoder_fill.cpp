#include <cmath>

#include "base/log.h"
#include "base/thread_pool.h"
#include "codec/weight_stream.h"
#include "model/decoder.h"

namespace roundel {
namespace {

class Filler {
 public:
  Filler(const ModelFiles& files, const Plan& plan, ThreadPool& pool)
      : files_(files),
        plan_(plan),
        pool_(pool),
        progress_("loading", files.checkpoint.total_tensor_bytes(), "B") {}

  void fill(Decoder& d) {
    d.for_each_linear([&](std::unique_ptr<Linear>& linear) {
      if (linear) fill_linear(*linear);
    });
    d.final_norm = vector("model.norm.weight");
    for (size_t i = 0; i < d.layers.size(); ++i) fill_vectors(d.layers[i], static_cast<int64_t>(i));
  }

  void fill_layer(DecoderLayer& layer, int64_t index) {
    layer.for_each_linear([&](std::unique_ptr<Linear>& linear) {
      if (linear) fill_linear(*linear);
    });
    fill_vectors(layer, index);
  }

 private:
  void fill_vectors(DecoderLayer& layer, int64_t index) {
    const std::string p = "model.layers." + std::to_string(index) + ".";
    layer.input_norm = vector(p + "input_layernorm.weight");
    layer.post_norm = vector(p + "post_attention_layernorm.weight");
    if (files_.traits.qk_norm) {
      layer.q_norm = vector(p + "self_attn.q_norm.weight");
      layer.k_norm = vector(p + "self_attn.k_norm.weight");
    }
    if (plan_.kv_cache) layer.kv = kv_quantizer(p + "self_attn.");
  }

  void fill_linear(Linear& linear) {
    const std::string& name = linear.spec().name;
    const StoredWeight* stored = files_.find_stored(name);
    if (stored) {
      const std::vector<int32_t> groups = load_group_index(*stored, files_.checkpoint);
      if (!groups.empty()) linear.set_group_index(groups);
      stream_stored(files_.checkpoint, *stored, [&](const QuantizedRows& rows) { linear.pack(rows); });
    } else {
      fill_from_dense(linear);
    }
    progress_.advance(linear.packed_bytes());
    const auto& input = linear.spec().scheme.input;
    if (input && input->dynamic == DynamicMode::kStatic) {
      const int32_t zero = input->symmetric ? 0 : static_cast<int32_t>(scalar(name + ".input_zero_point"));
      linear.set_input_scale(scalar(name + ".input_scale"), zero);
    }
    if (files_.checkpoint.find(name + ".bias")) linear.set_bias(vector(name + ".bias"));
  }

  void fill_from_dense(Linear& linear) {
    const std::string& name = linear.spec().name;
    const TensorSpec* spec = files_.checkpoint.find(weight_name(name));
    CHECK(spec != nullptr);
    if (const auto& weights = linear.spec().scheme.weights) {
      stream_encoded(files_.checkpoint, *spec, *weights, name, pool_, {},
                     [&](const QuantizedRows& rows) { linear.pack(rows); });
    } else {
      stream_dense(files_.checkpoint, *spec, pool_, [&](int64_t row0, int64_t rows, const void* data) {
        // Packing rows is independent work; kRowUnit rows at a time keep the packed blocks whole.
        const auto* bytes = static_cast<const uint8_t*>(data);
        const int64_t row_bytes = spec->shape[1] * static_cast<int64_t>(dtype_size(spec->dtype));
        pool_.parallel_for(rows, kRowUnit, [&](int64_t begin, int64_t end) {
          linear.pack_dense(row0 + begin, end - begin, bytes + begin * row_bytes);
        });
      });
    }
  }

  std::vector<float> vector(const std::string& name) { return read_vector(files_, name); }

  float scalar(const std::string& name) {
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

  KvQuantizer kv_quantizer(const std::string& attention) {
    const QuantArgs& args = *plan_.kv_cache;
    auto scale_of = [&](const char* which) {
      const std::string name = attention + which + "_scale";
      return scalar(files_.checkpoint.find(name) ? name : attention + which + "_proj.output_scale");
    };
    return {scale_of("k"), scale_of("v"), args.num_bits, args.type == NumberType::kFloat};
  }

  const ModelFiles& files_;
  const Plan& plan_;
  ThreadPool& pool_;
  Progress progress_;
};

}  // namespace

std::vector<float> read_vector(const ModelFiles& files, const std::string& name) {
  const TensorSpec* spec = files.checkpoint.find(name);
  CHECK(spec != nullptr);
  std::vector<uint8_t> raw(spec->bytes());
  files.checkpoint.read(*spec, 0, raw.data(), raw.size());
  std::vector<float> values(spec->elements());
  widen_to_float(spec->dtype, raw.data(), values.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      log_warn("{}: value {} is {}", name, i, values[i]);
      break;
    }
  }
  return values;
}

void fill_layer(DecoderLayer& layer, const ModelFiles& files, const Plan& plan, int64_t index,
                ThreadPool& pool) {
  Filler(files, plan, pool).fill_layer(layer, index);
}

void fill_decoder(Decoder& decoder, const ModelFiles& files, const Plan& plan, ThreadPool& pool) {
  Filler(files, plan, pool).fill(decoder);
}

}  // namespace roundel
