#include "base/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

// Linux hands out the 8 KiB of tile registers on request only: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA).
bool ask_for_tiles(uint64_t state) {
  constexpr uint64_t kTileState = 3u << 17;
  constexpr long kRequest = 0x1023, kTileData = 18;
  return (state & kTileState) == kTileState && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
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
  const bool tiles = f.avx512_vnni && (d & (1u << 24));
  f.amx_int8 = tiles && (d & (1u << 25));
  f.amx_bf16 = tiles && (d & (1u << 22)) && (a1 & (1u << 5));
  return f;
}

void allow_tiles(CpuFeatures& f) {
  if ((!f.amx_int8 && !f.amx_bf16) || ask_for_tiles(xcr0())) return;
  f.amx_int8 = f.amx_bf16 = false;
  f.amx_denied = true;
}

CpuFeatures detect_and_lower() {
  CpuFeatures f = detect();
  const char* wanted = std::getenv("ROUNDEL_ISA");
  const std::string_view isa = wanted && *wanted ? wanted : "amx";
  if (isa == "amx") {
    allow_tiles(f);
    return f;
  }
  f.amx_int8 = f.amx_bf16 = false;
  if (isa == "avx512") return f;
  if (isa == "avxvnni" || isa == "avx2") {
    f.avx512 = f.avx512_vnni = false;
    if (isa == "avx2") f.avx_vnni = false;
    return f;
  }
  if (isa == "baseline") return CpuFeatures{};
  fail(ErrorCode::kUsage, "ROUNDEL_ISA is \"{}\", expected amx, avx512, avxvnni, avx2 or baseline", isa);
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
  if (f.amx_int8) text += " amx_int8";
  if (f.amx_bf16) text += " amx_bf16";
  return text.empty() ? "baseline" : text.substr(1);
}

}  // namespace roundel
