// small.cuh for 4-bit codes. Many tiles for the usual scheme (symmetric, BF16 scales, one a unit), few for the others.
#include "kernels/cuda/sm90/small.cuh"

namespace roundel::cuda {
namespace {

using Start = void (*)(const SmallArgs&, const SmallTiles&, const CUtensorMap&, size_t, DeviceStream);

template <int kRowTiles, int kTokenTiles>
constexpr Start kUsual = start_small<Codes::kInt4, 1, false, false, kRowTiles, kTokenTiles>;

Start usual(int row_tiles, int token_tiles) {
  switch (token_tiles * 10 + row_tiles) {
    case 11:
      return kUsual<1, 1>;
    case 12:
      return kUsual<2, 1>;
    case 13:
      return kUsual<3, 1>;
    case 14:
      return kUsual<4, 1>;
    case 17:
      return kUsual<7, 1>;
    case 21:
      return kUsual<1, 2>;
    case 22:
      return kUsual<2, 2>;
    case 23:
      return kUsual<3, 2>;
    case 24:
      return kUsual<4, 2>;
    case 41:
      return kUsual<1, 4>;
    case 42:
      return kUsual<2, 4>;
    default:
      return nullptr;
  }
}

template <int kSets, bool kZero, bool kWide>
Start other(int token_tiles) {
  return token_tiles == 1   ? start_small<Codes::kInt4, kSets, kZero, kWide, 2, 1>
         : token_tiles == 2 ? start_small<Codes::kInt4, kSets, kZero, kWide, 2, 2>
                            : nullptr;
}
template <int kSets>
Start other(bool zero, bool wide, int token_tiles) {
  if (zero) return wide ? other<kSets, true, true>(token_tiles) : other<kSets, true, false>(token_tiles);
  return wide ? other<kSets, false, true>(token_tiles) : other<kSets, false, false>(token_tiles);
}

}  // namespace

void launch_small_int4(const UnitLayout& u, const SmallArgs& a, const SmallTiles& tiles,
                       const CUtensorMap& rows_of_bytes, size_t shared_bytes, DeviceStream stream) {
  const int token_tiles = a.m <= 8 ? 1 : a.m <= 16 ? 2 : 4;
  Start start = nullptr;
  if (u.sets == 1 && !u.zero && !u.wide_scale)
    start = usual(tiles.row_tiles, token_tiles);
  else if (tiles.row_tiles == 2)
    start = u.sets == 0   ? other<0>(u.zero, false, token_tiles)
            : u.sets == 1 ? other<1>(u.zero, u.wide_scale, token_tiles)
            : u.sets == 2 ? other<2>(u.zero, u.wide_scale, token_tiles)
                          : other<4>(u.zero, u.wide_scale, token_tiles);
  check(start ? 0 : 1, "choosing a small kernel");
  start(a, tiles, rows_of_bytes, shared_bytes, stream);
}

}  // namespace roundel::cuda
