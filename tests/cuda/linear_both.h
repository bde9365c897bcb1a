// What tests of linears on a GPU share: a problem on both sides.
#pragma once
#include "base/numeric.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {

inline LinearProblem fp8_blocks(int64_t n, int64_t k) {
  LinearProblem p = weights(CodeType::kE4M3, 8, n, k, kFp8Block, false, ScaleType::kF32);
  p.fp8_blocks = true;
  return p;
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

// silu(gate) * up of alternating blocks of rows: (M,N/2) of (M,N).
inline std::vector<float> gate_values(const std::vector<float>& y, int64_t m, int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n / 2; ++j) {
      const float g = y[static_cast<size_t>(i * n + j / 8 * 16 + j % 8)];
      values.push_back(g / (1 + std::exp(-g)) * y[static_cast<size_t>(i * n + j / 8 * 16 + j % 8 + 8)]);
    }
  return values;
}

// `count` values of bf16, or the sums of `parts` float matrices.
inline std::vector<float> read_result(const DeviceBuffer& y, bool bf16, size_t count, int parts) {
  std::vector<float> got(count);
  if (bf16) {
    const auto bits = from_gpu<uint16_t>(y, count);
    for (size_t i = 0; i < count; ++i) got[i] = bf16_to_float(bits[i]);
  } else {
    const auto all = from_gpu<float>(y, count * static_cast<size_t>(parts));
    for (size_t i = 0; i < all.size(); ++i) got[i % count] += all[i];
  }
  return got;
}

}  // namespace roundel
