// bf16, fp16 and fp8 (e4m3fn) to and from float, bit-exact, round to nearest even.
// Plain C++ so that every folder, kernels included, may use it; the SIMD kernels have their own.
#pragma once
#include <cstdint>
#include <cstring>

namespace roundel {

inline uint32_t float_bits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline float bits_float(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

inline float bf16_to_float(uint16_t h) {
  return bits_float(static_cast<uint32_t>(h) << 16);
}
inline uint16_t float_to_bf16(float x) {
  uint32_t u = float_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);  // quiet NaN
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}
inline float round_bf16(float x) {
  return bf16_to_float(float_to_bf16(x));
}

float f16_to_float(uint16_t h);
uint16_t float_to_f16(float x);
inline float round_f16(float x) {
  return f16_to_float(float_to_f16(x));
}

// E4M3 "fn": no infinities, 0x7f and 0xff are NaN, largest value 448. Conversion saturates to +-448.
constexpr float kE4M3Max = 448.0f;
float e4m3_to_float(uint8_t code);
uint8_t float_to_e4m3(float x);

}  // namespace roundel
