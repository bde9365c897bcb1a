#include "checkpoint/gguf/tokenizer_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/gguf/pre_tokenizers.h"

namespace roundel {
namespace {

using Ordered = nlohmann::ordered_json;  // fields in the order in which Hugging Face writes them

constexpr const char* kUnderline = "\xE2\x96\x81";  // SentencePiece's visible space

std::string text_of(const Ordered& value) {
  return value.dump(2, ' ', false, Ordered::error_handler_t::strict) + "\n";
}

std::string token(const GgufVocab& vocab, int64_t id) {
  return std::string(vocab.tokens[static_cast<size_t>(id)]);
}

bool strips_right(const GgufVocab& vocab, size_t id) {
  if (!vocab.strip_after_special) return false;
  const std::string_view t = vocab.tokens[id];
  return t != "<unk>" && t != "<s>" && t != "<|endoftext|>";
}

Ordered added_tokens(const GgufVocab& vocab) {
  Ordered list = Ordered::array();
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    if (!vocab.is_added(i)) continue;
    list.push_back({{"id", i},
                    {"content", vocab.tokens[i]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", strips_right(vocab, i)},
                    {"normalized", false},
                    {"special", vocab.is_special(i)}});
  }
  return list;
}

Ordered byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Ordered byte_level_pre_tokenizer(const PreTokenizerRow& row, bool add_prefix_space) {
  Ordered steps = Ordered::array();
  for (const std::string_view pattern : row.patterns) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  if (row.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  steps.push_back(byte_level(add_prefix_space, row.gpt2_regex));
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Ordered replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Ordered sentencepiece_normalizer(bool add_space_prefix) {
  Ordered steps = Ordered::array();
  if (add_space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kUnderline}});
  steps.push_back(replace(" ", kUnderline));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Ordered sentencepiece_decoder(bool add_space_prefix) {
  Ordered steps = Ordered::array();
  steps.push_back(replace(kUnderline, " "));
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (add_space_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

// Begin and end tokens around one text, and around each of a pair.
Ordered post_processor(const GgufVocab& vocab) {
  if (!vocab.add_bos && !vocab.add_eos) return nullptr;
  Ordered special = Ordered::object();
  const auto around = [&](Ordered& list, const char* sequence, int type_id) {
    const auto add = [&](int64_t id) {
      const std::string name = token(vocab, id);
      list.push_back({{"SpecialToken", {{"id", name}, {"type_id", type_id}}}});
      special[name] = {{"id", name}, {"ids", Ordered::array({id})}, {"tokens", Ordered::array({name})}};
    };
    if (vocab.add_bos) add(*vocab.bos);
    list.push_back({{"Sequence", {{"id", sequence}, {"type_id", type_id}}}});
    if (vocab.add_eos) add(*vocab.eos);
  };
  Ordered single = Ordered::array(), pair = Ordered::array();
  around(single, "A", 0);
  around(pair, "A", 0);
  around(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Ordered bpe_model(const GgufVocab& vocab, bool ignore_merges) {
  const bool sp = vocab.sentencepiece;
  const bool bytes =
      sp && std::find(vocab.kinds.begin(), vocab.kinds.end(), GgufTokenKind::kByte) != vocab.kinds.end();
  Ordered model = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", sp && vocab.unk ? Ordered(token(vocab, *vocab.unk)) : Ordered()},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", sp},
                   {"byte_fallback", bytes},
                   {"ignore_merges", ignore_merges}};
  // An ordered object looks a key up by walking through it: 50,000 tokens are put in behind its back. They are distinct.
  Ordered entries = Ordered::object();
  auto& list = entries.get_ref<Ordered::object_t&>();
  list.reserve(vocab.tokens.size());
  for (size_t i = 0; i < vocab.tokens.size(); ++i)
    if (!vocab.tokens[i].empty()) list.emplace_back(std::string(vocab.tokens[i]), Ordered(i));
  model["vocab"] = std::move(entries);
  Ordered merges = Ordered::array();
  merges.get_ref<Ordered::array_t&>().reserve(vocab.merges.size());
  for (const auto& [left, right] : vocab.merges) merges.push_back(Ordered::array({left, right}));
  model["merges"] = std::move(merges);
  return model;
}

Ordered named_tokens(const GgufVocab& vocab) {
  Ordered named = Ordered::object();
  if (vocab.bos) named["bos_token"] = token(vocab, *vocab.bos);
  if (vocab.eos) named["eos_token"] = token(vocab, *vocab.eos);
  if (vocab.pad) named["pad_token"] = token(vocab, *vocab.pad);
  if (vocab.unk) named["unk_token"] = token(vocab, *vocab.unk);
  return named;
}

}  // namespace

std::string export_tokenizer(const GgufVocab& vocab, const std::string& file) {
  Ordered t = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added_tokens(vocab)}};
  if (vocab.sentencepiece) {
    t["normalizer"] = sentencepiece_normalizer(vocab.add_space_prefix);
    t["pre_tokenizer"] = nullptr;
    t["post_processor"] = post_processor(vocab);
    t["decoder"] = sentencepiece_decoder(vocab.add_space_prefix);
    t["model"] = bpe_model(vocab, false);
  } else {
    const PreTokenizerRow& row = find_pre_tokenizer(vocab.pre, file);
    t["normalizer"] = row.nfc ? Ordered{{"type", "NFC"}} : Ordered();
    t["pre_tokenizer"] = byte_level_pre_tokenizer(row, vocab.add_space_prefix);
    t["post_processor"] = post_processor(vocab);
    t["decoder"] = byte_level(true, true);
    t["model"] = bpe_model(vocab, row.ignore_merges);
  }
  return text_of(t);
}

std::string export_tokenizer_config(const GgufVocab& vocab, const std::string& file) {
  Ordered config = Ordered::object();
  if (vocab.add_bos) config["add_bos_token"] = true;
  if (vocab.add_eos) config["add_eos_token"] = true;
  config["add_prefix_space"] = vocab.add_space_prefix;
  Ordered decoder = Ordered::object();
  auto& list = decoder.get_ref<Ordered::object_t&>();  // as in bpe_model()
  for (const Ordered& a : added_tokens(vocab)) {
    Ordered fields = Ordered::object();
    for (const char* field : {"content", "lstrip", "normalized", "rstrip", "single_word", "special"})
      fields[field] = a[field];
    list.emplace_back(std::to_string(a["id"].get<size_t>()), std::move(fields));
  }
  config["added_tokens_decoder"] = std::move(decoder);
  config.update(named_tokens(vocab));
  if (vocab.chat_template) config["chat_template"] = *vocab.chat_template;
  config["clean_up_tokenization_spaces"] = false;
  config["model_max_length"] = vocab.max_length;
  // Newer classes build the pipeline themselves and do not know of tokens added at the ends; this one obeys the file.
  const bool usual = !vocab.sentencepiece && !vocab.add_bos && !vocab.add_eos && !vocab.add_space_prefix;
  config["tokenizer_class"] = usual ? find_pre_tokenizer(vocab.pre, file).hf_class : kGenericTokenizerClass;
  return text_of(config);
}

std::string export_special_tokens_map(const GgufVocab& vocab) {
  return text_of(named_tokens(vocab));
}

}  // namespace roundel
