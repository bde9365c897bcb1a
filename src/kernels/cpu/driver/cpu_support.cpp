#include "base/cpu_features.h"
#include "kernels/cpu/common/amx.h"
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

Support avxvnni_supports(const CpuFeatures& cpu) {
  if (cpu.avx_vnni) return {};
  return {false, "the CPU has no AVX-VNNI, or ROUNDEL_ISA switches it off"};
}

Support avx512vnni_supports(const CpuFeatures& cpu) {
  if (cpu.avx512_vnni) return {};
  return {false, "the CPU has no AVX-512 VNNI"};
}

namespace {
Support amx_supports(bool has, const CpuFeatures& cpu, const char* what) {
  if (has) return {};
  return {false, cpu.amx_denied ? "the operating system does not allow AMX" : what};
}
}  // namespace

Support amx_int8_supports(const CpuFeatures& cpu) {
  return amx_supports(cpu.amx_int8, cpu, "the CPU has no AMX for int8, or ROUNDEL_ISA switches it off");
}

Support amx_bf16_supports(const CpuFeatures& cpu) {
  return amx_supports(cpu.amx_bf16, cpu, "the CPU has no AMX for BF16, or ROUNDEL_ISA switches it off");
}

}  // namespace roundel
