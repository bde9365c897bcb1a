#!/usr/bin/env python3
"""make_faults.py OUTDIR: write the bad-input cases, one folder per case, and cases.json."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from faultkit import *                                                     # noqa: E402,F403
from faultkit import Registry, toy, layout, frame, dumps, shard_name       # noqa: E402
import calibration_faults                                                  # noqa: E402

R = Registry()
add = R.add
Q0 = "model.layers.0.self_attn.q_proj.weight"
D1 = "model.layers.1.mlp.down_proj.weight"
FILE = ["model.safetensors"]


# ---- base: must simply work ---------------------------------------------------------------------------------------
def base(d):
    toy().write(d / "model")
    (d / "text.txt").write_text("the cat sat on the mat and the dog ran to the door . " * 12)


add("ok-base-inspect", "base", "valid toy checkpoint", "The base of every other case; inspect must accept it.",
    inspect(), base, exit="ok")
add("ok-base-generate", "base", "valid toy checkpoint, generate", "Two layers, width 64: four tokens take no time.",
    generate(), base, exit="ok", seconds=5, rss=1024)
add("ok-base-eval", "base", "valid toy checkpoint, eval", "Perplexity of a short text.",
    ["eval", "{case}/model", "--text", "{case}/text.txt", "--window", "64"], base, exit="ok", seconds=5, rss=1024)
add("ok-base-quantize-w8a8", "base", "valid toy checkpoint, W8A8",
    "Codes and scales of all linears are written; other cases compare their output with this one.",
    quantize("--ignore", "lm_head"), base, exit="ok", seconds=10, rss=1024,
    output={"tensors_present": [Q0, Q0 + "_scale", "lm_head.weight"], "tensors_absent": ["lm_head.weight_scale"],
            "scales_finite_positive": True, "files": ["config.json", "tokenizer.json"]})
SAME = {"same_tensors_as": "ok-base-quantize-w8a8"}

# ---- A: one safetensors file --------------------------------------------------------------------------------------
add("a1-size-0", "A1", "file of 0 bytes", "There is no header to read.", inspect(), raw_file(lambda m: b""), all=FILE)
add("a1-size-7", "A1", "file of 7 bytes", "One byte short of a header length.", inspect(),
    raw_file(lambda m: b"\x10\0\0\0\0\0\0"), all=FILE)


def sparse_header(length, size):
    def build(d):
        p = toy().write(d / "model") / "model.safetensors"
        with open(p, "wb") as f:
            f.write(length.to_bytes(8, "little") + b"{")
            f.truncate(size)
    return build


add("a2-header-100000001", "A2", "header length just above the cap",
    "The format caps the header at 100,000,000 bytes; the file really is that long (sparse).",
    inspect(), sparse_header(100_000_001, 100_001_024), all=FILE, seconds=1, rss=64)
add("a2-header-2pow63", "A2", "header length 2^63", "Must be refused before any allocation.",
    inspect(), header_edit(lambda h: None, length=1 << 63), all=FILE, seconds=1, rss=64)


def longer_than_file(m):
    good = st_bytes(m.tensors)
    return (len(good) - 7).to_bytes(8, "little") + good[8:]


add("a3-header-past-end", "A3", "header length one byte longer than what is left", "length = file size - 7.",
    inspect(), raw_file(longer_than_file), all=FILE)
add("a4-not-utf8", "A4", "header is not UTF-8", "A tensor name holds the byte 0xC3 with no continuation.", inspect(),
    header_text(lambda t: t.replace(Q0, Q0[:-1] + "#").encode().replace(b"#", b"\xc3")), all=FILE)
add("a4-not-json", "A4", "header is not JSON", "Plain words where the header should be.", inspect(),
    raw_file(lambda m: frame(b"this is not a header", layout(m.tensors)[1])), all=FILE)
add("a4-deep-arrays", "A4", "header nested 100,000 deep",
    "Three levels are ever needed; a recursive parser without a limit dies on a 256 KiB stack.", inspect(),
    raw_file(lambda m: frame(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}", b"")), all=FILE,
    limits={"stack_kib": 256})
add("a5-duplicate-name", "A5", "the same tensor name twice", "Both entries are identical; a plain map keeps the last.",
    inspect(), header_text(lambda t: t[:-1] + ',"%s":%s}' % (
        "model.norm.weight", json.dumps(json.loads(t)["model.norm.weight"]))),
    all=FILE, any=["model.norm.weight", "duplicate", "twice", "repeated"])
add("a5-duplicate-dtype", "A5", "key dtype twice inside one entry", "Two answers to one question.", inspect(),
    header_text(lambda t: t.replace('"%s":{' % Q0, '"%s":{"dtype":"F16",' % Q0)),
    all=FILE, any=[Q0, "dtype", "duplicate"])


def entry(name, **changes):
    return lambda h: h[name].update(changes)


def entry_text(name, old, new):
    """Replace text inside the entry of one tensor only."""
    def edit(t):
        a = t.index('"%s":' % name)
        b = t.index("}", a)
        assert old in t[a:b], (old, t[a:b])
        return t[:a] + t[a:b].replace(old, new) + t[b:]
    return header_text(edit)


add("a6-shape-negative", "A6", "negative dimension", "-64 must not turn into a huge unsigned number.", inspect(),
    header_edit(entry(Q0, shape=[-64, -64])), all=FILE, any=[Q0, "-64", "shape"])
add("a6-shape-float", "A6", "dimension written 64.0", "Only plain integers are sizes.", inspect(),
    entry_text(Q0, "[64,64]", "[64.0,64]"), all=FILE, any=[Q0, "64.0", "shape"])
add("a6-shape-string", "A6", "dimension written \"64\"", "A string is not a size.", inspect(),
    header_edit(entry(Q0, shape=["64", 64])), all=FILE, any=[Q0, "shape"])
add("a6-shape-2pow53-plus-1", "A6", "dimension 2^53+1",
    "A number that a double cannot hold; it must be judged as written, not rounded.", inspect(),
    header_edit(entry(Q0, shape=[1, 9007199254740993])), all=FILE, any=[Q0, "9007199254740993"])


def offsets(name, f):
    def edit(h):
        h[name]["data_offsets"] = f(*h[name]["data_offsets"])
    return edit


add("a7-begin-after-end", "A7", "begin > end", "end - begin wraps around.", inspect(),
    header_edit(offsets(Q0, lambda a, b: [b, a])), all=FILE, any=[Q0, "offset"])
add("a7-end-past-data", "A7", "last tensor ends 4 KiB past the file", "The header promises more than there is.",
    inspect(), header_edit(lambda h: h["lm_head.weight"].update(
        shape=[352, 64], data_offsets=[h["lm_head.weight"]["data_offsets"][0],
                                       h["lm_head.weight"]["data_offsets"][1] + 4096])),
    all=FILE, any=["lm_head.weight", "offset", "short", "trunc", "4096", "beyond"])


def hole(m):
    header, data = layout(m.tensors)
    cut = header[Q0]["data_offsets"][1]
    for n, e in header.items():
        if n != "__metadata__" and e["data_offsets"][0] >= cut:
            e["data_offsets"] = [x + 64 for x in e["data_offsets"]]
    return frame(header, data[:cut] + b"\0" * 64 + data[cut:])


add("a7-hole", "A7", "64 unused bytes between two tensors", "Ranges must cover the data without a gap.", inspect(),
    raw_file(hole), all=FILE, any=["hole", "gap", "offset", "cover", "contiguous", "model.layers.0"])


def overlap(h):
    k, v = "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"
    h[v]["data_offsets"] = [x - 128 for x in h[v]["data_offsets"]]


add("a7-overlap", "A7", "v_proj begins 128 bytes inside k_proj", "Two tensors would share bytes.", inspect(),
    header_edit(overlap), all=FILE, any=["overlap", "offset", "contiguous", "self_attn.v_proj", "self_attn.k_proj", "hole", "gap"])
add("a7-trailing-bytes", "A7", "16 bytes after the last tensor", "A file that is two things at once.", inspect(),
    raw_file(lambda m: st_bytes(m.tensors) + b"PK\x03\x04trailing...."), all=FILE)


def reorder(h):
    names = sorted((n for n in h if n != "__metadata__"), key=lambda n: n[::-1])
    return {**{n: h[n] for n in names}, "__metadata__": h["__metadata__"]}


add("ok-a7-out-of-order", "A7", "entries in another order than the data",
    "The order of keys in the header is free; the result must be that of the ordered file.",
    quantize("--ignore", "lm_head"), header_edit(reorder), exit="ok", seconds=10, rss=1024, output=dict(SAME))
add("a8-product-overflow", "A8", "shape [4, 2^62]", "4 * 2^62 wraps to 0 in 64 bits.", inspect(),
    header_edit(entry(Q0, shape=[4, 1 << 62])), all=FILE, any=[Q0, "overflow", "shape"])
add("a8-shape-vs-range", "A8", "shape [64, 63] over 8192 bytes", "dtype x shape must equal the byte range.", inspect(),
    header_edit(entry(Q0, shape=[64, 63])), all=FILE, any=[Q0])


def scalars(m):
    m.tensors["extra.scalar"] = ("F32", [], encode("F32", [1.5]))
    m.tensors["extra.empty"] = ("BF16", [0, 64], b"")


add("ok-a8-rank0-and-empty", "A8", "a rank-0 and a zero-element tensor",
    "Both are valid in the format; tensors the model does not use are worth a warning at most.",
    inspect(), edited(scalars), exit="ok")
add("a9-unknown-dtype", "A9", "dtype F128", "There is no lenient path for a type nobody knows.", inspect(),
    header_edit(entry(Q0, dtype="F128")), all=FILE, any=["F128"])


def unaligned(m):
    header, data = layout(m.tensors)
    text = dumps(header)
    text += b" " * (3 - len(text) % 8 if len(text) % 8 <= 3 else 11 - len(text) % 8)
    return frame(text, data, align=1)


add("ok-a10-unaligned-header", "A10", "header length = 3 mod 8",
    "All tensor data lie at odd addresses; values must be bit-exact all the same.",
    quantize("--ignore", "lm_head"), raw_file(unaligned), exit="ok", seconds=10, rss=1024, output=dict(SAME))


def many(m):
    header, data = layout(m.tensors)
    end = len(data)
    for i in range(200_000):
        header["x.%d" % i] = {"dtype": "F32", "shape": [0], "data_offsets": [end, end]}
    return frame(header, data)


add("a11-200k-empty-tensors", "A11", "200,000 tensors of zero size in a 13 MB header",
    "Work and memory stay in proportion to the header; accepting or refusing are both fine.",
    inspect(), raw_file(many), exit=[0, 1], seconds=10, rss=200)
add("a12-cut-1-byte", "A12", "last byte missing", "An interrupted download; never read past the end.", inspect(),
    raw_file(lambda m: st_bytes(m.tensors)[:-1]), all=FILE)
add("a12-cut-half-generate", "A12", "second half of the file missing, generate",
    "Must end before the first token, not with zeros or a bus error.", generate(),
    raw_file(lambda m: st_bytes(m.tensors)[:120_000]), all=FILE)
add("a13-lfs-pointer", "A13", "Git LFS pointer instead of weights", "The most common broken clone; say what it is.",
    inspect(), raw_file(lambda m: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 +
                        b"\nsize 273312\n"), all=FILE)
add("a13-html-page", "A13", "HTML page instead of weights", "A log-in page saved under the file's name.", inspect(),
    raw_file(lambda m: b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"),
    all=FILE)


def special(make):
    def build(d):
        p = toy().write(d / "model") / "model.safetensors"
        p.unlink()
        make(p)
    return build


add("a14-fifo", "A14", "model.safetensors is a FIFO", "Opening it for reading would wait for ever.", inspect(),
    special(os.mkfifo), all=FILE, seconds=2)
add("a14-directory", "A14", "model.safetensors is a directory", "Not a regular file.", inspect(),
    special(os.mkdir), all=FILE)
add("a14-symlink-loop", "A14", "model.safetensors is a link to itself", "The open fails; say so.", inspect(),
    special(lambda p: os.symlink(p.name, p)), all=FILE)


def poke(name, index, value):
    def edit(m):
        v = m.values(name)
        v[index] = value
        m.set(name, v)
    return edit


add("a15-nan-weight", "A15", "one NaN in a BF16 weight", "Found while reading, with the tensor's name.",
    quantize("--ignore", "lm_head"), edited(poke(D1, 4711, float("nan"))), seconds=10, rss=1024,
    any=[D1, D1[:-7]], all=["nan"])

# ---- B: sharded index ---------------------------------------------------------------------------------------------
INDEX = "model.safetensors.index.json"


def sharded(edit=None, after=None, shards=3):
    """toy in three shards; edit(index) changes the index, after(folder, model) the folder."""
    def build(d):
        m = toy()
        folder = m.write(d / "model", shards=shards)
        index = m.index(shards)
        if edit:
            index = edit(index) or index
        (folder / INDEX).write_bytes(index if isinstance(index, bytes) else json.dumps(index, indent=2).encode())
        if after:
            after(folder, m)
    return build


add("ok-b0-three-shards", "B", "three good shards", "Same model, same result as in one file.",
    quantize("--ignore", "lm_head"), sharded(), exit="ok", seconds=10, rss=1024, output=dict(SAME))


def drop_two(folder, m):
    for i in (0, 2):
        (folder / shard_name(i, 3)).unlink()


add("b1-two-shards-missing", "B1", "two of three shards missing",
    "All missing names at once, before any work.", generate(), sharded(after=drop_two),
    all=[shard_name(0, 3), shard_name(2, 3)])
add("b2-tensor-not-in-shard", "B2", "index names a tensor that its shard lacks", "Index and shard disagree.", inspect(),
    sharded(lambda ix: ix["weight_map"].update({"model.layers.1.extra.weight": shard_name(1, 3)})),
    any=["model.layers.1.extra.weight"])


def outside(value):
    """An otherwise complete checkpoint whose last shard is named by `value`; that file exists outside the folder."""
    def build(d):
        m = toy()
        folder = m.write(d / "model", shards=3)
        (d / "other").mkdir()
        (folder / shard_name(2, 3)).rename(d / "other" / "model.safetensors")
        index = m.index(3)
        v = value(d)
        index["weight_map"] = {n: v if f == shard_name(2, 3) else f for n, f in index["weight_map"].items()}
        (folder / INDEX).write_text(json.dumps(index, indent=2))
    return build


add("b3-parent-path", "B3", "weight_map value ../other/model.safetensors",
    "The file exists and is valid; it must not be opened, a shard is a plain file name.", inspect(),
    outside(lambda d: "../other/model.safetensors"), any=["../other", INDEX, "weight_map"])
add("b3-absolute-path", "B3", "weight_map value is an absolute path", "Same, spelled from the root.", inspect(),
    outside(lambda d: str(d / "other" / "model.safetensors")), any=["other/model.safetensors", INDEX, "weight_map"])


def hf_cache(d):
    """Layout of the Hugging Face cache: the snapshot holds links into blobs/."""
    m = toy()
    m.write(d / "tmp", shards=3)
    (d / "blobs").mkdir()
    (d / "snapshots" / "rev1").mkdir(parents=True)
    for i, p in enumerate(sorted((d / "tmp").iterdir())):
        blob = d / "blobs" / ("%040x" % (0xabc + i))
        p.rename(blob)
        os.symlink("../../blobs/" + blob.name, d / "snapshots" / "rev1" / p.name)
    (d / "tmp").rmdir()
    os.symlink("snapshots/rev1", d / "model")


add("ok-b4-hf-cache", "B4", "Hugging Face cache layout: every file a symlink", "The usual way models lie on disk.",
    quantize("--ignore", "lm_head"), hf_cache, exit="ok", seconds=10, rss=1024, output=dict(SAME))
add("b5-index-not-json", "B5", "index ends in the middle", "Cut JSON.", inspect(),
    sharded(lambda ix: json.dumps(ix, indent=2).encode()[:400]), any=[INDEX])
add("ok-b5-total-size-wrong", "B5", "total_size is wrong", "A note for people; worth a warning, not a failure.", inspect(),
    sharded(lambda ix: ix["metadata"].update(total_size=12345)), exit="ok")


def no_scale(m):
    quant_w8a8(m)
    del m.tensors["model.layers.1.mlp.up_proj.weight_scale"]


add("b6-weight-scale-missing", "B6", "one weight_scale missing in a W8A8 checkpoint",
    "Codes without a scale are not a weight.", inspect(), edited(no_scale), any=["model.layers.1.mlp.up_proj"])


def no_norm(m):
    del m.tensors["model.layers.1.post_attention_layernorm.weight"]


add("b6-norm-missing", "B6", "one norm weight missing", "Every parameter the config implies must be filled.",
    generate(), edited(no_norm), any=["model.layers.1.post_attention_layernorm"])

# ---- C: config, tokenizer, recipe ---------------------------------------------------------------------------------
CONFIG = ["config.json"]


def config_text(f):
    def build(d):
        m = toy()
        m.write(d / "model", config=f(json.dumps(m.config, indent=2)))
    return build


add("c1-config-missing", "C1", "no config.json", "Name the file that is not there.", generate(),
    lambda d: toy().write(d / "model", config=False), all=CONFIG)
add("c1-config-trailing-comma", "C1", "trailing comma in config.json", "Name the file, better also line and column.",
    generate(), config_text(lambda t: (t[:-2] + ",\n}").encode()), all=CONFIG)
add("c1-config-deep", "C1", "config.json nested 100,000 deep", "No recursion without a limit.", generate(),
    config_text(lambda t: (t[:-2] + ',"x":' + "[" * 100000 + "]" * 100000 + "}").encode()), all=CONFIG,
    limits={"stack_kib": 256})


def config(**kw):
    return edited(lambda m: m.config.update(kw))


add("c2-heads-zero", "C2", "num_attention_heads 0", "hidden / heads would divide by zero.", generate(),
    config(num_attention_heads=0), any=["num_attention_heads", "heads"])
add("c2-kv-heads-3", "C2", "4 heads, 3 key/value heads", "Groups of heads must be whole.", generate(),
    config(num_key_value_heads=3), any=["num_key_value_heads", "k_proj", "heads"])
add("c2-layers-1e9", "C2", "num_hidden_layers 1,000,000,000",
    "Nothing may be allocated for layers before the tensors are seen to exist.", generate(),
    config(num_hidden_layers=1_000_000_000), any=["num_hidden_layers", "layers"])
add("c3-intermediate-size", "C3", "intermediate_size 160, tensors say 128", "Report both numbers.", generate(),
    config(intermediate_size=160), any=["160", "gate_proj", "intermediate_size"])
add("c4-unknown-architecture", "C4", "architecture FancyForCausalLM",
    "An unknown architecture is an error that lists the known ones.", generate(),
    config(architectures=["FancyForCausalLM"], model_type="fancy"), any=["fancy"])
add("c4-unknown-architecture-fields", "C4", "architecture MambaForCausalLM, whose config has no attention heads",
    "The name is refused before a field is missed that this architecture does not have.", generate(),
    edited(lambda m: [m.config.update(architectures=["MambaForCausalLM"], model_type="mamba"),
                      m.config.pop("num_attention_heads"), m.config.pop("intermediate_size")]), all=["MambaForCausalLM"])
add("c4-unknown-activation", "C4", "hidden_act \"wavelet\"", "Never fall back to a default.", generate(),
    config(hidden_act="wavelet"), any=["wavelet", "hidden_act"])
add("c4-unknown-rope-type", "C4", "rope_type \"spiral\"", "Long prompts would be wrong without a sign.",
    generate(), config(rope_scaling={"rope_type": "spiral", "factor": 4.0}), any=["spiral"])


def weights_arg(quant, **kw):
    def edit(m):
        quant(m)
        m.config["quantization_config"]["config_groups"]["group_0"]["weights"].update(kw)
    return edit


add("c4-num-bits-11", "C4", "num_bits 11 in a packed scheme", "Refuse and list what is supported.", inspect(),
    edited(weights_arg(quant_pack, num_bits=11)), any=["num_bits", "11"])
add("c4-unknown-format", "C4", "quantization format \"zip-quantized\"", "Unknown formats are errors.", inspect(),
    edited(lambda m: quant_pack(m).config["quantization_config"].update(format="zip-quantized")), any=["zip-quantized"])
add("c4-unknown-quant-method", "C4", "quant_method \"mystery\"", "Other writers' checkpoints are refused by name.",
    inspect(), edited(lambda m: quant_pack(m).config["quantization_config"].update(quant_method="mystery")),
    any=["mystery"])
add("c5-group-size-16", "C5", "group_size 16 in the config, scales for groups of 32",
    "The config alone was edited; a kernel that believes it reads past the scales.", inspect(),
    edited(weights_arg(quant_pack, group_size=16)), any=["group_size", "weight_scale", "group"])


def packed_width(m):
    quant_pack(m)
    n = "model.layers.0.mlp.gate_proj.weight_shape"
    m.tensors[n] = ("I64", [2], encode("I64", [128, 96]))


add("c5-packed-width", "C5", "weight_shape says 96 columns, packed words say 64", "Shapes are derived and compared.",
    inspect(), edited(packed_width), any=["model.layers.0.mlp.gate_proj"])


def no_zp(m):
    quant_pack(m, symmetric=False)
    del m.tensors["model.layers.0.self_attn.o_proj.weight_zero_point"]


add("c5-zero-point-missing", "C5", "asymmetric scheme, one zero point missing", "Zero must not be assumed.", inspect(),
    edited(no_zp), any=["model.layers.0.self_attn.o_proj", "zero_point"])

# positive quantized variants
add("ok-c5-w8a8", "C5", "good W8A8 checkpoint runs", "Channel scales [out,1], dynamic tokens.", generate(),
    edited(lambda m: quant_w8a8(m)), exit="ok", seconds=5, rss=1024)
add("ok-c5-w4a16-g32", "C5", "good W4A16 group-32 checkpoint runs", "Packed words, I64 weight_shape.", generate(),
    edited(lambda m: quant_pack(m)), exit="ok", seconds=5, rss=1024)


def legacy_key(m):
    quant_w8a8(m)
    m.config["compression_config"] = m.config.pop("quantization_config")


add("ok-c5-compression-config", "C5", "legacy key compression_config", "What writers of 2024 called the section.",
    inspect(), edited(legacy_key), exit="ok")
add("ok-c5-scales-1d", "C5", "channel scales of shape [out]", "Older files have no second dimension.", generate(),
    edited(lambda m: quant_w8a8(m, scale_rank=1)), exit="ok", seconds=5, rss=1024)
add("ok-c5-scales-0d", "C5", "FP8 per-tensor scales of rank 0", "Older files store a scalar, not [1].", inspect(),
    edited(lambda m: quant_fp8(m, scale_shape=())), exit="ok")

# positive configs
add("ok-rope-parameters", "C2", "rope base inside rope_parameters",
    "Newer configs moved it there; the old key is absent.", generate(), edited(lambda m: m.config.update(
        rope_parameters={"rope_type": "default", "rope_theta": m.config.pop("rope_theta")})), exit="ok", seconds=5, rss=1024)


def llama3(key):
    return config(rope_theta=500000.0, rope_scaling={key: "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                                                     "high_freq_factor": 4.0, "original_max_position_embeddings": 64})


add("ok-rope-llama3-old-key", "C4", "llama3 rope under the key \"type\"", "Both spellings are in circulation.",
    generate(), llama3("type"), exit="ok", seconds=5, rss=1024)
add("ok-head-dim-32", "C2", "head_dim 32 with hidden 64 and 4 heads", "q_proj has 128 rows, o_proj 128 columns.",
    generate(), edited(lambda m: None, head_dim=32), exit="ok", seconds=5, rss=1024)
add("ok-tied-embeddings", "C2", "tied embeddings, no lm_head stored", "The embedding serves twice.", generate(),
    edited(lambda m: None, tied=True), exit="ok", seconds=5, rss=1024)
add("ok-vocab-305", "C2", "vocabulary of 305", "Not a multiple of 64, 16 or 8; nothing may assume it is.",
    generate("--quantize", "W8A8"), edited(lambda m: None, vocab=305), exit="ok", seconds=5, rss=1024)
add("ok-more-rows-than-tokens", "C2", "300 tokens, 320 embedding rows", "Padding rows are normal.", generate(),
    edited(lambda m: None, vocab=320, entries=300), exit="ok", seconds=5, rss=1024)

# tokenizer
add("c6-token-beyond-rows", "C6", "320 tokens, 290 embedding rows",
    "Ordinary merges and the begin token have ids without a row; never read past the table.", generate(),
    edited(lambda m: None, vocab=290, entries=320), any=["290", "vocab", "embed", "token"])


def tok(edit):
    return edited(lambda m: edit(m.tokenizer))


add("c6-merge-unknown-piece", "C6", "merge of a piece that is not in the vocabulary", "Name the entry.", generate(),
    tok(lambda t: t["model"]["merges"].append("qz xj")), any=["qz", "merge", "tokenizer.json"])
add("ok-c6-merges-as-pairs", "C6", "merges as pairs", "The newer encoding of the same list.", generate(),
    tok(lambda t: t["model"].update(merges=[s.split(" ") for s in t["model"]["merges"]])), exit="ok", seconds=5, rss=1024)
add("c6-unknown-pre-tokenizer", "C6", "pre-tokenizer type Zigzag", "Unsupported parts are named, not skipped.",
    generate(), tok(lambda t: t.update(pre_tokenizer={"type": "Zigzag"})), any=["Zigzag", "pre_tokenizer", "pre-tokenizer"])
add("c6-bad-regex", "C6", "Split pattern that does not compile", "An open group in the pattern.", generate(),
    tok(lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|[a-z"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]})),
    any=["pattern", "regex", "tokenizer.json", "(?i:'s"])


def repeated(ch, n):
    def build(d):
        toy().write(d / "model")
        (d / "text.txt").write_text(ch * n)
    return build


add("ok-c6-64k-same-letter", "C6", "text of 65,536 times the letter A",
    "A regex engine that recurses per character dies here.", tokenize(), repeated("A", 65536), exit="ok", seconds=3,
    limits={"stack_kib": 256})

# chat template
CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}" \
       "{% if add_generation_prompt %}[assistant]{% endif %}"


def chat(text):
    """toy whose tokenizer_config.json holds the chat template `text` (None: no template), and one user message."""
    def build(d):
        m = toy()
        if text is not None:
            m.files["tokenizer_config.json"]["chat_template"] = text
        m.write(d / "model")
        (d / "messages.json").write_text(json.dumps([{"role": "user", "content": "hi there"}]))
    return build


add("ok-c9-template", "C9", "a plain chat template", "The base of the cases below.", template(), chat(CHAT), exit="ok",
    stdout_contains_all=["[user] hi there", "[assistant]"])
add("c9-self-calling-macro", "C9", "macro that calls itself", "A template is a stranger's program.", template(),
    chat("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"), limits={"stack_kib": 256}, seconds=3)
add("c9-endless-loop", "C9", "loop of 10^9 steps", "Steps are limited.", template(),
    chat("{% for i in range(1000000000) %}{% for j in range(1000000000) %}{% endfor %}{% endfor %}done"), seconds=3)
add("c9-string-doubling", "C9", "a string doubled 33 times", "8 GiB of x; output and memory are limited.", template(),
    chat("{% set ns = namespace(s='x') %}{% for i in range(33) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}"),
    seconds=3, limits={"as_mib": 4096})
add("c9-include", "C9", "template that includes a file", "No file access from a template.", template(),
    chat("{% include 'config.json' %}"), any=["include", "template"])
add("c9-no-template", "C9", "no chat template at all", "Say that there is none, and where it would be.", template(),
    chat(None), any=["template"])
add("c9-template-refuses", "C9", "template refuses the conversation", "Its own words reach the user.", template(),
    chat("{{ raise_exception('only odd conversations here') }}"), any=["only odd conversations here"])

# recipe
GOOD = """quant_stage:
  quant_modifiers:
    QuantizationModifier:
      targets: ["Linear"]
      scheme: W8A8
      ignore: ["lm_head"]
"""
RECIPE = ["recipe"]
add("ok-recipe-dry-run", "C7", "a plain recipe, dry run", "Prints the table and writes nothing.", with_recipe(),
    recipe(GOOD), exit="ok", output_must_not_exist=True, stdout_contains_all=["q_proj"])
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    "%s: &%s [%s]\n" % (c, c, ",".join(["*" + p] * 9)) for p, c in zip("abcdefgh", "bcdefghi")) + "quant_stage: *i\n"
add("c7-alias-bomb", "C7", "YAML aliases that expand to 9^9 nodes", "300 bytes must not cost gigabytes.", with_recipe(),
    recipe(BOMB), all=RECIPE, rss=64)
add("c7-cyclic-anchor", "C7", "YAML anchor that contains itself", "Endless recursion in naive readers.", with_recipe(),
    recipe("quant_stage: &a\n  quant_modifiers: [*a]\n"), any=["recipe", "anchor", "alias", "quant_modifiers"],
    limits={"stack_kib": 256})
add("c7-duplicate-key", "C7", "scheme given twice", "One of the two would be lost without a word.", with_recipe(),
    recipe(GOOD.replace("      scheme: W8A8\n", "      scheme: W8A8\n      scheme: FP8_DYNAMIC\n")),
    any=["scheme", "duplicate"])
add("c7-typo-key", "C7", "ingore instead of ignore", "Unknown keys are errors; name the nearest one.", with_recipe(),
    recipe(GOOD.replace("ignore:", "ingore:")), any=["ingore"])
add("c7-unknown-scheme", "C7", "scheme W3B7 in a recipe", "Not a preset.", with_recipe(),
    recipe(GOOD.replace("W8A8", "W3B7")), any=["W3B7"])
add("c8-invalid-pattern", "C8", "ignore pattern with an open group", "Report the pattern, not a stack trace.",
    quantize("--ignore", "re:mlp.(gate", "--dry-run"), base, exit=FAIL_OR_USAGE, any=["mlp.(gate", "pattern", "regex"])
add("c8-nested-quantifier", "C8", "pattern with nested quantifiers",
    "A backtracking engine needs 2^30 steps on an ordinary layer name; any clean end within the time is fine.",
    quantize("--ignore", "re:([a-z0-9_.]+)+!", "--dry-run"), base, exit=[0, 1, 2], seconds=3,
    output_must_not_exist=True)
add("c8-ignore-matches-nothing", "C8", "ignore pattern that matches no layer",
    "A prefix typo would quantize what the user wanted to keep.",
    quantize("--ignore", "lm_head", "--ignore", "re:vision_tower.*", "--dry-run"), base, exit=FAIL_OR_USAGE,
    any=["vision_tower"])

# ---- D: output ----------------------------------------------------------------------------------------------------
add("d4-out-is-in", "D4", "output folder = input folder", "The user's only copy.",
    quantize(out="{case}/model"), base, exit=FAIL_OR_USAGE, any=["model", "same", "input"])
add("d4-out-inside-in", "D4", "output folder inside the input folder", "Input must stay as it is.",
    quantize(out="{case}/model/quantized"), base, exit=FAIL_OR_USAGE, any=["quantized", "inside", "input"])


def linked(d):
    base(d)
    os.symlink("model", d / "link")


add("d4-out-links-to-in", "D4", "output path is a symlink to the input", "Compare files, not spellings.",
    quantize(out="{case}/link"), linked, exit=FAIL_OR_USAGE, any=["link", "same", "input", "exist"])


def existing(d):
    base(d)
    (d / "existing").mkdir()
    (d / "existing" / "notes.txt").write_text("someone's notes\n")


add("d5-out-exists", "D5", "output folder exists and holds other files", "Nothing of the user's is overwritten.",
    quantize(out="{case}/existing"), existing, exit=FAIL_OR_USAGE, any=["exist", "empty"])
add("d5-parent-is-file", "D5", "parent of the output path is a file", "Found before the work, not after it.",
    quantize(out="{case}/text.txt/out"), base, exit=FAIL_OR_USAGE, any=["text.txt", "directory"])

# ---- Q: shapes and numbers ----------------------------------------------------------------------------------------
L0, L1 = "model.layers.0.", "model.layers.1."
add("q1-indivisible", "Q1", "W4A16 (groups of 128) on width 192",
    "At once and with every layer that does not fit; not after the calibration.",
    quantize("--ignore", "lm_head", scheme="W4A16"), edited(lambda m: None, hidden=192, inter=320), seconds=2,
    text_contains_all=[L0 + "self_attn.q_proj", L1 + "mlp.gate_proj", L1 + "mlp.down_proj"], any=["128", "group"])
add("ok-q1-w4a16-g32", "Q1", "W4A16 in groups of 32 on width 64", "Divides everywhere; packed words and scales.",
    quantize("--group-size", "32", scheme="W4A16"), base, exit="ok", seconds=10, rss=1024,
    output={"tensors_present": [Q0 + "_packed", Q0 + "_scale", Q0 + "_shape"], "scales_finite_positive": True,
            "tensor_head": {Q0 + "_shape": [64, 64]}})
add("ok-q1-indivisible-channel", "Q1", "the same with --on-indivisible channel",
    "Layers that do not fit get one scale per row.", plan("--ignore", "lm_head", "--on-indivisible", "channel", scheme="W4A16"),
    edited(lambda m: None, hidden=192, inter=320), exit="ok", stdout_contains_all=["q_proj", "down_proj"])


def tiny_rows(m):
    v = m.values(Q0)
    rows = [[0.0] * 64, [-0.0] * 64, [1e-38] * 64, [1e-30] + [0.0] * 63, [1e-6] * 64]
    for i, r in enumerate(rows):
        v[i * 64:(i + 1) * 64] = r
    m.set(Q0, v)


add("ok-q2-zero-rows", "Q2", "rows of zeros, -0.0, 1e-38, a lone 1e-30", "No 0/0; every stored scale finite and > 0.",
    quantize("--ignore", "lm_head"), edited(tiny_rows), exit="ok", seconds=10, rss=1024,
    output={"scales_finite_positive": True, "tensor_head": {Q0: [0] * 128}})


def edge_row(m):
    v = m.values(Q0)
    v[:64] = [127.5, -127.5, 63.75] + [0.0] * 61
    m.set(Q0, v)


add("ok-q3-minus-128", "Q3", "row with +a and -a, scale exactly 1",
    "Full range: a/127.5 gives the codes 127, -128, 64.", quantize("--ignore", "lm_head"), edited(edge_row), exit="ok",
    seconds=10, rss=1024, output={"tensor_head": {Q0: [127, -128, 64, 0]}})

# ---- G: command line ----------------------------------------------------------------------------------------------
add("g-unknown-flag", "G", "unknown flag", "Usage errors have their own code.", inspect("--frobnicate"), base, exit=[2],
    any=["frobnicate"])
add("g-unknown-command", "G", "unknown command", "Same.", ["frobnicate", "{case}/model"], base, exit=[2], any=["frobnicate"])
add("g-unknown-scheme", "G", "unknown scheme", "A value that is not in the list.", quantize(scheme="W9A99"), base,
    exit=FAIL_OR_USAGE,
    any=["W9A99"])
add("g-no-such-path", "G", "checkpoint path does not exist", "Name the path.", ["inspect", "{case}/nowhere"], base,
    exit=FAIL_OR_USAGE, any=["nowhere"])


def odd_path(d):
    toy().write(d / "m\u00f6del \u6a21 x" / "model")


add("ok-g-odd-path", "G", "path with a space and non-ASCII letters", "Users have such paths.",
    ["inspect", "{case}/m\u00f6del \u6a21 x/model"], odd_path, exit="ok")
add("g-empty-prompt", "G", "empty prompt", "Works (begin token only) or is refused; both by a rule.",
    generate(prompt=""), base, exit=[0, 1, 2], seconds=5, rss=1024)

# ---- K: calibration -----------------------------------------------------------------------------------------------
calibration_faults.add_cases(add)

if __name__ == "__main__":
    sys.exit(R.main())
