// What this CPU and this operating system allow, asked once.
#pragma once
#include <string>

namespace roundel {

struct CpuFeatures {
  bool avx2 = false;         // AVX2 + FMA + F16C
  bool avx_vnni = false;     // dpbusd on 256 bits
  bool avx512 = false;       // F, BW, VL, DQ
  bool avx512_vnni = false;  // dpbusd on 512 bits
};

// Detected by CPUID flags and XCR0, never by model. ROUNDEL_ISA=avx512|avx2|baseline lowers it, for tests.
const CpuFeatures& cpu_features();
std::string describe(const CpuFeatures& features);  // "avx2 avx512 avx512_vnni"

}  // namespace roundel
