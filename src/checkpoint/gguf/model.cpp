#include "checkpoint/gguf/model.h"

#include <charconv>

#include "base/error.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

constexpr GgufArchitecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama", true, false, false, false},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false, false, true, false},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false, false, false, true},
    {"phi3", "Phi3ForCausalLM", "phi3", false, true, false, false},
};

constexpr int64_t kMaxWidth = 1 << 20, kMaxHeads = 1 << 14, kMaxHeadDim = 1 << 12;

const GgufArchitecture& architecture(const GgufFile& file) {
  const GgufMetadata& m = file.metadata;
  if (const auto kind = m.optional_string("general.type"); kind && *kind != "model")
    fail(ErrorCode::kUnsupported, "{}: general.type is {}; only whole models are imported", m.file(),
         shortened(*kind));
  if (m.optional_int("split.count", 0, 65535).value_or(1) > 1)
    fail(ErrorCode::kUnsupported,
         "{}: one part of a model split over several files (split.count); merge the parts with "
         "`llama-gguf-split --merge` and import the result",
         m.file());
  const std::string name = m.require_string("general.architecture");
  std::string known;
  for (const GgufArchitecture& a : kArchitectures) {
    if (a.name == name) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  fail(ErrorCode::kUnsupported, "{}: architecture {} (general.architecture) is not imported; these are: {}",
       m.file(), shortened(name), known);
}

// Properties that would change the arithmetic and that the four architectures do not have.
void refuse_variants(const GgufMetadata& m, const std::string& prefix, const GgufArchitecture& arch) {
  if (m.optional_int(prefix + "expert_count", 0, 1 << 20).value_or(0) > 0)
    fail(ErrorCode::kUnsupported,
         "{}: a mixture-of-experts model ({}expert_count); these are not imported from GGUF", m.file(),
         prefix);
  constexpr const char* kScales[] = {
      "logit_scale",         "residual_scale",         "embedding_scale",         "attention.scale",
      "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping", "attention.max_alibi_bias"};
  for (const char* key : kScales) {
    if (m.optional_number(prefix + key, -1e30, 1e30).value_or(0) != 0)
      fail(ErrorCode::kUnsupported, "{}: {}{} is set; {} has no such step", m.file(), prefix, key,
           arch.hf_class);
  }
  if (!m.optional_bool(prefix + "attention.causal").value_or(true))
    fail(ErrorCode::kUnsupported, "{}: {}attention.causal is false; only causal models are imported",
         m.file(), prefix);
  if (m.optional_bool(prefix + "use_parallel_residual").value_or(false))
    fail(ErrorCode::kUnsupported, "{}: {}use_parallel_residual is true; {} has none", m.file(), prefix,
         arch.hf_class);
}

// llama models may have biases; Hugging Face knows only all of them or none.
bool has_biases(const GgufFile& file, std::initializer_list<const char*> parts, const char* group) {
  size_t found = 0;
  for (const char* part : parts) found += file.find(fmt::format("blk.0.{}.bias", part)) != nullptr;
  if (found != 0 && found != parts.size())
    fail(ErrorCode::kUnsupported,
         "{}: block 0 has {} of {} {} biases; LlamaForCausalLM has all of them or none", file.metadata.file(),
         found, parts.size(), group);
  return found != 0;
}

void read_heads(GgufModel& model, const GgufMetadata& m, const std::string& prefix) {
  const auto same = [&](const char* key, int64_t max) {
    const auto v = m.optional_same_int(prefix + key, 1, max);
    if (!v) fail(ErrorCode::kInvalid, "{}: the metadata key {}{} is missing", m.file(), prefix, key);
    return *v;
  };
  model.heads = same("attention.head_count", kMaxHeads);
  model.kv_heads =
      m.optional_same_int(prefix + "attention.head_count_kv", 1, kMaxHeads).value_or(model.heads);
  if (model.heads % model.kv_heads != 0)
    fail(ErrorCode::kInvalid,
         "{}: {} heads (attention.head_count) are no multiple of {} (attention.head_count_kv)", m.file(),
         model.heads, model.kv_heads);
  const auto key_length = m.optional_int(prefix + "attention.key_length", 1, kMaxHeadDim);
  if (!key_length && model.hidden % model.heads != 0)
    fail(ErrorCode::kInvalid,
         "{}: {}embedding_length {} is no multiple of {} heads, and {}attention.key_length is missing",
         m.file(), prefix, model.hidden, model.heads, prefix);
  model.head_dim = key_length.value_or(model.hidden / model.heads);
  const auto value_length = m.optional_int(prefix + "attention.value_length", 1, kMaxHeadDim);
  if (value_length.value_or(model.head_dim) != model.head_dim)
    fail(ErrorCode::kUnsupported,
         "{}: attention.value_length is {}, attention.key_length {}; only equal ones are imported", m.file(),
         *value_length, model.head_dim);
  if (model.head_dim % 2 != 0 || model.head_dim > kMaxHeadDim)
    fail(ErrorCode::kInvalid, "{}: heads of {} dimensions, expected an even number up to {}", m.file(),
         model.head_dim, kMaxHeadDim);
  model.intermediate = same("feed_forward_length", kMaxWidth * 4);
}

}  // namespace

GgufModel read_gguf_model(const GgufFile& file, const ByteSource& bytes) {
  const GgufMetadata& m = file.metadata;
  GgufModel model;
  model.arch = &architecture(file);
  const std::string prefix = std::string(model.arch->name) + ".";
  refuse_variants(m, prefix, *model.arch);
  model.hidden = m.require_int(prefix + "embedding_length", 1, kMaxWidth);
  model.layers = m.require_int(prefix + "block_count", 1, 4096);
  model.context = m.require_int(prefix + "context_length", 1, int64_t{1} << 31);
  model.rms_eps = shortest_decimal(m.require_number(prefix + "attention.layer_norm_rms_epsilon", 0, 1));
  read_heads(model, m, prefix);

  const GgufTensor* embedding = file.find("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    fail(ErrorCode::kInvalid, "{}: no two-dimensional tensor token_embd.weight", m.file());
  model.vocab = embedding->shape[0];
  if (m.optional_int(prefix + "vocab_size", 1, INT32_MAX).value_or(model.vocab) != model.vocab)
    fail(ErrorCode::kInvalid, "{}: {}vocab_size disagrees with the {} rows of token_embd.weight", m.file(),
         prefix, model.vocab);
  model.tied = file.find("output.weight") == nullptr;

  if (model.arch->name == "llama") {
    model.attention_bias = has_biases(file, {"attn_q", "attn_k", "attn_v", "attn_output"}, "attention");
    model.mlp_bias = has_biases(file, {"ffn_gate", "ffn_up", "ffn_down"}, "feed-forward");
  }
  if (const auto window = m.optional_int(prefix + "attention.sliding_window", 0, int64_t{1} << 31);
      window.value_or(0) > 0) {
    if (model.arch->name != "phi3")
      fail(ErrorCode::kUnsupported,
           "{}: {}attention.sliding_window is {}; a sliding window is imported for phi3 only", m.file(),
           prefix, *window);
    model.sliding_window = window;
  }
  model.rope = read_gguf_rope(file, bytes, model.arch->name, model.head_dim, model.context);
  return model;
}

double shortest_decimal(double float32_value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(float32_value)).ptr;
  double value = float32_value;
  std::from_chars(text, end, value);
  return value;
}

}  // namespace roundel
