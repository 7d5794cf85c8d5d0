"""Two tiny SentencePiece BPE models, as a GGUF of tokenizer model "llama" would hold them, and what SentencePiece itself
makes of the corpus.

    pip install sentencepiece==0.2.3 tokenizers==0.23.3
    python make_sentencepiece.py sentencepiece.json

By name: "tokens", "scores", "token_types" (GGUF's numbers are SentencePiece's), "add_space_prefix", and "cases": per text
of corpus.json the ids, without BOS, and the decoded text where it is not the input.
"""
import io
import json
import sys

import sentencepiece

from make_tokenizers import CORPUS, TRAINING


def train(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in TRAINING.split("\n") if line.strip()] * 3), model_writer=model, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        num_threads=1, minloglevel=2, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def token_type(sp, i):
    if sp.is_unknown(i):
        return 2
    if sp.is_control(i):
        return 3
    if sp.is_unused(i):
        return 5
    if sp.is_byte(i):
        return 6
    return 4 if sp.id_to_piece(i).startswith("<turn") else 1


def describe(sp, prefix):
    n = sp.get_piece_size()
    cases = {}
    for name, text in CORPUS.items():
        ids = sp.encode(text)
        cases[name] = {"ids": ids}
        if sp.decode(ids) != text:
            cases[name]["decoded"] = sp.decode(ids)
    return {"tokens": [sp.id_to_piece(i) for i in range(n)], "scores": [sp.get_score(i) for i in range(n)],
            "token_types": [token_type(sp, i) for i in range(n)], "add_space_prefix": prefix, "cases": cases}


def main(target):
    models = {
        "llama": describe(train(vocab_size=900, character_coverage=0.98, add_dummy_prefix=True), True),
        "gemma": describe(train(vocab_size=960, character_coverage=0.98, add_dummy_prefix=False, split_digits=True,
                                user_defined_symbols=["<turn>", "<turn>me"]), False),
    }
    with open(target, "w", encoding="ascii") as file:
        file.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in models.items()) + "\n}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
