// The vocabulary of compressed-tensors: how one tensor is quantized (QuantArgs), and what a module gets (Scheme).
//
//   QuantArgs w{.num_bits = 4, .strategy = Strategy::kGroup, .group_size = 128};
//   Scheme w4a16{.weights = w};
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace roundel {

enum class NumberType { kInt, kFloat };
enum class Strategy { kTensor, kChannel, kGroup, kBlock, kToken, kTensorGroup, kAttnHead };
enum class DynamicMode { kStatic, kDynamic, kLocal };
enum class ActOrder { kNone, kStatic, kGroup };

struct QuantArgs {
  int num_bits = 8;
  NumberType type = NumberType::kInt;
  bool symmetric = true;
  Strategy strategy = Strategy::kTensor;
  int64_t group_size = 0;                     // of kGroup, kTensorGroup
  int64_t block_rows = 0, block_cols = 0;     // of kBlock
  DynamicMode dynamic = DynamicMode::kStatic;
  ActOrder actorder = ActOrder::kNone;
  std::string observer;                       // "" = not given
  std::string scale_dtype, zp_dtype;          // "" = not given
  std::string observer_kwargs;                // JSON text; "" = not given

  double qmin() const;  // -2^(b-1); -448 for fp8
  double qmax() const;
  bool same_numbers(const QuantArgs& other) const;  // equal but for observer and kwargs
  bool operator==(const QuantArgs&) const = default;
};

struct Scheme {
  std::optional<QuantArgs> weights;  // none: stays as it is
  std::optional<QuantArgs> input;
  std::optional<QuantArgs> output;
  std::string format;                // storage format; "" = inferred from the numbers
  bool operator==(const Scheme&) const = default;
};

std::string_view strategy_name(Strategy strategy);
// "W4A16 g128 sym": how tables show a scheme.
std::string describe(const Scheme& scheme);
std::string describe(const QuantArgs& args);

// Strict like the original: unknown keys and combinations that compressed-tensors refuses are errors (spec section 2, 17).
enum class ArgsRole { kWeights, kInput, kOutput, kKvCache };
QuantArgs parse_quant_args(const Json& json, ArgsRole role, const std::string& where);
Json to_json(const QuantArgs& args);   // keys as compressed-tensors 0.20 writes them
Scheme parse_scheme(const Json& json, const std::string& where);  // without targets
// What roundel can quantize and run today; the message lists what is supported. Throws Error(kUnsupported).
void require_supported(const Scheme& scheme, const std::string& where);

}  // namespace roundel
