#include "text/merge_queue.h"

#include <algorithm>
#include <functional>

namespace roundel {

void MergeQueue::push(uint32_t rank, uint32_t position) {
  uint32_t& at = list_of_rank_[rank];
  if (at == kNone) {
    if (free_lists_.empty()) {
      free_lists_.push_back(static_cast<uint32_t>(lists_.size()));
      lists_.emplace_back();
    }
    at = free_lists_.back();
    free_lists_.pop_back();
    ranks_.push_back(rank);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
  }
  List& list = lists_[at];
  if (list.head == list.in_order.size() || position >= list.in_order.back()) {
    list.in_order.push_back(position);
  } else {
    list.out_of_order.push_back(position);
    std::push_heap(list.out_of_order.begin(), list.out_of_order.end(), std::greater<>());
  }
}

std::optional<MergeQueue::Entry> MergeQueue::pop() {
  if (ranks_.empty()) return std::nullopt;
  const uint32_t rank = ranks_.front();
  List& list = lists_[list_of_rank_[rank]];
  const bool ordered = list.head < list.in_order.size();
  uint32_t position = 0;
  if (ordered && (list.out_of_order.empty() || list.in_order[list.head] <= list.out_of_order.front())) {
    position = list.in_order[list.head++];
  } else {
    std::pop_heap(list.out_of_order.begin(), list.out_of_order.end(), std::greater<>());
    position = list.out_of_order.back();
    list.out_of_order.pop_back();
  }
  if (list.empty()) {
    list.in_order.clear();
    list.head = 0;
    free_lists_.push_back(list_of_rank_[rank]);
    list_of_rank_[rank] = kNone;
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
  }
  return Entry{rank, position};
}

}  // namespace roundel
