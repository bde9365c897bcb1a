"""Cases about calibration: data files, recipes with calibrated modifiers, flags, reports. make_faults.py adds them."""
import json

from faultkit import FAIL_OR_USAGE, quantize, recipe, toy

# 26 tokens of the toy's tokenizer at least, many times over
TEXT = "the cat sat on the mat and the dog ran to the door . " * 40
SMALL = ["--samples", "4", "--seq-len", "32"]


def data(text, name="calib.txt", **toy_args):
    """build(): toy model and a calibration file."""
    def build(d):
        toy(**toy_args).write(d / "model")
        (d / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return build


def lines(*objects):
    return "".join((o if isinstance(o, str) else json.dumps(o)) + "\n" for o in objects)


def calibrated(*more, name="calib.txt", scheme="FP8", small=True):
    return quantize("--calib", "{case}/" + name, *(SMALL if small else []), *more, scheme=scheme)


def with_data(text):
    """build(): toy model, recipe.yaml and calibration text."""
    def build(d):
        recipe(text)(d)
        (d / "calib.txt").write_text(TEXT)
    return build


def run_recipe(*more):
    return ["quantize", "{case}/model", "-o", "{out}", "--recipe", "{case}/recipe.yaml", *more]


def chat(text):
    """build(): toy whose tokenizer_config.json holds this chat template."""
    def build(d):
        m = toy()
        m.files["tokenizer_config.json"]["chat_template"] = text
        m.write(d / "model")
    return build


def stage(modifiers):
    return "quant_stage:\n  quant_modifiers:\n" + modifiers


def add_data(add):
    good = {"text": "the cat sat on the mat and the dog ran to the door ."}
    add("k1-no-file", "K1", "calibration file does not exist", "Name the file.",
        calibrated(name="nowhere.txt"), data(TEXT), any=["nowhere.txt"])
    add("k1-empty", "K1", "calibration file of 0 bytes", "There is nothing to measure.", calibrated(), data(""),
        all=["calib.txt", "empty"])
    add("k1-folder", "K1", "calibration path is a folder", "Must not hang or read it.", calibrated(name="model"), data(TEXT),
        any=["model"])
    add("k1-too-short", "K1", "fewer tokens than one sample", "Say how many there are and what to do.",
        calibrated("--seq-len", "200", small=False), data("the cat sat"), all=["calib.txt", "200", "--seq-len"])
    add("k1-longer-than-model", "K1", "samples longer than the model's positions", "The model cannot run them.",
        calibrated("--seq-len", "257", small=False), data(TEXT), all=["--seq-len", "256"])
    add("k1-binary", "K1", "parquet under the name of a text", "Bytes are not text.", calibrated(),
        data(b"PAR1" + bytes(4000)), all=["calib.txt", "not text"])
    add("k1-utf16", "K1", "text in UTF-16", "Every other byte is zero.", calibrated(), data(TEXT.encode("utf-16")),
        all=["calib.txt", "not text"])
    add("k2-broken-line", "K2", "third line is not JSON", "Name line and column.",
        calibrated(name="c.jsonl"), data(lines(good, good, '{"text": "a'), "c.jsonl"), all=["c.jsonl", "line 3", "column"])
    add("k2-no-field", "K2", "a line without text and messages", "Name the line and what it has.",
        calibrated(name="c.jsonl"), data(lines(good, {"prompt": "x"}), "c.jsonl"), all=["line 2", "prompt", "messages"])
    add("k2-wrong-type", "K2", "text is a number", "Name line and field.", calibrated(name="c.jsonl"),
        data(lines({"text": 5}), "c.jsonl"), all=["line 1", "text", "string"])
    add("k2-document", "K2", "one JSON document over many lines", "JSONL has one object a line.", calibrated(name="c.json"),
        data(json.dumps([good], indent=1), "c.json"), all=["line 1", "one object a line"])
    add("k2-deep", "K2", "a line nested 100,000 deep", "Depth is limited.", calibrated(name="c.jsonl"),
        data('{"text": ' + "[" * 100000 + "]" * 100000 + "}\n", "c.jsonl"), all=["line 1", "deep"],
        limits={"stack_kib": 256})
    add("k2-huge-line", "K2", "a line of 40 MB", "Memory for a line is limited.", calibrated(name="c.jsonl"),
        data('{"text": "' + "a" * (40 << 20) + '"}\n', "c.jsonl"), all=["line 1", "longer"], rss=64)
    add("k2-no-template", "K2", "messages without a chat template", "Say where a template would be.",
        calibrated(name="c.jsonl"), data(lines({"messages": [{"role": "user", "content": "hi"}]}), "c.jsonl"),
        any=["template"])
    add("k2-no-role", "K2", "a message without a role", "Name line and message.", calibrated(name="c.jsonl"),
        data(lines({"messages": [{"content": "hi"}]}), "c.jsonl"), all=["line 1", "messages[0]", "role"])

    def refusing(d):
        chat("{{ raise_exception('only odd conversations here') }}")(d)
        (d / "c.jsonl").write_text(lines({"messages": [{"role": "user", "content": "hi"}]}))

    add("k2-template-refuses", "K2", "the chat template refuses a line", "Its words, and the line.",
        calibrated(name="c.jsonl"), refusing, all=["line 1", "only odd conversations here"])


def add_flags(add):
    def short(d):
        data(TEXT)(d)
        (d / "short.txt").write_text("the cat sat")

    add("k3-static-without-data", "K3", "static scheme without --calib", "Name the option that is missing.",
        quantize(scheme="FP8"), data(TEXT), exit=[2], all=["--calib"])
    add("k3-gptq-without-data", "K3", "gptq without --calib", "Same.", quantize("--algorithm", "gptq", scheme="W4A16:g32"),
        data(TEXT), exit=[2], all=["--calib", "gptq"])
    add("k3-samples-without-data", "K3", "--samples without --calib", "It would do nothing.", quantize("--samples", "4"),
        data(TEXT), exit=[2], all=["--samples", "--calib"])
    add("k3-unknown-algorithm", "K3", "--algorithm gtpq", "List what there is.", quantize("--algorithm", "gtpq"), data(TEXT),
        exit=[2], any=["gptq"])
    add("k3-smooth-2", "K3", "--smooth 2", "Strength is 0 to 1.", calibrated("--smooth", "2"), data(TEXT), exit=[2],
        any=["smooth"])
    add("k3-report-folder", "K3", "--report in a folder that is not there", "Found before the work.",
        calibrated("--report", "{case}/nowhere/r.html"), data(TEXT), exit=FAIL_OR_USAGE, any=["nowhere"])
    add("k3-report-text-short", "K3", "--report-text shorter than a window", "Found before the work, not after it.",
        calibrated("--report-text", "{case}/short.txt", "--report", "{case}/r.html"), short, all=["short.txt", "window"])
    add("k3-max-memory-small", "K3", "--max-memory below what a layer needs", "Say what is needed, before the work.",
        calibrated("--max-memory", "0.001"), data(TEXT), all=["--max-memory", "MiB"])
    add("k3-negative-seed", "K3", "--calib-seed -1", "Not a number of the sequence.", calibrated("--calib-seed", "-1"),
        data(TEXT), exit=[2], any=["seed"])
    add("k3-recipe-and-ignore", "K3", "--ignore beside --recipe", "It would have no effect.",
        run_recipe("--ignore", "lm_head"), with_data(stage("    QuantizationModifier: {scheme: W8A8}\n")), exit=[2],
        any=["--ignore"])
    add("k3-report-text-alone", "K3", "--report-text without a report", "It would be measured for nothing.",
        calibrated("--report-text", "{case}/calib.txt"), data(TEXT), exit=[2], any=["--report"])


def add_recipes(add):
    calib = ["--calib", "{case}/calib.txt", *SMALL]

    def bad(cid, title, why, text, words, file=("recipe.yaml",)):
        add(cid, "K4", title, why, run_recipe(*calib), with_data(text), all=[*file, *words])

    bad("k4-typo-option", "block_sise of GPTQModifier", "Line, key and the nearest name.",
        stage("    GPTQModifier:\n      scheme: W8A8\n      block_sise: 64\n"), ["line 5", "block_sise", "block_size"])
    bad("k4-typo-modifier", "GPTQModifer", "Same for modifiers.", stage("    GPTQModifer: {scheme: W8A8}\n"),
        ["line 3", "GPTQModifer", "GPTQModifier"])
    bad("k4-actorder-group", "actorder: group", "Removed from the format; say so.",
        stage("    GPTQModifier: {scheme: W8A8, actorder: group}\n"), ["actorder", "0.19"])
    bad("k4-smooth-after", "SmoothQuant after quantizing", "The weights are codes already.",
        stage("    QuantizationModifier: {scheme: W8A8}\n    SmoothQuantModifier: {}\n"), ["line 4", "line 3"])
    bad("k4-awq-alone", "AWQ and nothing that quantizes", "The original refuses it too.", stage("    AWQModifier: {}\n"),
        ["AWQModifier"])
    bad("k4-two-schemes", "two modifiers for the same modules", "One of the two would be lost without a word.",
        stage("    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n"
              "    GPTQModifier: {scheme: FP8_DYNAMIC, ignore: [lm_head]}\n"), ["line 3", "line 4"])
    bad("k4-observer", "an observer that is not there", "Never another one instead.",
        stage("    QuantizationModifier: {scheme: FP8, input_observer: imatrix_mse}\n"), ["imatrix_mse"])
    bad("k4-python-tag", "a tag that would run a command", "Recipes are data.",
        stage("    GPTQModifier: {scheme: W8A8, block_size: !!python/object/apply:os.system [ls]}\n"), ["line 3", "tag"])
    bad("k4-mapping-nothing", "a smoothing mapping that matches nothing", "Smoothing would silently not happen.",
        stage("    SmoothQuantModifier: {mappings: [[[\"re:.*nothing\"], \"re:.*input_layernorm\"]]}\n"
              "    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n"), ["line 3", "nothing"])
    bad("k4-mapping-part", "a smoothing mapping that leaves out a reader", "The model would change.",
        stage("    SmoothQuantModifier: {mappings: [[[\"re:.*q_proj\"], \"re:.*input_layernorm\"]]}\n"
              "    QuantizationModifier: {scheme: W8A8, ignore: [lm_head]}\n"), ["line 3", "k_proj", "would change"])
    bad("k4-output-dynamic", "dynamic output activations", "Only static ones are run.",
        stage("    QuantizationModifier:\n      ignore: [lm_head]\n      config_groups:\n        g0:\n"
              "          targets: [Linear]\n          weights: {num_bits: 8}\n"
              "          output_activations: {num_bits: 8, strategy: token, dynamic: true}\n"), ["output_activations"])
    bad("k4-output-head", "output activations of lm_head", "The logits are not quantized.",
        stage("    QuantizationModifier:\n      config_groups:\n        g0:\n"
              "          targets: [Linear]\n          weights: {num_bits: 8}\n"
              "          output_activations: {num_bits: 8}\n"), ["lm_head", "logits"], file=())
    add("k4-recipe-and-algorithm", "K4", "--recipe and --algorithm", "Two answers to one question.",
        run_recipe("--algorithm", "gptq", *calib), with_data(stage("    QuantizationModifier: {scheme: W8A8}\n")),
        exit=[2], any=["--algorithm"])


def add_good(add):
    static = {"files": ["config.json", "recipe.yaml"], "scales_finite_positive": True,
              "tensors_present": ["model.layers.0.self_attn.q_proj.input_scale"]}
    add("ok-k-static-fp8", "K", "static FP8 from a plain text", "Input scales are measured and written.",
        calibrated(), data(TEXT), exit="ok", seconds=20, rss=1024, output=static)
    add("ok-k-jsonl", "K", "static int8 from JSONL", "Lines as samples, one longer than a sample, one empty.",
        calibrated(name="c.jsonl", scheme="W8A8:tensor:act-static"),
        data(lines({"text": "the cat"}, {"text": ""}, {"text": TEXT}), "c.jsonl"), exit="ok", seconds=20, rss=1024,
        output=static)

    def conversation(d):
        chat("{% for m in messages %}{{ m['content'] }} {% endfor %}")(d)
        (d / "c.jsonl").write_text(lines({"messages": [{"role": "user", "content": "the cat sat"}]}))

    add("ok-k-messages", "K", "static FP8 from a conversation", "The chat template makes the text.",
        calibrated(name="c.jsonl"), conversation, exit="ok", seconds=20, rss=1024, output=static)
    add("ok-k-one-token", "K", "one sample of one token", "The least that is allowed.",
        calibrated("--samples", "1", "--seq-len", "1", small=False), data("the"), exit="ok", seconds=20, rss=1024,
        output=static)
    add("ok-k-gptq-recipe", "K", "an old recipe of GPTQ after SmoothQuant", "Legacy names run.",
        run_recipe("--calib", "{case}/calib.txt", *SMALL),
        with_data(stage("    SmoothQuantModifier: {smoothing_strength: 0.8, num_calibration_steps: 4}\n"
                        "    GPTQModifier:\n      sequential_update: true\n      ignore: [lm_head]\n"
                        "      config_groups:\n        group_0:\n          targets: [Linear]\n"
                        "          weights: {num_bits: 8, type: int, symmetric: true, strategy: channel}\n")),
        exit="ok", seconds=20, rss=1024,
        output={"scales_finite_positive": True, "files": ["recipe.yaml"]})


def overflow(d):
    """Weights that are finite, whose outputs are not: 32 x the largest BF16."""
    m = toy()
    tensors = m.tensors
    for name in tensors:
        if name.endswith("layers.1.mlp.up_proj.weight"):
            dtype, shape, raw = tensors[name]
            tensors[name] = (dtype, shape, b"\x7f\x7f" * (len(raw) // 2))
    m.write(d / "model")
    (d / "calib.txt").write_text(TEXT)


def add_cases(add):
    for algorithm in ("gptq", "awq", "best"):
        add("k5-overflow-" + algorithm, "K5", "activations overflow under " + algorithm, "Name the module, write nothing.",
            calibrated("--algorithm", algorithm, scheme="W4A16:g32"), overflow, all=["layers.1.mlp.down_proj", "infinite"])
    add_data(add)
    add_flags(add)
    add_recipes(add)
    add_good(add)
