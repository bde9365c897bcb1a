#!/usr/bin/env python3
"""demo_table.py FOLDER NAME...: one table from the eval_, bench_ and inspect_ JSON files of the demo."""
import json
import sys
from pathlib import Path

HEAD = ["scheme", "bits/weight", "size MB", "perplexity", "KL mean", "top-1 %", "prompt tok/s", "decode tok/s", "peak MiB"]


def load(folder, kind, name):
    return json.loads((folder / f"{kind}_{name}.json").read_text(encoding="utf-8"))


def row(folder, name):
    e, b, i = (load(folder, kind, name) for kind in ("eval", "bench", "inspect"))
    # of the linear layers: the embedding stays as it is in every scheme
    parts = [s for s in i["schemes"] if not s["scheme"].startswith(("BF16", "F16", "F32"))] or i["schemes"]
    bits = sum(s["weights"] * s["bits_per_weight"] for s in parts) / sum(s["weights"] for s in parts)
    return [name, f"{bits:.3f}", f"{i['total_bytes'] / 1e6:.1f}", f"{e['perplexity']:.3f}", f"{e['kl_mean']:.5f}",
            f"{100 * e['top1_agreement']:.2f}", f"{b['prefill_tokens_per_second']:.0f}",
            f"{b['decode_tokens_per_second']:.1f}", f"{b['peak_rss_bytes'] / 2 ** 20:.0f}"]


def main():
    folder = Path(sys.argv[1])
    rows = [HEAD] + [row(folder, name) for name in sys.argv[2:]]
    widths = [max(len(r[c]) for r in rows) for c in range(len(HEAD))]
    for r in rows:
        print("  ".join(cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(r, widths))))


if __name__ == "__main__":
    main()
