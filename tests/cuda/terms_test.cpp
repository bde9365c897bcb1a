// Activations of two terms (kernels/api/device_ops.h): what each operation of few tokens leaves and reads must be the float
// value to about 16 bits, where one bf16 number has 8.
#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {
namespace {

constexpr double kTwoTerms = 1e-5;  // relative error; one term has 1.7e-3

std::vector<float> random_floats(int64_t n, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(4 * random_unit(seed, i) - 2);
  return x;
}
// Both terms of x, the second after all of the first.
std::vector<uint16_t> split(const std::vector<float>& x) {
  std::vector<uint16_t> y;
  for (const float v : x) y.push_back(float_to_bf16(v));
  for (size_t i = 0; i < x.size(); ++i) y.push_back(float_to_bf16(x[i] - bf16_to_float(y[i])));
  return y;
}
std::vector<float> joined(const DeviceBuffer& buffer, size_t count) {
  const auto bits = from_gpu<uint16_t>(buffer, 2 * count);
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = bf16_to_float(bits[i]) + bf16_to_float(bits[count + i]);
  return x;
}
const VectorOps& reference() {
  return *vector_ops_list().back();
}

TEST(DeviceTerms, Norm) {
  NEEDS_GPU();
  for (const int64_t cols : {576, 99}) {  // four at a time, and one
    const int64_t rows = 3, ld = round_up(cols, int64_t{8});
    const auto x = random_floats(rows * ld, 1), gain = random_floats(cols, 2);
    const DeviceBuffer dx = to_gpu(x), dgain = to_gpu(gain), y = poisoned(static_cast<size_t>(rows * ld) * 4);
    NormArgs a;
    a.rows = rows, a.cols = cols, a.residual = dx.as<float>(), a.ld = ld, a.gain = dgain.as<float>();
    a.eps = 1e-5f, a.y = y.as<uint16_t>(), a.ldy = ld, a.low = rows * ld;
    device_ops(gpu()->info()).norm(a, gpu()->stream());
    std::vector<float> want(static_cast<size_t>(rows * ld));
    for (int64_t r = 0; r < rows; ++r)
      reference().rms_norm(x.data() + r * ld, gain.data(), cols, 1e-5f, want.data() + r * ld);
    EXPECT_LT(relative_error(joined(y, want.size()), want), kTwoTerms) << cols;
  }
}

TEST(DeviceTerms, Gate) {
  NEEDS_GPU();
  for (const int64_t cols : {96, 42}) {
    const int64_t rows = 3, ld = round_up(cols, int64_t{8});
    const auto gate = random_floats(rows * ld, 1), up = random_floats(rows * ld, 2);
    const DeviceBuffer dgate = to_gpu(gate), dup = to_gpu(up),
                       y = poisoned(static_cast<size_t>(rows * ld) * 4);
    GatedArgs a;
    a.rows = rows, a.cols = cols, a.gate = {dgate.data(), ld, false, 1, 0},
    a.up = {dup.data(), ld, false, 1, 0};
    a.y = y.as<uint16_t>(), a.ldy = ld, a.low = rows * ld;
    device_ops(gpu()->info()).gated(a, gpu()->stream());
    std::vector<float> want(static_cast<size_t>(rows * ld));
    for (int64_t r = 0; r < rows; ++r)
      reference().silu_mul(gate.data() + r * ld, up.data() + r * ld, cols, want.data() + r * ld);
    EXPECT_LT(relative_error(joined(y, want.size()), want), kTwoTerms) << cols;
  }
}

TEST(DeviceTerms, Rounding) {
  NEEDS_GPU();
  using Kind = DeviceForm::Kind;
  for (const int64_t cols : {640, 99}) {
    const int64_t rows = 3, ld = round_up(cols, int64_t{8}), ld16 = round_up(cols, kScaleColumns);
    const auto x = random_floats(rows * ld, 1);
    const DeviceBuffer dx = to_gpu(split(x)), x16 = poisoned(static_cast<size_t>(rows * ld16) * 2),
                       scale = poisoned(static_cast<size_t>(rows * ld16 / kScaleColumns) * 4),
                       y = poisoned(static_cast<size_t>(rows * ld) * 4);
    for (const Kind kind : {Kind::kHalf, Kind::kNone}) {
      QuantizeArgs q;
      q.rows = rows, q.cols = cols, q.x = dx.as<uint16_t>(), q.ldx = ld, q.low = rows * ld;
      q.form.kind = kind, q.form.group = kScaleColumns;
      if (kind == Kind::kHalf)
        q.codes.x16 = x16.as<uint16_t>(), q.codes.x_scale = scale.as<float>(), q.codes.ld16 = ld16;
      else
        q.codes.y = y.as<uint16_t>(), q.codes.ldy = ld, q.codes.low = rows * ld;
      device_ops(gpu()->info()).quantize(q, gpu()->stream());
    }
    const auto half = from_gpu<uint16_t>(x16, static_cast<size_t>(rows * ld16));
    const auto scales = from_gpu<float>(scale, static_cast<size_t>(rows * ld16 / kScaleColumns));
    const auto same = joined(y, x.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < cols; ++i) {
        const float want = x[static_cast<size_t>(r * ld + i)];
        const int64_t at = r * ld16 + i;
        EXPECT_NEAR(
            f16_to_float(half[static_cast<size_t>(at)]) * scales[static_cast<size_t>(at / kScaleColumns)],
            want, std::fabs(want) / 2000 + 1e-6f);
        EXPECT_NEAR(same[static_cast<size_t>(r * ld + i)], want, std::fabs(want) / 50000 + 1e-6f);
      }
  }
}

// Few tokens of one sequence, and single ones of several.
TEST(DeviceTerms, Attention) {
  NEEDS_GPU();
  for (const bool one_sequence : {true, false}) {
    const int64_t tokens = 20, heads = 6, kv_heads = 2, d = 64, start = 30, capacity = start + tokens;
    const auto q = random_floats(tokens * heads * d, 1);
    std::vector<float> kv = random_floats(2 * kv_heads * capacity * d, 2);
    std::vector<uint8_t> bytes;
    for (float& v : kv) {
      v = round_bf16(v);
      const uint16_t bits = float_to_bf16(v);
      bytes.push_back(static_cast<uint8_t>(bits)), bytes.push_back(static_cast<uint8_t>(bits >> 8));
    }
    const PagedCache cache(bytes, 2 * kv_heads, capacity, d * 2);
    std::vector<TokenInfo> info;
    for (int64_t t = 0; t < tokens; ++t) info.push_back({0, static_cast<int32_t>(start + t), cache.pages()});
    const DeviceBuffer dq = to_gpu(split(q)), dinfo = to_gpu(info), out = poisoned(q.size() * 4),
                       scratch = poisoned(q.size() * 4 * 8),
                       counters = to_gpu(std::vector<uint32_t>(4096, 0));
    DeviceAttentionArgs a;
    a.tokens = tokens, a.heads = heads, a.kv_heads = kv_heads, a.head_dim = d, a.scale = 0.125f;
    a.info = dinfo.as<TokenInfo>(), a.q = dq.as<uint16_t>(), a.out = out.as<uint16_t>();
    a.ldo = heads * d, a.low = tokens * heads * d, a.one_sequence = one_sequence, a.splits = 2;
    a.scratch = scratch.as<float>(), a.counters = counters.as<uint32_t>();
    device_ops(gpu()->info()).attention(a, gpu()->stream());
    AttentionArgs r;
    r.tokens = tokens, r.start = start, r.heads = heads, r.kv_heads = kv_heads, r.head_dim = d;
    r.scale = a.scale, r.q = q.data(), r.ldq = a.ldo, r.ldo = a.ldo;
    r.k = kv.data(), r.v = kv.data() + kv_heads * capacity * d, r.kv_stride = capacity * d;
    std::vector<float> want(q.size());
    r.out = want.data();
    ThreadPool pool(2);
    attention_kernels().back()->run(r, pool);
    EXPECT_LT(relative_error(joined(out, want.size()), want), kTwoTerms) << one_sequence;
  }
}

// Where a kernel takes both terms, its product is that of half precision; with the gate too.
TEST(DeviceTerms, Linear) {
  NEEDS_GPU();
  Device& d = *gpu();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const LinearProblem& p : {weights(CodeType::kInt, 4, 96, 640, 128, true, ScaleType::kF32),
                                   weights(CodeType::kInt, 4, 96, 640, 32, false, ScaleType::kF32),
                                   weights(CodeType::kInt, 8, 96, 640, 0, false, ScaleType::kF32)}) {
      if (!kernel->supports(p, d.info()).ok || !kernel->takes_terms(p, 1, d.info())) continue;
      LinearCase c = make_case(p, 1, false, false, 5);
      const auto x = random_floats(p.k, 7);
      for (int64_t i = 0; i < p.k; ++i) c.x[static_cast<size_t>(i)] = x[static_cast<size_t>(i)];
      const LinearKernel& exact = *linear_kernels().back();
      auto bytes = c.pack(exact);
      std::vector<float> want(static_cast<size_t>(p.n));
      ThreadPool pool(2);
      exact.run(p, LinearCase::aligned(bytes), c.args(want.data(), p.n), pool);

      const DeviceBuffer codes = to_gpu(c.codes), scales = to_gpu(c.scales), zeros = to_gpu(c.zero_points),
                         dx = to_gpu(split(x)), packed(d, kernel->packed_bytes(p), "weights"),
                         space(d, kernel->workspace_bytes(p, 1, false) + 256, "workspace"),
                         y = poisoned(static_cast<size_t>(p.n) * 4);
      d.clear(packed.data(), packed.size());
      DeviceWeightRows rows;
      rows.rows = p.n, rows.codes = codes.data(), rows.scales = scales.as<float>();
      rows.zero_points = zeros.as<int8_t>();
      kernel->pack(p, rows, packed.data(), d.stream());
      DeviceLinearArgs a;
      a.m = 1, a.x = dx.data(), a.ldx = a.x_low = p.k, a.y = y.data(), a.ldy = a.part_stride = p.n;
      a.workspace = space.data(), a.workspace_bytes = space.size();
      kernel->run(p, packed.data(), a, d.info(), d.stream());
      EXPECT_LT(relative_error(from_gpu<float>(y, want.size()), want), 4e-4) << kernel->name;
      ++runs;
      if (!kernel->fuses_gate(p, TileUse::Input::kBF16, 1, d.info())) continue;
      a.gated = true, a.ldy = p.n / 2, a.y_low = p.n / 2;
      kernel->run(p, packed.data(), a, d.info(), d.stream());
      std::vector<float> gated;
      for (size_t j = 0; j < want.size() / 2; ++j) {
        const float g = want[j / 8 * 16 + j % 8];
        gated.push_back(g / (1 + std::exp(-g)) * want[j / 8 * 16 + j % 8 + 8]);
      }
      EXPECT_LT(relative_error(joined(y, gated.size()), gated), 6e-4) << kernel->name;
    }
  if (d.info().major == 9) {
    EXPECT_EQ(runs, 3);
  }
}

}  // namespace
}  // namespace roundel
