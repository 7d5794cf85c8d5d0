#!/usr/bin/env python3
"""Writes a made-up routing record (docs/formats.md) for `penstock plan --replay`: synthetic, for no model chose anything.

In each layer an order of the experts is drawn; one is as likely as 1 / (1 + its place) ** SKEW, so 0 is a uniform router. An expert
that the layer's last step used stays in use with probability REPEAT; the others are drawn without replacement.

usage: make_routing.py OUT.jsonl [--skew 1.0] [--repeat 0.0] [--layers 48 --experts 128 --top-k 8 --steps 400 --seed 1]
"""
import argparse
import json
import math
import pathlib
import random


def routing(layers, experts, top_k, steps, skew, repeat, seed):
    """Each step's experts, ascending, of each layer."""
    chance = random.Random(seed)
    weights = []
    for _ in range(layers):
        places = list(range(experts))
        chance.shuffle(places)
        weights.append([(1 + place) ** -skew for place in places])
    last = [[] for _ in range(layers)]
    for _ in range(steps):
        for layer, of_layer in enumerate(weights):
            kept = [expert for expert in last[layer] if chance.random() < repeat]
            # The smallest of exponential times with these rates: a draw without replacement by weight.
            times = sorted((-math.log(1 - chance.random()) / weight, expert) for expert, weight in enumerate(of_layer))
            others = [expert for _, expert in times if expert not in kept]
            last[layer] = sorted(kept + others[:top_k - len(kept)])
        yield [list(of_layer) for of_layer in last]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--skew", type=float, default=1.0)
    parser.add_argument("--repeat", type=float, default=0.0)
    for name, value in (("layers", 48), ("experts", 128), ("top-k", 8), ("steps", 400), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = vars(parser.parse_args())
    out = options.pop("out")
    name = "synthetic: " + ", ".join(f"{key} {options[key]}" for key in ("skew", "repeat", "seed"))
    with out.open("w") as file:
        print(json.dumps({"penstock_routing": 1, "model": name, "layers": options["layers"], "experts": options["experts"],
                          "top_k": options["top_k"]}), file=file)
        for experts in routing(**options):
            print(json.dumps({"prompt": 0, "generated": 1, "experts": experts}, separators=(",", ":")), file=file)


if __name__ == "__main__":
    main()
