#!/usr/bin/env python3
"""Makes tests/data/scheme/*.json: what the original library says about schemes.

    python3 tests/tools/make_scheme_fixtures.py [FOLDER_OF_CHECKPOINTS]

Needs compressed-tensors 0.20.1 and torch. The folder, if given, holds one quantized checkpoint in each sub-folder, saved by
llm-compressor; their quantization_config sections go into stored_configs.json.
"""
import json
import pathlib
import random
import sys
import warnings

import compressed_tensors
import torch
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization import apply_quantization_config
from compressed_tensors.quantization.quant_scheme import PRESET_SCHEMES, preset_name_to_scheme

assert compressed_tensors.__version__ == "0.20.1", compressed_tensors.__version__
OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "scheme"
warnings.simplefilter("ignore")


def save(name, value):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def attempt(cls, value):
    """{"accepted": ..., "written": as the library writes it} or the error's first line."""
    try:
        return {"accepted": True, "written": json.loads(cls.model_validate(value).model_dump_json())}
    except Exception as error:  # pydantic's and the library's own
        return {"accepted": False, "error": " ".join(str(error).split())[:160]}


G = {"num_bits": 4, "strategy": "group", "group_size": 128}
ARGS = [
    {}, {"num_bits": 4}, {"num_bits": 11}, {"num_bits": 16}, {"num_bits": 1}, {"num_bits": None}, {"num_bit": 4},
    {"num_bits": 8, "unknown": None}, {"type": "INT"}, {"type": "Float"}, {"type": "double"}, {"type": None},
    {"type": "float", "num_bits": 4, "group_size": 16, "strategy": "tensor_group"},
    {"type": "float", "num_bits": 6, "group_size": 32}, {"type": "float", "num_bits": 5}, {"type": "float", "num_bits": 16},
    {"symmetric": False}, {"symmetric": None},
    {"group_size": 128}, {"group_size": -1}, {"group_size": 0}, {"group_size": -2}, {"group_size": None},
    {"group_size": 128, "strategy": "group"}, {"group_size": 128, "strategy": "channel"},
    {"group_size": 128, "strategy": "tensor"}, {"group_size": 128, "strategy": "token", "dynamic": True},
    {"group_size": -1, "strategy": "channel"}, {"group_size": -1, "strategy": "group"},
    {"group_size": -1, "strategy": "tensor"}, {"group_size": 0, "strategy": "channel"},
    {"strategy": "group"}, {"strategy": "tensor_group"}, {"strategy": "channel"}, {"strategy": "CHANNEL"},
    {"strategy": "rows"}, {"strategy": None}, {"strategy": "tensor"}, {"strategy": "attn_head"},
    {"strategy": "token"}, {"strategy": "token", "dynamic": True}, {"strategy": "token", "dynamic": False},
    {"strategy": "token", "dynamic": "local"}, {"strategy": "attn_head", "dynamic": True},
    {"strategy": "tensor", "dynamic": True}, {"strategy": "channel", "dynamic": True},
    {"strategy": "group", "group_size": 64, "dynamic": True}, {"dynamic": None}, {"dynamic": "yes please"},
    {"strategy": "tensor_group", "group_size": 16, "dynamic": "local"}, {"group_size": 16, "dynamic": "local"},
    {"strategy": "tensor_group", "group_size": 16, "dynamic": "LOCAL"}, {"dynamic": "local"},
    {"strategy": "block"}, {"strategy": "block", "block_structure": [128, 128]},
    {"strategy": "block", "block_structure": "128x64"}, {"strategy": "block", "block_structure": "128"},
    {"strategy": "block", "block_structure": "axb"}, {"strategy": "block", "block_structure": "128x64x2"},
    {"strategy": "block", "block_structure": "0x64"}, {"strategy": "block", "block_structure": "x64"},
    {"strategy": "block", "block_structure": [128]}, {"strategy": "block", "block_structure": [128, 0]},
    {"strategy": "block", "block_structure": [128, -1]}, {"strategy": "block", "block_structure": [128, 1.5]},
    {"strategy": "block", "block_structure": None}, {"block_structure": [128, 128]},
    {"strategy": "channel", "block_structure": [128, 128]},
    {"strategy": "block", "block_structure": [128, 128], "dynamic": True},
    {"strategy": "block", "block_structure": [128, 128], "group_size": 128},
    {**G, "actorder": None}, {**G, "actorder": False}, {**G, "actorder": "weight"}, {**G, "actorder": "static"},
    {**G, "actorder": "sideways"}, {**G, "actorder": "STATIC"}, {"strategy": "channel", "actorder": "static"},
    {**G, "scale_dtype": "torch.float8_e4m3fn"}, {**G, "scale_dtype": "uint8"}, {**G, "scale_dtype": "torch.half"},
    {**G, "scale_dtype": "torch.nonsense"}, {**G, "scale_dtype": None}, {**G, "zp_dtype": "torch.int8"},
    {**G, "zp_dtype": "torch.int8", "symmetric": False}, {**G, "zp_dtype": "int8", "symmetric": False},
    {**G, "symmetric": False}, {**G, "zp_dtype": None, "symmetric": False},
    {**G, "observer": "memoryless_minmax"}, {**G, "observer": None}, {"observer": 3},
    {"strategy": "token", "dynamic": True, "observer": "minmax"}, {"strategy": "token", "dynamic": True, "observer": None},
    {**G, "observer_kwargs": {}}, {**G, "observer_kwargs": {"averaging_constant": 0.01}}, {**G, "observer_kwargs": None},
    {**G, "observer_kwargs": [1]}, {"group_size": "wide"}, {"symmetric": "perhaps"}, {"num_bits": 4.5},
]
# Accepted by the original through conversion; a number or flag must be one here.
CONVERTED = [
    {"num_bits": "8"}, {"num_bits": 8.0}, {"num_bits": True}, {"symmetric": "true"}, {"symmetric": 1}, {"dynamic": 0},
    {**G, "group_size": 128.0}, {"strategy": "block", "block_structure": [True, 128]},
]
# Refused since 0.19, but older checkpoints hold it.
REMOVED = [{**G, "actorder": "group"}, {**G, "actorder": "dynamic"}, {**G, "actorder": True}]

TOKEN = {"strategy": "token", "dynamic": True}
CHANNEL = {"strategy": "channel"}
SCHEMES = [
    {"weights": CHANNEL}, {"weights": CHANNEL, "input_activations": TOKEN}, {"weights": None}, {},
    {"weights": CHANNEL, "input_activations": CHANNEL}, {"weights": CHANNEL, "input_activations": {}},
    {"weights": CHANNEL, "input_activations": {"strategy": "block", "block_structure": [64, 64]}},
    {"weights": CHANNEL, "input_activations": {"group_size": 64, "dynamic": True}},
    {"weights": CHANNEL, "input_activations": {"strategy": "attn_head"}},
    {"weights": CHANNEL, "input_activations": {**TOKEN, "actorder": "static"}},
    {"weights": CHANNEL, "output_activations": {"actorder": "weight"}}, {"weights": CHANNEL, "output_activations": {}},
    {"weights": CHANNEL, "output_activations": CHANNEL}, {"weights": CHANNEL, "format": None},
    {"weights": CHANNEL, "format": "pack-quantized"}, {"weights": CHANNEL, "format": "mixed-precision"},
    {"weights": CHANNEL, "format": "zip-quantized"}, {"weights": CHANNEL, "activations": TOKEN},
    {"weights": CHANNEL, "weight": CHANNEL}, {"weights": []},
]


def presets():
    out = {}
    for name in PRESET_SCHEMES:
        scheme = preset_name_to_scheme(name, ["Linear"])
        config = QuantizationConfig(config_groups={"g": scheme})
        out[name] = {"scheme": json.loads(scheme.model_dump_json()),
                     "format": infer_module_format(torch.nn.Linear, scheme).value,
                     "needs_calibration": config.requires_calibration_data()}
    return out


def formats():
    out = []
    for bits in (2, 4, 8):
        for kind in ("int", "float"):
            if kind == "float" and bits == 2:
                continue
            for act in (None, TOKEN, {**TOKEN, "type": "float"}):
                value = {"targets": ["Linear"], "weights": {"num_bits": bits, "type": kind, "group_size": 64},
                         "input_activations": act}
                scheme = QuantizationScheme.model_validate(value)
                out.append({"scheme": value, "Linear": infer_module_format(torch.nn.Linear, scheme).value,
                            "Embedding": infer_module_format(torch.nn.Embedding, scheme).value,
                            "Conv2d": infer_module_format(torch.nn.Conv2d, scheme).value})
    return out


class Tree(torch.nn.Module):
    """A llama-shaped tree of small modules."""

    def __init__(self, layers=3):
        super().__init__()

        def linear():
            return torch.nn.Linear(8, 8, bias=False)

        def block():
            b = torch.nn.Module()
            b.self_attn, b.mlp = torch.nn.Module(), torch.nn.Module()
            for n in "qkvo":
                setattr(b.self_attn, n + "_proj", linear())
            for n in ("gate", "up", "down"):
                setattr(b.mlp, n + "_proj", linear())
            return b

        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(8, 8)
        self.model.layers = torch.nn.ModuleList([block() for _ in range(layers)])
        self.lm_head = linear()


TARGETS = ["Linear", "Embedding", "linear", "lm_head", "model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj",
           "model.embed_tokens", "q_proj", "re:.*down_proj", "re:.*q_proj", r"re:.*layers\.(0|2)\.mlp", "re:mlp",
           r"re:model\.layers\.1", "re:.*_proj$", "re:.*(q|k|v)_proj$", r"re:.*self_attn\.o_proj$", "re:.*attn.*", "re:lm_head"]
IGNORE = ["lm_head", "re:.*o_proj", "model.layers.2.mlp.up_proj", "Embedding", "re:.*layers.1.mlp", "nothing", "re:up_proj"]


def matching(cases=60):
    """Which group each module gets: a group's number is told by its num_bits."""
    rng = random.Random(7)
    out = []
    for _ in range(cases):
        pool = rng.sample(TARGETS, 6)
        groups = {}
        for g in range(rng.randint(1, 4)):
            targets = sorted(set(rng.choice(pool) for _ in range(rng.randint(1, 3))))
            groups["group_%d" % g] = {"targets": targets, "weights": {"num_bits": g + 2, "strategy": "channel"}}
        ignore = rng.sample(IGNORE, rng.randint(0, 2))
        tree = Tree()
        apply_quantization_config(tree, QuantizationConfig(config_groups=groups, ignore=ignore), show_progress=False)
        bits = {}
        for name, module in tree.named_modules():
            if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                scheme = getattr(module, "quantization_scheme", None)
                bits[name] = scheme.weights.num_bits if scheme else 0
        out.append({"config_groups": groups, "ignore": ignore, "bits": bits})
    return out


def with_targets(scheme):
    return {"targets": ["Linear"], **scheme}


def main():
    save("quant_args.json", {
        "same": [{"args": a, **attempt(QuantizationArgs, a)} for a in ARGS],
        "converted": [{"args": a, **attempt(QuantizationArgs, a)} for a in CONVERTED],
        "removed": [{"args": a, **attempt(QuantizationArgs, a)} for a in REMOVED]})
    save("schemes.json", [{"scheme": with_targets(s), **attempt(QuantizationScheme, with_targets(s))} for s in SCHEMES])
    save("presets.json", presets())
    save("formats.json", formats())
    save("matching.json", matching())
    if len(sys.argv) > 1:
        stored = {}
        for path in sorted(pathlib.Path(sys.argv[1]).glob("*/config.json")):
            config = json.loads(path.read_text())
            if "quantization_config" in config:
                stored[path.parent.name] = config["quantization_config"]
        save("stored_configs.json", stored)


if __name__ == "__main__":
    main()
