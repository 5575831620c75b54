"""headscope merge."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace

from headscope.cli.print_result import show_result


def run_merge(args: Namespace) -> None:
    """Add runs, write the sum, print it."""
    from headscope.result.result import merge_runs

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = merge_runs(args.runs, args.out)
    for each in caught:
        print(f"headscope: note: {each.message}", file=sys.stderr)
    show_result(result, args)
