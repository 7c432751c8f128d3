#!/usr/bin/env python3
"""Refuses words that make gpuscope's texts hard to read, in documents, man pages, messages and comments.

doc/glossary.md has the words to use; WORDS below has those to avoid, each with what to write instead. TEXTS are words and
constructions that only texts for users have to avoid: man pages, documents, the page, and literals of src/.
Refuses messages of src/ that are broken over lines, too: who sees one finds where it comes from by grep. A text of several lines
is broken after each \\n, and nowhere else.

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
    r"behind": "after, later than; of a pointer: at",
    r"(?:takes?|taking|taken|took) up(?! to\b)": "reattach, add, start",
    r"(?:in|for) want of": "for lack of",
    r"device truth": "measured by the GPU",
    r"(?:and|one of|all of) (?:its|their) kin": "derivatives, the like",
    r"prices?|priced": "cost, overhead",
}
REFUSED = re.compile(r"\b(?:%s)\b" % "|".join(WORDS), re.I)
# Names that others gave; and "behind" in its ordinary sense: left, too late, or with something in front.
NAMES = re.compile(r"(?:receiver|name): nobody|\bnobody:nogroup\b|\"nobody\""
                   r"|(?:left|leave a child) behind|(?:be|being) behind|(?:so|too) far behind|\bbehind first\b"
                   r"|clock .*behind|\"behind\"|behind (?:NVSwitch|vmagent|\d+ workers)|costs=h200", re.I)
TEXTS = {
    # A clause as the subject of a sentence that is no question.
    r"(?:^|(?<=[.;:|] ))What (?!(?:is|are|does|do|did|to|happens|if|limits)\b)[^.?|]*?"
    r"\b(?:is|are|was|were|has|have|can|may|stays?|comes?|goes|counts?|needs?)\b(?![^.|]*\?)":
        "name the thing: 'Lost samples are counted' for 'What is lost is counted'",
    r"\bsegments sent again\b": "retransmitted",
    r"\bby core and second\b": "per core and second",
    r"\b[Pp]ieces? of work\b": "operation",
    r"\btorn at its end\b|\bcut short\b": "cut off, truncated",
    r"\bshow nothing of\b|\bcan show nothing\b": "would be empty",
    r"\b(?:its|the) own times\b": "device times",
}
REFUSED_TEXT = re.compile("|".join(TEXTS))
TEXT_PARTS = ("man/", "README.md", "NEWS.md", "SECURITY.md", "CONTRIBUTING.md", "doc/")
NO_TEXT = ("doc/format.md", "doc/glossary.md", "doc/accuracy.md")
PARTS = ("man", "doc", "README.md", "NEWS.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "packaging", "proto", "web", "tools",
         "bench", "src", "include", "examples", "python")
SKIPPED = ("web/vendor/", "tests/fuzz/corpus/", "tests/golden/", "tools/words.py", "tools/names.py", "LICENSE")
# A literal of C, or what may look like a part of one.
TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
# What has a form of its own that lines show: SQL, schemas of answers ({pid:int, name:text}), markup, assembler.
NO_MESSAGE = re.compile(r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|PRAGMA|WHERE|ORDER BY)\b"
                        r"|\b\w+\??:(?:text|int|number|time|bool|\[|\{)|<\??[a-z]+[ >]|\.p2align|\.byte|%rdi")


def broken_in(path):
    """Neighbouring literals on lines of their own of which one does not end in a line feed."""
    text = (ROOT / path).read_text()
    whole, begin, is_broken, before = "", 0, False, None
    for token in [*TOKENS.finditer(text), None]:
        gap = text[before.end():token.start()].replace("\\\n", "\n") if token and before else "x"
        if token and token[0][0] == '"' and before and before[0][0] == '"' and not gap.strip():
            is_broken |= "\n" in gap and not before[0].endswith('\\n"')
            whole += token[0][1:-1]
        else:
            if is_broken and not NO_MESSAGE.search(whole):
                yield f"{path}:{text.count(chr(10), 0, begin) + 1}: a message broken over lines: {whole[:100]}"
            is_broken = False
            if token:
                whole, begin = token[0][1:-1], token.start()
        before = token


def hits_in(path):
    try:
        text = (ROOT / path).read_text()
    except (UnicodeDecodeError, FileNotFoundError):
        return
    is_text = path.startswith(TEXT_PARTS) and path not in NO_TEXT
    for number, line in enumerate(text.splitlines(), 1):
        found = REFUSED.findall(NAMES.sub("", line))
        if is_text:
            found += REFUSED_TEXT.findall(line.lstrip("*- "))
        elif path.startswith(("src/", "web/")):
            found += [hit for token in TOKENS.findall(line) if token[0] == '"' for hit in REFUSED_TEXT.findall(token[1:-1])]
        if found:
            yield f"{path}:{number}: {', '.join(found)}: {line.strip()[:120]}"


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    files = subprocess.run(["git", "-C", ROOT, "ls-files", *PARTS], capture_output=True, text=True, check=True).stdout.splitlines()
    hits = [line for path in files if not path.startswith(SKIPPED) for line in hits_in(path)]
    broken = [line for path in files if path.startswith("src/") and path.endswith((".c", ".h")) and (ROOT / path).exists()
              for line in broken_in(path)]
    if hits:
        print("\n".join(hits))
        print("; ".join(f"{p.replace('|', ', ')}: {better}" for p, better in (WORDS | TEXTS).items()))
    if broken:
        print("\n".join(broken))
    print(f"words: {len(hits)} lines with refused words and {len(broken)} broken messages in {len(files)} files")
    return 1 if hits or broken else 0


if __name__ == "__main__":
    sys.exit(main())
