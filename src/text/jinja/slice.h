// value[start:stop:step] and value[index] of Python's sequences.
#pragma once
#include "text/jinja/value.h"

namespace roundel::jinja {

// Bounds are integers or none; anything else, a step of 0 and values without slices throw.
Value sliced(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget);

// Of a string, list, tuple or range; absent when the index is outside.
Value indexed(const Value& value, int64_t index, Budget& budget);

}  // namespace roundel::jinja
