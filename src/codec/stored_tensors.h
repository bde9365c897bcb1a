// What storage formats have in common: scales and unpacked zero points on disk, and the checks of a stored module.
//
// Scales (and zero points that are not packed) have a row in the file for each row of the weight (channel, group), for each
// block of rows, or one for all; in memory each row of the weight has its own.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "codec/format.h"

namespace roundel {

inline std::string tensor_name(const StoredWeight& stored, const char* suffix) {
  return stored.module + "." + suffix;
}
inline const QuantArgs& weight_args(const StoredWeight& stored) {
  CHECK(stored.scheme.weights.has_value());
  return *stored.scheme.weights;
}

// [1], [out, 1], [out, groups] or [row blocks, column blocks].
Shape scale_shape(const QuantArgs& args, int64_t rows, int64_t cols);
int64_t scale_groups(const StoredWeight& stored);  // scales in a row
// False for the strategies whose scales repeat over rows.
bool scales_per_row(const QuantArgs& args);

void store_scales(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink);
void store_zero_points_i8(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink);
// rows->row0, rows->rows and rows->groups are set. Throws Error(kInvalid) when a scale is not finite, or a zero point is
// outside the range of the scheme.
void load_scales(const StoredWeight& stored, const TensorSource& source, QuantizedRows* rows);
void load_zero_points_i8(const StoredWeight& stored, const TensorSource& source, QuantizedRows* rows);
// Reads `bytes` bytes at `offset` of a tensor that open() has found.
void read_tensor(const StoredWeight& stored, const TensorSource& source, const char* suffix, uint64_t offset,
                 void* to, size_t bytes);

// Checks of one module, each adding to the problems under the module's name.
class ModuleChecks {
 public:
  ModuleChecks(StoredWeight* stored, const TensorSource& source, Problems* problems)
      : stored_(stored), source_(source), problems_(problems) {}

  // Null, with a problem, when the tensor is missing.
  const TensorSpec* require(const char* suffix, std::string_view why);
  const TensorSpec* find(const char* suffix) const { return source_.find(tensor_name(*stored_, suffix)); }
  bool has_dtype(const TensorSpec& spec, std::initializer_list<DType> accepted);
  // Takes [rows, cols] as the shape of the weight; a problem when the model expects another one or a size is not sane.
  bool take_shape(int64_t rows, int64_t cols, const char* from);
  // Sets scale_dtype. Accepts [] for [1] and [out] for [out, 1].
  void scales();
  // Zero points of one byte, shaped like the scales.
  void zero_points_i8(const TensorSpec& spec);
  // Older writers store zero points of symmetric schemes too: they must be zero.
  void stray_zero_points();
  void add(const char* suffix, const std::string& message);

 private:
  bool scale_shaped(const TensorSpec& spec) const;
  std::string expected_scales() const;

  StoredWeight* stored_;
  const TensorSource& source_;
  Problems* problems_;
};

}  // namespace roundel
