#include "quantize/calibration/hessian_factor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/thread_pool.h"

namespace roundel {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kPanel = 256;

// Rows [r0, r1) of columns [c0, c0 + cols) as floats.
Matrix to_floats(const double* a, int64_t ld, int64_t r0, int64_t r1, int64_t c0, int64_t cols,
                 ThreadPool& pool) {
  Matrix m(r1 - r0, cols);
  pool.parallel_for(m.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < cols; ++c) m.row(r)[c] = static_cast<float>(a[(r0 + r) * ld + c0 + c]);
  });
  return m;
}

// c (m,n) -= x . w^T. The products are of floats, as all of llm-compressor's are; what they are taken from is double.
void subtract_product(double* c, int64_t ldc, const float* x, int64_t ldx, int64_t m, const PackedMatrix& w,
                      ThreadPool& pool) {
  constexpr int64_t kRows = 256;
  Matrix y(std::min(m, kRows), w.rows());
  for (int64_t r0 = 0; r0 < m; r0 += kRows) {
    const int64_t n = std::min(kRows, m - r0);
    w.multiply(x + r0 * ldx, n, ldx, y.row(0), y.ld, pool);
    pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        double* to = c + (r0 + r) * ldc;
        const float* from = y.row(r);
        for (int64_t j = 0; j < y.cols; ++j) to[j] -= static_cast<double>(from[j]);
      }
    });
  }
}

// The diagonal block, unblocked.
bool cholesky_block(double* a, int64_t n, int64_t ld) {
  for (int64_t j = 0; j < n; ++j) {
    double d = a[j * ld + j];
    for (int64_t k = 0; k < j; ++k) d -= a[j * ld + k] * a[j * ld + k];
    if (!(d > 0) || !std::isfinite(d)) return false;
    d = std::sqrt(d);
    a[j * ld + j] = d;
    for (int64_t i = j + 1; i < n; ++i) {
      double s = a[i * ld + j];
      for (int64_t k = 0; k < j; ++k) s -= a[i * ld + k] * a[j * ld + k];
      a[i * ld + j] = s / d;
    }
  }
  return true;
}

void invert_block(double* l, int64_t n, int64_t ld) {
  for (int64_t j = 0; j < n; ++j) {
    l[j * ld + j] = 1.0 / l[j * ld + j];
    for (int64_t i = j + 1; i < n; ++i) {
      double s = 0;
      for (int64_t k = j; k < i; ++k) s += l[i * ld + k] * l[k * ld + j];
      l[i * ld + j] = -s / l[i * ld + i];
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) l[i * ld + j] = 0;  // what the tiles of cholesky() left there
}

}  // namespace

bool cholesky(double* a, int64_t n, int64_t ld, ThreadPool& pool) {
  std::vector<double> transposed(static_cast<size_t>(kBlock * kBlock));
  for (int64_t k0 = 0; k0 < n; k0 += kBlock) {
    const int64_t b = std::min(kBlock, n - k0), rest = n - k0 - b;
    double* diagonal = a + k0 * ld + k0;
    if (!cholesky_block(diagonal, b, ld)) return false;
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = j; k < b; ++k) transposed[static_cast<size_t>(j * kBlock + k)] = diagonal[k * ld + j];
    // L21 = A21 L11^-T
    pool.parallel_for(rest, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* row = a + (k0 + b + i) * ld + k0;
        for (int64_t j = 0; j < b; ++j) {
          const double* l = &transposed[static_cast<size_t>(j * kBlock)];
          row[j] /= l[j];
          for (int64_t k = j + 1; k < b; ++k) row[k] -= row[j] * l[k];
        }
      }
    });
    // A22 -= L21 L21^T, the lower triangle in panels of columns.
    const Matrix l21 = to_floats(a, ld, k0 + b, n, k0, b, pool);
    for (int64_t c = 0; c < rest; c += kPanel) {
      const PackedMatrix right(l21.row(c), std::min(kPanel, rest - c), b, l21.ld, pool);
      double* to = a + (k0 + b + c) * ld + k0 + b + c;
      subtract_product(to, ld, l21.row(c), l21.ld, rest - c, right, pool);
    }
  }
  return true;
}

void invert_lower(double* l, int64_t n, int64_t ld, ThreadPool& pool) {
  // Forward substitution on the identity, block row by block row: X_k = L_kk^-1 B_k, then B_i -= L_ik X_k for all rows
  // below. B takes the place of the columns of L that are done.
  for (int64_t k0 = 0; k0 < n; k0 += kBlock) {
    const int64_t b = std::min(kBlock, n - k0), done = k0 + b, rest = n - done;
    double* diagonal = l + k0 * ld + k0;
    invert_block(diagonal, b, ld);
    pool.parallel_for(k0, kBlock, [&](int64_t begin, int64_t end) {
      std::vector<double> x(static_cast<size_t>(kBlock));
      for (int64_t c = begin; c < end; c += kBlock) {
        // From the last row up: a row of X needs the rows of B above it.
        for (int64_t r = b; r-- > 0;) {
          std::fill(x.begin(), x.end(), 0.0);
          for (int64_t k = 0; k <= r; ++k) {
            const double factor = diagonal[r * ld + k];
            const double* from = l + (k0 + k) * ld + c;
            for (int64_t j = 0; j < kBlock; ++j) x[static_cast<size_t>(j)] += factor * from[j];
          }
          std::copy(x.begin(), x.end(), l + (k0 + r) * ld + c);
        }
      }
    });
    if (rest == 0) continue;
    const Matrix column = to_floats(l, ld, done, n, k0, b, pool);
    // X_k transposed: (done,b).
    Matrix right(done, b);
    pool.parallel_for(done, 16, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t r = 0; r < b; ++r) right.row(c)[r] = static_cast<float>(l[(k0 + r) * ld + c]);
    });
    pool.parallel_for(rest, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) std::fill_n(l + (done + r) * ld + k0, b, 0.0);
    });
    subtract_product(l + done * ld, ld, column.row(0), column.ld, rest, PackedMatrix(right, pool), pool);
  }
}

namespace {

std::vector<int32_t> visiting_order(const Matrix& h, bool descending) {
  std::vector<int32_t> order(static_cast<size_t>(h.cols));
  std::iota(order.begin(), order.end(), 0);
  if (descending)
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return h.row(a)[a] > h.row(b)[b]; });
  return order;
}

}  // namespace

HessianFactor factorize(const Matrix& h, const FactorOptions& options, ThreadPool& pool) {
  const int64_t n = h.cols;
  HessianFactor f;
  f.order = visiting_order(h, options.descending);
  f.dead.resize(static_cast<size_t>(n));
  double mean = 0;
  for (int64_t c = 0; c < n; ++c) {
    const bool dead = h.row(c)[c] == 0;
    f.dead[static_cast<size_t>(c)] = dead;
    f.dead_count += dead;
    mean += dead ? 1.0 : static_cast<double>(h.row(c)[c]);
  }
  mean /= static_cast<double>(n);

  // H^-1 = U^T U with U upper is a Cholesky factorization from the last column on: with the columns reversed, H = L L^T and
  // U is L^-1, reversed again. One factorization and one inverse instead of two and one.
  std::vector<double> a(static_cast<size_t>(n * n));
  for (f.dampening = options.dampening;;) {
    pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t r = f.order[static_cast<size_t>(n - 1 - i)];
        for (int64_t j = 0; j <= i; ++j) {
          const int32_t c = f.order[static_cast<size_t>(n - 1 - j)];
          double value = static_cast<double>(h.row(r)[c]);
          if (i == j) value = (f.dead[static_cast<size_t>(r)] ? 1.0 : value) + f.dampening * mean;
          a[static_cast<size_t>(i * n + j)] = value;
        }
      }
    });
    if (cholesky(a.data(), n, n, pool)) break;
    if (f.dampening >= 1) {
      f.failed = true;
      return f;
    }
    f.dampening = std::min(1.0, std::max(f.dampening, 1e-4) * 10);
  }
  invert_lower(a.data(), n, n, pool);
  f.upper = Matrix(n, n);
  pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = i; j < n; ++j)
        f.upper.row(i)[j] = static_cast<float>(a[static_cast<size_t>((n - 1 - i) * n + (n - 1 - j))]);
  });
  return f;
}

}  // namespace roundel
