#!/usr/bin/env python3
"""Calls, operators and Python functions from inside, beside what the program itself counts in the same run: see inside_all.sh.
`inside_all.py load NAME MODE OUT` is the program that is looked at."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")  # fmt: skip
STEPS = 12
# Whose functions are compared one by one: what Python does before the counting begins is in the summary alone.
OF_PROGRAM = ("/transformers/models/gpt2/", "/torch/nn/", "/torch/optim/", "/torchvision/models/")
NOT_COUNTED = ("<module>", "load", "count_calls", "main", "<lambda>")
# Operators that are no calls of the dispatcher, which probes see.
UNOBSERVED = ("size", "is_leaf", "output_nr", "_version", "is_complex", "stride", "dim", "numel")


# --- the program ---


def count_calls(counts):
    def note(frame, event, arg):
        if event == "call":
            code = frame.f_code
            counts[code.co_filename, code.co_name, code.co_firstlineno] += 1

    threading.setprofile(note)
    sys.setprofile(note)


def make_step(name):
    import torch

    torch.manual_seed(0)
    if name == "mlp":
        model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(4)]).cuda()
        x = torch.randn(32, 64, device="cuda")

        def loss_of():
            return model(x).square().mean()
    elif name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        model = GPT2LMHeadModel(GPT2Config(n_layer=12)).cuda()
        ids = torch.randint(0, 50000, (2, 128), device="cuda")

        def loss_of():
            return model(input_ids=ids, labels=ids).loss
    else:
        import torchvision

        model = torchvision.models.resnet50().cuda()
        images = torch.randn(8, 3, 224, 224, device="cuda")

        def loss_of():
            return model(images).square().mean()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return step


def run_steps(name):
    import torch

    step = make_step(name)
    for _ in range(STEPS):
        loss = step()
    torch.cuda.synchronize()
    return loss.item()


def load(name, mode, out):
    said, counts = {}, collections.Counter()
    if mode == "counted":
        count_calls(counts)
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            said["loss"] = run_steps(name)
        sys.setprofile(None)
        threading.setprofile(None)
        prof.export_chrome_trace(out + ".trace")
        with open(out + ".trace", encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
        said["ops"] = collections.Counter(e["name"] for e in events if e.get("cat") == "cpu_op")
        said["marks"] = collections.Counter(e["name"] for e in events if e.get("cat") == "user_annotation")
        said["kernels"] = sum(e.get("cat") == "kernel" for e in events)
        said["calls"] = collections.Counter(e["name"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver"))
    else:
        said["loss"] = run_steps(name)
    said["python"] = [[*k, n] for k, n in counts.items()]
    with open(out, "w", encoding="utf-8") as f:
        json.dump(said, f)


# --- the comparison ---

passed = failed = 0


def check(what, ok, detail=""):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} - {what} {detail}".rstrip(), flush=True)


def run(folder, gpuscope, name, mode, options):
    out, summary = os.path.join(folder, "out.json"), os.path.join(folder, "summary.json")
    words = [sys.executable, os.path.abspath(__file__), "load", name, mode, out]
    if options is not None:
        words = [gpuscope, "trace", "-q", "-v", "--format", "json", "--summary", summary, *options, "--", *words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        check(f"{name} {mode} {options}: it ran", False, done.stderr[-1500:])
        return None, None
    with open(out, encoding="utf-8") as f:
        said = json.load(f)
    if options is None:
        return said, None
    for line in done.stderr.splitlines():
        if "traced by" in line or "inside" in line:
            print(f"#   {line[:240]}")
    with open(summary, encoding="utf-8") as f:
        return said, json.load(f)


def base(name):
    return name.split(".")[0]


def operators(summary):
    ops = collections.Counter()
    for f in summary["functions"]:
        if f["layer"] == "torch":
            ops[base(f["name"])] += f["calls"]
    return ops


def differ(ours, theirs):
    return {k: (ours.get(k, 0), theirs.get(k, 0)) for k in sorted({*ours, *theirs}) if ours.get(k, 0) != theirs.get(k, 0)}


def python_of(summary):
    found = {}
    for f in summary["python_functions"]:
        name = f["name"].rsplit(":", 1)[1].rsplit("/", 1)[0]
        if any(p in f["file"] for p in OF_PROGRAM) and name not in NOT_COUNTED:
            found[f["file"], name, f["line"]] = f["calls"]
    return found


def python_by_program(said):
    return {(file, name, line): n for file, name, line, n in said["python"] if any(p in file for p in OF_PROGRAM) and name not in NOT_COUNTED}


def some(odd):
    return f"{len(odd)} differ (ours, theirs): {list(odd.items())[:6]}" if odd else ""


def launches_of(summary):
    return sum(f["calls"] - f["errors"] for f in summary["functions"] if f["name"] in LAUNCHES)


def compare_counted(name, way, said, summary):
    ops = {k: n for k, n in operators(summary).items() if k.startswith("aten::")}
    theirs = collections.Counter()
    for k, n in said["ops"].items():
        if k.startswith("aten::"):
            theirs[base(k)] += n
    for k in UNOBSERVED:
        ops.pop("aten::" + k, None)
        theirs.pop("aten::" + k, None)
    odd = differ(ops, theirs)
    check(f"{name}, {way}: {sum(theirs.values())} calls of {len(theirs)} operators as torch.profiler counts them", theirs and not odd, some(odd))
    n = launches_of(summary)
    check(f"{name}, {way}: {n} launches are the kernels of torch.profiler", n == said["kernels"], f"{n}, {said['kernels']}")
    lost = {k: v for layer in summary["lost"].values() for k, v in layer.items() if k not in ("late_attach", "map_notices", "first_calls", "process_gone")}
    check(f"{name}, {way}: nothing is lost", not lost, summary["lost"])
    for a in summary["attached"]:
        if any(w in a["path"] for w in ("libtorch_cpu", "libcudart.so", "libcuda.so", "python3")):
            print(f"#   {a['path']}: {a['probes']} probes, {a['remark']}")
    for failure in summary["attach_failures"][:5]:
        print(f"#   failure: {failure}")
    if "python" in way:
        ours, theirs = python_of(summary), python_by_program(said)
        odd = differ(ours, theirs)
        check(f"{name}, {way}: {sum(theirs.values())} calls of {len(theirs)} Python functions as sys.setprofile counts them", theirs and not odd, some(odd))
    return ops


def main():
    if sys.argv[1] == "load":
        load(*sys.argv[2:5])
        return 0
    gpuscope = os.path.join(os.path.abspath(sys.argv[1]), "src", "gpuscope")
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or ("mlp", "gpt2", "resnet"):
            found = {}
            ways = {"calls,ops,python": ["--inside=calls,ops,python", "--op-set", "all"], "probes": ["--layer", "cuda,torch", "--op-set", "all"]}
            for way, options in ways.items():
                said, summary = run(folder, gpuscope, name, "counted", options)
                if summary:
                    found[way] = compare_counted(name, way, said, summary)
            if len(found) == 2:
                odd = differ(*found.values())
                check(f"{name}: operators from inside as by probes", not odd, some(odd))
            alone, _ = run(folder, gpuscope, name, "plain", None)
            said, summary = run(folder, gpuscope, name, "plain", ["--inside", "--gpu-window", "600s/1200s"])
            if not alone or not summary:
                continue
            g = summary["gpu_time"] or {"kernels": [], "refusal": "no GPU time"}
            runs = sum(k["runs"] for k in g["kernels"])
            check(f"{name}, --inside: {runs} kernels ran, as many as were launched", runs and runs == launches_of(summary), f"{launches_of(summary)} {g.get('refusal')}")
            check(f"{name}, --inside: operators are seen", operators(summary).get("aten::mm", 0) + operators(summary).get("aten::addmm", 0) > 0, sum(operators(summary).values()))
            print(f"#   loss alone {alone['loss']}, with --inside {said['loss']}; verdict {(summary.get('verdict') or {}).get('class')}")
    print(f"inside_all: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
