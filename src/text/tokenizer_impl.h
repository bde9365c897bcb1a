// The parts of a Tokenizer. For the files that implement it.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace roundel {

// Working memory of BPE, reused from call to call; as many as calls run at the same time.
class ScratchPool {
 public:
  std::unique_ptr<Bpe::Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Bpe::Scratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Bpe::Scratch> scratch) {
    if (scratch->bytes() > kKeptBytes) return;  // of an uncommonly long text
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  static constexpr size_t kKeptBytes = 4 << 20;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bpe::Scratch>> free_;
};

struct Tokenizer::Impl {
  std::string name;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  Bpe bpe;
  AddedTokens added;
  PostProcessor post_processor;
  DecoderPlan decoder;
  ScratchPool scratches{};

  void encode_text(NormalizedText text, Bpe::Scratch* scratch, std::vector<int32_t>* ids) const;
  // What the decoder sees of a token; nullptr when the id has none or it is skipped.
  const std::string* decoded_token(int32_t id, const DecodeOptions& options) const;
};

}  // namespace roundel
