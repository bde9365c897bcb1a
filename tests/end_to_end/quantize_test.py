"""quantize: bytes that depend on nothing but the job, kills at any moment, a full disk, and the limits on memory.

ROUNDEL_KILLS sets the number of kills (100).
"""
import os
import random
import resource
import shutil
import signal
import time

import kit
import make_random_model
from kit import check, faultkit, floats, same_folders, test

MIB = 1 << 20
# Enough for kills to land in all parts of a run: about 200 MB.
BIG = ["--layers", "8", "--hidden", "1024", "--inter", "2816", "--vocab", "2048", "--seed", "3"]
SMALL = ["--layers", "3", "--hidden", "256", "--inter", "704", "--heads", "8", "--vocab", "1024"]


def make(folder, *options):
    make_random_model.write_model(folder, make_random_model.parse([str(folder), *options]))
    return folder


def partial(out):
    """The hidden folder that an interrupted run leaves beside its target."""
    return [p for p in out.parent.iterdir() if p.name.startswith("." + out.name)]


@test
def bytes_do_not_depend_on_threads(program, work):
    for shards in (1, 3):
        source = make(work / ("model_%d" % shards), *SMALL, "--shards", str(shards))
        for scheme in ("W8A8", "W4A16_ASYM:g32", "FP8_BLOCK"):
            outs = []
            for threads in (1, 2, 4):
                out = work / ("%d_%s_%d" % (shards, scheme.replace(":", "_"), threads))
                program.run("quantize", source, "-o", out, "--scheme", scheme, "--threads", threads)
                outs.append(out)
            for other in outs[1:]:
                same_folders(outs[0], other, "%s, %d shards" % (scheme, shards))


@test
def shards_hold_the_same_tensors(program, work):
    """One file in, three files in, several files out: the same tensors."""
    one = make(work / "one", *SMALL)
    three = make(work / "three", *SMALL, "--shards", "3")
    check(len(list(three.glob("*.safetensors"))) == 3, "three shards were asked for")
    check(faultkit.read_checkpoint(one) == faultkit.read_checkpoint(three), "the two sources differ")
    results = []
    for source, out, more in ((one, work / "a", []), (three, work / "b", []), (three, work / "c", ["--max-shard-gb", "0.001"])):
        program.run("quantize", source, "-o", out, "--scheme", "W4A16:g32", *more)
        results.append(faultkit.read_checkpoint(out))
    check(results[0] == results[1], "a source of three files gives other tensors")
    check(results[0] == results[2], "an output of several files holds other tensors")
    check(len(list((work / "c").glob("*.safetensors"))) > 1, "--max-shard-gb made one file")


@test
def killed_runs_resume_to_the_same_bytes(program, work):
    kills, rng = int(os.environ.get("ROUNDEL_KILLS", "100")), random.Random(11)
    source = make(work / "model", *BIG, "--shards", "3")
    flags = ["--scheme", "W4A16_ASYM:g32", "--max-shard-gb", "0.03"]
    whole, out = work / "whole", work / "out"
    start = time.monotonic()
    program.run("quantize", source, "-o", whole, *flags)
    seconds = time.monotonic() - start
    done = inside = compared = 0
    for _ in range(kills * 4):
        if done == kills:
            break
        child = program.start("quantize", source, "-o", out, "--resume", *flags)
        time.sleep(rng.uniform(0, seconds * 1.05))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if child.returncode == -signal.SIGKILL:
            done += 1
            inside += bool(partial(out))
        if out.exists():  # complete, whether or not the kill came after
            same_folders(out, whole, "after %d kills" % done)
            compared += 1
            shutil.rmtree(out)
        elif rng.random() < 0.2:  # not only killed again, but let through
            program.run("quantize", source, "-o", out, "--resume", *flags)
            same_folders(out, whole, "resumed after %d kills" % done)
            check(not partial(out), "work folders are left: %s", partial(out))
            compared += 1
            shutil.rmtree(out)
    check(done == kills, "only %d of %d kills came before the end", done, kills)
    check(inside >= kills // 3, "only %d of %d kills landed inside the work", inside, kills)
    program.run("quantize", source, "-o", out, "--resume", *flags)
    same_folders(out, whole, "resumed at the end")
    check(not partial(out), "work folders are left: %s", partial(out))
    if os.environ.get("ROUNDEL_VERBOSE"):
        print("%d kills, %d inside the work, %d complete outputs compared" % (done, inside, compared + 1))


@test
def interrupted_run_keeps_its_work_only_for_resume(program, work):
    source = make(work / "model", *BIG)
    for resume in (False, True):
        out = work / ("out_%d" % resume)
        for wait in (0.3, 0.15, 0.08, 0.04):  # until an interruption comes before the end
            child = program.start("quantize", source, "-o", out, "--scheme", "W4A16", "--threads", 1,
                                  *(["--resume"] if resume else []))
            time.sleep(wait)
            child.send_signal(signal.SIGTERM)
            child.communicate()
            if child.returncode != 0:
                break
            shutil.rmtree(out)
        check(child.returncode in (130, -signal.SIGTERM), "exit %d after SIGTERM", child.returncode)
        check(not out.exists(), "an interrupted run left an output")
        if child.returncode == 130 and not resume:
            check(not partial(out), "work folders are left: %s", partial(out))


@test
def full_disk_leaves_nothing(program, work):
    """A write that fails half-way: the limit on file size acts where a full disk would."""
    source = make(work / "model", *SMALL)
    out = work / "out"
    _, err = program.run("quantize", source, "-o", out, "--scheme", "W8A8", expect=1,
                         limits=[(resource.RLIMIT_FSIZE, 1 * MIB)])
    check("error:" in err, "no message: %s", err)
    check("out" in err and ("File too large" in err or "space" in err), "the message does not say what happened: %s", err)
    check(not out.exists(), "something is at the output path")
    check(not partial(out), "work folders are left: %s", partial(out))
    program.run("quantize", source, "-o", out, "--scheme", "W8A8")  # and works once there is room


@test
def quantize_memory_does_not_grow_with_the_model(program, work):
    peaks = []
    for layers in ("8", "32"):
        source = make(work / layers, "--layers", layers, "--hidden", "1024", "--inter", "2816", "--vocab", "2048")
        peaks.append(min(program.peak("quantize", source, "-o", work / ("out_" + layers), "--scheme", "W4A16", "--force")
                         for _ in range(2)))
        shutil.rmtree(source)
        shutil.rmtree(work / ("out_" + layers))
    if os.environ.get("ROUNDEL_VERBOSE"):
        print("peak memory: 8 layers %.1f MiB, 32 layers %.1f MiB" % tuple(p / MIB for p in peaks))
    for peak in peaks:
        check(peak <= 256 * MIB, "peak memory %.1f MiB", peak / MIB)
    check(peaks[1] <= 1.05 * peaks[0], "peak memory %.1f and %.1f MiB", *(p / MIB for p in peaks))


@test
def on_load_memory_is_that_of_the_result(program, work):
    source = make(work / "model", *BIG)
    dense = sum(p.stat().st_size for p in source.glob("*.safetensors"))
    for scheme in ("W8A8", "W4A16"):
        out = work / scheme
        program.run("quantize", source, "-o", out, "--scheme", scheme)
        size = sum(p.stat().st_size for p in out.glob("*.safetensors"))
        check(size < dense, "%s is not smaller", scheme)
        peak = program.peak("bench", source, "--quantize", scheme, "--prompt-tokens", "4", "--decode-tokens", "1",
                            "--repeat", "1")
        if os.environ.get("ROUNDEL_VERBOSE"):
            print("%s on load: %.1f MiB, stored %.1f MiB, dense %.1f MiB" % (scheme, peak / MIB, size / MIB, dense / MIB))
        check(peak <= size + 256 * MIB, "%s: peak memory %.1f MiB, the quantized model has %.1f", scheme, peak / MIB,
              size / MIB)


@test
def random_model_runs(program, work):
    """The generator's models are valid in every dtype, and the same options give the same bytes."""
    for dtype in ("BF16", "F16", "F32"):
        source = make(work / dtype, "--layers", "2", "--hidden", "64", "--inter", "128", "--heads", "4", "--kv-heads", "2",
                      "--vocab", "320", "--dtype", dtype)
        same_folders(source, make(work / (dtype + "_again"), "--layers", "2", "--hidden", "64", "--inter", "128", "--heads",
                                  "4", "--kv-heads", "2", "--vocab", "320", "--dtype", dtype), dtype)
        raw, shape = program.logits(source, [[1, 2, 3, 4]], work)
        check(shape == [1, 4, 320] and max(map(abs, floats(raw))) > 0, "%s: no logits", dtype)


if __name__ == "__main__":
    kit.main()
