// The input of one or several linears: floats, and the quantized forms of them that the linears ask for, each made once.
//
//   LinearInput input(x, tokens, hidden, ldx);
//   q_proj.forward(input, q, ldq, pool);     // makes the form it wants
//   k_proj.forward(input, k, ldk, pool);     // finds it made
//   LinearInput normed([&](int64_t t, float* y) { norm(x.row(t), y); }, tokens, hidden, ldx, room);
//   q_proj.forward(normed, q, ldq, pool);    // each row is made and rounded while it is in the cache
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "kernels/api/linear.h"
#include "tensor/tensor.h"

namespace roundel {

// What a linear wants its activations to be. The "fake" forms are floats that went through the quantizer and back: exact
// for FP8, whose kernels widen codes to float anyway.
struct ActForm {
  enum class Kind : uint8_t { kFloat, kInt8, kInt8Asym, kInt8Static, kFakeE4M3, kFakeInt };
  Kind kind = Kind::kFloat;
  float scale = 0;             // static scale; 0: dynamic
  int32_t zero_point = 0;      // kInt8Static
  int bits = 8;                // kFakeInt
  int64_t group = 0;           // columns that share a dynamic scale; 0: the whole token
  std::vector<int32_t> order;  // columns in this order (weight_g_idx); empty: as they are
  bool operator==(const ActForm&) const = default;
};

class LinearInput {
 public:
  using RoundX = decltype(LinearKernel::round_x);
  // x: (M,K), rows ldx apart; ldx is a multiple of kColumnUnit, columns from K on are zero. x must outlive the input.
  LinearInput(const float* x, int64_t m, int64_t k, int64_t ldx);
  // make_row(t, y) writes the K floats of row t: for each form that is asked for, from any thread, to the same result every
  // time. `room` (M,ldx), padded with zeros as x above, takes them where a linear wants floats; it outlives the input.
  using MakeRow = std::function<void(int64_t t, float* y)>;
  LinearInput(MakeRow make_row, int64_t m, int64_t k, int64_t ldx, float* room);
  // m, ldx, x / x_codes / x_scale / x_zero filled in; valid as long as this object. With `round_x`, of the kernel that
  // takes it, x_bf16 in place of x.
  const LinearArgs& form(const ActForm& form, ThreadPool& pool, RoundX round_x = nullptr);
  int64_t m() const { return plain_.m; }

 private:
  struct Made {
    ActForm form;
    RoundX round_x;
    LinearArgs args;
    Buffer values, scales, zeros;
  };
  const LinearArgs& floats(ThreadPool& pool);

  LinearArgs plain_;  // x is null until rows that are made lie in room_
  int64_t k_;
  MakeRow make_row_;
  float* room_ = nullptr;
  std::list<Made> made_;  // a list: what form() returned stays where it is
};

}  // namespace roundel
