#!/usr/bin/env python3
"""Refuses an include that points to a room on the right of, or beside, the file's own room (docs/design.md section 3).

usage: check_rooms.py SRC_DIR | --self-test
"""
import pathlib
import re
import sys

LEVELS = [
    ["base"],
    ["os"],
    ["tensor"],
    ["checkpoint", "text", "vision", "cpu", "cuda"],
    ["kernels"],
    ["memory"],
    ["model"],
    ["engine"],
    ["server"],
    ["cli"],
]
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def faults_in(room, text):
    """Yields one sentence for each include in `text`, a file of `room`, that the rooms' order forbids."""
    for target in INCLUDE.findall(text):
        other = target.split("/")[0]
        if other == room:
            continue
        if other not in LEVEL_OF:
            yield f'includes "{target}", which is in no room; write it from src/, like "base/result.h"'
        elif LEVEL_OF[other] >= LEVEL_OF[room]:
            yield f'includes "{target}", but {room} may not see {other}'


def check(src):
    n_files = n_faults = 0
    for path in sorted(src.rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
            continue
        n_files += 1
        room = path.relative_to(src).parts[0]
        for fault in faults_in(room, path.read_text(encoding="utf-8")):
            print(f"{path}: {fault}")
            n_faults += 1
    print(f"{n_files} files, {n_faults} includes against the rooms' order")
    return 1 if n_faults or not n_files else 0


def self_test():
    wrong = [("tensor", "engine/engine.h"), ("text", "checkpoint/gguf.h"), ("base", "spdlog.h"), ("os", "tensor/format.h")]
    right = [("engine", "tensor/format.h"), ("cli", "server/server.h"), ("base", "base/result.h"), ("kernels", "cpu/pool.h")]
    for room, target in wrong:
        assert list(faults_in(room, f'#include "{target}"\n')), f"{room} -> {target} passed"
    for room, target in right:
        assert not list(faults_in(room, f'#include <vector>\n#include "{target}"\n')), f"{room} -> {target} failed"
    print("the check refuses what it should")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1])))
