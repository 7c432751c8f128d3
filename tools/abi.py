#!/usr/bin/env python3
"""Refuses a header of libgpuscope that programs built with an earlier one cannot use: functions, structs and enumerators of
include/gpuscope/gpuscope.h are compared with those of the releases in tests/golden/abi, by libabigail.

What is compared is a library made of the header alone, with an empty function for each that it declares, and one that takes each of
its structs and enums, since most items are reached by a cast: so the same is compared whatever the build is. Symbols of the library itself
are compared with the header by tests/e2e/library.py. Structs may grow at their end, and functions and enumerators may be added.

usage: abi.py                    compare with each stored release (packages abigail-tools and gcc)
       abi.py --header FILE      the same of another header
       abi.py --write VERSION    store this header as that of a release
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include/gpuscope/gpuscope.h"
MAP = ROOT / "src/library/gpuscope/libgpuscope.map"
RELEASES = ROOT / "tests/golden/abi"
SONAME = "libgpuscope.so.0"
# Structs that the library hands out have their size in front, those that it is given too: more at the end is known by it.
GROWTH = """[suppress_type]
type_kind = struct
name_regexp = ^gs_
has_data_member_inserted_at = end
has_size_change = yes
"""
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^GS_PUBLIC ([^;#]*?\b(gs_\w+)\s*\([^;]*\));", re.M)
STRUCT = re.compile(r"^(struct|enum) (gs_\w+) ?\{", re.M)


def functions(header):
    """Names that a header declares."""
    return [name for _, name in FUNCTION.findall(COMMENT.sub(" ", header.read_text()))]


def in_map():
    """Names that the version script shows."""
    return re.findall(r"^\t(gs_\w+);", MAP.read_text(), re.M)


def build_shape(header, folder):
    """The library of the header alone."""
    text = COMMENT.sub(" ", header.read_text())
    bodies = [f"{declaration} {{ __builtin_trap(); }}" for declaration, _ in FUNCTION.findall(text)]
    takers = [f"void abi_{name}({kind} {name} {'*' if kind == 'struct' else ''}x) {{ (void)x; }}" for kind, name in STRUCT.findall(text)]
    source, script, library = folder / "shape.c", folder / "shape.map", folder / "libshape.so"
    source.write_text(f'#include "{header}"\n' + "\n".join(bodies + takers) + "\n")
    # All that the header has; what of it the library shows is another question.
    script.write_text("GPUSCOPE_0 {\nglobal:\n\tgs_*;\n\tabi_*;\nlocal:\n\t*;\n};\n")
    subprocess.run(["gcc", "-std=c11", "-g", "-w", "-fPIC", "-shared", f"-ffile-prefix-map={folder}=.", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={script}",
                    "-o", library, source], check=True)
    return library


def compare(release, library, folder):
    """What abidiff has against it; "": nothing."""
    growth = folder / "growth.suppr"
    growth.write_text(GROWTH)
    done = subprocess.run(["abidiff", "--no-architecture", "--no-added-syms", "--suppressions", growth, release, library],
                          capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=pathlib.Path, default=HEADER)
    parser.add_argument("--write")
    options = parser.parse_args()
    if not shutil.which("abidiff"):
        sys.exit("abi: abidiff is missing: install the package abigail-tools")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        library = build_shape(options.header.resolve(), folder)
        if options.write:
            RELEASES.mkdir(parents=True, exist_ok=True)
            subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-architecture", "--out-file",
                            RELEASES / f"libgpuscope_{options.write}.abi", library], check=True)
            return 0
        refused = {path: compare(path, library, folder) for path in sorted(RELEASES.glob("*.abi"))}
    for path, why in refused.items():
        if why:
            print(f"{options.header}: not as in {path.name}:\n{why}")
    if not any(refused.values()):
        print(f"abi: {len(functions(options.header))} functions are as in {len(refused)} releases")
    return any(refused.values())


if __name__ == "__main__":
    sys.exit(main())
