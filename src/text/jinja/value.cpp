#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/jinja/callable.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

constexpr size_t kObjectBytes = 128;  // of an empty string, about

int nesting_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, jinja::nesting_of(item));
  return depth + 1;
}

int nesting_of(const std::vector<DictObject::Entry>& entries) {
  int depth = 0;
  for (const auto& [key, value] : entries)
    depth = std::max({depth, jinja::nesting_of(key), jinja::nesting_of(value)});
  return depth + 1;
}

// Order of dict keys: equal exactly when Python calls the keys equal (1, 1.0 and True are one key).
int rank_of_key(const Value& key) {
  switch (key.kind()) {
    case Kind::kNone:
      return 0;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return 1;
    case Kind::kString:
      return 2;
    case Kind::kTuple:
      return 3;
    default:
      fail(ErrorCode::kInvalid, "unhashable type: '{}'", type_name(key));
  }
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  auto wide = [](const Value& v) {  // exact for both types
    return v.is_integral() ? static_cast<long double>(v.as_int()) : static_cast<long double>(v.as_double());
  };
  long double x = wide(a), y = wide(b);
  bool x_nan = std::isnan(x), y_nan = std::isnan(y);
  if (x_nan || y_nan) return static_cast<int>(y_nan) - static_cast<int>(x_nan);
  return x < y ? -1 : x > y;
}

int compare_keys(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  int rank = rank_of_key(a), other = rank_of_key(b);
  if (rank != other) return rank < other ? -1 : 1;
  if (rank == 1) return compare_numbers(a, b);
  if (rank == 2) return a.text().compare(b.text());
  if (rank != 3) return 0;
  const auto &x = a.items(), &y = b.items();
  for (size_t i = 0; i < x.size() && i < y.size(); ++i)
    if (int c = compare_keys(x[i], y[i], budget); c != 0) return c;
  return x.size() < y.size() ? -1 : x.size() > y.size();
}

void check_key(const Value& key, Budget& budget) {
  budget.step();
  if (rank_of_key(key) == 3)
    for (const Value& item : key.items()) check_key(item, budget);
}

std::string undefined_text(const Value& value) {
  return value.object() ? value.text() : std::string();
}

}  // namespace

Object::Object(Budget* owner, size_t size, int levels)
    : budget(owner), bytes(kObjectBytes + size), depth(levels) {
  if (!budget) return;
  budget->check_nesting(depth);
  budget->charge(bytes);
}

Object::~Object() {
  if (budget) budget->release(bytes);
}

StringObject::StringObject(Budget* owner, std::string value, bool is_markup)
    : Object(owner, value.size(), 0),
      text(std::move(value)),
      characters(count_characters(text)),
      markup(is_markup) {}

SequenceObject::SequenceObject(Budget* owner, std::vector<Value> values, std::string name)
    : Object(owner, values.size() * sizeof(Value), nesting_of(values)),
      items(std::move(values)),
      label(std::move(name)) {}

DictObject::DictObject(Budget* owner, std::vector<Entry> list, std::vector<uint32_t> sorted)
    : Object(owner, list.size() * (sizeof(Entry) + sizeof(uint32_t)), nesting_of(list)),
      entries(std::move(list)),
      order(std::move(sorted)) {}

const Value* DictObject::find(std::string_view key) const {
  auto before = [&](uint32_t at, std::string_view wanted) {
    const Value& k = entries[at].first;
    return k.is_string() ? k.text() < wanted : rank_of_key(k) < 2;
  };
  auto it = std::lower_bound(order.begin(), order.end(), key, before);
  if (it == order.end()) return nullptr;
  const auto& [found, value] = entries[*it];
  return found.is_string() && found.text() == key ? &value : nullptr;
}

const Value* DictObject::find(const Value& key, Budget& spend) const {
  if (key.is_string()) return find(key.text());
  check_key(key, spend);
  auto before = [&](uint32_t at, const Value& wanted) {
    return compare_keys(entries[at].first, wanted, spend) < 0;
  };
  auto it = std::lower_bound(order.begin(), order.end(), key, before);
  if (it == order.end() || compare_keys(entries[*it].first, key, spend) != 0) return nullptr;
  return &entries[*it].second;
}

Value Value::boolean(bool value) {
  Value v(Kind::kBool, nullptr);
  v.int_ = value;
  return v;
}
Value Value::integer(int64_t value) {
  Value v(Kind::kInt, nullptr);
  v.int_ = value;
  return v;
}
Value Value::number(double value) {
  Value v(Kind::kFloat, nullptr);
  v.float_ = value;
  return v;
}

const std::string& Value::text() const {
  return static_cast<const StringObject*>(object_.get())->text;
}
bool Value::is_markup() const {
  return is_string() && static_cast<const StringObject*>(object_.get())->markup;
}
const std::vector<Value>& Value::items() const {
  return sequence().items;
}
SequenceObject& Value::sequence() const {
  return *static_cast<SequenceObject*>(object_.get());
}
const DictObject& Value::dict() const {
  return *static_cast<const DictObject*>(object_.get());
}
NamespaceObject& Value::name_space() const {
  return *static_cast<NamespaceObject*>(object_.get());
}
const CallableObject& Value::callable() const {
  return *static_cast<const CallableObject*>(object_.get());
}
LoopObject& Value::loop() const {
  return *static_cast<LoopObject*>(object_.get());
}

Value make_string(Budget* budget, std::string text, bool markup) {
  if (budget) {
    budget->check_text(text.size());
    budget->work(text.size());
  }
  return Value(Kind::kString, std::make_shared<StringObject>(budget, std::move(text), markup));
}

Value make_undefined(Budget& budget, std::string message) {
  return Value(Kind::kUndefined, std::make_shared<StringObject>(&budget, std::move(message), false));
}

Value make_sequence(Budget& budget, Kind kind, std::vector<Value> items, std::string label) {
  budget.step(1 + items.size() / 16);
  return Value(kind, std::make_shared<SequenceObject>(&budget, std::move(items), std::move(label)));
}

Value make_dict(Budget& budget, std::vector<DictObject::Entry> entries) {
  budget.step(1 + entries.size());
  for (const auto& [key, value] : entries) check_key(key, budget);
  std::vector<uint32_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return compare_keys(entries[a].first, entries[b].first, budget) < 0;
  });
  bool repeated = false;
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (i > 0 && compare_keys(entries[order[i]].first, entries[order[first]].first, budget) == 0) {
      entries[order[first]].second = entries[order[i]].second;
      entries[order[i]].first = Value::absent();
      repeated = true;
    } else {
      first = i;
    }
  }
  if (repeated) {
    std::erase_if(entries, [](const DictObject::Entry& entry) { return entry.first.is_absent(); });
    return make_dict(budget, std::move(entries));
  }
  return Value(Kind::kDict, std::make_shared<DictObject>(&budget, std::move(entries), std::move(order)));
}

std::string undefined_message(const Value& value) {
  std::string message = undefined_text(value);
  return message.empty() ? "the value is undefined" : message;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kAbsent:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.sequence().label;
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

int nesting_of(const Value& value) {
  return value.object() ? value.object()->depth : 0;
}

}  // namespace roundel::jinja
