#include "text/tokenizer_impl.h"

namespace roundel {

struct StreamDecoder::Impl {
  const Tokenizer::Impl& tokenizer;
  DecodeOptions options;
  DecodeChain chain;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : impl_(new Impl{*tokenizer.impl_, options, DecodeChain(tokenizer.impl_->decoder)}) {}

StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(int32_t id) {
  if (const std::string* token = impl_->tokenizer.decoded_token(id, impl_->options))
    impl_->chain.token(*token);
  return impl_->chain.take();
}

std::string StreamDecoder::finish() {
  impl_->chain.finish();
  return impl_->chain.take();
}

}  // namespace roundel
