// Tiles measured on an H200 by `roundel tune` (docs/results/cuda.md): the best of each for up to `m` tokens. Of kByte the
// kernels of bf16 were measured with int8 codes, that of codes by codes with E4M3. Older rows stay for other uses.
#include "kernels/cuda/sm90/tiles.h"

namespace roundel::cuda {
namespace {

constexpr char kInt4[] = "int4.g128", kByte[] = "byte.row";

TileTable make_table() {
  TileTable table;
  const auto parts = [&](const char* kernel, const char* weights, int64_t n, int64_t k, int64_t m,
                         Tiles tiles) {
    table.rows.push_back({{kernel, weights, n, k, m, false}, tiles});
  };
  const auto whole = [&](const char* kernel, const char* weights, int64_t n, int64_t k, int64_t m,
                         Tiles tiles) {
    table.rows.push_back({{kernel, weights, n, k, m, true}, tiles});
  };
  const auto both = [&](const char* kernel, const char* weights, int64_t n, int64_t k, int64_t m,
                        Tiles tiles) {
    parts(kernel, weights, n, k, m, tiles);
    whole(kernel, weights, n, k, m, tiles);
  };

  // Row tiles, warps along rows and columns, stages, splits.
  parts(kSmallName, kInt4, 6144, 4096, 1, {2, 2, 2, 4, 4});
  whole(kSmallName, kInt4, 6144, 4096, 1, {2, 1, 8, 6, 1});
  parts(kSmallName, kInt4, 6144, 4096, 8, {1, 6, 2, 2, 4});
  parts(kSmallName, kInt4, 6144, 4096, 16, {2, 6, 1, 3, 8});
  parts(kSmallName, kInt4, 6144, 4096, 32, {1, 6, 1, 2, 4});
  parts(kSmallName, kInt4, 4096, 4096, 1, {4, 2, 2, 4, 4});
  whole(kSmallName, kInt4, 4096, 4096, 1, {1, 1, 12, 2, 1});
  parts(kSmallName, kInt4, 4096, 4096, 8, {2, 6, 1, 3, 8});
  parts(kSmallName, kInt4, 4096, 4096, 16, {2, 4, 1, 4, 8});
  parts(kSmallName, kInt4, 4096, 4096, 32, {1, 8, 1, 4, 4});
  both(kSmallName, kInt4, 28672, 4096, 1, {2, 4, 2, 4, 1});
  whole(kSmallName, kInt4, 28672, 4096, 8, {2, 8, 2, 2, 1});
  both(kSmallName, kInt4, 28672, 4096, 16, {2, 8, 2, 2, 1});
  parts(kSmallName, kInt4, 28672, 4096, 32, {2, 8, 1, 2, 2});
  parts(kSmallName, kInt4, 4096, 14336, 1, {2, 4, 2, 6, 8});
  whole(kSmallName, kInt4, 4096, 14336, 1, {2, 1, 16, 3, 1});
  parts(kSmallName, kInt4, 4096, 14336, 8, {2, 8, 2, 3, 8});
  parts(kSmallName, kInt4, 4096, 14336, 16, {2, 4, 2, 2, 8});
  parts(kSmallName, kInt4, 4096, 14336, 32, {2, 8, 1, 2, 8});
  parts(kSmallName, kByte, 6144, 4096, 1, {2, 3, 2, 2, 8});
  whole(kSmallName, kByte, 6144, 4096, 1, {2, 1, 8, 2, 1});
  parts(kSmallName, kByte, 6144, 4096, 8, {2, 4, 1, 4, 4});
  parts(kSmallName, kByte, 6144, 4096, 32, {2, 6, 1, 2, 8});
  parts(kSmallName, kByte, 4096, 4096, 1, {2, 6, 1, 4, 8});
  whole(kSmallName, kByte, 4096, 4096, 1, {2, 1, 4, 4, 1});
  parts(kSmallName, kByte, 4096, 4096, 8, {2, 4, 2, 3, 4});
  parts(kSmallName, kByte, 4096, 4096, 32, {2, 4, 2, 3, 4});
  parts(kSmallName, kByte, 28672, 4096, 1, {2, 6, 1, 3, 4});
  whole(kSmallName, kByte, 28672, 4096, 1, {4, 4, 2, 3, 1});
  whole(kSmallName, kByte, 28672, 4096, 8, {2, 8, 1, 3, 1});
  whole(kSmallName, kByte, 4096, 14336, 1, {2, 1, 16, 2, 1});
  parts(kSmallName, kByte, 4096, 14336, 8, {2, 8, 1, 6, 8});
  parts(kSmallName, kByte, 4096, 14336, 32, {2, 8, 1, 3, 8});
  // Groups, stages, splits, units.
  parts(kWideName, kInt4, 6144, 4096, 16, {2, 2, 8, 1, 0});
  parts(kWideName, kInt4, 6144, 4096, 32, {2, 2, 4, 2, 0});
  parts(kWideName, kInt4, 6144, 4096, 64, {2, 2, 4, 2, 0});
  parts(kWideName, kInt4, 4096, 4096, 16, {1, 2, 8, 2, 0});
  parts(kWideName, kInt4, 4096, 4096, 32, {2, 2, 8, 1, 0});
  parts(kWideName, kInt4, 4096, 4096, 64, {2, 2, 8, 1, 0});
  whole(kWideName, kInt4, 28672, 4096, 16, {2, 3, 1, 2, 0});
  both(kWideName, kInt4, 28672, 4096, 32, {2, 3, 1, 2, 0});
  both(kWideName, kInt4, 28672, 4096, 64, {4, 3, 1, 2, 0});
  parts(kWideName, kInt4, 4096, 14336, 16, {1, 3, 8, 2, 0});
  parts(kWideName, kInt4, 4096, 14336, 32, {1, 2, 8, 2, 0});
  parts(kWideName, kInt4, 4096, 14336, 64, {2, 3, 8, 1, 0});
  parts(kWideName, kByte, 6144, 4096, 16, {2, 2, 4, 2, 0});
  parts(kWideName, kByte, 6144, 4096, 32, {1, 2, 4, 2, 0});
  parts(kWideName, kByte, 6144, 4096, 64, {2, 3, 4, 1, 0});
  parts(kWideName, kByte, 4096, 4096, 16, {2, 2, 8, 1, 0});
  parts(kWideName, kByte, 4096, 4096, 32, {2, 2, 8, 1, 0});
  parts(kWideName, kByte, 4096, 4096, 64, {2, 4, 4, 1, 0});
  parts(kWideName, kByte, 28672, 4096, 16, {4, 3, 1, 2, 0});
  whole(kWideName, kByte, 28672, 4096, 16, {2, 4, 1, 1, 0});
  parts(kWideName, kByte, 28672, 4096, 32, {2, 2, 1, 2, 0});
  whole(kWideName, kByte, 28672, 4096, 32, {2, 4, 1, 1, 0});
  parts(kWideName, kByte, 28672, 4096, 64, {2, 3, 1, 2, 0});
  whole(kWideName, kByte, 28672, 4096, 64, {2, 3, 1, 1, 0});
  parts(kWideName, kByte, 4096, 14336, 16, {2, 4, 8, 1, 0});
  parts(kWideName, kByte, 4096, 14336, 32, {2, 4, 8, 1, 0});
  parts(kWideName, kByte, 4096, 14336, 64, {2, 3, 8, 1, 0});
  // Rows, stages, splits.
  parts(kBytesName, kByte, 6144, 4096, 1, {32, 4, 4, 0, 0});
  parts(kBytesName, kByte, 6144, 4096, 8, {32, 4, 4, 0, 0});
  parts(kBytesName, kByte, 6144, 4096, 16, {32, 4, 4, 0, 0});
  parts(kBytesName, kByte, 6144, 4096, 32, {32, 6, 2, 0, 0});
  parts(kBytesName, kByte, 6144, 4096, 64, {32, 4, 2, 0, 0});
  parts(kBytesName, kByte, 4096, 4096, 1, {32, 2, 8, 0, 0});
  parts(kBytesName, kByte, 4096, 4096, 8, {32, 6, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 4096, 16, {32, 5, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 4096, 32, {32, 5, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 4096, 64, {32, 8, 2, 0, 0});
  whole(kBytesName, kByte, 28672, 4096, 1, {32, 4, 1, 0, 0});
  whole(kBytesName, kByte, 28672, 4096, 8, {32, 4, 1, 0, 0});
  whole(kBytesName, kByte, 28672, 4096, 16, {32, 4, 1, 0, 0});
  both(kBytesName, kByte, 28672, 4096, 32, {32, 4, 1, 0, 0});
  both(kBytesName, kByte, 28672, 4096, 64, {32, 3, 1, 0, 0});
  parts(kBytesName, kByte, 4096, 14336, 1, {32, 8, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 14336, 8, {32, 8, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 14336, 16, {32, 8, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 14336, 32, {32, 6, 4, 0, 0});
  parts(kBytesName, kByte, 4096, 14336, 64, {32, 8, 2, 0, 0});
  return table;
}

}  // namespace

const TileTable& shipped_tiles() {
  static const TileTable table = make_table();
  return table;
}

}  // namespace roundel::cuda
