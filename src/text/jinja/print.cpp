#include "text/jinja/print.h"

#include <cmath>

#include "base/error.h"
#include "text/jinja/callable.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

void append_items(const std::vector<Value>& items, std::string& out, Budget& budget) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(item, out, budget);
  }
}

void append_dict(const DictObject& dict, std::string& out, Budget& budget) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(key, out, budget);
    out += ": ";
    append_repr(value, out, budget);
  }
  out += '}';
}

void append_namespace(const NamespaceObject& space, std::string& out, Budget& budget) {
  out += "<Namespace {";
  bool first = true;
  for (const auto& [key, value] : space.values) {
    if (!first) out += ", ";
    first = false;
    out += repr_of(key) + ": ";
    append_repr(value, out, budget);
  }
  out += "}>";
}

void append_container(const Value& value, std::string& out, Budget& budget) {
  Depth depth(budget);
  switch (value.kind()) {
    case Kind::kList:
      out += '[';
      append_items(value.items(), out, budget);
      out += ']';
      return;
    case Kind::kTuple:
      out += '(';
      append_items(value.items(), out, budget);
      out += value.items().size() == 1 ? ",)" : ")";
      return;
    case Kind::kView:
      out += value.sequence().label + "([";
      append_items(value.items(), out, budget);
      out += "])";
      return;
    case Kind::kDict:
      return append_dict(value.dict(), out, budget);
    default:
      return append_namespace(value.name_space(), out, budget);
  }
}

void append_scalar(const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      out += std::to_string(value.as_int());
      return;
    case Kind::kFloat:
      out += float_text(value.as_double());
      return;
    case Kind::kRange:
    case Kind::kIterator:
      out += value.sequence().label;
      return;
    case Kind::kCallable:
      out += fmt::format("<{} {}>", value.callable().macro ? "Macro" : "function",
                         repr_of(value.callable().name));
      return;
    case Kind::kLoop:
      out += "<LoopContext>";
      return;
    default:
      return;
  }
}

// ---- JSON

void append_json_string(std::string_view text, bool ascii, std::string& out) {
  auto unicode = [&](char32_t unit) { out += fmt::format("\\u{:04x}", static_cast<uint32_t>(unit)); };
  out += '"';
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = take_character(text, at);
    switch (c) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\b':
        out += "\\b";
        continue;
      case '\f':
        out += "\\f";
        continue;
      default:
        break;
    }
    if (c < 0x20 || (ascii && c >= 0x80 && c < 0x10000)) {
      unicode(c);
    } else if (ascii && c >= 0x10000) {
      unicode(0xD800 + ((c - 0x10000) >> 10));
      unicode(0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      out += text.substr(start, at - start);
    }
  }
  out += '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_text(value);
}

void append_json_key(const Value& key, const JsonStyle& style, std::string& out) {
  switch (key.kind()) {
    case Kind::kString:
      return append_json_string(key.text(), style.ascii, out);
    case Kind::kNone:
      out += "\"null\"";
      return;
    case Kind::kBool:
      out += key.as_bool() ? "\"true\"" : "\"false\"";
      return;
    case Kind::kInt:
      out += fmt::format("\"{}\"", key.as_int());
      return;
    case Kind::kFloat:
      out += fmt::format("\"{}\"", json_number(key.as_double()));
      return;
    default:
      fail(ErrorCode::kInvalid, "tojson: keys must be str, int, float, bool or None, not {}", type_name(key));
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::string& out, Budget& budget)
      : style_(style), out_(out), budget_(budget) {}

  void write(const Value& value) {
    budget_.step();
    budget_.check_text(out_.size());
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += std::to_string(value.as_int());
        return;
      case Kind::kFloat:
        out_ += json_number(value.as_double());
        return;
      case Kind::kString:
        budget_.work(value.text().size());
        append_json_string(value.text(), style_.ascii, out_);
        return;
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value.items());
      case Kind::kDict:
        return write_dict(value.dict());
      default:
        fail(ErrorCode::kInvalid, "tojson: a value of type {} is not JSON{}", type_name(value),
             value.is_undefined() ? fmt::format(" ({})", undefined_message(value)) : "");
    }
  }

 private:
  void write_list(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    Depth depth(budget_);
    out_ += '[';
    open();
    bool first = true;
    for (const Value& item : items) {
      separate(first);
      write(item);
    }
    close();
    out_ += ']';
  }

  void write_dict(const DictObject& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    Depth depth(budget_);
    out_ += '{';
    open();
    bool first = true;
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      const auto& [key, value] = dict.entries[style_.sort_keys ? dict.order[i] : i];
      separate(first);
      append_json_key(key, style_, out_);
      out_ += style_.key_separator;
      write(value);
    }
    close();
    out_ += '}';
  }

  void line() {
    if (!style_.indent) return;
    out_ += '\n';
    budget_.check_text(out_.size() + style_.indent->size() * level_);
    for (size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }
  void open() {
    ++level_;
    line();
  }
  void close() {
    --level_;
    line();
  }
  void separate(bool& first) {
    if (!first) {
      out_ += style_.item_separator;
      line();
    }
    first = false;
  }

  const JsonStyle& style_;
  std::string& out_;
  Budget& budget_;
  size_t level_ = 0;
};

}  // namespace

void append_text(const Value& value, std::string& out, Budget& budget) {
  if (value.is_string()) {
    budget.work(value.text().size());
    budget.check_text(out.size() + value.text().size());
    out += value.text();
  } else if (!value.is_undefined()) {
    append_repr(value, out, budget);
  }
}

void append_repr(const Value& value, std::string& out, Budget& budget) {
  budget.step();
  budget.check_text(out.size());
  switch (value.kind()) {
    case Kind::kString:
      budget.work(value.text().size());
      out += value.is_markup() ? fmt::format("Markup({})", repr_of(value.text())) : repr_of(value.text());
      return;
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kDict:
    case Kind::kNamespace:
      return append_container(value, out, budget);
    default:
      return append_scalar(value, out);
  }
}

std::string text_of(const Value& value, Budget& budget) {
  std::string out;
  append_text(value, out, budget);
  return out;
}

void append_json(const Value& value, const JsonStyle& style, std::string& out, Budget& budget) {
  JsonWriter(style, out, budget).write(value);
  budget.check_text(out.size());
}

}  // namespace roundel::jinja
