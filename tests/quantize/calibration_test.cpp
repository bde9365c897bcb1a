// Whole calibrated jobs on the tiny Llama of the golden set.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "quantize/calibration/memory_plan.h"
#include "quantize/calibration/smoothing.h"
#include "tests/quantize/calibration_kit.h"

namespace roundel {
namespace {

// Of 16 sequences that calibration does not see.
std::vector<float> logits_of(const std::filesystem::path& folder) {
  LoadedModel m = load_model(folder, {.threads = 2});
  const int64_t ld = m.model->hidden_ld(), vocab = m.model->config().vocab_size;
  std::vector<float> logits;
  const std::vector<std::vector<int32_t>> samples = golden_samples(32, 64);
  for (size_t i = 16; i < samples.size(); ++i) {
    const auto tokens = static_cast<int64_t>(samples[i].size());
    KvCache cache = m.model->make_cache(1);
    Buffer hidden(static_cast<size_t>(tokens * ld) * sizeof(float));
    const SequenceStep step{.slot = 0, .tokens = samples[i]};
    m.model->forward({&step, 1}, cache, hidden.as<float>(), *m.pool);
    logits.resize(logits.size() + static_cast<size_t>(tokens * vocab));
    float* to = &logits[logits.size() - static_cast<size_t>(tokens * vocab)];
    m.model->logits(hidden.as<float>(), tokens, to, vocab, *m.pool);
  }
  return logits;
}

double mean_kl(const std::vector<float>& p, const std::vector<float>& q, size_t vocab) {
  double sum = 0;
  const auto log_sum = [&](const float* x) {
    double s = 0;
    for (size_t i = 0; i < vocab; ++i) s += std::exp(static_cast<double>(x[i]));
    return std::log(s);
  };
  for (size_t t = 0; t < p.size(); t += vocab) {
    const double a = log_sum(&p[t]), b = log_sum(&q[t]);
    for (size_t i = 0; i < vocab; ++i) {
      const double lp = static_cast<double>(p[t + i]) - a;
      sum += std::exp(lp) * (lp - static_cast<double>(q[t + i]) + b);
    }
  }
  return sum / static_cast<double>(p.size() / vocab);
}

struct Job {
  explicit Job(const Scheme& scheme)
      : files(open_model(golden("dense/tiny_llama"))), plan(plan_for(files, scheme)) {
    calibration.samples = golden_samples();
  }
  QuantizeReport run(const std::filesystem::path& to, int threads = 2, bool resume = false) {
    ThreadPool pool(threads);
    QuantizeOptions options;
    options.calibration = &calibration;
    options.resume = resume;
    options.max_shard_bytes = max_shard_bytes;
    return quantize_to_disk(files, plan, to, options, pool);
  }
  ModelFiles files;
  Plan plan;
  Calibration calibration;
  uint64_t max_shard_bytes = 5ull << 30;
};

std::string bytes_of(const std::filesystem::path& folder) {
  return read_text_file(folder / "model.safetensors", 1 << 26);
}

double kl_of(const std::vector<CalibrationStep>& steps, const Scheme& scheme) {
  const TemporaryFolder tmp;
  Job job(scheme);
  job.calibration.steps = steps;
  job.run(tmp.root / "out");
  return mean_kl(logits_of(golden("dense/tiny_llama")), logits_of(tmp.root / "out"), 512);
}

TEST(Calibration, MethodsBeatRounding) {
  const Scheme scheme = w4_groups(32);
  const double rtn = kl_of({RtnStep{}}, scheme), gptq = kl_of({GptqStep{}}, scheme),
               best = kl_of({BestStep{}}, scheme);
  EXPECT_LT(gptq, 0.9 * rtn);
  EXPECT_LT(best, 0.9 * rtn);
  EXPECT_LT(kl_of({AwqStep{}}, w4_groups(32, false)), kl_of({RtnStep{}}, w4_groups(32, false)));
}

TEST(Calibration, BestOfFloatsIsGptqFromSearchedScales) {
  const TemporaryFolder tmp;
  const Scheme plain = find_preset("FP8_DYNAMIC", "test").scheme;
  Scheme searched = plain;
  searched.weights->observer = "memoryless_mse";
  const auto bytes = [&](const Scheme& scheme, const CalibrationStep& step, const char* name) {
    Job job(scheme);
    job.calibration.steps = {step};
    job.run(tmp.root / name);
    return bytes_of(tmp.root / name);
  };
  const std::string best = bytes(plain, BestStep{}, "best");
  EXPECT_EQ(best, bytes(searched, GptqStep{}, "searched"));
  EXPECT_NE(best, bytes(plain, GptqStep{}, "plain"));
}

TEST(Calibration, WithoutAStepThatChangesWeightsGivesTheBytesOfRounding) {
  const TemporaryFolder tmp;
  Job job(w4_groups(32));
  job.run(tmp.root / "calibrated");
  ThreadPool pool(2);
  quantize_to_disk(job.files, job.plan, tmp.root / "plain", {}, pool);
  EXPECT_EQ(bytes_of(tmp.root / "calibrated"), bytes_of(tmp.root / "plain"));
}

TEST(Calibration, GivesTheSameBytesForAnyNumberOfThreads) {
  const TemporaryFolder tmp;
  Job job(w4_groups(32));
  job.calibration.steps = {AwqStep{.n_grid = 4}, BestStep{}, GptqStep{.targets = {"re:.*down_proj"}}};
  for (const int threads : {1, 2, 4}) job.run(tmp.root / std::to_string(threads), threads);
  EXPECT_EQ(bytes_of(tmp.root / "2"), bytes_of(tmp.root / "1"));
  EXPECT_EQ(bytes_of(tmp.root / "4"), bytes_of(tmp.root / "1"));
}

TEST(Calibration, WritesStaticScalesThatTheEngineReads) {
  const TemporaryFolder tmp;
  Job job(find_preset("FP8", "test").scheme);
  QuantArgs fp8;
  fp8.type = NumberType::kFloat;
  job.plan.kv_cache = fp8;
  job.run(tmp.root / "out");
  const ModelFiles out = open_model(tmp.root / "out");
  // Layer 0's q, k and v see the embedding only: the original's value, from the golden set.
  const TensorSpec* spec = out.checkpoint.find("model.layers.0.self_attn.q_proj.input_scale");
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(spec->shape, Shape{1});
  const auto scale = [&](const std::string& name) {
    uint16_t raw = 0;
    out.checkpoint.read(*out.checkpoint.find(name), 0, &raw, 2);
    return bf16_to_float(raw);
  };
  const float q = scale("model.layers.0.self_attn.q_proj.input_scale");
  EXPECT_EQ(q, scale("model.layers.0.self_attn.k_proj.input_scale"));
  EXPECT_EQ(q, scale("model.layers.0.self_attn.v_proj.input_scale"));
  EXPECT_GT(scale("model.layers.1.self_attn.k_scale"), 0);
  EXPECT_LT(mean_kl(logits_of(golden("dense/tiny_llama")), logits_of(tmp.root / "out"), 512), 0.15);
}

TEST(Calibration, SmoothingLeavesTheDenseModelAsItIs) {
  // 8 bits per channel: what is left of the difference is rounding, and less of it than without.
  const TemporaryFolder tmp;
  Job job(find_preset("W8A16", "test").scheme);
  for (PlanEntry& e : job.plan.entries)
    if (e.scheme.weights) e.scheme.weights->strategy = Strategy::kChannel, e.scheme.weights->group_size = 0;
  const std::vector<float> dense = logits_of(golden("dense/tiny_llama"));
  for (const CalibrationStep& step :
       {CalibrationStep(SmoothQuantStep{.strength = 0.8}), CalibrationStep(AwqStep{}),
        CalibrationStep(SmoothQuantStep{.algorithm = SmoothAlgorithm::kLogEqualization})}) {
    job.calibration.steps = {step};
    const std::filesystem::path out = tmp.root / std::to_string(step.index());
    std::filesystem::remove_all(out);
    const QuantizeReport report = job.run(out);
    EXPECT_LT(mean_kl(dense, logits_of(out), 512), 0.02) << step.index();
    EXPECT_NE(report.calibrated.front().algorithm.find('+'), std::string::npos);
  }
}

TEST(Calibration, SmoothedWeightsTimesInputsAreTheOldOnes) {
  // Folding alone, nothing quantized: logits of the layer's dense form before and after.
  ThreadPool pool(2);
  const ModelFiles files = open_model(golden("dense/tiny_llama"));
  const Plan plan = plan_for(files, w4_groups(32));
  LayerRunner runner(files, golden_samples(2, 64), false, pool);
  LayerWeights weights = read_layer(files, plan, 0, pool);
  const DecoderLayer before = dense_layer(files, weights, pool);
  SampleState expected;
  runner.store().look(0, [&](const SampleState& s) { expected.x = copy_activations(s.x); });
  SampleState smoothed;
  smoothed.x = copy_activations(expected.x);
  StageMoments moments;
  runner.begin(before, expected);
  for (const Stage stage : kStages) {
    moments[static_cast<size_t>(stage)] = std::make_unique<InputMoments>(expected.input.cols, true, true);
    moments[static_cast<size_t>(stage)]->add(expected.input, pool);
    moments[static_cast<size_t>(stage)]->finish(pool);
    runner.advance(stage, before, expected);
  }
  const std::vector<CalibrationStep> steps = {SmoothQuantStep{.strength = 0.5}, AwqStep{}};
  StageInputs inputs;
  const Smoothed done = Smoother(files, steps).apply(&weights, moments, inputs, pool);
  EXPECT_EQ(done.steps.at("model.layers.0.self_attn.q_proj"), "smoothquant+awq+");
  const DecoderLayer after = dense_layer(files, weights, pool);
  runner.run(after, smoothed);
  double worst = 0, largest = 0, moved = 0;
  for (int64_t t = 0; t < expected.x.rows; ++t)
    for (int64_t c = 0; c < expected.x.cols; ++c) {
      worst = std::max(worst, std::abs(static_cast<double>(expected.x.row(t)[c] - smoothed.x.row(t)[c])));
      largest = std::max(largest, std::abs(static_cast<double>(expected.x.row(t)[c])));
    }
  for (size_t c = 0; c < before.input_norm.size(); ++c)
    moved = std::max(moved, std::abs(static_cast<double>(after.input_norm[c] / before.input_norm[c] - 1)));
  EXPECT_GT(moved, 0.1);             // something was smoothed
  EXPECT_LT(worst, 0.01 * largest);  // weights and gains are rounded to BF16 again
}

TEST(Calibration, SearchesTheStrengthOfSmoothing) {
  ThreadPool pool(2);
  const ModelFiles files = open_model(golden("dense/tiny_llama"));
  const Plan plan = plan_for(files, parse_scheme_text("W8A8", "test").scheme);
  LayerWeights weights = read_layer(files, plan, 0, pool);
  std::vector<const LayerModule*> balance;
  for (const LayerModule& m : weights.modules)
    if (m.stage == Stage::kQkv) balance.push_back(&m);
  ASSERT_EQ(balance.size(), 3u);
  const int64_t cols = balance.front()->weight.cols;
  std::vector<float> largest(static_cast<size_t>(cols));
  for (const LayerModule* m : balance)
    for (int64_t r = 0; r < m->weight.rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        largest[static_cast<size_t>(c)] =
            std::max(largest[static_cast<size_t>(c)], std::abs(m->weight.row(r)[c]));

  // Tokens of which one channel is a hundred times the others: unsmoothed, the others have two or three bits.
  Activations x(200, cols);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t c = 0; c < cols; ++c)
      x.row(t)[c] = static_cast<float>(random_unit(5, static_cast<uint64_t>(t * cols + c)) * 2 - 1) *
                    (c == 7 ? 100 : 1);
  InputMoments moments(cols, false, true);
  moments.add(x, pool);
  moments.finish(pool);
  const std::vector<float> s = searched_scales(moments, x, balance, largest, pool);
  double others = 0;
  for (size_t c = 0; c < s.size(); ++c) others += c == 7 ? 0 : static_cast<double>(s[c]);
  EXPECT_GT(static_cast<double>(s[7]), 3 * others / static_cast<double>(cols - 1));
  const std::vector<float> again = searched_scales(moments, x, balance, largest, pool);
  EXPECT_EQ(s, again);

  // Where nothing stands out and weights are exact, dividing can only harm.
  const Plan exact = plan_for(files, parse_scheme_text("W8A16:channel", "test").scheme);
  LayerWeights same = read_layer(files, exact, 0, pool);
  for (LayerModule& m : same.modules)
    for (int64_t r = 0; r < m.weight.rows; ++r)
      for (int64_t c = 0; c < m.weight.cols; ++c) m.weight.row(r)[c] = (r + c) % 2 ? 1.0f : -1.0f;
  balance.clear();
  for (const LayerModule& m : same.modules)
    if (m.stage == Stage::kQkv) balance.push_back(&m);
  EXPECT_EQ(searched_scales(moments, x, balance, std::vector<float>(static_cast<size_t>(cols), 1.0f), pool),
            std::vector<float>(static_cast<size_t>(cols), 1.0f));
}

TEST(Calibration, TokensOfASampleAreSpread) {
  TokenSample tokens;
  tokens.spread_over(4096);
  Activations x(512, 2);
  for (int i = 0; i < 8; ++i) {
    for (int64_t t = 0; t < x.rows; ++t) x.row(t)[0] = static_cast<float>(i * 512 + t);
    tokens.add(x);
  }
  const Activations taken = tokens.take();
  ASSERT_EQ(taken.rows,
            820);  // every fifth: 4096 / 1024 = 4 would always fall on the first token of a sample
  EXPECT_EQ(taken.row(0)[0], 0);
  EXPECT_EQ(taken.row(1)[0], 5);
  EXPECT_EQ(taken.row(819)[0], 4095);
}

// Runs the job in a process of its own and kills it once a layer is finished.
void run_and_kill(Job& job, const std::filesystem::path& to, const std::filesystem::path& state) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    job.run(to, 1, true);
    ::_exit(0);
  }
  // embed_tokens, norm and lm_head, then one for each layer.
  const auto finished = [&] {
    std::error_code error;
    if (!std::filesystem::exists(state, error)) return false;
    const std::string text = read_text_file(state, 1 << 16);
    return text.find("\"progress\": \"4\"") != std::string::npos;
  };
  for (int i = 0; i < 60000 && !finished() && ::waitpid(child, nullptr, WNOHANG) == 0; ++i) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

void kill_and_resume(uint64_t shard_bytes) {
  const TemporaryFolder tmp;
  Job job(w4_groups(32));
  job.calibration.steps = {AwqStep{.n_grid = 4}, BestStep{}};
  job.max_shard_bytes = shard_bytes;
  job.run(tmp.root / "whole");
  const std::filesystem::path out = tmp.root / "killed";
  run_and_kill(job, out, tmp.root / ".killed.roundel-partial" / "state.json");
  ASSERT_FALSE(std::filesystem::exists(out));
  const QuantizeReport report = job.run(out, 2, true);
  EXPECT_TRUE(report.resumed);
  EXPECT_EQ(report.calibrated.size(), 7u);  // the second layer only
  for (const auto& file : std::filesystem::directory_iterator(tmp.root / "whole"))
    EXPECT_EQ(read_text_file(out / file.path().filename(), 1 << 26), read_text_file(file.path(), 1 << 26))
        << file;
}

TEST(Calibration, TakesUpAKilledRun) {
  kill_and_resume(5ull << 30);
}

TEST(Calibration, TakesUpAKilledRunInShards) {
  kill_and_resume(200000);
}

TEST(Calibration, PutsActivationsInAFileAboveTheLimit) {
  const TemporaryFolder tmp;
  Job job(w4_groups(32));
  job.calibration.steps = {BestStep{}};
  job.run(tmp.root / "memory");
  const MemoryPlan memory = plan_memory(job.files, job.calibration, {.second = true, .aims = true});
  job.calibration.max_memory = memory.peak - memory.needs.activations / 2;
  EXPECT_TRUE(plan_memory(job.files, job.calibration, {.second = true, .aims = true}).on_disk);
  job.run(tmp.root / "file");
  EXPECT_EQ(bytes_of(tmp.root / "file"), bytes_of(tmp.root / "memory"));
  job.calibration.max_memory = 1000;
  EXPECT_THROW(job.run(tmp.root / "none"), Error);
  EXPECT_FALSE(std::filesystem::exists(tmp.root / "none"));
}

TEST(Calibration, RefusesWhatCannotBeRun) {
  const TemporaryFolder tmp;
  const auto message = [&](Job& job) -> std::string {
    try {
      job.run(tmp.root / "out");
    } catch (const Error& e) {
      EXPECT_FALSE(std::filesystem::exists(tmp.root / "out"));
      return e.what();
    }
    return "nothing was thrown";
  };
  const auto expect = [&](const char* text, const std::function<void(Job&)>& change) {
    Job job(w4_groups(32));
    change(job);
    EXPECT_NE(message(job).find(text), std::string::npos) << message(job);
  };
  expect("no samples", [](Job& j) { j.calibration.samples.clear(); });
  expect("sample 1 is empty", [](Job& j) { j.calibration.samples[1].clear(); });
  expect("vocab_size is 512", [](Job& j) { j.calibration.samples[0][0] = 512; });
  expect("removed from compressed-tensors",
         [](Job& j) { j.calibration.steps = {GptqStep{.actorder = ActOrder::kGroup}}; });
  expect("matches no module", [](Job& j) { j.calibration.steps = {GptqStep{.targets = {"re:.*nothing"}}}; });
  expect("matches nothing that can be smoothed", [](Job& j) {
    j.calibration.steps = {SmoothQuantStep{.mappings = {{"re:.*nothing", {"re:.*q_proj"}}}}};
  });
  expect("v_proj reads", [](Job& j) {
    j.calibration.steps = {
        SmoothQuantStep{.mappings = {{"re:.*input_layernorm", {"re:.*q_proj", "re:.*k_proj"}}}}};
  });
  expect("smoothing_strength is 2", [](Job& j) { j.calibration.steps = {SmoothQuantStep{.strength = 2}}; });
  // Static activations without samples.
  Job job(find_preset("FP8", "test").scheme);
  ThreadPool pool(1);
  EXPECT_THROW(quantize_to_disk(job.files, job.plan, tmp.root / "out", {}, pool), Error);
}

}  // namespace
}  // namespace roundel
