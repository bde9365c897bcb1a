#include "text/jinja/slice.h"

#include <algorithm>

#include "base/error.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

struct Span {
  int64_t start, step;
  int64_t count;
};

// Python's slice.indices.
Span span_of(const Value& start, const Value& stop, const Value& step, int64_t length) {
  int64_t by = step.is(Kind::kNone) ? 1 : step.as_int();
  if (by == 0) fail(ErrorCode::kInvalid, "slice step cannot be zero");
  int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
  auto place = [&](const Value& bound, int64_t if_none) {
    if (bound.is(Kind::kNone)) return if_none;
    int64_t at = bound.as_int();
    if (at < 0) at = at < -length ? low : at + length;
    return std::clamp(at, low, std::max(low, high));
  };
  int64_t begin = place(start, by < 0 ? high : low), end = place(stop, by < 0 ? low : high);
  if (by > 0) return {begin, by, end > begin ? (end - begin - 1) / by + 1 : 0};
  // -(by + 1) instead of -by: the smallest integer has no opposite
  int64_t distance = begin - end;
  if (distance <= 0) return {begin, by, 0};
  int64_t back = by == INT64_MIN ? INT64_MAX : -by;
  return {begin, by, (distance - 1) / back + 1};
}

Value sliced_text(const Value& value, const Span& span, Budget& budget) {
  const std::string& text = value.text();
  size_t characters = static_cast<const StringObject*>(value.object())->characters;
  budget.work(text.size());
  auto offset = [&](int64_t index) { return byte_of(text, characters, static_cast<size_t>(index)); };
  if (span.count == 0) return make_string(budget, "", value.is_markup());
  if (span.step == 1) {
    size_t begin = offset(span.start), end = offset(span.start + span.count);
    return make_string(budget, text.substr(begin, end - begin), value.is_markup());
  }
  std::vector<size_t> starts;  // of every character
  for (size_t at = 0; at < text.size(); take_character(text, at)) starts.push_back(at);
  starts.push_back(text.size());
  budget.step(starts.size() / 16);
  std::string out;
  for (int64_t i = 0, at = span.start; i < span.count; ++i, at += i < span.count ? span.step : 0) {
    auto index = static_cast<size_t>(at);
    if (index + 1 >= starts.size()) break;
    out.append(text, starts[index], starts[index + 1] - starts[index]);
  }
  return make_string(budget, std::move(out), value.is_markup());
}

}  // namespace

Value sliced(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  bool text = value.is_string();
  if (!text && !value.is_sequence()) fail(ErrorCode::kInvalid, "a '{}' has no slices", type_name(value));
  for (const Value* bound : {&start, &stop, &step})
    if (!bound->is(Kind::kNone) && !bound->is_integral())
      fail(ErrorCode::kInvalid, "a bound of a slice must be an integer or none, not '{}'", type_name(*bound));
  size_t length = text ? static_cast<const StringObject*>(value.object())->characters : value.items().size();
  Span span = span_of(start, stop, step, static_cast<int64_t>(length));
  if (text) return sliced_text(value, span, budget);
  budget.step(static_cast<size_t>(span.count));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(span.count));
  for (int64_t i = 0, at = span.start; i < span.count; ++i, at += i < span.count ? span.step : 0)
    items.push_back(value.items()[static_cast<size_t>(at)]);
  return make_sequence(budget, value.is(Kind::kTuple) ? Kind::kTuple : Kind::kList, std::move(items));
}

Value indexed(const Value& value, int64_t index, Budget& budget) {
  bool text = value.is_string();
  size_t length = text ? static_cast<const StringObject*>(value.object())->characters : value.items().size();
  if (index < 0) index += static_cast<int64_t>(length);
  if (index < 0 || static_cast<size_t>(index) >= length) return Value::absent();
  if (!text) return value.items()[static_cast<size_t>(index)];
  const std::string& all = value.text();
  budget.work(length == all.size() ? 0 : all.size());
  size_t begin = byte_of(all, length, static_cast<size_t>(index)), end = begin;
  take_character(all, end);
  return make_string(budget, all.substr(begin, end - begin), value.is_markup());
}

}  // namespace roundel::jinja
