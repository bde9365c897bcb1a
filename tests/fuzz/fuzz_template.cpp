// A chat template: it is parsed and rendered for one conversation with a tool call.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

using roundel::Json;
using roundel::OrderedJson;

const OrderedJson& messages() {
  static const OrderedJson value = OrderedJson::parse(R"([
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Wetter in Zürich?\n"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "a1", "type": "function",
      "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2, "exact": true}}}]},
    {"role": "tool", "tool_call_id": "a1", "content": [{"type": "text", "text": "21.5"}]}])");
  return value;
}

const OrderedJson& variables() {
  static const OrderedJson value = OrderedJson::parse(R"({"tools": [{"type": "function", "function": {
    "name": "weather", "description": "<now>", "parameters": {"type": "object", "properties":
    {"city": {"type": "string", "enum": ["Zürich", "日本"]}, "days": {"type": "integer", "maximum": 14.5}}}}}],
    "n": 7, "x": -1.5, "list": [3, 1, 2], "text": "  a b,c  ", "enable_thinking": false})");
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  roundel::ChatOptions options{.extra = &variables()};
  options.budget.max_steps = 20000;  // many inputs a second
  options.budget.max_output = 1 << 16;
  try {
    const auto chat =
        roundel::ChatTemplate::parse(text, "fuzz", Json{{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    if (chat.render(messages(), options).size() > options.budget.max_output) __builtin_trap();
  } catch (const roundel::Error&) {
  }
  return 0;
}
