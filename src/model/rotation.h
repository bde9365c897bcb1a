// Rotations of activations that are folded into the weights before anything is quantized (QuaRot, Ashkboos et al. 2024;
// SpinQuant, Liu et al. 2024). An orthogonal matrix spreads what sits in a few channels over all of them, so that one
// scale can serve a token, a row or a tensor. The model stays the same but for rounding:
//
//   R1, the residual stream x' = x R: the gains g of the norms go into the linears that read them, W' = W diag(g) R, the
//       gains become 1; what adds to the stream is turned back, W' = R^T W; the embedding E' = E R. The last norm's gain
//       goes into lm_head, so a tied one becomes a tensor of its own.
//   R2, each value head v' = v Q: rows of v_proj, columns of o_proj.
//
//   ModelFiles files = open_model(folder, parse_rotation("R1,R2", "--rotate"));
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/architecture.h"

namespace roundel {

struct Rotation {
  bool residual = false;  // R1
  bool heads = false;     // R2
  bool any() const { return residual || heads; }
  bool operator==(const Rotation&) const = default;
};

// "R1", "R2" or "R1,R2", upper or lower case. Throws Error(kUsage) naming `where`; R3 and R4, which would rotate while
// the model runs, are Error(kUnsupported).
Rotation parse_rotation(std::string_view text, const std::string& where);
std::string rotation_text(const Rotation& rotation);  // "R1,R2"; empty: none

// R of size n = 2^a m, m odd: diag(signs) (H kron D), H the Walsh-Hadamard matrix of 2^a and D the orthonormal
// discrete cosine transform (DCT-II) of m. Signs follow from `seed` alone.
class OrthogonalTransform {
 public:
  OrthogonalTransform(int64_t size, uint64_t seed);
  int64_t size() const { return size_; }
  // x (rows, ld): each run of size() values, from column 0 on, as a row vector times R; ld a multiple of size().
  void rows(float* x, int64_t rows, int64_t ld) const;
  // x (size(), ld): each of the first `cols` columns times R^T from the left.
  void columns(float* x, int64_t cols, int64_t ld) const;

 private:
  void apply(float* x, int64_t inner, float* scratch) const;
  int64_t size_, power_ = 1, odd_ = 1;
  std::vector<float> signs_;   // with 1/sqrt(2^a)
  std::vector<float> cosine_;  // (m, m)
};

// Makes `checkpoint` and `config` those of the rotated model: tie_word_embeddings becomes false under R1.
void rotate_model(Checkpoint& checkpoint, ModelConfig& config, const DecoderTraits& traits,
                  const Rotation& rotation);

}  // namespace roundel
