#!/usr/bin/env python3
"""Refuses words that make gpuscope's texts hard to read, in documents, man pages, messages and comments.

doc/glossary.md has the words to use; WORDS below has those to avoid, each with what to write instead.

usage: words.py
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
# Names that others gave.
NAMES = re.compile(r"(?:receiver|name): nobody|\bnobody:nogroup\b|\"nobody\"")
PARTS = ("man", "doc", "README.md", "NEWS.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "packaging", "proto", "web", "tools",
         "bench", "src")
SKIPPED = ("web/vendor/", "tests/fuzz/corpus/", "tests/golden/", "tools/words.py", "LICENSE")


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
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    files = subprocess.run(["git", "-C", ROOT, "ls-files", *PARTS], capture_output=True, text=True, check=True).stdout.splitlines()
    hits = [line for path in files if not path.startswith(SKIPPED) for line in hits_in(path)]
    if hits:
        print("\n".join(hits))
        print("; ".join(f"{p.replace('|', ', ')}: {better}" for p, better in WORDS.items()))
    print(f"words: {len(hits)} lines with refused words in {len(files)} files")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
