"""Whether the verdict of `gpuscope trace` is right for programs whose trouble is known.

verdicts.py GPUSCOPE FOLDER [NAME...]   each program of verdict_programs.py is traced for 6 s once it
                                        does its work, while the next one starts; prints a table and
                                        writes FOLDER/NAME.txt, its first screen, .json and .gst
After VERDICTS_LIMIT_S seconds (560) no further program is begun; those are counted as not run.
"""
import json
import os
import signal
import subprocess
import sys
import time

import verdict_programs

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 6
START_LIMIT_S = 150
LIMIT_S = float(os.environ.get("VERDICTS_LIMIT_S", "560"))


class Program:
    """One of verdict_programs.py, which prepares from now on."""

    def __init__(self, out, name):
        self.name, self.log = name, f"{out}/{name}.log"
        with open(self.log, "w") as log:
            self.child = subprocess.Popen([sys.executable, os.path.join(HERE, "verdict_programs.py"), name], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)

    def wait_line(self, text):
        return any(line.strip() == text for line in self.child.stdout)

    def begin(self):
        """It does its work; False: it ended."""
        alarm = signal.signal(signal.SIGALRM, lambda *_: self.kill())
        signal.alarm(START_LIMIT_S)
        try:
            if not self.wait_line("prepared"):
                return False
            self.child.stdin.write("go\n")
            self.child.stdin.flush()
            return self.wait_line("ready")
        except BrokenPipeError:
            return False
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, alarm)

    def kill(self):
        """With its workers and ranks, which are of its session."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self):
        """What it says of its steps, or None."""
        self.child.terminate()
        try:
            said = self.child.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            said = ""
        self.kill()
        self.child.wait()
        for line in said.splitlines():
            if line.startswith("{"):
                return json.loads(line)
        return None

    def said(self):
        with open(self.log) as f:
            return f.read()[-400:]


def judge(gpuscope, out, program):
    """(summary or None, what gpuscope or the program said, the program's own steps)."""
    name = program.name
    if not program.begin():
        program.end()
        return None, program.said(), None
    try:
        time.sleep(1)
        base = [gpuscope, "trace", "-p", str(program.child.pid), "--follow", "--duration", f"{SECONDS}s", "-q"]
        done = subprocess.run([*base, "--format", "json", "--summary", f"{out}/{name}.json", "-o", f"{out}/{name}.gst"],
                              capture_output=True, text=True, timeout=120)
    finally:
        steps = program.end()
    if done.returncode:
        return None, done.stderr[-400:], steps
    with open(f"{out}/{name}.txt", "w") as f:
        subprocess.run([gpuscope, "report", f"{out}/{name}.gst"], stdout=f, stderr=f, timeout=120)
    with open(f"{out}/{name}.json") as f:
        return json.load(f), done.stderr, steps


def parts_of(doc):
    threads = [t for t in doc["account"]["threads"] if t["critical"]]
    if not threads:
        return "no critical thread"
    parts = sorted(threads[0]["components"], key=lambda p: -p["ns"])
    return threads[0]["comm"] + ": " + ", ".join(f"{p['component']} {p['share_pct']}" for p in parts[:6])


def say(name, doc, steps):
    """Prints a program's verdict; 'right', 'wrong', or 'serious' (wrong and sure of it)."""
    classes = verdict_programs.LABELS[name][0]
    v = doc.get("verdict") or {}
    right = v.get("class") in classes
    own = f"; the program's own: {steps['steps']} steps, median {steps['median_s'] * 1e3:.2f} ms" if steps else ""
    print(f"{'right' if right else 'WRONG':8} {name:20} {v.get('class')} share {v.get('share')} confidence {v.get('confidence')}; "
          f"expected {' or '.join(classes)}\n         {v.get('evidence')}\n         {parts_of(doc)}; cost {doc['tracing_cost_ppm'] / 1e4:.1f} %; "
          f"lost {doc['lost']}\n         steps: {doc.get('steps')}{own}", flush=True)
    return "right" if right else "serious" if (v.get("confidence") or 0) > 0.8 else "wrong"


def count_gpus():
    import torch
    return torch.cuda.device_count()


def main():
    began = time.monotonic()
    gpuscope, out, *names = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    n_gpus, results = count_gpus(), []
    names = [n for n in names or verdict_programs.LABELS if verdict_programs.LABELS[n][2] <= n_gpus]
    coming = Program(out, names[0]) if names else None
    for i, name in enumerate(names):
        program, coming = coming, None
        late = time.monotonic() - began > LIMIT_S
        if i + 1 < len(names) and not late:
            coming = Program(out, names[i + 1])
        if late or not program:
            if program:
                program.end()
            print(f"not run  {name}: no time is left", flush=True)
            results.append("not run")
            continue
        doc, said, steps = judge(gpuscope, out, program)
        if doc is None:
            print(f"not run  {name}: {said}", flush=True)
        results.append("not run" if doc is None else say(name, doc, steps))
    print(f"verdicts: {results.count('right')} right of {len(names)}, {results.count('serious')} wrong with confidence above 0.8, "
          f"{results.count('not run')} not run; {time.monotonic() - began:.0f} s, {n_gpus} GPUs")
    return 0 if results.count("right") >= 0.95 * len(names) and not results.count("serious") else 1


if __name__ == "__main__":
    sys.exit(main())
