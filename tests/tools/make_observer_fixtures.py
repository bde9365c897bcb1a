#!/usr/bin/env python3
"""make_observer_fixtures.py TEXT > tests/data/calibration/observers.json: static activation scales of the original.

llm-compressor quantizes tests/data/golden/dense/tiny_llama in FP32 on the first 16 x 64 tokens of TEXT (WikiText-2's test
split); it measures dense activations, as roundel does with --sequential off. Its scales of outputs are not used: while it
measures, it rounds them with scales that are not set yet. Those come from hooks on the dense model. Needs llmcompressor.
"""
import json
import os
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ["TQDM_DISABLE"] = "1"

import torch                                                        # noqa: E402
from compressed_tensors.quantization import QuantizationArgs        # noqa: E402
from datasets import Dataset                                        # noqa: E402
from llmcompressor import oneshot                                   # noqa: E402
from llmcompressor.modifiers.quantization import QuantizationModifier  # noqa: E402
from tokenizers import Tokenizer                                    # noqa: E402
from transformers import AutoModelForCausalLM                       # noqa: E402

DENSE = Path(__file__).resolve().parents[1] / "data" / "golden" / "dense" / "tiny_llama"
INT8 = dict(num_bits=8, type="int", strategy="tensor", symmetric=True)
FP8 = dict(num_bits=8, type="float", strategy="tensor", symmetric=True)
MSE = dict(maxshrink=0.5, grid=20, norm=2.0, patience=10)
INPUTS = {
    "minmax": INT8,
    "averaging_constant": {**INT8, "observer": "minmax", "observer_kwargs": {"averaging_constant": 0.1}},
    "static_minmax": {**INT8, "observer": "static_minmax"},
    "memoryless_minmax": {**INT8, "observer": "memoryless_minmax"},
    "mse": {**INT8, "observer": "mse"},
    "mse_kwargs": {**INT8, "observer": "mse", "observer_kwargs": MSE},
    "mse_asymmetric": {**INT8, "symmetric": False, "observer": "mse"},
    "asymmetric": {**INT8, "symmetric": False},
    "fp8_memoryless_mse": {**FP8, "observer": "memoryless_mse"},
    "fp8_static_minmax": {**FP8, "observer": "static_minmax"},
}
OUTPUTS = {"out_minmax": INT8, "out_asymmetric": {**INT8, "symmetric": False},
           "out_fp8_static_minmax": {**FP8, "observer": "static_minmax"}}


def dense():
    return AutoModelForCausalLM.from_pretrained(DENSE, dtype=torch.float32, attn_implementation="eager").eval()


def input_scales(args, samples):
    model = dense()
    weights = QuantizationArgs(**(FP8 if args["type"] == "float" else {**INT8, "strategy": "channel"}))
    group = {"targets": ["Linear"], "weights": weights, "input_activations": QuantizationArgs(**args)}
    rows = Dataset.from_dict({"input_ids": samples, "attention_mask": [[1] * len(s) for s in samples]})
    oneshot(model=model, recipe=[QuantizationModifier(config_groups={"group_0": group}, ignore=["lm_head"])], dataset=rows,
            num_calibration_samples=len(samples), max_seq_length=len(samples[0]), shuffle_calibration_samples=False)
    return {n: p.item() for n, p in model.state_dict().items() if n.endswith((".input_scale", ".input_zero_point"))}


@torch.no_grad()
def output_scales(args, samples):
    model, ranges = dense(), {}

    def look(name):
        def hook(_module, _input, y):
            lo, hi = min(0.0, y.min().item()), max(0.0, y.max().item())
            r = ranges.setdefault(name, [lo, hi])
            if args.get("observer") == "static_minmax":
                r[:] = [min(r[0], lo), max(r[1], hi)]
            else:
                r[:] = [r[0] + 0.01 * (lo - r[0]), r[1] + 0.01 * (hi - r[1])]
        return hook

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.register_forward_hook(look(name))
    for sample in samples:
        model(input_ids=torch.tensor([sample]), use_cache=False)
    out = {}
    for name, (lo, hi) in ranges.items():
        half = 448 if args["type"] == "float" else 127.5
        scale = max(-lo, hi) / half if args["symmetric"] else (hi - lo) / 255
        out[name + ".output_scale"] = scale
        if not args["symmetric"]:
            out[name + ".output_zero_point"] = round(-128 - lo / scale)
    return out


def main():
    torch.set_num_threads(1)
    text = Path(sys.argv[1]).read_text(encoding="utf-8")[:40000]
    ids = Tokenizer.from_file(str(DENSE / "tokenizer.json")).encode(text).ids
    samples = [ids[i * 64:(i + 1) * 64] for i in range(16)]
    cases = {}
    for table, measure in ((INPUTS, input_scales), (OUTPUTS, output_scales)):
        for name, args in table.items():
            scales = {k: v if isinstance(v, int) else float("%.7g" % v) for k, v in sorted(measure(args, samples).items())}
            cases[name] = {"args": args, "scales": scales}
    json.dump(cases, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
