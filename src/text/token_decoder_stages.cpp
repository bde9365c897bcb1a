#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/token_decoder.h"

namespace roundel {
namespace {

// For steps that need a token as a whole.
class WholeTokenStage : public DecodeStage {
 public:
  using DecodeStage::DecodeStage;
  void text(std::string_view part) final { token_ += part; }
  void end_token() final {
    whole_token(token_);
    token_.clear();
  }

 protected:
  virtual void whole_token(const std::string& token) = 0;
  void emit(std::string_view token) {
    next_->text(token);
    next_->end_token();
  }

 private:
  std::string token_;
};

// All tokens become bytes and the bytes one text.
class ByteLevelStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    repair_.finish(&text_);
    flush();
    next_->end_token();
    next_->finish();
  }

 protected:
  void whole_token(const std::string& token) override {
    repair_.push(bytes_of_byte_level(token).value_or(token), &text_);
    flush();
  }

 private:
  void flush() {
    next_->text(text_);
    text_.clear();
  }
  Utf8Repair repair_;
  std::string text_;
};

// Tokens <0x00> to <0xFF> in a row become one text when all of them together are UTF-8, else each becomes U+FFFD.
class ByteFallbackStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    flush();
    next_->finish();
  }

 protected:
  void whole_token(const std::string& token) override {
    if (const int byte = byte_of(token); byte >= 0) {
      bytes_ += static_cast<char>(byte);
      return;
    }
    flush();
    emit(token);
  }

 private:
  static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    if (token[3] == '+') return hex(token[4]);  // a sign, as the parser of numbers in `tokenizers` allows
    return hex(token[3]) < 0 || hex(token[4]) < 0 ? -1 : hex(token[3]) * 16 + hex(token[4]);
  }
  void flush() {
    if (bytes_.empty()) return;
    if (is_valid_utf8(bytes_)) {
      emit(bytes_);
    } else {
      for (size_t i = 0; i < bytes_.size(); ++i) emit(kReplacement);
    }
    bytes_.clear();
  }
  std::string bytes_;
};

class FuseStage : public DecodeStage {
 public:
  using DecodeStage::DecodeStage;
  void end_token() override {}
  void finish() override {
    next_->end_token();
    next_->finish();
  }
};

class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(const DecoderStep& step, DecodeStage* next) : DecodeStage(next), step_(step) {}
  void text(std::string_view part) override {
    std::string out;
    for (size_t at = 0; at < part.size();) {
      if (!part.substr(at).starts_with(step_.content)) {
        out += part[at++];
        continue;
      }
      if (!(first_ && step_.drop_first)) out += ' ';
      at += step_.content.size();
    }
    next_->text(out);
  }
  void end_token() override {
    first_ = false;
    next_->end_token();
  }

 private:
  const DecoderStep& step_;
  bool first_ = true;
};

class ReplaceStage : public WholeTokenStage {
 public:
  ReplaceStage(const DecoderStep& step, DecodeStage* next) : WholeTokenStage(next), step_(step) {}

 protected:
  void whole_token(const std::string& token) override {
    std::string out;
    size_t copied = 0;
    step_.pattern->for_each(token, [&](size_t begin, size_t end) {
      out.append(token, copied, begin - copied);
      out += step_.content;
      copied = end;
    });
    out.append(token, copied);
    emit(out);
  }

 private:
  const DecoderStep& step_;
};

// Removes a character at both ends of a token. What may be its end is held back.
class StripStage : public DecodeStage {
 public:
  StripStage(const DecoderStep& step, DecodeStage* next) : DecodeStage(next), step_(step) {}
  void text(std::string_view part) override {
    std::string out;
    for (size_t at = 0; at < part.size();) {
      const std::string_view character = part.substr(at, utf8_length(part[at]));
      at += character.size();
      if (character != step_.content) {
        at_begin_ = false;
        for (; held_ > 0; --held_) out += step_.content;
        out += character;
      } else if (at_begin_ && removed_ < step_.start) {
        ++removed_;
      } else if (held_ < step_.stop) {
        ++held_;
      } else {
        out += character;
      }
    }
    next_->text(out);
  }
  void end_token() override {
    at_begin_ = true;
    removed_ = held_ = 0;
    next_->end_token();
  }

 private:
  const DecoderStep& step_;
  bool at_begin_ = true;
  uint64_t removed_ = 0;
  uint64_t held_ = 0;
};

class JoinWithSpacesStage : public DecodeStage {
 public:
  using DecodeStage::DecodeStage;
  void text(std::string_view part) override {
    begin_token();
    next_->text(part);
  }
  void end_token() override {
    begin_token();
    begun_ = false;
  }

 private:
  void begin_token() {
    if (!begun_ && !first_) next_->text(" ");
    begun_ = true;
    first_ = false;
  }
  bool first_ = true;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<DecodeStage> make_decode_stage(const DecoderStep& step, DecodeStage* next) {
  switch (step.kind) {
    case DecoderStep::Kind::kByteLevel:
      return std::make_unique<ByteLevelStage>(next);
    case DecoderStep::Kind::kByteFallback:
      return std::make_unique<ByteFallbackStage>(next);
    case DecoderStep::Kind::kFuse:
      return std::make_unique<FuseStage>(next);
    case DecoderStep::Kind::kMetaspace:
      return std::make_unique<MetaspaceStage>(step, next);
    case DecoderStep::Kind::kReplace:
      return std::make_unique<ReplaceStage>(step, next);
    case DecoderStep::Kind::kStrip:
      return std::make_unique<StripStage>(step, next);
    case DecoderStep::Kind::kJoinWithSpaces:
      break;
  }
  return std::make_unique<JoinWithSpacesStage>(next);
}

}  // namespace roundel
