"""quantize with calibration data: flags and recipes that mean the same, the recipe that is saved, the reports."""
import html.parser
import json
import re
import shutil
import struct
import xml.etree.ElementTree

import kit
from kit import DATA, DENSE, check, faultkit, same_folders, test

TEXT = DATA / "wikitext-2" / "wiki.test.raw"
CALIB = ["--calib", TEXT, "--samples", "8", "--seq-len", "64"]


def same_tensors(a, b, what):
    check(faultkit.read_checkpoint(a) == faultkit.read_checkpoint(b), "%s: the tensors differ", what)


@test
def the_saved_recipe_gives_the_same_bytes(program, work):
    cases = {
        "static": ["--scheme", "W8A8:tensor:act-static"],
        "kv": ["--scheme", "W8A8", "--kv-cache", "fp8"],
        "gptq": ["--scheme", "W4A16:g32", "--algorithm", "gptq"],
        "smooth": ["--scheme", "W8A8", "--smooth", "0.8"],
        "awq": ["--scheme", "W4A16:g32:asym", "--algorithm", "awq"],
        "best": ["--scheme", "W4A16:g32", "--algorithm", "best", "--rule", "re:.*down_proj=W8A16:g64"],
    }
    for name, flags in cases.items():
        first, second = work / name, work / (name + "_again")
        program.run("quantize", DENSE, "-o", first, *flags, *CALIB)
        shutil.copy(first / "recipe.yaml", work / "recipe.yaml")
        program.run("quantize", DENSE, "-o", second, "--recipe", work / "recipe.yaml", *CALIB)
        same_folders(first, second, name)
        check("wiki.test.raw" in (first / "recipe.yaml").read_text(), "%s: the recipe does not name its data", name)


@test
def smoothing_is_that_of_the_original(program, work):
    """The original has range, scale and quotient in BF16, where roundel has floats: two steps of 2^-7 at most."""
    program.run("quantize", DENSE, "-o", work / "smooth", "--scheme", "W8A8", "--smooth", "0.8", "--calib", TEXT,
                "--samples", "16", "--seq-len", "64")
    name = "model.layers.0.input_layernorm.weight"
    got, want = (bf16_values(folder / "model.safetensors", name)
                 for folder in (work / "smooth", DATA / "golden" / "layers" / "smoothquant_w8a8"))
    check(len(want) == 128 and len(got) == 128, "%d and %d gains", len(got), len(want))
    worst = max(abs(g / w - 1) for g, w in zip(got, want))
    check(worst <= 2 ** -6, "a gain is off by %.4f of itself", worst)
    dense = bf16_values(DENSE / "model.safetensors", name)
    check(max(abs(d / w - 1) for d, w in zip(dense, want)) > 0.1, "smoothing changed no gain")


def bf16_values(file, name):
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    check(entry["dtype"] == "BF16", "%s is %s", name, entry["dtype"])
    begin, end = (8 + size + o for o in entry["data_offsets"])
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(begin, end, 2)]


def bf16_value(tensor):
    dtype, shape, raw = tensor
    check(shape == [1], "a scale has the shape %s", shape)
    return int.from_bytes(raw, "little", signed=True) if dtype == "I8" else struct.unpack("<f", b"\0\0" + raw)[0]


@test
def static_scales_are_those_of_the_original(program, work):
    """In FP32 it measures the same dense activations. Here its ends, their distance (asymmetric) and the scale are
    rounded to BF16: 2^-8 each at most. A zero point follows the rounded range: one away at most."""
    cases = json.loads((DATA / "calibration" / "observers.json").read_text())
    check(len(cases) == 13, "%d cases", len(cases))
    for name, case in cases.items():
        args, outputs = case["args"], name.startswith("out_")
        weights = {"num_bits": 8, "type": args["type"], "strategy": "tensor" if args["type"] == "float" else "channel"}
        group = {"targets": ["Linear"], "weights": weights, "output_activations" if outputs else "input_activations": args}
        recipe = work / "r.json"
        recipe.write_text(json.dumps({"a_stage": {"a_modifiers": {"QuantizationModifier": {
            "ignore": ["lm_head"], "config_groups": {"group_0": group}}}}}))
        program.run("quantize", DENSE, "-o", work / name, "--recipe", recipe, "--calib", TEXT, "--samples", "16", "--seq-len",
                    "64", "--sequential", "off")
        tensors = faultkit.read_checkpoint(work / name)
        made = {n for n in tensors if n.endswith(("put_scale", "put_zero_point"))}
        check(made == {n for n in case["scales"] if args.get("symmetric") is False or not n.endswith("zero_point")},
              "%s: static tensors differ: %s", name, sorted(made ^ case["scales"].keys())[:4])
        for n in made:
            got, want = bf16_value(tensors[n]), case["scales"][n]
            limit = 1 if n.endswith("zero_point") else (2 if args["symmetric"] else 3) * 2 ** -8 * want
            check(abs(got - want) <= limit, "%s: %s is %g, the original's %g", name, n, got, want)


@test
def static_outputs_are_read_back(program, work):
    """Resumed or not, from the recipe that was saved or the first one: the same bytes; and the engine rounds with them."""
    static = "{num_bits: 8, type: int, symmetric: %s, strategy: tensor, dynamic: false}"
    (work / "r.yaml").write_text("""a_stage:
  a_modifiers:
    GPTQModifier:
      ignore: [lm_head]
      config_groups:
        group_0:
          targets: [Linear]
          weights: {num_bits: 4, type: int, strategy: group, group_size: 32}
          output_activations: %s
""" % (static % "false"))
    program.run("quantize", DENSE, "-o", work / "a", "--recipe", work / "r.yaml", *CALIB)
    shutil.copy(work / "a" / "recipe.yaml", work / "saved.yaml")
    program.run("quantize", DENSE, "-o", work / "b", "--recipe", work / "saved.yaml", *CALIB)
    same_folders(work / "a", work / "b", "the saved recipe")
    ids = [list(range(20, 60))]
    with_outputs, _ = program.logits(work / "a", ids, work)
    config = json.loads((work / "a" / "config.json").read_text())
    check(config["quantization_config"]["config_groups"]["group_0"]["output_activations"]["symmetric"] is False, "config")
    config["quantization_config"]["config_groups"]["group_0"]["output_activations"] = None
    (work / "a" / "config.json").write_text(json.dumps(config))
    without, _ = program.logits(work / "a", ids, work)
    check(with_outputs != without, "output scales change no logit")
    (work / "head.yaml").write_text((work / "r.yaml").read_text().replace("ignore: [lm_head]", "ignore: []"))
    _, err = program.run("quantize", DENSE, "-o", work / "c", "--recipe", work / "head.yaml", *CALIB, expect=1)
    check("lm_head" in err and "logits" in err and not (work / "c").exists(), "%s", err)


@test
def modifiers_of_one_kind_keep_apart(program, work):
    """Four modifiers of two kinds, each with modules of its own: the saved recipe leads to the same bytes."""
    recipe = work / "two.yaml"
    recipe.write_text("""a_stage:
  a_modifiers:
    QuantizationModifier: {scheme: W8A8, targets: ["re:.*self_attn.*"]}
  b_modifiers:
    QuantizationModifier: {scheme: FP8, targets: ["re:.*(up|gate)_proj"]}
    GPTQModifier: {scheme: W4A16, targets: ["re:.*layers.0.*down_proj"], dampening_frac: 0.05}
b_stage:
  b_modifiers:
    GPTQModifier: {scheme: {"W8A16": ["re:.*layers.1.*down_proj"]}, block_size: 32}
""")
    out = json.loads(program.run("quantize", DENSE, "-o", work / "a", "--recipe", recipe, *CALIB, "--json", "-")[0])
    got = {m["name"]: (m["scheme"], m["algorithm"]) for m in out["modules"]}
    for name, want in (("0.self_attn.q_proj", ("W8A8 channel/token", "rtn")), ("1.mlp.up_proj", ("FP8 static", "rtn")),
                       ("0.mlp.down_proj", ("W4A16 g128", "gptq")), ("1.mlp.down_proj", ("W8A16 g128", "gptq"))):
        check(got["model.layers." + name] == want, "%s is %s", name, got["model.layers." + name])
    shutil.copy(work / "a" / "recipe.yaml", work / "saved.yaml")
    program.run("quantize", DENSE, "-o", work / "b", "--recipe", work / "saved.yaml", *CALIB)
    same_folders(work / "a", work / "b", "the saved recipe")


@test
def a_recipe_and_flags_mean_the_same(program, work):
    recipe = work / "r.yaml"
    recipe.write_text("a_stage:\n  a_modifiers:\n    SmoothQuantModifier: {smoothing_strength: 0.8}\n"
                      "    GPTQModifier: {scheme: W8A8, ignore: [lm_head], sequential_update: true}\n")
    program.run("quantize", DENSE, "-o", work / "flags", "--scheme", "W8A8", "--algorithm", "gptq", "--smooth", "0.8", *CALIB)
    program.run("quantize", DENSE, "-o", work / "recipe", "--recipe", recipe, *CALIB)
    same_tensors(work / "flags", work / "recipe", "flags and recipe")


@test
def a_rotation_is_the_same_by_flag_and_recipe(program, work):
    recipe = work / "r.yaml"
    recipe.write_text("a_stage:\n  a_modifiers:\n    SpinQuantModifier: {rotations: [R1, R2]}\n"
                      "    GPTQModifier: {scheme: W8A8, ignore: [lm_head]}\n")
    flags = ["--scheme", "W8A8", "--algorithm", "gptq", "--rotate", "R1,R2"]
    program.run("quantize", DENSE, "-o", work / "flags", *flags, *CALIB, "--threads", "1")
    program.run("quantize", DENSE, "-o", work / "recipe", "--recipe", recipe, *CALIB, "--threads", "4")
    same_tensors(work / "flags", work / "recipe", "flag and recipe")
    program.run("quantize", DENSE, "-o", work / "again", "--recipe", work / "flags" / "recipe.yaml", *CALIB)
    same_folders(work / "flags", work / "again", "the saved recipe")
    rotated = faultkit.read_checkpoint(work / "flags")
    check("lm_head.weight" in rotated, "the rotated model has no lm_head of its own")
    _, err = program.run("quantize", DENSE, "-o", work / "x", "--scheme", "W8A8", "--rotate", "R3", expect=1)
    check("R3 rotates activations while the model runs" in err, "R3: %s", err)


@test
def smoothing_leaves_alone_what_it_should(program, work):
    dense = faultkit.read_checkpoint(DENSE)
    norms = ["model.layers.%d.%s.weight" % (i, n) for i in (0, 1) for n in ("input_layernorm", "post_attention_layernorm")]

    def changed(name, modifiers):
        (work / "r.yaml").write_text("a_stage:\n  a_modifiers:\n" + modifiers)
        program.run("quantize", DENSE, "-o", work / name, "--recipe", work / "r.yaml", *CALIB)
        tensors = faultkit.read_checkpoint(work / name)
        return sorted(n for n in dense if n in tensors and tensors[n][0] == dense[n][0] and tensors[n] != dense[n])

    w8a8 = "    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n"
    check(changed("all", "    SmoothQuantModifier: {}\n" + w8a8) == norms, "not all norms change")
    got = changed("one", "    SmoothQuantModifier: {ignore: [model.layers.0.input_layernorm]}\n" + w8a8)
    check(got == norms[1:], "a norm is ignored, changed are %s", got)
    got = changed("part", "    SmoothQuantModifier: {ignore: [\"re:.*q_proj\"]}\n" + w8a8)
    check(got == norms, "one of three readers is ignored, changed are %s", got)
    got = changed("readers", "    SmoothQuantModifier: {ignore: [\"re:.*[qkv]_proj\"]}\n" + w8a8)
    check(got == [n for n in norms if "post" in n], "all readers are ignored, changed are %s", got)
    got = changed("awq", "    AWQModifier: {}\n    QuantizationModifier: {scheme: W4A16, targets: [\"re:.*mlp.*\"]}\n")
    check(got == [n for n in norms if "post" in n], "only the MLP is quantized, changed are %s", got)


@test
def calibration_matters_and_is_repeatable(program, work):
    base = ["--scheme", "W4A16:g32", "--algorithm", "gptq"]
    program.run("quantize", DENSE, "-o", work / "a", *base, *CALIB, "--threads", "1")
    program.run("quantize", DENSE, "-o", work / "b", *base, *CALIB, "--threads", "3")
    same_folders(work / "a", work / "b", "threads")
    for name, more in (("rtn", None), ("seed", ["--calib-seed", "1"]), ("dense", ["--sequential", "off"])):
        flags = ["--scheme", "W4A16:g32"] if more is None else [*base, *CALIB, *more]
        program.run("quantize", DENSE, "-o", work / name, *flags)
        check(faultkit.read_checkpoint(work / "a") != faultkit.read_checkpoint(work / name), "%s changes nothing", name)
    program.run("quantize", DENSE, "-o", work / "seed2", *base, *CALIB, "--calib-seed", "1")
    same_folders(work / "seed", work / "seed2", "seed")


@test
def samples_of_lines_are_those_of_the_text(program, work):
    """A JSONL line of whole windows gives the same samples as the text that holds them."""
    lines = work / "c.jsonl"
    words = ["the cat sat on the mat", "dogs run far", "a b c d e f g"]
    lines.write_text("".join(json.dumps({"text": w}) + "\n" for w in words))
    for i, w in enumerate(words):
        (work / ("%d.txt" % i)).write_text(w)
    out = json.loads(program.run("quantize", DENSE, "-o", work / "o", "--scheme", "FP8", "--calib", lines, "--seq-len",
                                 "64", "--json", "-")[0])
    count = sum(json.loads(program.run("tokenize", DENSE, "--text", work / ("%d.txt" % i), "--json", "-")[0])["count"]
                for i in range(3))
    check("3 samples, %d tokens" % count in out["calibration"], "%r, expected %d tokens", out["calibration"], count)


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        check(self.open and self.open[-1] == tag, "</%s> closes %s", tag, self.open[-1:])
        self.open.pop()


@test
def reports_say_the_same(program, work):
    page = work / "r.html"
    out, _ = program.run("quantize", DENSE, "-o", work / "o", "--scheme", "W4A16:g32", "--algorithm", "gptq", *CALIB,
                         "--report", page, "--report-text", TEXT, "--report-windows", "2", "--json", "-")
    report = json.loads(out)
    check(len(report["modules"]) == 14, "%d modules", len(report["modules"]))
    for m in report["modules"]:
        check(m["algorithm"] == "gptq" and 0 < m["loss_after"] < m["loss_before"] and 0 < m["relative_error"] < 1 and
              m["seconds"] >= 0, "%s", m)
    check(report["asked_for"] == "--scheme W4A16:g32 --algorithm gptq" and report["source"] == str(DENSE) and
          report["output"] == str(work / "o"), "%s", report)
    check({m["bits_per_weight"] for m in report["modules"]} == {4.5}, "bits")  # 16 of scale for 32 weights
    text = page.read_text()
    tags = Tags()
    tags.feed(text)
    check(not tags.open and not tags.seen & {"script", "link", "img", "iframe"}, "the page holds %s", tags.seen)
    plots = re.findall(r"<svg.*?</svg>", text, re.S)
    check(len(plots) == 9, "%d plots", len(plots))
    for plot in plots:
        xml.etree.ElementTree.fromstring(plot)
        check("nan" not in plot.lower().replace("nance", ""), "a plot holds nan")
    evaluation = json.loads(program.run("eval", work / "o", "--text", TEXT, "--limit-windows", "2", "--baseline", DENSE, "--json",
                                        "-")[0])
    for key in ("perplexity", "kl_mean"):
        check(abs(evaluation[key] - report["eval"][key]) < 1e-9 * abs(evaluation[key]), "%s differs from eval's", key)
    check("%.3f" % report["eval"]["perplexity"] in text, "the page does not show the perplexity")


if __name__ == "__main__":
    kit.main()
