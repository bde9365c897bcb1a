// Functions that every template sees.
#include <time.h>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"

namespace roundel::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // of Jinja's sandbox

Value range_function(Interpreter& in, const Value&, Arguments& arguments) {
  auto [first, second, third] = bind<3>("range()", arguments, {"start", "stop", "step"}, 1);
  int64_t start = int_argument("range()", first), stop = 0, step = int_argument("range()", third, 1);
  if (second.is_absent()) {
    stop = start;
    start = 0;
  } else {
    stop = int_argument("range()", second);
  }
  if (step == 0) fail(ErrorCode::kInvalid, "range() needs a step that is not 0");
  auto wide = [](int64_t v) { return static_cast<__int128>(v); };
  __int128 distance = step > 0 ? wide(stop) - start : wide(start) - stop;
  __int128 by = step > 0 ? wide(step) : -wide(step);
  __int128 count = distance > 0 ? (distance - 1) / by + 1 : 0;
  if (count > kMaxRange) fail(ErrorCode::kLimit, "range() makes more than {} numbers", kMaxRange);
  in.budget().step(static_cast<size_t>(count) / 4);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
    items.push_back(Value::integer(static_cast<int64_t>(wide(start) + wide(i) * step)));
  std::string label = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return make_sequence(in.budget(), Kind::kRange, std::move(items), std::move(label));
}

// Entries of dict(mapping or pairs, name=value ...).
std::vector<DictObject::Entry> entries_of(std::string_view function, Interpreter& in, Arguments& arguments) {
  if (arguments.positional.size() > 1)
    fail(ErrorCode::kInvalid, "{} takes at most one list or mapping", function);
  std::vector<DictObject::Entry> entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      entries = source.dict().entries;
    } else {
      Items pairs = items_of(source, in.budget());
      for (size_t i = 0; i < pairs.size(); ++i) {
        Items pair = items_of(pairs[i], in.budget());
        if (pair.size() != 2) fail(ErrorCode::kInvalid, "{}: element {} is no pair", function, i);
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    entries.emplace_back(make_string(in.budget(), name), value);
  return entries;
}

Value dict_function(Interpreter& in, const Value&, Arguments& arguments) {
  return make_dict(in.budget(), entries_of("dict()", in, arguments));
}

Value namespace_function(Interpreter& in, const Value&, Arguments& arguments) {
  auto entries = entries_of("namespace()", in, arguments);
  Value result = in.make_namespace();
  for (const auto& [key, value] : entries)
    result.name_space().values.insert_or_assign(text_argument("namespace()", key), value);
  return result;
}

Value raise_function(Interpreter& in, const Value&, Arguments& arguments) {
  auto [message] = bind<1>("raise_exception()", arguments, {"message"}, 1);
  fail(ErrorCode::kInvalid, "the template refuses this conversation: {}", text_of(message, in.budget()));
}

Value strftime_function(Interpreter& in, const Value&, Arguments& arguments) {
  auto [format] = bind<1>("strftime_now()", arguments, {"format"}, 1);
  const std::string& text = text_argument("strftime_now()", format);
  if (text.size() > 1000 || text.find('\0') != std::string::npos)
    fail(ErrorCode::kInvalid, "strftime_now(): a format of {} bytes", text.size());
  time_t now = time(nullptr);
  tm local = {};
  localtime_r(&now, &local);
  char buffer[2048];
  size_t length = strftime(buffer, sizeof buffer, text.c_str(), &local);
  if (length == 0 && !text.empty() && text != "%p" && text != "%P" && text != "%Z")
    fail(ErrorCode::kInvalid, "strftime_now(): the format \"{}\" gives nothing or too much text", text);
  return make_string(in.budget(), std::string(buffer, length));
}

}  // namespace

Native find_global(std::string_view name) {
  static constexpr NamedNative kFunctions[] = {{"range", range_function},
                                               {"dict", dict_function},
                                               {"namespace", namespace_function},
                                               {"raise_exception", raise_function},
                                               {"strftime_now", strftime_function}};
  return find_in(kFunctions, name);
}

}  // namespace roundel::jinja
