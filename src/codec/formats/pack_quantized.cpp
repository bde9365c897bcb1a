// pack-quantized: codes as a bit stream in 32-bit words, each row on a fresh word (docs/format.md, 5).
//
//   weight_packed      I32 [out, ceil(in * bits / 32)]
//   weight_scale       BF16, F16 or F32, shape by strategy
//   weight_shape       I64 [2]: out, in
//   weight_zero_point  asymmetric only. Channel and group: I32 [ceil(out * bits / 32), groups], a bit stream down each
//                      column. Tensor and block: I8, shaped like the scales.
// Writers before compressed-tensors 0.18 put 32 / bits whole values into a word: the same for 2, 4 and 8 bits.
#include <algorithm>

#include "base/checked.h"
#include "codec/formats/formats.h"
#include "codec/formats/old_packing.h"
#include "codec/stored_tensors.h"
#include "kernels/list.h"

namespace roundel {
namespace {

int64_t words_for(const StoredWeight& stored, int64_t n) {
  return packed_words(n, weight_args(stored).num_bits, stored.old_packing);
}

void unpack(const StoredWeight& stored, const uint32_t* words, int64_t first, int64_t n, int8_t* codes) {
  const int bits = weight_args(stored).num_bits;
  if (stored.old_packing) {
    unpack_old(words, first, n, bits, codes);
  } else {
    encode_ops().unpack_bits(words, n, bits, codes);
  }
}

std::vector<TensorSpec> layout(const StoredWeight& stored) {
  const QuantArgs& args = weight_args(stored);
  const Shape scales = scale_shape(args, stored.rows, stored.cols);
  std::vector<TensorSpec> specs = {
      {tensor_name(stored, "weight_packed"), DType::kI32, {stored.rows, words_for(stored, stored.cols)}},
      {tensor_name(stored, "weight_scale"), stored.scale_dtype, scales},
      {tensor_name(stored, "weight_shape"), DType::kI64, {2}}};
  if (args.symmetric) return specs;
  if (scales_per_row(args)) {
    specs.push_back(
        {tensor_name(stored, "weight_zero_point"), DType::kI32, {words_for(stored, stored.rows), scales[1]}});
  } else {
    specs.push_back({tensor_name(stored, "weight_zero_point"), DType::kI8, scales});
  }
  return specs;
}

void store_zero_points(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink) {
  const int bits = weight_args(stored).num_bits;
  const int64_t words = packed_words(rows.rows, bits, false), groups = rows.groups;
  std::vector<int8_t> column(static_cast<size_t>(rows.rows));
  std::vector<uint32_t> stream(static_cast<size_t>(words)), all(static_cast<size_t>(words * groups));
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      column[static_cast<size_t>(r)] = rows.zero_points[static_cast<size_t>(r * groups + g)];
    }
    encode_ops().pack_bits(column.data(), rows.rows, bits, stream.data());
    for (int64_t w = 0; w < words; ++w)
      all[static_cast<size_t>(w * groups + g)] = stream[static_cast<size_t>(w)];
  }
  sink(tensor_name(stored, "weight_zero_point"), static_cast<uint64_t>(rows.row0 * bits / 32 * groups) * 4,
       all.data(), all.size() * 4);
}

void store(const StoredWeight& stored, const QuantizedRows& rows, const TensorSink& sink) {
  CHECK(!stored.old_packing && rows.row0 % kChunkUnit == 0);
  const QuantArgs& args = weight_args(stored);
  const int64_t words = words_for(stored, rows.cols);
  Buffer packed(static_cast<size_t>(rows.rows * words * 4));
  for (int64_t r = 0; r < rows.rows; ++r) {
    encode_ops().pack_bits(rows.codes.data() + r * rows.cols, rows.cols, args.num_bits,
                           packed.as<uint32_t>() + r * words);
  }
  sink(tensor_name(stored, "weight_packed"), static_cast<uint64_t>(rows.row0 * words * 4), packed.data(),
       packed.size());
  store_scales(stored, rows, sink);
  if (rows.row0 == 0) {
    const int64_t shape[2] = {stored.rows, stored.cols};
    sink(tensor_name(stored, "weight_shape"), 0, shape, sizeof(shape));
  }
  if (args.symmetric) return;
  if (scales_per_row(args)) {
    store_zero_points(stored, rows, sink);
  } else {
    store_zero_points_i8(stored, rows, sink);
  }
}

// weight_shape of the file becomes the shape of the module.
bool read_shape(const TensorSource& source, ModuleChecks& checks) {
  const TensorSpec* spec = checks.require("weight_shape", "packed words do not tell the shape of the weight");
  if (!spec || !checks.has_dtype(*spec, {DType::kI64, DType::kI32})) return false;
  if (spec->shape != Shape{2}) {
    checks.add("weight_shape", fmt::format("has shape {}, expected [2]", shape_text(spec->shape)));
    return false;
  }
  int64_t shape[2] = {};
  if (spec->dtype == DType::kI64) {
    source.read(*spec, 0, shape, sizeof(shape));
  } else {
    int32_t narrow[2] = {};
    source.read(*spec, 0, narrow, sizeof(narrow));
    shape[0] = narrow[0];
    shape[1] = narrow[1];
  }
  return checks.take_shape(shape[0], shape[1], "weight_shape");
}

// Zero points are packed down the rows, or, before packing was introduced for them, a byte each.
void check_zero_points(const StoredWeight& stored, ModuleChecks& checks) {
  const TensorSpec* zero = checks.require("weight_zero_point", "the scheme is asymmetric");
  if (!zero) return;
  if (!scales_per_row(weight_args(stored)) || zero->dtype == DType::kI8) return checks.zero_points_i8(*zero);
  if (!checks.has_dtype(*zero, {DType::kI32})) return;
  const Shape expected = {words_for(stored, stored.rows), scale_groups(stored)};
  if (zero->shape == expected) return;
  checks.add("weight_zero_point",
             fmt::format("has shape {}, expected {} ({} rows of {} bits in 32-bit words, {} groups)",
                         shape_text(zero->shape), shape_text(expected), stored.rows,
                         weight_args(stored).num_bits, expected[1]));
}

void open(StoredWeight* stored, const TensorSource& source, const std::string& writer_version,
          Problems* problems) {
  ModuleChecks checks(stored, source, problems);
  const QuantArgs& args = weight_args(*stored);
  const TensorSpec* packed =
      checks.require("weight_packed", fmt::format("it holds the codes of {}", describe(args)));
  if (!read_shape(source, checks) || !packed || !checks.has_dtype(*packed, {DType::kI32})) return;
  if (packed->shape.size() != 2 || packed->shape[0] != stored->rows) {
    checks.add("weight_packed", fmt::format("has shape {}, expected {} rows as weight_shape says",
                                            shape_text(packed->shape), stored->rows));
    return;
  }
  const TensorSpec* zero = args.symmetric ? nullptr : checks.find("weight_zero_point");
  const bool packed_zero =
      zero && scales_per_row(args) && zero->dtype == DType::kI32 && zero->shape.size() == 2;
  stored->old_packing = is_old_packing(
      args.num_bits, {{stored->cols, packed->shape[1]}, {stored->rows, packed_zero ? zero->shape[0] : -1}},
      writer_version);
  const int64_t words = words_for(*stored, stored->cols);
  if (packed->shape[1] != words) {
    checks.add("weight_packed",
               fmt::format("has shape {}, expected [{}, {}] ({} columns of {} bits in 32-bit words)",
                           shape_text(packed->shape), stored->rows, words, stored->cols, args.num_bits));
    return;
  }
  checks.scales();
  if (args.symmetric) {
    checks.stray_zero_points();
  } else {
    check_zero_points(*stored, checks);
  }
}

void load_zero_points(const StoredWeight& stored, const TensorSource& source, QuantizedRows* out) {
  const TensorSpec* spec = source.find(tensor_name(stored, "weight_zero_point"));
  CHECK(spec != nullptr);
  if (spec->dtype == DType::kI8) return load_zero_points_i8(stored, source, out);
  // Words [first, end) of each column; row0 is `skip` values after the start of the first.
  const int bits = weight_args(stored).num_bits;
  const int64_t per_word = 32 / bits, groups = out->groups;
  const int64_t first = stored.old_packing ? out->row0 / per_word : out->row0 * bits / 32;
  const int64_t skip = stored.old_packing ? out->row0 % per_word : 0;
  const int64_t words = words_for(stored, skip + out->rows);
  std::vector<uint32_t> all(static_cast<size_t>(words * groups)), stream(static_cast<size_t>(words));
  read_tensor(stored, source, "weight_zero_point", static_cast<uint64_t>(first * groups) * 4, all.data(),
              all.size() * 4);
  std::vector<int8_t> column(static_cast<size_t>(out->rows));
  out->zero_points.resize(static_cast<size_t>(out->rows * groups));
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t w = 0; w < words; ++w)
      stream[static_cast<size_t>(w)] = all[static_cast<size_t>(w * groups + g)];
    unpack(stored, stream.data(), skip, out->rows, column.data());
    for (int64_t r = 0; r < out->rows; ++r) {
      out->zero_points[static_cast<size_t>(r * groups + g)] = column[static_cast<size_t>(r)];
    }
  }
}

void load(const StoredWeight& stored, const TensorSource& source, int64_t row0, int64_t rows,
          QuantizedRows* out) {
  CHECK(row0 % kChunkUnit == 0);
  out->row0 = row0;
  out->rows = rows;
  out->cols = stored.cols;
  out->groups = scale_groups(stored);
  const int64_t words = words_for(stored, stored.cols);
  Buffer packed(static_cast<size_t>(rows * words * 4));
  read_tensor(stored, source, "weight_packed", static_cast<uint64_t>(row0 * words * 4), packed.data(),
              packed.size());
  out->codes.resize(static_cast<size_t>(rows * stored.cols));
  for (int64_t r = 0; r < rows; ++r) {
    unpack(stored, packed.as<uint32_t>() + r * words, 0, stored.cols, out->codes.data() + r * stored.cols);
  }
  load_scales(stored, source, out);
  out->zero_points.clear();
  if (!weight_args(stored).symmetric) load_zero_points(stored, source, out);
}

std::vector<std::string> optional_tensors(const StoredWeight& stored) {
  std::vector<std::string> names = {tensor_name(stored, "weight_g_idx")};
  if (weight_args(stored).symmetric) names.push_back(tensor_name(stored, "weight_zero_point"));
  return names;
}

}  // namespace

extern const StorageFormat kPackQuantized = {"pack-quantized", layout, store, open, load, optional_tensors};

}  // namespace roundel
