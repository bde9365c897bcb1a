// require_supported(): the one place that says what roundel can do.
#include "base/error.h"
#include "scheme/quant_args.h"

namespace roundel {
namespace {

constexpr std::string_view kSupported =
    "supported are: weights int with num_bits 2 to 8, symmetric or not, and symmetric float8 (E4M3), each "
    "per tensor, "
    "channel, group or block; input activations int with num_bits 2 to 8 dynamic per token, int8 static per "
    "tensor, "
    "float8 dynamic per token or group, float8 static per tensor; output activations int8 or float8, static "
    "per "
    "tensor";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  fail(ErrorCode::kUnsupported, "{}: {}; {}", where, what, kSupported);
}

bool is_mx(const QuantArgs& a) {
  return a.strategy == Strategy::kGroup && a.group_size == 32;
}

// Names the float formats that are known but not supported.
void check_float(const QuantArgs& a, const std::string& where) {
  if (a.type != NumberType::kFloat) return;
  if (a.num_bits == 4 && is_mx(a))
    refuse(where, "MXFP4 (float numbers with num_bits 4, groups of 32) is not supported");
  if (a.num_bits == 4 && a.group_size == 16)
    refuse(where, "NVFP4 (float numbers with num_bits 4, groups of 16) is not supported");
  if (a.num_bits == 6) refuse(where, "MXFP6 (float numbers with num_bits 6) is not supported");
  if (a.num_bits == 8 && is_mx(a) && a.scale_dtype == "torch.uint8")
    refuse(where, "MXFP8 (float8, groups of 32 with power-of-two scales) is not supported");
  if (a.num_bits != 8)
    refuse(where, fmt::format("float numbers with num_bits {} are not supported", a.num_bits));
  if (!a.symmetric) refuse(where, "asymmetric float8 is not supported");
}

void check_dtypes(const QuantArgs& a, const std::string& where) {
  for (const char* name : {"", "torch.bfloat16", "torch.float16", "torch.float32"})
    if (a.scale_dtype == name) {
      if (!a.zp_dtype.empty() && a.zp_dtype != "torch.int8")
        refuse(where, fmt::format("zp_dtype \"{}\" is not supported (only torch.int8)", a.zp_dtype));
      return;
    }
  refuse(where, fmt::format("scale_dtype \"{}\" is not supported", a.scale_dtype));
}

void check_bits(const QuantArgs& a, const std::string& where) {
  if (a.type == NumberType::kInt && (a.num_bits < 2 || a.num_bits > 8))
    refuse(where, fmt::format("num_bits {} is not supported for integers", a.num_bits));
}

void check_weights(const QuantArgs& a, const std::string& where) {
  check_float(a, where);
  check_bits(a, where);
  check_dtypes(a, where);
  if (a.dynamic != DynamicMode::kStatic) refuse(where, "dynamic quantization of weights is not supported");
  if (a.strategy == Strategy::kToken || a.strategy == Strategy::kTensorGroup ||
      a.strategy == Strategy::kAttnHead)
    refuse(where, fmt::format("strategy \"{}\" is not supported for weights", strategy_name(a.strategy)));
}

void check_input(const QuantArgs& a, const std::string& where) {
  if (a.dynamic == DynamicMode::kLocal)
    refuse(where, "\"dynamic\": \"local\" (activations of NVFP4) is not supported");
  check_float(a, where);
  check_bits(a, where);
  check_dtypes(a, where);
  const bool dynamic = a.dynamic == DynamicMode::kDynamic;
  const bool fp8 = a.type == NumberType::kFloat;
  if (!a.symmetric && a.num_bits < 8)
    refuse(where, fmt::format("asymmetric int{} input activations are not supported", a.num_bits));
  if (dynamic && a.strategy == Strategy::kToken) return;
  if (dynamic && a.strategy == Strategy::kGroup && fp8) return;
  if (!dynamic && a.strategy == Strategy::kTensor && a.num_bits == 8) return;
  refuse(where,
         fmt::format("{}{} input activations are not supported", dynamic ? "" : "static ", describe(a)));
}

void check_output(const QuantArgs& a, const std::string& where) {
  check_float(a, where);
  check_dtypes(a, where);
  if (a.dynamic == DynamicMode::kStatic && a.strategy == Strategy::kTensor && a.num_bits == 8) return;
  refuse(where, fmt::format("{}{} output activations are not supported",
                            a.dynamic == DynamicMode::kStatic ? "static " : "", describe(a)));
}

}  // namespace

void require_supported(const Scheme& scheme, const std::string& where) {
  if ((scheme.input || scheme.output) && !scheme.weights)
    refuse(where + (scheme.input ? ".input_activations" : ".output_activations"),
           "quantized activations of unquantized weights (or of attention) are not supported");
  if (!scheme.weights) return;
  check_weights(*scheme.weights, where + ".weights");
  if (scheme.output) check_output(*scheme.output, where + ".output_activations");
  if (!scheme.input) return;
  check_input(*scheme.input, where + ".input_activations");
  if (scheme.weights->type == NumberType::kFloat && scheme.input->type == NumberType::kInt)
    refuse(where, "float8 weights with integer activations are not supported");
}

}  // namespace roundel
