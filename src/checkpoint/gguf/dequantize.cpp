#include "checkpoint/gguf/dequantize.h"

#include <cstring>

#include "base/numeric.h"

namespace roundel {
namespace {

// Without branches, so that the loop over F16 tensors becomes vector code. Exact: scaling by 2^112 moves the exponent
// from FP16's bias to FP32's and makes subnormals normal.
inline float half(uint16_t h) {
  const float magnitude = bits_float(static_cast<uint32_t>(h & 0x7fff) << 13) * 0x1p112f;
  const uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  return bits_float(float_bits(magnitude) | special | static_cast<uint32_t>(h & 0x8000) << 16);
}

inline uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
inline uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline float load_half(const uint8_t* p) {
  return half(load_u16(p));
}

// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes. The low 6 bits of bytes 0-3 and 4-7 are scales
// and minima 0-3; bytes 8-11 hold the low 4 bits of 4-7 (scale low, minimum high), whose top 2 bits sit above the former.
struct ScaleMin {
  float scale, min;
};
inline ScaleMin scale_min(const uint8_t* packed, int i) {
  if (i < 4) return {static_cast<float>(packed[i] & 63), static_cast<float>(packed[i + 4] & 63)};
  const int low = packed[i + 4];
  return {static_cast<float>((low & 15) | (packed[i - 4] >> 6) << 4),
          static_cast<float>((low >> 4) | (packed[i] >> 6) << 4)};
}

}  // namespace

void dequantize_f32(const uint8_t* from, int64_t elements, float* out) {
  std::memcpy(out, from, static_cast<size_t>(elements) * 4);
}

void dequantize_f16(const uint8_t* from, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = load_half(from + 2 * i);
}

void dequantize_bf16(const uint8_t* from, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = bf16_to_float(load_u16(from + 2 * i));
}

// d, 16 bytes: low nibbles are elements 0-15, high nibbles 16-31.
void dequantize_q4_0(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 32, from += 18, out += 32) {
    const float d = load_half(from);
    for (int i = 0; i < 16; ++i) {
      out[i] = d * static_cast<float>((from[2 + i] & 15) - 8);
      out[i + 16] = d * static_cast<float>((from[2 + i] >> 4) - 8);
    }
  }
}

void dequantize_q4_1(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 32, from += 20, out += 32) {
    const float d = load_half(from), m = load_half(from + 2);
    for (int i = 0; i < 16; ++i) {
      out[i] = d * static_cast<float>(from[4 + i] & 15) + m;
      out[i + 16] = d * static_cast<float>(from[4 + i] >> 4) + m;
    }
  }
}

// As Q4, with the fifth bits of all 32 elements in one word.
void dequantize_q5_0(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 32, from += 22, out += 32) {
    const float d = load_half(from);
    const uint32_t high = load_u32(from + 2);
    for (int i = 0; i < 16; ++i) {
      const int a = (from[6 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
      const int b = (from[6 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
      out[i] = d * static_cast<float>(a - 16);
      out[i + 16] = d * static_cast<float>(b - 16);
    }
  }
}

void dequantize_q5_1(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 32, from += 24, out += 32) {
    const float d = load_half(from), m = load_half(from + 2);
    const uint32_t high = load_u32(from + 4);
    for (int i = 0; i < 16; ++i) {
      const int a = (from[8 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
      const int b = (from[8 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
      out[i] = d * static_cast<float>(a) + m;
      out[i + 16] = d * static_cast<float>(b) + m;
    }
  }
}

void dequantize_q8_0(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 32, from += 34, out += 32) {
    const float d = load_half(from);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(from[2 + i]));
  }
}

// d, dmin, 12 bytes of scales, 128 bytes: each 32 bytes are two groups of 32, low nibbles first.
void dequantize_q4_k(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 256, from += 144, out += 256) {
    const float d = load_half(from), dmin = load_half(from + 2);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin s = scale_min(from + 4, group);
      const float scale = d * s.scale, min = dmin * s.min;
      const uint8_t* q = from + 16 + group / 2 * 32;
      const int shift = group % 2 * 4;
      for (int i = 0; i < 32; ++i)
        out[group * 32 + i] = scale * static_cast<float>((q[i] >> shift) & 15) - min;
    }
  }
}

// As Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte i belongs to element i of group g.
void dequantize_q5_k(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 256, from += 176, out += 256) {
    const float d = load_half(from), dmin = load_half(from + 2);
    const uint8_t* high = from + 16;
    for (int group = 0; group < 8; ++group) {
      const ScaleMin s = scale_min(from + 4, group);
      const float scale = d * s.scale, min = dmin * s.min;
      const uint8_t* q = from + 48 + group / 2 * 32;
      const int shift = group % 2 * 4;
      for (int i = 0; i < 32; ++i) {
        const int code = ((q[i] >> shift) & 15) | ((high[i] >> group) & 1) << 4;
        out[group * 32 + i] = scale * static_cast<float>(code) - min;
      }
    }
  }
}

// 128 bytes of low nibbles, 64 of upper bit pairs, 16 int8 scales (one for 16 elements), d. Each half of the block holds
// four runs of 32: nibbles of bytes 0-31 and 32-63 low, then the same bytes high; bit pairs 0, 2, 4, 6 of 32 bytes.
void dequantize_q6_k(const uint8_t* from, int64_t elements, float* out) {
  for (; elements > 0; elements -= 256, from += 210, out += 256) {
    const uint8_t* scales = from + 192;
    const float d = load_half(from + 208);
    for (int run = 0; run < 8; ++run) {
      const uint8_t* low = from + run / 4 * 64 + run % 2 * 32;
      const uint8_t* high = from + 128 + run / 4 * 32;
      const int low_shift = run % 4 / 2 * 4, high_shift = run % 4 * 2;
      for (int i = 0; i < 32; ++i) {
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[run * 2 + i / 16]));
        const int code = ((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4;
        out[run * 32 + i] = scale * static_cast<float>(code - 32);
      }
    }
  }
}

}  // namespace roundel
