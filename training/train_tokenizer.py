"""Learn a lower-cased BERT WordPiece vocabulary and save it as a Hugging Face tokenizer folder.

TEXT holds one sentence per line. To save time only every n-th line is read.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import BertWordPieceTokenizer

from conventions import LARGEST_VOCABULARY, SPECIAL_TOKENS, WINDOW, InputError, existing_file, run_script


def learn_vocabulary(text: Path, size: int, every: int) -> list[str]:
    """The pieces in the order of their ids, the special tokens first."""
    tokenizer = BertWordPieceTokenizer(lowercase=True, strip_accents=True)
    with text.open(encoding="utf-8") as file:
        tokenizer.train_from_iterator(
            itertools.islice(file, 0, None, every),
            vocab_size=size,
            min_frequency=2,
            limit_alphabet=120,  # rarer letters become [UNK]: other scripts would fill a small vocabulary
            show_progress=False,
            special_tokens=list(SPECIAL_TOKENS),
        )
    identifiers = tokenizer.get_vocab()
    pieces = sorted(identifiers, key=identifiers.__getitem__)
    if len(pieces) != size:
        raise InputError(f"{text}: yields {len(pieces)} pieces, not {size}; give more text or another --size")
    if tuple(pieces[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
        raise RuntimeError(f"the special tokens are not the first pieces: {pieces[: len(SPECIAL_TOKENS)]}")
    return pieces


def save_tokenizer(pieces: Sequence[str], folder: Path) -> None:
    """Write the three files from which transformers loads a BertTokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    # Built again from the vocabulary file: only so does tokenizer.json carry the [CLS] ... [SEP] template.
    tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True, strip_accents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "strip_accents": True,
        "tokenize_chinese_chars": True,
        "model_max_length": WINDOW,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument("out", type=Path, help="the tokenizer folder to write")
    parser.add_argument("--size", type=int, default=LARGEST_VOCABULARY, help="pieces in the vocabulary")
    parser.add_argument("--every", type=int, default=3, help="read every n-th line")
    arguments = parser.parse_args(argv)

    existing_file(arguments.text, "one sentence per line")
    if not len(SPECIAL_TOKENS) < arguments.size <= LARGEST_VOCABULARY:
        raise InputError(f"--size {arguments.size}: must be at most {LARGEST_VOCABULARY} and more than 5")
    if arguments.every < 1:
        raise InputError(f"--every {arguments.every}: must be 1 or more")
    save_tokenizer(learn_vocabulary(arguments.text, arguments.size, arguments.every), arguments.out)


if __name__ == "__main__":
    raise SystemExit(run_script(main))
