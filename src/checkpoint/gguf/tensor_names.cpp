#include "checkpoint/gguf/tensor_names.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "checkpoint/capped_problems.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

class Planner {
 public:
  Planner(const GgufFile& file, const GgufModel& model) : file_(file), model_(model) {}

  std::vector<ImportedTensor> plan() {
    const GgufModel& m = model_;
    add("token_embd.weight", "model.embed_tokens.weight", {m.vocab, m.hidden});
    add("output_norm.weight", "model.norm.weight", {m.hidden});
    if (!m.tied) add("output.weight", "lm_head.weight", {m.vocab, m.hidden});
    for (int64_t layer = 0; layer < m.layers; ++layer) add_layer(layer);
    find_strangers();
    problems_.throw_if_any(file_.metadata.file() + ": the tensors do not make a " +
                           std::string(m.arch->hf_class));
    std::sort(plan_.begin(), plan_.end(),
              [](const ImportedTensor& a, const ImportedTensor& b) { return a.spec.name < b.spec.name; });
    return std::move(plan_);
  }

 private:
  void add(const std::string& from, const std::string& to, Shape shape, int64_t permuted_heads = 0) {
    const GgufTensor* source = file_.find(from);
    if (!source) return problem(from, fmt::format("is missing, expected shape {}", shape_text(shape)));
    used_.insert(from);
    Shape stored = source->shape;
    while (stored.size() > shape.size() && stored.front() == 1) stored.erase(stored.begin());
    if (stored != shape)
      return problem(from,
                     fmt::format("has shape {}, expected {}", shape_text(source->shape), shape_text(shape)));
    if (permuted_heads != 0 && shape.size() == 1 && source->type->block != 1)
      return problem(from, fmt::format("is stored as {}, expected F32, F16 or BF16", source->type->name));
    plan_.push_back({{to, DType::kBF16, std::move(shape)}, source, permuted_heads});
  }

  void problem(const std::string& tensor, std::string message) {
    problems_.add("tensor " + shortened(tensor), std::move(message));
  }

  void add_layer(int64_t layer) {
    const GgufModel& m = model_;
    const std::string from = fmt::format("blk.{}.", layer), to = fmt::format("model.layers.{}.", layer);
    const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
    const auto weight = [&](const char* part, const char* hf, Shape shape, int64_t heads = 0) {
      add(from + part + ".weight", to + hf + ".weight", std::move(shape), heads);
    };
    const auto bias = [&](const char* part, const char* hf, int64_t rows, int64_t heads = 0) {
      add(from + part + ".bias", to + hf + ".bias", {rows}, heads);
    };
    const int64_t q_heads = m.arch->permuted ? m.heads : 0, kv_heads = m.arch->permuted ? m.kv_heads : 0;
    weight("attn_norm", "input_layernorm", {m.hidden});
    weight("ffn_norm", "post_attention_layernorm", {m.hidden});
    weight("attn_output", "self_attn.o_proj", {m.hidden, q});
    weight("ffn_down", "mlp.down_proj", {m.hidden, m.intermediate});
    if (m.arch->merged) {
      weight("attn_qkv", "self_attn.qkv_proj", {q + 2 * kv, m.hidden});
      weight("ffn_up", "mlp.gate_up_proj", {2 * m.intermediate, m.hidden});
    } else {
      weight("attn_q", "self_attn.q_proj", {q, m.hidden}, q_heads);
      weight("attn_k", "self_attn.k_proj", {kv, m.hidden}, kv_heads);
      weight("attn_v", "self_attn.v_proj", {kv, m.hidden});
      weight("ffn_gate", "mlp.gate_proj", {m.intermediate, m.hidden});
      weight("ffn_up", "mlp.up_proj", {m.intermediate, m.hidden});
    }
    if (m.arch->qk_norm) {
      weight("attn_q_norm", "self_attn.q_norm", {m.head_dim});
      weight("attn_k_norm", "self_attn.k_norm", {m.head_dim});
    }
    if (m.arch->qkv_bias || m.attention_bias) {
      bias("attn_q", "self_attn.q_proj", q, q_heads);
      bias("attn_k", "self_attn.k_proj", kv, kv_heads);
      bias("attn_v", "self_attn.v_proj", kv);
    }
    if (m.attention_bias) bias("attn_output", "self_attn.o_proj", m.hidden);
    if (m.mlp_bias) {
      bias("ffn_gate", "mlp.gate_proj", m.intermediate);
      bias("ffn_up", "mlp.up_proj", m.intermediate);
      bias("ffn_down", "mlp.down_proj", m.hidden);
    }
  }

  // Every tensor of the file must have been asked for. The tables of rope.cpp were.
  void find_strangers() {
    if (model_.arch->name == "llama") used_.insert("rope_freqs.weight");
    if (model_.arch->name == "phi3") used_.insert({"rope_factors_short.weight", "rope_factors_long.weight"});
    for (const GgufTensor& t : file_.tensors) {
      if (used_.contains(t.name)) continue;
      problem(t.name, fmt::format("is not part of this architecture (shape {}, {})", shape_text(t.shape),
                                  t.type->name));
    }
  }

  const GgufFile& file_;
  const GgufModel& model_;
  std::vector<ImportedTensor> plan_;
  std::set<std::string> used_;
  CappedProblems problems_;
};

}  // namespace

std::vector<ImportedTensor> plan_gguf_tensors(const GgufFile& file, const GgufModel& model) {
  return Planner(file, model).plan();
}

}  // namespace roundel
