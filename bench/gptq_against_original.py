#!/usr/bin/env python3
"""GPTQ W4A16 g64 by roundel and by llm-compressor, one after the other on the same cores: wall time and peak memory.

    bench/gptq_against_original.py --roundel build/release/roundel --python VENV/bin/python MODEL TEXT

The original runs in the given Python, which has llmcompressor. Its time is that of oneshot() alone: imports, loading and
saving are not counted. roundel's is the whole command. Both get the same tokens: sample i is [n i, n i + n) of TEXT.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

ORIGINAL = """
import json, resource, sys, time
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier

folder, text, samples, length, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
torch.set_num_threads(threads)
ids = AutoTokenizer.from_pretrained(folder)(open(text, newline="").read(), add_special_tokens=False)["input_ids"]
rows = [ids[i * length:(i + 1) * length] for i in range(samples)]
data = Dataset.from_dict({"input_ids": rows, "attention_mask": [[1] * length] * samples})
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                            "group_size": 64}}
recipe = GPTQModifier(config_groups={"group_0": group}, ignore=["lm_head"])
start = time.monotonic()
oneshot(model=model, dataset=data, recipe=recipe, max_seq_length=length, num_calibration_samples=samples,
        shuffle_calibration_samples=False)
print("RESULT", json.dumps({"seconds": time.monotonic() - start,
                            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def run_original(args, folder):
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    command = [args.python, "-c", ORIGINAL, args.model, args.text, str(args.samples), str(args.seq_len),
               str(args.threads)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    raise SystemExit(f"the original failed:\n{done.stderr[-2000:]}")


def run_roundel(args, folder):
    out, report = os.path.join(folder, "out"), os.path.join(folder, "report.json")
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic()
    subprocess.run([args.roundel, "-q", "quantize", args.model, "-o", out, "--scheme", "W4A16:g64", "--algorithm",
                    "gptq", "--calib", args.text, "--samples", str(args.samples), "--seq-len", str(args.seq_len),
                    "--threads", str(args.threads), "--json", report], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    with open(report) as f:
        return {"seconds": seconds, "peak_bytes": json.load(f)["peak_rss_bytes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--roundel", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    for name in ("model", "text", "roundel"):
        setattr(args, name, os.path.abspath(getattr(args, name)))
    os.sched_setaffinity(0, range(args.threads))

    seconds = {"llm-compressor": [], "roundel": []}
    for i in range(args.repeat):
        for name, run in (("llm-compressor", run_original), ("roundel", run_roundel)):
            with tempfile.TemporaryDirectory() as folder:
                result = run(args, folder)
            seconds[name].append(result["seconds"])
            print(f"run {i + 1}  {name:<15} {result['seconds']:8.1f} s  {result['peak_bytes'] / 2**30:6.2f} GiB",
                  flush=True)
    ratio = statistics.median(a / b for a, b in zip(seconds["llm-compressor"], seconds["roundel"]))
    print(f"llm-compressor takes {ratio:.1f} times as long (median of {args.repeat})")


if __name__ == "__main__":
    main()
