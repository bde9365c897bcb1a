#include "scheme/presets.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace roundel {
namespace {

QuantArgs int_group(int bits, bool symmetric = true) {
  return {.num_bits = bits, .symmetric = symmetric, .strategy = Strategy::kGroup, .group_size = 128};
}
QuantArgs int_token(int bits) {
  return {.num_bits = bits, .strategy = Strategy::kToken, .dynamic = DynamicMode::kDynamic};
}
QuantArgs float8(Strategy strategy, DynamicMode dynamic = DynamicMode::kStatic, int64_t group_size = 0) {
  return {.type = NumberType::kFloat, .strategy = strategy, .group_size = group_size, .dynamic = dynamic};
}
QuantArgs float8_block() {
  QuantArgs args = float8(Strategy::kBlock);
  args.block_rows = args.block_cols = 128;
  return args;
}
QuantArgs float8_static_tensor() {
  QuantArgs args = float8(Strategy::kTensor);
  args.observer = "static_minmax";
  return args;
}
QuantArgs nvfp4(DynamicMode dynamic) {
  return {.num_bits = 4,
          .type = NumberType::kFloat,
          .strategy = Strategy::kTensorGroup,
          .group_size = 16,
          .dynamic = dynamic,
          .observer = dynamic == DynamicMode::kLocal ? "static_minmax" : "",
          .scale_dtype = "torch.float8_e4m3fn"};
}
QuantArgs mx(int bits, DynamicMode dynamic = DynamicMode::kStatic) {
  return {.num_bits = bits,
          .type = NumberType::kFloat,
          .strategy = Strategy::kGroup,
          .group_size = 32,
          .dynamic = dynamic,
          .scale_dtype = "torch.uint8"};
}

constexpr char kNoNvfp4[] = "4-bit floats in groups of 16 (NVFP4) are not supported yet";
constexpr char kNoMxfp4[] = "4-bit floats in groups of 32 (MXFP4) are not supported yet";
constexpr char kNoMxfp6[] = "6-bit floats in groups of 32 (MXFP6) are not supported yet";
constexpr char kNoMxfp8[] = "float8 in groups of 32 with power-of-two scales (MXFP8) is not supported yet";

std::vector<Preset> make_presets() {
  using enum Strategy;
  constexpr DynamicMode kDynamic = DynamicMode::kDynamic;
  const Scheme w8a8{.weights = QuantArgs{.strategy = kChannel}, .input = int_token(8)};
  std::vector<Preset> list = {
      {"UNQUANTIZED", {}},
      {"W8A8", w8a8},
      {"INT8", w8a8},
      {"W4A16_ASYM", {.weights = int_group(4, false)}},
      {"W4AFP8", {.weights = int_group(4), .input = float8(kToken, kDynamic)}},
      {"FP8", {.weights = float8(kTensor), .input = float8_static_tensor()}, true},
      {"FP8_DYNAMIC", {.weights = float8(kChannel), .input = float8(kToken, kDynamic)}},
      {"FP8_BLOCK", {.weights = float8_block(), .input = float8(kGroup, kDynamic, 128)}},
      {"NVFP4A16", {.weights = nvfp4(DynamicMode::kStatic)}, false, kNoNvfp4},
      {"NVFP4",
       {.weights = nvfp4(DynamicMode::kStatic), .input = nvfp4(DynamicMode::kLocal)},
       true,
       kNoNvfp4},
      {"MXFP4A16", {.weights = mx(4)}, false, kNoMxfp4},
      {"MXFP4", {.weights = mx(4), .input = mx(4, kDynamic)}, false, kNoMxfp4},
      {"MXFP4XFP8", {.weights = mx(4), .input = float8(kGroup, kDynamic, 128)}, false, kNoMxfp4},
      {"MXFP6A16", {.weights = mx(6)}, false, kNoMxfp6},
      {"MXFP6A8", {.weights = mx(6), .input = mx(8, kDynamic)}, false, kNoMxfp6},
      {"MXFP8A16", {.weights = mx(8)}, false, kNoMxfp8},
      {"MXFP8", {.weights = mx(8), .input = mx(8, kDynamic)}, false, kNoMxfp8},
  };
  for (int bits = 2; bits <= 8; ++bits)
    list.push_back({fmt::format("W{}A16", bits), {.weights = int_group(bits)}});
  for (int bits = 2; bits <= 7; ++bits)
    list.push_back({fmt::format("W{}A8", bits), {.weights = int_group(bits), .input = int_token(8)}});
  for (int bits = 2; bits <= 4; ++bits)
    list.push_back({fmt::format("W{}A4", bits), {.weights = int_group(bits), .input = int_token(4)}});
  return list;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

const Preset* lookup(std::string_view name) {
  const std::string wanted = upper(name);
  for (const Preset& preset : presets())
    if (preset.name == wanted) return &preset;
  return nullptr;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = make_presets();
  return kPresets;
}

bool is_preset(std::string_view name) {
  return lookup(name) != nullptr;
}

const Preset& find_preset(std::string_view name, const std::string& where) {
  std::vector<std::string> known, supported;
  for (const Preset& preset : presets()) {
    known.push_back(preset.name);
    if (preset.refusal.empty()) supported.push_back(preset.name);
  }
  const Preset* preset = lookup(name);
  if (!preset)
    fail(ErrorCode::kInvalid, "{}: unknown scheme \"{}\"{} (known schemes: {})", where, name,
         did_you_mean(name, known), fmt::join(supported, ", "));
  if (!preset->refusal.empty())
    fail(ErrorCode::kUnsupported, "{}: scheme {} cannot be used: {} (supported schemes: {})", where,
         preset->name, preset->refusal, fmt::join(supported, ", "));
  return *preset;
}

}  // namespace roundel
