#include "checkpoint/gguf/convert.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/numeric.h"
#include "base/process.h"

namespace roundel {
namespace {

constexpr int64_t kPiece = 256 * 1024;  // elements; a multiple of every block size
constexpr int64_t kRun = 4096;          // dequantized at a time: stays in the first-level cache

// Returns false when a result is infinite or NaN.
bool round_run(const float* from, int64_t n, uint16_t* to) {
  uint32_t worst = 0;  // largest exponent field
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = float_bits(from[i]);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    to[i] = static_cast<uint16_t>(rounded);
    // A NaN of all ones would wrap around in `rounded`: look at the source too.
    worst = std::max(worst, std::max(rounded & 0x7f80u, (u >> 16) & 0x7f80u));
  }
  return worst < 0x7f80u;
}

// Elements [begin, end) of the tensor in its own order of rows.
class Piece {
 public:
  Piece(const ImportedTensor& tensor, const ByteSource& bytes) : t_(tensor), bytes_(bytes) {}

  void convert(int64_t begin, int64_t end, TensorWriter& writer) {
    const GgmlType& type = *t_.source->type;
    const int64_t n = end - begin;
    raw_.resize(static_cast<size_t>(n / type.block * type.block_bytes));
    out_.resize(static_cast<size_t>(n));
    if (t_.permuted_heads == 0) {
      bytes_.read(t_.source->begin + byte_offset(begin), raw_.data(), raw_.size());
    } else {
      read_permuted_rows(begin, end);
    }
    float values[kRun];
    for (int64_t at = 0; at < n; at += kRun) {
      const int64_t run = std::min(kRun, n - at);
      type.dequantize(raw_.data() + at / type.block * type.block_bytes, run, values);
      if (!round_run(values, run, out_.data() + at))
        fail(ErrorCode::kInvalid,
             "{}: tensor {} ({}) holds a value from element {} on that is NaN, infinite, or too large "
             "for BF16; the file is damaged",
             bytes_.name(), t_.source->name, type.name, begin + at);
    }
    writer.write(t_.spec.name, static_cast<uint64_t>(begin) * 2, out_.data(), out_.size() * 2);
  }

 private:
  uint64_t byte_offset(int64_t element) const {
    return static_cast<uint64_t>(element) / t_.source->type->block * t_.source->type->block_bytes;
  }
  // Whole rows. A bias is one column.
  void read_permuted_rows(int64_t begin, int64_t end) {
    const int64_t rows = t_.spec.shape[0];
    const int64_t columns = t_.spec.shape.size() == 2 ? t_.spec.shape[1] : 1;
    const int64_t head_dim = rows / t_.permuted_heads;
    const size_t row_bytes = byte_offset(columns);
    uint8_t* to = raw_.data();
    for (int64_t row = begin / columns; row < end / columns; ++row, to += row_bytes) {
      const int64_t source = permuted_row(row, head_dim) * columns;
      bytes_.read(t_.source->begin + byte_offset(source), to, row_bytes);
    }
  }

  const ImportedTensor& t_;
  const ByteSource& bytes_;
  std::vector<uint8_t> raw_;
  std::vector<uint16_t> out_;
};

}  // namespace

void convert_to_bf16(const ImportedTensor& tensor, const ByteSource& bytes, TensorWriter& writer,
                     ThreadPool& pool) {
  const int64_t n = static_cast<int64_t>(tensor.spec.elements());
  int64_t step = kPiece;
  if (tensor.permuted_heads != 0) {
    const int64_t columns = tensor.spec.shape.size() == 2 ? tensor.spec.shape[1] : 1;
    step = std::max<int64_t>(1, kPiece / columns) * columns;
  }
  pool.parallel_for((n + step - 1) / step, 1, [&](int64_t first, int64_t last) {
    Piece piece(tensor, bytes);
    for (int64_t i = first; i < last; ++i) {
      throw_if_interrupted();
      piece.convert(i * step, std::min(n, (i + 1) * step), writer);
    }
  });
}

}  // namespace roundel
