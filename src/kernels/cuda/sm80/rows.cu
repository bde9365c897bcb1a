// The plain layout: codes as they came, row after row; every kind of weight, dense ones too.
#include "kernels/cuda/common/device.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

__global__ void __launch_bounds__(256) pack_rows_kernel(const uint8_t* from, int64_t row_bytes, int64_t row0,
                                                        int64_t rows, const RowMap map, uint8_t* to) {
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i >= rows * row_bytes) return;
  const int64_t r = i / row_bytes, at = i % row_bytes;
  to[packed_row(map, row0 + r) * row_bytes + at] = from[i];
}

__device__ float plain_value(const LinearProblem& p, const RowSections& at, const uint8_t* packed,
                             int64_t row, int64_t column) {
  const int64_t i = row * p.k + column;
  float q = 0;
  switch (p.code) {
    case CodeType::kInt:
      q = static_cast<float>(static_cast<int8_t>(packed[i]));
      break;
    case CodeType::kE4M3:
      q = __half2float(__half(__nv_cvt_fp8_to_halfraw(packed[i], __NV_E4M3)));
      break;
    case CodeType::kBF16:
      q = bf16_bits_to_float(reinterpret_cast<const uint16_t*>(packed)[i]);
      break;
    case CodeType::kF16:
      q = __half2float(reinterpret_cast<const __half*>(packed)[i]);
      break;
    case CodeType::kF32:
      q = reinterpret_cast<const float*>(packed)[i];
      break;
  }
  if (!p.has_scale) return q;
  const int64_t group = row * ((p.k + p.group - 1) / p.group) + column / p.group;
  if (p.has_zero_point) q -= static_cast<float>(reinterpret_cast<const int8_t*>(packed + at.zeros)[group]);
  return q * reinterpret_cast<const float*>(packed + at.scales)[group];
}

__global__ void __launch_bounds__(256)
    unpack_plain_kernel(const LinearProblem p, const RowSections at, const uint8_t* packed, int64_t row0,
                        int64_t rows, void* w, int64_t ldw, bool as_float) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i >= rows * ldw) return;
  const int64_t r = i / ldw, c = i % ldw;
  const float v = c < p.k ? plain_value(p, at, packed, row0 + r, c) : 0.0f;
  if (as_float)
    static_cast<float*>(w)[i] = v;
  else
    static_cast<uint16_t*>(w)[i] = float_to_bf16_bits(v);
}

__global__ void __launch_bounds__(256)
    unpack_plain_rows_kernel(const LinearProblem p, const RowSections at, const uint8_t* packed,
                             const int32_t* ids, int64_t id_stride, float* out, int64_t ldo) {
  let_next_start();
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{256} + threadIdx.x;
  if (c >= p.k) return;
  float v = plain_value(p, at, packed, ids[blockIdx.y * id_stride], c);
  if (p.has_scale && p.scale_type == ScaleType::kBF16) v = bf16_bits_to_float(float_to_bf16_bits(v));
  if (p.has_scale && p.scale_type == ScaleType::kF16) v = __half2float(__float2half_rn(v));
  out[blockIdx.y * ldo + c] = v;
}

__global__ void __launch_bounds__(256)
    bias_kernel(void* y, bool y_bf16, int64_t n, int64_t ldy, const float* bias) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i >= n) return;
  const int64_t at = blockIdx.y * ldy + i;
  if (y_bf16) {
    auto* to = static_cast<uint16_t*>(y) + at;
    *to = float_to_bf16_bits(bf16_bits_to_float(*to) + bias[i]);
  } else {
    static_cast<float*>(y)[at] += bias[i];
  }
}

__global__ void __launch_bounds__(256)
    widen_kernel(const uint16_t* x, int64_t ldx, int64_t k, float* y, int64_t ldy) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < ldy) y[blockIdx.y * ldy + i] = i < k ? bf16_bits_to_float(x[blockIdx.y * ldx + i]) : 0.0f;
}

__global__ void __launch_bounds__(256) narrow_kernel(const float* x, int64_t n, uint16_t* y, int64_t ldy) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < n) y[blockIdx.y * ldy + i] = float_to_bf16_bits(x[blockIdx.y * n + i]);
}

__global__ void __launch_bounds__(256)
    x16_kernel(const __half* x16, const float* scale, int64_t ld16, int64_t k, uint16_t* y, int64_t ldy) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, row = blockIdx.y;
  if (i >= ldy) return;
  const float v =
      i < k ? __half2float(x16[row * ld16 + i]) * scale[row * (ld16 / kScaleColumns) + i / kScaleColumns]
            : 0.0f;
  y[row * ldy + i] = float_to_bf16_bits(v);
}

unsigned blocks(int64_t n) {
  return static_cast<unsigned>((n + 255) / 256);
}
dim3 grid(int64_t columns, int64_t rows) {
  return dim3(blocks(columns), static_cast<unsigned>(rows));
}

int64_t code_size(CodeType code) {
  return code == CodeType::kF32 ? 4 : code == CodeType::kBF16 || code == CodeType::kF16 ? 2 : 1;
}

}  // namespace

RowSections row_sections(const LinearProblem& p) {
  const auto up = [](int64_t x) { return (x + 255) / 256 * 256; };
  RowSections at;
  at.code_bytes = p.k * code_size(p.code);
  at.scales = up(p.n * at.code_bytes);
  at.zeros = at.scales + (p.has_scale ? up(p.n * p.groups() * 4) : 0);
  at.bytes = at.zeros + (p.has_zero_point ? up(p.n * p.groups()) : 0);
  return at;
}

void pack_plain(const LinearProblem& p, const DeviceWeightRows& rows, uint8_t* packed, DeviceStream stream) {
  const RowSections at = row_sections(p);
  const auto put = [&](const void* from, int64_t row_bytes, int64_t to) {
    launch(pack_rows_kernel, blocks(rows.rows * row_bytes), 256, 0, stream, "packing",
           static_cast<const uint8_t*>(from), row_bytes, rows.row0, rows.rows, rows.map, packed + to);
  };
  put(rows.codes, at.code_bytes, 0);
  if (p.has_scale) put(rows.scales, p.groups() * 4, at.scales);
  if (p.has_zero_point) put(rows.zero_points, p.groups(), at.zeros);
}

void unpack_plain(const LinearProblem& p, const uint8_t* packed, int64_t row0, int64_t rows, void* w,
                  int64_t ldw, bool as_float, DeviceStream stream) {
  launch(unpack_plain_kernel, blocks(rows * ldw), 256, 0, stream, "unpacking", p, row_sections(p), packed,
         row0, rows, w, ldw, as_float);
}

void unpack_plain_rows(const LinearProblem& p, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                       int64_t count, float* out, int64_t ldo, DeviceStream stream) {
  launch(unpack_plain_rows_kernel, grid(p.k, count), 256, 0, stream, "unpacking rows", p, row_sections(p),
         packed, ids, id_stride, out, ldo);
}

void add_bias(void* y, bool y_bf16, int64_t m, int64_t n, int64_t ldy, const float* bias,
              DeviceStream stream) {
  launch(bias_kernel, grid(n, m), 256, 0, stream, "bias", y, y_bf16, n, ldy, bias);
}

void widen(const void* x, int64_t ldx, int64_t m, int64_t k, float* y, int64_t ldy, DeviceStream stream) {
  launch(widen_kernel, grid(ldy, m), 256, 0, stream, "widening", static_cast<const uint16_t*>(x), ldx, k, y,
         ldy);
}

void narrow_floats(const float* x, int64_t m, int64_t n, uint16_t* y, int64_t ldy, DeviceStream stream) {
  launch(narrow_kernel, grid(n, m), 256, 0, stream, "narrowing", x, n, y, ldy);
}

void x16_to_bf16(const DeviceLinearArgs& a, int64_t k, uint16_t* y, int64_t ldy, DeviceStream stream) {
  launch(x16_kernel, grid(ldy, a.m), 256, 0, stream, "unpacking activations",
         static_cast<const __half*>(a.x16), a.x_scale, a.ld16, k, y, ldy);
}

}  // namespace roundel::cuda
