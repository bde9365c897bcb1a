#include "checkpoint/model_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/quoted.h"
#include "checkpoint/rope_config.h"

namespace roundel {
namespace {

// Bounds that no model comes near; they keep every product of two sizes inside 63 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxLayers = int64_t{1} << 16;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
constexpr int64_t kMaxVocab = int64_t{1} << 28;
constexpr int64_t kMaxLength = int64_t{1} << 30;
constexpr double kSmallestEps = 1e-20;

int64_t read_head_dim(const Json& json, const ModelConfig& c, const std::string& where) {
  auto dim = optional_int(json, "head_dim", where, 2, kMaxHeadDim);
  if (!dim && c.model_type == "qwen3") dim = 128;  // the architecture's default
  if (!dim && c.hidden_size % c.heads != 0)
    fail(ErrorCode::kInvalid,
         "{}: num_attention_heads {} does not divide hidden_size {}, and head_dim is missing", where, c.heads,
         c.hidden_size);
  const int64_t value = dim ? *dim : c.hidden_size / c.heads;
  if (value > kMaxHeadDim || value % 2 != 0)
    fail(ErrorCode::kInvalid, "{}: head_dim is {}, expected an even number up to {}", where, value,
         kMaxHeadDim);
  return value;
}

void read_sizes(const Json& json, ModelConfig& c, const std::string& where) {
  c.hidden_size = require_int(json, "hidden_size", where, 1, kMaxWidth);
  c.intermediate_size = require_int(json, "intermediate_size", where, 1, kMaxWidth);
  c.layers = require_int(json, "num_hidden_layers", where, 1, kMaxLayers);
  c.heads = require_int(json, "num_attention_heads", where, 1, kMaxHeads);
  c.kv_heads = optional_int(json, "num_key_value_heads", where, 1, kMaxHeads).value_or(c.heads);
  if (c.heads % c.kv_heads != 0)
    fail(ErrorCode::kInvalid, "{}: num_key_value_heads {} does not divide num_attention_heads {}", where,
         c.kv_heads, c.heads);
  c.head_dim = read_head_dim(json, c, where);
  if (c.heads * c.head_dim > kMaxWidth)
    fail(ErrorCode::kInvalid, "{}: {} attention heads of head_dim {} are too wide, at most {} together",
         where, c.heads, c.head_dim, kMaxWidth);
  c.vocab_size = require_int(json, "vocab_size", where, 1, kMaxVocab);
  c.max_position = require_int(json, "max_position_embeddings", where, 1, kMaxLength);
  c.rms_norm_eps = optional_number(json, "rms_norm_eps", where, kSmallestEps, 1.0)
                       .value_or(c.model_type == "phi3" ? 1e-5 : 1e-6);
}

std::string read_activation(const Json& json, const std::string& where) {
  const std::string name = optional_string(json, "hidden_act", where).value_or("silu");
  if (name == "silu" || name == "swish") return "silu";
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return "gelu_pytorch_tanh";
  fail(ErrorCode::kUnsupported,
       "{}: hidden_act {} is not supported; supported are silu and gelu_pytorch_tanh", where,
       in_quotes(name));
}

DType read_dtype(const Json& json, const std::string& where) {
  auto name = optional_string(json, "dtype", where);
  if (!name) name = optional_string(json, "torch_dtype", where);
  if (!name) return DType::kBF16;
  std::string_view word = *name;
  if (word.starts_with("torch.")) word.remove_prefix(6);
  if (word == "bfloat16") return DType::kBF16;
  if (word == "float16" || word == "half") return DType::kF16;
  if (word == "float32" || word == "float") return DType::kF32;
  fail(ErrorCode::kUnsupported, "{}: dtype {} is not supported; supported are bfloat16, float16 and float32",
       where, in_quotes(*name));
}

std::vector<std::string> read_layer_types(const Json& json, const ModelConfig& c, const std::string& where) {
  const auto it = json.find("layer_types");
  if (it == json.end() || it->is_null()) return {};
  if (!it->is_array() || it->size() != static_cast<size_t>(c.layers))
    fail(ErrorCode::kInvalid,
         "{}: layer_types must list one word for each of the num_hidden_layers {} layers{}", where, c.layers,
         it->is_array() ? fmt::format("; it has {}", it->size()) : "");
  std::vector<std::string> types;
  for (const Json& v : *it) {
    if (!v.is_string()) fail(ErrorCode::kInvalid, "{}: layer_types[{}] is not a string", where, types.size());
    types.push_back(v.get<std::string>());
    if (types.back() != "full_attention" && types.back() != "sliding_attention")
      fail(ErrorCode::kUnsupported,
           "{}: layer_types[{}] is {}, which is not supported; supported are full_attention and "
           "sliding_attention",
           where, types.size() - 1, in_quotes(types.back()));
  }
  return types;
}

// Which layers look back how far, by the rules of each family in transformers.
void read_windows(const Json& json, ModelConfig& c, const std::string& where) {
  const bool qwen = c.model_type.starts_with("qwen");
  const bool has_default = (qwen || c.model_type == "mistral") && !json.contains("sliding_window");
  const bool used =
      c.model_type != "llama" && optional_bool(json, "use_sliding_window", where).value_or(!qwen);
  const int64_t given =
      optional_int(json, "sliding_window", where, 1, kMaxLength).value_or(has_default ? 4096 : 0);
  const int64_t first = optional_int(json, "max_window_layers", where, 0, INT32_MAX).value_or(28);
  c.sliding_window = used ? given : 0;
  c.layer_types = read_layer_types(json, c, where);
  if (c.sliding_window == 0 &&
      std::count(c.layer_types.begin(), c.layer_types.end(), "sliding_attention") > 0)
    fail(ErrorCode::kInvalid,
         "{}: layer_types has sliding_attention, but sliding_window is not given or not used", where);
  if (c.layer_types.empty() && qwen && c.sliding_window > 0) {  // the first layers see everything
    c.layer_types.assign(static_cast<size_t>(std::min(first, c.layers)), "full_attention");
    c.layer_types.resize(static_cast<size_t>(c.layers), "sliding_attention");
  }
  if (c.layer_types.empty()) return;
  if (!std::equal(c.layer_types.begin() + 1, c.layer_types.end(), c.layer_types.begin())) return;
  if (c.layer_types[0] == "full_attention") c.sliding_window = 0;
  c.layer_types.clear();
}

std::optional<int64_t> single_id(const Json& json, const char* field, const std::string& where) {
  const auto ids = token_ids(json, field, where);
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

}  // namespace

int64_t ModelConfig::rotated_dims() const {
  return roundel::rotated_dims(head_dim, rope.partial_rotary_factor, "config.json");
}

std::string architecture_name(const Json& config, const std::string& where) {
  if (!config.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object", where);
  const auto list = config.find("architectures");
  if (list == config.end() || !list->is_array() || list->empty() || !(*list)[0].is_string())
    fail(ErrorCode::kInvalid, "{}: architectures must be a list that names the model's class", where);
  return (*list)[0].get<std::string>();
}

ModelConfig parse_model_config(const Json& json, const std::string& where) {
  ModelConfig c;
  c.architecture = architecture_name(json, where);
  c.model_type = optional_string(json, "model_type", where).value_or("");
  read_sizes(json, c, where);
  c.activation = read_activation(json, where);
  c.rope = parse_rope_config(json, c, where);
  c.tie_word_embeddings = optional_bool(json, "tie_word_embeddings", where).value_or(false);
  c.attention_bias = optional_bool(json, "attention_bias", where).value_or(false);
  c.mlp_bias = optional_bool(json, "mlp_bias", where).value_or(false);
  read_windows(json, c, where);
  c.dtype = read_dtype(json, where);
  c.bos_token_id = single_id(json, "bos_token_id", where);
  c.pad_token_id = single_id(json, "pad_token_id", where);
  c.eos_token_ids = token_ids(json, "eos_token_id", where);
  c.quantized = optional_object(json, "quantization_config", where) ||
                optional_object(json, "compression_config", where);
  return c;
}

}  // namespace roundel
