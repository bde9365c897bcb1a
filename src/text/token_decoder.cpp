#include "text/token_decoder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/metaspace.h"

namespace roundel {
namespace {

using Kind = DecoderStep::Kind;

// Collects what comes out of the last step.
class Sink : public DecodeStage {
 public:
  explicit Sink(std::string* out) : DecodeStage(nullptr), out_(out) {}
  void text(std::string_view part) override { *out_ += part; }
  void end_token() override {}
  void finish() override {}

 private:
  std::string* out_;
};

DecoderStep parse_strip(const Json& value, const std::string& where) {
  DecoderStep step{Kind::kStrip};
  step.content = require_string(value, "content", where);
  if (step.content.empty() || utf8_length(step.content[0]) != step.content.size())
    fail(ErrorCode::kInvalid, "{}: content is \"{}\", expected one character", where, step.content);
  step.start = static_cast<uint64_t>(require_int(value, "start", where, 0, INT32_MAX));
  step.stop = static_cast<uint64_t>(require_int(value, "stop", where, 0, INT32_MAX));
  return step;
}

void parse_steps(const Json& value, const std::string& where, int depth, DecoderPlan* plan) {
  if (depth > 16) fail(ErrorCode::kLimit, "{}: nested deeper than 16 levels", where);
  const std::string type = require_string(value, "type", where);
  if (type == "Sequence") {
    const auto list = value.find("decoders");
    if (list == value.end() || !list->is_array())
      fail(ErrorCode::kInvalid, "{}: Sequence has no list decoders", where);
    for (size_t i = 0; i < list->size(); ++i)
      parse_steps((*list)[i], fmt::format("{}.decoders[{}]", where, i), depth + 1, plan);
  } else if (type == "ByteLevel") {
    plan->push_back({Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    plan->push_back({Kind::kByteFallback});
  } else if (type == "Fuse") {
    plan->push_back({Kind::kFuse});
  } else if (type == "Strip") {
    plan->push_back(parse_strip(value, where));
  } else if (type == "Metaspace") {
    const Metaspace settings = Metaspace::parse(value, where);
    DecoderStep step{Kind::kMetaspace};
    step.content = settings.replacement;
    step.drop_first = settings.prepend != Metaspace::Prepend::kNever;
    plan->push_back(std::move(step));
  } else if (type == "Replace") {
    if (!value.contains("pattern")) fail(ErrorCode::kInvalid, "{}: Replace has no pattern", where);
    DecoderStep step{Kind::kReplace};
    step.pattern = std::make_shared<TextPattern>(TextPattern::parse(value.at("pattern"), where + " Replace"));
    step.content = require_string(value, "content", where);
    plan->push_back(std::move(step));
  } else {
    fail(ErrorCode::kUnsupported,
         "{}: decoder type \"{}\" is not supported; supported are Sequence, ByteLevel, ByteFallback, Fuse, "
         "Metaspace, "
         "Replace, Strip",
         where, type);
  }
}

}  // namespace

DecoderPlan parse_decoder(const Json& value, const std::string& where) {
  DecoderPlan plan;
  if (value.is_null()) {
    plan.push_back({Kind::kJoinWithSpaces});
  } else {
    parse_steps(value, where, 0, &plan);
  }
  return plan;
}

DecodeChain::DecodeChain(const DecoderPlan& plan) {
  stages_.push_back(std::make_unique<Sink>(&ready_));
  for (size_t i = plan.size(); i-- > 0;) stages_.push_back(make_decode_stage(plan[i], stages_.back().get()));
}

void DecodeChain::token(std::string_view text) {
  stages_.back()->text(text);
  stages_.back()->end_token();
}

void DecodeChain::finish() {
  stages_.back()->finish();
}

std::string DecodeChain::take() {
  std::string ready;
  ready.swap(ready_);
  return ready;
}

}  // namespace roundel
