// The norm, rounding and the gate for whole tokens that a block keeps in registers: each value is read once, four at a
// time. ops.cu has kernels for what does not fit.
#include "kernels/cuda/common/quantize.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

// Thread t holds columns 4 (t + k T) to + 3; zeros from `cols` on.
template <int kThreads, int kPer>
struct Token {
  float4 v[kPer];

  __device__ static int64_t column(int k) { return (int64_t{threadIdx.x} + k * kThreads) * 4; }

  __device__ void emit(const DeviceForm& form, const Quantizer& q, const DeviceCodes& to, int64_t row,
                       int k) const {
    const int64_t i = column(k);
    const float x[4] = {v[k].x, v[k].y, v[k].z, v[k].w};
    if (to.x8) {
      if (i >= to.ld8) return;
      uint8_t* at = to.x8 + row * to.ld8;
      uint16_t two[2];
      q.bytes<2>(x, two);
      *reinterpret_cast<uint16_t*>(at + byte_place(i)) = two[0];
      *reinterpret_cast<uint16_t*>(at + byte_place(i + 2)) = two[1];
      if (to.scale_ld && threadIdx.x % 32 == 0) to.token_scale[i / kScaleRun * to.scale_ld + row] = q.scale;
      return;
    }
    float code[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) code[j] = q.code(x[j]);
    if (to.x16) {
      if (i >= to.ld16) return;
      uint32_t half[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) half[j] = __half_as_ushort(__float2half_rn(code[j]));
      *reinterpret_cast<uint2*>(to.x16 + row * to.ld16 + i) = {half[0] | half[1] << 16,
                                                               half[2] | half[3] << 16};
      if (threadIdx.x % 32 == 0) to.x_scale[row * (to.ld16 / kScaleRun) + i / kScaleRun] = q.scale;
    } else if (i < to.ldy) {
      const float s = to.token_scale ? 1.0f : q.scale;
      put_terms4(to.y + row * to.ldy + i, to.low, {code[0] * s, code[1] * s, code[2] * s, code[3] * s});
    }
  }

  __device__ void quantize(const DeviceForm& form, const DeviceCodes& to, int64_t row, float* scratch) const {
    if (form.group == kScaleRun) {  // four columns of each lane of a warp
#pragma unroll
      for (int k = 0; k < kPer; ++k) emit(form, make_quantizer(form, warp_max(largest(k)), 0, 0), to, row, k);
      return;
    }
    float top = 0, lo = 0, hi = 0;
    if (form.scale <= 0) {
#pragma unroll
      for (int k = 0; k < kPer; ++k) top = fmaxf(top, largest(k));
      top = block_reduce<true>(top, scratch);
      if (form.kind == DeviceForm::Kind::kInt8Asym) {
#pragma unroll
        for (int k = 0; k < kPer; ++k) {
          lo = fminf(lo, fminf(fminf(v[k].x, v[k].y), fminf(v[k].z, v[k].w)));
          hi = fmaxf(hi, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
        }
        lo = -block_reduce<true>(-lo, scratch);
        hi = block_reduce<true>(hi, scratch);
      }
    }
    const Quantizer q = make_quantizer(form, top, lo, hi);
#pragma unroll
    for (int k = 0; k < kPer; ++k) emit(form, q, to, row, k);
    if (to.token_scale && threadIdx.x == 0) to.token_scale[row] = q.scale;
  }

  __device__ float largest(int k) const {
    return fmaxf(fmaxf(fabsf(v[k].x), fabsf(v[k].y)), fmaxf(fabsf(v[k].z), fabsf(v[k].w)));
  }
};

template <int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads, kPer <= 2 ? 1024 / kThreads : 1) norm_kernel(const NormArgs a) {
  __shared__ float scratch[32];
  Token<kThreads, kPer> x;
  float4 gain[kPer];  // read while the kernel before still runs: nobody writes weights
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = x.column(k);
    gain[k] = i < a.cols ? *reinterpret_cast<const float4*>(a.gain + i) : float4{0, 0, 0, 0};
  }
  let_next_start();
  wait_for_previous();
  const int64_t out_row = blockIdx.x, row = a.rows_in ? a.rows_in[out_row] : out_row;
  float* residual = a.residual + row * a.ld;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = x.column(k);
    x.v[k] = i < a.cols ? *reinterpret_cast<const float4*>(residual + i) : float4{0, 0, 0, 0};
  }
  if (a.delta.data)
#pragma unroll
    for (int k = 0; k < kPer; ++k) {
      const int64_t i = x.column(k);
      if (i >= a.cols) continue;
      const float4 d = matrix_value4(a.delta, row, i);
      x.v[k].x += d.x, x.v[k].y += d.y, x.v[k].z += d.z, x.v[k].w += d.w;
      *reinterpret_cast<float4*>(residual + i) = x.v[k];
    }
#pragma unroll
  for (int k = 0; k < kPer; ++k)
    sum += x.v[k].x * x.v[k].x + x.v[k].y * x.v[k].y + x.v[k].z * x.v[k].z + x.v[k].w * x.v[k].w;
  sum = block_reduce<false>(sum, scratch);
  const float r = rsqrtf(sum / static_cast<float>(a.cols) + a.eps);
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = x.column(k);
    float4& v = x.v[k];
    v = {v.x * r * gain[k].x, v.y * r * gain[k].y, v.z * r * gain[k].z, v.w * r * gain[k].w};
    if (a.y_float && i < a.cols) *reinterpret_cast<float4*>(a.y_float + out_row * a.ldy_float + i) = v;
    if (a.y && i < a.ldy) put_terms4(a.y + out_row * a.ldy + i, a.low, v);
  }
  if (a.form.kind != DeviceForm::Kind::kNone) x.quantize(a.form, a.codes, out_row, scratch);
}

template <int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads, kPer <= 2 ? 1024 / kThreads : 1)
    quantize_kernel(const QuantizeArgs a) {
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  Token<kThreads, kPer> x;
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = x.column(k);
    x.v[k] = i < a.cols ? read_terms4(a.x + row * a.ldx + i, a.low) : float4{0, 0, 0, 0};
  }
  x.quantize(a.form, a.codes, row, scratch);
}

// 1 / (1 + exp(-g)) to some 1e-6; numbers too small for a float's exponent are 0.
__device__ __forceinline__ float sigmoid(float g) {
  float e, y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(g * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + e));
  return y;
}

__device__ __forceinline__ float gate_of(float g, bool gelu) {
  if (!gelu) return g * sigmoid(g);
  return 0.5f * g * (1.0f + tanhf(0.7978845608f * (g + 0.044715f * g * g * g)));
}

template <int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads) gated_kernel(const GatedArgs a) {
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const bool paired = a.up.data == nullptr;
  Token<kThreads, kPer> x;
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t i = x.column(k), at = paired ? i / kPairRows * 2 * kPairRows + i % kPairRows : i;
    x.v[k] = {0, 0, 0, 0};
    if (i >= a.cols) continue;
    const float4 g = matrix_value4(a.gate, row, at);
    const float4 u = paired ? matrix_value4(a.gate, row, at + kPairRows) : matrix_value4(a.up, row, i);
    x.v[k] = {gate_of(g.x, a.gelu) * u.x, gate_of(g.y, a.gelu) * u.y, gate_of(g.z, a.gelu) * u.z,
              gate_of(g.w, a.gelu) * u.w};
  }
  if (a.form.kind != DeviceForm::Kind::kNone) return x.quantize(a.form, a.codes, row, scratch);
#pragma unroll
  for (int k = 0; k < kPer; ++k)
    if (x.column(k) < a.ldy) put_terms4(a.y + row * a.ldy + x.column(k), a.low, x.v[k]);
}

// Gate and up of bf16, in alternating blocks of 8 or apart: a thread reads both of 8 columns. 16 threads hold a run of
// kScaleRun.
template <int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads) gated_blocks_kernel(const GatedArgs a) {
  static_assert(kPairRows == 8);
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const int cols = static_cast<int>(a.cols);
  const bool paired = a.up.data == nullptr;
  const auto* gates = static_cast<const uint4*>(a.gate.data) + row * (a.gate.ld / 8);
  const auto* ups = paired ? gates + 1 : static_cast<const uint4*>(a.up.data) + row * (a.up.ld / 8);
  const float scale = a.gate.row_scale ? a.gate.row_scale[row] : 1.0f;
  uint4 gate[kPer], up[kPer];
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int block = static_cast<int>(threadIdx.x) + k * kThreads;
    gate[k] = up[k] = {0, 0, 0, 0};
    const int at = paired ? 2 * block : block;
    if (block * 8 < cols) gate[k] = __ldcs(gates + at), up[k] = __ldcs(ups + at);
  }
  float v[kPer][8], top = 0, tops[kPer];
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    tops[k] = 0;
    const uint32_t g[4] = {gate[k].x, gate[k].y, gate[k].z, gate[k].w},
                   u[4] = {up[k].x, up[k].y, up[k].z, up[k].w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float x = __uint_as_float(i % 2 ? g[i / 2] & 0xffff0000u : g[i / 2] << 16) * scale;
      const float y = __uint_as_float(i % 2 ? u[i / 2] & 0xffff0000u : u[i / 2] << 16) * scale;
      v[k][i] = gate_of(x, a.gelu) * y;
      tops[k] = fmaxf(tops[k], fabsf(v[k][i]));
    }
    top = fmaxf(top, tops[k]);
  }
  const bool rounds = a.form.kind != DeviceForm::Kind::kNone;
  Quantizer q;
  const bool runs = rounds && a.codes.scale_ld;
  if (rounds && !runs) {
    q = make_quantizer(a.form, a.form.scale > 0 ? 0.0f : block_reduce<true>(top, scratch), 0, 0);
    if (threadIdx.x == 0) a.codes.token_scale[row] = q.scale;
  }
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    const int64_t column = (int64_t{threadIdx.x} + k * kThreads) * 8;
    if (rounds) {
      if (runs) {
        float most = tops[k];
#pragma unroll
        for (int d = 8; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
        q = make_quantizer(a.form, most, 0, 0);
      }
      if (column >= a.codes.ld8) continue;
      if (runs && threadIdx.x % 16 == 0)
        a.codes.token_scale[column / kScaleRun * a.codes.scale_ld + row] = q.scale;
      uint8_t* to = a.codes.x8 + row * a.codes.ld8 + byte_place(column);
      uint16_t two[4];
      q.bytes<4>(v[k], two);
#pragma unroll
      for (int i = 0; i < 4; ++i)  // the four pairs of eight columns are 32 bytes apart
        *reinterpret_cast<uint16_t*>(to + i * 32) = two[i];
    } else if (column < a.ldy) {
      uint32_t out[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        out[i] = float_to_bf16_bits(v[k][2 * i]) | uint32_t{float_to_bf16_bits(v[k][2 * i + 1])} << 16;
      *reinterpret_cast<uint4*>(a.y + row * a.ldy + column) = {out[0], out[1], out[2], out[3]};
    }
  }
}

bool blocks_fit(const GatedArgs& a) {
  const bool rounds = a.form.kind != DeviceForm::Kind::kNone;
  const auto eights = [](const DeviceMatrix& m) {
    return m.bf16 && m.parts == 1 && m.ld % 8 == 0 && reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
  };
  return eights(a.gate) && (!a.up.data || (eights(a.up) && a.up.row_scale == a.gate.row_scale)) &&
         a.cols % 8 == 0 && a.cols <= 16384 &&
         (rounds ? a.codes.x8 && (a.form.group == 0 || a.codes.scale_ld) &&
                       a.form.kind != DeviceForm::Kind::kInt8Asym
                 : a.ldy % 8 == 0 && a.low == 0);
}

bool form_fits(const DeviceForm& form, const DeviceCodes& to) {
  return form.kind == DeviceForm::Kind::kNone ||
         ((form.group == 0 || form.group == kScaleRun) && to.ldy % 4 == 0 && to.low % 4 == 0);
}
bool matrix_fits(const DeviceMatrix& m) {
  return !m.data ||
         (m.ld % 4 == 0 && m.part_stride % 4 == 0 && reinterpret_cast<uintptr_t>(m.data) % 16 == 0);
}

// 1024 threads for a few tokens, fewer for many, whose blocks share a multiprocessor.
template <class Args>
bool start(int64_t rows, int64_t cols, const Args& a, DeviceStream stream, const char* name, auto pick) {
  const bool few = rows <= kSmallTokens;
  if (cols % 4 != 0 || cols > 16384) return false;
  const auto [kernel, threads] = pick(few ? (cols <= 4096 ? 0 : 1) : cols <= 4096 ? 2 : cols <= 8192 ? 3 : 4);
  launch(kernel, static_cast<unsigned>(rows), threads, 0, stream, name, a);
  return true;
}

template <class Args>
struct Choice {
  void (*kernel)(Args);
  unsigned threads;
};

}  // namespace

bool norm_in_registers(const NormArgs& a, DeviceStream stream) {
  constexpr Choice<NormArgs> kChoices[] = {{norm_kernel<1024, 1>, 1024},
                                           {norm_kernel<1024, 4>, 1024},
                                           {norm_kernel<512, 2>, 512},
                                           {norm_kernel<512, 4>, 512},
                                           {norm_kernel<512, 8>, 512}};
  if (a.ld % 4 != 0 || a.ldy % 4 != 0 || a.low % 4 != 0 || a.ldy_float % 4 != 0 || !matrix_fits(a.delta) ||
      !form_fits(a.form, a.codes))
    return false;
  return start(a.rows, a.cols, a, stream, "norm", [&](int i) { return kChoices[i]; });
}

bool quantize_in_registers(const QuantizeArgs& a, DeviceStream stream) {
  constexpr Choice<QuantizeArgs> kChoices[] = {{quantize_kernel<1024, 1>, 1024},
                                               {quantize_kernel<1024, 4>, 1024},
                                               {quantize_kernel<512, 2>, 512},
                                               {quantize_kernel<512, 4>, 512},
                                               {quantize_kernel<512, 8>, 512}};
  if (a.order || a.form.kind == DeviceForm::Kind::kNone || a.ldx % 4 != 0 || a.low % 4 != 0 ||
      reinterpret_cast<uintptr_t>(a.x) % 8 != 0 || !form_fits(a.form, a.codes))
    return false;
  return start(a.rows, a.cols, a, stream, "quantize", [&](int i) { return kChoices[i]; });
}

bool gated_in_registers(const GatedArgs& a, DeviceStream stream) {
  constexpr Choice<GatedArgs> kChoices[] = {{gated_kernel<1024, 1>, 1024},
                                            {gated_kernel<1024, 4>, 1024},
                                            {gated_kernel<256, 4>, 256},
                                            {gated_kernel<512, 4>, 512},
                                            {gated_kernel<512, 8>, 512}};
  if (blocks_fit(a)) {
    launch(a.cols <= 8192 ? gated_blocks_kernel<512, 2> : gated_blocks_kernel<512, 4>,
           static_cast<unsigned>(a.rows), 512, 0, stream, "gated", a);
    return true;
  }
  if (!matrix_fits(a.gate) || !matrix_fits(a.up) || a.ldy % 4 != 0 || a.low % 4 != 0 ||
      !form_fits(a.form, a.codes))
    return false;
  return start(a.rows, a.cols, a, stream, "gated", [&](int i) { return kChoices[i]; });
}

}  // namespace roundel::cuda
