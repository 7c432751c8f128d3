#!/usr/bin/env python3
"""Refuses words that make gpuscope's texts hard to read, in documents, man pages, messages and comments.

doc/glossary.md has the words to use; WORDS below has those to avoid, each with what to write instead. LIMITS says how many
are left in each part of the tree, counted line by line: none may be added, and a change that removes some lowers the limit.

usage: words.py [--show PART]     PART: a row of LIMITS; prints its lines
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = {
    r"told|tells?": "report, show, say, count",
    r"anew": "again",
    r"dear|dearer|dearest|dearly": "expensive, cost more",
    r"nobody|somebody|whoever": "name the program, the user or the thread",
    r"(?:lets?|letting) go": "release",
    r"to and fro": "forwards and backwards",
    r"such are|of this kind": "these",
    r"keeps its word": "holds",
}
REFUSED = re.compile(r"\b(?:%s)\b" % "|".join(WORDS), re.I)
# Names of other programs, of rows of benchmarks that doc/overhead.md explains, and of this tool's own table.
NAMES = re.compile(r"(?:receiver|name): nobody|\bnobody:nogroup\b|\"nobody\"")
LIMITS = {
    "man": 0,
    "doc": 0,
    "README.md": 0,
    "NEWS.md": 0,
    "SECURITY.md": 0,
    "ARCHITECTURE.md": 0,
    "CONTRIBUTING.md": 0,
    "packaging": 0,
    "proto": 0,
    "web": 0,
    "tools": 0,
    "bench": 0,
    "src/core": 0,
    "src/model": 0,
    "src/bpf": 0,
    "src/sources": 0,
    "src/pipeline": 0,
    "src/analysis": 33,
    "src/net": 0,
    "src/output": 0,
    "src/server": 0,
    "src/compat": 0,
    "src/commands": 0,
}
SKIPPED = ("web/vendor/", "tests/fuzz/corpus/", "tests/golden/", "tools/words.py", "LICENSE")


def part_of(path):
    """The longest row of LIMITS that a path begins with."""
    rows = [row for row in LIMITS if path == row or path.startswith(row + "/")]
    return max(rows, key=len, default=None)


def hits_in(path):
    try:
        text = (ROOT / path).read_text()
    except (UnicodeDecodeError, FileNotFoundError):
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = REFUSED.findall(NAMES.sub("", line))
        if found:
            yield f"{path}:{number}: {', '.join(found)}: {line.strip()[:120]}"


def main():
    show = sys.argv[2] if len(sys.argv) == 3 and sys.argv[1] == "--show" else None
    if len(sys.argv) > 1 and not show:
        sys.exit(__doc__)
    hits = {part: [] for part in LIMITS}
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    for path in files:
        part = part_of(path)
        if part is not None and not path.startswith(SKIPPED):
            hits[part] += hits_in(path)
    if show:
        print("\n".join(hits.get(show, [])))
        return 0
    status = 0
    for part, lines in hits.items():
        if len(lines) > LIMITS[part]:
            print("\n".join(lines))
            print(f"{part}: {len(lines)} lines with refused words, {LIMITS[part]} were there: "
                  + "; ".join(f"{p.replace('|', ', ')}: {better}" for p, better in WORDS.items()))
            status = 1
        elif len(lines) < LIMITS[part]:
            print(f"{part}: {len(lines)} lines left of {LIMITS[part]}: lower the limit in tools/words.py")
    print(f"words: {sum(map(len, hits.values()))} lines left in {len(files)} files")
    return status


if __name__ == "__main__":
    sys.exit(main())
