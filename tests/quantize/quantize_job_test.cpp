// Quantizing to disk: against what llm-compressor wrote (tests/data/golden), and every way not to write.
#include "quantize/quantize_job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "checkpoint/output_folder.h"
#include "quantize/job_key.h"
#include "quantize/recipe.h"
#include "scheme/scheme_text.h"
#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;
const fs::path kGolden = ROUNDEL_TEST_DATA "/golden";
const fs::path kDense = kGolden / "dense/tiny_llama";

Plan plan_of(const ModelFiles& files, const std::string& scheme) {
  PlanRequest request;
  request.groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
  request.default_ignore = {"lm_head"};
  PlanResult result = plan_model(files, request);
  result.problems.throw_if_any("test");
  return std::move(result.plan);
}

QuantizeReport quantize(const fs::path& from, const std::string& scheme, const fs::path& to,
                        const QuantizeOptions& options = {}, int threads = 2) {
  ThreadPool pool(threads);
  const ModelFiles files = open_model(from);
  return quantize_to_disk(files, plan_of(files, scheme), to, options, pool);
}

std::vector<uint8_t> bytes_of(const Checkpoint& c, const std::string& name) {
  std::vector<uint8_t> bytes(c.find(name)->bytes());
  c.read(*c.find(name), 0, bytes.data(), bytes.size());
  return bytes;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void expect_golden(const std::string& scheme, const std::string& name) {
  SCOPED_TRACE(name);
  TempFolder temp;
  quantize(kDense, scheme, temp / "out");
  const Checkpoint got = Checkpoint::open(temp / "out"), want = Checkpoint::open(kGolden / name);
  ASSERT_EQ(got.tensor_names().size(), want.tensor_names().size());
  for (const std::string& tensor : want.tensor_names()) {
    ASSERT_TRUE(got.find(tensor)) << tensor;
    EXPECT_EQ(got.find(tensor)->dtype, want.find(tensor)->dtype) << tensor;
    EXPECT_EQ(got.find(tensor)->shape, want.find(tensor)->shape) << tensor;
    EXPECT_EQ(bytes_of(got, tensor), bytes_of(want, tensor)) << tensor;
  }
}

TEST(QuantizeJob, WritesTheBytesOfTheOriginal) {
  expect_golden("W8A8", "w8a8");
  expect_golden("FP8_DYNAMIC", "fp8_dynamic");
  expect_golden("W4A16_ASYM:g32", "w4a16_asym_g32");
}

TEST(QuantizeJob, SameFilesForAnyNumberOfThreads) {
  TempFolder temp;
  quantize(kDense, "W4A16:g64:asym", temp / "one", {}, 1);
  quantize(kDense, "W4A16:g64:asym", temp / "four", {}, 4);
  ASSERT_EQ(files_in(temp / "one"), files_in(temp / "four"));
  for (const std::string& name : files_in(temp / "one"))
    EXPECT_EQ(read_file(temp / "one" / name), read_file(temp / "four" / name)) << name;
}

TEST(QuantizeJob, ReportCountsBitsAndBytes) {
  TempFolder temp;
  // W8A8: a byte for each code and a BF16 scale for each row. q 128, k and v 64, o 128, gate and up 384, down 128 rows.
  const QuantizeReport r = quantize(kDense, "W8A8", temp / "out", {.measure_error = true});
  ASSERT_EQ(r.modules.size(), 14u);  // 7 in each of 2 layers
  const double weights = 2 * (128 * (128 + 64 + 64 + 128) + 3 * 128 * 384);
  const double scales = 2 * (128 + 64 + 64 + 128 + 384 + 384 + 128);
  EXPECT_DOUBLE_EQ(r.bits_per_weight, 8 + 16 * scales / weights);
  // Beside them in BF16: embedding and head, 512 rows of 128 each, and five norms of 128.
  const double other = 2 * 512 * 128 + 5 * 128;
  EXPECT_EQ(r.input_bytes, static_cast<uint64_t>(2 * (weights + other)));
  EXPECT_EQ(r.output_bytes, static_cast<uint64_t>(weights + 2 * scales + 2 * other));
  EXPECT_DOUBLE_EQ(r.model_bits_per_weight, 8 * static_cast<double>(r.output_bytes) / (weights + other));
  ASSERT_EQ(r.skipped.size(), 1u);
  EXPECT_EQ(r.skipped[0].first, "lm_head");
  EXPECT_FALSE(r.resumed);
  for (const QuantizedModule& m : r.modules) {
    EXPECT_EQ(m.format, "int-quantized");
    EXPECT_GT(m.relative_error, 0.0);
    EXPECT_LT(m.relative_error,
              0.02);  // a row of normal values: about 1/127 of three deviations over sqrt(12)
  }
}

TEST(QuantizeJob, MeasuresTheRelativeErrorOfAKnownWeight) {
  TempFolder temp;
  // Every row of q_proj: 127.5, 10.25 and zeros. Scale 127.5 / 127.5 = 1 (2*amax/255), codes 127 (clamped) and 10: the
  // errors are 0.5 and 0.25. sqrt((0.25 + 0.0625) / (127.5^2 + 10.25^2)) = 0.0043704...
  auto tensors = bigram_tensors({{0, 0}, {0, 0}});
  for (TinyTensor& t : tensors) {
    if (t.name != "model.layers.0.self_attn.q_proj.weight") continue;
    for (size_t r = 0; r < 8; ++r) t.values[r * 8 + 1] = 127.5f, t.values[r * 8 + 6] = 10.25f;
  }
  write_tiny_folder(temp / "in", tiny_config(8, 2), tensors);
  const QuantizeReport r = quantize(temp / "in", "W8A16:channel", temp / "out", {.measure_error = true});
  const double want = std::sqrt((0.5 * 0.5 + 0.25 * 0.25) / (127.5 * 127.5 + 10.25 * 10.25));
  for (const QuantizedModule& m : r.modules) {
    const bool known = m.name == "model.layers.0.self_attn.q_proj";
    EXPECT_NEAR(m.relative_error, known ? want : 0, 1e-9) << m.name;
  }
  EXPECT_EQ(quantize(temp / "in", "W8A16:channel", temp / "other").modules[0].relative_error,
            -1);  // not measured
}

TEST(QuantizeJob, ShardsHoldTheSameTensors) {
  TempFolder temp;
  quantize(kDense, "W8A8", temp / "one");
  quantize(kDense, "W8A8", temp / "many", {.max_shard_bytes = 200000});
  const Checkpoint one = Checkpoint::open(temp / "one"), many = Checkpoint::open(temp / "many");
  EXPECT_EQ(one.files().size(), 1u);
  EXPECT_GT(many.files().size(), 2u);
  for (const Checkpoint::FileInfo& f : many.files()) EXPECT_LE(f.size, 210000u) << f.name;  // and a header
  ASSERT_EQ(one.tensor_names().size(), many.tensor_names().size());
  for (const std::string& name : one.tensor_names())
    EXPECT_EQ(bytes_of(one, name), bytes_of(many, name)) << name;
  const ModelFiles files = open_model(kDense);
  const std::vector<TensorSpec> specs = output_tensors(files, plan_of(files, "W8A8"));
  ASSERT_EQ(specs.size(), one.tensor_names().size());
  for (const TensorSpec& s : specs) {
    ASSERT_TRUE(one.find(s.name)) << s.name;
    EXPECT_EQ(one.find(s.name)->shape, s.shape) << s.name;
  }
}

TEST(QuantizeJob, ReplacesAnExistingFolderOnlyWhenTold) {
  TempFolder temp;
  quantize(kDense, "W8A8", temp / "out");
  const std::string before = read_file(temp / "out" / "config.json");
  expect_error([&] { quantize(kDense, "W4A16:g32", temp / "out"); }, {"out", "--force"});
  EXPECT_EQ(read_file(temp / "out" / "config.json"), before);
  quantize(kDense, "W4A16:g32", temp / "out", {.force = true});
  EXPECT_NE(read_file(temp / "out" / "config.json"), before);
  EXPECT_EQ(files_in(temp.path()), std::vector<std::string>{"out"});  // nothing is left beside it
}

// `value` in place of one element of a tensor of the dense model.
void damage(const fs::path& folder, const std::string& tensor, size_t element, uint16_t value) {
  fs::copy(kDense, folder);
  std::string bytes = read_file(folder / "model.safetensors");
  {
    const File file = File::open_read(folder / "model.safetensors");
    const SafetensorsHeader header = read_safetensors_header(file);
    for (const SafetensorsEntry& e : header.tensors)
      if (e.spec.name == tensor)
        std::memcpy(bytes.data() + header.data_start + e.begin + 2 * element, &value, 2);
  }
  write_file(folder / "model.safetensors", bytes);
}

TEST(QuantizeJob, RefusesNotFiniteWeightsAndLeavesNothing) {
  TempFolder temp;
  const std::string quantized = "model.layers.1.mlp.up_proj", copied = "model.embed_tokens.weight";
  damage(temp / "nan", quantized + ".weight", 5 * 128 + 3, 0x7fc0);
  damage(temp / "inf", copied, 1000, 0xff80);
  expect_error([&] { quantize(temp / "nan", "W8A8", temp / "out"); }, {quantized});
  expect_error([&] { quantize(temp / "inf", "W8A8", temp / "out"); }, {copied, "1000", "--allow-nan"});
  EXPECT_EQ(files_in(temp.path()), (std::vector<std::string>{"inf", "nan"}));
  EXPECT_EQ(quantize(temp / "nan", "W8A8", temp / "out", {.allow_not_finite = true}).modules.size(), 14u);
  EXPECT_EQ(bytes_of(Checkpoint::open(temp / "out"), copied), bytes_of(Checkpoint::open(kDense), copied));
}

// The work folder that an interrupted run leaves after all tensors but the last: those bytes are not there yet, and a
// byte of the first one is changed, to see that it is not done again.
void leave_work(const fs::path& out, const fs::path& done, const std::string& key, size_t finished) {
  OutputFolder work = OutputFolder::create(out, {.source = kDense, .resume = true, .job_key = key});
  std::string bytes = read_file(done / "model.safetensors");
  const SafetensorsHeader header = read_safetensors_header(File::open_read(done / "model.safetensors"));
  bytes[header.data_start] = static_cast<char>(bytes[header.data_start] + 1);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(header.data_start + header.tensors.back().begin),
            bytes.end(), 'x');
  write_file(work.work() / "model.safetensors", bytes);
  work.save_progress(std::to_string(finished));
  work.keep_for_resume();
}

TEST(QuantizeJob, ResumeDoesTheRestAndOnlyTheRest) {
  TempFolder temp;
  quantize(kDense, "W8A8", temp / "done");
  const ModelFiles files = open_model(kDense);
  const std::string key = job_key(files, plan_of(files, "W8A8"), QuantizeOptions{}.max_shard_bytes, nullptr);
  leave_work(temp / "out", temp / "done", key, files.checkpoint.tensor_names().size() - 1);
  const QuantizeReport r = quantize(kDense, "W8A8", temp / "out", {.resume = true});
  EXPECT_TRUE(r.resumed);
  EXPECT_EQ(r.modules.size(), 14u);
  std::string want = read_file(temp / "done" / "model.safetensors"),
              got = read_file(temp / "out" / "model.safetensors");
  const size_t first =
      read_safetensors_header(File::open_read(temp / "done" / "model.safetensors")).data_start;
  EXPECT_EQ(got[first], static_cast<char>(want[first] + 1));
  got[first] = want[first];
  EXPECT_EQ(got, want);
}

TEST(QuantizeJob, ResumesOnlyTheSameJob) {
  TempFolder temp;
  quantize(kDense, "W8A8", temp / "done");
  const ModelFiles files = open_model(kDense);
  const std::string key = job_key(files, plan_of(files, "W8A8"), QuantizeOptions{}.max_shard_bytes, nullptr);
  leave_work(temp / "out", temp / "done", key, 3);
  EXPECT_TRUE(error_of([&] { quantize(kDense, "W8A8:tensor", temp / "out", {.resume = true}); }));
  EXPECT_FALSE(fs::exists(temp / "out"));
  leave_work(temp / "out", temp / "done", key, 1000);  // more than there is
  expect_error([&] { quantize(kDense, "W8A8", temp / "out", {.resume = true}); }, {"1000"});
  quantize(kDense, "W8A8", temp / "out");  // without --resume the old work is removed
  EXPECT_EQ(read_file(temp / "out" / "model.safetensors"), read_file(temp / "done" / "model.safetensors"));
  EXPECT_EQ(files_in(temp.path()), (std::vector<std::string>{"done", "out"}));
}

}  // namespace
}  // namespace roundel
