#!/usr/bin/env python3
"""Makes tests/data/gguf: small GGUF files and what must come out of their import.

    python3 tests/tools/make_gguf_fixtures.py

Needs gguf 0.19.0, numpy, and transformers 5.17 (for the merges of a SentencePiece vocabulary, and rotary embedding). The tokenizers come from
tests/data/tokenizers.

blocks.gguf, blocks.f32    random blocks of every type, and gguf.quants.dequantize of them, one tensor after another
llama3_rope.json          the frequency factors of Llama 3.x, as transformers computes them
<model>.gguf, <model>.json a model of one or two layers; its config, and a hash of each tensor (BF16, Hugging Face names, order)
"""
import json
import math
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import TokenType
from gguf.quants import dequantize, quantize

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
OUT = DATA / "gguf"
TYPES = [T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q4_K, T.Q5_K, T.Q6_K]
# Byte offsets of the FP16 numbers of a block.
HALVES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
          T.Q6_K: [208]}


def to_bf16(x):
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def fnv1a(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


# ---------------------------------------------------------------------------------------------------------------- blocks


def make_blocks(rng, rows=2, columns=512):
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "none")
    expected = []
    for t in TYPES:
        if t in (T.F32, T.F16, T.BF16):
            x = (rng.standard_normal((rows, columns)) * np.exp(rng.uniform(-12, 8, (rows, columns)))).astype(np.float32)
            data = x if t == T.F32 else x.clip(-6e4, 6e4).astype(np.float16) if t == T.F16 else to_bf16(x).view(np.uint8)
        else:
            block, size = gguf.GGML_QUANT_SIZES[t]
            data = rng.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
            for at in HALVES[t]:
                d = (rng.standard_normal(len(data)) * np.exp(rng.uniform(-14, 2, len(data)))).astype(np.float16)
                d[0], d[1] = np.float16(6e-8), np.float16(-0.0)  # the smallest subnormal, negative zero
                data[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
            data = data.reshape(rows, -1)
        writer.add_tensor(t.name, data, raw_dtype=None if t in (T.F32, T.F16) else t)
        expected.append(np.ascontiguousarray(dequantize(data, t), dtype=np.float32).reshape(-1))
    finish(writer)
    (OUT / "blocks.f32").write_bytes(np.concatenate(expected).tobytes())


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ------------------------------------------------------------------------------------------------------------- tokenizers


def merges_of(tokenizer):
    return [m.split(" ") if isinstance(m, str) else m for m in tokenizer["model"]["merges"]]


def scores_of(tokenizer):
    """SentencePiece has scores instead of merges: a piece's rank, single characters last."""
    vocab = tokenizer["model"]["vocab"]
    score = {t: -1e6 - i for t, i in vocab.items()}
    for rank, (left, right) in enumerate(merges_of(tokenizer)):
        if score[left + right] <= -1e6:
            score[left + right] = float(-rank)
    return [0.0 if i < 3 or t.startswith("<0x") else score[t] for t, i in sorted(vocab.items(), key=lambda p: p[1])]


def write_tokenizer(writer, tokenizer, kind, pre, special, options):
    vocab = dict(tokenizer["model"]["vocab"])
    added = {a["content"]: a for a in tokenizer["added_tokens"]}
    vocab.update({c: a["id"] for c, a in added.items()})
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda p: p[1])]
    assert sorted(vocab.values()) == list(range(len(tokens)))
    types = []
    for t in tokens:
        if t in added:
            unknown = kind == "llama" and t == "<unk>"
            k = TokenType.UNKNOWN if unknown else TokenType.CONTROL if added[t]["special"] else TokenType.USER_DEFINED
        else:
            k = TokenType.BYTE if kind == "llama" and t.startswith("<0x") else TokenType.NORMAL
        types.append(k)
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(pre)
    # A filler for an id without a token, as converters write it.
    writer.add_token_list(tokens + [f"[PAD{len(tokens)}]"])
    writer.add_token_types(types + [TokenType.UNUSED])
    expected = {"tokens": len(tokens)}
    if kind == "llama":
        from transformers.integrations.ggml import GGUFTokenizerSkeleton

        scores = scores_of(tokenizer)
        writer.add_token_scores(scores + [-1e9])
        expected["merges"] = GGUFTokenizerSkeleton({"tokens": tokens, "scores": scores}).merges
    else:
        writer.add_token_merges([" ".join(m) for m in merges_of(tokenizer)])
    for name, value in special.items():
        getattr(writer, f"add_{name}_token_id")(vocab[value])
        expected[name] = vocab[value]
    for name, value in options.items():
        getattr(writer, f"add_{name}")(value)
    return len(tokens) + 1, expected


# ----------------------------------------------------------------------------------------------------------------- models


def permute(w, heads):
    """As llama.cpp's converter orders the rows of q and k."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


class Model:
    def __init__(self, name, arch, hf_class, tokenizer, sizes, rng):
        self.name, self.arch, self.rng, self.s = name, arch, rng, sizes
        self.writer = gguf.GGUFWriter(OUT / f"{name}.gguf", arch)
        self.tokenizer = json.loads((DATA / "tokenizers" / f"{tokenizer}.json").read_text())["tokenizer"]
        self.tensors = {}
        self.count = 0
        self.config = {"architectures": [hf_class], "model_type": arch}
        self.expected = {"tokenizer": tokenizer, "config": self.config, "tensors": self.tensors, "types": {}}

    def tensor(self, from_name, to_name, shape, heads=0, scale=1.0, kind=None, data=None):
        """Random weights in Hugging Face order, stored in llama.cpp's order in one of the types in turn."""
        w = data if data is not None else (self.rng.standard_normal(shape) * scale).astype(np.float32)
        if kind is None:
            kinds = [T.Q4_0, T.Q8_0, T.F16, T.BF16, T.Q5_1, T.Q5_0, T.Q4_1, T.F32] if len(shape) == 2 else [T.F32]
            kind = kinds[self.count % len(kinds)]
            self.count += len(shape) == 2
        raw = quantize(permute(w, heads) if heads else w, kind)
        values = dequantize(raw, kind).astype(np.float32).reshape(shape)
        self.writer.add_tensor(from_name, raw, raw_dtype=None if kind in (T.F32, T.F16) else kind)
        if to_name is None:
            return
        if heads:  # back to the order it had
            values = values.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
            assert np.abs(values - w).max() < 0.6 * scale
        self.tensors[to_name] = {"shape": list(shape), "fnv1a": fnv1a(to_bf16(values).tobytes())}
        self.expected["types"][kind.name] = self.expected["types"].get(kind.name, 0) + 1

    def write(self, kind, pre, special, options, tied, biases=(), qk_norm=False, merged=False, permuted=False, rope=None):
        s, w = self.s, self.writer
        heads, kv, dim, hidden, inner = s["heads"], s["kv_heads"], s["head_dim"], s["hidden"], s["intermediate"]
        vocab, self.expected["vocab"] = write_tokenizer(w, self.tokenizer, kind, pre, special, options)
        w.add_context_length(s["context"])
        w.add_embedding_length(hidden)
        w.add_block_count(s["layers"])
        w.add_feed_forward_length(inner)
        w.add_head_count(heads)
        w.add_head_count_kv(kv)
        w.add_layer_norm_rms_eps(s["eps"])
        w.add_rope_freq_base(s["theta"])
        if dim != hidden // heads:
            w.add_key_length(dim)
            w.add_value_length(dim)
        self.tensor("token_embd.weight", "model.embed_tokens.weight", (vocab, hidden), kind=T.Q4_1)
        self.tensor("output_norm.weight", "model.norm.weight", (hidden,))
        if not tied:
            self.tensor("output.weight", "lm_head.weight", (vocab, hidden), kind=T.Q8_0)
        q, k = heads * dim, kv * dim
        for i in range(s["layers"]):
            a, b = f"blk.{i}.", f"model.layers.{i}."
            p = (heads, kv) if permuted else (0, 0)
            rows = {"attn_q": ("self_attn.q_proj", q, hidden, p[0]), "attn_k": ("self_attn.k_proj", k, hidden, p[1]),
                    "attn_v": ("self_attn.v_proj", k, hidden, 0), "attn_output": ("self_attn.o_proj", hidden, q, 0),
                    "ffn_gate": ("mlp.gate_proj", inner, hidden, 0), "ffn_up": ("mlp.up_proj", inner, hidden, 0),
                    "ffn_down": ("mlp.down_proj", hidden, inner, 0)}
            if merged:
                for part in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
                    del rows[part]
                rows["attn_qkv"] = ("self_attn.qkv_proj", q + 2 * k, hidden, 0)
                rows["ffn_up"] = ("mlp.gate_up_proj", 2 * inner, hidden, 0)
            for part, (hf, n, m, h) in rows.items():
                self.tensor(a + part + ".weight", b + hf + ".weight", (n, m), heads=h)
                if part in biases:
                    self.tensor(a + part + ".bias", b + hf + ".bias", (n,), heads=h)
            self.tensor(a + "attn_norm.weight", b + "input_layernorm.weight", (hidden,))
            self.tensor(a + "ffn_norm.weight", b + "post_attention_layernorm.weight", (hidden,))
            if qk_norm:
                self.tensor(a + "attn_q_norm.weight", b + "self_attn.q_norm.weight", (dim,))
                self.tensor(a + "attn_k_norm.weight", b + "self_attn.k_norm.weight", (dim,))
        self.config.update({
            "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": s["layers"],
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim, "vocab_size": vocab,
            "max_position_embeddings": s["context"], "rms_norm_eps": s["eps"], "rope_theta": s["theta"],
            "hidden_act": "silu", "tie_word_embeddings": tied, "torch_dtype": "bfloat16", "rope_scaling": rope,
        })
        finish(w)
        (OUT / f"{self.name}.json").write_text(json.dumps(self.expected, indent=1, sort_keys=True) + "\n")


def sizes(**other):
    s = dict(hidden=32, intermediate=64, layers=1, heads=4, kv_heads=2, head_dim=8, context=2048, eps=1e-5, theta=10000.0)
    s.update(other)
    return s


def llama2(rng):
    m = Model("llama2", "llama", "LlamaForCausalLM", "llama2", sizes(layers=2), rng)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    m.writer.add_rope_scaling_factor(4.0)
    m.config.update(attention_bias=False, mlp_bias=False)
    m.write("llama", "default", {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}, {"add_bos_token": True}, tied=False,
            permuted=True, rope={"rope_type": "linear", "factor": 4.0})


def llama3(rng):
    m = Model("llama3", "llama", "LlamaForCausalLM", "llama3", sizes(heads=2, kv_heads=1, head_dim=64, hidden=64,
              theta=500000.0, context=131072), rng)
    rope = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192)
    # As llama.cpp's converter computes the table, in FP32.
    freqs = (1.0 / (np.float32(500000.0) ** (np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)))).astype(np.float32)
    table = []
    for f in freqs:
        wavelength = 2 * math.pi / float(f)
        if wavelength < 8192 / 4.0:
            table.append(1.0)
        elif wavelength > 8192 / 1.0:
            table.append(8.0)
        else:
            smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
            table.append(1 / ((1 - smooth) / 8.0 + smooth))
    m.tensor("rope_freqs.weight", None, (32,), data=np.array(table, dtype=np.float32))
    m.config.update(attention_bias=True, mlp_bias=False)
    m.write("gpt2", "llama-bpe", {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>"}, {}, tied=True, permuted=True,
            biases=("attn_q", "attn_k", "attn_v", "attn_output"), rope=rope)


def qwen2(rng):
    m = Model("qwen2", "qwen2", "Qwen2ForCausalLM", "qwen2", sizes(eps=1e-6, theta=1000000.0), rng)
    m.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    m.writer.add_rope_scaling_factor(4.0)
    m.writer.add_rope_scaling_orig_ctx_len(512)
    m.writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\u00e9{% endfor %}")
    m.write("gpt2", "qwen2", {"eos": "<|endoftext|>", "pad": "<|endoftext|>"}, {"add_bos_token": False}, tied=False,
            biases=("attn_q", "attn_k", "attn_v"),
            rope={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512})


def qwen3(rng):
    m = Model("qwen3", "qwen3", "Qwen3ForCausalLM", "smollm2", sizes(head_dim=16, eps=1e-6), rng)
    m.config.update(attention_bias=False)
    special = {"bos": "<|im_start|>", "eos": "<|im_end|>", "pad": "<|im_end|>", "unk": "<|endoftext|>"}
    m.write("gpt2", "smollm", special, {"add_bos_token": False, "add_space_prefix": False}, tied=True, qk_norm=True)


def phi3(rng):
    m = Model("phi3", "phi3", "Phi3ForCausalLM", "o200k", sizes(head_dim=16, hidden=64, context=4096), rng)
    m.writer.add_rope_dimension_count(12)
    m.writer.add_rope_scaling_orig_ctx_len(1024)
    m.writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(4) / math.log(1024)))
    m.writer.add_sliding_window(512)
    short, long = [1.0, 1.05, 1.1, 1.2, 1.3, 1.4], [1.0, 1.5, 2.25, 4.0, 7.5, 12.125]
    m.tensor("rope_factors_short.weight", None, (6,), data=np.array(short, dtype=np.float32))
    m.tensor("rope_factors_long.weight", None, (6,), data=np.array(long, dtype=np.float32))
    m.config.update(partial_rotary_factor=0.75, sliding_window=512, original_max_position_embeddings=1024)
    m.write("gpt2", "gpt-4o", {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}, {"add_bos_token": False}, tied=True,
            merged=True, rope={"type": "longrope", "short_factor": short, "long_factor": long})


def rope_tables():
    """By how much transformers divides the frequencies of Llama 3.x."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    tables = []
    for head_dim, factor in ((64, 32.0), (128, 8.0)):
        rope = dict(rope_type="llama3", rope_theta=500000.0, factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=8192)
        config = LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim, rope_parameters=rope,
                             max_position_embeddings=131072)
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        plain = 1.0 / 500000.0 ** (np.arange(0, head_dim, 2) / head_dim)
        tables.append({"dimensions": head_dim, "factor": factor, "table": (plain / scaled.double().numpy()).tolist()})
    (OUT / "llama3_rope.json").write_text(json.dumps(tables) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rope_tables()
    make_blocks(np.random.default_rng(1))
    for i, make in enumerate((llama2, llama3, qwen2, qwen3, phi3)):
        make(np.random.default_rng(10 + i))


if __name__ == "__main__":
    main()
