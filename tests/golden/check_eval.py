#!/usr/bin/env python3
"""Compares `penstock eval` with the golden numbers of one model in the class `exact`: logits, argmax, greedy ids, and that
chunks, threads, instruction sets and packing change no bit.

usage: check_eval.py PENSTOCK MODEL [--best-isa]   a folder of models/ or quantized/, or a .gguf of gguf/
       check_eval.py --self-test

--best-isa leaves out what only another instruction set would show: for slow builds that look for something else.
"""
import copy
import json
import pathlib
import sys
import tempfile

from golden import argmax, isas_here, largest_difference, read_safetensors, run

TOLERANCE = 1e-3  # on every logit, for float32 arithmetic (README.md)
N_GREEDY = 16


def expectations(model):
    """(expected.json, expected.safetensors) of a model, which another model may share."""
    if model.suffix == ".gguf":
        return json.loads(model.with_suffix(".expected.json").read_text()), read_safetensors(
            model.with_suffix(".expected.safetensors"))
    info = json.loads((model / "expected.json").read_text())
    if "same_as" in info:
        return expectations((model / info["same_as"]).resolve())
    return info, read_safetensors(model / "expected.safetensors")


def faults(info, expected, logits, greedy):
    """Yields a sentence for each way in which results differ from what is expected.

    logits: {"p0": rows of prompt 0, ...}, then those of each prompt with 15 of its greedy tokens behind it.
    """
    n_prompts = len(info["prompts"])
    for i, prompt in enumerate(info["prompts"]):
        rows = logits[f"p{i}"]
        if len(rows) != len(prompt["ids"]):
            yield f"prompt {i}: {len(rows)} rows of logits for {len(prompt['ids'])} tokens"
            continue
        for position, theirs in zip(prompt["logit_positions"], expected[f"p{i}.logits"], strict=True):
            worst = largest_difference(rows[position], theirs)
            if worst > TOLERANCE:
                yield f"prompt {i}, position {position}: a logit is off by {worst:.3g}"
        (margins,) = expected[f"p{i}.argmax_margin"]
        for position, (best, margin) in enumerate(zip(prompt["argmax"], margins, strict=True)):
            if margin > 2 * TOLERANCE and argmax(rows[position]) != best:
                yield f"prompt {i}, position {position}: the best token is {argmax(rows[position])}, expected {best}"
        worst = largest_difference(logits[f"p{n_prompts + i}"][-1], expected[f"p{i}.last_step_logits"][0])
        if worst > TOLERANCE:
            yield f"prompt {i}, after {N_GREEDY - 1} generated tokens: a logit is off by {worst:.3g}"
        if greedy[i] != prompt["greedy"]:
            yield f"prompt {i}: generated {greedy[i]}, expected {prompt['greedy']}"


def evaluate(penstock, model, ids_path, out, isa, *options):
    greedy = run(penstock, "eval", model, "--ids", ids_path, "--logits", out, "--greedy", N_GREEDY,
                 "--cpu-precision", "exact", *options, isa=isa)
    return out.read_bytes(), json.loads(greedy)


def check(penstock, model, best_isa_only):
    info, expected = expectations(model)
    prompts = [p["ids"] for p in info["prompts"]]
    lists = prompts + [p["ids"] + p["greedy"][: N_GREEDY - 1] for p in info["prompts"]]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "ids.json").write_text(json.dumps(lists))
        isas = isas_here(penstock)
        base_bytes, base_greedy = evaluate(penstock, model, folder / "ids.json", folder / "base", isas[-1])
        found += faults(info, expected, read_safetensors(folder / "base"), base_greedy)

        variants = [(isas[-1], ("--chunk", n)) for n in (1, 7, 64)] + [(isas[-1], ("--threads", 1))]
        if not best_isa_only:
            variants += [(isa, ()) for isa in isas[:-1]] + [(isas[0], ("--threads", 1, "--chunk", 17))]
        for isa, options in variants:
            what = f"{isa} {' '.join(map(str, options))}".strip()
            out_bytes, greedy = evaluate(penstock, model, folder / "ids.json", folder / "variant", isa, *options)
            if out_bytes != base_bytes:
                found.append(f"{what}: logits are not bit-equal to those of {isas[-1]} with default options")
            if greedy != base_greedy:
                found.append(f"{what}: generated other tokens")

        run(penstock, "pack", model, "-o", folder / "pack")
        packed_bytes, packed_greedy = evaluate(penstock, folder / "pack", folder / "ids.json", folder / "packed", isas[-1])
        if (packed_bytes, packed_greedy) != (base_bytes, base_greedy):
            found.append("its pack: other logits or tokens than the files it was made of")
    for fault in found:
        print(f"{model.name}: {fault}")
    names = isas[-1] if best_isa_only else " ".join(isas)
    print(f"{model.name}: {len(prompts)} prompts, {names}, {len(variants) + 2} runs, {len(found)} faults")
    return 1 if found else 0


def self_test():
    info = {"prompts": [{"ids": [1, 2], "logit_positions": [1], "argmax": [0, 1], "greedy": [1, 0]}]}
    expected = {"p0.logits": [[0.0, 1.0]], "p0.argmax_margin": [[0.5, 1.0]], "p0.last_step_logits": [[2.0, 1.0]]}
    right = {"p0": [[0.5, 0.0], [0.0, 1.0]], "p1": [[0.0, 0.0], [2.0, 1.0]]}
    assert not list(faults(info, expected, right, [[1, 0]]))

    def refused(name, change, greedy=((1, 0),)):
        wrong = copy.deepcopy(right)
        change(wrong)
        assert list(faults(info, expected, wrong, [list(g) for g in greedy])), f"{name} passed"

    refused("a logit", lambda w: w["p0"][1].__setitem__(0, 0.0011))
    refused("not a number", lambda w: w["p0"][1].__setitem__(0, float("nan")))
    refused("an argmax", lambda w: w["p0"][0].__setitem__(1, 0.6))
    refused("a late logit", lambda w: w["p1"][1].__setitem__(1, 1.002))
    refused("a missing row", lambda w: w["p0"].pop())
    refused("a greedy token", lambda w: None, greedy=((1, 1),))
    print("the check refuses what it should")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    arguments = [a for a in sys.argv[1:] if a != "--best-isa"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    sys.exit(check(*(pathlib.Path(a).resolve() for a in arguments), best_isa_only="--best-isa" in sys.argv))
