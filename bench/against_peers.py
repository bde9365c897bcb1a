#!/usr/bin/env python3
"""Runs roundel and other engines by turns on the same cores and prints medians and ratios as a Markdown table.

  bench/against_peers.py --rows 'prompt 512, decode' \\
    --run 'roundel W8A8; json:prefill_tokens_per_second, json:decode_tokens_per_second;
           build/release/roundel bench MODEL --quantize W8A8 --repeat 1 --json -' \\
    --run 'llama.cpp Q8_0; llama-bench:pp512, llama-bench:tg64; llama-bench -m M.gguf -t 2 -p 512 -n 64 -r 1 -o json'

The other engines are installed by hand; this script knows only their output. A run is `NAME; READERS; COMMAND`: the
command goes to a shell, one reader for each row says where its value stands:
  json:FIELD             of the last JSON object on standard output; FIELD may be a.b
  llama-bench:TEST       tokens/s of pp512, tg128 ... in the output of llama-bench -o json
  llama-batched-bench:N  tokens/s of decoding with N sequences, of llama-batched-bench --output-format jsonl
  re:REGEX               the first group of the last match in standard output and error (no `;` or `,` in it)
  seconds, peak          of the whole command: wall time; largest resident memory in MiB
The first run is the one that the others are compared with: above 1 it is better, which for seconds and peak, and with
--less, means smaller. Every command is pinned to --cpus. A run during which other processes used more than --foreign of
those cores is thrown away and repeated. Standard library only; Linux.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time


def parse_run(text):
    parts = [p.strip() for p in text.split(";", 2)]
    if len(parts) != 3:
        sys.exit("--run %r: expected `NAME; READERS; COMMAND`" % text)
    return parts[0], [r.strip() for r in parts[1].split(",")], " ".join(parts[2].split())


def busy_seconds(cpus):
    """CPU time that anyone used on these cores, stolen time included."""
    total = 0
    with open("/proc/stat") as stat:
        for line in stat:
            name, *fields = line.split()
            if name in {"cpu%d" % c for c in cpus}:
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
                total += user + nice + system + irq + softirq + steal
    return total / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(cpus, share, seconds):
    """Until half a second passes in which the cores are idle enough."""
    deadline = time.time() + seconds
    while time.time() < deadline:
        before = busy_seconds(cpus)
        time.sleep(0.5)
        if busy_seconds(cpus) - before <= share * 0.5 * len(cpus) + 0.011:
            return
    if seconds > 0:
        print("the cores never became idle; going on", file=sys.stderr)


def execute(command, cpus, timeout):
    """(output, wall seconds, peak MiB, CPU seconds of others on the cores as a share)."""
    before, start = busy_seconds(cpus), time.monotonic()
    process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    usage_before = os.times()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit("%s\ntook more than %d s" % (command, timeout))
    wall = time.monotonic() - start
    usage = os.times()
    own = usage.children_user + usage.children_system - usage_before.children_user - usage_before.children_system
    foreign = max(0.0, busy_seconds(cpus) - before - own) / (wall * len(cpus))
    if process.returncode != 0:
        sys.exit("%s\nended with %d:\n%s" % (command, process.returncode, (out + err)[-3000:]))
    return out, err, wall, foreign


def with_peak(command):
    """The command under a small parent that reports the largest resident memory of its children."""
    code = ("import resource,subprocess,sys;r=subprocess.call(['sh','-c',sys.argv[1]]);"
            "print('peak_kib',resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,file=sys.stderr);sys.exit(r)")
    return "exec %s -c %s %s" % (quote(sys.executable), quote(code), quote(command))


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def last_json(out):
    for start in (i for i, c in enumerate(out) if c == "{" and (i == 0 or out[i - 1] == "\n")):
        try:
            value, _ = json.JSONDecoder().raw_decode(out[start:])
        except ValueError:
            continue
        return value
    sys.exit("no JSON object in:\n" + out[-2000:])


def llama_bench(out, test):
    for row in json.loads(out[out.index("["):]):
        name = "pp%d" % row["n_prompt"] if row["n_prompt"] else "tg%d" % row["n_gen"]
        if name == test:
            return row["avg_ts"]
    sys.exit("llama-bench printed no " + test)


def batched_bench(out, sequences):
    for line in out.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row.get("pl") == sequences:
                return row["speed_tg"]
    sys.exit("llama-batched-bench printed no line for %d sequences" % sequences)


def read(reader, out, err, wall):
    kind, _, rest = reader.partition(":")
    if kind == "seconds":
        return wall
    if kind == "peak":
        return int(re.findall(r"peak_kib (\d+)", err)[-1]) / 1024
    if kind == "json":
        value = last_json(out)
        for name in rest.split("."):
            value = value[name]
        return float(value)
    if kind == "llama-bench":
        return llama_bench(out, rest)
    if kind == "llama-batched-bench":
        return batched_bench(out, int(rest))
    if kind == "re":
        found = re.findall(rest, out + err)
        if not found:
            sys.exit("%r matches nothing in:\n%s" % (rest, (out + err)[-2000:]))
        return float(found[-1])
    sys.exit("unknown reader %r" % reader)


def number(x):
    return "%.0f" % x if x >= 1000 else "%.1f" % x if x >= 10 else "%.2f" % x if x >= 1 else "%.3f" % x


def table(rows, runs, samples, less):
    names = [name for name, _, _ in runs]
    lines = ["| work | %s | best of the others | ratio |" % " | ".join(names), "|---" * (len(names) + 3) + "|"]
    for i, row in enumerate(rows):
        values = [statistics.median(s[i] for s in samples[n]) for n in range(len(runs))]
        cells = ["%s (%s to %s)" % (number(v), number(min(s[i] for s in samples[n])), number(max(s[i] for s in samples[n])))
                 for n, v in enumerate(values)]
        smaller = less or runs[0][1][i] in ("seconds", "peak")
        tail = ["", ""]
        if len(values) > 1:
            best = (min if smaller else max)(range(1, len(values)), key=lambda n: values[n])
            ratio = values[best] / values[0] if smaller else values[0] / values[best]
            tail = [names[best], "%.2f" % ratio]
        lines.append("| %s |" % " | ".join([row] + cells + tail))
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", required=True, metavar="'NAME; READERS; COMMAND'")
    parser.add_argument("--rows", required=True, help="what the readers read, separated by commas")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--less", action="store_true", help="smaller is better in every row")
    parser.add_argument("--foreign", type=float, default=0.03, help="share of the cores that others may use in a run")
    parser.add_argument("--retries", type=int, default=6, help="runs thrown away at most, for each that counts")
    parser.add_argument("--wait", type=int, default=120, help="seconds to wait for idle cores before a run")
    parser.add_argument("--timeout", type=int, default=600)
    options = parser.parse_args()
    options.cpus = {int(c) for c in options.cpus.split(",")}
    options.rows = [r.strip() for r in options.rows.split(",")]
    options.run = [parse_run(r) for r in options.run]
    for name, readers, _ in options.run:
        if len(readers) != len(options.rows):
            parser.error("%s has %d readers for %d rows" % (name, len(readers), len(options.rows)))
    return options


def measure(run, o):
    """One row of values of one run, and how many were thrown away before it."""
    _, readers, command = run
    if "peak" in readers:
        command = with_peak(command)
    for thrown in range(o.retries + 1):
        wait_until_quiet(o.cpus, o.foreign, o.wait)
        out, err, wall, foreign = execute(command, o.cpus, o.timeout)
        if foreign <= o.foreign:
            break
        print("thrown away: others used %.0f %% of the cores" % (100 * foreign), file=sys.stderr)
    else:
        thrown = -1  # kept, but disturbed
    return [read(r, out, err, wall) for r in readers], thrown


def main():
    o = parse()
    samples, thrown, disturbed = [[] for _ in o.run], 0, 0
    for turn in range(o.repeat):
        for n, run in enumerate(o.run):
            values, lost = measure(run, o)
            samples[n].append(values)
            thrown += lost if lost >= 0 else o.retries
            disturbed += lost < 0
            print("%d/%d %s: %s" % (turn + 1, o.repeat, run[0], " ".join(map(number, values))), file=sys.stderr)
    print(table(o.rows, o.run, samples, o.less))
    print("\nMedians of %d (least to most), by turns, on cores %s; %d runs thrown away, %d disturbed ones kept." %
          (o.repeat, ",".join(map(str, sorted(o.cpus))), thrown, disturbed))


if __name__ == "__main__":
    main()
