// Rotary position embedding (Su et al. 2021) with the scalings of Hugging Face configs: the angles of every position.
//
//   Rope rope({.theta = 10000.0, .rotated = 64, .max_position = 8192});
//   RopeAngles a = rope.angles(start, tokens, start + tokens);     // a.cos.data() + t * a.half: (half) of token t
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace roundel {

// The numbers of a rope section, from any config layout.
struct RopeSettings {
  std::string type = "default";  // default, linear, llama3, longrope, dynamic, yarn
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  int64_t original_max_position = 0;
  std::vector<double> short_factor, long_factor;
  double attention_factor = 0;  // 0: by the type's formula
  double beta_fast = 32, beta_slow = 1;
  int64_t rotated = 0;  // dimensions of a head that are rotated: 2 * half
  int64_t max_position = 0;
};

struct RopeAngles {
  int64_t half = 0;
  std::vector<float> cos, sin;  // (T,half), attention factor included
};

class Rope {
 public:
  explicit Rope(RopeSettings settings);
  // Angles of positions start .. start + tokens - 1. longrope and dynamic choose their frequencies by `length`, which
  // transformers takes as the sequence's length after the tokens of one forward pass: of the whole prompt.
  RopeAngles angles(int64_t start, int64_t tokens, int64_t length) const;
  bool same_frequencies(int64_t length_a, int64_t length_b) const;
  int64_t half() const { return static_cast<int64_t>(base_.size()); }

 private:
  std::vector<float> frequencies(int64_t length) const;
  RopeSettings settings_;
  std::vector<float> base_;  // 1 / theta^(2i/rotated), scaled where the type does it once and for all
  std::vector<float> long_;  // longrope beyond the original length
  double attention_factor_ = 1;
};

// Angles kept for positions that come again, as each prompt's first do: computing those of 2,048 takes 2 ms, a GPU's prompt
// of them 30.
//
//   RopeTable table(rope);
//   table.copy(start, tokens, length, cos, sin);    // as rope.angles(start, tokens, length): (tokens,half) each
class RopeTable {
 public:
  explicit RopeTable(const Rope& rope) : rope_(rope) {}
  void copy(int64_t start, int64_t tokens, int64_t length, float* cos, float* sin);

 private:
  const Rope& rope_;
  int64_t length_ = 0;  // whose frequencies these have; others are computed
  RopeAngles kept_;     // of positions from 0 on
};

}  // namespace roundel
