// Decoders of tokenizer.json: tokens become text again. They work token by token, so that a stream of tokens and a whole
// list of them give the same text.
//
//   DecoderPlan plan = parse_decoder(json.at("decoder"), "tokenizer.json: decoder");
//   DecodeChain chain(plan);
//   chain.token("\u2581Hello");
//   std::string ready = chain.take();
//   chain.finish();
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/text_pattern.h"

namespace roundel {

struct DecoderStep {
  enum class Kind { kByteLevel, kByteFallback, kFuse, kMetaspace, kReplace, kStrip, kJoinWithSpaces };
  Kind kind;
  std::shared_ptr<const TextPattern> pattern{};  // kReplace
  std::string content{};                         // kReplace: what to write; kStrip, kMetaspace: the character
  bool drop_first = false;                       // kMetaspace: the first token's characters vanish
  uint64_t start = 0, stop = 0;  // kStrip: at most so many characters at the begin and end of a token
};
using DecoderPlan = std::vector<DecoderStep>;

// null: tokens with spaces between them. Types: Sequence, ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip;
// another one throws Error(kUnsupported) with its name.
DecoderPlan parse_decoder(const Json& value, const std::string& where);

// One stage of decoding. A token comes as text(..) any number of times, then end_token(). All texts are valid UTF-8.
class DecodeStage {
 public:
  explicit DecodeStage(DecodeStage* next) : next_(next) {}
  virtual ~DecodeStage() = default;
  virtual void text(std::string_view part) { next_->text(part); }
  virtual void end_token() { next_->end_token(); }
  virtual void finish() { next_->finish(); }

 protected:
  DecodeStage* next_;
};

// The stages of a plan (which must outlive it), with the state that they need between tokens.
class DecodeChain {
 public:
  explicit DecodeChain(const DecoderPlan& plan);
  void token(std::string_view text);
  void finish();  // no tokens follow
  // The text that no later token can change, given out once. Ends at a whole character.
  std::string take();

 private:
  std::string ready_;
  std::vector<std::unique_ptr<DecodeStage>> stages_;  // the last one of the plan first
};

// Made by token_decoder_stages.cpp.
std::unique_ptr<DecodeStage> make_decode_stage(const DecoderStep& step, DecodeStage* next);

}  // namespace roundel
