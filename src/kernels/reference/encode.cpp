// reference_encode: ranges, rounding and packing by plain loops; what the SIMD versions must equal bit for bit.
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "kernels/api/encode.h"

namespace roundel {
namespace {

struct Bf16 {
  using Bits = uint16_t;
  static float widen(uint16_t x) { return bf16_to_float(x); }
  static float round(float x) { return round_bf16(x); }
};
struct F16 {
  using Bits = uint16_t;
  static float widen(uint16_t x) { return f16_to_float(x); }
  static float round(float x) { return round_f16(x); }
};
struct F32 {
  using Bits = uint32_t;
  static float widen(uint32_t x) { return bits_float(x); }
  static float round(float x) { return x; }
};

template <class T>
float element(const void* x, int64_t i) {
  typename T::Bits bits = 0;
  std::memcpy(&bits, static_cast<const char*>(x) + i * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
  return T::widen(bits);
}

template <class Fn>
auto with_type(SourceType type, Fn fn) {
  switch (type) {
    case SourceType::kBF16:
      return fn(Bf16{});
    case SourceType::kF16:
      return fn(F16{});
    case SourceType::kF32:
      break;
  }
  return fn(F32{});
}

Support supports(const CpuFeatures&) {
  return {};
}

template <class T>
RangeResult range_of(const void* x, int64_t n) {
  RangeResult r;
  for (int64_t i = 0; i < n; ++i) {
    const float v = element<T>(x, i);
    if (!std::isfinite(v)) {
      if (r.not_finite++ == 0) r.first_not_finite = i;
      continue;
    }
    if (v < r.lo) r.lo = v;
    if (v > r.hi) r.hi = v;
  }
  return r;
}

RangeResult range(SourceType type, const void* x, int64_t n) {
  return with_type(type, [&](auto t) { return range_of<decltype(t)>(x, n); });
}

template <class T>
void encode_int_of(const void* x, int64_t n, float scale, float zero_point, float qmin, float qmax,
                   int8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    float t = T::round(element<T>(x, i) / scale);
    t = T::round(t + zero_point);
    if (t < qmin) t = qmin;
    if (t > qmax) t = qmax;
    codes[i] = std::isnan(t) ? int8_t{0} : static_cast<int8_t>(std::nearbyint(t));
  }
}

void encode_int(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                float qmax, int8_t* codes) {
  with_type(type, [&](auto t) {
    encode_int_of<decltype(t)>(x, n, scale, zero_point, qmin, qmax, codes);
    return 0;
  });
}

template <class T>
void encode_e4m3_of(const void* x, int64_t n, float scale, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const float t = T::round(element<T>(x, i) / scale);
    codes[i] = std::isnan(t) ? uint8_t{0} : float_to_e4m3(t);
  }
}

void encode_e4m3(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes) {
  with_type(type, [&](auto t) {
    encode_e4m3_of<decltype(t)>(x, n, scale, codes);
    return 0;
  });
}

void pack_bits(const int8_t* codes, int64_t n, int bits, uint32_t* words) {
  const uint32_t offset = 1u << (bits - 1);
  const uint32_t mask = (1u << bits) - 1;
  uint64_t buffer = 0;
  int filled = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t u = (static_cast<uint32_t>(codes[i]) + offset) & mask;
    buffer |= u << filled;
    filled += bits;
    if (filled >= 32) {
      *words++ = static_cast<uint32_t>(buffer);
      buffer >>= 32;
      filled -= 32;
    }
  }
  if (filled > 0) *words = static_cast<uint32_t>(buffer);
}

void unpack_bits(const uint32_t* words, int64_t n, int bits, int8_t* codes) {
  const int32_t offset = 1 << (bits - 1);
  const uint32_t mask = (1u << bits) - 1;
  uint64_t buffer = 0;
  int filled = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (filled < bits) {
      buffer |= static_cast<uint64_t>(*words++) << filled;
      filled += 32;
    }
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(static_cast<uint32_t>(buffer) & mask) - offset);
    buffer >>= bits;
    filled -= bits;
  }
}

}  // namespace

extern const EncodeOps kReferenceEncode = {"reference_encode", supports,  range,      encode_int,
                                           encode_e4m3,        pack_bits, unpack_bits};

}  // namespace roundel
