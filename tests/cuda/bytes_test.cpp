// Linears whose activations are codes of a byte too, against the reference kernel of the CPU.
#include "tests/cuda/linear_both.h"

namespace roundel {
namespace {

// Activations rounded to bytes, and what they stand for in both.c.x.
struct Bytes {
  Bytes(Both& both, const DeviceForm& form) {
    const int64_t m = both.c.m, k = both.c.problem.k, tokens = round_up(m, kTokenUnit);
    ld = round_up(k, kScaleColumns);
    if (form.group != 0) scale_ld = tokens;
    x8 = poisoned(static_cast<size_t>(tokens * ld));
    scale = poisoned(static_cast<size_t>(tokens * ld / kScaleColumns) * 4);
    QuantizeArgs q;
    q.rows = m, q.cols = k, q.x = both.x.as<uint16_t>(), q.ldx = both.c.ldx, q.form = form;
    q.codes.x8 = x8.data(), q.codes.ld8 = ld, q.codes.token_scale = scale.as<float>();
    q.codes.scale_ld = scale_ld;
    device_ops(gpu()->info()).quantize(q, gpu()->stream());
    const auto values = read(x8, scale, m, ld, form.kind);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < ld; ++j) {
        const float value = values[static_cast<size_t>(i * ld + j)];
        if (j >= k) {
          EXPECT_EQ(value, 0.0f);
          continue;
        }
        float& x = both.c.x[static_cast<size_t>(i * both.c.ldx + j)];
        EXPECT_NEAR(x, value, 0.07f * std::fabs(x) + scale_of(i, j));
        x = value;
      }
  }
  std::vector<float> read(const DeviceBuffer& bytes, const DeviceBuffer& scale_of_token, int64_t m,
                          int64_t row, DeviceForm::Kind kind) {
    const auto codes = from_gpu<uint8_t>(bytes, static_cast<size_t>(m * row));
    scales =
        from_gpu<float>(scale_of_token, static_cast<size_t>(scale_ld ? scale_ld * row / kScaleColumns : m));
    std::vector<float> values;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < row; ++j) {
        const uint8_t byte = codes[static_cast<size_t>(i * row + byte_place(j))];
        values.push_back(scale_of(i, j) * (kind == DeviceForm::Kind::kE4M3
                                               ? e4m3_to_float(byte)
                                               : static_cast<float>(static_cast<int8_t>(byte))));
      }
    return values;
  }
  float scale_of(int64_t token, int64_t column) const {
    return scales[static_cast<size_t>(scale_ld ? column / kScaleColumns * scale_ld + token : token)];
  }
  DeviceLinearArgs args(int64_t m, const DeviceBuffer& space) const {
    DeviceLinearArgs a;
    a.m = m, a.x8 = x8.data(), a.ldx8 = ld, a.token_scale = scale.as<float>(), a.scale_ld = scale_ld;
    a.workspace = space.data(), a.workspace_bytes = space.size();
    return a;
  }
  int64_t ld, scale_ld = 0;
  DeviceBuffer x8, scale;
  std::vector<float> scales;
};

DeviceForm fp8_runs() {
  DeviceForm form;
  form.kind = DeviceForm::Kind::kE4M3, form.group = kScaleColumns;
  return form;
}

// The product of rounded activations as bytes is exact up to sums and the rounding of y, and the same in a second run.
// Returns the number of products: none where the kernel does not take them.
int multiplies_bytes(const DeviceLinearKernel& kernel, const LinearProblem& p, const DeviceForm& form,
                     int64_t m) {
  Device& d = *gpu();
  if (!kernel.supports(p, d.info()).ok || !kernel.takes_bytes(p, form, m, d.info())) return 0;
  if (left_out(kernel, p, {m, TileUse::Input::kBytes})) return 0;
  Both both(p, m, m == 333 || m == 9);
  both.pack(kernel);
  const Bytes bytes(both, form);
  const std::vector<float> want = both.reference();
  const int64_t n = p.n, whole = round_up(m, kTokenUnit) * n;
  for (const bool bf16 : {false, true}) {
    const int64_t parts = bf16 ? 1 : 8;
    const DeviceBuffer y = poisoned(static_cast<size_t>((parts - 1) * m * n + whole) * 4);
    const DeviceBuffer space(d, kernel.workspace_bytes(p, m, true), "workspace");
    DeviceLinearArgs a = bytes.args(m, space);
    a.y = y.data(), a.ldy = n, a.y_bf16 = bf16, a.part_stride = m * n;
    a.max_parts = static_cast<int>(parts), a.bias = both.bias_values.as<float>();
    std::vector<float> got[2];
    for (std::vector<float>& once : got) {
      const int written = kernel.run(p, both.packed.data(), a, d.info(), d.stream());
      once = read_result(y, bf16, want.size(), written);
    }
    // The reference rounds weights to bf16, which neither product does.
    EXPECT_LT(relative_error(got[0], want), 4e-3) << kernel.name << ' ' << describe(p, m) << bf16;
    EXPECT_EQ(got[0], got[1]) << kernel.name << ' ' << describe(p, m) << bf16;
  }
  return 2;
}

const std::pair<int64_t, int64_t> kByteShapes[] = {
    {256, 512}, {1008, 576}, {1024, 2048}, {16, 64}, {4096, 4096}};

// FP8 blocks, whose scales the sums of each 128 columns take.
TEST(DeviceLinear, MultipliesFp8Blocks) {
  NEEDS_GPU();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [n, k] : kByteShapes)
      for (const int64_t m : unless_short<int64_t>({1, 9, 33, 64, 65, 70, 333}, {9, 33, 70})) {
        if (n == 4096 && (short_run() || (m != 33 && m != 70))) continue;
        runs += multiplies_bytes(*kernel, fp8_blocks(n, k), fp8_runs(), m);
      }
  if (gpu()->info().major == 9) {
    EXPECT_GE(runs, without_blas() ? 6 : short_run() ? 15 : 50);
  }
}

constexpr std::pair<CodeType, DeviceForm::Kind> kByteKinds[] = {{CodeType::kInt, DeviceForm::Kind::kInt8},
                                                                {CodeType::kE4M3, DeviceForm::Kind::kE4M3}};

TEST(DeviceLinear, MultipliesBytes) {
  NEEDS_GPU();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [code, kind] : kByteKinds)
      for (const auto& [n, k] : kByteShapes)
        for (const int64_t m : unless_short<int64_t>({1, 9, 33, 64, 70, 333}, {9, 33, 70})) {
          if (n == 4096 && (short_run() || (m != 33 && m != 64))) continue;
          DeviceForm form;
          form.kind = kind;
          runs += multiplies_bytes(*kernel, weights(code, 8, n, k, 0, false), form, m);
        }
  if (gpu()->info().major == 9) {
    EXPECT_GE(runs, without_blas() ? 12 : short_run() ? 30 : 100);
  }
}

// How far the rounded values of a token are off, in steps of the form plus 2 % of the largest; checks the scale.
float rounding_error(const std::vector<float>& want, const std::vector<float>& values, float scale,
                     int64_t token, int64_t cols, const DeviceForm& form) {
  const bool e4m3 = form.kind == DeviceForm::Kind::kE4M3;
  const float* w = want.data() + token * cols;
  float top = 0, error = 0;
  for (int64_t j = 0; j < cols; ++j) top = std::max(top, std::fabs(w[j]));
  if (form.scale > 0)
    EXPECT_EQ(scale, form.scale);
  else
    EXPECT_NEAR(scale, top / (e4m3 ? 448.0f : 127.5f), 0.02f * scale);
  for (int64_t j = 0; j < cols; ++j) {
    if (form.scale > 0 && std::fabs(w[j]) > 127 * scale) continue;  // beyond the codes
    const float step = e4m3 ? std::fabs(w[j]) / 16 + scale / 512 : scale / 2;
    error = std::max(error,
                     std::fabs(values[static_cast<size_t>(token * cols + j)] - w[j]) / (step + 0.02f * top));
  }
  return error;
}

// silu(gate) * up of few tokens of bytes: as bf16, and rounded by all blocks together, twice: counters are left at zero.
TEST(DeviceLinear, GatesAndRoundsBytes) {
  NEEDS_GPU();
  Device& d = *gpu();
  int rounded = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [code, kind] : kByteKinds)
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{512, 512}, {3072, 576}, {28672, 1024}})
        for (const int64_t m : unless_short<int64_t>({1, 12, 32, 64}, {12, 64}))
          for (const float fixed : {0.0f, 0.05f}) {
            if (fixed > 0 && (code != CodeType::kInt || m != 12)) continue;
            if (short_run() && n == 28672) continue;
            const LinearProblem p = weights(code, 8, n, k, 0, false);
            DeviceForm form, next;
            form.kind = kind;
            next.kind = fixed > 0 ? DeviceForm::Kind::kInt8Static : kind, next.scale = fixed;
            if (!kernel->supports(p, d.info()).ok || !kernel->takes_bytes(p, form, m, d.info())) continue;
            if (!kernel->fuses_gate(p, TileUse::Input::kBytes, m, d.info())) continue;
            Both both(p, m, false);
            both.pack(*kernel);
            Bytes bytes(both, form);
            const std::vector<float> y = both.reference();
            const std::vector<float> want = gate_values(y, m, n);
            std::vector<float> got;
            const DeviceBuffer space(d, kernel->workspace_bytes(p, m, false), "workspace");
            const DeviceBuffer halves = poisoned(want.size() * 2);
            DeviceLinearArgs a = bytes.args(m, space);
            a.y = halves.data(), a.ldy = n / 2, a.gated = true;
            EXPECT_EQ(kernel->run(p, both.packed.data(), a, d.info(), d.stream()), 1);
            for (const uint16_t v : from_gpu<uint16_t>(halves, want.size())) got.push_back(bf16_to_float(v));
            EXPECT_LT(relative_error(got, want), 5e-3) << kernel->name << ' ' << describe(p, m);
            if (!kernel->rounds_gate(p, next, m, d.info())) continue;
            const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(kSmallTokens + 2, 0));
            a.y = nullptr, a.form = next, a.counters = counters.as<uint32_t>(), a.codes.ld8 = n / 2;
            for (int again = 0; again < 2; ++again) {
              const DeviceBuffer x8 = poisoned(want.size()), scale = poisoned(static_cast<size_t>(m) * 4);
              a.codes.x8 = x8.data(), a.codes.token_scale = scale.as<float>();
              kernel->run(p, both.packed.data(), a, d.info(), d.stream());
              const std::vector<float> values = bytes.read(x8, scale, m, n / 2, next.kind);
              for (int64_t i = 0; i < m; ++i)
                EXPECT_LT(rounding_error(want, values, bytes.scales[static_cast<size_t>(i)], i, n / 2, next),
                          1.01f)
                    << kernel->name << ' ' << describe(p, m) << " token " << i;
              ++rounded;
            }
            for (const uint32_t c : from_gpu<uint32_t>(counters, kSmallTokens + 2)) EXPECT_EQ(c, 0u);
          }
  if (d.info().major == 9) {
    EXPECT_GE(rounded, short_run() ? 8 : 40);
  }
}

}  // namespace
}  // namespace roundel
