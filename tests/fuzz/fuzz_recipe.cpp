// Recipes: YAML, JSON and Markdown, read into modifiers, planned over a small model, and written as a recipe again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "quantize/recipe.h"

namespace {

std::vector<roundel::ModuleInfo> modules() {
  std::vector<roundel::ModuleInfo> list = {{"model.embed_tokens", "Embedding", 100, 256}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."})
    for (const char* name : {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"})
      list.push_back({std::string(layer) + name, "Linear", 256, 256});
  list.push_back({"lm_head", "Linear", 100, 256});
  return list;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  roundel::configure_log({.level = roundel::LogLevel::kError});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace roundel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"r.yaml", "r.json", "r.md"}) {
    try {
      const Recipe recipe = parse_recipe(text, name);
      for (const Modifier& m : recipe.modifiers) {
        if (!m.request) continue;
        const PlanResult result = make_plan(modules(), *m.request);
        if (result.problems.empty() && result.plan.any_quantized())
          parse_recipe(write_recipe(result.plan), "written");
      }
    } catch (const Error&) {
    }
  }
  return 0;
}
