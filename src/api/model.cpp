// Model of roundel.h: a LoadedModel with its tokenizer.
#include <nlohmann/json.hpp>

#include "api/request.h"
#include "engine/generate_params.h"
#include "eval/perplexity.h"
#include "text/chat_template.h"

namespace roundel::api {

struct Model::Impl {
  LoadedModel loaded;
  Tokenizer tokenizer;

  Generation run(const std::vector<int32_t>& prompt, const GenerateOptions& options) const {
    const GenerateParams params =
        generate_params(loaded, options.max_tokens,
                        {options.temperature, options.top_p, options.top_k, options.seed, options.min_p});
    GenerateResult r = Generator(loaded, tokenizer).run(prompt, params, options.on_text);
    Generation out;
    out.text = std::move(r.text);
    out.ids = std::move(r.ids);
    out.finish = std::move(r.finish);
    out.prompt_tokens = static_cast<int64_t>(prompt.size());
    out.prefill_seconds = r.prefill_seconds;
    out.decode_seconds = r.decode_seconds;
    return out;
  }
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model load(const std::filesystem::path& folder, const LoadOptions& options) {
  roundel::LoadOptions inner{.threads = checked_threads(options.threads), .quantize = std::nullopt};
  inner.cache = options.cache;
  if (options.float_kv_cache) inner.kv_type = KvType::kF32;
  if (!options.quantize.empty()) {
    inner.quantize = request_of(options.quantize);
  } else if (options.quantize.group_size != 0 || !options.quantize.ignore.empty()) {
    fail(ErrorCode::kUsage, "group_size and ignore need a scheme or a rule");
  }
  LoadedModel loaded = load_model(folder, inner);
  Tokenizer tokenizer = load_tokenizer(*loaded.files);
  return Model(std::make_unique<Model::Impl>(Model::Impl{std::move(loaded), std::move(tokenizer)}));
}

Generation Model::generate(const std::string& prompt, const GenerateOptions& options) const {
  return impl_->run(encode_prompt(impl_->loaded, impl_->tokenizer, prompt), options);
}

Generation Model::chat(const std::vector<Message>& messages, const GenerateOptions& options) const {
  const ChatTemplate chat_template = ChatTemplate::load(impl_->loaded.files->checkpoint.folder());
  OrderedJson list = OrderedJson::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  return impl_->run(impl_->tokenizer.encode(chat_template.render(list)), options);
}

EvalReport Model::evaluate(const std::string& text, const EvalOptions& options, const Model* baseline) const {
  const EvalResult r = evaluate_text(
      impl_->loaded, text, "the text",
      {.window = options.window, .every = options.every, .limit_windows = options.limit_windows},
      baseline ? &baseline->impl_->loaded : nullptr);
  EvalReport out;
  out.perplexity = r.perplexity;
  out.mean_nll = r.mean_nll;
  out.tokens = r.tokens;
  out.windows = r.windows;
  out.seconds = r.seconds;
  out.tokens_per_second = r.tokens_per_second;
  if (r.has_baseline) out.against = Divergence{r.baseline_perplexity, r.kl_mean, r.kl_p99, r.top1_agreement};
  return out;
}

std::vector<int32_t> Model::encode(const std::string& text, bool add_special) const {
  return impl_->tokenizer.encode(text, {.add_special = add_special});
}

std::string Model::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  return impl_->tokenizer.decode(ids, {.skip_special = skip_special});
}

ModelInfo Model::info() const {
  const ModelConfig& c = impl_->loaded.model->config();
  return {c.architecture,
          c.layers,
          c.hidden_size,
          c.vocab_size,
          c.max_position,
          impl_->loaded.model->weight_bytes(),
          impl_->loaded.load_seconds};
}

}  // namespace roundel::api
