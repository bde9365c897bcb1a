"""eval: perplexity against a plain loop in double precision over the same program's logits; windows; baselines."""
import json
import math

import kit
from kit import DATA, DENSE, check, floats, test

WINDOW = 64


def evaluate(program, *argv):
    out, _ = program.run("eval", *argv, "--json", "-")
    return json.loads(out)


def text_of(work, characters=6000):
    path = work / "text.txt"
    with open(DATA / "wikitext-2" / "wiki.test.raw", encoding="utf-8") as f:
        path.write_text(f.read(characters), encoding="utf-8")
    return path


def token_ids(program, text):
    out, _ = program.run("tokenize", DENSE, "--text", text, "--json", "-")
    return json.loads(out)["ids"]


def windows_of(ids):
    return [ids[i:i + WINDOW] for i in range(0, len(ids) - WINDOW + 1, WINDOW)]


def close(a, b, relative, what):
    check(abs(a - b) <= relative * abs(b), "%s is %r, expected %r", what, a, b)


def rows(program, work, windows, *flags):
    """Log-probabilities [window][position][token], in double precision."""
    raw, (_, tokens, vocab) = program.logits(DENSE, windows, work, *flags)
    values = floats(raw)
    return [[kit.log_softmax(values[(w * tokens + t) * vocab:(w * tokens + t + 1) * vocab]) for t in range(tokens - 1)]
            for w in range(len(windows))]


def mean_nll(log_p, windows):
    terms = [-row[ids[t + 1]] for rows, ids in zip(log_p, windows) for t, row in enumerate(rows)]
    return math.fsum(terms) / len(terms), len(terms)


@test
def perplexity_is_that_of_a_plain_loop(program, work):
    text = text_of(work)
    windows = windows_of(token_ids(program, text))
    check(len(windows) >= 12, "only %d windows", len(windows))
    log_p = rows(program, work, windows)
    for every, limit in ((1, 0), (1, 3), (3, 0), (5, 2)):
        chosen = list(range(0, len(windows), every))[:limit or None]
        want, tokens = mean_nll([log_p[i] for i in chosen], [windows[i] for i in chosen])
        more = (["--every", every] if every > 1 else []) + (["--limit-windows", limit] if limit else [])
        got = evaluate(program, DENSE, "--text", text, "--window", WINDOW, *more)
        check(got["windows"] == len(chosen) and got["tokens"] == tokens, "%s: %s windows, %s tokens; expected %d and %d",
              more, got["windows"], got["tokens"], len(chosen), tokens)
        close(got["mean_nll"], want, 1e-5, "mean_nll with %s" % more)  # exponentials are in float there
        close(got["perplexity"], math.exp(want), 1e-4, "perplexity with %s" % more)


@test
def divergence_is_that_of_a_plain_loop(program, work):
    text = text_of(work, 3000)
    windows = windows_of(token_ids(program, text))
    base, model = rows(program, work, windows), rows(program, work, windows, "--quantize", "W4A16")
    kls, agree = [], 0
    for a, b in zip(base, model):
        for p, q in zip(a, b):
            kls.append(math.fsum(math.exp(x) * (x - y) for x, y in zip(p, q)))
            agree += p.index(max(p)) == q.index(max(q))
    got = evaluate(program, DENSE, "--quantize", "W4A16", "--baseline", DENSE, "--text", text, "--window", WINDOW)
    close(got["kl_mean"], math.fsum(kls) / len(kls), 1e-4, "kl_mean")
    close(got["kl_p99"], sorted(kls)[int(0.99 * (len(kls) - 1))], 1e-4, "kl_p99")
    close(got["top1_agreement"], agree / len(kls), 1e-9, "top1_agreement")
    close(got["baseline_perplexity"], math.exp(mean_nll(base, windows)[0]), 1e-4, "baseline_perplexity")
    close(got["mean_nll"], mean_nll(model, windows)[0], 1e-5, "mean_nll")


@test
def baseline_of_itself(program, work):
    text = text_of(work, 3000)
    got = evaluate(program, DENSE, "--baseline", DENSE, "--text", text, "--window", WINDOW)
    check(got["kl_mean"] == 0 and got["kl_p99"] == 0, "KL divergence from itself: %s", got["kl_mean"])
    check(got["top1_agreement"] == 1, "agreement with itself: %s", got["top1_agreement"])
    check(got["baseline_perplexity"] == got["perplexity"], "two perplexities of one model")


@test
def threads_do_not_change_the_result(program, work):
    text = text_of(work, 3000)
    results = [evaluate(program, DENSE, "--quantize", "W8A8", "--text", text, "--window", WINDOW, "--threads", n)
               for n in (1, 3)]
    check(results[0]["mean_nll"] == results[1]["mean_nll"], "mean_nll depends on the threads")


@test
def impossible_windows(program, work):
    text = text_of(work, 200)
    _, err = program.run("eval", DENSE, "--text", text, "--window", 500, expect=1)
    check("--window" in err, "the message does not help: %s", err)
    _, err = program.run("eval", DENSE, "--text", text, "--window", 100000, expect=1)
    check("max_position_embeddings" in err, "the message does not help: %s", err)


if __name__ == "__main__":
    kit.main()
