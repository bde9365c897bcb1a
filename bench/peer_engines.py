#!/usr/bin/env python3
"""Speed of OpenVINO GenAI, vLLM or transformers on a model folder, printed as one JSON object: for bench/against_peers.py.

  peer_engines.py openvino IR_FOLDER --prompt-tokens 512 --decode-tokens 32 --batch 1
  peer_engines.py vllm CHECKPOINT --prompt-tokens 512 --decode-tokens 32 --batch 1
  peer_engines.py transformers CHECKPOINT --prompt-tokens 512 --decode-tokens 0      # BF16, as for perplexity

Runs in the environment of the engine. Prompts are random token ids. Decoding is the time of N + 1 new tokens less that of
one new token, after a warm-up; the prompt is the time of one new token.
"""
import argparse
import json
import random
import time

START = time.monotonic()


def openvino(o, threads=2):
    import numpy as np
    import openvino as ov
    import openvino_genai as genai
    extra = {}
    pipeline = genai.LLMPipeline(o.model, "CPU", INFERENCE_NUM_THREADS=threads, PERFORMANCE_HINT="LATENCY", **extra)

    def generate(ids, new_tokens):
        config = genai.GenerationConfig(max_new_tokens=new_tokens, min_new_tokens=new_tokens, ignore_eos=True, do_sample=False)
        tensor = ov.Tensor(np.array(ids, dtype=np.int64))
        mask = ov.Tensor(np.ones_like(np.array(ids, dtype=np.int64)))
        pipeline.generate(genai.TokenizedInputs(tensor, mask), config)
    return generate


def vllm(o):
    from vllm import LLM, SamplingParams
    engine = LLM(o.model, dtype="bfloat16", max_model_len=o.prompt_tokens + o.decode_tokens + 16, max_num_seqs=32,
                 enable_prefix_caching=False, enforce_eager=True, skip_tokenizer_init=True)

    def generate(ids, new_tokens):
        params = SamplingParams(max_tokens=new_tokens, min_tokens=new_tokens, ignore_eos=True, temperature=0, detokenize=False)
        engine.generate([{"prompt_token_ids": row} for row in ids], params, use_tqdm=False)
    return generate


def transformers(o, threads=2):
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.bfloat16)

    def generate(ids, new_tokens):
        with torch.inference_mode():
            model.generate(torch.tensor(ids), max_new_tokens=new_tokens, min_new_tokens=new_tokens, do_sample=False)
    return generate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["openvino", "vllm", "transformers"])
    parser.add_argument("model")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--decode-tokens", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=32000)
    o = parser.parse_args()
    generate = {"openvino": openvino, "vllm": vllm, "transformers": transformers}[o.engine](o)
    load_seconds = time.monotonic() - START

    def timed(new_tokens, seed):
        rng = random.Random(seed)
        ids = [[rng.randrange(o.vocab) for _ in range(o.prompt_tokens)] for _ in range(o.batch)]
        start = time.monotonic()
        generate(ids, new_tokens)
        return time.monotonic() - start

    timed(2, 0)
    first = timed(1, 1)
    rest = timed(o.decode_tokens + 1, 2) - first if o.decode_tokens else 0
    print("\n" + json.dumps({
        "prefill_tokens_per_second": o.prompt_tokens * o.batch / first,
        "decode_tokens_per_second": o.decode_tokens * o.batch / rest if rest > 0 else 0,
        "load_seconds": load_seconds}), flush=True)


if __name__ == "__main__":
    main()
