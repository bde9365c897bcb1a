// Walking over values as Python's iter() does.
//
//   Items items = items_of(value, budget);   // characters of a string, keys of a dict ...; takes all of an iterator
//   for (size_t i = 0; i < items.size(); ++i) use(items[i]);
#pragma once
#include <memory>
#include <vector>

#include "text/jinja/value.h"

namespace roundel::jinja {

struct Items {
  std::shared_ptr<Object> list;  // a SequenceObject
  size_t begin = 0;
  const std::vector<Value>& all() const { return static_cast<const SequenceObject&>(*list).items; }
  size_t size() const { return all().size() - begin; }
  const Value& operator[](size_t i) const { return all()[begin + i]; }
};

bool is_iterable(const Value& value);
// Throws for what cannot be walked.
Items items_of(const Value& value, Budget& budget);
// (key, value) tuples of a dict.
std::vector<Value> dict_pairs(const Value& dict, Budget& budget);
// Something that can be walked once, as Python's generators.
Value make_iterator(Budget& budget, std::vector<Value> items, const char* label = "<generator object>");

}  // namespace roundel::jinja
