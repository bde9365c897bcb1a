// What the listed linear kernels of all instruction sets share: which weights a packed form holds, and the loop over tiles.
#pragma once
#include "kernels/cpu/common/tile.h"
#include "kernels/cpu/driver/linear_layout.h"

namespace roundel {

// Half a step of 16-bit integers, when the step is at most 2 / 32767 of the largest value.
constexpr double kInt16Error = 1.0 / 32767 * (1 + 0x1p-20);

// Whether weights packed as `form` can hold the problem's weight.
Support form_supports(WeightForm form, const LinearProblem& p);

// The fields of a tile that the packed weight decides.
LinearTile tile_of(const LinearLayout& at, const LinearProblem& p, const uint8_t* packed,
                   const LinearArgs& args);

// The problem in tiles, over the threads.
void drive_tiles(LinearTileFn fn, const LinearLayout& at, const LinearProblem& p, const uint8_t* packed,
                 const LinearArgs& args, ThreadPool& pool);

}  // namespace roundel
