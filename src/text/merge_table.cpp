#include "text/merge_table.h"

#include <bit>

namespace roundel {

MergeTable::MergeTable(size_t count) : slots_(std::bit_ceil(count * 2 + 1)), mask_(slots_.size() - 1) {}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t joined) {
  const uint64_t wanted = key(left, right);
  size_t at = hash(wanted) & mask_;
  while (slots_[at].key != wanted && slots_[at].key != kEmpty) at = (at + 1) & mask_;
  slots_[at] = {wanted, {rank, joined}};
}

}  // namespace roundel
