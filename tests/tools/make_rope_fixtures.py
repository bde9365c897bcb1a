#!/usr/bin/env python3
"""make_rope_fixtures.py OUT: angles of every rope type as transformers 5.17.0 computes them (tests/data/rope/rope.json).

Needs torch and transformers. Each case: the settings, and cosines and sines (tokens, half) at some positions.
"""
import json
import sys

import torch
from transformers import LlamaConfig, Phi3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

HEAD = 16
SHORT = [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0]
LONG = [1.0, 1.3, 2.1, 3.7, 6.0, 9.5, 14.0, 21.0]
CASES = [
    ("default", {}, 2048, 10000.0, [(0, 3), (1000, 2)]),
    ("default", {}, 2048, 500000.0, [(5, 2), (2000, 2)]),
    ("linear", {"factor": 4.0}, 8192, 10000.0, [(0, 3), (4095, 2)]),
    ("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
     131072, 500000.0, [(0, 3), (8190, 4), (100000, 2)]),
    ("llama3", {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
     2048, 10000.0, [(0, 3), (1000, 2)]),
    ("longrope", {"short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 4096}, 131072, 10000.0,
     [(0, 3), (4093, 3), (4093, 4), (5000, 2)]),
    ("yarn", {"factor": 4.0, "original_max_position_embeddings": 32768}, 131072, 1000000.0, [(0, 3), (32766, 4)]),
    ("yarn", {"factor": 16.0, "original_max_position_embeddings": 128, "beta_fast": 24.0, "beta_slow": 2.0}, 2048, 10000.0,
     [(0, 3), (1500, 2)]),
    ("yarn", {"factor": 4.0, "original_max_position_embeddings": 1024, "attention_factor": 0.9}, 4096, 10000.0, [(7, 3)]),
    ("dynamic", {"factor": 2.0}, 64, 10000.0, [(0, 3), (61, 3), (62, 3), (200, 2)]),
]


def main():
    out = []
    for kind, more, positions, theta, places in CASES:
        rope = {"rope_type": kind, "rope_theta": theta, **more}
        phi = kind == "longrope"
        make = Phi3Config if phi else LlamaConfig
        extra = {"original_max_position_embeddings": more["original_max_position_embeddings"], "pad_token_id": 0} if phi else {}
        config = make(hidden_size=64, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=positions,
                      rope_parameters=rope, **({} if phi else {"head_dim": HEAD}), **extra)
        angles = []
        for start, tokens in places:
            # A new object for each: dynamic scaling remembers the longest sequence.
            embedding = (Phi3RotaryEmbedding if phi else LlamaRotaryEmbedding)(config)
            ids = torch.arange(start, start + tokens)[None]
            cos, sin = embedding(torch.zeros(1, tokens, HEAD), ids)
            angles.append({"start": start, "tokens": tokens, "cos": cos[0, :, :HEAD // 2].flatten().tolist(),
                           "sin": sin[0, :, :HEAD // 2].flatten().tolist()})
        out.append({"type": kind, "theta": theta, "rotated": HEAD, "max_position": positions, "settings": more,
                    "angles": angles})
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
