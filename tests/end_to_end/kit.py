"""What the end-to-end tests share: running the program, reading tensors, the list of tests. Standard library only."""
import argparse
import array
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT / "tests" / "data"
GOLDEN = DATA / "golden"
sys.path[:0] = [str(ROOT / "tests" / "faults"), str(ROOT / "tools")]
import faultkit  # noqa: E402

DENSE = GOLDEN / "dense" / "tiny_llama"
TESTS = []
DEVICE_TESTS = []  # run with --device only


class Failure(Exception):
    pass


def test(fn):
    TESTS.append(fn)
    return fn


def device_test(fn):
    DEVICE_TESTS.append(fn)
    return fn


def check(condition, text, *args):
    if not condition:
        raise Failure(text % args if args else text)


class Program:
    def __init__(self, path, device=None):
        self.path = str(Path(path).resolve())
        self.device = device  # "cuda": where device tests run

    def start(self, *argv, env=None, limits=()):
        def prepare():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
        return subprocess.Popen([self.path, *map(str, argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **(env or {})}, preexec_fn=prepare if limits else None)

    def run(self, *argv, env=None, limits=(), expect=0):
        """Runs to the end; returns (stdout, stderr)."""
        child = self.start(*argv, env=env, limits=limits)
        out, err = (x.decode("utf-8", "replace") for x in child.communicate(timeout=900))
        check(child.returncode == expect, "%s: exit %d, expected %d\n%s", " ".join(map(str, argv)), child.returncode,
              expect, err[-2000:])
        return out, err

    def peak(self, *argv):
        """Peak resident memory of one quantize or bench run, in bytes, by its own account (VmHWM)."""
        done = subprocess.run([self.path, *map(str, argv), "--json", "-"], capture_output=True, text=True)
        check(done.returncode == 0, "%s: exit %d\n%s", argv, done.returncode, done.stderr[-2000:])
        return int(json.loads(done.stdout)["peak_rss_bytes"])

    def logits(self, folder, ids, work, *flags, env=None):
        """(F32 bytes of logits, shape)"""
        source, target = work / "ids.json", work / "logits_out.safetensors"
        source.write_text(json.dumps(ids))
        self.run("logits", folder, "--input-ids", source, "-o", target, *flags, env=env)
        dtype, shape, raw = faultkit.st_read(target)["logits"]
        check(dtype == "F32", "logits are %s", dtype)
        return raw, shape


def floats(raw):
    return array.array("f", raw)


def log_softmax(row):
    top = max(row)
    shift = top + math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - shift for x in row]


def compare_logits(want, got, vocab):
    """(largest difference, mean KL(want || got), share of rows with the same top token), in double precision."""
    check(len(want) == len(got), "%d logits, expected %d", len(got), len(want))
    check(all(math.isfinite(x) for x in got), "logits are not finite")
    largest = max(abs(a - b) for a, b in zip(want, got))
    kl = agree = 0
    rows = len(want) // vocab
    for r in range(rows):
        a, b = want[r * vocab:(r + 1) * vocab], got[r * vocab:(r + 1) * vocab]
        p, q = log_softmax(a), log_softmax(b)
        kl += math.fsum(math.exp(x) * (x - y) for x, y in zip(p, q))
        agree += max(range(vocab), key=a.__getitem__) == max(range(vocab), key=b.__getitem__)
    return largest, kl / rows, agree / rows


def folder_bytes(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir())}


def same_folders(a, b, what):
    x, y = folder_bytes(a), folder_bytes(b)
    check(x.keys() == y.keys(), "%s: files %s and %s", what, sorted(x), sorted(y))
    for name in x:
        check(x[name] == y[name], "%s: %s differs", what, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--roundel", required=True)
    parser.add_argument("--only", default="", help="tests whose name holds this")
    parser.add_argument("--device", help="cuda: the tests that need a GPU instead of the others")
    opt = parser.parse_args()
    os.environ.pop("ROUNDEL_CACHE", None)  # what this user packed or tuned takes no part
    os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir()) / "roundel_e2e_no_cache")
    program = Program(opt.roundel, opt.device)
    passed = failed = 0
    for fn in DEVICE_TESTS if opt.device else TESTS:
        if opt.only not in fn.__name__:
            continue
        work = Path(tempfile.mkdtemp(prefix="roundel_e2e_"))
        start = time.monotonic()
        try:
            fn(program, work)
            passed += 1
        except Exception as error:
            failed += 1
            print("FAIL %s: %s" % (fn.__name__, error))
            if not isinstance(error, Failure):
                traceback.print_exc()
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if os.environ.get("ROUNDEL_VERBOSE"):
            print("%-50s %.1f s" % (fn.__name__, time.monotonic() - start))
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed or not passed else 0)
