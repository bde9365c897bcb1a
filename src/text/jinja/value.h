// Value: what a template computes with; follows Python's types. Strings and containers are immutable and shared.
//
//   Value text = make_string(budget, "abc");
//   Value list = make_list(budget, {text, Value::integer(3)});
//   if (list.kind() == Kind::kList) for (const Value& item : list.items()) ...
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"

namespace roundel::jinja {

enum class Kind : uint8_t {
  kAbsent,  // an argument that was not given; templates never see it
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // dict.keys() and the like
  kIterator,  // result of map, select, items ...: can be walked once
  kNamespace,
  kCallable,
  kLoop,
};

// Base of all that Value points to. `bytes` are given back to the budget at the end; depth: containers below this.
struct Object {
  Object(Budget* owner, size_t size, int levels);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  Budget* const budget;  // null for constants of the template, which outlive a rendering
  const size_t bytes;
  const int depth;
};

struct StringObject;
struct SequenceObject;
struct DictObject;
struct NamespaceObject;
struct CallableObject;
struct LoopObject;

class Value {
 public:
  Value() : kind_(Kind::kUndefined) {}
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value absent() { return Value(Kind::kAbsent, nullptr); }
  static Value none() { return Value(Kind::kNone, nullptr); }
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value number(double value);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_absent() const { return kind_ == Kind::kAbsent; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kRange; }
  // Accessors of the kind that the name says; the caller has looked at kind().
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }  // also of a bool
  double as_double() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const std::string& text() const;
  bool is_markup() const;
  const std::vector<Value>& items()
      const;  // list, tuple, range, view, iterator (all, also those already taken)
  const DictObject& dict() const;
  SequenceObject& sequence() const;
  NamespaceObject& name_space() const;
  const CallableObject& callable() const;
  LoopObject& loop() const;
  Object* object() const { return object_.get(); }
  const std::shared_ptr<Object>& share() const { return object_; }

 private:
  Kind kind_;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

struct StringObject : Object {
  StringObject(Budget* owner, std::string value, bool is_markup);
  const std::string text;
  const size_t characters;  // code points; equals text.size() for ASCII
  const bool markup;        // came from `safe` or `escape`: what is added to it gets escaped
};

struct SequenceObject : Object {
  SequenceObject(Budget* owner, std::vector<Value> values, std::string text);
  const std::vector<Value> items;
  const std::string label;  // how a range, view or iterator is printed
  size_t next = 0;          // iterators: first item that nobody took
};

// Keeps the order of insertion; keys are found by binary search.
struct DictObject : Object {
  using Entry = std::pair<Value, Value>;
  DictObject(Budget* owner, std::vector<Entry> list, std::vector<uint32_t> sorted);
  const std::vector<Entry> entries;
  const std::vector<uint32_t> order;  // positions in `entries`, by key
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key, Budget& spend) const;  // unhashable keys throw
};

Value make_string(Budget* budget, std::string text, bool markup = false);
inline Value make_string(Budget& budget, std::string text, bool markup = false) {
  return make_string(&budget, std::move(text), markup);
}
Value make_undefined(Budget& budget, std::string message);
Value make_sequence(Budget& budget, Kind kind, std::vector<Value> items, std::string label = {});
inline Value make_list(Budget& budget, std::vector<Value> items) {
  return make_sequence(budget, Kind::kList, std::move(items));
}
// Later entries of the same key replace earlier ones, at the earlier place. Throws for keys that Python cannot hash.
Value make_dict(Budget& budget, std::vector<DictObject::Entry> entries);

// What an undefined value says when it is used.
std::string undefined_message(const Value& value);
// Python's name of the type: 'str', 'NoneType', 'dict' ...
std::string_view type_name(const Value& value);
int nesting_of(const Value& value);

}  // namespace roundel::jinja
