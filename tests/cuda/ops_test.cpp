// The small operations on the GPU against the reference operations of the CPU.
#include "base/checked.h"
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
void to_same(const DeviceBuffer& buffer, const std::vector<float>& host) {
  gpu()->upload(buffer.data(), host.data(), host.size() * 4);
}
const VectorOps& reference() {
  return *vector_ops_list().back();
}

// One call of the norm with a form, and what it left.
struct NormRun {
  NormRun(int64_t cols_wanted, DeviceForm form_wanted) : cols(cols_wanted), form(form_wanted) {
    ld = (cols + 7) / 8 * 8;
    ld16 = (cols + 127) / 128 * 128;
    const size_t count = static_cast<size_t>(kRows * ld);
    x = random_floats(kRows * ld, 1, false), parts = random_floats(2 * kRows * ld, 2, false);
    gain = random_floats(cols, 3);
    const DeviceBuffer dx = to_gpu(x), dparts = to_gpu(parts), dgain = to_gpu(gain);
    const DeviceBuffer y = poisoned(count * 2), yf = poisoned(count * 4);
    const DeviceBuffer x16 = poisoned(static_cast<size_t>(kRows * ld16) * 2);
    const DeviceBuffer scale = poisoned(static_cast<size_t>(kRows * ld16 / 128) * 4);
    NormArgs a;
    a.rows = kRows, a.cols = cols, a.residual = dx.as<float>(), a.ld = ld, a.gain = dgain.as<float>(),
    a.eps = 1e-5f;
    a.delta = {dparts.data(), ld, false, 2, kRows * ld};
    a.y = y.as<uint16_t>(), a.ldy = ld, a.y_float = yf.as<float>(), a.ldy_float = ld;
    a.form = form, a.codes.x16 = x16.as<uint16_t>(), a.codes.x_scale = scale.as<float>(), a.codes.ld16 = ld16;
    device_ops(gpu()->info()).norm(a, gpu()->stream());
    sum = from_gpu<float>(dx, count), normed = from_gpu<float>(yf, count);
    rounded = widen(from_gpu<uint16_t>(y, count));
    codes = from_gpu<uint16_t>(x16, static_cast<size_t>(kRows * ld16));
    scales = from_gpu<float>(scale, static_cast<size_t>(kRows * ld16 / 128));
  }
  float code(int64_t row, int64_t i) const {
    return f16_to_float(codes[static_cast<size_t>(row * ld16 + i)]);
  }
  float scale(int64_t row, int64_t i) const { return scales[static_cast<size_t>((row * ld16 + i) / 128)]; }

  static constexpr int64_t kRows = 3;
  int64_t cols, ld = 0, ld16 = 0;
  DeviceForm form;
  std::vector<float> x, parts, gain, sum, normed, rounded, scales;
  std::vector<uint16_t> codes;
};

TEST(DeviceOps, NormAddsParts) {
  NEEDS_GPU();
  for (const int64_t cols : {576, 4096, 99}) {
    const NormRun run(cols, {});
    std::vector<float> want(static_cast<size_t>(cols)), in(static_cast<size_t>(cols));
    for (int64_t r = 0; r < NormRun::kRows; ++r) {
      for (int64_t i = 0; i < cols; ++i) {
        const size_t at = static_cast<size_t>(r * run.ld + i);
        in[static_cast<size_t>(i)] = run.x[at] + (run.parts[at] + run.parts[at + run.x.size()]);
        EXPECT_NEAR(run.sum[at], in[static_cast<size_t>(i)], 1e-6);
      }
      reference().rms_norm(in.data(), run.gain.data(), cols, 1e-5f, want.data());
      for (int64_t i = 0; i < cols; ++i) {
        const size_t at = static_cast<size_t>(r * run.ld + i);
        EXPECT_NEAR(run.normed[at], want[static_cast<size_t>(i)], 2e-5);
        EXPECT_EQ(run.rounded[at], round_bf16(run.normed[at]));
      }
    }
  }
}

// The values that the reference reads `x` as in this form.
std::vector<float> reference_values(const DeviceForm& form, const float* x, int64_t cols) {
  using Kind = DeviceForm::Kind;
  std::vector<float> values(static_cast<size_t>(cols));
  std::vector<int8_t> q(static_cast<size_t>(cols));
  float s = form.scale;
  int32_t zero = 0;
  if (form.kind == Kind::kInt8) s = reference().quantize_int8_sym(x, cols, q.data());
  if (form.kind == Kind::kInt8Asym) s = reference().quantize_int8_asym(x, cols, q.data(), &zero);
  if (form.kind == Kind::kInt8Static)
    reference().quantize_int8_static(x, cols, s, zero = form.zero_point, q.data());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(q[i] - zero) * s;
  if (form.kind == Kind::kE4M3) reference().fake_quantize_e4m3(x, cols, 0, values.data());
  if (form.kind == Kind::kInt) reference().fake_quantize_int(x, cols, form.bits, 0, values.data());
  return values;
}

TEST(DeviceOps, NormQuantizesAsTheReferenceDoes) {
  NEEDS_GPU();
  using Kind = DeviceForm::Kind;
  for (const int64_t cols : {576, 4096, 99})
    for (const DeviceForm& form :
         {DeviceForm{Kind::kInt8}, DeviceForm{Kind::kInt8Asym}, DeviceForm{Kind::kInt8Static, 0.02f, 5},
          DeviceForm{Kind::kE4M3}, DeviceForm{Kind::kInt, 0, 0, 4}}) {
      const NormRun run(cols, form);
      for (int64_t r = 0; r < NormRun::kRows; ++r) {
        const std::vector<float> want = reference_values(form, run.normed.data() + r * run.ld, cols);
        for (int64_t i = 0; i < run.ld16; ++i)
          ASSERT_EQ(run.code(r, i) * run.scale(r, i), i < cols ? want[static_cast<size_t>(i)] : 0.0f)
              << "form " << static_cast<int>(form.kind) << " row " << r << " column " << i;
      }
    }
}

// The same codes as bytes, and as bf16, with one scale a token.
TEST(DeviceOps, NormGivesBytesAndExactCodes) {
  NEEDS_GPU();
  using Kind = DeviceForm::Kind;
  const int64_t rows = NormRun::kRows;
  for (const int64_t cols : {592, 593})  // four at a time, and one
    for (const DeviceForm& form :
         {DeviceForm{Kind::kInt8}, DeviceForm{Kind::kE4M3}, DeviceForm{Kind::kInt8Asym},
          DeviceForm{Kind::kE4M3, 0, 0, 8, kScaleColumns}}) {
      const NormRun run(cols, form);
      const bool runs = form.group != 0;
      const DeviceBuffer dx = to_gpu(run.x), dparts = to_gpu(run.parts), dgain = to_gpu(run.gain);
      const int64_t ld = round_up(cols, kScaleColumns);
      const size_t count = static_cast<size_t>(rows * ld);
      for (const bool bytes : {true, false}) {
        if (bytes ? form.kind == Kind::kInt8Asym : runs) continue;
        const int64_t scale_ld = runs ? rows + 1 : 0;
        const auto scale_count = static_cast<size_t>(runs ? scale_ld * ld / kScaleColumns : rows);
        const DeviceBuffer x8 = poisoned(count), y = poisoned(count * 2), scale = poisoned(scale_count * 4);
        to_same(dx, run.x);
        NormArgs a;
        a.rows = rows, a.cols = cols, a.residual = dx.as<float>(), a.ld = run.ld, a.gain = dgain.as<float>();
        a.eps = 1e-5f, a.delta = {dparts.data(), run.ld, false, 2, rows * run.ld}, a.form = form;
        if (bytes)
          a.codes.x8 = x8.data(), a.codes.ld8 = ld, a.codes.scale_ld = scale_ld;
        else
          a.codes.y = y.as<uint16_t>(), a.codes.ldy = ld;
        a.codes.token_scale = scale.as<float>();
        device_ops(gpu()->info()).norm(a, gpu()->stream());
        const auto got8 = from_gpu<uint8_t>(x8, count);
        const auto got16 = from_gpu<uint16_t>(y, count);
        const auto scales = from_gpu<float>(scale, scale_count);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < (runs ? cols : 1); i += kScaleColumns)
            EXPECT_EQ(scales[static_cast<size_t>(i / kScaleColumns * scale_ld + r)], run.scale(r, i));
          for (int64_t i = 0; i < ld; ++i) {
            const size_t at = static_cast<size_t>(r * ld + (bytes ? byte_place(i) : i));
            const float code = !bytes                     ? bf16_to_float(got16[at])
                               : form.kind == Kind::kE4M3 ? e4m3_to_float(got8[at])
                                                          : static_cast<float>(static_cast<int8_t>(got8[at]));
            ASSERT_EQ(code, i < cols ? run.code(r, i) : 0.0f)
                << "form " << static_cast<int>(form.kind) << " column " << i;
          }
        }
      }
    }
}

// kHalf keeps 11 bits, whatever the size of the numbers.
TEST(DeviceOps, NormGivesHalvesWithAPowerOfTwo) {
  NEEDS_GPU();
  DeviceForm form;
  form.kind = DeviceForm::Kind::kHalf, form.group = kScaleColumns;
  const NormRun run(576, form);
  for (int64_t r = 0; r < NormRun::kRows; ++r)
    for (int64_t i = 0; i < run.cols; ++i) {
      const float want = run.normed[static_cast<size_t>(r * run.ld + i)];
      ASSERT_NEAR(run.code(r, i) * run.scale(r, i), want, std::ldexp(std::fabs(want), -11));
      ASSERT_LT(std::fabs(run.code(r, i)), 32769.0f);
    }
}

struct Shape {
  int64_t tokens, start, heads, kv_heads, head_dim, window;
  bool one_sequence;
  int splits;
};

// Keys and values as a cache of this type stores them, and what they are read as.
struct Stored {
  Stored(DeviceKv kv, size_t per_part, int64_t parts) {
    for (size_t i = 0; i < per_part * static_cast<size_t>(parts); ++i) {
      const float x = static_cast<float>(4 * random_unit(2, i) - 2);
      const float scale = i / per_part % 2 ? kv.value_scale : kv.key_scale;
      if (kv.type == KvType::kBF16) {
        const uint16_t bits = float_to_bf16(x);
        bytes.push_back(static_cast<uint8_t>(bits & 255)), bytes.push_back(static_cast<uint8_t>(bits >> 8));
        values.push_back(bf16_to_float(bits));
      } else if (kv.type == KvType::kF32) {
        const uint32_t bits = float_bits(x);
        for (int b = 0; b < 4; ++b) bytes.push_back(static_cast<uint8_t>(bits >> 8 * b));
        values.push_back(x);
      } else if (kv.type == KvType::kE4M3) {
        bytes.push_back(float_to_e4m3(x / scale));
        values.push_back(e4m3_to_float(bytes.back()) * scale);
      } else {
        const auto code = static_cast<int8_t>(std::lround(x / scale));
        bytes.push_back(static_cast<uint8_t>(code));
        values.push_back(static_cast<float>(code) * scale);
      }
    }
  }
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

void check_attention(const Shape& s, DeviceKv kv) {
  const DeviceOps& ops = device_ops(gpu()->info());
  const int64_t capacity = s.start + s.tokens + 3, layer = 1, per_part = s.kv_heads * capacity * s.head_dim;
  const auto q = random_floats(s.tokens * s.heads * s.head_dim, 1);
  const Stored stored(kv, static_cast<size_t>(per_part), 4);
  const DeviceBuffer dq = to_gpu(narrow(q));
  const PagedCache cache(stored.bytes, 4 * s.kv_heads, capacity, s.head_dim * kv_bytes(kv.type));
  std::vector<TokenInfo> info;
  for (int64_t t = 0; t < s.tokens; ++t)
    info.push_back({0, static_cast<int32_t>(s.start + t), cache.pages()});
  const DeviceBuffer dinfo = to_gpu(info);
  const DeviceBuffer out = poisoned(q.size() * 2), scratch = poisoned(q.size() * 4 * 20);
  const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(4096, 0));
  DeviceAttentionArgs a;
  a.tokens = s.tokens, a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.layer = layer;
  a.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  a.window = s.window, a.info = dinfo.as<TokenInfo>(), a.q = dq.as<uint16_t>(), a.out = out.as<uint16_t>();
  a.kv = kv, a.ldo = s.heads * s.head_dim, a.one_sequence = s.one_sequence, a.splits = s.splits;
  a.scratch = scratch.as<float>(), a.counters = counters.as<uint32_t>();
  AttentionArgs r;
  r.tokens = s.tokens, r.start = s.start, r.heads = s.heads, r.kv_heads = s.kv_heads, r.head_dim = s.head_dim;
  r.scale = a.scale, r.window = s.window, r.q = q.data(), r.ldq = a.ldo, r.ldo = a.ldo;
  r.k = stored.values.data() + 2 * per_part * layer, r.v = stored.values.data() + per_part * (2 * layer + 1);
  r.kv_stride = capacity * s.head_dim;
  std::vector<float> want(q.size());
  r.out = want.data();
  ThreadPool pool(2);
  attention_kernels().back()->run(r, pool);
  for (int again = 0; again < 2; ++again) {  // twice: counters are left as they were
    ops.attention(a, gpu()->stream());
    EXPECT_LT(relative_error(widen(from_gpu<uint16_t>(out, q.size())), want), 5e-3)
        << "tokens " << s.tokens << " start " << s.start << " head_dim " << s.head_dim << " run " << again
        << " cache " << static_cast<int>(kv.type);
  }
}

// Cached keys and values come from the CPU; queries go through the rope kernel only in the model's own tests.
TEST(DeviceOps, AttentionAgreesWithTheReference) {
  NEEDS_GPU();
  for (const Shape& s : {Shape{1, 0, 4, 2, 64, 0, false, 4}, Shape{1, 300, 9, 3, 64, 0, false, 8},
                         Shape{1, 1000, 32, 8, 128, 0, false, 16}, Shape{5, 70, 14, 2, 128, 0, false, 2},
                         Shape{3, 200, 4, 4, 80, 50, false, 3}, Shape{2, 90, 2, 1, 256, 0, false, 1},
                         Shape{64, 0, 9, 3, 64, 0, true, 1}, Shape{100, 37, 8, 2, 128, 0, true, 1},
                         Shape{200, 100, 4, 1, 64, 70, true, 1}, Shape{17, 5, 2, 2, 128, 0, true, 1}})
    for (const DeviceKv& kv : {DeviceKv{}, DeviceKv{KvType::kF32}, DeviceKv{KvType::kE4M3, 0.01f, 0.02f, 8},
                               DeviceKv{KvType::kInt8, 0.02f, 0.03f, 8}})
      check_attention(s, kv);
}

TEST(DeviceOps, OutputsAreRoundedAsTheReferenceDoes) {
  NEEDS_GPU();
  using Kind = DeviceForm::Kind;
  const int64_t rows = 3, cols = 99, ld = 104;
  for (const DeviceForm& form : {DeviceForm{Kind::kInt8Static, 0.02f, 5}, DeviceForm{Kind::kE4M3, 0.004f}}) {
    const auto x = random_floats(rows * ld, 1, false);
    const DeviceBuffer y = to_gpu(x);
    device_ops(gpu()->info()).round_output({{y.data(), ld, false, 1, 0}, rows, cols, form}, gpu()->stream());
    const auto got = from_gpu<float>(y, x.size());
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<float> want(static_cast<size_t>(cols));
      if (form.kind == Kind::kE4M3)
        reference().fake_quantize_e4m3(x.data() + r * ld, cols, form.scale, want.data());
      else
        want = reference_values(form, x.data() + r * ld, cols);
      for (int64_t i = 0; i < ld; ++i)
        ASSERT_EQ(got[static_cast<size_t>(r * ld + i)],
                  i < cols ? want[static_cast<size_t>(i)] : x[static_cast<size_t>(r * ld + i)]);
    }
  }
}

// A prompt's heads, four pairs a thread from bf16, against the general kernel, which reads floats.
TEST(DeviceOps, RotatesPairsAsTheGeneralKernelDoes) {
  NEEDS_GPU();
  const DeviceOps& ops = device_ops(gpu()->info());
  const int64_t tokens = 70, heads = 6, kv_heads = 2, start = 3;
  for (const int64_t d : {64, 128}) {
    const int64_t columns = (heads + 2 * kv_heads) * d, capacity = tokens + start;
    const auto x = random_floats(tokens * columns, 1), cos = random_floats(tokens * d / 2, 2, false),
               sin = random_floats(tokens * d / 2, 3, false);
    const DeviceBuffer wide = to_gpu(x), half = to_gpu(narrow(x)), dcos = to_gpu(cos), dsin = to_gpu(sin);
    for (const DeviceKv& kv : {DeviceKv{}, DeviceKv{KvType::kE4M3, 0.01f, 0.02f, 8}}) {
      std::vector<float> got[2];
      for (const bool bf16 : {false, true}) {
        const int64_t row_bytes = d * kv_bytes(kv.type);
        const PagedCache cache(std::vector<uint8_t>(static_cast<size_t>(2 * kv_heads * capacity * row_bytes)),
                               2 * kv_heads, capacity, row_bytes);
        const DeviceBuffer q = poisoned(static_cast<size_t>(tokens * heads * d) * 2);
        std::vector<TokenInfo> info;
        for (int64_t t = 0; t < tokens; ++t)
          info.push_back({0, static_cast<int32_t>(start + t), cache.pages()});
        const DeviceBuffer dinfo = to_gpu(info);
        RopeArgs a;
        a.tokens = tokens, a.heads = heads, a.kv_heads = kv_heads, a.head_dim = d, a.half = d / 2, a.kv = kv;
        const auto matrix = [&](int64_t first) {
          return DeviceMatrix{bf16 ? half.data() + first * 2 : wide.data() + first * 4, columns, bf16, 1, 0};
        };
        a.q = matrix(0), a.k = matrix(heads * d), a.v = matrix((heads + kv_heads) * d);
        a.info = dinfo.as<TokenInfo>(), a.cos = dcos.as<float>(), a.sin = dsin.as<float>();
        a.q_out = q.as<uint16_t>();
        ops.rope(a, gpu()->stream());
        got[bf16] = widen(from_gpu<uint16_t>(q, static_cast<size_t>(tokens * heads * d)));
        const std::vector<uint8_t> stored = cache.piece();
        for (size_t i = 0; i < stored.size(); i += static_cast<size_t>(kv_bytes(kv.type)))
          got[bf16].push_back(kv.type == KvType::kBF16
                                  ? bf16_to_float(static_cast<uint16_t>(stored[i] | stored[i + 1] << 8))
                                  : e4m3_to_float(stored[i]));
      }
      ASSERT_EQ(got[0].size(), got[1].size());
      const int bits = kv.type == KvType::kBF16 ? 7 : 3;  // the last of them may fall to the other side
      for (size_t i = 0; i < got[0].size(); ++i)
        ASSERT_NEAR(got[1][i], got[0][i], std::ldexp(std::fabs(got[0][i]), -bits) + 2e-3f) << i;
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
      both[static_cast<size_t>(r * 2 * cols + packed_row({0, cols}, i))] =
          gate[static_cast<size_t>(r * cols + i)];
      both[static_cast<size_t>(r * 2 * cols + packed_row({cols, cols}, i))] =
          up[static_cast<size_t>(r * cols + i)];
    }
    reference().silu_mul(gate.data() + r * cols, up.data() + r * cols, cols, want.data() + r * cols);
  }
  const DeviceBuffer dboth = to_gpu(both), y = poisoned(want.size() * 2);
  GatedArgs a;
  a.rows = rows, a.cols = cols, a.gate = {dboth.data(), 2 * cols, false, 1, 0}, a.y = y.as<uint16_t>(),
  a.ldy = cols;
  ops.gated(a, gpu()->stream());
  EXPECT_LT(relative_error(widen(from_gpu<uint16_t>(y, want.size())), want), 4e-3);

  // Rounded at once, and what a product owes the scale of its tokens.
  const int64_t ld8 = kScaleColumns;
  const DeviceBuffer x8 = poisoned(static_cast<size_t>(rows * ld8)), scale = poisoned(rows * 4),
                     twice = to_gpu(std::vector<float>(rows, 2));
  a.gate.row_scale = twice.as<float>();
  a.form.kind = DeviceForm::Kind::kInt8;
  a.codes.x8 = x8.data(), a.codes.ld8 = ld8, a.codes.token_scale = scale.as<float>();
  ops.gated(a, gpu()->stream());
  const auto codes = from_gpu<int8_t>(x8, static_cast<size_t>(rows * ld8));
  const auto scales = from_gpu<float>(scale, static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) {
      const size_t at = static_cast<size_t>(r * cols + i);
      const float g = 2 * gate[at], u = 2 * up[at], exact = g / (1 + std::exp(-g)) * u;
      EXPECT_NEAR(static_cast<float>(codes[static_cast<size_t>(r * ld8 + byte_place(i))]) *
                      scales[static_cast<size_t>(r)],
                  exact, 0.51f * scales[static_cast<size_t>(r)]);
    }
}

// bf16 in alternating blocks or apart, as a prompt's gate_up leaves it, against the same numbers as floats.
TEST(DeviceOps, GatesBlocksOfBf16AsItGatesFloats) {
  NEEDS_GPU();
  const DeviceOps& ops = device_ops(gpu()->info());
  using Kind = DeviceForm::Kind;
  for (const int64_t cols : {int64_t{96}, int64_t{9000}})
    for (const DeviceForm& form : {DeviceForm{}, DeviceForm{Kind::kInt8}, DeviceForm{Kind::kE4M3},
                                   DeviceForm{Kind::kE4M3, 0, 0, 8, kScaleColumns}}) {
      const Kind kind = form.kind;
      const bool apart = form.group != 0;
      const int64_t rows = 5, ld8 = round_up(cols, kScaleColumns);
      const auto scale_count = static_cast<size_t>(apart ? 8 * ld8 / kScaleColumns : rows);
      const auto both = random_floats(rows * 2 * cols, 1);
      const DeviceBuffer wide = to_gpu(both), half = to_gpu(narrow(both)),
                         twice = to_gpu(std::vector<float>(rows, 2));
      std::vector<uint8_t> bytes[2];
      std::vector<float> scales[2];
      for (const bool bf16 : {false, true}) {
        const DeviceBuffer y = poisoned(static_cast<size_t>(rows * cols) * 2),
                           x8 = poisoned(static_cast<size_t>(rows * ld8)), scale = poisoned(scale_count * 4);
        GatedArgs a;
        a.rows = rows, a.cols = cols, a.gate = {bf16 ? half.data() : wide.data(), 2 * cols, bf16, 1, 0};
        a.gate.row_scale = twice.as<float>();
        if (apart) {
          a.up = a.gate;
          a.up.data = (bf16 ? half.data() : wide.data()) + cols * (bf16 ? 2 : 4);
          a.codes.scale_ld = 8;
        }
        a.y = y.as<uint16_t>(), a.ldy = cols, a.form = form;
        a.codes.x8 = x8.data(), a.codes.ld8 = ld8, a.codes.token_scale = scale.as<float>();
        ops.gated(a, gpu()->stream());
        bytes[bf16] = kind == Kind::kNone ? from_gpu<uint8_t>(y, static_cast<size_t>(rows * cols) * 2)
                                          : from_gpu<uint8_t>(x8, static_cast<size_t>(rows * ld8));
        if (kind == Kind::kNone) continue;
        const auto all = from_gpu<float>(scale, scale_count);
        for (size_t i = 0; i < all.size(); ++i)
          if (!apart || i % 8 < 5) scales[bf16].push_back(all[i]);
      }
      EXPECT_EQ(bytes[0], bytes[1]) << cols << " form " << static_cast<int>(kind);
      EXPECT_EQ(scales[0], scales[1]);
    }
}

}  // namespace
}  // namespace roundel
