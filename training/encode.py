"""Turn sentences into token streams, compressed in chunks small enough to be sent to a training machine.

TRAIN and VALID hold one sentence per line and an empty line between articles.

OUT/train-K.xz  a stream of uint16: the token id, with bit 0x2000 set on the first token of a sentence; [SEP]
                ends an article. Article number i goes to chunk i modulo the number of chunks.
OUT/valid.npy   uint16 (articles, 128): one window from each held-out article, starting at a sentence;
                articles too short for a full window are left out.
"""

import argparse
import lzma
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conventions import (
    CLS_ID,
    LARGEST_VOCABULARY,
    SENTENCE_START,
    SEP_ID,
    WINDOW,
    InputError,
    existing_file,
    existing_folder,
    run_script,
)

Stream = NDArray[np.uint16]

CONTENT = WINDOW - 2  # tokens of a window between [CLS] and [SEP]
SENTENCES_AT_ONCE = 60_000
# Two-byte records: told so, LZMA packs the streams to about 7.4 bits a token.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26, "lc": 0, "lp": 1, "pb": 1}]


def encode_articles(articles: Sequence[Sequence[str]], tokenizer: Tokenizer) -> Iterator[Stream]:
    """Yield each article's tokens, its sentences' first tokens flagged."""
    sentences = [sentence for article in articles for sentence in article]
    encodings = iter(tokenizer.encode_batch_fast(sentences, add_special_tokens=False))
    for article in articles:
        parts = [np.array(next(encodings).ids, dtype=np.uint16) for _ in article]
        for part in parts:
            part[:1] |= SENTENCE_START  # a slice: a sentence may come out empty
        yield np.concatenate(parts)


def read_articles(path: Path, tokenizer: Tokenizer) -> Iterator[Stream]:
    """Yield the tokens of each article of a text file. Many are encoded at a time: that goes in parallel."""
    waiting: list[list[str]] = []
    article: list[str] = []
    sentences = 0
    with path.open(encoding="utf-8") as file:
        for line in file:
            sentence = line.rstrip("\n")
            if sentence:
                article.append(sentence)
                sentences += 1
            elif article:
                waiting.append(article)
                article = []
                if sentences >= SENTENCES_AT_ONCE:
                    yield from encode_articles(waiting, tokenizer)
                    waiting, sentences = [], 0
    if article:
        waiting.append(article)
    yield from encode_articles(waiting, tokenizer)


def validation_windows(articles: Iterator[Stream]) -> Stream:
    """One window from each article that has 126 tokens after some sentence start, drawn with a fixed seed."""
    generator = random.Random(0)
    windows = []
    for tokens in articles:
        room = max(0, len(tokens) - (CONTENT - 1))
        starts = np.flatnonzero(tokens[:room] & SENTENCE_START)
        if len(starts):
            start = generator.choice(starts.tolist())
            content = tokens[start : start + CONTENT] & (SENTENCE_START - 1)
            windows.append(np.concatenate([[CLS_ID], content, [SEP_ID]]).astype(np.uint16))
    if not windows:
        raise InputError(f"no held-out article has {CONTENT} tokens from a sentence start onwards")
    return np.stack(windows)  # (articles, 128)


def write_compressed(path: Path, stream: Stream) -> str:
    """Write one chunk and return a line that describes it."""
    packed = lzma.compress(stream.tobytes(), format=lzma.FORMAT_XZ, filters=FILTERS)
    path.write_bytes(packed)
    sentences = int((stream & SENTENCE_START > 0).sum())
    return f"{path.name}: {len(stream)} tokens, {sentences} sentences, {len(packed)} bytes"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tokenizer", type=Path, help="folder written by train_tokenizer.py")
    parser.add_argument("train", type=Path, help="train.txt of prepare_text.py")
    parser.add_argument("valid", type=Path, help="valid.txt of prepare_text.py")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--chunks", type=int, default=3)
    arguments = parser.parse_args(argv)

    if arguments.chunks < 1:
        raise InputError(f"--chunks {arguments.chunks}: must be 1 or more")
    existing_folder(arguments.tokenizer, "written by train_tokenizer.py")
    definition = existing_file(arguments.tokenizer / "tokenizer.json", "written by train_tokenizer.py")
    for path in (arguments.train, arguments.valid):
        existing_file(path, "one sentence per line")
    tokenizer = Tokenizer.from_file(str(definition))
    if tokenizer.get_vocab_size() > LARGEST_VOCABULARY:
        raise InputError(f"{definition}: more than {LARGEST_VOCABULARY} pieces leave no room for the flag")

    windows = validation_windows(read_articles(arguments.valid, tokenizer))
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.save(arguments.out / "valid.npy", windows)
    print(f"{len(windows)} validation windows", flush=True)

    chunks: list[list[Stream]] = [[] for _ in range(arguments.chunks)]
    for number, tokens in enumerate(read_articles(arguments.train, tokenizer)):
        chunks[number % arguments.chunks] += [tokens, np.array([SEP_ID], dtype=np.uint16)]
    if not all(chunks):
        raise InputError(f"{arguments.train}: fewer articles than --chunks {arguments.chunks}")
    paths = [arguments.out / f"train-{number}.xz" for number in range(arguments.chunks)]
    with ThreadPoolExecutor() as pool:  # threads suffice: lzma lets go of the interpreter lock
        for line in pool.map(write_compressed, paths, map(np.concatenate, chunks)):
            print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(run_script(main))
