#!/usr/bin/env python3
"""make_checkpoint_data.py TESTS_DATA: what the Python originals make of configs and safetensors files.

Writes configs/NAME.json (inputs, shaped like the files of well-known models), configs/expected.json (the same values as
transformers understands them) and safetensors/reference.safetensors with reference.json (written by the safetensors
package: every dtype, rank 0, an empty tensor). Needs torch, transformers 5, safetensors.
"""
import json
import sys
from pathlib import Path

LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", rms_norm_eps=1e-05,
             torch_dtype="bfloat16", tie_word_embeddings=False, attention_bias=False, mlp_bias=False)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
QWEN = dict(hidden_act="silu", rms_norm_eps=1e-06, torch_dtype="bfloat16", bos_token_id=151643, eos_token_id=151645)
SHORT = [1.0 + 0.01 * i for i in range(48)]
LONG = [1.0 + 1.5 * i for i in range(48)]

CONFIGS = {
    "llama2_7b": dict(LLAMA, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
                      num_key_value_heads=32, vocab_size=32000, max_position_embeddings=4096, bos_token_id=1,
                      eos_token_id=2, pad_token_id=-1, torch_dtype="float16", rope_scaling=None),
    "llama31_8b": dict(LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                       num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, bos_token_id=128000,
                       eos_token_id=[128001, 128008, 128009], rope_theta=500000.0,
                       rope_scaling=dict(LLAMA3, rope_type="llama3")),
    "llama32_1b": dict(LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                       num_key_value_heads=8, head_dim=64, vocab_size=128256, max_position_embeddings=131072,
                       bos_token_id=128000, eos_token_id=128001, rope_theta=500000.0, tie_word_embeddings=True,
                       rope_scaling=dict(LLAMA3, factor=32.0, type="llama3")),
    "llama_no_kv_heads": dict(LLAMA, hidden_size=256, intermediate_size=688, num_hidden_layers=2,
                              num_attention_heads=4, vocab_size=1000, max_position_embeddings=512,
                              rope_scaling=dict(type="linear", factor=2)),
    "llama_dynamic": dict(LLAMA, hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=None, head_dim=None, vocab_size=1000, max_position_embeddings=512,
                          rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=20000.0)),
    "mistral_v01": dict(architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu",
                        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                        num_key_value_heads=8, vocab_size=32000, max_position_embeddings=32768, rms_norm_eps=1e-05,
                        rope_theta=10000.0, sliding_window=4096, bos_token_id=1, eos_token_id=2,
                        tie_word_embeddings=False, torch_dtype="bfloat16"),
    "mistral_nemo": dict(architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu",
                         hidden_size=5120, head_dim=128, intermediate_size=14336, num_hidden_layers=40,
                         num_attention_heads=32, num_key_value_heads=8, vocab_size=131072,
                         max_position_embeddings=131072, rms_norm_eps=1e-05, rope_theta=1000000.0,
                         sliding_window=None, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16"),
    "qwen2_05b": dict(QWEN, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=896,
                      intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                      vocab_size=151936, max_position_embeddings=32768, rope_theta=1000000.0, sliding_window=32768,
                      max_window_layers=21, use_sliding_window=False, tie_word_embeddings=True),
    "qwen2_windows": dict(QWEN, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=896,
                          intermediate_size=4864, num_hidden_layers=8, num_attention_heads=14, num_key_value_heads=2,
                          vocab_size=151936, max_position_embeddings=32768, rope_theta=1000000.0, sliding_window=4096,
                          max_window_layers=5, use_sliding_window=True),
    "qwen2_yarn": dict(QWEN, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=896,
                       intermediate_size=4864, num_hidden_layers=2, num_attention_heads=14, num_key_value_heads=2,
                       vocab_size=151936, max_position_embeddings=131072, rope_theta=1000000.0,
                       use_sliding_window=False,
                       rope_scaling=dict(factor=4.0, original_max_position_embeddings=32768, type="yarn")),
    "qwen3_06b": dict(QWEN, architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=1024, head_dim=128,
                      intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                      vocab_size=151936, max_position_embeddings=40960, rope_theta=1000000, sliding_window=None,
                      max_window_layers=28, use_sliding_window=False, attention_bias=False, tie_word_embeddings=True,
                      rope_scaling=None),
    "qwen3_no_head_dim": dict(QWEN, architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=1024,
                              intermediate_size=3072, num_hidden_layers=2, num_attention_heads=16,
                              num_key_value_heads=8, vocab_size=151936, max_position_embeddings=40960,
                              layer_types=["full_attention", "sliding_attention"], sliding_window=128,
                              use_sliding_window=True,
                              rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "phi3_4k": dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", hidden_size=3072,
                    intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32,
                    vocab_size=32064, max_position_embeddings=4096, original_max_position_embeddings=4096,
                    rms_norm_eps=1e-05, rope_theta=10000.0, rope_scaling=None, sliding_window=2047, bos_token_id=1,
                    eos_token_id=32000, pad_token_id=32000, tie_word_embeddings=False, torch_dtype="bfloat16"),
    "phi3_128k": dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", hidden_size=3072,
                      intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32,
                      vocab_size=32064, max_position_embeddings=131072, original_max_position_embeddings=4096,
                      rope_theta=10000.0, rope_scaling=dict(short_factor=SHORT, long_factor=LONG, type="su"),
                      sliding_window=262144, bos_token_id=1, eos_token_id=32000, torch_dtype="bfloat16"),
    "phi3_partial": dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", hidden_size=3072,
                         intermediate_size=8192, num_hidden_layers=32, num_attention_heads=24, num_key_value_heads=8,
                         vocab_size=200064, max_position_embeddings=131072, original_max_position_embeddings=4096,
                         partial_rotary_factor=0.75, rope_theta=10000.0,
                         rope_scaling=dict(short_factor=SHORT, long_factor=LONG, type="longrope"),
                         sliding_window=262144, bos_token_id=199999, eos_token_id=[200020, 199999],
                         tie_word_embeddings=True, torch_dtype="bfloat16"),
    "smollm2_135m": dict(LLAMA, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                         num_key_value_heads=3, vocab_size=49152, max_position_embeddings=8192, rope_theta=100000,
                         rope_scaling=None, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=2,
                         rope_interleaved=False),
}


def understood(config):
    """The fields as transformers fills them in."""
    from transformers import AutoConfig
    c = AutoConfig.for_model(**config)
    rope = dict(c.rope_parameters)
    heads = c.num_attention_heads
    window = getattr(c, "sliding_window", None)
    out = dict(hidden_size=c.hidden_size, intermediate_size=c.intermediate_size, layers=c.num_hidden_layers,
               heads=heads, kv_heads=c.num_key_value_heads,
               head_dim=getattr(c, "head_dim", None) or c.hidden_size // heads, vocab_size=c.vocab_size,
               max_position=c.max_position_embeddings, rms_norm_eps=c.rms_norm_eps,
               tie_word_embeddings=c.tie_word_embeddings, attention_bias=getattr(c, "attention_bias", False),
               bos_token_id=c.bos_token_id, eos_token_id=c.eos_token_id, pad_token_id=c.pad_token_id,
               dtype=str(c.dtype).replace("torch.", ""), rope=rope,
               windows=[(window or 0) if t == "sliding_attention" else 0
                        for t in getattr(c, "layer_types", None) or ["sliding_attention"] * c.num_hidden_layers])
    return out


def reference_file(folder):
    import torch
    from safetensors.torch import save_file
    kinds = {"BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "F8_E4M3": torch.float8_e4m3fn,
             "F8_E5M2": torch.float8_e5m2, "I16": torch.int16, "U16": torch.uint16, "F16": torch.float16,
             "BF16": torch.bfloat16, "I32": torch.int32, "U32": torch.uint32, "F32": torch.float32,
             "I64": torch.int64, "U64": torch.uint64, "F64": torch.float64}
    tensors = {"t.%s" % name: torch.arange(6).reshape(2, 3).to(torch.float32).to(dtype)
               for name, dtype in kinds.items()}
    tensors["scalar"] = torch.tensor(1.5)
    tensors["empty"] = torch.zeros(0, 4, dtype=torch.bfloat16)
    tensors["na\u00efve \"quoted\"\\name"] = torch.tensor([7], dtype=torch.int32)
    save_file(tensors, folder / "reference.safetensors", metadata={"format": "pt", "note": "line\nbreak"})
    names = {v: k for k, v in kinds.items()}
    expected = {n: dict(dtype=names[t.dtype], shape=list(t.shape),
                        data=t.reshape(-1).view(torch.uint8).numpy().tobytes().hex()) for n, t in tensors.items()}
    (folder / "reference.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    root = Path(sys.argv[1])
    for name in ("configs", "safetensors"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, config in CONFIGS.items():
        (root / "configs" / (name + ".json")).write_text(json.dumps(config, indent=1) + "\n")
    # transformers 5.17 renames "su" too late for its own check; it means longrope.
    expected = {name: understood(json.loads(json.dumps(config).replace('"su"', '"longrope"')))
                for name, config in CONFIGS.items()}
    (root / "configs" / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    reference_file(root / "safetensors")


if __name__ == "__main__":
    main()
