#include "base/cpu_features.h"

#include <cpuid.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace roundel {
namespace {

uint64_t xcr0() {
  uint32_t lo = 0, hi = 0;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (static_cast<uint64_t>(hi) << 32) | lo;
}

CpuFeatures detect() {
  CpuFeatures f;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = c & (1u << 27), fma = c & (1u << 12), f16c = c & (1u << 29), avx = c & (1u << 28);
  if (!osxsave || !avx) return f;
  const uint64_t state = xcr0();
  if ((state & 6) != 6) return f;
  uint32_t a1 = 0, b1 = 0, c1 = 0, d1 = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
  f.avx2 = (b & (1u << 5)) && fma && f16c;
  f.avx_vnni = f.avx2 && (a1 & (1u << 4));
  const bool zmm = (state & 0xe0) == 0xe0;
  f.avx512 = f.avx2 && zmm && (b & (1u << 16)) && (b & (1u << 17)) && (b & (1u << 30)) && (b & (1u << 31));
  f.avx512_vnni = f.avx512 && (c & (1u << 11));
  return f;
}

CpuFeatures detect_and_lower() {
  CpuFeatures f = detect();
  const char* wanted = std::getenv("ROUNDEL_ISA");
  if (!wanted || !*wanted) return f;
  const std::string_view isa = wanted;
  if (isa == "avx512") return f;
  if (isa == "avx2") {
    f.avx512 = f.avx512_vnni = f.avx_vnni = false;
    return f;
  }
  if (isa == "baseline") return CpuFeatures{};
  fail(ErrorCode::kUsage, "ROUNDEL_ISA is \"{}\", expected avx512, avx2 or baseline", isa);
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect_and_lower();
  return features;
}

std::string describe(const CpuFeatures& f) {
  std::string text;
  if (f.avx2) text += " avx2";
  if (f.avx_vnni) text += " avx_vnni";
  if (f.avx512) text += " avx512";
  if (f.avx512_vnni) text += " avx512_vnni";
  return text.empty() ? "baseline" : text.substr(1);
}

}  // namespace roundel
