#include "model/rotation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/log.h"

namespace roundel {
namespace {

constexpr int64_t kPanel = 32;  // columns that are transformed together

uint64_t mixed(uint64_t x) {  // splitmix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// What is done to one tensor.
struct Rule {
  std::string source;                        // tensor it is made of
  std::string gain;                          // norm whose gains multiply the columns; empty: none
  const OrthogonalTransform* in = nullptr;   // of columns, in blocks of its size
  const OrthogonalTransform* out = nullptr;  // of rows, in blocks of its size, from `out_from` on
  int64_t out_from = 0;
  bool ones = false;
};

class Rotator : public TensorRewriter {
 public:
  Rotator(const ModelConfig& config, const DecoderTraits& traits, const Rotation& rotation)
      : residual_(config.hidden_size, 1), head_(config.head_dim, 2), rotation_(rotation) {
    for (int64_t i = 0; i < config.layers; ++i)
      add_layer("model.layers." + std::to_string(i) + ".", config, traits);
    if (!rotation.residual) return;
    rules_["model.embed_tokens.weight"].in = &residual_;
    rules_["model.norm.weight"].ones = true;
    Rule& head = rules_["lm_head.weight"];
    if (config.tie_word_embeddings) head.source = "model.embed_tokens.weight";
    head.gain = "model.norm.weight";
    head.in = &residual_;
  }

  bool rewrites(std::string_view tensor) const override { return rules_.find(tensor) != rules_.end(); }

  void read(const TensorSource& stored, const TensorSpec& spec, uint64_t offset, void* to,
            size_t bytes) const override {
    const Rule& rule = rules_.find(spec.name)->second;
    if (bytes == 0) return;
    if (rule.ones || spec.shape.size() == 1) {
      const std::vector<uint8_t> all = vector(stored, spec, rule);
      std::copy_n(all.data() + offset, bytes, static_cast<uint8_t*>(to));
    } else if (rule.out) {
      const std::lock_guard lock(mutex_);
      if (whole_name_ != spec.name) {
        whole_ = whole(stored, spec, rule);
        whole_name_ = spec.name;
      }
      std::copy_n(whole_.data() + offset, bytes, static_cast<uint8_t*>(to));
    } else {
      rows(stored, spec, rule, offset, static_cast<uint8_t*>(to), bytes);
    }
  }

 private:
  void add_layer(const std::string& layer, const ModelConfig& config, const DecoderTraits& traits) {
    const auto reads = [&](const char* module, const char* norm) {
      if (!rotation_.residual) return;
      Rule& rule = rules_[layer + module + ".weight"];
      rule.in = &residual_;
      rule.gain = layer + norm + ".weight";
    };
    const std::string qkv = traits.merged_qkv ? "self_attn.qkv_proj" : "self_attn.v_proj";
    for (const char* m : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})
      if (!traits.merged_qkv) reads(m, "input_layernorm");
    if (traits.merged_qkv) reads("self_attn.qkv_proj", "input_layernorm");
    for (const char* m : {"mlp.gate_proj", "mlp.up_proj"})
      if (!traits.merged_gate_up) reads(m, "post_attention_layernorm");
    if (traits.merged_gate_up) reads("mlp.gate_up_proj", "post_attention_layernorm");
    if (rotation_.residual) {
      for (const char* m : {"self_attn.o_proj", "mlp.down_proj"})
        for (const char* part : {".weight", ".bias"}) rules_[layer + m + part].out = &residual_;
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        rules_[layer + norm + ".weight"].ones = true;
    }
    if (rotation_.heads) {
      for (const char* part : {".weight", ".bias"}) {
        Rule& v = rules_[layer + qkv + part];
        v.out = &head_;
        v.out_from = traits.merged_qkv ? (config.heads + config.kv_heads) * config.head_dim : 0;
      }
      rules_[layer + "self_attn.o_proj.weight"].in = &head_;
    }
  }

  static const TensorSpec& source_spec(const TensorSource& stored, const TensorSpec& spec, const Rule& rule) {
    const TensorSpec* source = stored.find(rule.source.empty() ? spec.name : rule.source);
    CHECK(source && source->dtype == spec.dtype && source->shape == spec.shape);
    return *source;
  }

  // Rows [first, first + n) as floats, their columns done.
  static std::vector<float> read_rows(const TensorSource& stored, const TensorSpec& spec, const Rule& rule,
                                      int64_t first, int64_t n) {
    const TensorSpec& source = source_spec(stored, spec, rule);
    const int64_t cols = spec.shape[1];
    const size_t row_bytes = static_cast<size_t>(cols) * dtype_size(spec.dtype);
    std::vector<uint8_t> raw(static_cast<size_t>(n) * row_bytes);
    stored.read(source, static_cast<uint64_t>(first) * row_bytes, raw.data(), raw.size());
    std::vector<float> x(static_cast<size_t>(n * cols));
    widen_to_float(spec.dtype, raw.data(), x.data(), x.size());
    if (!rule.gain.empty()) {
      const std::vector<float> gain = read_floats(stored, rule.gain);
      CHECK(static_cast<int64_t>(gain.size()) == cols);
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < cols; ++c)
          x[static_cast<size_t>(r * cols + c)] *= gain[static_cast<size_t>(c)];
    }
    if (rule.in) rule.in->rows(x.data(), n, cols);
    return x;
  }

  static std::vector<float> read_floats(const TensorSource& stored, const std::string& name) {
    const TensorSpec* spec = stored.find(name);
    CHECK(spec);
    std::vector<uint8_t> raw(spec->bytes());
    stored.read(*spec, 0, raw.data(), raw.size());
    std::vector<float> x(spec->elements());
    widen_to_float(spec->dtype, raw.data(), x.data(), x.size());
    return x;
  }

  static void turn_rows(std::vector<float>& x, int64_t rows, int64_t cols, const Rule& rule) {
    for (int64_t r = rule.out_from; r < rows; r += rule.out->size())
      rule.out->columns(x.data() + r * cols, cols, cols);
  }

  static std::vector<uint8_t> narrowed(const std::vector<float>& x, DType dtype) {
    std::vector<uint8_t> out(x.size() * dtype_size(dtype));
    narrow_from_float(dtype, x.data(), out.data(), x.size());
    return out;
  }

  static std::vector<uint8_t> vector(const TensorSource& stored, const TensorSpec& spec, const Rule& rule) {
    if (rule.ones) return narrowed(std::vector<float>(spec.elements(), 1.0f), spec.dtype);
    std::vector<float> x = read_floats(stored, spec.name);
    turn_rows(x, spec.shape[0], 1, rule);
    return narrowed(x, spec.dtype);
  }

  static std::vector<uint8_t> whole(const TensorSource& stored, const TensorSpec& spec, const Rule& rule) {
    std::vector<float> x = read_rows(stored, spec, rule, 0, spec.shape[0]);
    turn_rows(x, spec.shape[0], spec.shape[1], rule);
    return narrowed(x, spec.dtype);
  }

  static void rows(const TensorSource& stored, const TensorSpec& spec, const Rule& rule, uint64_t offset,
                   uint8_t* to, size_t bytes) {
    const uint64_t row_bytes = static_cast<uint64_t>(spec.shape[1]) * dtype_size(spec.dtype);
    const auto batch = static_cast<int64_t>(std::max<uint64_t>(1, (256 << 10) / row_bytes));
    const uint64_t end = offset + bytes;
    for (int64_t first = static_cast<int64_t>(offset / row_bytes);
         static_cast<uint64_t>(first) * row_bytes < end; first += batch) {
      const uint64_t at = static_cast<uint64_t>(first) * row_bytes;
      const auto n = std::min(batch, static_cast<int64_t>((end - at + row_bytes - 1) / row_bytes));
      const std::vector<uint8_t> done = narrowed(read_rows(stored, spec, rule, first, n), spec.dtype);
      const uint64_t from = std::max(offset, at), until = std::min(end, at + done.size());
      std::copy(done.begin() + static_cast<std::ptrdiff_t>(from - at),
                done.begin() + static_cast<std::ptrdiff_t>(until - at), to + (from - offset));
    }
  }

  OrthogonalTransform residual_, head_;
  Rotation rotation_;
  std::map<std::string, Rule, std::less<>> rules_;
  mutable std::mutex mutex_;
  mutable std::string whole_name_;  // of the tensor that is kept, as it is read in pieces
  mutable std::vector<uint8_t> whole_;
};

}  // namespace

OrthogonalTransform::OrthogonalTransform(int64_t size, uint64_t seed) : size_(size), odd_(size) {
  CHECK(size > 0);
  for (; odd_ % 2 == 0; odd_ /= 2) power_ *= 2;
  const double norm = 1.0 / std::sqrt(static_cast<double>(power_));
  for (int64_t i = 0; i < size; ++i)
    signs_.push_back(static_cast<float>(mixed(seed << 32 ^ static_cast<uint64_t>(i)) >> 63 ? -norm : norm));
  if (odd_ == 1) return;
  const auto m = static_cast<double>(odd_);
  for (int64_t n = 0; n < odd_; ++n)
    for (int64_t k = 0; k < odd_; ++k)
      cosine_.push_back(static_cast<float>(
          std::sqrt((k == 0 ? 1.0 : 2.0) / m) *
          std::cos(std::numbers::pi / m * (static_cast<double>(n) + 0.5) * static_cast<double>(k))));
}

// x (size, inner), contiguous; scratch (m, inner).
void OrthogonalTransform::apply(float* x, int64_t inner, float* scratch) const {
  for (int64_t i = 0; i < size_; ++i)
    for (int64_t c = 0; c < inner; ++c) x[i * inner + c] *= signs_[static_cast<size_t>(i)];
  const int64_t unit = odd_ * inner;
  for (int64_t h = unit; h < power_ * unit; h *= 2)
    for (int64_t start = 0; start < power_ * unit; start += 2 * h)
      for (int64_t j = start; j < start + h; ++j) {
        const float a = x[j], b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
  if (odd_ == 1) return;
  for (int64_t p = 0; p < power_; ++p) {
    float* block = x + p * unit;
    std::fill_n(scratch, unit, 0.0f);
    for (int64_t n = 0; n < odd_; ++n)
      for (int64_t k = 0; k < odd_; ++k) {
        const float w = cosine_[static_cast<size_t>(n * odd_ + k)];
        for (int64_t c = 0; c < inner; ++c) scratch[k * inner + c] += block[n * inner + c] * w;
      }
    std::copy_n(scratch, unit, block);
  }
}

void OrthogonalTransform::rows(float* x, int64_t rows, int64_t ld) const {
  std::vector<float> scratch(static_cast<size_t>(odd_));
  for (int64_t at = 0; at < rows * ld; at += size_) apply(x + at, 1, scratch.data());
}

void OrthogonalTransform::columns(float* x, int64_t cols, int64_t ld) const {
  std::vector<float> panel(static_cast<size_t>(size_ * kPanel)), scratch(static_cast<size_t>(odd_ * kPanel));
  for (int64_t c = 0; c < cols; c += kPanel) {
    const int64_t n = std::min(kPanel, cols - c);
    for (int64_t r = 0; r < size_; ++r) std::copy_n(x + r * ld + c, n, panel.data() + r * n);
    apply(panel.data(), n, scratch.data());
    for (int64_t r = 0; r < size_; ++r) std::copy_n(panel.data() + r * n, n, x + r * ld + c);
  }
}

Rotation parse_rotation(std::string_view text, const std::string& where) {
  Rotation rotation;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string name(text.substr(at, end - at));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c == 'r' ? 'R' : c; });
    if (name == "R1")
      rotation.residual = true;
    else if (name == "R2")
      rotation.heads = true;
    else if (name == "R3" || name == "R4")
      fail(ErrorCode::kUnsupported,
           "{}: {} rotates activations while the model runs, which the checkpoint format's readers need code "
           "for; "
           "R1 and R2 go into the weights",
           where, name);
    else
      fail(ErrorCode::kUsage, "{}: \"{}\" is not a rotation, expected R1, R2 or R1,R2", where,
           escape_control(name));
    at = end + 1;
  }
  return rotation;
}

std::string rotation_text(const Rotation& rotation) {
  return rotation.residual ? rotation.heads ? "R1,R2" : "R1" : rotation.heads ? "R2" : "";
}

void rotate_model(Checkpoint& checkpoint, ModelConfig& config, const DecoderTraits& traits,
                  const Rotation& rotation) {
  auto rotator = std::make_unique<Rotator>(config, traits, rotation);
  std::vector<TensorSpec> added;
  Json json = checkpoint.config();
  if (rotation.residual && config.tie_word_embeddings) {
    const TensorSpec* embedding = checkpoint.find("model.embed_tokens.weight");
    const TensorSpec* head = checkpoint.find("lm_head.weight");
    if (embedding && !head) added.push_back({"lm_head.weight", embedding->dtype, embedding->shape});
    if (embedding && head && head->dtype != embedding->dtype)
      fail(ErrorCode::kUnsupported,
           "{}: lm_head.weight is {}, the embedding that it is tied to {}: R1 needs one type; store them "
           "alike, "
           "or leave lm_head.weight out",
           checkpoint.folder().string(), dtype_name(head->dtype), dtype_name(embedding->dtype));
    config.tie_word_embeddings = false;
    json["tie_word_embeddings"] = false;
  }
  checkpoint.rewrite(std::move(rotator), std::move(added), std::move(json));
}

}  // namespace roundel
