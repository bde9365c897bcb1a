#include "model/rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/thread_pool.h"
#include "model/model.h"
#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

std::vector<float> matrix_of(const OrthogonalTransform& t) {
  const int64_t n = t.size();
  std::vector<float> r(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) r[static_cast<size_t>(i * n + i)] = 1;
  t.rows(r.data(), n, n);
  return r;
}

TEST(OrthogonalTransform, IsOrthogonalAndSpreadsEveryChannel) {
  for (const int64_t n : {1, 2, 3, 8, 9, 12, 40, 64, 576}) {
    const std::vector<float> r = matrix_of(OrthogonalTransform(n, 1));
    double worst = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < n; ++k)
          dot += static_cast<double>(r[static_cast<size_t>(i * n + k)]) * r[static_cast<size_t>(j * n + k)];
        worst = std::max(worst, std::abs(dot - (i == j)));
      }
    EXPECT_LT(worst, 1e-5) << n;
    // Walsh-Hadamard entries are 1 / sqrt(n); those of the cosine transform at most sqrt(2) times that.
    float largest = 0;
    for (const float x : r) largest = std::max(largest, std::abs(x));
    EXPECT_LE(largest, std::sqrt(2.0 / static_cast<double>(n)) + 1e-6) << n;
  }
}

TEST(OrthogonalTransform, ColumnsAreMultipliedByTheTranspose) {
  for (const int64_t n : {8, 12, 36}) {
    const OrthogonalTransform t(n, 7);
    const std::vector<float> r = matrix_of(t);
    const int64_t cols = 45, ld = 48;
    std::vector<float> x(static_cast<size_t>(n * ld)), want(x);
    std::mt19937 rng(3);
    for (float& v : x) v = std::normal_distribution<float>()(rng);
    want = x;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < cols; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k)
          sum += static_cast<double>(r[static_cast<size_t>(k * n + i)]) * x[static_cast<size_t>(k * ld + c)];
        want[static_cast<size_t>(i * ld + c)] = static_cast<float>(sum);
      }
    t.columns(x.data(), cols, ld);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], want[i], 1e-5) << n << " " << i;
  }
}

struct Case {
  const char* name;
  Json config;  // over the common part
};

Json config_of(const Case& c) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", 24},
                 {"intermediate_size", 40},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 12},
                 {"vocab_size", 50},
                 {"max_position_embeddings", 64},
                 {"rms_norm_eps", 1e-6},
                 {"tie_word_embeddings", false},
                 {"dtype", "float32"}};
  config.update(c.config);
  return config;
}

// Random tensors for all that the architecture names.
void write_random(const std::filesystem::path& folder, const Json& json) {
  const Architecture& arch = find_architecture(json, "test");
  const ModelConfig config = parse_model_config(json, "test");
  const ModelLayout layout = make_layout(arch.traits(config), config);
  std::mt19937 rng(11);
  std::vector<TinyTensor> tensors;
  for (const ModuleInfo& m : layout.modules) {
    TinyTensor t{
        m.name + ".weight", {m.rows, m.cols}, std::vector<float>(static_cast<size_t>(m.rows * m.cols))};
    for (float& v : t.values) v = std::normal_distribution<float>(0, 0.3f)(rng);
    tensors.push_back(std::move(t));
  }
  for (const VectorParam& v : layout.vectors) {
    TinyTensor t{v.name, {v.size}, std::vector<float>(static_cast<size_t>(v.size))};
    for (float& x : t.values) x = std::uniform_real_distribution<float>(0.2f, 2.0f)(rng);
    tensors.push_back(std::move(t));
  }
  write_tiny_folder(folder, json, tensors);
}

std::vector<float> logits_of(const ModelFiles& files) {
  ThreadPool pool(2);
  setenv("ROUNDEL_FORCE_KERNEL", "reference", 1);  // AMX rounds to BF16
  const auto model = Model::load(files, files.stored_plan, pool);
  unsetenv("ROUNDEL_FORCE_KERNEL");
  model->set_kv_type(KvType::kF32);  // rotated values round to other BF16
  const std::vector<int32_t> tokens = {3, 49, 7, 7, 0, 21, 30, 12, 5};
  KvCache cache = model->make_cache(1);
  const auto n = static_cast<int64_t>(tokens.size());
  std::vector<float> hidden(static_cast<size_t>(n * model->hidden_ld()));
  const SequenceStep step{0, tokens};
  model->forward({&step, 1}, cache, hidden.data(), pool);
  std::vector<float> logits(static_cast<size_t>(n * 50));
  model->logits(hidden.data(), n, logits.data(), 50, pool);
  return logits;
}

class RotatedModel : public testing::TestWithParam<Case> {};

TEST_P(RotatedModel, GivesTheSameLogits) {
  TempFolder temp;
  write_random(temp / "m", config_of(GetParam()));
  const std::vector<float> dense = logits_of(open_model(temp / "m"));
  float largest = 0;
  for (const float x : dense) largest = std::max(largest, std::abs(x));
  for (const char* which : {"R1", "R2", "r1,R2"}) {
    const ModelFiles files = open_model(temp / "m", parse_rotation(which, "test"));
    const std::vector<float> rotated = logits_of(files);
    for (size_t i = 0; i < dense.size(); ++i)
      ASSERT_NEAR(rotated[i], dense[i], 2e-4f * largest) << which << " " << i;
    // Something was rotated: the weights are others.
    std::vector<float> a(16), b(16);
    const char* name = "model.layers.1.self_attn.o_proj.weight";
    files.checkpoint.read(*files.checkpoint.find(name), 0, a.data(), 64);
    const Checkpoint stored = Checkpoint::open(temp / "m");
    stored.read(*stored.find(name), 0, b.data(), 64);
    EXPECT_NE(a, b) << which;
    EXPECT_EQ(files.config.tie_word_embeddings,
              GetParam().config.value("tie_word_embeddings", false) && !files.rotation.residual);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RotatedModel,
    testing::Values(Case{"llama", Json::object()}, Case{"tied", {{"tie_word_embeddings", true}}},
                    Case{"biases", {{"attention_bias", true}, {"mlp_bias", true}}},
                    Case{"qwen2", {{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "qwen2"}}},
                    Case{"qwen3", {{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}}},
                    Case{"phi3", {{"architectures", {"Phi3ForCausalLM"}}, {"model_type", "phi3"}}}),
    [](const auto& test) { return test.param.name; });

TEST(Rotation, PiecesOfATensorAreThoseOfTheWhole) {
  TempFolder temp;
  write_random(temp / "m", config_of({"llama", {{"tie_word_embeddings", true}}}));
  const ModelFiles files = open_model(temp / "m", {true, true});
  for (const std::string& name : files.checkpoint.tensor_names()) {
    const TensorSpec& spec = *files.checkpoint.find(name);
    std::vector<uint8_t> whole(spec.bytes()), pieces(spec.bytes());
    files.checkpoint.read(spec, 0, whole.data(), whole.size());
    for (size_t at = 0; at < pieces.size(); at += 52)
      files.checkpoint.read(spec, at, pieces.data() + at, std::min<size_t>(52, pieces.size() - at));
    EXPECT_EQ(whole, pieces) << name;
  }
}

TEST(Rotation, SaysWhatIsWrong) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_rotation(text, "--rotate");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("R2,R1"), "");
  EXPECT_NE(message("R5").find("\"R5\" is not a rotation"), std::string::npos);
  EXPECT_NE(message("").find("expected R1, R2"), std::string::npos);
  EXPECT_NE(message("R1,R4").find("R4 rotates activations while the model runs"), std::string::npos);
  EXPECT_EQ(rotation_text(parse_rotation("r2,r1", "test")), "R1,R2");
}

// Tied models may store a copy of the embedding as lm_head; the embedding counts.
TEST(Rotation, ATiedHeadIsTheEmbedding) {
  TempFolder temp;
  Json json = config_of({"tied", {{"tie_word_embeddings", false}}});
  write_random(temp / "m", json);
  const auto head_of = [&] {
    const ModelFiles files = open_model(temp / "m", {true, false});
    std::vector<uint8_t> bytes(files.checkpoint.find("lm_head.weight")->bytes());
    files.checkpoint.read(*files.checkpoint.find("lm_head.weight"), 0, bytes.data(), bytes.size());
    return bytes;
  };
  const std::vector<uint8_t> own = head_of();
  json["tie_word_embeddings"] = true;
  write_file(temp / "m" / "config.json", dump_json(json));
  EXPECT_NE(head_of(), own);

  // The copy in another type: both tensors in one file, so the header alone is changed.
  std::string file = read_file(temp / "m" / "model.safetensors");
  const std::string name = "\"lm_head.weight\":{\"dtype\":\"F32\"";
  const size_t at = file.find(name);
  ASSERT_NE(at, std::string::npos);
  file.replace(at + name.size() - 4, 3, "I32");
  write_file(temp / "m" / "model.safetensors", file);
  try {
    open_model(temp / "m", {true, false});
    FAIL() << "opened";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("R1 needs one type"), std::string::npos) << e.what();
  }
}

TEST(Rotation, AQuantizedModelIsRefused) {
  EXPECT_THROW(open_model(ROUNDEL_TEST_DATA "/golden/w8a8", {true, false}), Error);
}

}  // namespace
}  // namespace roundel
