// Linear against a plain matrix product in double. The forms of the input follow the formulas of compressed-tensors and
// the FP8 format, written down here once more; the small cases are worked out by hand.
#include "linear/linear.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "tests/linear/plain_product.h"

namespace roundel {
namespace {

// ---- one row of four columns, by hand ----

const std::vector<int8_t> kOneToFour = {1, 2, 3, 4};

QuantArgs args_of(int bits, NumberType type, Strategy strategy) {
  QuantArgs a;
  a.num_bits = bits, a.type = type, a.strategy = strategy;
  return a;
}

QuantArgs token_args(int bits, NumberType type) {
  QuantArgs a = args_of(bits, type, Strategy::kToken);
  a.dynamic = DynamicMode::kDynamic;
  return a;
}

// y of one token and the weight row `codes`, all of it with the scale 1/2.
float product(const QuantArgs& weights, const std::optional<QuantArgs>& input,
              const std::vector<int8_t>& codes, std::vector<float> x, float scale = 0, int32_t zero_point = 0,
              std::vector<float> bias = {}) {
  Linear linear({"by_hand", 1, 4, Scheme{weights, input, {}, ""}, DType::kF32});
  if (scale != 0) linear.set_input_scale(scale, zero_point);
  if (!bias.empty()) linear.set_bias(std::move(bias));
  QuantizedRows rows;
  rows.rows = 1, rows.cols = 4, rows.groups = 1;
  rows.codes = codes, rows.scales = {0.5f};
  linear.pack(rows);
  ThreadPool pool(1);
  x.resize(kColumnUnit, 0.0f);
  LinearInput in(x.data(), 1, 4, kColumnUnit);
  float y = -1;
  linear.forward(in, &y, 1, pool);
  return y;
}

const QuantArgs kInt8Rows = args_of(8, NumberType::kInt, Strategy::kChannel);

TEST(Linear, DynamicInt8InputByHand) {
  // scale = 127.5 / 127.5 = 1: codes 127 (clamped), -64, 0, 1; (127 - 2*64 + 0 + 4) / 2 = 1.5
  const auto input = token_args(8, NumberType::kInt);
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {127.5f, -63.75f, 0, 1}), 1.5f);
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {127.5f, -63.75f, 0, 1}, 0, 0, {10}), 11.5f);
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {0, 0, 0, 0}), 0.0f);
}

TEST(Linear, AsymmetricInt8InputByHand) {
  // range 0 to 255: scale 1, zero point -128, every integer exact; (0 + 2 + 6 + 1020) / 2 = 514
  auto input = token_args(8, NumberType::kInt);
  input.symmetric = false;
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {0, 1, 2, 255}), 514.0f);
}

TEST(Linear, StaticInt8InputByHand) {
  // x / 2 + 3 = 3, 3.5, 0.5, 503 -> codes 3, 4, 0, 127 -> values 0, 2, -6, 248; (0 + 4 - 18 + 992) / 2 = 489
  auto input = args_of(8, NumberType::kInt, Strategy::kTensor);
  input.symmetric = false;
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {0, 1, -5, 1000}, 2, 3), 489.0f);
  // without zero point: 0, 0.5, -2.5, 500 -> 0, 0, -2, 127; (0 + 0 - 2*2*3 + 2*127*4) / 2 = 502
  input.symmetric = true;
  EXPECT_EQ(product(kInt8Rows, input, kOneToFour, {0, 1, -5, 1000}, 2), 502.0f);
}

TEST(Linear, StaticOutputByHand) {
  // The row {1, 2, 3, 4} / 2 times x: 1, -1.5, 2, 100.
  const auto output = [](const QuantArgs& args, float scale, int32_t zero_point) {
    Linear linear({"by_hand", 1, 4, Scheme{kInt8Rows, {}, args, ""}, DType::kF32});
    linear.set_output_scale(scale, zero_point);
    QuantizedRows rows;
    rows.rows = 1, rows.cols = 4, rows.groups = 1;
    rows.codes = kOneToFour, rows.scales = {0.5f};
    linear.pack(rows);
    ThreadPool pool(1);
    const int64_t tokens = 4;
    std::vector<float> x(static_cast<size_t>(tokens * kColumnUnit), 0.0f), y(static_cast<size_t>(tokens));
    for (const auto& [t, first] : {std::pair{0, 2.0f}, {1, -3.0f}, {2, 4.0f}, {3, 200.0f}})
      x[static_cast<size_t>(t * kColumnUnit)] = first;
    LinearInput in(x.data(), tokens, 4, kColumnUnit);
    linear.forward(in, y.data(), 1, pool);
    return y;
  };
  QuantArgs args = args_of(8, NumberType::kInt, Strategy::kTensor);
  // 1 / 0.4 = 2.5 to even 2; -3.75 to -4; 5; 250 to 127
  EXPECT_EQ(output(args, 0.4f, 0), (std::vector<float>{0.8f, -4 * 0.4f, 2.0f, 127 * 0.4f}));
  args.symmetric = false;  // code + 100 at most 127
  EXPECT_EQ(output(args, 0.5f, 100), (std::vector<float>{1.0f, -1.5f, 2.0f, 27 * 0.5f}));
  args = args_of(8, NumberType::kFloat, Strategy::kTensor);
  // 17, -25.5, 34 in steps of 2, 2, 4 (E4M3): ties to even; 1700 to 448
  EXPECT_EQ(output(args, 1 / 17.0f, 0), (std::vector<float>{16 * (1 / 17.0f), -26 * (1 / 17.0f),
                                                            2.0f - 2 * (1 / 17.0f), 448 * (1 / 17.0f)}));
}

TEST(Linear, Fp8InputByHand) {
  // Weight 1, 2, 4, 8 as E4M3. Input scale 448 / 448 = 1; E4M3 neighbours: 17 -> 16 (a tie, to even), -0.3 -> -0.3125,
  // 0.001 -> 2^-9. (448 + 32 - 1.25 + 0.015625) / 2 = 239.3828125
  const auto weights = args_of(8, NumberType::kFloat, Strategy::kChannel);
  const std::vector<int8_t> powers = {0x38, 0x40, 0x48, 0x50};
  EXPECT_EQ(product(weights, token_args(8, NumberType::kFloat), powers, {448, 17, -0.3f, 0.001f}),
            239.3828125f);
  // Static scale 2: 300 / 2 = 150 -> 144 (step 16 above 128, nearest of 144 and 160) -> 288; / 2 = 144
  const auto input = args_of(8, NumberType::kFloat, Strategy::kTensor);
  EXPECT_EQ(product(weights, input, powers, {300, 0, 0, 0}, 2), 144.0f);
}

TEST(Linear, Int4InputByHand) {
  // scale = 7.5 / 7.5 = 1, codes in [-8, 7], ties to even: 7, -8, 2, -2; (7 - 16 + 6 - 8) / 2 = -5.5
  const auto weights = args_of(4, NumberType::kInt, Strategy::kChannel);
  EXPECT_EQ(product(weights, token_args(4, NumberType::kInt), kOneToFour, {7.5f, -7.5f, 2.5f, -1.5f}), -5.5f);
}

TEST(Linear, FloatInputByHand) {
  // (0.25 + 2*0.5 - 3*8 + 4*0.125) / 2 = -11.125
  const auto weights = args_of(4, NumberType::kInt, Strategy::kChannel);
  EXPECT_EQ(product(weights, {}, kOneToFour, {0.25f, 0.5f, -8, 0.125f}), -11.125f);
}

TEST(Linear, RowIsRoundedToTheTypeOfItsScales) {
  // 5 * (1 + 2^-7) = 5.0390625; BF16 has steps of 2^-5 from 4 to 8: 5.03125. FP16 (2^-8) and FP32 hold it.
  for (const auto& [dtype, want] : {std::pair(DType::kBF16, 5.03125f), std::pair(DType::kF16, 5.0390625f),
                                    std::pair(DType::kF32, 5.0390625f)}) {
    Linear linear({"row", 1, 1, Scheme{kInt8Rows, {}, {}, ""}, dtype});
    QuantizedRows rows;
    rows.rows = rows.cols = rows.groups = 1;
    rows.codes = {5}, rows.scales = {1.0078125f};
    linear.pack(rows);
    float value = 0;
    linear.read_row(0, &value);
    EXPECT_EQ(value, want) << dtype_name(dtype);
  }
}

// ---- random weights of many shapes ----

struct Form {
  const char* scheme;
  bool static_input = false, act_asym = false;
};
void PrintTo(const Form& f, std::ostream* out) {
  *out << f.scheme << (f.static_input ? " static" : "");
}

class LinearForms : public testing::TestWithParam<Form> {};

TEST_P(LinearForms, EqualsThePlainProduct) {
  constexpr int64_t kShapes[][3] = {{1, 1, 1},  // N, K, M
                                    {33, 65, 3}, {17, 200, 5}, {64, 128, 1}, {40, 96, 18}, {130, 300, 2}};
  uint64_t seed = 1;
  for (const auto& [n, k, m] : kShapes) {
    SCOPED_TRACE(fmt::format("N {} K {} M {}", n, k, m));
    const PlainWeight weight = random_weight(GetParam().scheme, n, k, ++seed);
    PlainInput input = random_input(m, k, ++seed);
    Scheme scheme = weight.scheme;
    if (GetParam().static_input) {
      scheme.input->dynamic = DynamicMode::kStatic;
      scheme.input->strategy = Strategy::kTensor;
      scheme.input->symmetric = !GetParam().act_asym;
      input.static_scale = scheme.input->type == NumberType::kInt ? 0.0123f : 0.0031f;
      input.static_zero = GetParam().act_asym ? -17 : 0;
    }
    Linear linear({"random", n, k, scheme, weight.dtype});
    if (GetParam().static_input) linear.set_input_scale(input.static_scale, input.static_zero);
    std::vector<float> bias;
    for (int64_t i = 0; i < n && seed % 4 == 1; ++i) bias.push_back(static_cast<float>(i) - 3.5f);
    if (!bias.empty()) linear.set_bias(bias);
    pack_all(linear, weight);
    expect_product(linear, weight, input, scheme, bias);
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < n; r += 16) {
      linear.read_row(r, row.data());
      for (int64_t c = 0; c < k; ++c) {
        const double want = weight.at(r, c);
        ASSERT_NEAR(row[c], want, std::fabs(want) * 0x1p-23) << "row " << r << " column " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Linear, LinearForms,
                         testing::Values(Form{"BF16"}, Form{"F16"}, Form{"F32"}, Form{"W4A16:g32"},
                                         Form{"W4A16_ASYM:g32"}, Form{"W3A16:g32:asym"},
                                         Form{"W8A16:channel"}, Form{"W8A16:channel:asym"},
                                         Form{"W8A16:tensor"}, Form{"W8A8"}, Form{"W8A8:act-asym"},
                                         Form{"W8A8", true}, Form{"W8A8", true, true}, Form{"W4A8:g32"},
                                         Form{"W4A4:g32"}, Form{"FP8_DYNAMIC"}, Form{"FP8_DYNAMIC", true},
                                         Form{"FP8_BLOCK:64x64"}, Form{"W4AFP8:g64"}));

// ---- weight_g_idx ----

// 96 columns in three groups of 32 that lie anywhere.
std::vector<int32_t> scattered_groups() {
  std::vector<int32_t> group(96);
  for (size_t c = 0; c < group.size(); ++c)
    group[c] = static_cast<int32_t>(c * 35 % 96 / 32);  // 35: no factor of 96
  return group;
}

TEST(Linear, GroupIndexMovesColumnsToTheirScales) {
  const std::vector<int32_t> group = scattered_groups();
  for (const char* scheme : {"W4A16:g32", "W4A16_ASYM:g32", "W4A8:g32"}) {
    SCOPED_TRACE(scheme);
    PlainWeight weight = random_weight(scheme, 40, 96, 5);
    weight.group_of_column = group;
    const PlainInput input = random_input(3, 96, 6);
    Linear linear({"scattered", 40, 96, weight.scheme, weight.dtype});
    linear.set_group_index(group);
    pack_all(linear, weight);
    expect_product(linear, weight, input, weight.scheme, {});
    std::vector<float> row(96);
    linear.read_row(7, row.data());
    for (int64_t c = 0; c < 96; ++c)
      ASSERT_NEAR(row[static_cast<size_t>(c)], weight.at(7, c), std::fabs(weight.at(7, c)) * 0x1p-23) << c;
  }
}

// ---- LinearInput ----

// Rows that are made when they are wanted: the same forms, codes and floats, as of rows that lie ready.
TEST(LinearInput, MakesRowsForTheFormThatIsWanted) {
  const int64_t m = 5, k = 70, ldx = round_up(k, kColumnUnit);
  std::vector<float> x(static_cast<size_t>(m * ldx)), room(x.size());
  for (int64_t t = 0; t < m; ++t)
    for (int64_t c = 0; c < k; ++c)
      x[static_cast<size_t>(t * ldx + c)] = static_cast<float>((t * 37 + c * 11) % 29) - 13;
  std::atomic<int> calls = 0;
  const auto make = [&](int64_t t, float* y) {
    std::copy_n(x.data() + t * ldx, k, y);
    ++calls;
  };
  ThreadPool pool(2);
  ActForm int8, reversed;
  int8.kind = ActForm::Kind::kInt8;
  reversed.kind = ActForm::Kind::kInt8Asym;
  for (int32_t c = 0; c < k; ++c) reversed.order.push_back(static_cast<int32_t>(k) - 1 - c);
  LinearInput ready(x.data(), m, k, ldx), made(make, m, k, ldx, room.data());
  for (const ActForm& form : {int8, reversed}) {
    const LinearArgs want = ready.form(form, pool), got = made.form(form, pool);
    ASSERT_EQ(got.ldx, want.ldx);
    EXPECT_EQ(std::memcmp(got.x_codes, want.x_codes, static_cast<size_t>(m * want.ldx)), 0);
    EXPECT_EQ(std::memcmp(got.x_scale, want.x_scale, static_cast<size_t>(m) * 4), 0);
  }
  EXPECT_EQ(calls, 2 * m);
  EXPECT_EQ(room, std::vector<float>(room.size()));  // nobody asked for floats
  EXPECT_EQ(made.form({}, pool).x, room.data());
  EXPECT_EQ(room, x);
  made.form({}, pool);
  EXPECT_EQ(calls, 3 * m);
}

TEST(LinearInput, MakesEachFormOnceAndKeepsIt) {
  ThreadPool pool(2);
  const PlainInput input = random_input(3, 70, 9);
  LinearInput in(input.x.data(), 3, 70, input.ldx);
  std::vector<ActForm> forms;
  for (int bits = 2; bits < 9; ++bits) {
    ActForm form;
    form.kind = ActForm::Kind::kFakeInt;
    form.bits = bits;
    forms.push_back(form);
  }
  std::vector<const LinearArgs*> made;
  for (const ActForm& form : forms) made.push_back(&in.form(form, pool));
  for (size_t i = 0; i < forms.size(); ++i) {
    EXPECT_EQ(&in.form(forms[i], pool), made[i]) << i;
    EXPECT_EQ(made[i]->m, 3);
    ASSERT_NE(made[i]->x, nullptr);
    if (i > 0) {
      EXPECT_NE(made[i]->x, made[i - 1]->x);
    }
    for (int64_t c = 70; c < input.ldx; ++c) EXPECT_EQ(made[i]->x[c], 0.0f);  // the padding stays zero
  }
  EXPECT_EQ(in.form({}, pool).x, input.x.data());  // floats as they are: no copy
}

}  // namespace
}  // namespace roundel
