// Budget: what one rendering of a template may use. Everything that grows or repeats asks here first.
//
//   budget.step();              // one operation; also looks at the clock now and then
//   budget.work(text.size());   // an operation on that many bytes
//   Depth depth(budget);        // one level deeper until the end of the block
#pragma once
#include <cstddef>
#include <cstdint>

#include "text/chat_template.h"

namespace roundel::jinja {

class Budget {
 public:
  explicit Budget(const TemplateBudget& limits);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(size_t count = 1) {
    steps_ += count;
    if (steps_ >= next_look_) look();
  }
  void work(size_t bytes) { step(1 + bytes / 1024); }
  // A string (or the output) of that many bytes is about to exist.
  void check_text(size_t bytes) const;
  // Memory of values that are alive.
  void charge(size_t bytes);
  void release(size_t bytes) { live_ -= bytes; }
  // Containers inside containers.
  void check_nesting(int depth) const;
  void enter() {
    if (++depth_ > max_levels_) too_deep();
  }
  void leave() { --depth_; }
  const TemplateBudget& limits() const { return limits_; }

 private:
  void look();
  [[noreturn]] void too_deep();
  TemplateBudget limits_;
  uint64_t steps_ = 0;
  uint64_t next_look_ = 0;
  size_t live_ = 0;
  size_t max_live_;
  int depth_ = 0;
  int max_levels_;
  double deadline_;
};

class Depth {
 public:
  explicit Depth(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~Depth() { budget_.leave(); }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Budget& budget_;
};

}  // namespace roundel::jinja
