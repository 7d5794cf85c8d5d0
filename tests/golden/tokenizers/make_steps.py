"""One small tokenizer after another, each with one feature that no tokenizer of make_tokenizers.py has, and what
`tokenizers` does with it.

    pip install tokenizers==0.23.3
    python make_steps.py steps.json

steps.json: "bases", two tokenizer.json objects whose merges cross every boundary, so that each cut shows in the ids;
"variants", by name: "base", "change" (fields that replace the base's), "cases" = text, ids without special tokens,
"with_special" where that differs, "plain_special" (ids when special tokens are ordinary text) where that differs,
and the decoded text.
"""
import copy
import json
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_tokenizers import CORPUS, TRAINING

TEXTS = [CORPUS[name] for name in (
    "empty", "contractions", "digits", "other digits", "spaces", "leading spaces", "trailing spaces", "only spaces", "newlines", "crlf",
    "other spaces", "punctuation", "camel", "latin accents nfd", "angstrom sign", "reordered marks", "hangul jamo", "cjk mixed",
    "hindi", "emoji zwj", "maths", "metaspace", "byte tokens", "special text", "mixed everything")] + [
    "İstanbul ŞİŞLİ ǅ ΑΣ ſ'ſ ﬁne Ⅷ ½ ①", "a\u180eb \u180e c", "1,234.5--6", "x", " ", "\u00a0x\u3000", "it'S'ſ"]


def base(byte_level):
    tok = Tokenizer(models.BPE() if byte_level else models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    if byte_level:
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tok.decoder = decoders.ByteLevel()
    special = [] if byte_level else ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=420 if byte_level else 560, special_tokens=special, show_progress=False,
                                  limit_alphabet=120, initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [])
    spaced = TRAINING.replace(" ", "▁") if not byte_level else TRAINING
    tok.train_from_iterator([TRAINING, spaced, TRAINING.lower(), "1 2 3 12 123 1234 12345, ".join("..--!!")] * 2, trainer)
    data = json.loads(tok.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return data


def step(thing):
    return json.loads(thing.__getstate__())


def with_normalizer(normalizer):
    return "characters", {"normalizer": step(normalizer)}


def with_pre(pre, name="characters"):
    return name, {"pre_tokenizer": step(pre)}


def with_decoder(decoder):
    return "characters", {"decoder": None if decoder is None else step(decoder)}


def split(pattern, behavior, invert=False):
    return with_pre(pre_tokenizers.Split(pattern, behavior=behavior, invert=invert))


def variants(bases):
    n, p, d = normalizers, pre_tokenizers, decoders
    out = {
        "nfd": with_normalizer(n.NFD()), "nfkc": with_normalizer(n.NFKC()), "nfkd": with_normalizer(n.NFKD()),
        "lowercase": with_normalizer(n.Lowercase()),
        "strip": with_normalizer(n.Strip()), "strip left": with_normalizer(n.Strip(left=True, right=False)),
        "strip right": with_normalizer(n.Strip(left=False, right=True)),
        "replace regex": with_normalizer(n.Replace(Regex(r"\s{2,}"), "_")),
        "replace literal": with_normalizer(n.Replace("e", "")),
        "prepend lower nfkc": with_normalizer(n.Sequence([n.Prepend("▁"), n.Lowercase(), n.NFKC()])),
        "digits": with_pre(p.Digits(individual_digits=False)), "single digits": with_pre(p.Digits(individual_digits=True)),
        "white space": with_pre(p.WhitespaceSplit()),
        "split twice": with_pre(p.Sequence([p.Split(Regex(r"\w+"), "isolated"), p.Split("a", "merged_with_next")])),
        "split where nothing is": split(Regex(r"(?=[A-Z])"), "isolated"),
        "split where nothing is, merged": split(Regex(r"(?=[A-Z])"), "merged_with_next"),
        "possessive": split(Regex(r"[^\s\p{L}\p{N}]++[\r\n]*|\p{L}+"), "isolated"),
        "any case": split(Regex(r"(?i:'s|st)"), "isolated"),
        "not space": split(Regex(r"\S+"), "isolated"), "not word": split(Regex(r"\W+"), "removed"),
        "space in class": split(Regex(r"[\s\d]+"), "isolated"), "word in class": split(Regex(r"[\w-]+"), "isolated"),
        "line ends": split(Regex(r"\s+$"), "isolated"),
        "byte level prefix": with_pre(p.ByteLevel(add_prefix_space=True, use_regex=True), "bytes"),
        "byte level after digits": with_pre(p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=True, use_regex=True)]), "bytes"),
        "no decoder": with_decoder(None),
        "metaspace decoder": with_decoder(d.Metaspace()),
        "metaspace decoder, never": with_decoder(d.Metaspace(prepend_scheme="never")),
        "strip each token": with_decoder(d.Sequence([d.Strip("e", 0, 1), d.Strip("▁", 1, 0)])),
        "bytes not fused": with_decoder(d.Sequence([d.Replace("▁", " "), d.ByteFallback()])),
        "strip three": with_decoder(d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 3, 0)])),
        "suffix": ("characters", {"post_processor": step(processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]))}),
    }
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            out[f"split {behavior}{' inverted' * invert}"] = split(Regex(r"\s|[A-Z]"), behavior, invert)
        out[f"punctuation {behavior}"] = with_pre(p.Punctuation(behavior))
    for scheme in ("always", "first", "never"):
        for cut in (False, True):
            out[f"metaspace {scheme}{' split' * cut}"] = with_pre(p.Metaspace(prepend_scheme=scheme, split=cut))

    def model(name, **fields):
        changed = copy.deepcopy(bases[name]["model"])
        changed.update(fields)
        return name, {"model": changed}
    few = {t: i for t, i in bases["characters"]["model"]["vocab"].items() if not t.startswith("<0x")}
    order = {t: i for i, t in enumerate(sorted(few, key=few.get))}
    added = {"added_tokens": bases["characters"]["added_tokens"]}
    for fuse in (False, True):
        out[f"unknown{' fused' * fuse}"] = model("characters", vocab=order, byte_fallback=False, fuse_unk=fuse)
        out[f"unknown{' fused' * fuse}"][1].update(added)
    out["unknown dropped"] = model("characters", vocab=order, byte_fallback=False, unk_token=None, fuse_unk=False)
    out["merges as text"] = model("bytes", merges=[" ".join(m) for m in bases["bytes"]["model"]["merges"]])
    return out


def case(tok, text):
    ids = tok.encode(text, add_special_tokens=False).ids
    out = {"text": text, "ids": ids}
    whole = tok.encode(text).ids
    if whole != ids:
        out["with_special"] = whole
    tok.encode_special_tokens = True
    plain = tok.encode(text, add_special_tokens=False).ids
    tok.encode_special_tokens = False
    if plain != ids:
        out["plain_special"] = plain
    out["decoded"] = tok.decode(ids, skip_special_tokens=False)
    return out


def main(target):
    bases = {"characters": base(False), "bytes": base(True)}
    lines = []
    for name, (base_name, change) in variants(bases).items():
        tok = Tokenizer.from_str(json.dumps({**bases[base_name], **change}))
        lines.append((name, {"base": base_name, "change": change, "cases": [case(tok, text) for text in TEXTS]}))

    def dump(value):
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    with open(target, "w", encoding="ascii") as file:
        file.write('{"bases": {\n' + ",\n".join(f" {dump(k)}: {dump(v)}" for k, v in bases.items()) + '},\n"variants": {\n')
        file.write(",\n".join(f" {dump(k)}: {dump(v)}" for k, v in lines) + "\n}}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
