#include "linear/weight_target.h"

#include <algorithm>
#include <numeric>

namespace roundel {

std::vector<int32_t> group_order(const std::vector<int32_t>& group_of_column) {
  std::vector<int32_t> order(group_of_column.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return group_of_column[static_cast<size_t>(a)] < group_of_column[static_cast<size_t>(b)];
  });
  return order;
}

std::vector<int8_t> reorder_columns(const QuantizedRows& rows, const std::vector<int32_t>& order) {
  const size_t cols = order.size();
  std::vector<int8_t> ordered(rows.codes.size());
  for (size_t r = 0; r < static_cast<size_t>(rows.rows); ++r)
    for (size_t c = 0; c < cols; ++c)
      ordered[r * cols + c] = rows.codes[r * cols + static_cast<size_t>(order[c])];
  return ordered;
}

}  // namespace roundel
