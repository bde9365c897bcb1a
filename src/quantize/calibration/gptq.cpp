#include "quantize/calibration/gptq.h"

#include <cstring>

#include "base/thread_pool.h"
#include "codec/encoder.h"
#include "quantize/calibration/code_rule.h"

namespace roundel {
namespace {

constexpr int64_t kRows = 16;  // rows that a thread takes at a time

class Walk {
 public:
  Walk(const Matrix& w, const QuantArgs& args, DType dtype, QuantizedRows grid, const HessianFactor& factor,
       int64_t block)
      : factor_(factor),
        rule_(args),
        dtype_(dtype),
        out_(std::move(grid)),
        block_(block),
        w_(w.rows, w.cols),
        group_(static_cast<size_t>(w.cols)) {
    const int64_t width = group_width(args, w.cols);
    for (int64_t i = 0; i < w.cols; ++i)
      group_[static_cast<size_t>(i)] = factor.order[static_cast<size_t>(i)] / width;
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t i = 0; i < w.cols; ++i) {
        const auto c = static_cast<size_t>(factor.order[static_cast<size_t>(i)]);
        w_.row(r)[i] = factor.dead[c] ? 0.0f : w.row(r)[c];
      }
  }

  QuantizedRows run(ThreadPool& pool) {
    for (int64_t i0 = 0; i0 < w_.cols; i0 += block_) {
      const int64_t b = std::min(block_, w_.cols - i0);
      Matrix errors(w_.rows, b);
      pool.parallel_for(w_.rows, kRows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) walk_block(r, i0, b, errors.row(r));
      });
      if (i0 + b < w_.cols) pass_on(i0, b, errors, pool);
    }
    return std::move(out_);
  }

 private:
  // Columns [i0, i0 + b) of row r; errors: (b), each divided by its column's diagonal.
  void walk_block(int64_t r, int64_t i0, int64_t b, float* errors) {
    const VectorOps& ops = vector_ops();
    float* w = w_.row(r);
    const float* scales = out_.scales.data() + r * out_.groups;
    const int8_t* zeros = out_.zero_points.empty() ? nullptr : out_.zero_points.data() + r * out_.groups;
    int8_t* codes = out_.codes.data() + r * out_.cols;
    for (int64_t i = i0; i < i0 + b; ++i) {
      const float* u = factor_.upper.row(i);
      const int64_t g = group_[static_cast<size_t>(i)];
      const float zero = zeros ? static_cast<float>(zeros[g]) : 0.0f;
      const int8_t code = rule_.code(w[i], scales[g], zero);
      codes[factor_.order[static_cast<size_t>(i)]] = code;
      const float error = (w[i] - round_to(dtype_, rule_.value(code, scales[g], zero))) / u[i];
      errors[i - i0] = error;
      ops.axpy(-error, u + i + 1, i0 + b - i - 1, w + i + 1);
    }
  }

  // w[:, i0 + b ..] -= errors . U[i0 .. i0 + b, i0 + b ..]
  void pass_on(int64_t i0, int64_t b, const Matrix& errors, ThreadPool& pool) {
    const int64_t rest = w_.cols - i0 - b;
    Matrix u(rest, b);
    pool.parallel_for(rest, 16, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j)
        for (int64_t i = 0; i < b; ++i) u.row(j)[i] = factor_.upper.row(i0 + i)[i0 + b + j];
    });
    const PackedMatrix right(u, pool);
    constexpr int64_t kPart = 512;
    Matrix product(std::min(kPart, w_.rows), rest);
    for (int64_t r0 = 0; r0 < w_.rows; r0 += kPart) {
      const int64_t n = std::min(kPart, w_.rows - r0);
      right.multiply(errors.row(r0), n, errors.ld, product.row(0), product.ld, pool);
      pool.parallel_for(n, kRows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          vector_ops().axpy(-1.0f, product.row(r), rest, w_.row(r0 + r) + i0 + b);
      });
    }
  }

  const HessianFactor& factor_;
  CodeRule rule_;
  DType dtype_;
  QuantizedRows out_;
  int64_t block_;
  Matrix w_;                    // in visiting order
  std::vector<int64_t> group_;  // of the column visited i-th
};

}  // namespace

QuantizedRows round_to_nearest(const Matrix& w, const QuantArgs& args, DType dtype, const std::string& module,
                               ThreadPool& pool) {
  const auto element = static_cast<int64_t>(dtype_size(dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(w.rows * w.cols * element));
  pool.parallel_for(w.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      narrow_from_float(dtype, w.row(r), bytes.data() + r * w.cols * element, static_cast<size_t>(w.cols));
  });
  WeightEncoder encoder(args, w.rows, w.cols, dtype, module);
  for (; encoder.wants_pass(); encoder.end_pass()) encoder.observe(bytes.data(), 0, w.rows, pool);
  QuantizedRows out;
  encoder.encode(bytes.data(), 0, w.rows, &out, pool);
  return out;
}

QuantizedRows gptq(const Matrix& w, const QuantArgs& args, DType dtype, QuantizedRows grid,
                   const HessianFactor& factor, int64_t block, ThreadPool& pool) {
  CHECK(!factor.failed && grid.rows == w.rows && grid.cols == w.cols && block > 0);
  return Walk(w, args, dtype, std::move(grid), factor, block).run(pool);
}

Matrix values_of(const QuantizedRows& rows, const QuantArgs& args, ThreadPool& pool) {
  const CodeRule rule(args);
  const int64_t width = group_width(args, rows.cols);
  Matrix m(rows.rows, rows.cols);
  pool.parallel_for(rows.rows, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int8_t* codes = rows.codes.data() + r * rows.cols;
      for (int64_t g = 0; g < rows.groups; ++g) {
        const auto at = static_cast<size_t>(r * rows.groups + g);
        const float zero = rows.zero_points.empty() ? 0.0f : static_cast<float>(rows.zero_points[at]);
        const int64_t c1 = std::min(rows.cols, (g + 1) * width);
        for (int64_t c = g * width; c < c1; ++c) m.row(r)[c] = rule.value(codes[c], rows.scales[at], zero);
      }
    }
  });
  return m;
}

}  // namespace roundel
