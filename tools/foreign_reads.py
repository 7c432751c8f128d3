#!/usr/bin/env python3
"""Who reads what belongs to others does so by core/base/foreign.h, where it is bounded and can be ended.

In the rooms that read files of traced programs (SCOPE):
- no call opens, reads or maps a file but those of core/base/foreign.h; what the kernel itself writes
  (/proc, /sys) and memory shared with it are exceptions, each with its reason;
- a loop over lines or entries that others make longer (maps, folders of /proc, cgroups) asks
  gs_guard_stopped(), or gs_guard_step(), which also counts its time, in the same function.

Anywhere in src, what begins to parse such a file (PARSES) is called by a process without rights alone: each caller is listed
in APART with the process that it runs in, or why it may hold rights.
"""
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
SCOPE = ("sources/elf", "sources/cubin", "sources/cuda_visible", "sources/unwind", "sources/attach_plan", "sources/sideband", "sources/uprobe", "sources/x86", "pipeline/ingest")
CALLS = re.compile(r"(?<![\w.>])(open|openat|openat2|fopen|fdopen|creat|read|pread|preadv|readv|mmap|fread)\s*\(")
ASKS = re.compile(r"\bgs_guard_(stopped|step)\b")
LINES = re.compile(r"(?<![\w.>])(fgets|getline|getdelim|fscanf|readdir)\s*\(")
# (file, function): why it may.
KERNEL = {
    ("sources/elf/library.c", "scan_lines"): "/proc/PID/maps",
    ("sources/cubin/device.c", "*"): "/sys",
    ("sources/unwind/native_file.c", "vdso_copy"): "/proc/self/maps",
    ("sources/unwind/perf_map.c", "own_pid"): "/proc/PID/status",
    ("sources/unwind/python_find.c", "gs_python_image"): "/proc/PID/stat",
    ("sources/unwind/python_find.c", "gs_pythons_find"): "/proc/PID/maps",
    ("sources/unwind/python_find.c", "is_in_place"): "/proc/PID/maps",
    ("sources/sideband/sideband.c", "add_ring"): "a ring of the kernel's",
    ("sources/sideband/sideband.c", "read_online"): "/sys",
    ("sources/sideband/sideband.c", "gs_sideband_count_lost"): "a count of the kernel's",
    ("sources/uprobe/account.c", "*"): "a map and an iterator of the kernel's",
    ("sources/uprobe/drain.c", "*"): "/proc/PID/task",
    ("sources/uprobe/kernel.c", "*"): "a map of the kernel's",
    ("sources/uprobe/link.c", "uprobe_event_type"): "/sys",
    ("sources/uprobe/cost.c", "*"): "/proc/self/maps",
    ("sources/uprobe/selftest.c", "late_or_closed"): "a pipe from our own child",
    ("sources/uprobe/target.c", "uprobe_target_fill_maps"): "a folder of a cgroup hierarchy, that was chosen",
    ("sources/uprobe/target.c", "uprobe_target_is_named"): "/proc/PID/comm",
    ("sources/uprobe/target.c", "follow_members"): "cgroup.procs",
    ("sources/uprobe/target.c", "uprobe_target_follow_children"): "/proc/PID/task/TID/children",
}
PARSES = re.compile(r"(?<![\w.>])(gs_elf_open|gs_elf_open_fd|gs_perf_map_read)\s*\(")
# (file, function): which process that is.
APART = {
    ("sources/attach_plan/described_remote.c", "gs_attach_plan_serve_described"): "a reader",
    ("sources/attach_plan/operators.c", "gs_attach_plan_serve_operators"): "a reader",
    ("sources/attach_plan/remote.c", "gs_attach_plan_serve"): "a reader",
    ("sources/unwind/native_serve.c", "serve_open"): "a reader",
    ("sources/unwind/native_serve.c", "serve_debug"): "a reader",
    ("sources/unwind/native_serve.c", "serve_made"): "a reader",
    ("sources/unwind/python_file.c", "gs_python_serve"): "a reader",
    ("sources/cuda_visible/environ.c", "gs_cuda_visible_environ_serve"): "a reader",
    ("analysis/doctor/cupti.c", "gs_doctor_serve_cupti"): "a reader",
    ("commands/main/probes.c", "list_file"): "a child that has given up its rights",
    ("sources/elf/candidates.c", "add_object"): "the holder: what its own command loads, as the same user",
    ("sources/uprobe/files.c", "plan_file"): "the holder without a reader: unit tests and benchmarks alone",
    ("sources/uprobe/user.c", "search_file"): "the holder without a reader: unit tests and benchmarks alone",
}
# Loops that have an end of their own.
SHORT = {
    ("sources/unwind/native_file.c", "vdso_copy"): "our own mappings",
    ("sources/unwind/perf_map.c", "own_pid"): "the kernel's own lines",
    ("sources/sideband/sideband.c", "read_online"): "one line",
    ("sources/uprobe/drain.c", "*"): "the kernel's own lines",
    ("sources/uprobe/link.c", "uprobe_event_type"): "one number",
    ("sources/uprobe/cost.c", "*"): "our own mappings",
    ("sources/uprobe/target.c", "uprobe_target_is_named"): "one line",
    ("sources/elf/candidates.c", "walk_toolkits"): "/usr/local, of root",
    ("sources/elf/candidates.c", "walk_shim"): "a folder of the user who starts the command",
    ("sources/elf/python.c", "each_entry"): "a folder of the user who starts the command",
    ("sources/elf/walk.c", "gs_elf_walk_folder"): "a folder of the user who starts the command",
}


def without_comments(text):
    """Comments and strings become blanks; lines stay where they are."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def functions(text):
    """(name, first line, body) of each: a body begins with { in the first column."""
    for m in re.finditer(r"^([^\s#}/][^;{}]*?)\n\{\n(.*?)^\}", text, re.M | re.S):
        name = re.search(r"(\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:\w+\([^)]*\)\s*)*$", m.group(1))
        if "(" not in m.group(1):
            continue
        yield (name.group(1) if name else "?", text.count("\n", 0, m.start(2)) + 1, m.group(2))


def main():
    bad, n, used = [], 0, set()

    def allowed(table, file, function):
        for key in ((file, function), (file, "*")):
            if key in table:
                used.add((id(table), key))
                return True
        return False

    for room in SCOPE:
        for path in sorted((SRC / room).glob("*.c")):
            file, n = f"{room}/{path.name}", n + 1
            text = without_comments(path.read_text())
            if len(list(functions(text))) != len(re.findall(r"^}$", text, re.M)):
                bad.append(f"src/{file}: not all of its functions are understood by tools/foreign_reads.py")
            for function, first, body in functions(text):
                for number, line in enumerate(body.splitlines(), first):
                    for m in CALLS.finditer(line):
                        if not allowed(KERNEL, file, function):
                            bad.append(f"src/{file}:{number}: {m.group(1)}() in {function}(): read by core/base/foreign.h")
                    if LINES.search(line) and not ASKS.search(body) and not allowed(SHORT, file, function):
                        bad.append(f"src/{file}:{number}: a loop in {function}() that others make longer does not ask gs_guard_stopped()")
    n_parsers = 0
    for path in sorted(SRC.glob("**/*.c")):
        file, text = str(path.relative_to(SRC)), without_comments(path.read_text())
        for function, first, body in functions(text):
            for number, line in enumerate(body.splitlines(), first):
                for m in PARSES.finditer(line):
                    n_parsers += 1
                    if not allowed(APART, file, function):
                        bad.append(f"src/{file}:{number}: {m.group(1)}() in {function}(): parsed by a reader (core/reader), or say in APART why not")
    for table, name in ((KERNEL, "KERNEL"), (SHORT, "SHORT"), (APART, "APART")):
        bad += [f"tools/foreign_reads.py: {name} has {key} for nothing" for key in table if (id(table), key) not in used]
    print("\n".join(sorted(set(bad))) or f"reading of others' files: {n} files of {len(SCOPE)} rooms keep to core/base/foreign.h, {n_parsers} calls parse apart")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
