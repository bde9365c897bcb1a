#!/usr/bin/env bash
# The whole way on a real model: import a GGUF, quantize it four ways, measure what each cost, let each speak.
# Called by `./dev demo` after the build. What is there already is used again.   tools/demo.sh [WINDOWS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
windows=${1:-10}
roundel=build/release/roundel
work=build/demo
text=tests/data/wikitext-2/wiki.test.raw
model=$(tools/smollm2.sh "$roundel" "$work")
say() { printf '== %s\n' "$*" >&2; }

# name | flags of `roundel quantize`
schemes=(
  "W8A8|--scheme W8A8"
  "W4A16-g64|--scheme W4A16 --group-size 64"
  "FP8_DYNAMIC|--scheme FP8_DYNAMIC"
  "mix|--scheme W4A16 --group-size 64 --rule re:.*down_proj=W8A16:channel --rule re:.*layers\\.(0|29)\\..*=W8A16:channel"
)
for row in "${schemes[@]}"; do
  name=${row%%|*} flags=${row#*|}
  [[ -d $work/$name ]] && continue
  say "quantizing: $flags"
  # shellcheck disable=SC2086
  "$roundel" quantize "$model" -o "$work/$name" $flags >&2
done

measure() {  # NAME FOLDER
  say "measuring $1 on $windows windows of 512 tokens of WikiText-2"
  local every=$((592 / windows))
  "$roundel" eval "$2" --text "$text" --window 512 --every "$every" --limit-windows "$windows" \
    --baseline "$model" --json "$work/eval_$1.json" >/dev/null
  "$roundel" bench "$2" --prompt-tokens 256 --decode-tokens 48 --repeat 2 --json "$work/bench_$1.json" >/dev/null
  "$roundel" inspect "$2" --json "$work/inspect_$1.json" >/dev/null
}
[[ -f $work/eval_dense.json && -f $work/bench_dense.json ]] || measure dense "$model"
for row in "${schemes[@]}"; do
  name=${row%%|*}
  [[ -f $work/bench_$name.json ]] || measure "$name" "$work/$name"
done

prompt='The three most important things about the Roman Empire are'
for name in dense "${schemes[@]%%|*}"; do
  folder=$work/$name
  [[ $name == dense ]] && folder=$model
  printf '\n[%s] %s' "$name" "$prompt"
  "$roundel" generate "$folder" --prompt "$prompt" --max-tokens 48 --quiet
done
echo
python3 -B tools/demo_table.py "$work" dense "${schemes[@]%%|*}"
echo "perplexity, KL divergence and top-1 agreement: $windows windows of 512 tokens of WikiText-2 (test), against dense"
