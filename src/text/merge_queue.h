// The pairs that BPE still has to join, in the order of rank and then position.
//
//   MergeQueue queue;
//   queue.start(merge_count);
//   queue.push(rank, position);
//   while (auto next = queue.pop()) ...
//
// One list for each rank: the positions of a rank mostly come in order, so that almost all steps take constant time and
// walk through memory in order, where a single heap over a long text would not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace roundel {

class MergeQueue {
 public:
  struct Entry {
    uint32_t rank;
    uint32_t position;
  };
  // Makes the queue ready for ranks below `ranks`. The queue is empty before and after the joining of a piece.
  void start(size_t ranks) {
    if (list_of_rank_.size() < ranks) list_of_rank_.resize(ranks, kNone);
  }
  void push(uint32_t rank, uint32_t position);
  std::optional<Entry> pop();

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct List {
    std::vector<uint32_t> in_order;
    size_t head = 0;                     // of in_order: those before are gone
    std::vector<uint32_t> out_of_order;  // a heap, the smallest on top
    bool empty() const { return head == in_order.size() && out_of_order.empty(); }
  };
  std::vector<uint32_t> list_of_rank_;
  std::vector<uint32_t> ranks_;  // those with positions: a heap, the smallest on top
  std::vector<List> lists_;
  std::vector<uint32_t> free_lists_;
};

}  // namespace roundel
