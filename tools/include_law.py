#!/usr/bin/env python3
"""The law of includes: which room may include which, as src/rooms.py declares. Reads the #include lines of src/ and fails with
each line that breaks it. Also bounds the size of files, headers and rooms, and checks that ARCHITECTURE.md and doc/internals/rooms.md show the same rooms."""
import pathlib
import re
import subprocess
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SRC))
sys.dont_write_bytecode = True
import rooms  # noqa: E402

ALLOWED = {room.path: set(room.includes.split()) | {room.path} for room in rooms.ROOMS}
# Generated headers, which have no room in their name.
SKELETONS = ("sources/uprobe", "sources/taskstats", "sources/traffic")
PROTOCOLS = ("net/uplink", "server/head", "commands/head", "commands/job", "compat/gswarm")
MADE = {"analysis/job_report": ("report_page.h",), "output/run_page": ("compare_page_text.h", "run_page_text.h"), "output/trace_export": ("flame_css.h", "flame_js.h"), "server/live": ("page_files.h",)}
MAX_FILE, MAX_HEADER, MAX_ROOM = 800, 350, 5000
LARGE = {"sources/elf": 5200, "sources/identity": 5100, "sources/uprobe": 5950, "net/grpc": 5800, "model/trace": 6200, "pipeline/aggregate": 5200, "server/head": 5300}  # net/grpc: both ends of a protocol, over TCP and over Unix sockets
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def room_of(path):
    return "/".join(path.relative_to(SRC).parts[:2])


def is_generated(room, name):
    return ((name.endswith(".pb-c.h") and room in PROTOCOLS) or (name.endswith(".skel.h") and room in SKELETONS)
            or (room.startswith("bpf/") and name.endswith(".bpf.h")) or name in MADE.get(room, ()))


def check(path):
    room = room_of(path)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        target = "/".join(name.split("/")[:2])
        where = f"{path.relative_to(SRC.parent)}:{number}"
        if "/" not in name:
            if not is_generated(room, name):
                yield f'{where}: name the room: "{room}/{name}"?'
        elif target not in ALLOWED[room] and name not in ALLOWED[room]:
            yield f"{where}: {room} may not include {name} (src/rooms.py)"
        elif name.endswith("_int.h") and target != room:
            yield f"{where}: {name} is private to {target}"


def check_document():
    """Two documents have tables of src/rooms.py, so that none is edited alone."""
    for name, option in (("ARCHITECTURE.md", "--folders"), ("doc/internals/rooms.md", "--table")):
        table = subprocess.run([sys.executable, SRC / "rooms.py", option], capture_output=True, text=True, check=True).stdout
        if table not in (SRC.parent / name).read_text():
            yield f"{name}: its table is not that of src/rooms.py {option}: run src/rooms.py --write"


def main():
    problems, lines_of = rooms.check(), {}
    # src/main.c is of no room: it puts the program together.
    files = sorted(p for p in SRC.rglob("*") if p.suffix in (".c", ".h") and p != SRC / "main.c")
    for path in files:
        room = room_of(path)
        if room not in ALLOWED:
            problems.append(f"{path.relative_to(SRC.parent)}: {room} is no room of src/rooms.py")
            continue
        lines = len(path.read_text().splitlines())
        lines_of[room] = lines_of.get(room, 0) + lines
        limit = MAX_HEADER if path.suffix == ".h" and not room.startswith("bpf/") else MAX_FILE
        if lines > limit:
            problems.append(f"{path.relative_to(SRC.parent)}: {lines} lines, more than {limit}: split it")
        problems += check(path)
    problems += [f"src/{room}: {n} lines, more than {LARGE.get(room, MAX_ROOM)}: split the room" for room, n in lines_of.items()
                 if n > LARGE.get(room, MAX_ROOM)]
    problems += check_document()
    print("\n".join(problems) if problems else f"include law: {len(files)} files of {len(lines_of)} rooms keep it")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
