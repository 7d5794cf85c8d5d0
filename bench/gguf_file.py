"""Reads and writes GGUF files, as far as the benchmarks' models need it: little-endian version 3, one file.

Metadata is a dict of name -> (type, value); an array's value is (type of its elements, list). A tensor's dims count the
contiguous one first, as in the file. What the types of tensors are is in TYPES alone.
"""
import dataclasses
import fractions
import math
import mmap
import pathlib
import struct
import subprocess

ALIGNMENT = 32
U32, F32, STRING, ARRAY = 4, 6, 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", 5: "i", F32: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclasses.dataclass(frozen=True)
class TensorType:
    name: str
    code: int
    elements: int  # in a block
    bytes: int     # of a block


TYPES = {row[0]: TensorType(*row) for row in (
    ("f32", 0, 1, 4), ("f16", 1, 1, 2), ("bf16", 30, 1, 2), ("q4_0", 2, 32, 18), ("q4_1", 3, 32, 20), ("q5_0", 6, 32, 22),
    ("q5_1", 7, 32, 24), ("q8_0", 8, 32, 34), ("q2_k", 10, 256, 84), ("q3_k", 11, 256, 110), ("q4_k", 12, 256, 144),
    ("q5_k", 13, 256, 176), ("q6_k", 14, 256, 210), ("iq4_nl", 20, 32, 18), ("iq4_xs", 23, 256, 136), ("mxfp4", 39, 32, 17),
    ("nvfp4", 40, 64, 36))}


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dims: tuple
    type: TensorType

    @property
    def row_bytes(self):
        return self.dims[0] // self.type.elements * self.type.bytes

    @property
    def bytes(self):
        return self.row_bytes * math.prod(self.dims[1:])


class GgufFile:
    """metadata, tensors in the file's order, and data(tensor), which reads from the mapped file."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        with open(path, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        magic, version = self._take("4sI")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"{path} is no GGUF file of version 2 or 3")
        n_tensors, n_keys = self._take("QQ")
        self.metadata = {}
        for _ in range(n_keys):
            name, (kind,) = self._string(), self._take("I")
            self.metadata[name] = kind, self._value(kind)
        types = {kind.code: kind for kind in TYPES.values()}
        self.tensors, self._offsets = [], {}
        for _ in range(n_tensors):
            name, (n_dims,) = self._string(), self._take("I")
            dims, (code, offset) = self._take(f"{n_dims}Q"), self._take("IQ")
            if code not in types:
                raise ValueError(f"{path}: tensor {name} is of type {code}, which this reader does not know")
            self.tensors.append(Tensor(name, dims, types[code]))
            self._offsets[name] = offset
        self._data = round_up(self._at, self.get("general.alignment", ALIGNMENT))

    def get(self, name, otherwise=None):
        return self.metadata[name][1] if name in self.metadata else otherwise

    def of_architecture(self, name, otherwise=None):
        return self.get(f"{self.get('general.architecture')}.{name}", otherwise)

    def data(self, tensor):
        begin = self._data + self._offsets[tensor.name]
        return self._bytes[begin:begin + tensor.bytes]

    def _take(self, layout):
        values = struct.unpack_from("<" + layout, self._bytes, self._at)
        self._at += struct.calcsize("<" + layout)
        return values

    def _string(self):
        (length,) = self._take("Q")
        self._at += length
        return self._bytes[self._at - length:self._at].decode()

    def _value(self, kind):
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._take(SCALARS[kind])[0]
        element, count = self._take("IQ")
        if element == STRING:
            return element, [self._string() for _ in range(count)]
        return element, list(self._take(f"{count}{SCALARS[element]}"))


def write_gguf(path, metadata, tensors, pieces_of):
    """Writes tensors in their order; `pieces_of(tensor)` yields a tensor's bytes in pieces, so none has to be in memory whole."""
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
        for name, (kind, value) in metadata.items():
            file.write(string(name) + struct.pack("<I", kind) + encoded(kind, value))
        offset = 0
        for tensor in tensors:
            file.write(string(tensor.name) + struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims))
            file.write(struct.pack("<IQ", tensor.type.code, offset))
            offset = round_up(offset + tensor.bytes, ALIGNMENT)
        for tensor in tensors:
            pad(file)
            written = sum(file.write(piece) for piece in pieces_of(tensor))
            if written != tensor.bytes:
                raise ValueError(f"tensor {tensor.name} was given {written} bytes, and has {tensor.bytes}")
        pad(file)


def bytes_per_token(model):
    """Bytes of weights that decoding a token reads: all of what is dense, and of the experts the share that is at work.

    Of the embedding it is a row, which does not count; where the head is the same matrix, all of it does.
    """
    tied = all(tensor.name != "output.weight" for tensor in model.tensors)
    return int(sum(tensor.bytes * share for tensor, share in shares_at_work(model)
                   if tied or tensor.name != "token_embd.weight"))


def operations_per_token(model):
    """Multiplications and additions of a prompt's token with weights. Only the last token of a prompt goes through the head."""
    once = ("token_embd.weight", "output.weight")
    return int(sum(2 * math.prod(tensor.dims) * share for tensor, share in shares_at_work(model)
                   if len(tensor.dims) > 1 and tensor.name not in once))


def shares_at_work(model):
    """Each tensor, and which share of it a token meets."""
    at_work = fractions.Fraction(model.of_architecture("expert_used_count", 0), model.of_architecture("expert_count", 0) or 1)
    for tensor in model.tensors:
        yield tensor, at_work if "_exps." in tensor.name else 1


def kv_numbers_per_token(model):
    """Numbers in the keys and values of a token, over all layers."""
    of = model.of_architecture
    head_dim = of("attention.key_length") or of("embedding_length") // of("attention.head_count")
    return 2 * of("block_count") * of("attention.head_count_kv") * head_dim


def fetched_smollm2():
    """Where SmolLM2-135M lies, whose weights or tokenizer the benchmarks' models have; fetched where it is not there yet."""
    script = pathlib.Path(__file__).resolve().parents[1] / "scripts/fetch_smollm2.sh"
    return pathlib.Path(subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def string(text):
    encoded_text = text.encode()
    return struct.pack("<Q", len(encoded_text)) + encoded_text


def encoded(kind, value):
    if kind == STRING:
        return string(value)
    if kind != ARRAY:
        return struct.pack("<" + SCALARS[kind], value)
    element, values = value
    head = struct.pack("<IQ", element, len(values))
    if element == STRING:
        return head + b"".join(map(string, values))
    return head + struct.pack(f"<{len(values)}{SCALARS[element]}", *values)


def round_up(n, multiple):
    return -(-n // multiple) * multiple


def pad(file):
    file.write(bytes(round_up(file.tell(), ALIGNMENT) - file.tell()))
