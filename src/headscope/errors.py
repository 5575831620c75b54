"""The one exception type, so that callers can tell a bad input from a bug.

Every message says what is wrong, where, and what to do about it. The command line prints it as one paragraph and
exits with code 2; anything that is not a `HeadscopeError` is a defect of headscope.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeadscopeError(Exception):
    """Something about the input, the model or the request that the user can fix.

    >>> raise HeadscopeError("the text is empty", "give a text with at least one word")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: the text is empty. To fix it: give a text with at least one word.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem.rstrip(".")
        self.remedy = remedy.rstrip(".")
        super().__init__(f"{self.problem}. To fix it: {self.remedy}." if remedy else f"{self.problem}.")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """Errors travel between processes."""
        return type(self), (self.problem, self.remedy)


def brief(error: BaseException, most: int = 300) -> str:
    """What an error of another library says, on one line and no longer than fits into a sentence of ours.

    >>> brief(ValueError("two\\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())[:most]


def listed(numbers: Sequence[int]) -> str:
    """Numbers with runs of three and more taken together.

    >>> listed([0, 1, 2, 5])
    '0 to 2 and 5'
    >>> listed([0, 4, 5])
    '0, 4 and 5'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    runs = [[f"{part[0]} to {part[-1]}"] if len(part) > 2 else [str(number) for number in part] for part in parts]
    *words, last = [word for run in runs for word in run]
    return f"{', '.join(words)} and {last}" if words else last


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """A noun with the numbers of the things it names.

    >>> numbered("layer", [3]), numbered("layer", [0, 1, 2, 5])
    ('layer 3', 'layers 0 to 2 and 5')
    """
    return f"{noun if len(numbers) == 1 else noun + 's'} {listed(numbers)}"


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun, in the singular or the plural.

    >>> counted(1, "window"), counted(12_000, "window"), counted(2, "matrix", "matrices")
    ('1 window', '12,000 windows', '2 matrices')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"
