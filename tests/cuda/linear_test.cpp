// Every listed GPU kernel that takes a problem, for few tokens and many, against the reference kernel of the CPU.
#include "base/numeric.h"
#include "base/rng.h"
#include "tests/cuda/linear_both.h"

namespace roundel {
namespace {

std::vector<LinearProblem> problems() {
  const auto i = CodeType::kInt, f8 = CodeType::kE4M3;
  return {weights(i, 4, 256, 512, 128, false),
          weights(i, 4, 1000, 576, 64, false),
          weights(i, 4, 328, 1536, 128, true),
          weights(i, 4, 96, 320, 32, false),
          weights(i, 4, 96, 320, 32, true, ScaleType::kF32),
          weights(i, 4, 96, 320, 64, true),
          weights(i, 4, 264, 200, 0, false),
          weights(i, 4, 264, 512, 0, true, ScaleType::kF16),
          weights(i, 4, 8, 2048, 256, false),
          weights(i, 3, 128, 256, 128, false),
          weights(i, 2, 128, 256, 64, true),
          weights(i, 8, 256, 512, 128, false),
          weights(i, 8, 1000, 576, 0, false),
          weights(i, 8, 40, 576, 0, true),
          weights(i, 8, 136, 320, 32, true),
          weights(i, 6, 136, 320, 64, false, ScaleType::kF32),
          weights(f8, 8, 256, 576, 0, false),
          weights(f8, 8, 136, 512, 128, false),
          weights(f8, 8, 136, 512, 32, false, ScaleType::kF32),
          fp8_blocks(400, 576),
          weights(i, 4, 50, 100, 24, true),
          weights(i, 8, 50, 96, 16, false),
          weights(f8, 8, 51, 93, 31, false),
          dense(CodeType::kBF16, 1000, 576),
          dense(CodeType::kBF16, 33, 77),
          dense(CodeType::kF16, 130, 264),
          dense(CodeType::kF32, 130, 100)};
}

TEST(DeviceLinear, EveryKernelAgreesWithTheReference) {
  NEEDS_GPU();
  for (const DeviceLinearKernel* kernel : device_linear_kernels()) {
    double worst = 0;
    int runs = 0;
    int problem = 0;
    for (const LinearProblem& p : problems()) {
      if (!kernel->supports(p, gpu()->info()).ok) continue;
      if (short_run() && kernel != device_linear_kernels()[0] && problem++ % 3 != 0) continue;
      for (const int64_t m : unless_short<int64_t>({1, 3, 8, 9, 16, 30, 64, 70, 200}, {1, 9, 30, 70}))
        for (const bool bf16 : {false, true}) {
          if (short_run() && bf16 == (m == 1 || m == 30)) continue;
          const TileUse plain{m, TileUse::Input::kBF16, false, bf16},
              x16{m, TileUse::Input::kX16, false, bf16};
          if (left_out(*kernel, p, plain) || left_out(*kernel, p, x16)) continue;
          if (short_run()) {  // where a sanitizer stopped
            std::printf("%s, %s\n", kernel->name, describe(p, m).c_str());
            std::fflush(stdout);
          }
          Both both(p, m, m == 3 || m == 70);
          const std::vector<float> want = both.reference();
          const double error = relative_error(both.run(*kernel, bf16, bf16 ? 1 : 4), want);
          if (m <= kSmallTokens) {
            EXPECT_LT(relative_error(both.run(*kernel, bf16, bf16 ? 1 : 8, true), want), 4e-3)
                << kernel->name << ", x16, " << describe(p, m);
          }
          // The reference rounds weights to bf16, which the fast path does not; outputs are rounded when bf16.
          EXPECT_LT(error, 4e-3) << kernel->name << ", " << describe(p, m) << (bf16 ? " to bf16" : "");
          worst = std::max(worst, error);
          ++runs;
        }
    }
    std::printf("%s: %d runs, worst relative error %.2e\n", kernel->name, runs, worst);
  }
}

// Float scales are not rounded in the reference: nothing but the order of sums differs.
TEST(DeviceLinear, SmallKernelIsExactUpToSums) {
  NEEDS_GPU();
  const DeviceLinearKernel& kernel = *device_linear_kernels()[0];
  for (const auto& p : {weights(CodeType::kInt, 4, 96, 640, 128, true, ScaleType::kF32),
                        weights(CodeType::kInt, 8, 96, 640, 0, false, ScaleType::kF32),
                        weights(CodeType::kE4M3, 8, 96, 640, 0, false, ScaleType::kF32)}) {
    if (!kernel.supports(p, gpu()->info()).ok) GTEST_SKIP() << "not for this GPU";
    Both both(p, 5, false);
    EXPECT_LT(relative_error(both.run(kernel, false, 4), both.reference()), 5e-6) << describe(p, 5);
  }
}

// The norm inside the linear against the norm's own kernel before it, and a product that is added to what y holds.
TEST(DeviceLinear, TakesTheNormAndAddsToTheResidual) {
  NEEDS_GPU();
  Device& d = *gpu();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const LinearProblem& p : problems()) {
      if (!kernel->supports(p, d.info()).ok || left_out(*kernel, p, {.m = 1, .whole = true})) continue;
      Both both(p, 1, false);
      both.pack(*kernel);
      const size_t n = static_cast<size_t>(p.n), k = static_cast<size_t>(p.k);
      std::vector<float> residual(k), gain(k);
      for (size_t i = 0; i < k; ++i)
        residual[i] = static_cast<float>(8 * random_unit(1, i) - 3),
        gain[i] = round_bf16(static_cast<float>(random_unit(2, i) + 0.1));
      const DeviceBuffer dresidual = to_gpu(residual), dgain = to_gpu(gain);
      const DeviceBuffer space(d, kernel->workspace_bytes(p, 1, false) + 256, "workspace");
      const auto run = [&](DeviceLinearArgs a, std::vector<float> y) {
        const DeviceBuffer dy = to_gpu(y);
        a.m = 1, a.y = dy.data(), a.ldy = a.part_stride = p.n;
        a.workspace = space.data(), a.workspace_bytes = space.size();
        EXPECT_EQ(kernel->run(p, both.packed.data(), a, d.info(), d.stream()), 1);
        return from_gpu<float>(dy, n);
      };
      std::vector<float> nan(n, NAN), base(n);
      for (size_t i = 0; i < n; ++i) base[i] = static_cast<float>(random_unit(3, i) * 40 - 20);
      DeviceLinearArgs plain;
      plain.x = both.x.data(), plain.ldx = both.c.ldx;
      if (kernel->adds(p, 1, d.info())) {
        DeviceLinearArgs adding = plain;
        adding.add = true;
        const std::vector<float> product = run(plain, nan), sum = run(adding, base);
        double size = 0;
        for (const float v : product) size = std::max(size, static_cast<double>(std::fabs(v)));
        for (size_t i = 0; i < n; ++i)  // the sums of the product may be in another order
          ASSERT_NEAR(sum[i], base[i] + product[i], 1e-5 * (20 + size)) << describe(p, 1) << " row " << i;
        ++runs;
      }
      if (kernel->fuses_norm(p, 1, d.info())) {
        double square = 0;
        for (const float v : residual) square += static_cast<double>(v) * v;
        const double r = 1 / std::sqrt(square / static_cast<double>(k) + 1e-5);
        for (size_t i = 0; i < k; ++i) both.c.x[i] = static_cast<float>(residual[i] * r * gain[i]);
        DeviceLinearArgs a;
        a.residual = dresidual.as<float>(), a.ld_residual = p.k, a.gain = dgain.as<float>(), a.eps = 1e-5f;
        EXPECT_LT(relative_error(run(a, nan), both.reference()), 3e-3) << describe(p, 1);
        ++runs;
      }
    }
  if (d.info().major == 9) {
    EXPECT_GT(runs, 20);
  }
}

// Few tokens of codes with one scale a token: the wide kernel and, for fewer, the small one.
TEST(DeviceLinear, MultipliesCodesOfOneScale) {
  NEEDS_GPU();
  Device& d = *gpu();
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [code, kind] : {std::pair(CodeType::kInt, DeviceForm::Kind::kInt8),
                                     std::pair(CodeType::kE4M3, DeviceForm::Kind::kE4M3)})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{256, 512}, {1000, 576}, {72, 4096}})
        for (const int64_t m : unless_short<int64_t>({1, 8, 9, 17, 33, 64}, {1, 9, 33}))
          for (const bool gated : {false, true}) {
            const LinearProblem p = weights(code, 8, n, k, 0, false);
            if (!kernel->supports(p, d.info()).ok) continue;
            if (gated && !kernel->fuses_gate(p, TileUse::Input::kX16, m, d.info())) continue;
            if (left_out(*kernel, p, {m, TileUse::Input::kX16, gated, gated})) continue;
            Both both(p, m, m == 33);
            both.pack(*kernel);
            QuantizeArgs q;
            q.rows = m, q.cols = k, q.x = both.x.as<uint16_t>(), q.ldx = both.c.ldx, q.form.kind = kind;
            q.codes.ld16 = round_up(k, kScaleColumns);
            const DeviceBuffer x16 = poisoned(static_cast<size_t>(m * q.codes.ld16) * 2);
            const DeviceBuffer scale = poisoned(static_cast<size_t>(m * q.codes.ld16 / kScaleColumns) * 4);
            q.codes.x16 = x16.as<uint16_t>(), q.codes.x_scale = scale.as<float>();
            device_ops(d.info()).quantize(q, d.stream());
            const auto codes = from_gpu<uint16_t>(x16, static_cast<size_t>(m * q.codes.ld16));
            const auto scales = from_gpu<float>(scale, static_cast<size_t>(m * q.codes.ld16 / kScaleColumns));
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < k; ++j)
                both.c.x[static_cast<size_t>(i * both.c.ldx + j)] =
                    f16_to_float(codes[static_cast<size_t>(i * q.codes.ld16 + j)]) *
                    scales[static_cast<size_t>(i * (q.codes.ld16 / kScaleColumns))];
            std::vector<float> want = both.reference(), halves;
            if (gated) {
              for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n / 2; ++j) {
                  const float g = want[static_cast<size_t>(i * n + j / 8 * 16 + j % 8)];
                  halves.push_back(g / (1 + std::exp(-g)) *
                                   want[static_cast<size_t>(i * n + j / 8 * 16 + j % 8 + 8)]);
                }
              want = halves;
            }
            const DeviceBuffer y = poisoned(static_cast<size_t>(8 * m * n) * 4);
            const DeviceBuffer space(d, kernel->workspace_bytes(p, m, false), "workspace");
            DeviceLinearArgs a;
            a.m = m, a.x16 = x16.data(), a.ld16 = q.codes.ld16, a.x_scale = scale.as<float>(),
            a.one_scale = true;
            a.y = y.data(), a.ldy = gated ? n / 2 : n, a.gated = gated, a.max_parts = gated ? 1 : 8;
            a.part_stride = m * n, a.bias = both.bias_values.as<float>();
            a.workspace = space.data(), a.workspace_bytes = space.size();
            const int parts = kernel->run(p, both.packed.data(), a, d.info(), d.stream());
            const auto got = read_result(y, gated, want.size(), parts);
            EXPECT_LT(relative_error(got, want), 5e-3) << kernel->name << ' ' << describe(p, m) << gated;
          }
}

// What fuses_gate() says, for inputs and numbers of tokens that take different ways. The last shape's tokens do not all fit
// into shared memory.
TEST(DeviceLinear, GatesWhereItSaysSo) {
  NEEDS_GPU();
  Device& d = *gpu();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const LinearProblem& p :
         {weights(CodeType::kInt, 4, 96, 512, 128, false), weights(CodeType::kInt, 4, 96, 512, 32, true),
          weights(CodeType::kInt, 8, 96, 512, 0, false), weights(CodeType::kInt, 4, 96, 4096, 128, false)})
      for (const int64_t m : unless_short<int64_t>({1, 8, 9, 16, 33, 64, 70}, {1, 9, 33, 70}))
        for (const auto input : {TileUse::Input::kBF16, TileUse::Input::kX16}) {
          if (!kernel->supports(p, d.info()).ok || !kernel->fuses_gate(p, input, m, d.info())) continue;
          Both both(p, m, false);
          const auto got = both.run(*kernel, false, 1, input == TileUse::Input::kX16, true);
          EXPECT_LT(relative_error(got, gate_values(both.reference(), m, p.n)), 6e-3)
              << kernel->name << ' ' << describe(p, m) << ' ' << static_cast<int>(input);
          ++runs;
        }
  if (d.info().major == 9) {
    EXPECT_GE(runs, short_run() ? 16 : 28);
  }
}

struct ManyShape {
  int64_t n, k, group;
  bool zero;
  int64_t m;
  CodeType code = CodeType::kInt;
  int bits = 4;
};

// More than 64 tokens against unpacked rows. Nothing is written beside the result, and again the same bits.
void agrees_with_unpacked_rows(const ManyShape& s, bool gated) {
  Device& d = *gpu();
  const DeviceLinearKernel &kernel = *device_linear_kernels()[0], &unpacked = *device_linear_kernels()[2];
  const LinearProblem p = weights(s.code, s.bits, s.n, s.k, s.group, s.zero);
  Both both(p, s.m, s.m == 700 || s.m == 65);
  both.pack(kernel);
  const int64_t columns = gated ? s.n / 2 : s.n, ldy = columns + 8;
  const DeviceBuffer space(
      d, std::max(kernel.workspace_bytes(p, s.m, false), unpacked.workspace_bytes(p, s.m, false)),
      "workspace");
  DeviceLinearArgs a;
  a.m = s.m, a.x = both.x.data(), a.ldx = both.c.ldx, a.ldy = s.n, a.bias = both.bias_values.as<float>();
  a.workspace = space.data(), a.workspace_bytes = space.size();
  const DeviceBuffer floats = poisoned(static_cast<size_t>(s.m * s.n) * 4);
  a.y = floats.data();
  if (!without_blas()) unpacked.run(p, both.packed.data(), a, d.info(), d.stream());
  std::vector<float> want =
      without_blas() ? both.reference() : from_gpu<float>(floats, static_cast<size_t>(s.m * s.n));
  if (gated) want = gate_values(want, s.m, s.n);
  a.ldy = ldy, a.y_bf16 = !gated, a.gated = gated;
  std::vector<uint16_t> first;
  for (int again = 0; again < 2; ++again) {
    const DeviceBuffer y = poisoned(static_cast<size_t>(s.m * ldy) * 2);
    a.y = y.data();
    EXPECT_EQ(kernel.run(p, both.packed.data(), a, d.info(), d.stream()), 1);
    const auto bits = from_gpu<uint16_t>(y, static_cast<size_t>(s.m * ldy));
    EXPECT_TRUE(again == 0 || bits == first) << describe(p, s.m) << (gated ? " gated" : "");
    first = bits;
  }
  std::vector<float> got;
  for (int64_t i = 0; i < s.m * ldy; ++i) {
    const uint16_t bits = first[static_cast<size_t>(i)];
    if (i % ldy < columns)
      got.push_back(bf16_to_float(bits));
    else
      ASSERT_EQ(bits, 0xffff) << describe(p, s.m) << " beside row " << i / ldy;
  }
  EXPECT_LT(relative_error(got, want), 4e-3) << describe(p, s.m) << (gated ? " gated" : "");
}

TEST(DeviceLinear, ManyTokensAgreeWithUnpackedRows) {  // also in tiles that blocks share
  NEEDS_GPU();
  if (gpu()->info().major != 9) GTEST_SKIP() << "not for this GPU";
  for (const ManyShape& s : {ManyShape{256, 4096, 128, false, 200},
                             {1040, 576, 32, false, 65},
                             {272, 256, 32, true, 129},
                             {512, 8192, 128, true, 140},
                             {272, 576, 0, false, 129, CodeType::kInt, 8},
                             {512, 8192, 0, false, 140, CodeType::kE4M3, 8}})
    for (const bool gated : {false, true}) agrees_with_unpacked_rows(s, gated);
}

TEST(DeviceLinear, ManyTilesAgreeWithUnpackedRows) {
  NEEDS_GPU();
  if (short_run()) GTEST_SKIP() << "large";
  if (gpu()->info().major != 9) GTEST_SKIP() << "not for this GPU";
  for (const ManyShape& s : {ManyShape{3072, 512, 128, false, 1408},
                             {3008, 328, 64, true, 1500},
                             {4096, 1024, 256, false, 2000},
                             {6144, 4096, 128, false, 1024},
                             {2000, 640, 64, false, 700},
                             {3072, 512, 0, false, 1408, CodeType::kE4M3, 8},
                             {6144, 4096, 0, false, 1024, CodeType::kInt, 8},
                             {2000, 640, 0, false, 700, CodeType::kInt, 8}})
    for (const bool gated : {false, true}) agrees_with_unpacked_rows(s, gated);
}

TEST(DeviceLinear, UnpackedRowsAreTheWeights) {
  NEEDS_GPU();
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const LinearProblem& p : problems()) {
      if (!kernel->supports(p, gpu()->info()).ok) continue;
      Both both(p, 1, false);
      both.pack(*kernel);
      const std::vector<int32_t> ids = {7, 0, static_cast<int32_t>(p.n - 1)};
      const DeviceBuffer where = to_gpu(ids), out = poisoned(static_cast<size_t>(3 * p.k) * 4);
      kernel->unpack_rows(p, both.packed.data(), where.as<int32_t>(), 1, 3, out.as<float>(), p.k,
                          gpu()->stream());
      const auto got = from_gpu<float>(out, static_cast<size_t>(3 * p.k));
      auto packed = both.c.pack(*linear_kernels().back());
      std::vector<float> row(static_cast<size_t>(p.k));
      for (size_t i = 0; i < 3; ++i) {
        linear_kernels().back()->unpack_row(p, LinearCase::aligned(packed), ids[i], row.data());
        const std::vector<float> mine(got.begin() + static_cast<int64_t>(i) * p.k,
                                      got.begin() + static_cast<int64_t>(i + 1) * p.k);
        EXPECT_LT(relative_error(mine, row), p.scale_type == ScaleType::kF16 ? 1e-3 : 1e-7)
            << kernel->name << describe(p, 1);
      }
    }
}

}  // namespace
}  // namespace roundel
