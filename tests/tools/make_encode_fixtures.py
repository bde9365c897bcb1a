#!/usr/bin/env python3
"""make_encode_fixtures.py OUT: what compressed-tensors makes of odd rows of BF16, F16 and F32 weights.

Writes tests/data/encode/rtn.safetensors. Needs torch, safetensors and compressed-tensors 0.20.1. The source rows are zeros of
both signs, denormals, huge numbers, +a beside -a, a lone tiny value, ties, one-sided rows and ordinary ones. Each case of the
metadata entry "cases" names a source, the arguments, and has three tensors: <name>.codes, <name>.scale, <name>.zero.
"""
import json
import math
import sys
from pathlib import Path

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

ROWS, COLS = 16, 64
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def odd_rows(dtype, generator):
    x = torch.randn(ROWS, COLS, generator=generator, dtype=torch.float64)
    tiny = {torch.bfloat16: 1e-38, torch.float16: 1e-6, torch.float32: 1e-38}[dtype]
    huge = {torch.bfloat16: 1e38, torch.float16: 3e4, torch.float32: 1e38}[dtype]
    x[0] = 0.0
    x[1] = -0.0
    x[2] = tiny
    x[3] = 0.0
    x[3, 0] = {torch.float16: 6e-8}.get(dtype, 1e-30)
    x[4] *= tiny / 4
    x[5] = x[5] / x[5].abs().max() * huge
    x[6] = 0.0
    x[6, :3] = torch.tensor([127.5, -127.5, 63.75])
    x[7] = (torch.arange(COLS) - COLS // 2) * 0.5
    x[8] = x[8].abs()
    x[9] = -x[9].abs()
    x[10] = 0.125
    x[11] = x[11] * 0.02
    x[11, 5], x[11, 50] = 0.75, -0.75
    x[12] = torch.exp(x[12] * 4).clamp(max=3e4)
    x[13] *= tiny * 1000
    x[14] = -tiny
    return x.to(dtype)


def plain_rows(dtype, generator):
    x = torch.randn(ROWS, COLS, generator=generator, dtype=torch.float64) * 0.05
    x[3, 7] = 0.4
    return x.to(dtype)


def ranges(x, args):
    """Lowest and highest value for each scale, as the observers of llm-compressor reduce them."""
    strategy = getattr(args.strategy, "value", args.strategy)
    if strategy == "tensor":
        return x.min(), x.max()
    if strategy == "channel":
        return x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    if strategy == "group":
        g = x.unflatten(-1, (-1, args.group_size))
        return g.amin(-1), g.amax(-1)
    bh, bw = args.block_structure
    rb, cb = math.ceil(x.shape[0] / bh), math.ceil(x.shape[1] / bw)
    p = torch.nn.functional.pad(x, (0, cb * bw - x.shape[1], 0, rb * bh - x.shape[0]))
    b = p.reshape(rb, bh, cb, bw).transpose(1, 2)
    return b.amin((-1, -2)), b.amax((-1, -2))


def arguments():
    for bits in range(2, 9):
        for symmetric in (True, False):
            yield "odd", dict(num_bits=bits, symmetric=symmetric, strategy="channel")
    for bits, size in ((4, 16), (4, 32), (8, 32), (3, 64)):
        for symmetric in (True, False):
            yield "odd", dict(num_bits=bits, symmetric=symmetric, strategy="group", group_size=size)
    for symmetric in (True, False):
        yield "plain", dict(num_bits=8, symmetric=symmetric, strategy="tensor")
        yield "plain", dict(num_bits=4, symmetric=symmetric, strategy="block", block_structure=[8, 24])
    yield "plain", dict(num_bits=8, strategy="channel", scale_dtype="torch.float16")
    yield "odd", dict(num_bits=8, type="float", strategy="channel")
    yield "odd", dict(num_bits=8, type="float", strategy="group", group_size=32)
    yield "plain", dict(num_bits=8, type="float", strategy="tensor")
    yield "plain", dict(num_bits=8, type="float", strategy="block", block_structure=[8, 24])


def main():
    tensors, cases = {}, []
    for dtype_name, dtype in DTYPES.items():
        generator = torch.Generator().manual_seed(20)
        sources = {"odd": odd_rows(dtype, generator), "plain": plain_rows(dtype, generator)}
        for name, x in sources.items():
            tensors[f"{dtype_name}.{name}"] = x
        for source, fields in arguments():
            args = QuantizationArgs(**fields)
            x = sources[source]
            scale, zero = calculate_qparams(*ranges(x, args), args)
            is_float = fields.get("type") == "float"
            code_dtype = torch.float8_e4m3fn if is_float else torch.int8
            codes = quantize(x, scale, None if args.symmetric else zero, args, dtype=code_dtype)
            assert scale.dtype == dtype and bool((scale > 0).all()) and bool(torch.isfinite(scale).all()), (dtype, fields, scale.flatten())
            name = f"{dtype_name}.{len(cases)}"
            cases.append({"name": name, "source": f"{dtype_name}.{source}", "args": fields})
            tensors[f"{name}.codes"] = codes.contiguous()
            tensors[f"{name}.scale"] = scale.contiguous()
            tensors[f"{name}.zero"] = zero.to(torch.int8).contiguous()
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "rtn.safetensors", metadata={"cases": json.dumps(cases)})
    print(f"{len(cases)} cases, {(out / 'rtn.safetensors').stat().st_size} bytes")


if __name__ == "__main__":
    main()
