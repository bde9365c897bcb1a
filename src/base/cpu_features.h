// What this CPU and this operating system allow, asked once.
#pragma once
#include <string>

namespace roundel {

struct CpuFeatures {
  bool avx2 = false;         // AVX2 + FMA + F16C
  bool avx_vnni = false;     // dpbusd on 256 bits
  bool avx512 = false;       // F, BW, VL, DQ
  bool avx512_vnni = false;  // dpbusd on 512 bits
  bool amx_int8 = false;     // tiles of int8, with AVX-512 VNNI; the system allows them
  bool amx_bf16 = false;     // tiles of BF16, with AVX-512 BF16; the system allows them
  bool amx_denied = false;   // the CPU has AMX, the system does not allow it
};

// Detected by CPUID flags and XCR0, never by model. ROUNDEL_ISA=amx|avx512|avxvnni|avx2|baseline lowers it, for tests.
// AMX state must be asked for, once for the whole process: that happens here too.
const CpuFeatures& cpu_features();
std::string describe(const CpuFeatures& features);  // "avx2 avx512 avx512_vnni"

}  // namespace roundel
