#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>

#include "base/error.h"
#include "kernels/cuda/common/launch.h"

namespace roundel::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorCode::kDevice, "cuBLASLt: {} in {}", cublasLtGetStatusString(status), what);
}

template <class T, auto Destroy>
struct Handle {
  T value = nullptr;
  ~Handle() {
    if (value) Destroy(value);
  }
};
using Multiply = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t h = nullptr;
    check_blas(cublasLtCreate(&h), "starting the library");
    return h;
  }();
  return made;
}

// A product in cuBLAS's column-major words: D (N,M) = W^T (N,K) . X (K,M).
struct Prepared {
  Multiply multiply;
  Layout a, b, d;
  cublasLtMatmulHeuristicResult_t choice{};
};

using Key = std::array<int64_t, 10>;

struct Types {
  cudaDataType_t in, out, scale;
  cublasComputeType_t compute;
  int64_t size_in, size_out;
};
Types types_of(const BlasProblem& p) {
  const cudaDataType_t out = p.y_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const int64_t size_out = p.y_bf16 ? 2 : 4;
  switch (p.operands) {
    case BlasOperands::kFloat:
      return {CUDA_R_32F, out, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, size_out};
    case BlasOperands::kE4M3:
    case BlasOperands::kE4M3Blocks:
      return {CUDA_R_8F_E4M3, out, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, size_out};
    case BlasOperands::kInt8:
      return {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 1, 4};
    default:
      return {CUDA_R_16BF, out, CUDA_R_32F, CUBLAS_COMPUTE_32F, 2, size_out};
  }
}

void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const auto& value) {
  check_blas(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)), "a description");
}

bool scaled(const BlasProblem& p) {
  return p.operands == BlasOperands::kE4M3 || p.operands == BlasOperands::kE4M3Blocks;
}

// w is the first operand here, so its scales are A's.
void set_scales(cublasLtMatmulDesc_t description, const BlasProblem& p) {
  set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.w_scale);
  set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.x_scale);
}

std::unique_ptr<Prepared> prepare(const BlasProblem& p) {
  auto made = std::make_unique<Prepared>();
  const Types types = types_of(p);
  const cudaDataType_t in = types.in, out = types.out;
  check_blas(cublasLtMatmulDescCreate(&made->multiply.value, types.compute, types.scale), "a description");
  set(made->multiply.value, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (scaled(p)) {
    const bool blocks = p.operands == BlasOperands::kE4M3Blocks;
    set(made->multiply.value, CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
        blocks ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set(made->multiply.value, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
        blocks ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set_scales(made->multiply.value, p);
  }
  const auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  check_blas(cublasLtMatrixLayoutCreate(&made->a.value, in, u(p.k), u(p.n), p.ldw), "a layout");
  check_blas(cublasLtMatrixLayoutCreate(&made->b.value, in, u(p.k), u(p.m), p.ldx), "a layout");
  check_blas(cublasLtMatrixLayoutCreate(&made->d.value, out, u(p.n), u(p.m), p.ldy), "a layout");
  Preference preference;
  check_blas(cublasLtMatmulPreferenceCreate(&preference.value), "a preference");
  check_blas(cublasLtMatmulPreferenceSetAttribute(preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &p.workspace_bytes, sizeof(p.workspace_bytes)),
             "a preference");
  const auto alignment = [](const void* pointer, int64_t ld, int64_t size) {
    uint32_t a = 256;
    while (a > 1 && (reinterpret_cast<uintptr_t>(pointer) % a || ld * size % a)) a /= 2;
    return a;
  };
  const uint32_t align_a = alignment(p.w, p.ldw, types.size_in),
                 align_b = alignment(p.x, p.ldx, types.size_in),
                 align_d = alignment(p.y, p.ldy, types.size_out);
  for (const auto& [attribute, value] : {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_a),
                                         std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_b),
                                         std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_d),
                                         std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_d)})
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference.value, attribute, &value, sizeof(value)),
               "a preference");
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), made->multiply.value, made->a.value,
                                                               made->b.value, made->d.value, made->d.value,
                                                               preference.value, 1, &made->choice, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    fail(ErrorCode::kDevice, "cuBLASLt has no way to multiply M {} N {} K {}: {}", p.m, p.n, p.k,
         cublasLtGetStatusString(status));
  return made;
}

}  // namespace

void blas_multiply(const BlasProblem& p, void* stream) {
  const auto low = [](const void* pointer) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer) % 256);
  };
  static std::map<Key, std::unique_ptr<Prepared>> known;
  const Key key = {p.m,
                   p.n,
                   p.k,
                   p.ldx,
                   p.ldw,
                   p.ldy,
                   static_cast<int64_t>(p.operands),
                   p.y_bf16 ? 1 : 0,
                   static_cast<int64_t>(p.workspace_bytes),
                   low(p.x) << 32 | low(p.w) << 16 | low(p.y)};
  std::unique_ptr<Prepared>& made = known[key];
  if (!made) made = prepare(p);
  if (scaled(p)) set_scales(made->multiply.value, p);
  const float one = 1, none = 0;
  const int32_t whole_one = 1, whole_none = 0;
  const bool whole = p.operands == BlasOperands::kInt8;
  const void* alpha = whole ? static_cast<const void*>(&whole_one) : &one;
  const void* beta = whole ? static_cast<const void*>(&whole_none) : &none;
  check_blas(cublasLtMatmul(handle(), made->multiply.value, alpha, p.w, made->a.value, p.x, made->b.value,
                            beta, p.y, made->d.value, p.y, made->d.value, &made->choice.algo, p.workspace,
                            p.workspace_bytes, static_cast<cudaStream_t>(stream)),
             "multiplying");
}

}  // namespace roundel::cuda
