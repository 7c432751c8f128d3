"""Whether the verdict of `gpuscope trace` is right for programs whose trouble is known.

verdicts.py GPUSCOPE FOLDER [NAME...]   each program of verdict_programs.py is traced for 6 s once it
                                        does its work; prints a table and writes FOLDER/NAME.txt
"""
import json
import os
import subprocess
import sys
import time

import verdict_programs

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 6


def wait_ready(child):
    for line in child.stdout:
        if line.strip() == "ready":
            return True
    return False


def judge(gpuscope, out, name):
    child = subprocess.Popen([sys.executable, os.path.join(HERE, "verdict_programs.py"), name], stdout=subprocess.PIPE,
                             stderr=open(f"{out}/{name}.log", "w"), text=True)
    try:
        if not wait_ready(child):
            return None, open(f"{out}/{name}.log").read()[-400:]
        time.sleep(1)
        base = [gpuscope, "trace", "-p", str(child.pid), "--follow", "--duration", f"{SECONDS}s", "-q"]
        done = subprocess.run([*base, "--format", "json", "--summary", f"{out}/{name}.json", "-o", f"{out}/{name}.gst"],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            return None, done.stderr[-400:]
        with open(f"{out}/{name}.txt", "w") as f:
            subprocess.run([gpuscope, "report", f"{out}/{name}.gst"], stdout=f, stderr=f, timeout=120)
        with open(f"{out}/{name}.json") as f:
            return json.load(f), done.stderr
    finally:
        child.kill()
        child.wait()


def parts_of(doc):
    threads = [t for t in doc["account"]["threads"] if t["critical"]]
    if not threads:
        return "no critical thread"
    parts = sorted(threads[0]["parts"], key=lambda p: -p["ns"])
    return threads[0]["comm"] + ": " + ", ".join(f"{p['part']} {p['share_pct']}" for p in parts[:6])


def main():
    gpuscope, out, *names = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    n_right = n_sure = 0
    names = names or list(verdict_programs.LABELS)
    for name in names:
        classes, why = verdict_programs.LABELS[name]
        doc, said = judge(gpuscope, out, name)
        if doc is None:
            print(f"not run  {name}: {said}", flush=True)
            continue
        v = doc.get("verdict") or {}
        right = v.get("class") in classes
        n_right += right
        n_sure += not right and (v.get("confidence") or 0) > 0.8
        print(f"{'right' if right else 'WRONG':8} {name:20} {v.get('class')} share {v.get('share')} confidence {v.get('confidence')}; "
              f"expected {' or '.join(classes)}\n         {v.get('evidence')}\n         {parts_of(doc)}; cost {doc['tracing_cost_ppm'] / 1e4:.1f} %; "
              f"lost {doc['lost']}", flush=True)
    print(f"verdicts: {n_right} right of {len(names)}, {n_sure} wrong with confidence above 0.8")


main()
