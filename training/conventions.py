"""What the scripts of this folder agree on: token ids, the sentence flag, and how bad input is reported."""

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # the first entries of every vocabulary
CLS_ID = SPECIAL_TOKENS.index("[CLS]")
SEP_ID = SPECIAL_TOKENS.index("[SEP]")
MASK_ID = SPECIAL_TOKENS.index("[MASK]")

# A stream stores a token in 16 bits: the id below this bit, the bit itself on the first token of a sentence.
SENTENCE_START = 0x2000
LARGEST_VOCABULARY = SENTENCE_START

WINDOW = 128  # positions of the model: [CLS], 126 tokens, [SEP]


class InputError(Exception):
    """Input that a script cannot work with. The message says what is wrong and, where known, what to do."""


def existing_file(path: Path, purpose: str) -> Path:
    """The path itself, once it is known to be a file: no script should fail halfway for want of one."""
    if not path.is_file():
        raise InputError(f"{path}: no such file ({purpose})")
    return path


def existing_folder(path: Path, purpose: str) -> Path:
    """The path itself, once it is known to be a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: no such folder ({purpose})")
    return path


def run_script(main: Callable[[Sequence[str] | None], None], argv: Sequence[str] | None = None) -> int:
    """Run a script's main and return its exit code: 2, and one line on stderr, where the input is at fault.

    Any other exception is a bug of the script and keeps its traceback.
    """
    try:
        main(argv)
    except InputError as error:
        print(f"{Path(inspect.getfile(main)).name}: {error}", file=sys.stderr)
        return 2
    return 0
