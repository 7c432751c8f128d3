#!/usr/bin/env python3
"""Each function that a header of src/ offers to other rooms has a contract: a comment that says what it does, with units, range,
ownership and errors. And each file says at its head what it is for.

A contract stands directly above the function, after it on its lines, or above the group that it is of: declarations without an
empty line between them. What has a body of its own (a struct, an enum, an inline function) ends a group: a comment above one
of these is about it alone. A comment above a declared type (`struct gs_x;`) or a #define is about the functions below, too.

Not read: headers that one room has for itself (*_int.h), and those of the kernel side (src/bpf), whose functions are inlined.

usage: contracts.py            check; a line for each function or file that has none, and an exit status of 1
       contracts.py --fields   also how many fields of records have a comment, by file
       contracts.py --bare     also each field that has none
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Comment and directive are whole lines; the others are what ends with ; or } at depth 0.
Item = collections.namedtuple("Item", "kind line text comment_behind")
CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
FUNCTION = re.compile(r"^(?!typedef\b|_Static_assert\b|GS_VEC\b)(?:[\w\s*]+?[\s*])(\w+)\s*\((?!\s*\*)", re.S)
# A field whose name has its unit, or which counts what its name says, needs no comment.
SAYS_ITSELF = re.compile(r"^(?:pid|tid|head|n_\w+|\w+_str|cap_\w+|\w+_(?:ns|us|ms|s|seconds|bytes|kib|mib|pct|percent|permille|hz|mhz|watts|mw|mj|joules|celsius)|pad\w*|reserved\w*)$")


def items(text):
    """A header as a list of Items; 'blank' ones stand where a line is empty."""
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        begin, line = i, lines[i].strip()
        if not line:
            yield Item("blank", i + 1, "", False)
            i += 1
        elif line.startswith("/*"):
            while "*/" not in lines[i]:
                i += 1
            i += 1
            yield Item("comment", begin + 1, "\n".join(lines[begin:i]), False)
        elif line.startswith("#"):
            while lines[i].endswith("\\"):
                i += 1
            i += 1
            yield Item("directive", begin + 1, line, False)
        else:
            code = ""
            while i < len(lines):
                raw = "\n".join(lines[begin:i + 1])
                code = CODE.sub(lambda m: " " if m.group().startswith("/*") else '""', raw)
                i += 1
                whole = code.count("/*") == code.count("*/") and code.count("{") == code.count("}") and code.count("(") == code.count(")")
                if whole and code.rstrip().endswith((";", "}")):
                    break
            raw = "\n".join(lines[begin:i])
            yield Item("code", begin + 1, code, "/*" in raw) if "{" not in code else Item("body", begin + 1, code + "\0" + raw, False)


def name_of_function(code):
    found = FUNCTION.match(ATTRIBUTE.sub(" ", code.split("{")[0]).strip())
    return found and found.group(1)


def functions_without(text):
    """(line, name) of each function without a contract, and how many functions there are."""
    without, n = [], 0
    own = group = False  # a comment ends on the line above; one stands above this group
    for item in items(text):
        if item.kind == "comment":
            own = group = True
            continue
        name = item.kind in ("code", "body") and name_of_function(item.text.split("\0")[0])
        if name:
            n += 1
            if not (own or group or item.comment_behind):
                without.append((item.line, name))
        if item.kind in ("blank", "body"):
            group = False
        own = False
    return without, n


def fields(text):
    """(line, name, how) of each field of each struct and union: how it is explained, or None.

    "Fields as ..." in the comment on a struct or in the head of the file is about all of them; a paragraph of the head that begins
    with "Fields that many have" is about those that it names."""
    above = ""
    head = re.match(r"\s*/\*(.*?)\*/", text, re.S)
    head = re.sub(r"\n \* ?", "\n", head.group(1)) if head else ""
    shared = "".join(part for part in head.split("\n\n") if part.startswith(("Fields that many have", "Fields as")))
    for item in items(text):
        if item.kind == "comment":
            above = item.text
            continue
        if item.kind == "body" and re.match(r"(?:typedef )?(?:struct|union)\b[^()=]*\{", item.text):
            raw = item.text.split("\0")[1]
            yield from fields_of_body(raw, item.line, above + raw.split("\n")[0] + shared)
        above = ""


def fields_of_body(raw, line, above):
    group = inside = has_own = False
    code, begin = "", 0
    for i, text in enumerate(raw.split("\n")[1:], 1):
        bare = text.strip()
        if inside:
            inside = "*/" not in bare
            continue
        if bare.startswith("/*"):
            group, inside = True, "*/" not in bare
            continue
        if not bare:
            group = False
            continue
        group = group or re.search(r"\{ /\*", bare) is not None
        inside = "/*" in bare and "*/" not in bare
        if bare.startswith("#"):
            continue
        begin = begin if code else i
        has_own = has_own or "/*" in bare
        code += " " + re.sub(r"/\*.*?(?:\*/|$)", "", bare).strip()
        if code.endswith(("{", "}")) or code.strip().startswith("}"):
            code, has_own = "", False
        if not code.endswith(";"):
            continue
        for name in names_of_fields(code):
            how = ("own" if has_own else "group" if group
                   else "above" if "Fields as" in above or re.search(r"\b%s\b" % re.escape(name), above)
                   else "name" if SAYS_ITSELF.match(name) else None)
            yield line + begin, name, how
        code, has_own = "", False


def names_of_fields(code):
    """Those that a declaration has: of `uint64_t a, *b, c[2];` a, b and c; of a pointer to a function that."""
    pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\])?\s*\)\s*\(", code)
    if pointer:
        yield pointer.group(1)
        return
    for part in re.sub(r"\[[^\]]*\]", "", code.rstrip(";")).split(","):
        found = re.search(r"\b(\w+)\s*(?::\s*\w+\s*)?$", part)
        if found:
            yield found.group(1)


def has_head(text):
    return re.match(r"(?:#ifndef \w+\n#define \w+\n)?\s*/\*", text) is not None


def main():
    paths = subprocess.run(["git", "ls-files", "-z", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = sorted(p for p in paths if p.endswith((".c", ".h")) and (ROOT / p).exists())
    n = n_faults = 0
    count = collections.Counter()
    bare = collections.defaultdict(list)
    for path in paths:
        text = (ROOT / path).read_text()
        # The head of x.c is that of its header, where it has one.
        if not has_head(text) and not (path.endswith(".c") and path[:-2] + ".h" in paths):
            print(f"{path}:1: no head: say what the file is for")
            n_faults += 1
        if not path.endswith(".h") or path.endswith(("_int.h", ".bpf.h")) or path.startswith("src/bpf/"):
            continue
        without, n_here = functions_without(text)
        n += n_here
        for line, name in without:
            print(f"{path}:{line}: {name}: no contract: say what it does, with units, owner and errors")
            n_faults += 1
        for line, name, how in fields(text):
            count[how] += 1
            if how is None:
                bare[path].append((line, name))
    if "--fields" in sys.argv[1:] or "--bare" in sys.argv[1:]:
        total = sum(count.values())
        print(f"{total} fields: {count['own']} with a comment, {count['group']} in a group with one, {count['above']} named above the struct, "
              f"{count['name']} whose name has the unit, {count[None]} without ({100 * (total - count[None]) / total:.1f} % explained)")
        for path, names in sorted(bare.items(), key=lambda pair: -len(pair[1])):
            print(f"{len(names):4} {path}" + (": " + " ".join(f"{name}:{line}" for line, name in names) if "--bare" in sys.argv[1:] else ""))
    print(f"contracts: {n} functions, {n_faults} without a contract or files without a head")
    return n_faults > 0


if __name__ == "__main__":
    sys.exit(main())
