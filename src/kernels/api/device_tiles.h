// How a linear kernel divides its work on a GPU, and tables of such choices that were measured.
//
//   TileChoice now = kernel.tile_choice(problem, use, info);            // now.tiles, and where they come from
//   for (const Tiles& t : kernel.tile_choices(problem, use, info)) ...  // all that the kernel offers
// A table's row is for up to `m` tokens. What a choice changes besides time is the order of sums.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace roundel {

// Numbers that only their kernel understands; unused ones are 0.
using Tiles = std::array<int, 5>;

// For whom tiles are chosen.
struct TileUse {
  enum class Input : uint8_t { kBF16, kX16, kBytes };  // as DeviceLinearArgs has x, x16, x8
  int64_t m = 1;
  Input input = Input::kBF16;
  bool gated = false;
  bool whole = false;  // the result in one part: for gated, add, residual and bf16 results
};

struct TileKey {
  std::string kernel;   // "sm90_small"; empty: nothing to choose
  std::string weights;  // what else of a problem matters: "int4.g128", "e4m3.row"
  int64_t n = 0, k = 0, m = 0;
  bool whole = false;
  bool operator==(const TileKey&) const = default;
};

struct TileRow {
  TileKey key;
  Tiles tiles{};
  double us = 0,
         default_us = 0;  // measured: of these tiles, and of those that were used before; 0: not known
};

struct TileTable {
  std::vector<TileRow> rows;

  // The row of the smallest m that is not below the key's, among those of the same problem whose tiles are `usable`.
  template <class Usable>
  const TileRow* find(const TileKey& key, Usable usable) const {
    const TileRow* best = nullptr;
    for (const TileRow& row : rows) {
      if (row.key.n != key.n || row.key.k != key.k || row.key.m < key.m || row.key.whole != key.whole)
        continue;
      if (best && row.key.m >= best->key.m) continue;
      if (row.key.kernel == key.kernel && row.key.weights == key.weights && usable(row.tiles)) best = &row;
    }
    return best;
  }
  // Instead of the row with the same key, if there is one.
  void put(const TileRow& row) {
    for (TileRow& old : rows)
      if (old.key == row.key) return static_cast<void>(old = row);
    rows.push_back(row);
  }
};

enum class TileSource : uint8_t { kHeuristic, kShipped, kTuned };

struct TileChoice {
  TileKey key;
  Tiles tiles{};
  TileSource source = TileSource::kHeuristic;
};

}  // namespace roundel
