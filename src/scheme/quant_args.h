// The vocabulary of compressed-tensors: how one tensor is quantized (QuantArgs), and what a module gets
// (Scheme).
//
//   QuantArgs w{.num_bits = 4, .strategy = Strategy::kGroup, .group_size = 128};
//   Scheme w4a16{.weights = w};
//   Scheme stored = parse_scheme(group, "config.json: quantization_config.config_groups.group_0");
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace roundel {

enum class NumberType { kInt, kFloat };
enum class Strategy { kTensor, kChannel, kGroup, kBlock, kToken, kTensorGroup, kAttnHead };
enum class DynamicMode { kStatic, kDynamic, kLocal };
// kStatic is "static" and its alias "weight"; kGroup ("group", "dynamic", true) was removed in
// compressed-tensors 0.19 but older checkpoints, with weight_g_idx, hold it.
enum class ActOrder { kNone, kStatic, kGroup };

struct QuantArgs {
  int num_bits = 8;
  NumberType type = NumberType::kInt;
  bool symmetric = true;
  Strategy strategy = Strategy::kTensor;
  int64_t group_size = 0;                  // of kGroup, kTensorGroup; otherwise 0
  int64_t block_rows = 0, block_cols = 0;  // of kBlock
  DynamicMode dynamic = DynamicMode::kStatic;
  ActOrder actorder = ActOrder::kNone;
  std::string observer;               // "" = not given
  std::string scale_dtype, zp_dtype;  // "torch.uint8"; "" = not given; no zp_dtype when symmetric
  std::string observer_kwargs;        // JSON text; "" = not given

  double qmin() const;                              // -2^(b-1); float: -448 (8 bits), -7.5 (6), -6 (4)
  double qmax() const;                              // 2^(b-1) - 1; float: 448, 7.5, 6
  bool same_numbers(const QuantArgs& other) const;  // equal but for observer and kwargs
  bool operator==(const QuantArgs&) const = default;
};

struct Scheme {
  std::optional<QuantArgs> weights;  // none: stays as it is
  std::optional<QuantArgs> input;
  std::optional<QuantArgs> output;
  std::string format;  // storage format; "" = inferred from the numbers
  bool operator==(const Scheme&) const = default;
};

std::string_view strategy_name(Strategy strategy);
// How tables show a scheme: "W4A16 g128", "W4A16 g128 asym", "W8A8 channel/token", "FP8 dynamic", "dense".
std::string describe(const Scheme& scheme);
// "int4 g128", "int8 token dynamic asym", "float8 block 128x128".
std::string describe(const QuantArgs& args);

// As strict as compressed-tensors 0.20.1 (docs/format.md, 2): unknown keys and combinations that it refuses
// are errors. Stricter in one point: a number or flag must be one in JSON ("8", 8.0 and 1 for true are
// refused). More lenient in one: actorder "group" is read. Sizes above 2^31-1 and num_bits outside 1 to 64
// are errors. Throws Error(kInvalid).
enum class ArgsRole { kWeights, kInput, kOutput, kKvCache };
QuantArgs parse_quant_args(const Json& json, ArgsRole role, const std::string& where);
Json to_json(const QuantArgs& args);  // the keys that compressed-tensors 0.20 writes
// A group of config_groups; its "targets" are checked by parse_targets() and not part of the result. A format
// must be a known one; whether it can hold the numbers is format_holds()'s question.
Scheme parse_scheme(const Json& json, const std::string& where);
// "targets" of a group: a list of strings. Throws Error(kInvalid) when it is missing.
std::vector<std::string> parse_targets(const Json& json, const std::string& where);

// What roundel can quantize and run today; the message lists what is supported. Throws Error(kUnsupported).
void require_supported(const Scheme& scheme, const std::string& where);

}  // namespace roundel
