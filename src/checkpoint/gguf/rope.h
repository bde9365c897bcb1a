// Rotary embedding of a GGUF model: metadata and the tensors of frequency factors, turned back into the parameters that
// config.json has.
//
//   GgufRope rope = read_gguf_rope(file, bytes, "llama", 128, 131072);   // rope.type == "llama3", rope.factor == 8
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/reader.h"

namespace roundel {

struct GgufRope {
  double theta = 10000.0;
  int64_t dimensions = 0;     // of each head that are rotated
  std::string type = "none";  // none, linear, yarn, llama3, longrope
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  std::optional<int64_t> original_context;               // llama3, yarn, longrope
  std::optional<double> beta_fast, beta_slow;            // yarn
  std::vector<double> short_factor, long_factor;         // longrope, dimensions / 2 each
};

GgufRope read_gguf_rope(const GgufFile& file, const ByteSource& bytes, std::string_view arch,
                        int64_t head_dim, int64_t context);

// The factors by which Llama 3.x divides its frequencies (converted: dimensions / 2 of them), for given parameters.
std::vector<double> llama3_rope_factors(int64_t dimensions, double theta, double factor, double low,
                                        double high, double original_context);

}  // namespace roundel
