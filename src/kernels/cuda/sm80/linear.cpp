// The linear kernels for any GPU from compute capability 8.0 on: cuBLASLt over bf16 rows (float rows for F16 and F32
// weights), unpacked a block at a time where the weight is quantized.
#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr size_t kBlasWorkspace = 16 << 20;
// Weights that are unpacked at once: 32 MiB of bf16.
constexpr int64_t kBlockWeights = 16 << 20;
// int32 sums that are made at once: 32 MiB, of at most so many rows.
constexpr int64_t kBlockSums = 8 << 20, kSumRows = 4096;

int64_t round_up8(int64_t k) {
  return (k + 7) / 8 * 8;
}

bool no_x16(const LinearProblem&, int64_t) {
  return false;
}

// The parts of the workspace: cuBLAS's own, x as bf16 if it comes as x16, a block of unpacked rows.
size_t common_workspace(const LinearProblem& p, int64_t m, bool) {
  return kBlasWorkspace + static_cast<size_t>(std::min(m, kSmallTokens) * round_up8(p.k)) * 2 + 1024;
}
int64_t block_rows(const LinearProblem& p) {
  return std::clamp<int64_t>(kBlockWeights / round_up8(p.k) / 32 * 32, 32, std::max<int64_t>(p.n, 32));
}

// Where block rows [row0, ...) of y begin.
void* y_at(const DeviceLinearArgs& a, int64_t row0) {
  return static_cast<uint8_t*>(a.y) + row0 * (a.y_bf16 ? 2 : 4);
}

void finish(const DeviceLinearArgs& a, int64_t n, DeviceStream stream) {
  if (a.bias) add_bias(a.y, a.y_bf16, a.m, n, a.ldy, a.bias, stream);
}

BlasProblem blas_of(const LinearProblem& p, const DeviceLinearArgs& a, Workspace& space) {
  BlasProblem b;
  b.m = a.m;
  b.n = p.n;
  b.k = round_up8(p.k);
  b.x = a.x;
  b.ldx = a.ldx;
  b.ldw = b.k;
  b.ldy = a.ldy;
  b.y_bf16 = a.y_bf16;
  b.workspace_bytes = kBlasWorkspace;
  b.workspace = space.take(kBlasWorkspace);
  if (!a.x) {
    auto* x = static_cast<uint16_t*>(space.take(static_cast<size_t>(a.m * b.k) * 2));
    b.x = x;
    b.ldx = b.k;
  }
  return b;
}

// ---- dense bf16 ----
Support dense_supports(const LinearProblem& p, const DeviceInfo&) {
  if (p.code != CodeType::kBF16 || p.has_scale) return {false, "for BF16 weights that are not quantized"};
  return {p.k % 8 == 0, "columns must be a multiple of 8"};
}
size_t dense_bytes(const LinearProblem& p) {
  return static_cast<size_t>(p.n * p.k * 2);
}
int dense_run(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a, const DeviceInfo&,
              DeviceStream stream) {
  Workspace space(a.workspace, a.workspace_bytes);
  BlasProblem b = blas_of(p, a, space);
  if (!a.x) x16_to_bf16(a, p.k, static_cast<uint16_t*>(const_cast<void*>(b.x)), b.ldx, stream);
  b.w = packed;
  b.y = a.y;
  blas_multiply(b, stream);
  finish(a, p.n, stream);
  return 1;
}
// ---- any weight in the plain layout ----
size_t plain_bytes(const LinearProblem& p) {
  return static_cast<size_t>(row_sections(p).bytes);
}
Support any_supports(const LinearProblem&, const DeviceInfo&) {
  return {};
}
void unpack_plain_bf16(const LinearProblem& p, const uint8_t* packed, int64_t row0, int64_t rows, uint16_t* w,
                       int64_t ldw, DeviceStream stream) {
  unpack_plain(p, packed, row0, rows, w, ldw, false, stream);
}

// F16 and F32 weights lose bits in bf16: both operands as float.
int run_float(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a, DeviceStream stream) {
  Workspace space(a.workspace, a.workspace_bytes);
  BlasProblem b = blas_of(p, a, space);
  if (!a.x) x16_to_bf16(a, p.k, static_cast<uint16_t*>(const_cast<void*>(b.x)), b.ldx, stream);
  auto* x = static_cast<float*>(space.take(static_cast<size_t>(a.m * b.k) * 4));
  widen(b.x, b.ldx, a.m, p.k, x, b.k, stream);
  b.x = x;
  b.ldx = b.k;
  b.operands = BlasOperands::kFloat;
  DeviceLinearArgs in_float = a;
  const bool narrow = a.y_bf16;
  const int64_t rows_at_once = block_rows(p);
  void* w = space.take(static_cast<size_t>(rows_at_once * b.k) * 4);
  float* y =
      narrow ? static_cast<float*>(space.take(static_cast<size_t>(a.m * p.n) * 4)) : static_cast<float*>(a.y);
  in_float.y = y;
  in_float.y_bf16 = false;
  if (narrow) in_float.ldy = p.n;
  for (int64_t row0 = 0; row0 < p.n; row0 += rows_at_once) {
    b.n = std::min(rows_at_once, p.n - row0);
    unpack_plain(p, packed, row0, b.n, w, b.k, true, stream);
    b.w = w;
    b.y = y_at(in_float, row0);
    b.ldy = in_float.ldy;
    b.y_bf16 = false;
    blas_multiply(b, stream);
  }
  finish(in_float, p.n, stream);
  if (narrow) {
    narrow_floats(y, a.m, p.n, static_cast<uint16_t*>(a.y), a.ldy, stream);
  }
  return 1;
}

size_t any_workspace(const LinearProblem& p, int64_t m, bool bytes) {
  if (p.code != CodeType::kF16 && p.code != CodeType::kF32) return unpacked_workspace(p, m, bytes);
  const int64_t k = round_up8(p.k);
  return common_workspace(p, m, bytes) + static_cast<size_t>(block_rows(p) * k + m * k + m * p.n) * 4 + 1024;
}

int any_run(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a, const DeviceInfo&,
            DeviceStream stream) {
  if (p.code == CodeType::kF16 || p.code == CodeType::kF32) return run_float(p, packed, a, stream);
  return multiply_unpacked(p, packed, a, unpack_plain_bf16, stream);
}

// ---- integers and E4M3 in units ----
// Products of bytes by cuBLASLt, which reads the packed rows. E4M3 is scaled there, int8 by a kernel after.
int multiply_bytes(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a,
                   DeviceStream stream) {
  Workspace space(a.workspace, a.workspace_bytes);
  const UnitLayout u = unit_layout(p);
  const auto* scales = reinterpret_cast<const float*>(packed + u.row_scales);
  BlasProblem b;
  b.m = a.m, b.n = p.n, b.k = row_bytes(u), b.x = a.x8, b.ldx = a.ldx8, b.ldw = row_bytes(u);
  b.y_bf16 = a.y_bf16;
  b.operands = u.e4m3 ? BlasOperands::kE4M3 : BlasOperands::kInt8;
  b.workspace_bytes = kBlasWorkspace;
  b.workspace = space.take(kBlasWorkspace);
  b.w = packed;
  if (u.blocks) {
    CHECK(a.scale_ld == (a.m + kTokenUnit - 1) / kTokenUnit * kTokenUnit);
    b.operands = BlasOperands::kE4M3Blocks;
    b.m = a.scale_ld;
  }
  if (u.e4m3) {
    b.x_scale = a.token_scale, b.w_scale = scales, b.y = a.y, b.ldy = a.ldy;
    blas_multiply(b, stream);
    finish(a, p.n, stream);
    return 1;
  }
  // int32 sums of some tokens and rows at a time
  const int64_t rows = std::min(kSumRows, p.n), tokens = std::min(a.m, kBlockSums / rows / 16 * 16);
  auto* sums = static_cast<int32_t*>(space.take(static_cast<size_t>(tokens * rows) * 4));
  b.y = sums, b.ldy = rows;
  for (int64_t row0 = 0; row0 < p.n; row0 += rows) {
    b.n = std::min(rows, p.n - row0);
    b.w = packed + row0 * row_bytes(u);
    for (int64_t first = 0; first < a.m; first += tokens) {
      b.m = std::min(tokens, a.m - first);
      b.x = static_cast<const uint8_t*>(a.x8) + first * a.ldx8;
      blas_multiply(b, stream);
      auto* y = static_cast<uint8_t*>(y_at(a, row0)) + first * a.ldy * (a.y_bf16 ? 2 : 4);
      scale_sums(sums, rows, b.m, b.n, a.token_scale + first, scales + row0, y, a.ldy, a.y_bf16, stream);
    }
  }
  finish(a, p.n, stream);
  return 1;
}

int units_run(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a, const DeviceInfo&,
              DeviceStream stream) {
  if (a.x8) return multiply_bytes(p, packed, a, stream);
  return multiply_unpacked(p, packed, a, unpack_units, stream);
}

}  // namespace

bool takes_codes(const LinearProblem& p, const DeviceForm& form) {
  using Kind = DeviceForm::Kind;
  const UnitLayout u = unit_layout(p);
  if (u.blocks) return form.kind == Kind::kE4M3 && form.group == kScaleColumns;
  if (!u.rows || form.group != 0) return false;
  if (u.e4m3) return form.kind == Kind::kE4M3;
  return p.code == CodeType::kInt &&
         (form.kind == Kind::kInt8 || (form.kind == Kind::kInt8Static && form.zero_point == 0));
}
bool units_take_bytes(const LinearProblem& p, const DeviceForm& form, int64_t m, const DeviceInfo& info) {
  return takes_codes(p, form) && (p.code == CodeType::kInt || info.major == 9) && m > kSmallTokens &&
         p.n % 16 == 0;
}
bool never_fuses(const LinearProblem&, int64_t, const DeviceInfo&) {
  return false;
}
bool never_gates(const LinearProblem&, TileUse::Input, int64_t, const DeviceInfo&) {
  return false;
}
bool never_rounds(const LinearProblem&, const DeviceForm&, int64_t, const DeviceInfo&) {
  return false;
}

Support units_support(const LinearProblem& p, const DeviceInfo&) {
  if (p.code != CodeType::kInt && p.code != CodeType::kE4M3) return {false, "for integer and E4M3 weights"};
  if (!unit_group_fits(p.group, p.k, p.bits))
    return {false, "groups of 32, 64, multiples of 128, or one a row"};
  return {};
}
size_t units_bytes(const LinearProblem& p) {
  return static_cast<size_t>(unit_layout(p).bytes);
}
size_t unpacked_workspace(const LinearProblem& p, int64_t m, bool bytes) {
  const bool summed = p.code == CodeType::kInt && p.bits > 4 && p.group >= p.k && m > kSmallTokens;
  const size_t sums = summed ? static_cast<size_t>(std::min(kBlockSums, m * std::min(kSumRows, p.n))) * 4 : 0;
  const size_t unpacked = bytes ? 0 : static_cast<size_t>(block_rows(p) * round_up8(p.k)) * 2;
  return common_workspace(p, m, bytes) + std::max(unpacked, sums) + 1024;
}

int multiply_units(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a,
                   const DeviceInfo& info, DeviceStream stream) {
  return units_run(p, packed, a, info, stream);
}

int multiply_unpacked(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a,
                      UnpackRows unpack, DeviceStream stream) {
  Workspace space(a.workspace, a.workspace_bytes);
  BlasProblem b = blas_of(p, a, space);
  if (!a.x) x16_to_bf16(a, p.k, static_cast<uint16_t*>(const_cast<void*>(b.x)), b.ldx, stream);
  const int64_t rows_at_once = block_rows(p);
  auto* w = static_cast<uint16_t*>(space.take(static_cast<size_t>(rows_at_once * b.k) * 2));
  for (int64_t row0 = 0; row0 < p.n; row0 += rows_at_once) {
    b.n = std::min(rows_at_once, p.n - row0);
    unpack(p, packed, row0, b.n, w, b.k, stream);
    b.w = w;
    b.y = y_at(a, row0);
    blas_multiply(b, stream);
  }
  finish(a, p.n, stream);
  return 1;
}

}  // namespace roundel::cuda

namespace roundel {
extern const DeviceLinearKernel kSm80Dense = {
    "sm80_bf16_cublaslt",    cuda::dense_supports, cuda::dense_bytes,  cuda::pack_plain,
    cuda::unpack_plain_rows, cuda::never_gates,    cuda::never_rounds, cuda::never_fuses,
    cuda::never_fuses,       cuda::never_fuses,    cuda::never_rounds, cuda::no_x16,
    cuda::common_workspace,  cuda::dense_run};
extern const DeviceLinearKernel kSm80Units = {"sm80_units_unpack_cublaslt",
                                              cuda::units_support,
                                              cuda::units_bytes,
                                              cuda::pack_units,
                                              cuda::unpack_unit_rows,
                                              cuda::never_gates,
                                              cuda::never_rounds,
                                              cuda::never_fuses,
                                              cuda::never_fuses,
                                              cuda::never_fuses,
                                              cuda::units_take_bytes,
                                              cuda::no_x16,
                                              cuda::unpacked_workspace,
                                              cuda::units_run};
extern const DeviceLinearKernel kSm80Plain = {
    "sm80_any_unpack_cublaslt", cuda::any_supports, cuda::plain_bytes,  cuda::pack_plain,
    cuda::unpack_plain_rows,    cuda::never_gates,  cuda::never_rounds, cuda::never_fuses,
    cuda::never_fuses,          cuda::never_fuses,  cuda::never_rounds, cuda::no_x16,
    cuda::any_workspace,        cuda::any_run};
}  // namespace roundel
