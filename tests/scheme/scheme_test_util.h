// Module lists and fixtures that the tests of schemes share.
#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "scheme/plan.h"
#include "scheme/presets.h"

namespace roundel {

inline Json fixture(const std::string& name) {
  return read_json_file(std::filesystem::path(ROUNDEL_TEST_DATA) / "scheme" / name);
}

// A llama: q, k, v and gate, up are fused by engines.
inline std::vector<ModuleInfo> llama_modules(int layers, int64_t hidden = 256, int64_t inner = 512,
                                             bool tied = false) {
  std::vector<ModuleInfo> list = {{"model.embed_tokens", "Embedding", 1000, hidden}};
  for (int i = 0; i < layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i), qkv = at + "self_attn.qkv_proj";
    const std::string gate_up = at + "mlp.gate_up_proj";
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      list.push_back({at + "self_attn." + name, "Linear", hidden, hidden, DType::kBF16, qkv});
    list.push_back({at + "self_attn.o_proj", "Linear", hidden, hidden});
    for (const char* name : {"gate_proj", "up_proj"})
      list.push_back({at + "mlp." + name, "Linear", inner, hidden, DType::kBF16, gate_up});
    list.push_back({at + "mlp.down_proj", "Linear", hidden, inner});
  }
  if (!tied) list.push_back({"lm_head", "Linear", 1000, hidden});
  return list;
}

// A mixture of experts, per-expert names.
inline std::vector<ModuleInfo> moe_modules(int layers, int experts) {
  std::vector<ModuleInfo> list;
  for (int i = 0; i < layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.mlp.", i);
    list.push_back({at + "gate", "Linear", experts, 256});
    for (int e = 0; e < experts; ++e)
      for (const char* name : {"gate_proj", "up_proj", "down_proj"})
        list.push_back({fmt::format("{}experts.{}.{}", at, e, name), "Linear", 256, 256});
  }
  list.push_back({"lm_head", "Linear", 1000, 256});
  return list;
}

inline Scheme preset(const char* name) {
  return find_preset(name, "test").scheme;
}

// The message of the Error that `action` throws; "" when it throws none.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace roundel
