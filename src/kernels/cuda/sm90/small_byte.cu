// small.cuh for codes of a byte: 8-bit integers and E4M3.
#include "kernels/cuda/sm90/small.cuh"

namespace roundel::cuda {
namespace {

using Start = void (*)(const SmallArgs&, const SmallTiles&, const CUtensorMap&, size_t, DeviceStream);

template <Codes kCodes, int kSets, bool kZero, bool kWide>
Start pick(int row_tiles, int token_tiles) {
  switch (token_tiles * 10 + row_tiles) {
    case 12:
      return start_small<kCodes, kSets, kZero, kWide, 2, 1>;
    case 14:
      return kSets == 0 && !kZero ? start_small<kCodes, kSets, kZero, kWide, 4, 1> : nullptr;
    case 22:
      return start_small<kCodes, kSets, kZero, kWide, 2, 2>;
    case 42:
      return kSets == 0 && !kZero ? start_small<kCodes, kSets, kZero, kWide, 2, 4> : nullptr;
    default:
      return nullptr;
  }
}
template <Codes kCodes, bool kZero>
Start pick(const UnitLayout& u, int row_tiles, int token_tiles) {
  if (u.sets == 0) return pick<kCodes, 0, kZero, false>(row_tiles, token_tiles);
  if (u.sets == 1)
    return u.wide_scale ? pick<kCodes, 1, kZero, true>(row_tiles, token_tiles)
                        : pick<kCodes, 1, kZero, false>(row_tiles, token_tiles);
  return u.wide_scale ? pick<kCodes, 2, kZero, true>(row_tiles, token_tiles)
                      : pick<kCodes, 2, kZero, false>(row_tiles, token_tiles);
}

}  // namespace

void launch_small_byte(const UnitLayout& u, const SmallArgs& a, const SmallTiles& tiles,
                       const CUtensorMap& rows_of_bytes, size_t shared_bytes, DeviceStream stream) {
  const int token_tiles = a.m <= 8 ? 1 : a.m <= 16 ? 2 : 4;
  const Start start = u.e4m3   ? pick<Codes::kE4M3, false>(u, tiles.row_tiles, token_tiles)
                      : u.zero ? pick<Codes::kInt8, true>(u, tiles.row_tiles, token_tiles)
                               : pick<Codes::kInt8, false>(u, tiles.row_tiles, token_tiles);
  check(start ? 0 : 1, "choosing a small kernel");
  start(a, tiles, rows_of_bytes, shared_bytes, stream);
}

}  // namespace roundel::cuda
