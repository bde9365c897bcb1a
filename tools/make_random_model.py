#!/usr/bin/env python3
"""Writes a Llama-style checkpoint with random weights, of any size: for memory, interruption and speed.

  make_random_model.py DIR --layers 8 --hidden 1024 --inter 2816 --shards 3
  make_random_model.py DIR --shape tinyllama                 # 22 layers, hidden 2048: 2.2 GB

Standard library only. Values come from one random block of 4 MiB with a normal distribution, each piece of a tensor at
another offset of it and XORed in the lowest mantissa bits, so gigabytes take seconds and memory stays small. The same
options give the same bytes. The tokenizer is a byte-level BPE of few entries, whatever the size of the vocabulary.
"""
import argparse
import json
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "faults"))
import faultkit  # noqa: E402

BLOCK = 4 << 20
PIECE = 1 << 20
SHAPES = {"tinyllama": dict(layers=22, hidden=2048, inter=5632, heads=32, kv_heads=4, vocab=32000)}
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def random_block(dtype, seed):
    """BLOCK bytes of values from N(0, 0.02^2)."""
    rng = random.Random(seed)
    count = BLOCK // faultkit.DTYPE_BYTES[dtype]
    few = [rng.gauss(0, 0.02) for _ in range(1 << 16)]
    values = [few[i] for i in (rng.getrandbits(16) for _ in range(count))]
    return faultkit.encode(dtype, values)


class Values:
    """An endless stream of bytes of a dtype, different in every piece."""

    def __init__(self, dtype, seed):
        self.size = faultkit.DTYPE_BYTES[dtype]
        block = random_block(dtype, seed)
        self.rng = random.Random(seed + 1)
        self.blocks = []
        for bits in range(4):  # the lowest bits of each value changed
            mask = bits.to_bytes(self.size, "little") * (BLOCK // self.size)
            changed = int.from_bytes(block, "little") ^ int.from_bytes(mask, "little")
            self.blocks.append(changed.to_bytes(BLOCK, "little"))

    def pieces(self, total):
        while total > 0:
            n = min(PIECE, total)
            at = self.rng.randrange((BLOCK - n) // self.size + 1) * self.size
            yield memoryview(self.blocks[self.rng.randrange(4)])[at:at + n]
            total -= n


def tensor_list(o):
    """(name, shape) in file order."""
    head_dim = o.head_dim or o.hidden // o.heads
    yield "model.embed_tokens.weight", [o.vocab, o.hidden]
    for i in range(o.layers):
        p = "model.layers.%d." % i
        yield p + "input_layernorm.weight", [o.hidden]
        for name, rows in (("q", o.heads * head_dim), ("k", o.kv_heads * head_dim), ("v", o.kv_heads * head_dim)):
            yield p + "self_attn.%s_proj.weight" % name, [rows, o.hidden]
        yield p + "self_attn.o_proj.weight", [o.hidden, o.heads * head_dim]
        yield p + "post_attention_layernorm.weight", [o.hidden]
        yield p + "mlp.gate_proj.weight", [o.inter, o.hidden]
        yield p + "mlp.up_proj.weight", [o.inter, o.hidden]
        yield p + "mlp.down_proj.weight", [o.hidden, o.inter]
    yield "model.norm.weight", [o.hidden]
    if not o.tied:
        yield "lm_head.weight", [o.vocab, o.hidden]


def shards_of(tensors, count, size):
    """Runs of tensors of about equal bytes."""
    total = sum(size(shape) for _, shape in tensors)
    shards, current, at = [], [], 0
    for name, shape in tensors:
        current.append((name, shape))
        at += size(shape)
        if len(shards) + 1 < count and at >= total * (len(shards) + 1) / count:
            shards.append(current)
            current = []
    if current:
        shards.append(current)
    return shards


def write_shard(path, tensors, dtype, size, values):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size(shape)]}
        at += size(shape)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors:
            if len(shape) == 1:  # norm gains near one
                out.write(faultkit.encode(dtype, [1.0 + (i % 7) / 64 for i in range(shape[0])]))
            else:
                for piece in values.pieces(size(shape)):
                    out.write(piece)


def config(o, tokenizer):
    begin = tokenizer["added_tokens"][0]["id"]
    out = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": o.hidden,
        "intermediate_size": o.inter, "num_hidden_layers": o.layers, "num_attention_heads": o.heads,
        "num_key_value_heads": o.kv_heads, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "max_position_embeddings": o.positions, "vocab_size": o.vocab, "bos_token_id": begin, "eos_token_id": begin + 1,
        "tie_word_embeddings": o.tied, "torch_dtype": DTYPES[o.dtype], "attention_bias": False, "mlp_bias": False,
    }
    if o.head_dim:
        out["head_dim"] = o.head_dim
    return out


def write_model(folder, o):
    folder = Path(folder)
    folder.mkdir(parents=True)
    width = faultkit.DTYPE_BYTES[o.dtype]

    def size(shape):
        count = width
        for n in shape:
            count *= n
        return count

    values = Values(o.dtype, o.seed)
    shards = shards_of(list(tensor_list(o)), o.shards, size)
    names = (["model.safetensors"] if len(shards) == 1 else
             [faultkit.shard_name(i, len(shards)) for i in range(len(shards))])
    for name, tensors in zip(names, shards):
        write_shard(folder / name, tensors, o.dtype, size, values)
    total = sum(size(shape) for shard in shards for _, shape in shard)
    if len(shards) > 1:
        index = {"metadata": {"total_size": total},
                 "weight_map": {n: f for f, shard in zip(names, shards) for n, _ in shard}}
        (folder / "model.safetensors.index.json").write_bytes(faultkit.pretty(index))
    tokenizer = faultkit.make_tokenizer(320)
    (folder / "config.json").write_bytes(faultkit.pretty(config(o, tokenizer)))
    (folder / "tokenizer.json").write_bytes(faultkit.pretty(tokenizer))
    (folder / "generation_config.json").write_bytes(faultkit.pretty({"do_sample": False}))
    return total


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=sorted(SHAPES))
    for name, default in (("layers", 8), ("hidden", 1024), ("inter", 2816), ("heads", 16), ("kv-heads", 4),
                          ("head-dim", 0), ("vocab", 2048), ("positions", 2048), ("shards", 1), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="BF16")
    parser.add_argument("--tied", action="store_true")
    options = parser.parse_args(argv)
    for name, value in SHAPES.get(options.shape, {}).items():
        setattr(options, name, value)
    if options.vocab < 320:
        parser.error("--vocab must be at least 320, the entries of the tokenizer")
    return options


def main(argv=None):
    options = parse(argv)
    total = write_model(options.folder, options)
    print("%s: %.1f MB in %d file(s)" % (options.folder, total / 1e6, len(list(Path(options.folder).glob("*.safetensors")))))


if __name__ == "__main__":
    main()
