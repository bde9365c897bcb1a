#include "base/cpu_features.h"
#include "kernels/cpu/common/tile.h"

namespace roundel {

Support avx2_supports(const CpuFeatures& cpu) {
  if (cpu.avx2) return {};
  return {false, "the CPU has no AVX2 with FMA and F16C"};
}

Support avx512_supports(const CpuFeatures& cpu) {
  if (cpu.avx512) return {};
  return {false, "the CPU has no AVX-512 (F, BW, VL, DQ)"};
}

}  // namespace roundel
