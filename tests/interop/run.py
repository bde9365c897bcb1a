#!/usr/bin/env python3
"""run.py --roundel BIN [--only WORD]: roundel against transformers and compressed-tensors, on seeded tiny models.

1. Each architecture: logits of a dense BF16 model, in FP32, against transformers.
2. Each scheme: what `roundel quantize` wrote is loaded by transformers with compressed-tensors, and its logits are compared
   with those of `roundel logits` on the same folder.
3. The same for calibrated schemes and recipes, on the tiny Llama of tests/data/golden, and some of them on each architecture.
Prints a line for each comparison; the last line is 'N passed, N failed'. Needs the packages of requirements.txt.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch                                            # noqa: E402
import transformers as t                                # noqa: E402
t.utils.logging.disable_progress_bar()
from safetensors.torch import load_file                 # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
GOLDEN, TEXT = DATA / "golden" / "dense" / "tiny_llama", DATA / "wikitext-2" / "wiki.test.raw"
COMMON = dict(vocab_size=512, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=0, pad_token_id=0,
              rms_norm_eps=1e-5, tie_word_embeddings=False)
LLAMA3 = dict(rope_theta=500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONG = dict(rope_theta=10000.0, rope_type="longrope", short_factor=[1.0 + 0.02 * i for i in range(16)],
            long_factor=[1.5 + 0.5 * i for i in range(16)], original_max_position_embeddings=24)
MODELS = {
    "llama": lambda: t.LlamaConfig(**COMMON),
    "llama_tied": lambda: t.LlamaConfig(**{**COMMON, "tie_word_embeddings": True}),
    "llama_head_dim": lambda: t.LlamaConfig(**COMMON, head_dim=48),
    "llama_bias": lambda: t.LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True),
    "llama_llama3_rope": lambda: t.LlamaConfig(**COMMON, rope_parameters=dict(LLAMA3)),
    "mistral_window": lambda: t.MistralConfig(**COMMON, sliding_window=8),
    "qwen2": lambda: t.Qwen2Config(**COMMON),
    "qwen3": lambda: t.Qwen3Config(**COMMON, head_dim=32),
    "phi3": lambda: t.Phi3Config(**COMMON),
    "phi3_longrope": lambda: t.Phi3Config(**COMMON, original_max_position_embeddings=24, rope_parameters=dict(LONG)),
}
# flags of `roundel quantize`, and how the activations are: none, fp8, int8
SCHEMES = [("W8A8", "int8"), ("W8A8:tensor", "int8"), ("W8A8:act-asym", "int8"), ("W4A8", "int8"), ("W4AFP8", "fp8"),
           ("FP8_DYNAMIC", "fp8"), ("FP8_BLOCK", "fp8"), ("FP8_DYNAMIC:weights-only", "none"), ("W4A16_ASYM", "none"),
           ("W4A16:channel", "none"), ("W4A16:g32:asym", "none"), ("W8A16:channel", "none"), ("W8A16:channel:asym", "none"),
           ("W8A16:tensor", "none"), ("W4A4", "int8")]
SCHEMES += [("W%dA16" % bits, "none") for bits in range(2, 9)]
MIXES = [("mix by layer", ["--scheme", "W4A16", "--rule", r"re:.*layers\.1\..*=W8A16:channel"], "none"),
         ("mix of formats", ["--scheme", "W4A16", "--rule", "re:.*self_attn.*=W8A8"], "int8"),
         ("one module dense", ["--scheme", "W4A16", "--rule", "model.layers.0.mlp.down_proj=none"], "none")]
STATIC = "{num_bits: 8, type: %s, symmetric: %s, strategy: tensor, dynamic: false}"
INT8, INT8_ASYM, FP8 = STATIC % ("int", "true"), STATIC % ("int", "false"), STATIC % ("float", "true")
ROWS = "{num_bits: 8, type: int, symmetric: true, strategy: channel}"
GROUPS = "{num_bits: 4, type: int, symmetric: %s, strategy: group, group_size: 32}"


def modifier(name, groups=(), **options):
    """groups: (targets, weights, input, output) each."""
    text = "    %s:\n      ignore: [lm_head]\n" % name
    for key, value in options.items():
        text += "      %s: %s\n" % (key, value)
    for i, (targets, *args) in enumerate(groups):
        text += "      config_groups:\n" if i == 0 else ""
        text += "        group_%d:\n          targets: [%s]\n" % (i, targets)
        for key, value in zip(("weights", "input_activations", "output_activations"), args):
            text += "          %s: %s\n" % (key, value)
    return text


QUANTIZE, GPTQ, MSE = "QuantizationModifier", "GPTQModifier", "{weights: mse, input: mse}"
SMOOTH, AWQ = "    SmoothQuantModifier: {smoothing_strength: 0.8}\n", "    AWQModifier: {n_grid: 8, duo_scaling: both}\n"
MLP, ATTENTION = "'re:.*mlp.*'", "'re:.*self_attn.*'"
# flags, or a recipe; and how the activations are
CALIBRATED = [
    ("static FP8", ["--scheme", "FP8"], "fp8"),
    ("static int8", ["--scheme", "W8A8:tensor:act-static"], "int8"),
    ("static int8, asymmetric", ["--scheme", "W8A8:act-static:act-asym"], "int8"),
    ("static int8, mse", modifier(QUANTIZE, [("Linear", ROWS, INT8)], observer=MSE), "int8"),
    ("static FP8, mse", modifier(QUANTIZE, [("Linear", FP8, FP8)], observer=MSE), "fp8"),
    ("static outputs", modifier(QUANTIZE, [("Linear", ROWS, INT8, INT8)]), "int8"),
    ("static outputs, asymmetric", modifier(QUANTIZE, [("Linear", ROWS, INT8, INT8_ASYM)]), "int8"),
    ("static outputs, FP8", modifier(QUANTIZE, [("Linear", FP8, FP8, FP8)]), "fp8"),
    ("W4A16 with static outputs", modifier(QUANTIZE, [("Linear", GROUPS % "true", "null", INT8)]), "fp8"),
    ("FP8 key/value cache", ["--scheme", "W8A8", "--kv-cache", "fp8"], "int8"),
    ("FP8 key/value cache alone", "    QuantizationModifier: {kv_cache_scheme: %s}\n" % FP8, "fp8"),
    ("GPTQ, static order", modifier(GPTQ, [("Linear", GROUPS % "true")]), "none"),
    ("GPTQ, no order", modifier(GPTQ, [("Linear", GROUPS % "false")], actorder="null"), "none"),
    ("GPTQ W8A8", ["--scheme", "W8A8", "--algorithm", "gptq"], "int8"),
    ("GPTQ W4A8, packed", ["--scheme", "W4A8", "--algorithm", "gptq"], "int8"),
    ("GPTQ W4AFP8", ["--scheme", "W4AFP8", "--algorithm", "gptq"], "fp8"),
    ("GPTQ FP8_BLOCK", ["--scheme", "FP8_BLOCK", "--algorithm", "gptq"], "fp8"),
    ("GPTQ FP8 weights per channel", ["--scheme", "FP8_DYNAMIC:weights-only", "--algorithm", "gptq"], "none"),
    ("SmoothQuant W8A8", SMOOTH + modifier(QUANTIZE, scheme="W8A8"), "int8"),
    ("SmoothQuant, GPTQ, static int8", SMOOTH + modifier(GPTQ, [("Linear", ROWS, INT8)]), "int8"),
    ("AWQ", AWQ + modifier(QUANTIZE, [("Linear", GROUPS % "false")]), "none"),
    ("AWQ and GPTQ", AWQ + modifier(GPTQ, [("Linear", GROUPS % "true")]), "none"),
    ("best", ["--scheme", "W4A16:g32", "--algorithm", "best"], "none"),
    ("rotated, smoothed, GPTQ, static int8",
     ["--scheme", "W8A8:tensor:act-static", "--rotate", "R1,R2", "--smooth", "auto", "--algorithm", "gptq"], "int8"),
    ("mixed groups", modifier(GPTQ, [(MLP, GROUPS % "true"), (ATTENTION, ROWS, INT8_ASYM)]), "int8"),
    ("mixed modifiers", modifier(GPTQ, [(MLP, GROUPS % "false")]) + modifier(QUANTIZE, [(ATTENTION, FP8, FP8)]), "fp8"),
]
EVERYWHERE = [  # on each architecture
    ("rotated W8A8", ["--scheme", "W8A8:act-static", "--rotate", "R1,R2"], "int8"),
    ("static FP8 and cache", ["--scheme", "FP8", "--kv-cache", "fp8", "--no-default-ignore"], "fp8"),
    ("SmoothQuant, GPTQ, static int8",
     ["--scheme", "W8A8:act-static:act-asym", "--smooth", "0.6", "--algorithm", "gptq"], "int8"),
    ("AWQ", ["--scheme", "W4A16:g32:asym", "--algorithm", "awq"], "none"),
    ("best", ["--scheme", "W4A16:g32", "--algorithm", "best"], "none"),
]
MAX_DIFFERENCE = 2e-3
# Activations that are rounded again turn a last-bit difference into a whole step. How much that is on a model is measured:
# the same Python model in FP64, and in FP32 with embeddings off by a millionth. Roundel may be a few times as far away.
NOISE_FACTOR, LEAST_KL = 4, 1e-4


class Run:
    def __init__(self, roundel, work, only):
        self.roundel, self.work, self.only, self.passed, self.failed = roundel, work, only, 0, 0
        self.ids = torch.randint(2, 512, (2, 40), generator=torch.Generator().manual_seed(3))
        (work / "ids.json").write_text(json.dumps(self.ids.tolist()))

    def command(self, *argv, kernel=None):
        env = dict(os.environ, **({"ROUNDEL_FORCE_KERNEL": kernel} if kernel else {}))
        done = subprocess.run([self.roundel, *map(str, argv), "--quiet"], capture_output=True, text=True, env=env)
        if done.returncode:
            raise RuntimeError("roundel %s: exit %d: %s" % (argv[0], done.returncode, done.stderr.strip()[-500:]))

    def logits(self, folder, kernel):
        out = self.work / "logits.safetensors"
        self.command("logits", folder, "--input-ids", self.work / "ids.json", "-o", out, "--kv-cache-dtype", "float32",
                     kernel=kernel)
        return load_file(out)["logits"]

    def judge(self, name, want, got, kl_limit=None):
        difference, kl = (want - got).abs().max().item(), kl_divergence(want, got)
        ok = difference <= MAX_DIFFERENCE if kl_limit is None else kl <= kl_limit
        self.count(name, ok, "largest difference %.2e, KL %.1e%s"
                   % (difference, kl, "" if kl_limit is None else " (limit %.1e)" % kl_limit))

    def count(self, name, ok, text):
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        print("%-4s %-44s %s" % ("ok" if ok else "FAIL", name, text), flush=True)

    def attempt(self, name, what):
        if self.only and self.only not in name:
            return
        try:
            what()
        except Exception as e:  # the others still run
            self.count(name, False, "%s: %s" % (type(e).__name__, str(e)[:400]))


def make(config, folder, seed):
    torch.manual_seed(seed)
    model = t.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "norm" in name:
                p.copy_(1 + 0.2 * torch.randn(p.shape))
            elif p.dim() == 1:
                p.copy_(0.2 * torch.randn(p.shape))
            else:
                p.copy_(torch.randn(p.shape) * (0.5 if "embed" in name else 1.5 / p.shape[-1] ** 0.5))
    model.to(torch.bfloat16).save_pretrained(folder)


@torch.no_grad()
def dense_logits(folder, ids):
    return t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()(
        input_ids=ids, use_cache=False).logits.float()


def decompressed(folder, ids, dtype):
    model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    model(input_ids=ids[:1, :2], use_cache=False)  # the first forward decompresses
    return torch.nn.Module.float(model)


def has_integer_product(module):
    scheme = getattr(module, "quantization_scheme", None)
    weights, inputs = getattr(scheme, "weights", None), getattr(scheme, "input_activations", None)
    return weights and inputs and weights.type == inputs.type == "int" and inputs.num_bits == 8


@torch.no_grad()
def quantized_logits(folder, ids):
    """Weights decompressed in BF16 as the library does it, then FP32 arithmetic with its own activation quantization; and
    the largest KL divergence of the same computation with other rounding errors. Where codes meet codes, roundel does not
    round code * scale to BF16: there the library decompresses in FP32."""
    model = decompressed(folder, ids, torch.bfloat16)
    if any(has_integer_product(m) for m in model.modules()):
        exact = dict(decompressed(folder, ids, torch.float32).named_modules())
        for name, module in model.named_modules():
            if has_integer_product(module):
                module.weight.copy_(exact[name].weight)
    want, noise = model(input_ids=ids, use_cache=False).logits.float(), []
    embedding = model.get_input_embeddings()
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        hook = embedding.register_forward_hook(lambda _m, _i, y: y * (1 + 1e-6 * torch.randn(y.shape, generator=g)))
        noise.append(kl_divergence(want, model(input_ids=ids, use_cache=False).logits.float()))
        hook.remove()
    torch.nn.Module.double(model)
    noise.append(kl_divergence(want, model(input_ids=ids, use_cache=False).logits.float()))
    return want, max(noise)


def kl_divergence(want, got):
    p, q = want.log_softmax(-1), got.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--roundel", required=True)
    ap.add_argument("--only", help="run the comparisons whose name holds this word")
    opt = ap.parse_args()
    with tempfile.TemporaryDirectory(prefix="interop-") as tmp:
        run = Run(os.path.abspath(opt.roundel), pathlib.Path(tmp), opt.only)

        def architecture(folder, name):
            want = dense_logits(folder, run.ids)
            for kernel in ("reference", None):
                run.judge("%s, %s kernels" % (name, kernel or "fast"), want, run.logits(folder, kernel))

        for seed, (name, config) in enumerate(MODELS.items()):
            make(config(), run.work / name, seed)
            run.attempt(name, lambda: architecture(run.work / name, name))

        base = run.work / "base"
        make(t.LlamaConfig(**{**COMMON, "hidden_size": 256, "intermediate_size": 512}), base, 99)

        def scheme(name, flags, activations, source=base):
            folder = run.work / "quantized"
            run.command("quantize", source, "-o", folder, "--force", *flags)
            want, noise = quantized_logits(folder, run.ids)
            limit = None if activations == "none" else max(LEAST_KL, NOISE_FACTOR * noise)
            run.judge(name, want, run.logits(folder, "reference"), limit)

        for text, activations in SCHEMES:
            run.attempt(text, lambda: scheme(text, ["--scheme", text], activations))
        for name, flags, activations in MIXES:
            run.attempt(name, lambda: scheme(name, flags, activations))

        def calibrated(name, what, activations, source=GOLDEN):
            flags = what
            if isinstance(what, str):
                (run.work / "recipe.yaml").write_text("a_stage:\n  a_modifiers:\n" + what)
                flags = ["--recipe", run.work / "recipe.yaml"]
            scheme(name, [*flags, "--calib", TEXT, "--samples", 16, "--seq-len", 64], activations, source)

        for name, what, activations in CALIBRATED:
            run.attempt(name, lambda: calibrated(name, what, activations))
        for model in MODELS:
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(GOLDEN / file, run.work / model)
            for name, what, activations in EVERYWHERE:
                name = "%s, %s" % (model, name)
                run.attempt(name, lambda: calibrated(name, what, activations, run.work / model))
        print("%d passed, %d failed" % (run.passed, run.failed))
        sys.exit(1 if run.failed or not run.passed else 0)


if __name__ == "__main__":
    main()
