"""The method's choices on the command line: a flag for each, made from its declaration."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import Any

from headscope.choices import described, make_choices


def add_choices(group: argparse._ArgumentGroup | argparse.ArgumentParser, *names: str) -> None:
    """Add the flags of some choices."""
    every = {choice.name: choice for choice in described()}
    for name in names:
        choice, flag = every[name], f"--{name}"
        if choice.several:  # named one by one: --reading dot --reading cosine
            group.add_argument(
                f"--{name.removesuffix('s')}", dest=name, action="append", choices=choice.allowed,
                help=f"{choice.help}; may be named more than once (default: {' and '.join(choice.default)})",
            )  # fmt: skip
        elif choice.kind is bool:
            group.add_argument(flag, action="store_true", help=choice.help)
        elif name == "window":  # the model has a say
            group.add_argument(
                flag, type=int, help=f"{choice.help} (default: {choice.default}, or what the model takes)"
            )
        else:
            options: dict[str, Any] = {"choices": choice.allowed} if choice.allowed else {"type": choice.kind}
            group.add_argument(
                flag, default=choice.default, help=f"{choice.help} (default: {choice.default})", **options
            )


def choices_of(args: Namespace, *, of_text: bool) -> dict[str, Any]:
    """The choices that were made, for one text or for a collection; a wrong one is refused at once."""
    given = {choice.name: getattr(args, choice.name, None) for choice in described()}
    make_choices(given)
    return {choice.name: given[choice.name] for choice in described() if choice.of_text or not of_text}
