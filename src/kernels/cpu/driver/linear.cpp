// The listed CPU kernels for matrices: what each can do, and how a problem is cut into tiles for the threads.
// The tiles themselves are in kernels/cpu/<isa>.
#include <algorithm>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/api/linear.h"
#include "kernels/cpu/driver/linear_drive.h"
#include "kernels/cpu/driver/scratch.h"

namespace roundel {
namespace {

Support no(const char* reason) {
  return {false, reason};
}

thread_local Scratch scratch, prepared;

// All activations as the panels want them, once for all tiles.
void prepare_x(LinearTileFn fn, LinearTile& tile, ThreadPool& pool) {
  const int64_t m = tile.args->m, x_bytes = m * prepared_x_bytes(tile.k);
  tile.x = prepared.reserve(x_bytes + m * prepared_segment_bytes(tile.k));
  tile.x_segments = tile.x + x_bytes;
  pool.parallel_for(m, 1, [&](int64_t begin, int64_t end) {
    LinearTile mine = tile;
    mine.prepare = true;
    mine.token0 = begin, mine.token1 = end;
    fn(mine);
  });
}

void attach_scratch(LinearTile& tile, bool direct) {
  if (!direct) {
    tile.totals = reinterpret_cast<float*>(scratch.reserve(kTileTokens * kTileBlocks * kBlockRows * 4));
    return;
  }
  const int64_t x_bytes = round_up(kDirectTokens * round_up(tile.k, kStep) * 2, 64);
  tile.x = scratch.reserve(x_bytes + x_bytes / 2 / kStep * 8);
  tile.x_segments = tile.x + x_bytes;
}

}  // namespace

LinearTile tile_of(const LinearLayout& at, const LinearProblem& p, const uint8_t* packed,
                   const LinearArgs& args) {
  LinearTile tile;
  tile.packed = packed;
  tile.stride = at.stride, tile.scales = at.scales, tile.zeros = at.zeros, tile.sums = at.sums;
  tile.has_scale = at.has_scale, tile.has_zero = p.has_zero_point, tile.scale_type = at.scale_type;
  tile.n = p.n, tile.k = p.k, tile.group = at.group, tile.groups = at.groups;
  tile.args = &args;
  return tile;
}

// Blocks of a tile.
int64_t direct_blocks(const LinearLayout& at, const ThreadPool& pool) {
  int64_t blocks = 4;
  while (blocks > 2 && ceil_div(at.blocks, blocks) < int64_t{2} * pool.size()) blocks /= 2;
  return blocks;
}
// As many as may be, because every tile prepares its activations anew, in equal parts that leave no thread idle: a multiple
// of the threads, or so many that the rest does not matter.
int64_t panel_blocks(const LinearLayout& at, int64_t token_parts, const ThreadPool& pool) {
  const int64_t threads = pool.size(), most = ceil_div(at.blocks, 2);
  int64_t parts = ceil_div(at.blocks, kTileBlocks);
  while (parts < most && parts * token_parts % threads != 0 && parts * token_parts < 4 * threads) ++parts;
  return round_up(ceil_div(at.blocks, parts), 2);
}

void drive_tiles(LinearTileFn fn, const LinearLayout& at, const LinearProblem& p, const uint8_t* packed,
                 const LinearArgs& args, ThreadPool& pool) {
  if (args.m <= 0 || p.n <= 0) return;
  LinearTile tile = tile_of(at, p, packed, args);

  // Tokens in equal parts of at most kTileTokens, rows in parts that give each thread a few tiles.
  const bool direct = args.m <= kDirectTokens;
  const int64_t token_parts = ceil_div(args.m, kTileTokens);
  const int64_t tokens = ceil_div(args.m, token_parts);
  const int64_t blocks = direct ? direct_blocks(at, pool) : panel_blocks(at, token_parts, pool);
  const int64_t row_parts = ceil_div(at.blocks, blocks);
  if (!direct) prepare_x(fn, tile, pool);
  pool.parallel_for(row_parts * token_parts, 1, [&](int64_t begin, int64_t end) {
    LinearTile mine = tile;
    attach_scratch(mine, direct);
    for (int64_t i = begin; i < end;) {
      const int64_t part = i / row_parts, row = i % row_parts;
      // Without a panel a thread's parts of the rows are one tile.
      const int64_t next = direct ? std::min(end, (part + 1) * row_parts) : i + 1;
      mine.block0 = row * blocks;
      mine.block1 = std::min(at.blocks, (row + next - i) * blocks);
      mine.token0 = part * tokens;
      mine.token1 = std::min(args.m, mine.token0 + tokens);
      fn(mine);
      i = next;
    }
  });
}

namespace {

bool unit_groups(const LinearProblem& p) {
  return !p.has_scale || p.groups() == 1 || p.group % kStep == 0;
}

// Integer weights with a scale; `narrow`: of 2 to 4 bits, else of 5 to 8.
Support int_weight(const LinearProblem& p, bool narrow) {
  if (p.code != CodeType::kInt) return no("weights are not integers");
  if (narrow && p.bits > 4) return no("weights have more than 4 bits");
  if (!narrow && p.bits <= 4) return no("weights have 4 bits or fewer");
  if (!p.has_scale) return no("integer weights without a scale");
  if (!unit_groups(p)) return no("the group size is not a multiple of 8");
  return {};
}

}  // namespace

Support form_supports(WeightForm form, const LinearProblem& p) {
  const bool int8 = p.act == ActType::kInt8;
  switch (form) {
    case WeightForm::kU8:
      return int_weight(p, false);
    case WeightForm::kS8:
      return !int8 ? int_weight(p, false) : no("activations are int8");
    case WeightForm::kU4:
      return int_weight(p, true);
    default:
      break;
  }
  const CodeType code = form == WeightForm::kE4M3   ? CodeType::kE4M3
                        : form == WeightForm::kBF16 ? CodeType::kBF16
                        : form == WeightForm::kF16  ? CodeType::kF16
                                                    : CodeType::kF32;
  if (p.code != code) return no("another type of weight");
  if (int8) return no("activations are int8");
  if (p.has_zero_point) return no("a zero point on floating-point weights");
  if (p.has_scale && form != WeightForm::kE4M3) return no("a scale on unquantized weights");
  if (!unit_groups(p)) return no("the group size is not a multiple of 8");
  return {};
}

namespace {

using CpuSupports = Support (*)(const CpuFeatures&);

template <CpuSupports kCpu, WeightForm kForm, ActType kAct, LinearTileFn kTile>
struct CpuLinear {
  static Support supports(const LinearProblem& p, const CpuFeatures& cpu) {
    if (kAct != p.act)
      return no(kAct == ActType::kInt8 ? "activations are not int8" : "activations are int8");
    const Support form = form_supports(kForm, p);
    return form.ok ? kCpu(cpu) : form;
  }
  static size_t packed_bytes(const LinearProblem& p) { return LinearLayout(kForm, p).bytes(); }
  static void pack(const LinearProblem& p, const WeightRows& rows, uint8_t* packed) {
    pack_linear(LinearLayout(kForm, p), p, rows, packed);
  }
  static void run(const LinearProblem& p, const uint8_t* packed, const LinearArgs& args, ThreadPool& pool) {
    drive_tiles(kTile, LinearLayout(kForm, p), p, packed, args, pool);
  }
  static void unpack_row(const LinearProblem& p, const uint8_t* packed, int64_t row, float* out) {
    unpack_linear_row(LinearLayout(kForm, p), p, packed, row, out);
  }
  static constexpr LinearKernel named(const char* name, double x_error = 0) {
    return {name, supports, packed_bytes, pack, run, unpack_row, x_error};
  }
};

template <CpuSupports kCpu, WeightForm kForm, LinearTileFn kTile>
constexpr LinearKernel float_kernel(const char* name, double x_error = 0) {
  return CpuLinear<kCpu, kForm, ActType::kFloat, kTile>::named(name, x_error);
}
template <CpuSupports kCpu, WeightForm kForm, LinearTileFn kTile>
constexpr LinearKernel int8_kernel(const char* name) {
  return CpuLinear<kCpu, kForm, ActType::kInt8, kTile>::named(name);
}

}  // namespace

using enum WeightForm;

extern const LinearKernel kAvx512W8A8 =
    int8_kernel<avx512vnni_supports, kU8, avx512vnni_w8a8_tile>("avx512vnni_w8a8_gemm");
extern const LinearKernel kAvx512W4A8 =
    int8_kernel<avx512vnni_supports, kU4, avx512vnni_w4a8_tile>("avx512vnni_w4a8_gemm");
extern const LinearKernel kAvx512VnniW4A16 =
    float_kernel<avx512vnni_supports, kU4, avx512vnni_w4a16_tile>("avx512vnni_w4a16_gemm", kInt16Error);
extern const LinearKernel kAvx512VnniW8A16 =
    float_kernel<avx512vnni_supports, kU8, avx512vnni_w8a16_tile>("avx512vnni_w8a16_gemm", kInt16Error);
extern const LinearKernel kAvx512W4A16 =
    float_kernel<avx512_supports, kU4, avx512_w4a16_tile>("avx512_w4a16_gemm");
extern const LinearKernel kAvx512W8A16 =
    float_kernel<avx512_supports, kS8, avx512_w8a16_tile>("avx512_w8a16_gemm");
extern const LinearKernel kAvx512F8A16 =
    float_kernel<avx512_supports, kE4M3, avx512_f8a16_tile>("avx512_f8a16_gemm");
extern const LinearKernel kAvx512BF16 =
    float_kernel<avx512_supports, kBF16, avx512_bf16_tile>("avx512_bf16_gemm");
extern const LinearKernel kAvx512F16 =
    float_kernel<avx512_supports, kF16, avx512_f16_tile>("avx512_f16_gemm");
extern const LinearKernel kAvx512F32 =
    float_kernel<avx512_supports, kF32, avx512_f32_tile>("avx512_f32_gemm");

extern const LinearKernel kAvxVnniW8A8 =
    int8_kernel<avxvnni_supports, kU8, avxvnni_w8a8_tile>("avxvnni_w8a8_gemm");
extern const LinearKernel kAvxVnniW4A8 =
    int8_kernel<avxvnni_supports, kU4, avxvnni_w4a8_tile>("avxvnni_w4a8_gemm");
extern const LinearKernel kAvxVnniW4A16 =
    float_kernel<avxvnni_supports, kU4, avxvnni_w4a16_tile>("avxvnni_w4a16_gemm", kInt16Error);

extern const LinearKernel kAvx2W8A8 = int8_kernel<avx2_supports, kU8, avx2_w8a8_tile>("avx2_w8a8_gemm");
extern const LinearKernel kAvx2W4A8 = int8_kernel<avx2_supports, kU4, avx2_w4a8_tile>("avx2_w4a8_gemm");
extern const LinearKernel kAvx2IntW4A16 =
    float_kernel<avx2_supports, kU4, avx2_w4a16i_tile>("avx2_w4a16i_gemm", kInt16Error);
extern const LinearKernel kAvx2W4A16 = float_kernel<avx2_supports, kU4, avx2_w4a16_tile>("avx2_w4a16_gemm");
extern const LinearKernel kAvx2W8A16 = float_kernel<avx2_supports, kS8, avx2_w8a16_tile>("avx2_w8a16_gemm");
extern const LinearKernel kAvx2F8A16 = float_kernel<avx2_supports, kE4M3, avx2_f8a16_tile>("avx2_f8a16_gemm");
extern const LinearKernel kAvx2BF16 = float_kernel<avx2_supports, kBF16, avx2_bf16_tile>("avx2_bf16_gemm");
extern const LinearKernel kAvx2F16 = float_kernel<avx2_supports, kF16, avx2_f16_tile>("avx2_f16_gemm");
extern const LinearKernel kAvx2F32 = float_kernel<avx2_supports, kF32, avx2_f32_tile>("avx2_f32_gemm");

}  // namespace roundel
