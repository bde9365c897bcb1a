#include "engine/generate.h"

#include <algorithm>

#include "base/process.h"

namespace roundel {

Generator::Generator(const LoadedModel& loaded, const Tokenizer& tokenizer)
    : loaded_(loaded), tokenizer_(tokenizer), cache_(loaded.model->make_cache(1)) {
  logits_.resize(static_cast<size_t>(loaded.model->config().vocab_size));
}

void Generator::prefill(std::span<const int32_t> tokens) {
  const Model& model = *loaded_.model;
  const auto chunk = static_cast<size_t>(model.prompt_chunk());
  const int64_t end = static_cast<int64_t>(held_.size() + tokens.size());
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    throw_if_interrupted();
    const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
    const SequenceStep step{0, part, end};
    if (at + part.size() == tokens.size()) {
      model.next_logits({&step, 1}, cache_, logits_.data(), static_cast<int64_t>(logits_.size()),
                        *loaded_.pool);
    } else {
      model.forward({&step, 1}, cache_, nullptr, *loaded_.pool);
    }
    held_.insert(held_.end(), part.begin(), part.end());
  }
}

std::vector<int32_t> Generator::decode_ahead(int32_t id, const GenerateParams& params, int64_t step) {
  constexpr int64_t kAhead = 8;  // text appears in pieces of so many tokens
  const Model& model = *loaded_.model;
  const SamplingParams& how = params.sampling;
  const bool greedy = how.temperature <= 0 && how.repetition_penalty == 1;
  if (!model.device() || (!greedy && !model.draws_tokens(1))) return {};
  const int64_t left = std::min(
      {params.max_tokens - step, kAhead, model.config().max_position - static_cast<int64_t>(held_.size())});
  if (left < 1) return {};
  std::vector<int32_t> ids(static_cast<size_t>(left));
  const SequenceStep now{0, {&id, 1}};
  if (greedy) {
    model.decode_greedy({&now, 1}, cache_, left, ids.data(), *loaded_.pool);
  } else {
    const TokenChoice choice{draw_row(how, static_cast<uint64_t>(step)), held_};
    model.decode_drawn({&now, 1}, {&choice, 1}, cache_, left, ids.data());
  }
  held_.push_back(id);
  return ids;
}

size_t Generator::keep_common(const std::vector<int32_t>& prompt, int64_t more) {
  // At least the last token runs again, for its logits.
  size_t same = 0;
  while (same < held_.size() && same + 1 < prompt.size() && held_[same] == prompt[same]) ++same;
  if (!loaded_.model->same_rotation(static_cast<int64_t>(same), static_cast<int64_t>(prompt.size())))
    same = 0;
  held_.resize(same);
  cache_.set_length(0, static_cast<int64_t>(same));
  cache_.reserve(
      0, std::min<int64_t>(loaded_.model->config().max_position, static_cast<int64_t>(prompt.size()) + more));
  return same;
}

GenerateResult Generator::run(const std::vector<int32_t>& prompt, const GenerateParams& params,
                              const std::function<void(const std::string&)>& on_text) {
  const int64_t positions = loaded_.model->config().max_position;
  if (prompt.empty()) fail(ErrorCode::kInvalid, "the prompt is empty: give at least one token of text");
  if (static_cast<int64_t>(prompt.size()) > positions)
    fail(ErrorCode::kInvalid,
         "the prompt has {} tokens, the model reads at most {} (max_position_embeddings)", prompt.size(),
         positions);

  const size_t same = keep_common(prompt, params.max_tokens);
  GenerateResult result;
  const double start = seconds_now();
  prefill(std::span(prompt).subspan(same));
  result.prefill_seconds = seconds_now() - start;

  StreamDecoder stream(tokenizer_);
  auto emit = [&](const std::string& piece) {
    result.text += piece;
    if (!piece.empty() && on_text) on_text(piece);
  };
  result.finish = "length";
  std::vector<int32_t> ahead;  // tokens that are known already, the next one last
  for (int64_t step = 0; step < params.max_tokens; ++step) {
    throw_if_interrupted();
    int32_t id;
    if (ahead.empty()) {
      id = sample(logits_, params.sampling, held_, static_cast<uint64_t>(step));
    } else {
      id = ahead.back();
      ahead.pop_back();
    }
    if (std::find(params.stop_ids.begin(), params.stop_ids.end(), id) != params.stop_ids.end()) {
      result.finish = "stop";
      break;
    }
    result.ids.push_back(id);
    emit(stream.push(id));
    if (step + 1 == params.max_tokens) break;
    if (static_cast<int64_t>(held_.size()) >= positions) {
      result.finish = "context";
      break;
    }
    if (ahead.empty()) {
      ahead = decode_ahead(id, params, step + 1);
      std::reverse(ahead.begin(), ahead.end());
      if (ahead.empty()) prefill({&id, 1});
    } else {
      held_.push_back(id);  // it went through the model when what follows was made
    }
  }
  cache_.set_length(0, static_cast<int64_t>(held_.size()));
  emit(stream.finish());
  result.decode_seconds = seconds_now() - start - result.prefill_seconds;
  return result;
}

}  // namespace roundel
