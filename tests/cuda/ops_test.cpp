// The small operations on the GPU against the reference operations of the CPU.
#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

std::vector<float> random_floats(int64_t n, uint64_t seed, bool bf16 = true) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(4 * random_unit(seed, i) - 2);
    if (bf16) x[i] = round_bf16(x[i]);
  }
  return x;
}
std::vector<uint16_t> narrow(const std::vector<float>& x) {
  std::vector<uint16_t> y;
  for (const float v : x) y.push_back(float_to_bf16(v));
  return y;
}
std::vector<float> widen(const std::vector<uint16_t>& x) {
  std::vector<float> y;
  for (const uint16_t v : x) y.push_back(bf16_to_float(v));
  return y;
}
const VectorOps& reference() {
  return *vector_ops_list().back();
}

TEST(DeviceOps, NormAddsPartsAndQuantizes) {
  NEEDS_GPU();
  using Kind = DeviceForm::Kind;
  const DeviceOps& ops = device_ops(gpu()->info());
  for (const int64_t cols : {576, 4096, 99}) {
    const int64_t rows = 3, ld = (cols + 7) / 8 * 8, ld16 = (cols + 127) / 128 * 128;
    const auto x = random_floats(rows * ld, 1, false), parts = random_floats(2 * rows * ld, 2, false),
               gain = random_floats(cols, 3);
    for (const Kind kind : {Kind::kNone, Kind::kInt8, Kind::kInt8Asym, Kind::kInt8Static, Kind::kE4M3, Kind::kInt}) {
      const DeviceBuffer dx = to_gpu(x), dparts = to_gpu(parts), dgain = to_gpu(gain);
      const DeviceBuffer y = poisoned(static_cast<size_t>(rows * ld) * 2), yf = poisoned(static_cast<size_t>(rows * ld) * 4);
      const DeviceBuffer x16 = poisoned(static_cast<size_t>(rows * ld16) * 2), scale = poisoned(static_cast<size_t>(rows * ld16 / 128) * 4);
      NormArgs a;
      a.rows = rows, a.cols = cols, a.residual = dx.as<float>(), a.ld = ld, a.gain = dgain.as<float>(), a.eps = 1e-5f;
      a.delta = {dparts.data(), ld, false, 2, rows * ld};
      a.y = y.as<uint16_t>(), a.ldy = ld, a.y_float = yf.as<float>(), a.ldy_float = ld;
      a.form.kind = kind;
      a.form.scale = kind == Kind::kInt8Static ? 0.02f : 0;
      a.form.zero_point = kind == Kind::kInt8Static ? 5 : 0;
      a.form.bits = kind == Kind::kInt ? 4 : 8;
      a.x16 = x16.as<uint16_t>(), a.x_scale = scale.as<float>(), a.ld16 = ld16;
      ops.norm(a, gpu()->stream());
      const auto sum = from_gpu<float>(dx, x.size());
      const auto normed = from_gpu<float>(yf, x.size());
      const auto rounded = widen(from_gpu<uint16_t>(y, x.size()));
      const auto codes = from_gpu<uint16_t>(x16, static_cast<size_t>(rows * ld16));
      const auto scales = from_gpu<float>(scale, static_cast<size_t>(rows * ld16 / 128));
      std::vector<float> want(static_cast<size_t>(cols)), back(static_cast<size_t>(cols));
      std::vector<int8_t> q(static_cast<size_t>(cols));
      int64_t differ = 0;
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<float> in(static_cast<size_t>(cols));
        for (int64_t i = 0; i < cols; ++i) {
          const size_t at = static_cast<size_t>(r * ld + i);
          in[static_cast<size_t>(i)] = x[at] + (parts[at] + parts[at + static_cast<size_t>(rows * ld)]);
          EXPECT_NEAR(sum[at], in[static_cast<size_t>(i)], 1e-6);
        }
        reference().rms_norm(in.data(), gain.data(), cols, 1e-5f, want.data());
        for (int64_t i = 0; i < cols; ++i) {
          EXPECT_NEAR(normed[static_cast<size_t>(r * ld + i)], want[static_cast<size_t>(i)], 2e-5);
          EXPECT_EQ(rounded[static_cast<size_t>(r * ld + i)], round_bf16(normed[static_cast<size_t>(r * ld + i)]));
          want[static_cast<size_t>(i)] = normed[static_cast<size_t>(r * ld + i)];  // quantize what the GPU quantized
        }
        float s = a.form.scale;
        int32_t zero = 0;
        if (kind == Kind::kNone) continue;
        if (kind == Kind::kInt8) s = reference().quantize_int8_sym(want.data(), cols, q.data());
        if (kind == Kind::kInt8Asym) s = reference().quantize_int8_asym(want.data(), cols, q.data(), &zero);
        if (kind == Kind::kInt8Static) reference().quantize_int8_static(want.data(), cols, s, zero = 5, q.data());
        if (kind == Kind::kE4M3) reference().fake_quantize_e4m3(want.data(), cols, 0, back.data());
        if (kind == Kind::kInt) reference().fake_quantize_int(want.data(), cols, 4, 0, back.data());
        for (int64_t i = 0; i < ld16; ++i) {
          const float code = f16_to_float(codes[static_cast<size_t>(r * ld16 + i)]);
          const float got_scale = scales[static_cast<size_t>((r * ld16 + i) / 128)];
          if (i >= cols) {
            EXPECT_EQ(code, 0);
          } else if (kind == Kind::kE4M3 || kind == Kind::kInt) {
            differ += code * got_scale != back[static_cast<size_t>(i)];
          } else {
            EXPECT_EQ(got_scale, s);
            differ += code != static_cast<float>(q[static_cast<size_t>(i)] - zero);
          }
        }
      }
      EXPECT_EQ(differ, 0) << static_cast<int>(kind) << " cols " << cols;
    }
  }
}

struct Shape {
  int64_t tokens, start, heads, kv_heads, head_dim, window;
  bool one_sequence;
  int splits;
};

// Cached keys and values come from the CPU; queries go through the rope kernel only in the model's own tests.
TEST(DeviceOps, AttentionAgreesWithTheReference) {
  NEEDS_GPU();
  const DeviceOps& ops = device_ops(gpu()->info());
  for (const Shape& s : {Shape{1, 0, 4, 2, 64, 0, false, 4}, Shape{1, 300, 9, 3, 64, 0, false, 8},
                         Shape{1, 1000, 32, 8, 128, 0, false, 16}, Shape{5, 70, 14, 2, 128, 0, false, 2},
                         Shape{3, 200, 4, 4, 80, 50, false, 3}, Shape{2, 90, 2, 1, 256, 0, false, 1},
                         Shape{64, 0, 9, 3, 64, 0, true, 1}, Shape{100, 37, 8, 2, 128, 0, true, 1},
                         Shape{200, 100, 4, 1, 64, 70, true, 1}, Shape{17, 5, 2, 2, 128, 0, true, 1}}) {
    const int64_t capacity = s.start + s.tokens + 3, layer = 1, per_layer = 2 * s.kv_heads * capacity * s.head_dim;
    const auto q = random_floats(s.tokens * s.heads * s.head_dim, 1), kv = random_floats(2 * per_layer, 2);
    const DeviceBuffer dq = to_gpu(narrow(q)), dkv = to_gpu(narrow(kv));
    std::vector<TokenInfo> info;
    for (int64_t t = 0; t < s.tokens; ++t)
      info.push_back({0, static_cast<int32_t>(s.start + t), dkv.as<uint16_t>(), capacity});
    const DeviceBuffer dinfo = to_gpu(info);
    const DeviceBuffer out = poisoned(q.size() * 2), scratch = poisoned(q.size() * 4 * 20);
    const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(4096, 0));
    DeviceAttentionArgs a;
    a.tokens = s.tokens, a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.layer = layer;
    a.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    a.window = s.window, a.info = dinfo.as<TokenInfo>(), a.q = dq.as<uint16_t>(), a.out = out.as<uint16_t>();
    a.ldo = s.heads * s.head_dim, a.one_sequence = s.one_sequence, a.splits = s.splits;
    a.scratch = scratch.as<float>(), a.counters = counters.as<uint32_t>();
    AttentionArgs r;
    r.tokens = s.tokens, r.start = s.start, r.heads = s.heads, r.kv_heads = s.kv_heads, r.head_dim = s.head_dim;
    r.scale = a.scale, r.window = s.window, r.q = q.data(), r.ldq = a.ldo, r.ldo = a.ldo;
    r.k = kv.data() + per_layer * layer, r.v = r.k + per_layer / 2, r.kv_stride = capacity * s.head_dim;
    std::vector<float> want(q.size());
    r.out = want.data();
    ThreadPool pool(2);
    attention_kernels().back()->run(r, pool);
    for (int again = 0; again < 2; ++again) {  // twice: counters are left as they were
      ops.attention(a, gpu()->stream());
      EXPECT_LT(relative_error(widen(from_gpu<uint16_t>(out, q.size())), want), 5e-3)
          << "tokens " << s.tokens << " start " << s.start << " head_dim " << s.head_dim << " run " << again;
    }
  }
}

TEST(DeviceOps, GatedMeetsItsRows) {
  NEEDS_GPU();
  const DeviceOps& ops = device_ops(gpu()->info());
  const int64_t rows = 3, cols = 40;
  const auto gate = random_floats(rows * cols, 1), up = random_floats(rows * cols, 2);
  std::vector<float> both(static_cast<size_t>(2 * rows * cols)), want(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < cols; ++i) {
      both[static_cast<size_t>(r * 2 * cols + packed_row({0, cols}, i))] = gate[static_cast<size_t>(r * cols + i)];
      both[static_cast<size_t>(r * 2 * cols + packed_row({cols, cols}, i))] = up[static_cast<size_t>(r * cols + i)];
    }
    reference().silu_mul(gate.data() + r * cols, up.data() + r * cols, cols, want.data() + r * cols);
  }
  const DeviceBuffer dboth = to_gpu(both), y = poisoned(want.size() * 2);
  GatedArgs a;
  a.rows = rows, a.cols = cols, a.gate = {dboth.data(), 2 * cols, false, 1, 0}, a.y = y.as<uint16_t>(), a.ldy = cols;
  ops.gated(a, gpu()->stream());
  EXPECT_LT(relative_error(widen(from_gpu<uint16_t>(y, want.size())), want), 4e-3);
}

}  // namespace
}  // namespace roundel
