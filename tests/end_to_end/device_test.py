"""What --device cuda says when there is no GPU, no room, or somebody else's program in the way."""
import ctypes
import json
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
    for argv in (["plan", DENSE], ["bench", DENSE], ["logits", DENSE, "--input-ids", work / "ids.json", "-o", out]):
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
    program.run(*argv, "--batch", "8", env=limit)


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
