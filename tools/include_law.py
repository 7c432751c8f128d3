#!/usr/bin/env python3
"""The law of includes (ARCHITECTURE.md): which room may include which. Reads the #include lines of
src/ and fails with each line that breaks it. Also bounds the size of files, headers and rooms."""
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
FIRST = {"elf", "place", "amd", "gpu", "host", "plan", "probe", "watch", "budget", "work", "probefile", "code", "journal", "span", "stack", "view", "flame", "store", "cluster"}
BELOW = {"base", "model"}
KERNEL = {"bpf", "bpfwork"}
ALLOWED = {
    "base": {"base"},
    "sandbox": {"base", "sandbox"},
    "scrub": {"base", "scrub"},
    "reader": {"base", "sandbox", "reader"},
    "spool": {"base", "spool"},
    "fetch": {"base", "fetch"},
    "model": BELOW,
    "node": BELOW | {"node"},
    "bpf": {"bpf", "model/class.h", "model/event.h", "model/hist.h", "model/kernel_side.h", "model/python.h",
            "model/user_probe.h"},
    "bpfwork": {"bpfwork", "bpf/pidns.bpf.h", "model/hist.h", "model/work.h", "model/work_side.h"},
    "feed": BELOW | {"feed", "place", "stack"},
    "text": {"base", "text"},
    "export": BELOW | {"text", "flame", "export"},
    "render": BELOW | {"text", "render"},
    "tui": BELOW | {"tui"},
    # What all commands share.
    "cli": BELOW | {"render", "cli"},
    "tls": {"base", "tls"},
    "http": BELOW | {"tls", "sandbox", "reader/wire.h", "http"},
    "rpc": BELOW | {"tls", "rpc"},
    "archive": BELOW | {"scrub", "text", "journal", "store", "archive"},
    "head": BELOW | {"rpc", "store", "cluster", "archive", "prom", "push", "job", "head"},
    # Another protocol of a head.
    "gswarm": BELOW | {"rpc", "store", "cluster", "head", "gswarm"},
    # The head as HTTP; a front end above it.
    "describe": {"base", "text", "describe"},
    "live": BELOW | {"scrub", "text", "http", "cluster", "live"},
    "api": BELOW | {"live", "scrub", "text", "describe", "http", "prom", "plot", "store", "cluster", "archive", "rpc", "job", "head", "api"},
    "plot": BELOW | {"plot"},
    "moment": BELOW | {"host", "place", "moment"},
    "push": BELOW | {"text", "spool", "fetch", "prom", "push"},
    "link": BELOW | {"rpc", "spool", "link"},
    "verdict": BELOW | {"verdict"},
    "prom": BELOW | {"text", "prom"},
    "account": BELOW | {"place", "host", "work", "verdict", "job", "account"},
    "alert": BELOW | {"verdict", "alert"},
    "notify": BELOW | {"text", "alert", "fetch", "notify"},
    "job": BELOW | {"text", "verdict", "job"},
    "launch": BELOW | {"elf", "probe", "reader", "launch"},
    # The daemon is a command with a room of its own.
    "agent": BELOW | FIRST | {"launch", "http", "prom", "verdict", "job", "account", "alert", "notify", "push", "link", "moment", "live", "sandbox", "agent", "cli"},
    # So are the commands that talk to a head, and the head's own.
    "headcmd": BELOW | FIRST | {"text", "plot", "head", "gswarm", "archive", "api", "rpc", "fetch", "link", "moment", "headcmd", "cli"},
    # And those that are large.
    "tracecmd": BELOW | FIRST | {"reader", "cli", "feed", "text", "export", "render", "headcmd", "tracecmd"},
    "jobcmd": BELOW | FIRST | {"cli", "launch", "text", "render", "verdict", "job", "alert", "notify", "headcmd", "jobcmd"},
    "cmd": BELOW | FIRST | {"reader", "http", "cli", "text", "export", "render", "tui", "account", "moment", "plot", "headcmd", "jobcmd", "cmd"},
}
for room in FIRST:
    ALLOWED[room] = BELOW | {room}
ALLOWED["plan"] |= {"code", "elf", "reader"}
ALLOWED["probe"] |= {"code", "elf", "plan", "watch", "reader"}
ALLOWED["stack"] |= {"elf", "reader"}
ALLOWED["gpu"] |= {"amd", "place"}
ALLOWED["place"] |= {"scrub"}
# Who reads, keeps, shows or sends what a machine is in a moment.
for room in ("account", "agent", "alert", "amd", "api", "archive", "cluster", "cmd", "gpu", "head", "headcmd", "host", "job", "jobcmd",
             "gswarm", "launch", "link", "live", "moment", "place", "plot", "prom", "render", "store", "tui"):
    ALLOWED[room] |= {"node"}
MAX_FILE, MAX_HEADER, MAX_ROOM = 800, 350, 5000
LARGE = {"elf": 5200, "rpc": 5800}  # both ends of a protocol, over TCP and over Unix sockets
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def check(path):
    room = path.relative_to(SRC).parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        target = name.split("/")[0]
        if "/" not in name:
            # Generated: skeletons belong to probe and work, pages' parts to export and live. A room of the kernel side names its own headers plainly.
            if (name.endswith(".pb-c.h") and room in ("link", "head", "gswarm", "headcmd", "jobcmd")) or (name.endswith(".skel.h") and room in ("probe", "work")) or (room in KERNEL and name.endswith(".bpf.h")) or (
                    room == "export" and name in ("flame_css.h", "flame_js.h")) or (room == "live" and name == "page_files.h"):
                continue
            yield f"{path.relative_to(SRC.parent)}:{number}: name the room: \"{room}/{name}\"?"
        elif target not in ALLOWED[room] and name not in ALLOWED[room]:
            yield f"{path.relative_to(SRC.parent)}:{number}: {room} may not include {name}"
        elif name.endswith("_int.h") and target != room:
            yield f"{path.relative_to(SRC.parent)}:{number}: {name} is private to {target}"


def main():
    problems, rooms = [], {}
    files = sorted(p for p in SRC.rglob("*") if p.suffix in (".c", ".h"))
    for path in files:
        lines = len(path.read_text().splitlines())
        room = path.relative_to(SRC).parts[0]
        rooms[room] = rooms.get(room, 0) + lines
        limit = MAX_HEADER if path.suffix == ".h" and room not in KERNEL else MAX_FILE
        if lines > limit:
            problems.append(f"{path.relative_to(SRC.parent)}: {lines} lines, more than {limit}: split it")
        problems += check(path)
    problems += [f"src/{room}: {n} lines, more than {LARGE.get(room, MAX_ROOM)}: split the room" for room, n in rooms.items()
                 if n > LARGE.get(room, MAX_ROOM)]
    print("\n".join(problems) if problems else f"include law: {len(files)} files of {len(rooms)} rooms keep it")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
