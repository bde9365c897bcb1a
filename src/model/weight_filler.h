// Streams the weights of a model folder to whoever holds them, on the CPU or on a GPU.
//
//   WeightFiller filler(files, plan, pool);
//   filler.fill(linear);                                    // any WeightTarget
#pragma once
#include <string>
#include <vector>

#include "base/log.h"
#include "linear/weight_target.h"
#include "model/decoder.h"
#include "model/model_files.h"

namespace roundel {

class WeightFiller {
 public:
  WeightFiller(const ModelFiles& files, const Plan& plan, ThreadPool& pool);
  // Its rows, then bias and static input scale where the checkpoint has them. packed: the rows are there already.
  void fill(WeightTarget& linear, bool packed = false);
  // Of a weight whose rows were NaN or infinite on a GPU: reads it again, and throws the encoder's error.
  void report_not_finite(const WeightTarget& linear);
  std::vector<float> vector(const std::string& name) { return read_vector(files_, name); }
  // All scales 0 when the plan quantizes no cache. `attention`: "model.layers.0.self_attn."
  KvQuantizer kv_quantizer(const std::string& attention);

 private:
  void fill_from_dense(WeightTarget& linear);
  float scalar(const std::string& name);

  const ModelFiles& files_;
  const Plan& plan_;
  ThreadPool& pool_;
  Progress progress_;
};

}  // namespace roundel
