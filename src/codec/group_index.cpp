// weight_g_idx of older checkpoints with actorder "group" (docs/format.md, 6.5).
#include <algorithm>

#include "codec/stored_tensors.h"

namespace roundel {
namespace {

bool is_plain_order(const std::vector<int32_t>& index, int64_t group_size) {
  for (size_t c = 0; c < index.size(); ++c) {
    if (index[c] != static_cast<int64_t>(c) / group_size) return false;
  }
  return true;
}

}  // namespace

std::vector<int32_t> load_group_index(const StoredWeight& stored, const TensorSource& source) {
  const std::string name = tensor_name(stored, "weight_g_idx");
  const TensorSpec* spec = source.find(name);
  if (!spec) return {};
  const QuantArgs& args = weight_args(stored);
  if (spec->dtype != DType::kI32 || spec->shape != Shape{stored.cols}) {
    fail(ErrorCode::kInvalid, "{}: is {} {}, expected I32 [{}]", name, dtype_name(spec->dtype),
         shape_text(spec->shape), stored.cols);
  }
  std::vector<int32_t> index(static_cast<size_t>(stored.cols));
  source.read(*spec, 0, index.data(), index.size() * 4);
  if (std::find(index.begin(), index.end(), -1) != index.end()) return {};
  const int64_t width = group_width(args, stored.cols);
  if (is_plain_order(index, width)) return {};
  if (args.strategy != Strategy::kGroup) {
    fail(ErrorCode::kInvalid, "{}: orders columns in groups, but the weight has strategy {}", name,
         strategy_name(args.strategy));
  }
  std::vector<int64_t> members(static_cast<size_t>(scale_groups(stored)));
  for (size_t c = 0; c < index.size(); ++c) {
    if (index[c] < 0 || static_cast<size_t>(index[c]) >= members.size()) {
      fail(ErrorCode::kInvalid, "{}: column {} is in group {}, there are {} groups", name, c, index[c],
           members.size());
    }
    ++members[static_cast<size_t>(index[c])];
  }
  for (size_t g = 0; g < members.size(); ++g) {
    if (members[g] == width) continue;
    fail(ErrorCode::kInvalid, "{}: group {} has {} columns, each must have group_size {}", name, g,
         members[g], width);
  }
  return index;
}

}  // namespace roundel
