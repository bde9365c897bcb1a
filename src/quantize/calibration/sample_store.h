// The activations of all calibration samples between two layers: in memory, or in a temporary file that has no name.
//
//   SampleStore store({512, 512, 301}, hidden, widest, false);
//   store.visit(1, [&](SampleState& s) { ... });             // what f leaves there is kept
//   store.look(1, [&](const SampleState& s) { ... });
#pragma once
#include <cstdint>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"
#include "model/layer_ops.h"

namespace roundel {

struct SampleState {
  Activations x;      // (T,hidden): the residual stream
  Activations input;  // of the stage that comes next; between layers it means nothing
};
Activations copy_activations(const Activations& from);

class SampleStore {
 public:
  // tokens: of each sample. widest: columns of the widest input of a stage. on_disk: in a file of the temporary folder
  // (TMPDIR), which is gone when the process is. Throws Error(kNoSpace, kIo).
  SampleStore(std::vector<int64_t> tokens, int64_t hidden, int64_t widest, bool on_disk);
  size_t size() const { return tokens_.size(); }
  int64_t tokens(size_t i) const { return tokens_[i]; }
  void visit(size_t i, FunctionRef<void(SampleState&)> f);
  void look(size_t i, FunctionRef<void(const SampleState&)> f) const;
  // Memory or disk that the states take at most.
  static uint64_t bytes(const std::vector<int64_t>& tokens, int64_t hidden, int64_t widest);

 private:
  SampleState load(size_t i) const;
  void save(size_t i, const SampleState& s);

  std::vector<int64_t> tokens_;
  int64_t hidden_;
  bool on_disk_;
  std::vector<SampleState> states_;  // in memory
  File file_;
  std::vector<uint64_t> offsets_;
  std::vector<int64_t> input_cols_;  // of what the file holds; 0: no input
};

}  // namespace roundel
