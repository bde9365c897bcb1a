#include "quantize/calibration/layer_weights.h"

#include "base/thread_pool.h"
#include "codec/weight_stream.h"

namespace roundel {
namespace {

SourceType source_type(DType dtype) {
  return dtype == DType::kBF16  ? SourceType::kBF16
         : dtype == DType::kF16 ? SourceType::kF16
                                : SourceType::kF32;
}

Stage stage_of(const std::string& module) {
  const std::string last = module.substr(module.rfind('.') + 1);
  if (last == "o_proj") return Stage::kO;
  if (last == "gate_proj" || last == "up_proj" || last == "gate_up_proj") return Stage::kGateUp;
  if (last == "down_proj") return Stage::kDown;
  return Stage::kQkv;
}

}  // namespace

Matrix read_matrix(const ModelFiles& files, const std::string& module, ThreadPool& pool) {
  const TensorSpec* spec = files.checkpoint.find(weight_name(module));
  CHECK(spec != nullptr);
  Matrix m(spec->shape[0], spec->shape[1]);
  const auto element = static_cast<int64_t>(dtype_size(spec->dtype));
  stream_dense(files.checkpoint, *spec, pool, [&](int64_t row0, int64_t rows, const void* data) {
    const RangeResult range = encode_ops().range(source_type(spec->dtype), data, rows * m.cols);
    if (range.not_finite > 0)
      fail(ErrorCode::kInvalid,
           "{}: {} values are NaN or infinite, the first at [{}, {}]; calibration needs finite weights",
           spec->name, range.not_finite, row0 + range.first_not_finite / m.cols,
           range.first_not_finite % m.cols);
    const auto* bytes = static_cast<const uint8_t*>(data);
    pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        widen_to_float(spec->dtype, bytes + r * m.cols * element, m.row(row0 + r),
                       static_cast<size_t>(m.cols));
    });
  });
  return m;
}

LayerWeights read_layer(const ModelFiles& files, const Plan& plan, int64_t index, ThreadPool& pool) {
  LayerWeights w;
  w.index = index;
  w.prefix = "model.layers." + std::to_string(index) + ".";
  for (const PlanEntry& e : plan.entries)
    if (e.module.name.starts_with(w.prefix))
      w.modules.push_back({&e, stage_of(e.module.name), read_matrix(files, e.module.name, pool)});
  for (const VectorParam& v : files.layout.vectors)
    if (v.name.starts_with(w.prefix)) w.vectors[v.name] = read_vector(files, v.name);
  for (const LayerModule& m : w.modules) {
    const std::string bias = m.entry->module.name + ".bias";
    if (files.checkpoint.find(bias) && !w.vectors.contains(bias)) w.vectors[bias] = read_vector(files, bias);
  }
  return w;
}

DecoderLayer empty_layer(const ModelFiles& files, const Plan& plan, const LayerWeights& weights) {
  DecoderLayer layer = build_layer(files, plan, weights.index);
  layer.input_norm = weights.vectors.at(weights.prefix + "input_layernorm.weight");
  layer.post_norm = weights.vectors.at(weights.prefix + "post_attention_layernorm.weight");
  if (files.traits.qk_norm) {
    layer.q_norm = weights.vectors.at(weights.prefix + "self_attn.q_norm.weight");
    layer.k_norm = weights.vectors.at(weights.prefix + "self_attn.k_norm.weight");
  }
  layer.for_each_linear([&](std::unique_ptr<Linear>& linear) {
    if (!linear) return;
    const auto bias = weights.vectors.find(linear->spec().name + ".bias");
    if (bias != weights.vectors.end()) linear->set_bias(bias->second);
  });
  return layer;
}

DecoderLayer dense_layer(const ModelFiles& files, const LayerWeights& weights, ThreadPool& pool) {
  DecoderLayer layer = empty_layer(files, files.stored_plan, weights);
  for (const LayerModule& m : weights.modules)
    pack_dense(m.weight, find_linear(layer, m.entry->module.name), pool);
  return layer;
}

void pack_dense(const Matrix& weight, Linear& linear, ThreadPool& pool) {
  const DType dtype = linear.spec().dtype;
  const auto row_bytes = static_cast<size_t>(weight.cols) * dtype_size(dtype);
  pool.parallel_for(weight.rows, kRowUnit, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> rows(static_cast<size_t>(kRowUnit) * row_bytes);
    for (int64_t r = begin; r < end; r += kRowUnit) {
      const int64_t n = std::min(kRowUnit, end - r);
      for (int64_t i = 0; i < n; ++i)
        narrow_from_float(dtype, weight.row(r + i), rows.data() + static_cast<size_t>(i) * row_bytes,
                          static_cast<size_t>(weight.cols));
      linear.pack_dense(r, n, rows.data());
    }
  });
}

Linear& find_linear(DecoderLayer& layer, const std::string& module) {
  Linear* found = nullptr;
  layer.for_each_linear([&](std::unique_ptr<Linear>& linear) {
    if (linear && linear->spec().name == module) found = linear.get();
  });
  CHECK(found != nullptr);
  return *found;
}

void round_matrix(Matrix* m, DType dtype, ThreadPool& pool) {
  pool.parallel_for(m->rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < m->cols; ++c) m->row(r)[c] = round_to(dtype, m->row(r)[c]);
  });
}

void write_floats(const ModelFiles& files, const std::string& tensor, const std::vector<float>& values,
                  const TensorSink& sink) {
  const TensorSpec* spec = files.checkpoint.find(tensor);
  CHECK(spec != nullptr && spec->elements() == values.size());
  std::vector<uint8_t> bytes(spec->bytes());
  narrow_from_float(spec->dtype, values.data(), bytes.data(), values.size());
  sink(tensor, 0, bytes.data(), bytes.size());
}

void write_dense(const ModelFiles& files, const LayerModule& module, const TensorSink& sink) {
  const std::string name = weight_name(module.entry->module.name);
  const TensorSpec* spec = files.checkpoint.find(name);
  CHECK(spec != nullptr);
  const auto row_bytes = static_cast<size_t>(module.weight.cols) * dtype_size(spec->dtype);
  std::vector<uint8_t> row(row_bytes);
  for (int64_t r = 0; r < module.weight.rows; ++r) {
    narrow_from_float(spec->dtype, module.weight.row(r), row.data(), static_cast<size_t>(module.weight.cols));
    sink(name, static_cast<uint64_t>(r) * row_bytes, row.data(), row_bytes);
  }
}

}  // namespace roundel
