"""`python -m headscope` is the command line."""

import sys

from headscope.cli import command

if __name__ == "__main__":
    sys.exit(command())
