"""Rows of float32 and the bytes that other people's quantisers make of them.

    pip install numpy==2.4.6 gguf==0.19.0 ml_dtypes==0.6.0
    python make_encode.py > encode/rows.json

q8_0, q4_0 and bf16 are gguf-py's. NVFP4 follows ModelOpt's rule (docs/pack.md) and MXFP4 the OCP rule, with every
rounding to e4m3 and e2m1 done by ml_dtypes. All numbers are little-endian hex.
"""
import json

import gguf
import ml_dtypes
import numpy as np
from gguf.quants import quantize

COLS = 64


def codes_e2m1(x):
    """Nearest even, saturating; bit 3 only where x < 0, as ModelOpt writes it."""
    code = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 7
    code |= (x < 0).astype(np.uint8) << 3
    return (code[..., 0::2] | (code[..., 1::2] << 4)).reshape(-1)


def nvfp4(w):
    amax = np.abs(w).max()
    second = np.float32(amax / np.float32(2688)) if amax else np.float32(1)
    block = w.reshape(-1, 16)
    top = np.abs(block).max(-1)
    scale = np.where(top == 0, np.float32(1), top / np.float32(6) / second)
    scale = np.clip(scale, np.float32(2.0 ** -9), np.float32(448)).astype(ml_dtypes.float8_e4m3fn)
    step = (scale.astype(np.float32) * second)[:, None]
    return {"scale": second, "data": codes_e2m1(block / step), "scales": scale}


def mxfp4(w):
    block = w.reshape(-1, 32)
    top = np.abs(block).max(-1)
    exponent = np.where(top == 0, 0, np.frexp(top)[1] - 3).clip(-127)           # frexp: top in [0.5, 1) * 2^e
    step = np.ldexp(np.float32(1), exponent)[:, None]
    return {"data": codes_e2m1(block / step), "scales": (exponent + 127).astype(np.uint8)}


def cases():
    rng = np.random.default_rng(20240611)
    normal = lambda scale: (rng.standard_normal((4, COLS)) * scale).astype(np.float32)
    yield "gaussian", normal(0.02)
    yield "large", normal(700.0)
    yield "small", normal(1e-5)
    yield "heavy tail", (rng.standard_t(2, (4, COLS)) * 0.01).astype(np.float32)

    # Block maximum 6 and matrix maximum 84 make the NVFP4 scales 32 * 1/32, and MXFP4's 1: quarters then sit on
    # midpoints of e2m1. Halves of q8_0 and q4_0 steps: maximum 127 and 8.
    ties = np.zeros((4, COLS), np.float32)
    quarters = np.arange(-6, 6.25, 0.25, dtype=np.float32)
    ties[0] = np.resize(quarters, COLS)
    ties[0, 0::16] = 6
    ties[1] = np.resize(quarters[::-1], COLS)
    ties[1, 15::16] = -6
    ties[2, :] = np.resize(np.arange(-84, 84.5, 0.5, dtype=np.float32), COLS)
    ties[2, 0] = 84
    ties[3] = np.resize(np.arange(-8, 8.5, 0.5, dtype=np.float32), COLS)
    yield "ties", ties
    halves = np.resize(np.arange(-127, 127.5, 3.5, dtype=np.float32), (4, COLS)).copy()
    halves[:, ::32] = 127
    yield "halves", halves

    # Blocks far below the matrix maximum (scale clamps at 2^-9, then codes vanish), zeros of both signs, and the
    # element of largest magnitude positive, negative and twice.
    mixed = normal(1.0)
    mixed[0] *= np.float32(1e-4)
    mixed[1] *= np.float32(1e-7)
    mixed[2, :32] = 0.0
    mixed[2, 32:] = -0.0
    mixed[3, 5], mixed[3, 40], mixed[3, 41] = 1000.0, -9.0, 9.0
    yield "mixed", mixed
    yield "zeros", np.zeros((2, COLS), np.float32)

    # bf16: just below, on and just above midpoints of odd and even neighbours.
    bits = np.array([0x3F808000, 0x3F807FFF, 0x3F808001, 0x3F818000, 0x3F817FFF, 0x3F818001, 0xBF808000, 0xBF818000],
                    np.uint32)
    yield "bf16 midpoints", np.resize(bits.view(np.float32), (2, COLS)).copy()


def hexed(array):
    return np.ascontiguousarray(array).tobytes().hex()


def main():
    out = []
    for name, w in cases():
        types = {"q8_0": "Q8_0", "q4_0": "Q4_0", "bf16": "BF16"}
        case = {"name": name, "rows": w.shape[0], "cols": COLS, "values": hexed(w)}
        for key, kind in types.items():
            case[key] = {"data": hexed(quantize(w.copy(), gguf.GGMLQuantizationType[kind]))}
        for key, codec in (("nvfp4", nvfp4), ("mxfp4", mxfp4)):
            case[key] = {k: float(v) if k == "scale" else hexed(v) for k, v in codec(w).items()}
        out.append(case)
    print(json.dumps(out, indent=1))


main()
