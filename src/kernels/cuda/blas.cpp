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

using Key = std::array<int64_t, 9>;

std::unique_ptr<Prepared> prepare(const BlasProblem& p) {
  auto made = std::make_unique<Prepared>();
  const cudaDataType_t in = p.operands_float ? CUDA_R_32F : CUDA_R_16BF,
                       out = p.y_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  check_blas(cublasLtMatmulDescCreate(&made->multiply.value, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "a description");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check_blas(cublasLtMatmulDescSetAttribute(made->multiply.value, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof(transposed)),
             "a description");
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
  const uint32_t align_a = alignment(p.w, p.ldw, p.operands_float ? 4 : 2),
                 align_b = alignment(p.x, p.ldx, p.operands_float ? 4 : 2),
                 align_d = alignment(p.y, p.ldy, p.y_bf16 ? 2 : 4);
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
                   (p.operands_float ? 2 : 0) + (p.y_bf16 ? 1 : 0),
                   static_cast<int64_t>(p.workspace_bytes),
                   low(p.x) << 32 | low(p.w) << 16 | low(p.y)};
  std::unique_ptr<Prepared>& made = known[key];
  if (!made) made = prepare(p);
  const float one = 1, none = 0;
  check_blas(cublasLtMatmul(handle(), made->multiply.value, &one, p.w, made->a.value, p.x, made->b.value,
                            &none, p.y, made->d.value, p.y, made->d.value, &made->choice.algo, p.workspace,
                            p.workspace_bytes, static_cast<cudaStream_t>(stream)),
             "multiplying");
}

}  // namespace roundel::cuda
