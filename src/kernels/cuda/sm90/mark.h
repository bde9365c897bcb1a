// What blocks of one launch tell one another through the workspace (leave_mark and take_mark in async.cuh).
#pragma once
#include <cstdint>

namespace roundel::cuda {

// A number that memory holds by no chance, another one with each call.
uint64_t launch_mark();

}  // namespace roundel::cuda
