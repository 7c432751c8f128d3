"""Whether `gpuscope trace` without a recording finds the steps of programs that know their own: steps.py GPUSCOPE FOLDER [NAME...]

Each program of PARTS is traced for 6 s once it does its work. A step that is found must be as long as the program's own, or as
one of the parts that the program's step is made of; a step that is none of these is a failure, and so is none where one is due."""
import json
import os
import subprocess
import sys
import time

import verdicts

# name: (parts that a step of the program may be divided into, must one be found)
PARTS = {
    "matmul": ((1, 10), True),
    "gpt2_train": ((1,), True),
    "gpt2_decode": ((1, 63, 64), False),  # tokens may take less than 1 ms
    "small_mlp": ((1, 50), False),
    "item_loop": ((1, 20), False),
    "resnet_1_worker": ((1,), True),
    "resnet_slow_worker": ((1,), True),
    "pinned_copies": ((1,), False),  # a call a step
    "jax_matmul": ((1,), False),
}
SECONDS = 6
ERROR = 0.2


def trace(gpuscope, out, name):
    """(summary or None, the program's own steps, what gpuscope said)."""
    program = verdicts.Program(out, name)
    if not program.begin():
        program.end()
        return None, None, program.said()
    try:
        time.sleep(1)
        done = subprocess.run([gpuscope, "trace", "-p", str(program.child.pid), "--follow", "--duration", f"{SECONDS}s", "-q",
                               "--format", "json", "--summary", f"{out}/{name}.json"], capture_output=True, text=True, timeout=120)
    finally:
        own = program.end()
    if done.returncode:
        return None, own, done.stderr[-400:]
    with open(f"{out}/{name}.json") as f:
        return json.load(f), own, done.stderr


def judge(name, doc, own):
    parts, due = PARTS[name]
    found = doc["steps"]
    if not own:
        return False, "the program said nothing of its steps"
    own_ns = own["median_s"] * 1e9
    if not found:
        return not due, f"none ({doc['no_steps']}); its own take {own_ns / 1e6:.2f} ms"
    good = any(abs(found["median_ns"] * k - own_ns) <= ERROR * own_ns for k in parts)
    return good, f"{found['count']} of {found['median_ns'] / 1e6:.2f} ms from {found['begins_with']}; its own: {own_ns / 1e6:.2f} ms; {found}"


def main():
    gpuscope, out, *names = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    results = []
    for name in names or PARTS:
        doc, own, said = trace(gpuscope, out, name)
        good, text = judge(name, doc, own) if doc else (False, said)
        results.append(good)
        print(f"{'ok  ' if good else 'FAIL'} {name}: {text}; lost {doc and doc['lost']}, cost {doc and doc['tracing_cost_ppm'] / 1e4} %", flush=True)
    print(f"steps: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
