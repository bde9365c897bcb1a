#include "checkpoint/gguf/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

// A short tensor of factors, one for each rotated pair of dimensions. Empty when the file has none.
std::vector<double> read_factors(const GgufFile& file, const ByteSource& bytes, const char* name,
                                 int64_t pairs) {
  const GgufTensor* tensor = file.find(name);
  if (!tensor) return {};
  if (tensor->shape != Shape{pairs})
    fail(ErrorCode::kInvalid, "{}: tensor {} has shape {}, expected [{}], half of the rotated dimensions",
         file.metadata.file(), name, shape_text(tensor->shape), pairs);
  std::vector<uint8_t> raw(tensor->bytes);
  bytes.read(tensor->begin, raw.data(), raw.size());
  std::vector<float> values(static_cast<size_t>(pairs));
  tensor->type->dequantize(raw.data(), pairs, values.data());
  std::vector<double> factors;
  for (float v : values) {
    if (!(v > 0 && v <= 1e6f))
      fail(ErrorCode::kInvalid, "{}: tensor {} holds {}, expected factors from 0 to 1e6",
           file.metadata.file(), name, v);
    factors.push_back(shortest_decimal(static_cast<double>(v)));
  }
  return factors;
}

bool close(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::abs(b);
}

// Llama 3.x stores no parameters, only the finished factors. All published models use these three numbers.
void recognise_llama3(GgufRope& rope, const std::vector<double>& factors, const std::string& file) {
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192;
  const double factor = *std::max_element(factors.begin(), factors.end());
  if (close(factor, 1, 1e-6) && close(*std::min_element(factors.begin(), factors.end()), 1, 1e-6)) return;
  const std::vector<double> expected =
      llama3_rope_factors(rope.dimensions, rope.theta, factor, kLow, kHigh, kOriginal);
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!close(factors[i], expected[i], 1e-3))
      fail(ErrorCode::kUnsupported,
           "{}: tensor rope_freqs.weight is not the table of Llama 3 for factor {} (low {}, high {}, "
           "original context {}): entry {} is {}, expected {}",
           file, factor, kLow, kHigh, kOriginal, i, factors[i], expected[i]);
  }
  rope.type = "llama3";
  rope.factor = factor;
  rope.low_freq_factor = kLow;
  rope.high_freq_factor = kHigh;
  rope.original_context = static_cast<int64_t>(kOriginal);
}

void read_longrope(GgufRope& rope, const GgufFile& file, const ByteSource& bytes, const std::string& prefix,
                   int64_t context) {
  const GgufMetadata& m = file.metadata;
  rope.original_context =
      m.optional_int(prefix + "rope.scaling.original_context_length", 1, int64_t{1} << 31);
  rope.short_factor = read_factors(file, bytes, "rope_factors_short.weight", rope.dimensions / 2);
  rope.long_factor = read_factors(file, bytes, "rope_factors_long.weight", rope.dimensions / 2);
  const auto attention = m.optional_number(prefix + "rope.scaling.attn_factor", 0, 1e6);
  if (rope.short_factor.empty() != rope.long_factor.empty())
    fail(ErrorCode::kInvalid,
         "{}: only one of rope_factors_short.weight and rope_factors_long.weight is there", m.file());
  if (rope.short_factor.empty()) return;
  if (!rope.original_context)
    fail(ErrorCode::kInvalid, "{}: rope_factors_long.weight needs {}rope.scaling.original_context_length",
         m.file(), prefix);
  rope.type = "longrope";
  // config.json has no field for it that every reader knows: it follows from the two context lengths.
  const double original = static_cast<double>(*rope.original_context);
  const double ratio = static_cast<double>(context) / original;
  const double expected = ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(original)) : 1.0;
  if (attention && !close(*attention, expected, 1e-3))
    fail(ErrorCode::kUnsupported,
         "{}: {}rope.scaling.attn_factor is {}, expected {:.6f}, which follows from the context "
         "lengths {} and {}",
         m.file(), prefix, *attention, expected, *rope.original_context, context);
}

void read_scaling(GgufRope& rope, const GgufMetadata& m, const std::string& prefix) {
  const std::string type = m.optional_string(prefix + "rope.scaling.type").value_or("");
  const auto factor = m.optional_number(prefix + "rope.scaling.factor", 0, 1e6);
  const auto old_factor =
      m.optional_number(prefix + "rope.scale_linear", 0, 1e6);  // before rope.scaling.* existed
  m.optional_bool(prefix + "rope.scaling.finetuned");           // says nothing about the arithmetic
  const double scale = factor.value_or(old_factor.value_or(1.0));
  if (type == "none" || (type.empty() && scale <= 1)) return;
  if (type != "linear" && type != "yarn" && !type.empty())
    fail(ErrorCode::kUnsupported, "{}: {}rope.scaling.type is {}; imported are none, linear and yarn",
         m.file(), prefix, shortened(type));
  if (scale < 1)
    fail(ErrorCode::kInvalid, "{}: {}rope.scaling.factor is {}, expected 1 or more", m.file(), prefix, scale);
  rope.type = type == "yarn" ? "yarn" : "linear";
  rope.factor = shortest_decimal(scale);
  if (rope.type == "linear") return;
  rope.original_context = m.require_int(prefix + "rope.scaling.original_context_length", 1, int64_t{1} << 31);
  rope.beta_fast = m.optional_number(prefix + "rope.scaling.yarn_beta_fast", 0, 1e6);
  rope.beta_slow = m.optional_number(prefix + "rope.scaling.yarn_beta_slow", 0, 1e6);
  struct Neutral {
    const char* key;
    double value;
  };
  constexpr Neutral kNeutral[] = {
      {"yarn_ext_factor", 1}, {"yarn_attn_factor", 1}, {"attn_factor", 1}, {"yarn_log_multiplier", 0}};
  for (const Neutral& n : kNeutral) {
    const double v = m.optional_number(prefix + "rope.scaling." + n.key, -1e6, 1e6).value_or(n.value);
    if (v != n.value)
      fail(ErrorCode::kUnsupported, "{}: {}rope.scaling.{} is {}; YaRN is imported with {} only", m.file(),
           prefix, n.key, v, n.value);
  }
}

}  // namespace

std::vector<double> llama3_rope_factors(int64_t dimensions, double theta, double factor, double low,
                                        double high, double original_context) {
  std::vector<double> factors;
  for (int64_t i = 0; i < dimensions / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dimensions));
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original_context / high) {
      factors.push_back(1);
    } else if (wavelength > original_context / low) {
      factors.push_back(factor);
    } else {
      const double smooth = (original_context / wavelength - low) / (high - low);
      factors.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return factors;
}

GgufRope read_gguf_rope(const GgufFile& file, const ByteSource& bytes, std::string_view arch,
                        int64_t head_dim, int64_t context) {
  const GgufMetadata& m = file.metadata;
  const std::string prefix = std::string(arch) + ".";
  GgufRope rope;
  rope.theta = shortest_decimal(m.optional_number(prefix + "rope.freq_base", 1, 1e12).value_or(10000.0));
  rope.dimensions = m.optional_int(prefix + "rope.dimension_count", 2, head_dim).value_or(head_dim);
  if (rope.dimensions % 2 != 0)
    fail(ErrorCode::kInvalid, "{}: {}rope.dimension_count is {}, expected an even number", m.file(), prefix,
         rope.dimensions);
  if (arch != "phi3" && rope.dimensions != head_dim)
    fail(ErrorCode::kUnsupported,
         "{}: {}rope.dimension_count is {} of {} dimensions; a partial rotation is imported for phi3 "
         "only",
         m.file(), prefix, rope.dimensions, head_dim);
  if (arch == "phi3") read_longrope(rope, file, bytes, prefix, context);
  if (rope.type == "longrope") {
    m.optional_string(prefix + "rope.scaling.type");  // "longrope" where given; the tensors decide
    return rope;
  }
  const std::vector<double> factors =
      arch == "llama" ? read_factors(file, bytes, "rope_freqs.weight", rope.dimensions / 2)
                      : std::vector<double>{};
  read_scaling(rope, m, prefix);
  if (factors.empty()) return rope;
  if (rope.type != "none")
    fail(ErrorCode::kUnsupported,
         "{}: both rope_freqs.weight and {}rope.scaling.type ({}) are there; only one of them is "
         "imported",
         m.file(), prefix, rope.type);
  recognise_llama3(rope, factors, m.file());
  return rope;
}

}  // namespace roundel
