"""The orders of blocks and the router noise of docs/pack.md ("Upcycling"), computed from that page alone.

    python make_upcycle.py > upcycle/draws.json
"""
import json
import math
import struct

MASK = 2 ** 64 - 1


def split_mix(state):
    """Endless numbers of SplitMix64."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def stream(seed, what, index):
    first = next(split_mix(seed))
    second = next(split_mix(first ^ what))
    return split_mix(second ^ index)


def below(numbers, n):
    whole = MASK // n * n
    return next(x for x in numbers if x < whole) % n


def orders(seed, layer, n_experts, n_blocks):
    numbers = stream(seed, 1, layer)
    identity = list(range(n_blocks))
    out = []
    while len(out) < n_experts:
        order = list(identity)
        for i in range(n_blocks, 1, -1):
            j = below(numbers, i)
            order[i - 1], order[j] = order[j], order[i - 1]
        if order != identity and order not in out:
            out.append(order)
    return out


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def noise(seed, layer, expert, cols):
    router = next(stream(seed, 2, layer))
    numbers = stream(router, 2, expert)
    width = f32(math.sqrt(3 / cols))
    return [f32(((next(numbers) >> 40) / 2 ** 23 - 1) * width) for _ in range(cols)]


def main():
    # SplitMix64's published first numbers for seed 1234567.
    numbers = split_mix(1234567)
    assert [next(numbers) for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    out = {
        "orders": [{"seed": s, "layer": l, "n_experts": e, "n_blocks": b, "orders": orders(s, l, e, b)}
                   for s, l, e, b in ((0, 0, 8, 48), (0, 1, 8, 48), (1, 0, 8, 48), (7, 3, 5, 3), (7, 3, 4, 6))],
        "routers": [{"seed": s, "layer": l, "expert": e, "row": noise(s, l, e, 16)}
                    for s, l, e in ((0, 0, 0), (0, 0, 1), (0, 5, 0), (99, 0, 0))],
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
