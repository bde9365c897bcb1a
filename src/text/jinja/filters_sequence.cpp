// Filters on lists and dicts.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

Value lowered(Interpreter& in, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return make_string(in.budget(), to_lower(value.text()));
}

// "a,b" sorts by a, then by b.
std::vector<Value> paths_of(Interpreter& in, const Value& attribute) {
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> paths;
  for (std::string_view part : split_text(attribute.text(), ",", attribute.text().size()))
    paths.push_back(make_string(in.budget(), std::string(part)));
  return paths;
}

struct Keyed {
  std::vector<Value> keys;
  Value item;
};

std::vector<Value> sorted(Interpreter& in, std::vector<Keyed> list, bool reverse) {
  Budget& budget = in.budget();
  auto before = [&](const Keyed& a, const Keyed& b) {
    for (size_t i = 0; i < a.keys.size(); ++i)
      if (!equal(a.keys[i], b.keys[i], budget))
        return order(a.keys[i], b.keys[i], Operator::kLess, budget) < 0;
    return false;
  };
  std::vector<size_t> places(list.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return reverse ? before(list[b], list[a]) : before(list[a], list[b]);
  });
  std::vector<Value> out;
  out.reserve(list.size());
  for (size_t place : places) out.push_back(std::move(list[place].item));
  return out;
}

Value sort_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [reverse, case_sensitive, attribute] =
      bind<3>("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths = paths_of(in, attribute);
  Items items = items_of(self, in.budget());
  std::vector<Keyed> list;
  for (size_t i = 0; i < items.size(); ++i) {
    list.push_back({{}, items[i]});
    in.budget().step(paths.size());
    for (const Value& path : paths)
      list.back().keys.push_back(lowered(in, at_path(in, items[i], path), truthy(case_sensitive)));
  }
  return make_list(in.budget(), sorted(in, std::move(list), truthy(reverse)));
}

Value dictsort_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [case_sensitive, by, reverse] = bind<3>("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  std::string_view what = by.is_absent() ? "key" : std::string_view(text_argument("dictsort", by));
  if (what != "key" && what != "value")
    fail(ErrorCode::kInvalid, "dictsort: by must be \"key\" or \"value\"");
  if (self.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(self));
  if (!self.is(Kind::kDict))
    fail(ErrorCode::kInvalid, "dictsort expects a mapping, got '{}'", type_name(self));
  std::vector<Keyed> list;
  for (Value& pair : dict_pairs(self, in.budget())) {
    Value key = lowered(in, pair.items()[what == "key" ? 0 : 1], truthy(case_sensitive));
    list.push_back({{std::move(key)}, std::move(pair)});
  }
  return make_list(in.budget(), sorted(in, std::move(list), truthy(reverse)));
}

Value unique_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [case_sensitive, attribute] = bind<2>("unique", arguments, {"case_sensitive", "attribute"});
  Items items = items_of(self, in.budget());
  // of equal keys a dict keeps the last value, so the first item goes in last
  std::vector<DictObject::Entry> entries;
  for (size_t i = items.size(); i-- > 0;)
    entries.emplace_back(lowered(in, at_path(in, items[i], attribute), truthy(case_sensitive)),
                         Value::integer(static_cast<int64_t>(i)));
  Value firsts = make_dict(in.budget(), std::move(entries));
  std::vector<size_t> places;
  for (const auto& entry : firsts.dict().entries)
    places.push_back(static_cast<size_t>(entry.second.as_int()));
  std::sort(places.begin(), places.end());
  std::vector<Value> out;
  for (size_t place : places) out.push_back(items[place]);
  return make_iterator(in.budget(), std::move(out));
}

template <bool kMax>
Value extreme_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [case_sensitive, attribute] =
      bind<2>(kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  Items items = items_of(self, in.budget());
  if (items.size() == 0) return make_undefined(in.budget(), "No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = lowered(in, at_path(in, items[0], attribute), truthy(case_sensitive));
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = lowered(in, at_path(in, items[i], attribute), truthy(case_sensitive));
    auto compared = order(key, best_key, kMax ? Operator::kGreater : Operator::kLess, in.budget());
    if (kMax ? compared > 0 : compared < 0) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value first_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("first", arguments);
  if (self.is(Kind::kIterator)) {
    SequenceObject& iterator = self.sequence();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return make_undefined(in.budget(), "No first item, sequence was empty.");
  }
  Items items = items_of(self, in.budget());
  return items.size() ? items[0] : make_undefined(in.budget(), "No first item, sequence was empty.");
}

Value last_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("last", arguments);
  if (self.is(Kind::kIterator))
    fail(ErrorCode::kInvalid, "last: a generator cannot be walked backwards, use list first");
  Items items = items_of(self, in.budget());
  return items.size() ? items[items.size() - 1]
                      : make_undefined(in.budget(), "No last item, sequence was empty.");
}

std::vector<Value> copied(Interpreter& in, const Value& value) {
  Items items = items_of(value, in.budget());
  in.budget().step(items.size());
  return std::vector<Value>(items.all().begin() + static_cast<ptrdiff_t>(items.begin), items.all().end());
}

Value list_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("list", arguments);
  return make_list(in.budget(), copied(in, self));
}

Value reverse_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("reverse", arguments);
  if (self.is_string()) return make_string(in.budget(), reversed_text(self.text()), self.is_markup());
  std::vector<Value> items = copied(in, self);
  std::reverse(items.begin(), items.end());
  if (self.is(Kind::kIterator)) return make_list(in.budget(), std::move(items));
  return make_iterator(in.budget(), std::move(items), "<list_reverseiterator object>");
}

Value items_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("items", arguments);
  if (self.is_undefined()) return make_iterator(in.budget(), {});
  if (!self.is(Kind::kDict)) fail(ErrorCode::kInvalid, "items expects a mapping, got '{}'", type_name(self));
  return make_iterator(in.budget(), dict_pairs(self, in.budget()));
}

Value batch_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [count, fill] = bind<2>("batch", arguments, {"linecount", "fill_with"}, 1);
  int64_t size = int_argument("batch", count);
  if (size < 1 || size > 100000) fail(ErrorCode::kInvalid, "batch: a line of {} items", size);
  Items items = items_of(self, in.budget());
  std::vector<Value> rows, row;
  for (size_t i = 0; i < items.size(); ++i) {
    row.push_back(items[i]);
    if (row.size() < static_cast<size_t>(size) && i + 1 < items.size()) continue;
    if (!fill.is_absent() && !fill.is(Kind::kNone)) {
      in.budget().step(static_cast<size_t>(size));
      row.resize(static_cast<size_t>(size), fill);
    }
    rows.push_back(make_list(in.budget(), std::move(row)));
    row.clear();
  }
  return make_iterator(in.budget(), std::move(rows));
}

Value attr_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [name] = bind<1>("attr", arguments, {"name"}, 1);
  if (self.is(Kind::kDict)) {  // attributes of the object only, not what it holds
    const std::string& wanted = text_argument("attr", name);
    if (!find_dict_method(wanted))
      return make_undefined(in.budget(), fmt::format("'dict object' has no attribute '{}'", wanted));
  }
  return in.attribute(self, text_argument("attr", name));
}

}  // namespace

Native find_sequence_filter(std::string_view name) {
  static constexpr NamedNative kFilters[] = {
      {"sort", sort_filter},          {"dictsort", dictsort_filter}, {"unique", unique_filter},
      {"min", extreme_filter<false>}, {"max", extreme_filter<true>}, {"first", first_filter},
      {"last", last_filter},          {"list", list_filter},         {"reverse", reverse_filter},
      {"items", items_filter},        {"batch", batch_filter},       {"attr", attr_filter},
  };
  return find_in(kFilters, name);
}

}  // namespace roundel::jinja
