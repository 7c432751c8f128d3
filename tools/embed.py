#!/usr/bin/env python3
"""Writes a C header with the text of a file as one array of characters.

usage: embed.py FILE NAME HEADER"""
import sys


def main():
    source, name, header = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        lines = f.read().splitlines(keepends=True)
    escape = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    with open(header, "w", encoding="utf-8") as f:
        f.write(f"static const char {name}[] =")
        for line in lines:
            f.write('\n\t"' + "".join(escape.get(c, c) for c in line) + '"')
        f.write(";\n")


main()
