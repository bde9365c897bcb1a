#!/usr/bin/env python3
"""make_golden_subset.py GOLDEN OUT: the part of the golden set that the repository keeps (tests/data/golden).

GOLDEN holds the folders that make_golden.py wrote with the original libraries. Whole checkpoints are copied, with the logits
of the first 16 tokens. Of the other cases one linear layer is kept, cut to its first rows where rows are independent. Needs
numpy only: tensors are cut as bytes.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np

WHOLE = ["w8a8", "w4a16_asym_g32", "fp8_dynamic", "mixed", "w8a8_asym_static", "gptq_w4a16_g32_actorder_group"]
TOKENS = 16
# case -> rows kept (0: all of them) of a layer
DOWN, K = "model.layers.0.mlp.down_proj", "model.layers.0.self_attn.k_proj"
CUT = {
    "w2a16": (DOWN, 16), "w3a16": (DOWN, 16), "w4a16": (DOWN, 16), "w4a16_asym": (DOWN, 16), "w4a16_channel": (K, 16),
    "w4a16_g32": (K, 16), "w4a8": (K, 16), "w4a8_packed": (DOWN, 16), "w4afp8": (K, 16), "w5a16": (DOWN, 16),
    "w6a16": (K, 16), "w7a16": (K, 16), "w8a16": (K, 16), "w8a16_channel": (K, 16), "w8a16_channel_asym": (K, 16),
    "w8a8_static_tensor": (K, 0), "fp8": (K, 0), "fp8_block": (K, 0), "fp8_weight_only": (K, 16),
    "gptq_w4a16_g32_actorder_group": (K, 16), "gptq_w4a16_g32": (K, 0), "gptq_w4a16_g32_actorder_none": (K, 0),
    "gptq_w8a8": (K, 0), "smoothquant_w8a8": (K, 0),
}
# Tensors of other modules that are kept too.
ALSO = {"smoothquant_w8a8": ["model.layers.0.input_layernorm.weight"]}


def load(path):
    raw = path.read_bytes()
    n, = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + n]), raw[8 + n:]
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[v["data_offsets"][0]:v["data_offsets"][1]]) for k, v in header.items()}


def save(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(d for _, _, d in tensors.values()))


def head(tensor, n):
    dtype, shape, data = tensor
    return dtype, [n, *shape[1:]], data[:len(data) // shape[0] * n]


def cut_logits(tensors, key, dequant_rows):
    _, (_, n_tok, vocab), data = tensors[key]
    logits = np.frombuffer(data, "<f4").reshape(-1, n_tok, vocab)[:1, :TOKENS]
    ids = np.frombuffer(tensors["input_ids"][2], "<i8").reshape(-1, n_tok)[:1, :TOKENS]
    out = {"input_ids": ("I64", [1, TOKENS], ids.tobytes()), key: ("F32", [1, TOKENS, vocab], logits.tobytes())}
    for name in tensors:
        if dequant_rows and name.startswith("dequant.") and name.endswith("k_proj.weight"):
            out[name] = head(tensors[name], dequant_rows)
    return out


def cut_layer(tensors, module, rows):
    out = {}
    for name, tensor in tensors.items():
        if not name.startswith(module + "."):
            continue
        suffix = name[len(module) + 1:]
        if rows == 0 or suffix.endswith("g_idx") or suffix.startswith(("input_", "output_")):
            out[name] = tensor
        elif suffix == "weight_shape":
            shape = np.frombuffer(tensor[2], "<i8").copy()
            shape[0] = rows
            out[name] = ("I64", [2], shape.tobytes())
        elif suffix == "weight_zero_point" and tensor[0] == "I32":  # packed down the rows: rows * bits / 32 words
            full = tensors[module + ".weight_scale"][1][0]
            out[name] = head(tensor, tensor[1][0] * rows // full)
        else:
            out[name] = head(tensor, rows)
    return out


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    dense = out / "dense/tiny_llama"
    dense.mkdir(parents=True, exist_ok=True)
    for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]:
        shutil.copyfile(source / "dense/tiny_llama" / name, dense / name)
    save(dense / "logits.safetensors", cut_logits(load(source / "w8a8/logits.safetensors"), "dense_f32", 0))
    for case in WHOLE:
        (out / case).mkdir(exist_ok=True)
        for name in ["config.json", "generation_config.json", "model.safetensors"]:
            shutil.copyfile(source / case / name, out / case / name)
        save(out / case / "logits.safetensors", cut_logits(load(source / case / "logits.safetensors"), "fakequant_f32", 8))
    for case, (module, rows) in CUT.items():
        folder = out / "layers" / case
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads((source / case / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({"quantization_config": config["quantization_config"]}, indent=1))
        tensors = load(source / case / "model.safetensors")
        also = {name: tensors[name] for name in ALSO.get(case, [])}
        save(folder / "model.safetensors", {**cut_layer(tensors, module, rows), **also})
    print(sum(f.stat().st_size for f in out.rglob("*") if f.is_file()), "bytes")


if __name__ == "__main__":
    main()
