// The listed AMX kernels for matrices: what each can do, and how a problem is cut into parts for the threads.
// The parts themselves are in kernels/cpu/amx.
#include <algorithm>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/cpu/common/amx.h"
#include "kernels/cpu/driver/linear_drive.h"
#include "kernels/cpu/driver/scratch.h"

namespace roundel {
namespace {

thread_local Scratch scratch, sums_scratch, split_scratch;

// Sums of x over the segments in which common/linear_int8.h and amx/linear.h add: (M,segments).
const int32_t* sum_tokens(const LinearLayout& at, int64_t k, const LinearArgs& args, int64_t segments,
                          ThreadPool& pool) {
  int32_t* sums = reinterpret_cast<int32_t*>(sums_scratch.reserve(args.m * segments * 4));
  pool.parallel_for(args.m, 16, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      int32_t* to = sums + m * segments;
      const int8_t* x = args.x_codes + m * args.ldx;
      for (int64_t g = 0; g < at.groups; ++g) {
        const int64_t group_end = std::min(k, (g + 1) * at.group);
        for (int64_t c = g * at.group; c < group_end; c += kIntSegment)
          *to++ = amx_sum(x + c, std::min(kIntSegment, group_end - c));
      }
    }
  });
  return sums;
}

// Floats as 16-bit integers, their bytes apart.
void split_x(const LinearLayout& at, int64_t k, const LinearArgs& args, int64_t most, AmxPart& part,
             ThreadPool& pool) {
  part.ldx = (ceil_div(k, 64) | 1) * 64;  // an odd number of cache lines: rows lie in different sets of it
  uint8_t* const planes = split_scratch.reserve(2 * args.m * part.ldx);
  auto* const scales = reinterpret_cast<float*>(sums_scratch.reserve(args.m * part.segments * 4));
  part.x = planes;
  part.part_scales = scales;
  part.paired = args.m <= kAmxPairedTokens;
  pool.parallel_for(args.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      float* to = scales + m * part.segments;
      const float* x = args.x + m * args.ldx;
      uint8_t* const high = planes + 2 * m * part.ldx;
      uint8_t* const low = high + part.ldx;
      std::fill(high + k / 64 * 64, low, uint8_t{0});
      std::fill(low + k / 64 * 64, low + part.ldx, uint8_t{0});
      for (int64_t g = 0; g < at.groups; ++g) {
        const int64_t group_end = std::min(k, (g + 1) * at.group);
        for (int64_t c = g * at.group; c < group_end; c += most)
          *to++ = amx_split(x + c, std::min(most, group_end - c), part.paired, high + c, low + c);
      }
    }
  });
}

int64_t segments_of(const LinearLayout& at, int64_t k, int64_t most) {
  int64_t segments = 0;
  for (int64_t g = 0; g < at.groups; ++g)
    segments += ceil_div(std::min(k, (g + 1) * at.group) - g * at.group, most);
  return segments;
}

// split: the most columns of a segment where floats are multiplied as 16-bit integers, else 0.
void drive_parts(AmxFn fn, int64_t split, const LinearLayout& at, const LinearProblem& p,
                 const uint8_t* packed, const LinearArgs& args, ThreadPool& pool) {
  if (args.m <= 0 || p.n <= 0) return;
  AmxPart part;
  static_cast<LinearTile&>(part) = tile_of(at, p, packed, args);
  if (split > 0) {
    part.segments = segments_of(at, p.k, split);
    split_x(at, p.k, args, split, part, pool);
  } else if (p.act == ActType::kInt8) {
    part.segments = segments_of(at, p.k, kIntSegment);
    part.token_sums = sum_tokens(at, p.k, args, part.segments, pool);
  }

  // Tokens in equal parts of whole tiles, rows in parts that give each thread a few of them.
  const int64_t token_parts = ceil_div(args.m, kAmxTokens);
  const int64_t tokens = round_up(ceil_div(args.m, token_parts), 32);
  int64_t blocks = kAmxBlocks;
  while (blocks > 2 && ceil_div(at.blocks, blocks) * token_parts < int64_t{2} * pool.size()) blocks /= 2;
  const int64_t row_parts = ceil_div(at.blocks, blocks);
  const int64_t totals = ceil_div(blocks, 2) * ceil_div(tokens, 16) * 16 * 2 * kBlockRows * 4;

  pool.parallel_for(row_parts * token_parts, 1, [&](int64_t begin, int64_t end) {
    AmxPart mine = part;
    uint8_t* memory = scratch.reserve(kAmxPanelBytes + totals);
    mine.panel = memory;
    mine.totals = reinterpret_cast<float*>(memory + kAmxPanelBytes);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % row_parts;
      mine.block0 = row * blocks;
      mine.block1 = std::min(at.blocks, mine.block0 + blocks);
      mine.token0 = i / row_parts * tokens;
      mine.token1 = std::min(args.m, mine.token0 + tokens);
      fn(mine);
    }
  });
}

// Two sums of 16-bit integers are stored and scaled for each group, one of BF16: with 128 columns few tokens take 0.7 of the
// time of BF16 and many 1.2, with 32 columns 0.5 and 1.8.
constexpr int64_t kSplitGroup = 128;

using CpuSupports = Support (*)(const CpuFeatures&);

// kFew: the tile function for up to kDirectTokens tokens, with the same results, that reads the same packed weight.
template <CpuSupports kCpu, WeightForm kForm, ActType kAct, AmxFn kPart, LinearTileFn kFew, int64_t kSplit>
struct AmxKernel {
  static Support supports(const LinearProblem& p, const CpuFeatures& cpu) {
    if (kAct != p.act)
      return {false, kAct == ActType::kInt8 ? "activations are not int8" : "activations are int8"};
    const Support form = form_supports(kForm, p);
    if (!form.ok) return form;
    if (p.has_scale && p.groups() > 1 && p.group % kAmxStep != 0)
      return {false, "the group size is not a multiple of 32"};
    if (kSplit > 0 && p.groups() > 1 && p.group < kSplitGroup)
      return {false, "groups of fewer than 128 columns: prompts would be slower"};
    return kCpu(cpu);
  }
  static size_t packed_bytes(const LinearProblem& p) { return LinearLayout(kForm, p).bytes(); }
  static void pack(const LinearProblem& p, const WeightRows& rows, uint8_t* packed) {
    pack_linear(LinearLayout(kForm, p), p, rows, packed);
  }
  static void run(const LinearProblem& p, const uint8_t* packed, const LinearArgs& args, ThreadPool& pool) {
    const LinearLayout layout(kForm, p);
    if (kFew != nullptr && args.m <= kDirectTokens) {
      drive_tiles(kFew, layout, p, packed, args, pool);
    } else {
      drive_parts(kPart, kSplit, layout, p, packed, args, pool);
    }
  }
  static void unpack_row(const LinearProblem& p, const uint8_t* packed, int64_t row, float* out) {
    unpack_linear_row(LinearLayout(kForm, p), p, packed, row, out);
  }
  static constexpr LinearKernel named(const char* name) {
    LinearKernel kernel{name, supports, packed_bytes, pack, run, unpack_row};
    if (kSplit > 0) {
      kernel.x_error = kInt16Error;
    } else if (kAct == ActType::kFloat) {
      kernel.round_x = amx_to_bf16;
    }
    return kernel;
  }
};

template <WeightForm kForm, AmxFn kPart, LinearTileFn kFew>
constexpr LinearKernel int8_kernel(const char* name) {
  return AmxKernel<amx_int8_supports, kForm, ActType::kInt8, kPart, kFew, 0>::named(name);
}
template <WeightForm kForm, AmxFn kPart, LinearTileFn kFew, int64_t kSplit>
constexpr LinearKernel int16_kernel(const char* name) {
  return AmxKernel<amx_int8_supports, kForm, ActType::kFloat, kPart, kFew, kSplit>::named(name);
}
template <WeightForm kForm, AmxFn kPart>
constexpr LinearKernel bf16_kernel(const char* name) {
  return AmxKernel<amx_bf16_supports, kForm, ActType::kFloat, kPart, nullptr, 0>::named(name);
}

}  // namespace

using enum WeightForm;

extern const LinearKernel kAmxW8A8 =
    int8_kernel<kU8, amxint8_w8a8_part, avx512vnni_w8a8_tile>("amxint8_w8a8_gemm");
extern const LinearKernel kAmxW4A8 =
    int8_kernel<kU4, amxint8_w4a8_part, avx512vnni_w4a8_tile>("amxint8_w4a8_gemm");
extern const LinearKernel kAmxIntW4A16 =
    int16_kernel<kU4, amxint8_w4a16_part, avx512vnni_w4a16_tile, kIntSegment>("amxint8_w4a16_gemm");
extern const LinearKernel kAmxW4A16 = bf16_kernel<kU4, amxbf16_w4a16_part>("amxbf16_w4a16_gemm");
extern const LinearKernel kAmxW8A16 = bf16_kernel<kS8, amxbf16_w8a16_part>("amxbf16_w8a16_gemm");
extern const LinearKernel kAmxF8A16 = bf16_kernel<kE4M3, amxbf16_f8a16_part>("amxbf16_f8a16_gemm");
extern const LinearKernel kAmxBF16 = bf16_kernel<kBF16, amxbf16_bf16_part>("amxbf16_bf16_gemm");

}  // namespace roundel
