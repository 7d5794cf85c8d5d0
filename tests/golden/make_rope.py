"""Rope tables and rotations as transformers computes them.

    python make_rope.py OUT.json

Per case: `spec` in Penstock's names, `context_length`, `length`, and what modeling_rope_utils makes of the same
parameters in float32: `frequencies` and `attention_factor`. A few cases also rotate one head at several positions,
with the halves layout of Llama and the interleaved one of DeepSeek-V3 (whose result is given back in place: element 2j
and 2j+1 of a pair; transformers leaves it as halves, which gives the same scores).
"""
import argparse
import json
import pathlib

import torch
from common import *  # noqa: F401,F403
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

POSITIONS = [0, 1, 63, 1000]

# name, head_dim, context_length, length, Penstock's spec beyond type and theta, transformers' keys where they differ
CASES = [
    ("default", "default", 128, 4096, 100, {}, {}),
    ("default, theta 1e6", "default", 64, 32768, 100, {"theta": 1e6}, {}),
    ("half of the head", "default", 128, 4096, 100, {"rotary_dims": 64}, {"partial_rotary_factor": 0.5}),
    ("linear", "linear", 64, 8192, 100, {"factor": 4.0}, {}),
    ("dynamic, short", "dynamic", 64, 2048, 2048, {"factor": 2.0}, {}),
    ("dynamic, longer", "dynamic", 64, 2048, 5000, {"factor": 2.0}, {}),
    ("llama 3.1", "llama3", 128, 131072, 100,
     {"theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 8192}, {}),
    ("yarn", "yarn", 128, 131072, 100, {"theta": 1e6, "factor": 4.0, "original_context": 32768}, {}),
    ("yarn, not truncated", "yarn", 64, 131072, 100,
     {"theta": 150000.0, "factor": 32.0, "original_context": 4096, "truncate": False}, {}),
    ("yarn, deepseek's magnitudes", "yarn", 64, 163840, 100,
     {"factor": 40.0, "original_context": 4096, "mscale": 0.707, "mscale_all_dim": 1.0}, {}),
    ("yarn, given attention factor", "yarn", 64, 16384, 100,
     {"factor": 4.0, "original_context": 4096, "attention_factor": 1.25, "beta_fast": 16.0, "beta_slow": 2.0}, {}),
    ("yarn, a range of no width", "yarn", 8, 64, 100, {"factor": 4.0, "original_context": 16}, {}),
    ("longrope, short", "longrope", 16, 131072, 4096, {"factor": 32.0, "original_context": 4096}, {}),
    ("longrope, long", "longrope", 16, 131072, 4097, {"factor": 32.0, "original_context": 4096}, {}),
    ("longrope, given attention factor", "longrope", 16, 131072, 4097,
     {"factor": 32.0, "original_context": 4096, "attention_factor": 1.5}, {}),
]
HF_NAMES = {"original_context": "original_max_position_embeddings", "theta": "rope_theta"}


def config_of(rope_type, head_dim, context_length, spec, extra):
    parameters = {HF_NAMES.get(k, k): v for k, v in spec.items() if k != "rotary_dims"}
    parameters = {"rope_type": rope_type, "rope_theta": 10000.0, **parameters, **extra}
    return LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim,
                       max_position_embeddings=context_length, rope_parameters=parameters)


def table(config, rope_type, length):
    if rope_type == "default":  # Glm4Moe's knows partial heads
        return Glm4MoeRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[rope_type](config, "cpu", seq_len=length)


def rotations(frequencies, attention_factor, head_dim):
    d = 2 * len(frequencies)
    x = torch.randn(1, 1, len(POSITIONS), head_dim, generator=torch.Generator().manual_seed(7))
    angles = torch.outer(torch.tensor(POSITIONS, dtype=torch.float32), frequencies)
    angles = torch.cat([angles, angles], dim=-1)[None]
    cos, sin = angles.cos() * attention_factor, angles.sin() * attention_factor
    turned = x[..., :d]
    halves, _ = apply_rotary_pos_emb(turned, turned, cos, sin)
    pairs, _ = apply_rotary_pos_emb_interleave(turned, turned, cos, sin)
    in_place = torch.stack([pairs[..., :d // 2], pairs[..., d // 2:]], dim=-1).flatten(-2)
    rest = x[..., d:]
    rows = lambda t: torch.cat([t, rest], dim=-1)[0, 0].tolist()
    return {"positions": POSITIONS, "x": x[0, 0].tolist(), "halves": rows(halves), "interleaved": rows(in_place)}


def case(name, rope_type, head_dim, context_length, length, spec, extra):
    n_pairs = spec.get("rotary_dims", head_dim) // 2
    if rope_type == "longrope":
        spec = {**spec, "short_factor": [1.0 + 0.05 * j for j in range(n_pairs)],
                "long_factor": [1.0 + 3.0 * j for j in range(n_pairs)]}
    config = config_of(rope_type, head_dim, context_length, spec, extra)
    frequencies, attention_factor = table(config, rope_type, length)
    entry = {"name": name, "spec": {"type": rope_type, "rotary_dims": head_dim, **spec}, "head_dim": head_dim,
             "context_length": context_length, "length": length, "frequencies": frequencies.tolist(),
             "attention_factor": float(attention_factor)}
    if name in ("half of the head", "yarn, given attention factor", "longrope, long"):
        entry["rotation"] = rotations(frequencies, attention_factor, head_dim)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.write_text(json.dumps({"cases": [case(*c) for c in CASES]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
