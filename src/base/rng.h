// Counter-based random numbers: the same (seed, index) gives the same number on every machine and thread.
// SplitMix64's finaliser (Steele, Lea, Flood 2014) over a counter.
#pragma once
#include <cstdint>

namespace roundel {

inline uint64_t random_u64(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
// In [0, 1).
inline double random_unit(uint64_t seed, uint64_t index) {
  return static_cast<double>(random_u64(seed, index) >> 11) * 0x1p-53;
}

}  // namespace roundel
