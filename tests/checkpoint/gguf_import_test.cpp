// Whole imports. The models come from tests/tools/make_gguf_fixtures.py, which knows what must come out of them.
#include "checkpoint/gguf/import.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "gguf_test_util.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

std::string fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3u;
  return fmt::format("{:016x}", h);
}

std::string write_builder(const fs::path& path, const GgufBuilder& b) {
  const std::vector<uint8_t> file = b.build();
  write_file(path, std::string(file.begin(), file.end()));
  return path.string();
}

size_t entries(const TempFolder& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
}

class GgufImport : public testing::TestWithParam<const char*> {
 protected:
  GgufImport() : expected_(read_json_file(gguf_fixture(std::string(GetParam()) + ".json"))) {}
  GgufImportReport import(int threads = 2, GgufImportOptions options = {}) {
    ThreadPool pool(threads);
    return import_gguf(gguf_fixture(std::string(GetParam()) + ".gguf"), folder_ / "out", options, pool);
  }
  Json output(const char* name) { return read_json_file(folder_ / "out" / name); }
  void check_tensors() {
    const Checkpoint out = Checkpoint::open(folder_ / "out");
    EXPECT_EQ(out.tensor_names().size(), expected_["tensors"].size());
    for (const auto& [name, want] : expected_["tensors"].items()) {
      SCOPED_TRACE(name);
      const TensorSpec* spec = out.find(name);
      ASSERT_NE(spec, nullptr);
      EXPECT_EQ(spec->dtype, DType::kBF16);
      EXPECT_EQ(Json(spec->shape), want["shape"]);
      std::vector<uint8_t> bytes(spec->bytes());
      out.read(*spec, 0, bytes.data(), bytes.size());
      EXPECT_EQ(fnv1a(bytes), want["fnv1a"]);
    }
  }

  TempFolder folder_;
  Json expected_;
};

TEST_P(GgufImport, GivesTheTensorsAndTheConfigOfTheModel) {
  const GgufImportReport report = import();
  check_tensors();
  const Json config = output("config.json");
  for (const auto& [key, want] : expected_["config"].items())
    EXPECT_EQ(config.value(key, Json("absent")), want) << key;
  const ModelConfig parsed = parse_model_config(config, "config.json");
  EXPECT_EQ(parsed.head_dim, expected_["config"]["head_dim"]);
  EXPECT_EQ(report.architecture, expected_["config"]["architectures"][0]);
  EXPECT_EQ(report.tensors, static_cast<int64_t>(expected_["tensors"].size()));
  EXPECT_EQ(Json(report.source_types), expected_["types"]);
  for (const char* id : {"bos", "eos", "pad"}) {
    const std::string field = std::string(id) + "_token_id";
    EXPECT_EQ(config.value(field, Json()), expected_["vocab"].value(id, Json())) << id;
  }
  EXPECT_EQ(entries(folder_), 1u);
}

// Against the tokenizer that the fixture was made of: another file of the test data, written by Hugging Face's package.
TEST_P(GgufImport, GivesTheTokenizerOfTheModel) {
  import(1);
  const Json tokenizer = output("tokenizer.json");
  const std::string name = expected_["tokenizer"];
  Json original = read_json_file(fs::path(ROUNDEL_TEST_DATA) / "tokenizers" / (name + ".json"))["tokenizer"];
  const Json& added = original["added_tokens"];
  EXPECT_EQ(tokenizer["added_tokens"], added);
  Json vocab = original["model"]["vocab"];
  for (const Json& token : added) vocab[token["content"].get<std::string>()] = token["id"];
  EXPECT_EQ(tokenizer["model"]["vocab"], vocab);
  Json merges = Json::array();
  for (const Json& merge : original["model"]["merges"]) {
    if (!merge.is_string()) {
      merges.push_back(merge);
      continue;
    }
    const std::string text = merge;
    merges.push_back(Json::array({text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)}));
  }
  // A SentencePiece file has scores: transformers says which merges follow from them.
  EXPECT_EQ(tokenizer["model"]["merges"], expected_["vocab"].value("merges", merges));
  for (const char* field : {"unk_token", "fuse_unk", "byte_fallback", "ignore_merges"})
    EXPECT_EQ(tokenizer["model"][field], original["model"][field]) << field;
  // An older spelling of the same cut: what the pattern does not match is dropped, but it matches everything.
  Json none = Json::array();
  Json& pre = original["pre_tokenizer"];
  for (Json& step : pre.contains("pretokenizers") ? pre["pretokenizers"] : none) {
    if (step.value("behavior", "") == "Removed" && step["invert"] == true)
      step.update({{"behavior", "Isolated"}, {"invert", false}});
  }
  for (const char* field : {"normalizer", "pre_tokenizer", "decoder"})
    EXPECT_EQ(tokenizer[field], original[field]) << field;
  Json post = original["post_processor"];
  if (post.is_object() && post["type"] == "Sequence") post = post["processors"].back();
  if (post.is_object() && post["type"] == "ByteLevel") post = nullptr;  // changes offsets only
  EXPECT_EQ(tokenizer["post_processor"], post);
}

TEST_P(GgufImport, GivesTheSameBytesWithAnyNumberOfThreadsAndInShards) {
  import(1);
  const std::string one = read_file(folder_ / "out" / "model.safetensors");
  import(3, {.force = true});
  EXPECT_EQ(read_file(folder_ / "out" / "model.safetensors"), one);
  import(2, {.force = true, .max_shard_bytes = 40000});
  EXPECT_FALSE(fs::exists(folder_ / "out" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "model.safetensors.index.json"));
  check_tensors();
}

INSTANTIATE_TEST_SUITE_P(Models, GgufImport, testing::Values("llama2", "llama3", "qwen2", "qwen3", "phi3"),
                         [](const auto& model) { return std::string(model.param); });

TEST(GgufImportFaults, KeepsTheChatTemplate) {
  TempFolder folder;
  ThreadPool pool(1);
  import_gguf(gguf_fixture("qwen2.gguf"), folder / "out", {}, pool);
  const Json config = read_json_file(folder / "out" / "tokenizer_config.json");
  EXPECT_EQ(config["chat_template"], "{% for m in messages %}{{ m['content'] }}\xC3\xA9{% endfor %}");
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_FALSE(config.contains("bos_token"));
  // <|im_end|> ends a turn although the file only names <|endoftext|>.
  EXPECT_EQ(read_json_file(folder / "out" / "generation_config.json")["eos_token_id"],
            Json::array({700, 702}));
}

TEST(GgufImportFaults, LeavesNothingBehind) {
  TempFolder folder;
  ThreadPool pool(2);
  const auto run = [&](const GgufBuilder& b) {
    write_builder(folder / "in.gguf", b);
    import_gguf(folder / "in.gguf", folder / "out", {}, pool);
  };
  expect_refused([&] { run(tiny_model({"blk.0.ffn_down.weight"})); }, ErrorCode::kInvalid,
                 {"blk.0.ffn_down.weight"});
  EXPECT_EQ(entries(folder), 1u);
  // Found only while the data is read: the folder is begun by then.
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3.4e38f}) {
    GgufBuilder b = tiny_model({"blk.0.ffn_up.weight"});
    std::vector<float> values(32, 0.5f);
    values[17] = bad;
    b.f32_tensor("blk.0.ffn_up.weight", {8, 4}, values);
    expect_refused([&] { run(b); }, ErrorCode::kInvalid, {"blk.0.ffn_up.weight", "too large"});
    EXPECT_EQ(entries(folder), 1u) << bad;
  }
  // The largest float that BF16 holds, and the same through a NaN that is all ones.
  GgufBuilder largest = tiny_model({"blk.0.ffn_up.weight"});
  largest.f32_tensor("blk.0.ffn_up.weight", {8, 4}, std::vector<float>(32, 3.3895314e38f));
  EXPECT_NO_THROW(run(largest));
  fs::remove_all(folder / "out");
  GgufBuilder ones = tiny_model({"blk.0.ffn_up.weight"});
  ones.tensor("blk.0.ffn_up.weight", {8, 4}, 0, std::string(128, '\xFF'));
  expect_refused([&] { run(ones); }, ErrorCode::kInvalid, {"blk.0.ffn_up.weight"});
  EXPECT_EQ(entries(folder), 1u);
}

TEST(GgufImportFaults, ChecksTheFileBeforeItTouchesTheOutput) {
  TempFolder folder;
  ThreadPool pool(1);
  const auto missing = [&] { import_gguf(folder / "none.gguf", folder / "out", {}, pool); };
  expect_refused(missing, ErrorCode::kNotFound, {"none.gguf"});
  expect_refused([&] { import_gguf(folder.path(), folder / "out", {}, pool); }, ErrorCode::kInvalid,
                 {"directory"});
  const std::string whole = read_file(gguf_fixture("qwen3.gguf"));
  write_file(folder / "part.gguf", whole.substr(0, whole.size() - 1000));
  expect_refused([&] { import_gguf(folder / "part.gguf", folder / "out", {}, pool); }, ErrorCode::kInvalid,
                 {"part.gguf", "bytes are missing"});
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(GgufImportFaults, DoesNotReplaceItsOwnSource) {
  TempFolder folder;
  ThreadPool pool(1);
  fs::create_directory(folder / "model");
  write_builder(folder / "model" / "in.gguf", tiny_model());
  write_file(folder / "model" / "config.json", "{}");
  const fs::path source = folder / "model" / "in.gguf";
  expect_refused([&] { import_gguf(source, folder / "model", {.force = true}, pool); }, ErrorCode::kInvalid,
                 {"source"});
  expect_refused([&] { import_gguf(source, source, {.force = true}, pool); }, ErrorCode::kInvalid,
                 {"source"});
  EXPECT_TRUE(fs::exists(source));
  EXPECT_NO_THROW(import_gguf(source, folder / "model" / "out", {}, pool));
}

}  // namespace
}  // namespace roundel
