// Times a GPU's linear kernel with each way to divide its work (kernels/api/device_tiles.h): weights cold, calls one after
// another in a recorded graph, every result compared first with that of the tiles which the kernel would take by itself.
//
//   TileBench bench(gpu, problem);                                   // random weights
//   bench.prepare({.use = {.m = 8, .input = TileUse::Input::kX16}}); // random activations
//   TileResult r = bench.tune();                                     // r.best, r.best_us, r.before_us
#pragma once
#include <vector>

#include "base/function_ref.h"
#include "kernels/device_list.h"

namespace roundel {

// One product as a model asks for it.
struct TileCase {
  TileUse use;
  DeviceForm form;    // of the activations; kNone: BF16 as they are
  bool norm = false;  // of one token: the linear does the norm before it itself (fuses_norm)
  bool add = false;   // and adds to y (adds)
};

struct TileResult {
  TileChoice before;
  Tiles best{};  // those of before, unless others are 2 % faster
  double before_us = 0, best_us = 0;
  int measured = 0, wrong = 0;  // choices; wrong ones are never the best
};

class TileBench {
 public:
  TileBench(Device& device, const LinearProblem& problem);
  void prepare(const TileCase& c);
  const TileChoice& chosen() const { return chosen_; }
  std::vector<Tiles> choices() const;
  TileResult tune();

  // y (M,N), or (M,N/2) of a gate, as floats, parts added up.
  std::vector<float> result(const Tiles& tiles);
  // The same without gate, norm and adding, by a kernel with the same packed layout.
  std::vector<float> plain_result(const DeviceLinearKernel& kernel);
  bool agrees(const Tiles& tiles);
  // us of a call: the median of so many launches of a graph of calls().
  double time(const Tiles& tiles, int launches);
  double time_calls(FunctionRef<void(int64_t)> call, int launches);

  int64_t calls() const { return case_.use.m > 512 ? 8 : 50; }
  const LinearProblem& problem() const { return p_; }
  const DeviceLinearKernel& kernel() const { return kernel_; }
  const uint8_t* packed(int64_t i) const {
    return packed_.data() + static_cast<size_t>(i % copies_) * packed_bytes_;
  }
  const DeviceBuffer& x() const { return x_; }  // (M, K up to a multiple of 8) bf16

 private:
  void fill_weights();
  void make_input(const TileCase& c);
  void clear_y();
  std::vector<float> read_y(int parts) const;
  int run(int64_t copy, const Tiles* tiles);

  Device& d_;
  const DeviceOps& ops_;
  LinearProblem p_;
  const DeviceLinearKernel& kernel_;
  size_t packed_bytes_ = 0;
  int64_t copies_ = 0;
  DeviceBuffer packed_, other_, sum_;  // other_: what is read so that weights leave the L2 cache
  DeviceBuffer x_, values_, codes_, scale_, gain_, y_, space_;
  TileCase case_;
  DeviceLinearArgs args_;
  TileChoice chosen_;
  std::vector<float> want_;
};

// ||a - b|| / ||b||; a NaN anywhere gives NaN, which no comparison passes.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace roundel
