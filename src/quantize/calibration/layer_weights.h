// The weights of one decoder layer while it is calibrated: floats that hold values of the checkpoint's type, from the source
// to the output.
//
//   LayerWeights weights = read_layer(files, plan, 3, pool);
//   DecoderLayer dense = dense_layer(files, weights, pool);
//   write_vectors(files, weights, sink);
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codec/format.h"
#include "quantize/calibration/layer_runner.h"
#include "quantize/calibration/matrix.h"

namespace roundel {

struct LayerModule {
  const PlanEntry* entry = nullptr;
  Stage stage = Stage::kQkv;
  Matrix weight;  // (out,in)
};

struct LayerWeights {
  int64_t index = 0;
  std::string prefix;  // "model.layers.3."
  std::vector<LayerModule> modules;
  std::map<std::string, std::vector<float>> vectors;  // tensor name -> values: norms, biases
};

// Throws Error(kInvalid) when a weight holds NaN or infinities.
LayerWeights read_layer(const ModelFiles& files, const Plan& plan, int64_t index, ThreadPool& pool);
// One weight matrix of the checkpoint as floats.
Matrix read_matrix(const ModelFiles& files, const std::string& module, ThreadPool& pool);

// A layer with the vectors set; linears are constructed for the plan, their weights not packed.
DecoderLayer empty_layer(const ModelFiles& files, const Plan& plan, const LayerWeights& weights);
// All linears dense, in the checkpoint's type.
DecoderLayer dense_layer(const ModelFiles& files, const LayerWeights& weights, ThreadPool& pool);
void pack_dense(const Matrix& weight, Linear& linear, ThreadPool& pool);
Linear& find_linear(DecoderLayer& layer, const std::string& module);

// Every element rounded to the type of the module's source.
void round_matrix(Matrix* m, DType dtype, ThreadPool& pool);

void write_floats(const ModelFiles& files, const std::string& tensor, const std::vector<float>& values,
                  const TensorSink& sink);
void write_dense(const ModelFiles& files, const LayerModule& module, const TensorSink& sink);

}  // namespace roundel
