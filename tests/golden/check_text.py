#!/usr/bin/env python3
"""Compares `penstock tokenize` and `penstock template` with what `tokenizers` and `jinja2` made of every golden case.

usage: check_text.py PENSTOCK tokenizer NAME     a folder of tokenizers/, or "smollm2": the real model's GGUF
       check_text.py PENSTOCK templates FILE     templates.json or jinja_extra.json
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from golden import HERE, run


def tokenizer_faults(penstock, path, cases, corpus):
    """Yields a sentence for each case that comes out differently: encoded with and without special tokens, and decoded."""

    def tokenize(values, *options):
        return json.loads(run(penstock, "tokenize", path, *options, stdin=json.dumps(values)))

    names = [name for name in cases if name in corpus]
    texts, ids = [corpus[n] for n in names], [cases[n]["ids"] for n in names]
    for name, found in zip(names, tokenize(texts, "--no-special"), strict=True):
        if found != cases[name]["ids"]:
            yield f"{name}: {found}, expected {cases[name]['ids']}"
    for name, found in zip(names, tokenize(texts), strict=True):
        expected = cases[name].get("prefix", []) + cases[name]["ids"]
        if found != expected:
            yield f"{name}, with special tokens: {found}, expected {expected}"

    broken = cases.get("ids that are no text", {})
    decoded = {n: cases[n].get("decoded", corpus[n]) for n in names} | {n: b["decoded"] for n, b in broken.items()}
    plain = {n: cases[n].get("decoded_skip_special", decoded[n]) for n in names} | {n: b["decoded"] for n, b in broken.items()}
    ids += [b["ids"] for b in broken.values()]
    for options, expected in (["--decode"], decoded), (["--decode", "--no-special"], plain):
        for (name, text), found in zip(expected.items(), tokenize(ids, *options), strict=True):
            if found != text:
                yield f"{name}, {' '.join(options)}: {found!r}, expected {text!r}"


def check_tokenizer(penstock, name):
    folder = HERE / "tokenizers"
    corpus = json.loads((folder / "corpus.json").read_text())
    if name == "smollm2":
        fetched = subprocess.run([HERE.parents[1] / "scripts/fetch_smollm2.sh"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
        path, cases = fetched.stdout.strip(), json.loads((folder / "smollm2.cases.json").read_text())
    else:
        path, cases = folder / name / "tokenizer.json", json.loads((folder / name / "cases.json").read_text())
    assert set(corpus) <= set(cases), f"no case for {set(corpus) - set(cases)}"
    return len(cases), list(tokenizer_faults(penstock, path, cases, corpus))


def template_fault(penstock, folder, template, case, now):
    """A sentence when one case comes out differently, else None."""
    (folder / "template.jinja").write_bytes(template.encode())
    (folder / "input.json").write_text(json.dumps(case["inputs"]))
    done = subprocess.run(
        [penstock, "template", folder / "template.jinja", "--input", folder / "input.json", "--now", now],
        capture_output=True, timeout=60)
    out, err = done.stdout.decode(), done.stderr.decode()
    if "error" not in case:
        return None if (done.returncode, out) == (0, case["rendered"]) else f"{out!r} {err!r}, expected {case['rendered']!r}"
    if done.returncode not in (1, 2) or out:
        return f"exit {done.returncode}, output {out!r}, expected the error {case['error']}"
    if case["error"]["kind"] == "raised" and case["error"]["message"] not in err:
        return f"the message is {err!r}, expected {case['error']['message']!r}"
    return None


def check_templates(penstock, file):
    golden = json.loads((HERE / file).read_text())
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for case in golden["cases"]:
            template = golden["templates"][case["template"]]
            if fault := template_fault(penstock, pathlib.Path(folder), template, case, golden["now"]):
                found.append(f"{case['name']}: {fault}")
    return len(golden["cases"]), found


def main(penstock, what, name):
    n_cases, found = (check_tokenizer if what == "tokenizer" else check_templates)(penstock, name)
    for fault in found:
        print(fault)
    print(f"{what} {name}: {n_cases} cases, {len(found)} faults")
    return 1 if found or not n_cases else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:]))
