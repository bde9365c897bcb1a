// The most products of bytes that an instruction set can do: what `roundel bench` compares prompts with.
//
//   if (const Int8Peak* peak = int8_peak()) peak->run();   // on every thread; peak->operations / seconds each
#pragma once
#include "kernels/api/support.h"

namespace roundel {

struct CpuFeatures;

struct Int8Peak {
  const char* name;  // "avx512vnni_int8_peak"
  Support (*supports)(const CpuFeatures&);
  double operations;  // of one run, a product and its addition are two; 1 to 2 ms
  void (*run)();      // from registers, as many independent sums as hide the latency
};

}  // namespace roundel
