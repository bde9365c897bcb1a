#include "kernels/cpu/driver/linear_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/numeric.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {
namespace {

int64_t bits_of(WeightForm form) {
  switch (form) {
    case WeightForm::kU4:
      return 4;
    case WeightForm::kU8:
    case WeightForm::kS8:
    case WeightForm::kE4M3:
      return 8;
    case WeightForm::kBF16:
    case WeightForm::kF16:
      return 16;
    case WeightForm::kF32:
      return 32;
  }
  return 32;
}

template <class T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
void store(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// Eight bytes of codes, zero bytes beyond column k.
uint64_t load_eight(const uint8_t* codes, int64_t c, int64_t k) {
  uint64_t eight = 0;
  std::memcpy(&eight, codes + c, static_cast<size_t>(std::min<int64_t>(8, k - c)));
  return eight;
}

// One row into lane r of a block whose bytes are zero where nothing is stored.
void pack_codes(WeightForm form, const uint8_t* codes, int64_t k, int64_t r, uint8_t* block) {
  switch (form) {
    case WeightForm::kU4:
      for (int64_t c = 0; c < k; c += 8) {
        const uint64_t q = (load_eight(codes, c, k) & 0x0f0f0f0f0f0f0f0full) ^ 0x0808080808080808ull;
        store(block + (c / 8 * 16 + r) * 4, static_cast<uint32_t>(q | (q >> 28)));
      }
      break;
    case WeightForm::kU8:
      for (int64_t c = 0; c < k; c += 8) {
        const uint64_t q = load_eight(codes, c, k) ^ 0x8080808080808080ull;
        store(block + (c / 4 * 16 + r) * 4, static_cast<uint32_t>(q));
        store(block + (c / 4 * 16 + 16 + r) * 4, static_cast<uint32_t>(q >> 32));
      }
      break;
    case WeightForm::kS8:
    case WeightForm::kE4M3:
      for (int64_t c = 0; c < k; ++c) block[c * 16 + r] = codes[c];
      break;
    case WeightForm::kBF16:
      for (int64_t c = 0; c < k; ++c) {
        store(block + ((c / 2 * 16 + r) * 2 + c % 2) * 2, load<uint16_t>(codes + 2 * c));
      }
      break;
    case WeightForm::kF16:
      for (int64_t c = 0; c < k; ++c) store(block + (c * 16 + r) * 2, load<uint16_t>(codes + 2 * c));
      break;
    case WeightForm::kF32:
      for (int64_t c = 0; c < k; ++c) store(block + (c * 16 + r) * 4, load<uint32_t>(codes + 4 * c));
      break;
  }
}

// Column c of row r as a float, without scale and zero point.
float code_at(WeightForm form, const uint8_t* block, int64_t c, int64_t r) {
  switch (form) {
    case WeightForm::kU4: {
      const uint8_t pair = block[(c / 8 * 16 + r) * 4 + c % 4];
      return static_cast<float>((c % 8 < 4 ? pair & 15 : pair >> 4) - 8);
    }
    case WeightForm::kU8:
      return static_cast<float>(block[(c / 4 * 16 + r) * 4 + c % 4] - 128);
    case WeightForm::kS8:
      return static_cast<float>(static_cast<int8_t>(block[c * 16 + r]));
    case WeightForm::kE4M3:
      return e4m3_to_float(block[c * 16 + r]);
    case WeightForm::kBF16:
      return bf16_to_float(load<uint16_t>(block + ((c / 2 * 16 + r) * 2 + c % 2) * 2));
    case WeightForm::kF16:
      return f16_to_float(load<uint16_t>(block + (c * 16 + r) * 2));
    case WeightForm::kF32:
      return load<float>(block + (c * 16 + r) * 4);
  }
  return 0;
}

void store_scale(ScaleType type, uint8_t* to, float scale) {
  switch (type) {
    case ScaleType::kBF16:
      store(to, float_to_bf16(scale));
      break;
    case ScaleType::kF16:
      store(to, float_to_f16(scale));
      break;
    case ScaleType::kF32:
      store(to, scale);
      break;
  }
}

float load_scale(ScaleType type, const uint8_t* from) {
  switch (type) {
    case ScaleType::kBF16:
      return bf16_to_float(load<uint16_t>(from));
    case ScaleType::kF16:
      return f16_to_float(load<uint16_t>(from));
    case ScaleType::kF32:
      return load<float>(from);
  }
  return 0;
}

bool has_nan(const uint8_t* e4m3, int64_t n) {
  return std::any_of(e4m3, e4m3 + n, [](uint8_t code) { return (code & 0x7f) == 0x7f; });
}

// Scales, zero points and the row sum of row `row` of `rows` into lane r.
void pack_qparams(const LinearLayout& at, const LinearProblem& p, const WeightRows& rows, int64_t row,
                  uint8_t* block) {
  const int64_t r = row % kBlockRows;
  const uint8_t* codes = static_cast<const uint8_t*>(rows.codes) + row * p.k;  // if they are bytes
  double sum = 0;
  for (int64_t g = 0; g < at.groups; ++g) {
    const int64_t begin = g * at.group, end = std::min(p.k, begin + at.group);
    float scale = p.has_scale ? rows.scales[row * at.groups + g] : 1.0f;
    if (at.form == WeightForm::kE4M3 && has_nan(codes + begin, end - begin)) {
      scale = std::numeric_limits<float>::quiet_NaN();
    }
    if (at.has_scale)
      store_scale(at.scale_type, block + at.scales + (g * kBlockRows + r) * at.scale_bytes, scale);
    const int zero = p.has_zero_point ? rows.zero_points[row * at.groups + g] : 0;
    if (p.has_zero_point) block[at.zeros + g * kBlockRows + r] = static_cast<uint8_t>(zero);
    if (p.act == ActType::kInt8) {
      int64_t group_sum = 0;
      for (int64_t c = begin; c < end; ++c) group_sum += static_cast<int8_t>(codes[c]) - zero;
      sum += static_cast<double>(group_sum) * static_cast<double>(scale);
    }
  }
  if (p.act == ActType::kInt8) store(block + at.sums + r * 4, static_cast<float>(sum));
}

}  // namespace

LinearLayout::LinearLayout(WeightForm f, const LinearProblem& p)
    : form(f),
      has_scale(p.has_scale || f == WeightForm::kE4M3),
      scale_type(p.scale_type),
      group(p.has_scale ? p.group : p.k),
      groups(p.has_scale ? p.groups() : 1),
      padded_k(round_up(p.k, kStep)),
      blocks(ceil_div(p.n, kBlockRows)),
      scale_bytes(!has_scale                      ? 0
                  : scale_type == ScaleType::kF32 ? 4
                                                  : 2) {
  scales = padded_k * kBlockRows * bits_of(form) / 8;
  zeros = scales + groups * kBlockRows * scale_bytes;
  sums = zeros + (p.has_zero_point ? groups * kBlockRows : 0);
  stride = round_up(sums + (p.act == ActType::kInt8 ? kBlockRows * 4 : 0), 64);
}

void pack_linear(const LinearLayout& at, const LinearProblem& p, const WeightRows& rows, uint8_t* packed) {
  const int64_t row_bytes = p.k * (at.form == WeightForm::kU4 ? 8 : bits_of(at.form)) / 8;
  for (int64_t row = 0; row < rows.rows; ++row) {
    uint8_t* block = packed + (rows.row0 + row) / kBlockRows * at.stride;
    const bool partial = rows.rows - row < kBlockRows || at.padded_k != p.k;
    if (row % kBlockRows == 0 && partial) std::memset(block, 0, static_cast<size_t>(at.stride));
    pack_codes(at.form, static_cast<const uint8_t*>(rows.codes) + row * row_bytes, p.k, row % kBlockRows,
               block);
    pack_qparams(at, p, rows, row, block);
  }
}

void unpack_linear_row(const LinearLayout& at, const LinearProblem& p, const uint8_t* packed, int64_t row,
                       float* out) {
  const uint8_t* block = packed + row / kBlockRows * at.stride;
  const int64_t r = row % kBlockRows;
  for (int64_t g = 0; g < at.groups; ++g) {
    float scale = 1, zero = 0;
    if (at.has_scale) {
      scale = load_scale(at.scale_type, block + at.scales + (g * kBlockRows + r) * at.scale_bytes);
    }
    if (p.has_zero_point) zero = static_cast<int8_t>(block[at.zeros + g * kBlockRows + r]);
    const int64_t end = std::min(p.k, (g + 1) * at.group);
    for (int64_t c = g * at.group; c < end; ++c) {
      const float value = code_at(at.form, block, c, r) - zero;
      if (!p.has_scale) {
        out[c] = at.has_scale ? value * scale : value;
      } else if (at.scale_type == ScaleType::kBF16) {
        out[c] = round_bf16(value * scale);
      } else {
        out[c] = at.scale_type == ScaleType::kF16 ? round_f16(value * scale) : value * scale;
      }
    }
  }
}

}  // namespace roundel
