// Rotation of a prompt's queries and keys, four pairs a thread, whose angles serve several heads of the token. ops.cu has
// the kernel for what does not fit.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) pairs_kernel(const RopeArgs a) {
  let_next_start();
  wait_for_previous();
  const int half = static_cast<int>(a.half), d = 2 * half, fours = half / 4, at_once = kThreads / fours;
  const int i = threadIdx.x % fours * 4;
  const int64_t token = blockIdx.x;
  const TokenInfo info = a.info[token];
  const float4 c = *reinterpret_cast<const float4*>(a.cos + token * half + i);
  const float4 s = *reinterpret_cast<const float4*>(a.sin + token * half + i);
  const int heads = static_cast<int>(a.heads), kv_heads = static_cast<int>(a.kv_heads);
  for (int head = threadIdx.x / fours; head < heads + 2 * kv_heads; head += at_once) {
    const bool is_q = head < heads, is_v = head >= heads + kv_heads;
    const int h = is_q ? head : is_v ? head - heads - kv_heads : head - heads;
    const DeviceMatrix& m = is_q ? a.q : is_v ? a.v : a.k;
    const uint16_t* from = static_cast<const uint16_t*>(m.data) + token * m.ld + int64_t{h} * d + i;
    const float4 x = read_terms4(from, 0), y = read_terms4(from + half, 0);
    const float scale = m.row_scale ? m.row_scale[token] : 1.0f;
    float low[4] = {x.x * scale, x.y * scale, x.z * scale, x.w * scale};
    float high[4] = {y.x * scale, y.y * scale, y.z * scale, y.w * scale};
    if (!is_v) {
      const float cos[4] = {c.x, c.y, c.z, c.w}, sin[4] = {s.x, s.y, s.z, s.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float left = low[j], right = high[j];
        low[j] = left * cos[j] - right * sin[j];
        high[j] = right * cos[j] + left * sin[j];
      }
    }
    uint8_t* page = is_q ? nullptr : info.pages[info.position / kPageTokens];
    const int64_t at = is_q ? (token * heads + h) * d
                            : head_in_page(a.layer, is_v, kv_heads, h, d) + info.position % kPageTokens * d;
    if (is_q || a.kv.type == KvType::kBF16) {
      uint16_t* to = (is_q ? a.q_out : reinterpret_cast<uint16_t*>(page)) + at;
      put_terms4(to + i, 0, {low[0], low[1], low[2], low[3]});
      put_terms4(to + i + half, 0, {high[0], high[1], high[2], high[3]});
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      put_kv(a.kv, page, at + i + j, low[j], is_v);
      put_kv(a.kv, page, at + i + half + j, high[j], is_v);
    }
  }
}

bool fits(const DeviceMatrix& m) {
  return m.bf16 && m.parts == 1 && m.ld % 4 == 0 && reinterpret_cast<uintptr_t>(m.data) % 8 == 0;
}

}  // namespace

bool rope_pairs(const RopeArgs& a, DeviceStream stream) {
  if (a.low || a.q_norm || a.k_norm || 2 * a.half != a.head_dim || a.half % 4 != 0 ||
      kThreads % (a.half / 4) != 0 || !fits(a.q) || !fits(a.k) || !fits(a.v))
    return false;
  launch(pairs_kernel, static_cast<unsigned>(a.tokens), kThreads, 0, stream, "rope", a);
  return true;
}

}  // namespace roundel::cuda
