// Every listed GPU kernel that takes a problem, for few tokens and many, against the reference kernel of the CPU.
#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {
namespace {

LinearProblem fp8_blocks(int64_t n, int64_t k) {
  LinearProblem p = weights(CodeType::kE4M3, 8, n, k, kFp8Block, false, ScaleType::kF32);
  p.fp8_blocks = true;
  return p;
}

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

// One problem on the GPU and on the CPU, same bf16 activations.
struct Both {
  Both(const LinearProblem& problem, int64_t m, bool bias) : c(make_case(problem, m, false, bias, 5)) {
    for (float& value : c.x) value = round_bf16(value);
    if (problem.fp8_blocks)
      for (int64_t i = 0; i < problem.n * problem.groups(); ++i) {
        const int64_t row = i / problem.groups() / kFp8Block * kFp8Block;
        c.scales[static_cast<size_t>(i)] =
            c.scales[static_cast<size_t>(row * problem.groups() + i % problem.groups())];
      }
    std::vector<uint16_t> narrow;
    for (const float v : c.x) narrow.push_back(float_to_bf16(v));
    x = to_gpu(narrow);
    codes = to_gpu(c.codes);
    scales = to_gpu(c.scales);
    zeros = to_gpu(c.zero_points);
    if (bias) bias_values = to_gpu(c.bias);
  }
  std::vector<float> reference() const {
    const LinearKernel& kernel = *linear_kernels().back();
    LinearCase exact = c;
    exact.problem.scale_type = c.problem.scale_type;
    auto bytes = exact.pack(kernel);
    std::vector<float> y(static_cast<size_t>(c.m * c.problem.n));
    ThreadPool pool(2);
    kernel.run(exact.problem, LinearCase::aligned(bytes), exact.args(y.data(), c.problem.n), pool);
    return y;
  }
  DeviceWeightRows rows(int64_t row0, int64_t count) const {
    const int64_t groups = c.problem.groups();
    DeviceWeightRows r;
    r.row0 = row0, r.rows = count;
    r.codes = codes.data() + row0 * c.problem.k * static_cast<int64_t>(code_bytes(c.problem.code));
    r.scales = scales.as<float>() + row0 * groups;
    r.zero_points = zeros.as<int8_t>() + row0 * groups;
    return r;
  }
  void pack(const DeviceLinearKernel& kernel) {
    if (!packed.empty()) return;
    const LinearProblem& p = c.problem;
    packed = DeviceBuffer(*gpu(), kernel.packed_bytes(p), "weights");
    gpu()->clear(packed.data(), packed.size());
    const int64_t first = std::min<int64_t>(32, p.n);  // in two runs, as weights stream in
    kernel.pack(p, rows(0, first), packed.data(), gpu()->stream());
    if (first < p.n) kernel.pack(p, rows(first, p.n - first), packed.data(), gpu()->stream());
  }
  std::vector<float> run(const DeviceLinearKernel& kernel, bool y_bf16, int max_parts, bool as_x16 = false,
                         bool gated = false) {
    const LinearProblem& p = c.problem;
    Device& d = *gpu();
    pack(kernel);
    const DeviceBuffer workspace(d, kernel.workspace_bytes(p, c.m, false), "workspace");
    const int64_t columns = gated ? p.n / 2 : p.n, ldy = columns + (gated ? 8 : 4), stride = c.m * ldy;
    const DeviceBuffer y = poisoned(static_cast<size_t>(stride * max_parts) * 4);
    DeviceLinearArgs a;
    a.m = c.m, a.x = x.data(), a.ldx = c.ldx, a.y = y.data(), a.ldy = ldy, a.y_bf16 = y_bf16;
    a.max_parts = max_parts, a.part_stride = stride, a.gated = gated;
    a.bias = bias_values.as<float>();
    a.workspace = workspace.data(), a.workspace_bytes = workspace.size();
    if (as_x16) {
      QuantizeArgs q;
      q.rows = c.m, q.cols = p.k, q.x = x.as<uint16_t>(), q.ldx = c.ldx;
      q.form.kind = DeviceForm::Kind::kHalf, q.form.group = kScaleColumns;
      q.codes.ld16 = round_up(p.k, kScaleColumns);
      x16 = poisoned(static_cast<size_t>(c.m * q.codes.ld16) * 2);
      x_scale = poisoned(static_cast<size_t>(c.m * q.codes.ld16 / kScaleColumns) * 4);
      q.codes.x16 = x16.as<uint16_t>(), q.codes.x_scale = x_scale.as<float>();
      device_ops(d.info()).quantize(q, d.stream());
      a.x = nullptr, a.x16 = x16.data(), a.x_scale = x_scale.as<float>(), a.ld16 = q.codes.ld16;
    }
    const int parts = kernel.run(p, packed.data(), a, d.info(), d.stream());
    EXPECT_LE(parts, max_parts);
    std::vector<float> out;
    y_bf16 = y_bf16 || gated;
    const auto wide = y_bf16 ? std::vector<float>{} : from_gpu<float>(y, static_cast<size_t>(stride * parts));
    const auto narrow = y_bf16 ? from_gpu<uint16_t>(y, static_cast<size_t>(stride)) : std::vector<uint16_t>{};
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float sum = 0;
        for (int part = 0; part < parts; ++part)
          sum += y_bf16 ? bf16_to_float(narrow[static_cast<size_t>(i * ldy + j)])
                        : wide[static_cast<size_t>(part * stride + i * ldy + j)];
        out.push_back(sum);
      }
    return out;
  }
  LinearCase c;
  DeviceBuffer x, codes, scales, zeros, bias_values, packed, x16, x_scale;
};

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
            std::vector<float> got(want.size());
            if (gated) {
              const auto bits = from_gpu<uint16_t>(y, want.size());
              for (size_t i = 0; i < got.size(); ++i) got[i] = bf16_to_float(bits[i]);
            } else {
              const auto all = from_gpu<float>(y, want.size() * static_cast<size_t>(parts));
              for (size_t i = 0; i < all.size(); ++i) got[i % got.size()] += all[i];
            }
            EXPECT_LT(relative_error(got, want), 5e-3) << kernel->name << ' ' << describe(p, m) << gated;
          }
}

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

// FP8 blocks, whose scales the sums of each 128 columns take.
TEST(DeviceLinear, MultipliesFp8Blocks) {
  NEEDS_GPU();
  Device& d = *gpu();
  int runs = 0;
  const DeviceForm form = fp8_runs();
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{256, 512}, {1008, 576}, {1024, 2048}, {16, 64}, {4096, 4096}})
      for (const int64_t m : unless_short<int64_t>({1, 9, 33, 64, 65, 70, 333}, {9, 33, 70})) {
        if (n == 4096 && (short_run() || (m != 33 && m != 70))) continue;
        const LinearProblem p = fp8_blocks(n, k);
        if (!kernel->supports(p, d.info()).ok || !kernel->takes_bytes(p, form, m, d.info())) continue;
        if (left_out(*kernel, p, {m, TileUse::Input::kBytes})) continue;
        Both both(p, m, m == 333 || m == 9);
        both.pack(*kernel);
        const Bytes bytes(both, form);
        const std::vector<float> want = both.reference();
        const int64_t whole = round_up(m, kTokenUnit) * n;
        for (const bool bf16 : {false, true}) {
          const int64_t parts = bf16 ? 1 : 8;
          const DeviceBuffer y = poisoned(static_cast<size_t>((parts - 1) * m * n + whole) * 4);
          const DeviceBuffer space(d, kernel->workspace_bytes(p, m, true), "workspace");
          DeviceLinearArgs a = bytes.args(m, space);
          a.y = y.data(), a.ldy = n, a.y_bf16 = bf16, a.part_stride = m * n;
          a.max_parts = static_cast<int>(parts), a.bias = both.bias_values.as<float>();
          std::vector<float> got[2];
          for (std::vector<float>& once : got) {
            const int written = kernel->run(p, both.packed.data(), a, d.info(), d.stream());
            once.resize(want.size());
            if (bf16) {
              const auto bits = from_gpu<uint16_t>(y, want.size());
              for (size_t i = 0; i < once.size(); ++i) once[i] = bf16_to_float(bits[i]);
            } else {
              const auto all = from_gpu<float>(y, want.size() * static_cast<size_t>(written));
              for (size_t i = 0; i < all.size(); ++i) once[i % once.size()] += all[i];
            }
          }
          EXPECT_LT(relative_error(got[0], want), 4e-3) << kernel->name << ' ' << describe(p, m) << bf16;
          EXPECT_EQ(got[0], got[1]);
          ++runs;
        }
      }
  if (d.info().major == 9) {
    EXPECT_GE(runs, without_blas() ? 6 : short_run() ? 15 : 50);
  }
}

constexpr std::pair<CodeType, DeviceForm::Kind> kByteKinds[] = {{CodeType::kInt, DeviceForm::Kind::kInt8},
                                                                {CodeType::kE4M3, DeviceForm::Kind::kE4M3}};

// Rounded activations as bytes: the product is exact up to sums and the rounding of y.
TEST(DeviceLinear, MultipliesBytes) {
  NEEDS_GPU();
  Device& d = *gpu();
  int runs = 0;
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    for (const auto& [code, kind] : kByteKinds)
      for (const auto& [n, k] :
           {std::pair<int64_t, int64_t>{256, 512}, {1008, 576}, {1024, 2048}, {16, 64}, {4096, 4096}})
        for (const int64_t m : unless_short<int64_t>({1, 9, 33, 64, 70, 333}, {9, 33, 70})) {
          if (n == 4096 && (short_run() || (m != 33 && m != 64))) continue;
          const LinearProblem p = weights(code, 8, n, k, 0, false);
          DeviceForm form;
          form.kind = kind;
          if (!kernel->supports(p, d.info()).ok || !kernel->takes_bytes(p, form, m, d.info())) continue;
          if (left_out(*kernel, p, {m, TileUse::Input::kBytes})) continue;
          Both both(p, m, m == 333 || m == 9);
          both.pack(*kernel);
          const Bytes bytes(both, form);
          const std::vector<float> want = both.reference();
          for (const bool bf16 : {false, true}) {
            const int64_t parts = bf16 ? 1 : 8;
            const DeviceBuffer y = poisoned(static_cast<size_t>(parts * m * n) * 4);
            const DeviceBuffer space(d, kernel->workspace_bytes(p, m, false), "workspace");
            DeviceLinearArgs a = bytes.args(m, space);
            a.y = y.data(), a.ldy = n, a.y_bf16 = bf16, a.part_stride = m * n;
            a.max_parts = static_cast<int>(parts), a.bias = both.bias_values.as<float>();
            const int written = kernel->run(p, both.packed.data(), a, d.info(), d.stream());
            std::vector<float> got(want.size());
            if (bf16) {
              const auto bits = from_gpu<uint16_t>(y, want.size());
              for (size_t i = 0; i < got.size(); ++i) got[i] = bf16_to_float(bits[i]);
            } else {
              const auto all = from_gpu<float>(y, want.size() * static_cast<size_t>(written));
              for (size_t i = 0; i < all.size(); ++i) got[i % got.size()] += all[i];
            }
            // The reference rounds weights to bf16, which neither product does.
            EXPECT_LT(relative_error(got, want), 4e-3) << kernel->name << ' ' << describe(p, m) << bf16;
            ++runs;
          }
        }
  if (d.info().major == 9) {
    EXPECT_GE(runs, without_blas() ? 12 : short_run() ? 30 : 100);
  }
}

// silu(gate) * up of alternating blocks of rows: (M,N/2) of (M,N).
std::vector<float> gate_values(const std::vector<float>& y, int64_t m, int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n / 2; ++j) {
      const float g = y[static_cast<size_t>(i * n + j / 8 * 16 + j % 8)];
      values.push_back(g / (1 + std::exp(-g)) * y[static_cast<size_t>(i * n + j / 8 * 16 + j % 8 + 8)]);
    }
  return values;
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
