// amxint8_peak: four sums of tiles, each 52 cycles behind the last product of its own, 16 behind the one before.
#include "kernels/api/int8_peak.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/common/amx.h"

namespace roundel {
namespace {

constexpr int kRounds = 25'000;
constexpr double kOperations = kRounds * 4 * 2.0 * 16 * 16 * 64;

void run() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.set(t, 16, 64);
  tile_configure(config);
  tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  tile_zero<4>(), tile_zero<5>(), tile_zero<6>(), tile_zero<7>();
  for (int i = 0; i < kRounds; ++i) {
    tile_dot_int8<0, 4, 6>(), tile_dot_int8<1, 4, 7>();
    tile_dot_int8<2, 5, 6>(), tile_dot_int8<3, 5, 7>();
  }
  tile_release();
}

}  // namespace

extern const Int8Peak kAmxInt8Peak = {"amxint8_peak", amx_int8_supports, kOperations, run};

}  // namespace roundel
