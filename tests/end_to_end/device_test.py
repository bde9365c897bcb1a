"""What --device cuda says when there is no GPU, no room, or somebody else's program in the way."""
import array
import ctypes
import json
import math
import os

import kit
from kit import DENSE, check, device_test, test

IDS = [[1, 2, 3, 4]]


def error_of(program, *argv, env=None):
    """The one line of a clean failure."""
    _, err = program.run(*argv, env=env, expect=1)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    check(len(lines) == 1, "%d error lines in: %s", len(lines), err)
    return lines[0]


def says(text, *parts):
    for part in parts:
        check(part in text, "%r is not in: %s", part, text)


@test
def no_gpu_is_a_clean_failure(program, work):
    (work / "ids.json").write_text(json.dumps(IDS))
    out = work / "logits.safetensors"
    for argv in (["plan", DENSE], ["bench", DENSE], ["tune", DENSE, "--cache", work / "cache"],
                 ["logits", DENSE, "--input-ids", work / "ids.json", "-o", out]):
        text = error_of(program, *argv, "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": "-1"})
        says(text, "--device cpu")
    check(not out.exists() and len(list(work.iterdir())) == 1, "files were left: %s", list(work.iterdir()))


@device_test
def no_visible_gpu(program, work):
    says(error_of(program, "bench", DENSE, "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": "-1"}),
         "no NVIDIA GPU is visible", "--device cpu")
    says(error_of(program, "bench", DENSE, "--device", "cuda:7"), "cuda:7", "numbered from 0")


@device_test
def no_room_for_the_model(program, work):
    (work / "ids.json").write_text(json.dumps(IDS))
    out = work / "logits.safetensors"
    text = error_of(program, "logits", DENSE, "--input-ids", work / "ids.json", "-o", out, "--device", "cuda",
                    env={"ROUNDEL_GPU_MEMORY_MIB": "60"})
    says(text, "cuda:0 has no room for the model", "its weights need", "60 of ", "MiB are free", "--device cpu")
    check(len(list(work.iterdir())) == 1, "files were left: %s", list(work.iterdir()))


@device_test
def no_room_for_a_request(program, work):
    limit = {"ROUNDEL_GPU_MEMORY_MIB": "400"}
    argv = ["bench", DENSE, "--device", "cuda", "--prompt-tokens", "500", "--decode-tokens", "4", "--repeat", "1"]
    text = error_of(program, *argv, "--batch", "4096", env=limit)  # a cache of 1 GiB
    says(text, "has no room for", "MiB of key/value cache", "are free", "holds")
    out, _ = program.run(*argv, "--batch", "8", env=limit)  # there is no room to measure a large product
    says(out, "tokens/s", "no room left to measure")
    out, _ = program.run(*argv, "--batch", "8", "--json", "-", env=limit)
    report = json.loads(out)
    check(report["product_operations_per_second"] is None and report["prefill_share_of_peak"] is None, "%s", report)


@test
def tune_is_for_gpus(program, work):
    _, err = program.run("tune", DENSE, "--device", "cpu", "--cache", work / "cache", expect=2)
    says(err, "--device cpu", "cuda")
    program.run("tune", DENSE, "--tokens", "1,8193", expect=2)
    check(not list(work.iterdir()), "files were left: %s", list(work.iterdir()))


def relative(a, b):
    """||a - b|| / ||b|| of two F32 tensors as bytes."""
    x, y = array.array("f", a), array.array("f", b)
    return math.sqrt(sum((p - q) ** 2 for p, q in zip(x, y)) / sum(q * q for q in y))


TUNED = ["--quantize", "W4A16:g64", "--device", "cuda"]


def tile_sources(program, env):
    out, _ = program.run("plan", DENSE, *TUNED, "--explain", "--json", "-", env=env)
    return [row["from"] for row in json.loads(out)["tiles"]]


@device_test
def tuning_is_kept_and_used(program, work):
    cache = work / "cache"
    env = {"ROUNDEL_CACHE": str(cache)}
    before, _ = program.logits(DENSE, IDS, work, *TUNED, env=env)
    check("tuned" not in tile_sources(program, env), "tuned before it was")
    out, _ = program.run("tune", DENSE, *TUNED, "--json", "-", env=env)
    report = json.loads(out)
    files = list(cache.iterdir()) if cache.exists() else []
    if not report["rows"]:  # a GPU whose kernels have no choice
        check(not files and report["file"] is None, "a file without rows: %s", files)
        return
    check([str(f) for f in files] == [report["file"]], "%s, told %s", files, report["file"])
    kept = json.loads(files[0].read_text())
    check(kept["gpu"] == report["gpu"] and len(kept["rows"]) == len(report["rows"]), "%s", kept)
    for row in report["rows"]:
        check(row["wrong"] == 0 and row["choices"] > 1, "%s", row)
        check(0 < row["best_us"] <= row["default_us"], "%s", row)
    check(set(tile_sources(program, env)) == {"tuned"}, "%s", tile_sources(program, env))
    first, _ = program.logits(DENSE, IDS, work, *TUNED, env=env)
    again, _ = program.logits(DENSE, IDS, work, *TUNED, env=env)
    check(first == again, "the same tiles gave other bits")
    check(relative(first, before) < 0.02, "tuned logits differ by %g", relative(first, before))
    table, _ = program.run("tune", DENSE, *TUNED, "--tokens", "1", env=env)
    says(table, "default us", "best us", "gain", str(cache))
    check(len(json.loads(files[0].read_text())["rows"]) == len(kept["rows"]), "rows were lost or doubled")


@device_test
def a_damaged_table_of_tiles_is_left_out(program, work):
    cache = work / "cache"
    env = {"ROUNDEL_CACHE": str(cache)}
    program.run("tune", DENSE, *TUNED, "--tokens", "1", env=env)
    file = next(cache.iterdir(), None) if cache.exists() else None
    if not file:
        return
    file.write_text(file.read_text()[:100])
    _, err = program.run("bench", DENSE, *TUNED, "--prompt-tokens", "8", "--decode-tokens", "2", "--repeat", "1", env=env)
    lines = [line for line in err.splitlines() if "tiles" in line]
    check(len(lines) == 1 and file.name in lines[0], "warnings: %s", err)
    program.run("tune", DENSE, *TUNED, "--tokens", "1", env=env)
    check(json.loads(file.read_text())["rows"], "no rows")


class Ballast:
    """Takes all but `left` bytes of the GPU's memory, in another process than the program's."""

    def __init__(self, left):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.held = []
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        while self.free() > left + (2 << 20):
            self.take(min(self.free() - left, 16 << 30))

    def call(self, name, *args):
        status = getattr(self.cuda, name)(*args)
        check(status == 0, "%s: CUDA error %d", name, status)

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def take(self, size):
        memory = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        self.held.append(memory)

    def give_back(self):
        for memory in self.held:
            self.call("cuMemFree_v2", memory)


@device_test
def a_busy_gpu(program, work):
    ballast = Ballast(600 << 20)
    try:
        text = error_of(program, "bench", DENSE, "--device", "cuda", "--prompt-tokens", "8", "--decode-tokens", "4")
        says(text, "error: ", "nvidia-smi" if "room for the model" in text or "used up" in text else "are free")
    finally:
        ballast.give_back()
    program.run("bench", DENSE, "--device", "cuda", "--prompt-tokens", "8", "--decode-tokens", "4", "--repeat", "1")


@device_test
def sampled_text_is_the_same_each_time(program, work):
    if not (DENSE / "tokenizer.json").exists():
        return
    argv = ["generate", DENSE, "--prompt", "a", "--max-tokens", "20", "--device", "cuda", "--temperature", "1"]
    first, _ = program.run(*argv, "--seed", "3")
    again, _ = program.run(*argv, "--seed", "3")
    other, _ = program.run(*argv, "--seed", "4")
    check(first == again, "the same seed gave other text")
    check(first != other, "another seed gave the same text")


if __name__ == "__main__":
    os.environ.pop("ROUNDEL_GPU_MEMORY_MIB", None)
    kit.main()
