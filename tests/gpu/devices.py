#!/usr/bin/env python3
"""Access to NVIDIA's devices that a control group forbids, with the real driver: nvidia-smi and PyTorch in a group whose
device program allows neither, before and after `gpuscope devices grant`, with --held, and after a revoke.

usage (root, control groups that can be written): devices.py GPUSCOPE
Prints "ok" or "not ok" lines; exit status 1 when one is not ok.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
from devices_help import groups, rules_program  # noqa: E402

GPUSCOPE = sys.argv[1]
# What any program needs: memory devices, terminals.
USUAL = [(1, None), (5, None), (136, None)]
PYTORCH = "import torch; print(torch.zeros(4).cuda().sum().item())"
# Holds a context on the first GPU alone, then waits.
HOLDER = ("import os, sys, torch\ntorch.cuda.init(); torch.zeros(1, device='cuda:0')\n"
          "open(sys.argv[1], 'w').write('0')\nprint('ready', flush=True)\nsys.stdin.read()\n")  # fmt: skip
failed = False


class Test:
    """What devices_help asks of a test."""

    folder = tempfile.mkdtemp()

    def path(self, name):
        return os.path.join(self.folder, name)

    def equal(self, what, got, wanted):
        say(what, got == wanted, f"{got!r}, not {wanted!r}")


def say(what, ok, detail=""):
    global failed
    failed |= not ok
    print(("ok - " if ok else "not ok - ") + what + ("" if ok else f": {detail}"), flush=True)


def inside(group, *command):
    """A command of its own in the group: status and text."""
    script = f"echo 0 >{group.path}/cgroup.procs && exec \"$@\""
    done = subprocess.run(["sh", "-c", script, "sh", *command], capture_output=True, text=True, timeout=300)
    return done.returncode, (done.stdout + done.stderr).strip()[-300:]


def devices(*words):
    done = subprocess.run([GPUSCOPE, "devices", *words], capture_output=True, text=True, timeout=60)
    print("# " + (done.stdout + done.stderr).strip().replace("\n", "\n# "), flush=True)
    return done


def main():
    t = Test()
    with groups(t, "gpu") as group:
        sleeper = group.start()
        group.attach(rules_program(USUAL), name=b"test")
        status, text = inside(group, "nvidia-smi", "-L")
        say("nvidia-smi is refused before", status != 0, text)
        say("show says so", devices("show", str(sleeper.pid)).returncode == 1)
        say("grant", devices("grant", str(sleeper.pid)).returncode == 0)
        status, text = inside(group, "nvidia-smi", "-L")
        say("nvidia-smi works after it", status == 0, text)
        status, text = inside(group, sys.executable, "-c", PYTORCH)
        say("PyTorch works after it", status == 0, text)
        say("another device stays forbidden", group.open_errors((10, 200)) == ["EPERM"])
        say("revoke", devices("revoke", str(sleeper.pid)).returncode == 0)
        status, text = inside(group, "nvidia-smi", "-L")
        say("nvidia-smi is refused again", status != 0, text)
    with groups(t, "held") as group:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, group.path + "/cgroup.procs"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)  # fmt: skip
        say("a process has a context", holder.stdout.readline() == "ready\n")
        group.attach(rules_program(USUAL), name=b"test")
        listed = devices()
        say("it is listed as forbidden", any(x.split()[:2] == [str(holder.pid), "forbidden"] for x in listed.stdout.splitlines()), listed.stdout)
        say("grant --held", devices("grant", "--held", str(holder.pid)).returncode == 0)
        status, text = inside(group, sys.executable, "-c", PYTORCH)
        say("another process of the group uses that GPU", status == 0, text)
        holder.stdin.close()
        holder.wait()
    sys.exit(failed)


harness.gpuscope = GPUSCOPE
try:
    main()
except harness.Skip as e:
    print(f"SKIP: {e}")
