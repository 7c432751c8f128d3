#!/usr/bin/env python3
"""Functions of src/ are named as doc/internals/names.md says: static ones have two words or more, others begin with a word of their room,
and none has a verb of REFUSED.

usage: names.py           check; a line for each name that is wrong, and an exit status of 1
       names.py --count   how many functions there are, and how many have one word
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "doc/internals/names.md"
# Names that stay, each with its reason; below 1 % of all functions.
EXCEPTIONS = {
    "main": "C calls it so",
    **dict.fromkeys((
        "cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityEnableContext", "cuptiActivityDisable",
        "cuptiActivityDisableContext", "cuptiActivityEnableDriverApi", "cuptiActivityEnableRuntimeApi",
        "cuptiActivityFlushAll", "cuptiSubscribe", "cuptiSubscribe_v2", "cuptiUnsubscribe", "cuptiFinalize"
    ), "stands before CUPTI's function of that name"),
}
# Verbs that do not say what a function does, each with those that do.
REFUSED = {
    r"look(?!_up)": "read, check, sample, find, search",
    r"says?|said|tells?|told": "print, report, describe, answer",
    r"hears?|heard": "receive, read",
    r"behind": "after, later",
    r"anew": "again, restart",
    r"dear|price": "cost, expensive",
    r"wish": "desired, request",
    r"moment": "sample, snapshot, time",
}
DEFINITION = re.compile(r"^([A-Za-z_][^;{}=#\n(]*?(?:\n[^;{}=#\n(]+?)*?)\b([A-Za-z_]\w*)[ ]*\((?:[^;{}]*?)\)[^;{}()=]*\n\{", re.M)
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
BODY = re.compile(r"^\{\n.*?^\}", re.S | re.M)


def words_of_rooms():
    """The table of the page: room -> words."""
    words = {}
    for line in (ROOT / PAGE).read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 4 and cells[1].startswith("`"):
            for room in re.findall(r"`([^`]+)`", cells[1]):
                words[room] = None if cells[2].startswith("any") else tuple(cells[2].split(":")[-1].split())
    return words


def functions(text):
    """(name, line, is static) of each function that a file defines; those that macros make are not seen."""
    text = NOISE.sub(lambda m: "\n" * m.group().count("\n") or " ", text)
    text = BODY.sub(lambda m: "{" + "\n" * m.group().count("\n"), text)  # what a body has in it is none
    for found in DEFINITION.finditer(text):
        head, name = found.group(1), found.group(2)
        if not name.isupper() and not re.fullmatch(r"if|for|while|switch", name) and not name.startswith("__"):
            yield name, text.count("\n", 0, found.start(2)) + 1, re.search(r"\bstatic\b", head) is not None


def fault(name, is_static, words):
    if name in EXCEPTIONS:
        return None
    if "_" not in name.strip("_"):
        return "one word: name what it does and with what"
    for words_refused, better in REFUSED.items():
        if re.search(rf"(?:^|_)(?:{words_refused})(?:_|$)", name):
            return f"has a word that leaves open what it does: {better}"
    bare = name.removeprefix("gs_")
    if not is_static and words is not None and not any(bare == word or bare.startswith(word + "_") for word in words):
        return "begins with no word of its room: " + " ".join(words)
    return None


def main():
    words = words_of_rooms()
    paths = subprocess.run(["git", "ls-files", "-z", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    n = n_one = n_faults = 0
    for path in sorted(p for p in paths if p.endswith((".c", ".h")) and (ROOT / p).exists()):
        room = "/".join(path.split("/")[1:3])
        if path == "src/main.c":  # of no room: it has main() alone
            continue
        words.setdefault(room, (room.split("/")[1],))
        for name, line, is_static in functions((ROOT / path).read_text()):
            n, n_one = n + 1, n_one + ("_" not in name)
            why = fault(name, is_static, words[room])
            if why:
                print(f"{path}:{line}: {name}: {why}")
                n_faults += 1
    if len(EXCEPTIONS) * 100 > n:
        print(f"{len(EXCEPTIONS)} exceptions are more than 1 % of {n} functions")
        n_faults += 1
    if "--count" in sys.argv[1:]:
        print(f"{n} functions, {n_one} of one word ({100 * n_one / max(n, 1):.2f} %)")
    return n_faults > 0


if __name__ == "__main__":
    sys.exit(main())
