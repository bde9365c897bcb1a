// Memory that a thread keeps from one kernel call to the next: on 64 bytes, contents undefined.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/checked.h"

namespace roundel {

class Scratch {
 public:
  uint8_t* reserve(int64_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      const int64_t rounded = round_up(bytes, 64);
      memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>(rounded))));
      if (!memory_) throw std::bad_alloc();
      size_ = rounded;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  int64_t size_ = 0;
};

}  // namespace roundel
