// sm80_ops: the small operations of a forward pass.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kNormThreads = 512;

__global__ void __launch_bounds__(kNormThreads) norm_kernel(const NormArgs a) {
  extern __shared__ float values[];
  __shared__ float scratch[32];
  const int tid = threadIdx.x;
  let_next_start();
  wait_for_previous();
  const int64_t out_row = blockIdx.x, row = a.rows_in ? a.rows_in[out_row] : out_row;
  float* residual = a.residual + row * a.ld;
  float sum = 0;
  for (int64_t i = tid; i < a.cols; i += kNormThreads) {
    float x = residual[i];
    if (a.delta.data) residual[i] = x += matrix_value(a.delta, row, i);
    values[i] = x;
    sum += x * x;
  }
  sum = block_reduce<false>(sum, scratch);
  const float r = rsqrtf(sum / static_cast<float>(a.cols) + a.eps);
  for (int64_t i = tid; i < a.cols; i += kNormThreads) {
    const float v = values[i] = values[i] * r * a.gain[i];
    if (a.y_float) a.y_float[out_row * a.ldy_float + i] = v;
    if (a.y) put_terms(a.y + out_row * a.ldy + i, a.low, v);
  }
  if (a.y)
    for (int64_t i = a.cols + tid; i < a.ldy; i += kNormThreads)
      put_terms(a.y + out_row * a.ldy + i, a.low, 0.0f);
  if (a.form.kind == DeviceForm::Kind::kNone) return;
  __syncthreads();
  quantize_token(a.form, values, a.cols, a.codes, out_row, scratch);
}

__global__ void __launch_bounds__(kNormThreads) quantize_kernel(const QuantizeArgs a) {
  extern __shared__ float values[];
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const uint16_t* x = a.x + row * a.ldx;
  for (int64_t i = threadIdx.x; i < a.cols; i += kNormThreads) {
    const int64_t from = a.order ? a.order[i] : i;
    values[i] = bf16_bits_to_float(x[from]) + (a.low ? bf16_bits_to_float(x[from + a.low]) : 0.0f);
  }
  __syncthreads();
  if (a.form.kind == DeviceForm::Kind::kNone) {
    for (int64_t i = threadIdx.x; i < a.codes.ldy; i += kNormThreads)
      put_terms(a.codes.y + row * a.codes.ldy + i, a.codes.low, i < a.cols ? values[i] : 0.0f);
    return;
  }
  quantize_token(a.form, values, a.cols, a.codes, row, scratch);
}

constexpr int kRopeWarps = 8;
constexpr int kMaxPerLane = 8;  // head_dim up to 256

// A warp for each head of a token.
__global__ void __launch_bounds__(kRopeWarps * 32) rope_kernel(const RopeArgs a) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t token = blockIdx.y, head = blockIdx.x * kRopeWarps + threadIdx.x / 32;
  if (head >= a.heads + 2 * a.kv_heads) return;
  const bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
  const int64_t h = is_q ? head : is_v ? head - a.heads - a.kv_heads : head - a.heads;
  const DeviceMatrix& from = is_q ? a.q : is_v ? a.v : a.k;
  const int d = static_cast<int>(a.head_dim), half = static_cast<int>(a.half);
  float x[kMaxPerLane], turn_cos[kMaxPerLane], turn_sin[kMaxPerLane];  // all reads of the kernel at once
  float sum = 0;
  const TokenInfo info = a.info[token];
#pragma unroll
  for (int j = 0; j < kMaxPerLane; ++j) {
    const int i = lane + 32 * j, at = i < half ? i : i - half;
    turn_cos[j] = !is_v && i < 2 * half ? a.cos[token * half + at] : 1.0f;
    turn_sin[j] = !is_v && i < 2 * half ? a.sin[token * half + at] : 0.0f;
  }
  for (int j = 0; j < kMaxPerLane; ++j) {
    const int i = lane + 32 * j;
    x[j] = i < d ? matrix_value(from, token, h * d + i) : 0.0f;
    sum += x[j] * x[j];
  }
  __shared__ float heads_values[kRopeWarps][32 * kMaxPerLane];
  float* values = heads_values[threadIdx.x / 32];
  const float* gain = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
  if (gain) {
    const float r = rsqrtf(warp_sum(sum) / static_cast<float>(d) + a.eps);
    for (int j = 0; j < kMaxPerLane; ++j)
      if (lane + 32 * j < d) x[j] *= r * gain[lane + 32 * j];
  }
  if (!is_v) {
    for (int j = 0; j < kMaxPerLane; ++j) values[lane + 32 * j] = x[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kMaxPerLane; ++j) {
      const int i = lane + 32 * j;
      if (i < 2 * half) {
        const float other = i < half ? -values[i + half] : values[i - half];
        x[j] = x[j] * turn_cos[j] + other * turn_sin[j];
      }
    }
  }
  if (is_q) {
    uint16_t* to = a.q_out + (token * a.heads + h) * d;
    for (int j = 0; j < kMaxPerLane; ++j)
      if (lane + 32 * j < d) put_terms(to + lane + 32 * j, a.low, x[j]);
    return;
  }
  uint8_t* page = info.pages[info.position / kPageTokens];
  const int64_t to = head_in_page(a.layer, is_v, a.kv_heads, h, d) + info.position % kPageTokens * d;
  for (int j = 0; j < kMaxPerLane; ++j)
    if (lane + 32 * j < d) put_kv(a.kv, page, to + lane + 32 * j, x[j], is_v);
}

__device__ __forceinline__ float gate_value(float g, bool gelu) {
  if (!gelu) return g / (1.0f + __expf(-g));
  return 0.5f * g * (1.0f + tanhf(0.7978845608f * (g + 0.044715f * g * g * g)));
}

__device__ __forceinline__ float gated_value(const GatedArgs& a, int64_t row, int64_t i) {
  const bool paired = a.up.data == nullptr;
  const int64_t at = paired ? i / kPairRows * 2 * kPairRows + i % kPairRows : i;
  const float g = matrix_value(a.gate, row, at);
  const float u = paired ? matrix_value(a.gate, row, at + kPairRows) : matrix_value(a.up, row, i);
  return gate_value(g, a.gelu) * u;
}

__global__ void __launch_bounds__(256) gated_kernel(const GatedArgs a) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, row = blockIdx.y;
  if (i < a.ldy) put_terms(a.y + row * a.ldy + i, a.low, i < a.cols ? gated_value(a, row, i) : 0.0f);
}

// Whole tokens, because a token is rounded by its largest value.
__global__ void __launch_bounds__(kNormThreads) gated_codes_kernel(const GatedArgs a) {
  extern __shared__ float values[];
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  for (int64_t i = threadIdx.x; i < a.cols; i += kNormThreads) values[i] = gated_value(a, blockIdx.x, i);
  __syncthreads();
  quantize_token(a.form, values, a.cols, a.codes, blockIdx.x, scratch);
}

__global__ void __launch_bounds__(256)
    scale_rows_kernel(const DeviceMatrix y, int64_t cols, const float* scale, const float* bias) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, row = blockIdx.y;
  if (i >= cols) return;
  const float value = matrix_value(y, row, i) * (scale ? scale[row] : 1.0f) + (bias ? bias[i] : 0.0f);
  void* data = const_cast<void*>(y.data);
  if (y.bf16)
    static_cast<uint16_t*>(data)[row * y.ld + i] = float_to_bf16_bits(value);
  else
    static_cast<float*>(data)[row * y.ld + i] = value;
}

// A thread for each value; rounded by the static scale of the form.
__global__ void __launch_bounds__(256) round_output_kernel(const RoundOutputArgs a) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, row = blockIdx.y;
  if (i >= a.cols) return;
  const Quantizer q = make_quantizer(a.form, 0, 0, 0);
  const float value = q.code(matrix_value(a.y, row, i)) * q.scale;
  void* data = const_cast<void*>(a.y.data);
  if (a.y.bf16)
    static_cast<uint16_t*>(data)[row * a.y.ld + i] = float_to_bf16_bits(value);
  else
    static_cast<float*>(data)[row * a.y.ld + i] = value;
}

__global__ void __launch_bounds__(256)
    to_bf16_kernel(const float* x, int64_t ldx, int64_t cols, uint16_t* y, int64_t ldy) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, row = blockIdx.y;
  if (i < ldy) y[row * ldy + i] = i < cols ? float_to_bf16_bits(x[row * ldx + i]) : uint16_t{0};
}

__global__ void __launch_bounds__(512) read_kernel(const uint4* data, size_t count, uint32_t* sum) {
  wait_for_previous();
  uint32_t x = 0;
  const size_t stride = size_t{gridDim.x} * 512;
  for (size_t i = blockIdx.x * size_t{512} + threadIdx.x; i < count; i += 4 * stride) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i + j * stride >= count) break;
      const uint4 v = __ldcs(data + i + j * stride);
      x += v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  if (x == 0x12345678u) atomicAdd(sum, x);
}

unsigned blocks(int64_t n, int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

void norm(const NormArgs& a, DeviceStream stream) {
  if (norm_in_registers(a, stream)) return;
  launch(norm_kernel, static_cast<unsigned>(a.rows), kNormThreads, static_cast<size_t>(a.cols) * 4, stream,
         "norm", a);
}
void quantize(const QuantizeArgs& a, DeviceStream stream) {
  if (quantize_in_registers(a, stream)) return;
  launch(quantize_kernel, static_cast<unsigned>(a.rows), kNormThreads, static_cast<size_t>(a.cols) * 4,
         stream, "quantize", a);
}
void rope(const RopeArgs& a, DeviceStream stream) {
  if (rope_pairs(a, stream)) return;
  launch(rope_kernel, dim3(blocks(a.heads + 2 * a.kv_heads, kRopeWarps), static_cast<unsigned>(a.tokens)),
         kRopeWarps * 32, 0, stream, "rope", a);
}
void attend_next(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream) {
  rope(r, stream);
  attention(a, stream);
}
void attend_next_sm90(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream) {
  if (attend_cluster_fits(a)) return attend_cluster(r, a, stream);
  attend_next(r, a, stream);
}
void attention_sm90(const DeviceAttentionArgs& a, DeviceStream stream) {
  if (a.one_sequence && a.low == 0 && group_attention_fits(a)) return group_attention(a, stream);
  attention(a, stream);
}
void gated(const GatedArgs& a, DeviceStream stream) {
  if (gated_in_registers(a, stream)) return;
  if (a.form.kind != DeviceForm::Kind::kNone)
    return launch(gated_codes_kernel, static_cast<unsigned>(a.rows), kNormThreads,
                  static_cast<size_t>(a.cols) * 4, stream, "gated", a);
  launch(gated_kernel, dim3(blocks(a.ldy, 256), static_cast<unsigned>(a.rows)), 256, 0, stream, "gated", a);
}
void scale_rows(const DeviceMatrix& y, int64_t rows, int64_t cols, const float* scale, const float* bias,
                DeviceStream stream) {
  launch(scale_rows_kernel, dim3(blocks(cols, 256), static_cast<unsigned>(rows)), 256, 0, stream, "scaling",
         y, cols, scale, bias);
}
void round_output(const RoundOutputArgs& a, DeviceStream stream) {
  launch(round_output_kernel, dim3(blocks(a.cols, 256), static_cast<unsigned>(a.rows)), 256, 0, stream,
         "rounding an output", a);
}
void to_bf16(const float* x, int64_t ldx, int64_t rows, int64_t cols, uint16_t* y, int64_t ldy,
             DeviceStream stream) {
  launch(to_bf16_kernel, dim3(blocks(ldy, 256), static_cast<unsigned>(rows)), 256, 0, stream, "to_bf16", x,
         ldx, cols, y, ldy);
}
void read_all(const void* data, size_t bytes, uint32_t* sum, DeviceStream stream) {
  launch(read_kernel, 132 * 4, 512, 0, stream, "read", static_cast<const uint4*>(data), bytes / 16, sum);
}
Support supports(const DeviceInfo& info) {
  return {info.major >= 8, "needs compute capability 8.0"};
}
Support supports_sm90(const DeviceInfo& info) {
  return {info.major == 9, "needs compute capability 9.0 (Hopper)"};
}

}  // namespace

}  // namespace roundel::cuda

namespace roundel {
extern const DeviceOps kSm90Ops = {
    "sm90_ops",           cuda::supports_sm90,    cuda::norm,   cuda::quantize,   cuda::rope,
    cuda::attention_sm90, cuda::attend_next_sm90, cuda::gated,  cuda::scale_rows, cuda::pick,
    cuda::draw,           cuda::round_output,     cuda::encode, cuda::to_bf16,    cuda::read_all};
extern const DeviceOps kSm80Ops = {"sm80_ops",       cuda::supports,  cuda::norm,        cuda::quantize,
                                   cuda::rope,       cuda::attention, cuda::attend_next, cuda::gated,
                                   cuda::scale_rows, cuda::pick,      cuda::draw,        cuda::round_output,
                                   cuda::encode,     cuda::to_bf16,   cuda::read_all};
}  // namespace roundel
