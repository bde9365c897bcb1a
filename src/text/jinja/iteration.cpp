#include "text/jinja/iteration.h"

#include "base/error.h"
#include "text/jinja/callable.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

Items fresh(Budget& budget, std::vector<Value> items) {
  return {make_list(budget, std::move(items)).share(), 0};
}

Items characters(const std::string& text, Budget& budget) {
  std::vector<Value> items;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    take_character(text, at);
    items.push_back(make_string(budget, text.substr(start, at - start)));
  }
  return fresh(budget, std::move(items));
}

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Items items_of(const Value& value, Budget& budget) {
  budget.step();
  switch (value.kind()) {
    case Kind::kUndefined:
      return fresh(budget, {});
    case Kind::kString:
      return characters(value.text(), budget);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return {value.share(), 0};
    case Kind::kDict: {
      std::vector<Value> keys;
      for (const auto& entry : value.dict().entries) keys.push_back(entry.first);
      return fresh(budget, std::move(keys));
    }
    case Kind::kIterator: {
      SequenceObject& iterator = value.sequence();
      size_t begin = std::exchange(iterator.next, iterator.items.size());
      return {value.share(), begin};
    }
    default:
      fail(ErrorCode::kInvalid, "a '{}' cannot be iterated over", type_name(value));
  }
}

Value make_iterator(Budget& budget, std::vector<Value> items, const char* label) {
  return make_sequence(budget, Kind::kIterator, std::move(items), label);
}

}  // namespace roundel::jinja
