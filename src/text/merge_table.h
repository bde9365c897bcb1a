// The merges of BPE: which two neighbouring tokens become one, and which pair goes first (the lowest rank).
//
//   MergeTable merges(count);
//   merges.add(left, right, rank, joined);
//   if (const Merge* m = merges.find(left, right)) queue(m->rank);
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace roundel {

struct Merge {
  uint32_t rank;
  int32_t joined;  // the id of both together
};

// A hash table with open addressing: BPE asks it several times for each character.
class MergeTable {
 public:
  explicit MergeTable(size_t count);
  // A pair that is there already takes the new rank. Not more pairs than `count`.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t joined);
  const Merge* find(int32_t left, int32_t right) const {
    for (size_t at = hash(key(left, right)) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key(left, right)) return &slots_[at].merge;
      if (slots_[at].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: ids are not negative
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static size_t hash(uint64_t k) {
    k *= 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(k ^ k >> 32);
  }
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace roundel
