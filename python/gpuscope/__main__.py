"""Runs the program that the wheel has: `gpuscope ...`, or `python3 -m gpuscope ...`."""

import os
import sys
from typing import NoReturn

from ._library import NATIVE


def main() -> NoReturn:
    program = os.path.join(NATIVE, 'bin', 'gpuscope')
    if not os.path.exists(program):
        sys.exit('gpuscope: this package does not contain the program; install the wheel for your machine, or gpuscope itself')
    os.execv(program, ['gpuscope', *sys.argv[1:]])


if __name__ == '__main__':
    main()
