// What the public options mean inside. Not for other modules.
#pragma once
#include "quantize/recipe.h"
#include "roundel/roundel.h"

namespace roundel::api {

PlanRequest request_of(const Quantization& how);
int checked_threads(int threads);  // Error(kInvalid) outside 0 to 1024

}  // namespace roundel::api
