// What every launcher does after a launch: CUDA's error, if any, becomes an Error.
#pragma once
#include <cstddef>
#include <cstdint>

namespace roundel::cuda {

// `status`: a cudaError_t. Throws Error(kDevice), or Error(kLimit) for memory, with CUDA's words.
void check(int status, const char* what);

// Whether kernels are launched so that they may start while the kernel before still ends: from compute capability 9.0
// on, unless a bench says no.
bool early_start();
void allow_early_start(bool allow);

// The workspace of a linear, handed out piece by piece. Throws Error(kLimit) when it is too small.
class Workspace {
 public:
  Workspace(void* memory, size_t bytes) : at_(static_cast<uint8_t*>(memory)), left_(bytes) {}
  void* take(size_t bytes);
  size_t left() const { return left_; }

 private:
  uint8_t* at_;
  size_t left_;
};

// y (M,N) = x (M,K) . w (N,K)^T by cuBLASLt, row-major: bf16 or float operands and y float or bf16; E4M3 operands with a
// scale for each row of x and of w, and y float or bf16; E4M3 with scales of runs of 128 of x, (K/128, M), and of 128 x 128
// of w, (N/128, K/128 up to a multiple of 4), M a multiple of 4; int8 operands and y int32.
enum class BlasOperands : uint8_t { kBF16, kFloat, kE4M3, kE4M3Blocks, kInt8 };
struct BlasProblem {
  int64_t m = 0, n = 0, k = 0;
  const void* x = nullptr;
  int64_t ldx = 0;
  const void* w = nullptr;
  int64_t ldw = 0;
  void* y = nullptr;
  int64_t ldy = 0;
  BlasOperands operands = BlasOperands::kBF16;
  const float* x_scale = nullptr;  // of E4M3
  const float* w_scale = nullptr;
  bool y_bf16 = false;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};
void blas_multiply(const BlasProblem& problem, void* stream);

}  // namespace roundel::cuda
