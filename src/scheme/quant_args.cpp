#include "scheme/quant_args.h"

#include <cmath>

#include "base/error.h"

namespace roundel {
namespace {

std::string size_suffix(const QuantArgs& a) {
  switch (a.strategy) {
    case Strategy::kGroup:
      return fmt::format("g{}", a.group_size);
    case Strategy::kTensorGroup:
      return fmt::format("tensor_group g{}", a.group_size);
    case Strategy::kBlock:
      return fmt::format("block {}x{}", a.block_rows, a.block_cols);
    default:
      return std::string(strategy_name(a.strategy));
  }
}

std::string activation_bits(const std::optional<QuantArgs>& input) {
  if (!input) return "16";
  return input->type == NumberType::kFloat ? fmt::format("FP{}", input->num_bits)
                                           : fmt::format("{}", input->num_bits);
}

// "token", "static tensor", "g128 asym"
std::string activation_suffix(const QuantArgs& a) {
  std::string text = a.dynamic == DynamicMode::kStatic ? "static " : "";
  text += size_suffix(a);
  if (!a.symmetric) text += " asym";
  return text;
}

// The three presets of FP8 have short names of their own.
std::string fp8_name(const QuantArgs& w, const QuantArgs& in) {
  const bool dynamic = in.dynamic == DynamicMode::kDynamic;
  if (w.strategy == Strategy::kChannel && in.strategy == Strategy::kToken && dynamic) return "FP8 dynamic";
  if (w.strategy == Strategy::kTensor && in.strategy == Strategy::kTensor && !dynamic) return "FP8 static";
  if (w.strategy == Strategy::kBlock && in.strategy == Strategy::kGroup && dynamic &&
      in.group_size == w.block_cols)
    return "FP8 " + size_suffix(w);
  return fmt::format("FP8 {}/{}", size_suffix(w), activation_suffix(in));
}

}  // namespace

double QuantArgs::qmax() const {
  if (type == NumberType::kInt) return std::ldexp(1.0, num_bits - 1) - 1;
  return num_bits == 4 ? 6.0 : num_bits == 6 ? 7.5 : 448.0;
}

double QuantArgs::qmin() const {
  return type == NumberType::kInt ? -std::ldexp(1.0, num_bits - 1) : -qmax();
}

bool QuantArgs::same_numbers(const QuantArgs& other) const {
  QuantArgs copy = other;
  copy.observer = observer;
  copy.observer_kwargs = observer_kwargs;
  return *this == copy;
}

std::string_view strategy_name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kTensor:
      return "tensor";
    case Strategy::kChannel:
      return "channel";
    case Strategy::kGroup:
      return "group";
    case Strategy::kBlock:
      return "block";
    case Strategy::kToken:
      return "token";
    case Strategy::kTensorGroup:
      return "tensor_group";
    case Strategy::kAttnHead:
      return "attn_head";
  }
  return "?";
}

std::string describe(const QuantArgs& a) {
  std::string text =
      fmt::format("{}{} {}", a.type == NumberType::kInt ? "int" : "float", a.num_bits, size_suffix(a));
  if (a.dynamic == DynamicMode::kDynamic) text += " dynamic";
  if (a.dynamic == DynamicMode::kLocal) text += " local";
  if (!a.symmetric) text += " asym";
  if (a.actorder == ActOrder::kStatic) text += " actorder";
  if (a.actorder == ActOrder::kGroup) text += " actorder group";
  return text;
}

namespace {

std::string describe_input(const Scheme& scheme) {
  const QuantArgs& w = *scheme.weights;
  if (w.type == NumberType::kFloat && w.num_bits == 8) {
    if (!scheme.input) return "W8A16 FP8 " + size_suffix(w);
    if (scheme.input->type == NumberType::kFloat) return fp8_name(w, *scheme.input);
  }
  std::string text = fmt::format("W{}A{}{} {}", w.num_bits, activation_bits(scheme.input),
                                 w.type == NumberType::kFloat ? " float" : "", size_suffix(w));
  if (!w.symmetric) text += " asym";
  return scheme.input ? fmt::format("{}/{}", text, activation_suffix(*scheme.input)) : text;
}

}  // namespace

std::string describe(const Scheme& scheme) {
  if (!scheme.weights) return "dense";
  const std::string text = describe_input(scheme);
  if (!scheme.output) return text;
  const QuantArgs& out = *scheme.output;
  return fmt::format("{}, output {}{}{}", text, out.type == NumberType::kInt ? "int" : "fp", out.num_bits,
                     out.symmetric ? "" : " asym");
}

}  // namespace roundel
