// config.json with a quantization section: read, planned over a small model, written and read again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "scheme/quant_config.h"

namespace {

std::vector<roundel::ModuleInfo> modules() {
  std::vector<roundel::ModuleInfo> list = {{"model.embed_tokens", "Embedding", 100, 192}};
  for (const char* layer : {"model.layers.0.", "model.layers.1.", "model.layers.12."}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      list.push_back({std::string(layer) + "self_attn." + name, "Linear", 192, 192, roundel::DType::kBF16,
                      std::string(layer) + "self_attn.qkv_proj"});
    list.push_back({std::string(layer) + "mlp.down_proj", "Linear", 192, 256});
  }
  list.push_back({"lm_head", "Linear", 100, 192});
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace roundel;
  try {
    const Json config =
        parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "config.json");
    const auto stored = read_quant_config(config, "config.json");
    if (!stored) return 0;
    const std::vector<ModuleInfo> list = modules();
    const PlanResult result = make_plan(list, stored->request("config.json"));
    for (const PlanEntry& entry : result.plan.entries) {
      describe(entry);
      stored_bits(entry.scheme, entry.module.rows, entry.module.cols, entry.module.dtype);
    }
    if (!result.problems.empty() || !result.plan.any_quantized()) return 0;
    const Json section = write_quant_config(result.plan);
    const auto again = read_quant_config(
        parse_json(dump_json(Json{{"quantization_config", section}}), "written"), "written");
    const PlanResult replanned = make_plan(list, again.value().request("written"));
    for (const PlanEntry& entry : result.plan.entries)
      if (!(replanned.plan.find(entry.module.name)->scheme == entry.scheme)) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
