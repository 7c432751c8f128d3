"""Programs whose trouble is known by construction, for verdicts.py: verdict_programs.py NAME

Each prepares, waits for a line on its standard input, warms up, prints "ready", and then does the same
thing until it is ended (SIGTERM), when it prints how many steps it made and how long they took. The
label of each stands beside it and was written before the first run.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

LABELS = {}  # name: (classes that are right, what makes it so, GPUs that it needs)
WARM_UP_STEPS = 3


def program(*classes, why, gpus=1):
    def register(function):
        LABELS[function.__name__] = (classes, why, gpus)
        return function
    return register


def prepared():
    """What is slow to start is there: the program before this one may still be measured."""
    print("prepared", flush=True)
    sys.stdin.readline()


def ready():
    print("ready", flush=True)


def report_steps(starts):
    lengths = [b - a for a, b in zip(starts, starts[1:])]
    if lengths:
        print(json.dumps({"steps": len(lengths), "median_s": statistics.median(lengths), "from": starts[0]}), flush=True)
    os._exit(0)


def forever(step):
    ended, starts = threading.Event(), []
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    prepared()
    for _ in range(WARM_UP_STEPS):
        step()
    ready()
    while not ended.is_set():
        starts.append(time.monotonic())
        step()
    report_steps(starts)


@program("gpu_bound", why="products of 8192x8192 matrices, the host waits for each tenth")
def matmul():
    import torch
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step():
        for _ in range(10):
            torch.mm(a, a)
        torch.cuda.synchronize()
    forever(step)


def gpt2_training(compiled):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config()).cuda()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 50000, (16, 1024), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()
    forever(step)


@program("gpu_bound", why="16x1024 tokens a step keep the GPU busy; the loss is read once a step")
def gpt2_train():
    gpt2_training(False)


@program("gpu_bound", why="as gpt2_train, compiled")
def gpt2_compiled():
    gpt2_training(True)


@program("launch_bound", why="one token at a time: some 300 tiny kernels a token")
def gpt2_decode():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config()).cuda().half().eval()
    tokens = torch.randint(0, 50000, (1, 32), device="cuda")

    def step():
        with torch.no_grad():
            model.generate(tokens, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0)
    forever(step)


@program("launch_bound", why="a perceptron of 64 columns: every kernel ends at once")
def small_mlp():
    import torch
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(32, 64, device="cuda")

    def step():
        for _ in range(50):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
    forever(step)


@program("sync_heavy", why="the host reads one element after each of many 200 us kernels")
def item_loop():
    import torch
    a = torch.randn(3072, 3072, device="cuda")

    def step():
        for _ in range(20):
            torch.mm(a, a)[0, 0].item()
    forever(step)


def spend(seconds):
    """Computes in Python for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def resnet(workers, seconds_per_image, batch=64, seconds_per_batch=0.0, pixels=224):
    import torch
    import torchvision

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, i):
            spend(seconds_per_image)
            return torch.zeros(3, 224, 224), 1

    def collate(items):
        spend(seconds_per_batch)
        return torch.utils.data.default_collate(items)
    torch.set_num_threads(1)
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = None

    def step():
        nonlocal loader
        loader = loader or iter(torch.utils.data.DataLoader(Images(), batch_size=batch, num_workers=workers, pin_memory=True,
                                                            collate_fn=collate))
        x, y = next(loader)
        x = x.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        if pixels != 224:
            x = torch.nn.functional.interpolate(x, size=pixels)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()
    forever(step)


@program("input_bound", why="one worker computes 1.5 ms for each of 128 images: 0.2 s for a step of some 50 ms")
def resnet_1_worker():
    resnet(1, 0.0015, batch=128)


@program("gpu_bound", why="the same images from 8 workers, 24 ms a batch; enlarged to 384 pixels on the GPU, which takes some 100 ms for them")
def resnet_8_workers():
    resnet(8, 0.0015, batch=128, pixels=384)


# Labelled "gpu_bound" before the first run, as the program above: the host alone needs 23 of the GPU's 35 ms a step
# (resnet_account.sh, H100). But beside the workers, and the thread that pins 77 MB a step and takes Python's lock, it needs 41, the
# batch is there after 0.1 ms, and kernels run for 32 of 47 ms (CUPTI).
@program("launch_bound", "cpu_bound", "gil_bound", why="the host's side of 1,000 launches is held up by the thread that pins memory: 41 ms, the GPU's 32")
def resnet_held_up():
    resnet(8, 0.0015, batch=128)


@program("input_bound", why="8 workers, and 20 ms for each of 128 images: 0.3 s for a step of some 50 ms")
def resnet_8_slow_getitem():
    resnet(8, 0.020, batch=128)


@program("input_bound", why="two workers whose collate_fn computes 0.4 s for each batch")
def resnet_slow_collate():
    resnet(2, 0.0, seconds_per_batch=0.4)


@program("input_bound", why="one worker computes 10 ms for each of 64 images of a batch")
def resnet_slow_worker():
    resnet(1, 0.010)


@program("gpu_bound", why="8 workers that cost nothing before a step of some 60 ms on the GPU")
def resnet_fast_workers():
    resnet(8, 0.0, batch=256)


@program("input_bound", "cpu_bound", why="no worker: the main thread itself computes 10 ms for each image")
def resnet_no_worker():
    resnet(0, 0.010)


def ddp(rank, slow_s):
    import torch
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 2048, device="cuda")

    def step():
        spend(slow_s if rank else 0)
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


@program("communication_bound", "cpu_bound", gpus=2,
         why="two ranks, 5 ms of GPU work a step; rank 1 computes 100 ms on the host before each: rank 0 waits for it")
def ddp_slow_rank():
    if len(sys.argv) > 2:
        step = ddp(1, 0.1)
        while True:
            step()
    prepared()
    other = subprocess.Popen([sys.executable, os.path.abspath(__file__), "ddp_slow_rank", "1"], stdin=subprocess.DEVNULL)
    step = ddp(0, 0.1)
    for _ in range(WARM_UP_STEPS):
        step()
    signal.signal(signal.SIGTERM, lambda *_: (other.kill(), os._exit(0)))
    ready()
    while True:
        step()


@program("asleep", why="holds a GPU's memory and sleeps")
def holds_gpu():
    import torch
    a = torch.zeros(1 << 28, device="cuda")
    prepared()
    ready()
    time.sleep(3600)
    print(a[0].item())


@program("cpu_bound", why="tokenises in Python; a kernel now and then")
def tokenise():
    import torch
    a = torch.randn(64, 64, device="cuda")
    words = ["w%d" % i for i in range(5000)]

    def step():
        table = {}
        for w in words * 20:
            table[w] = table.get(w, 0) + 1
        torch.mm(a, a)
    forever(step)


# Labelled "gpu_bound" before the first run, when no class named copies.
@program("copy_bound", why="copies of 1 GiB of pageable memory, each waited for: the copy is the work")
def pageable_copies():
    import torch
    host = torch.zeros(1 << 28)
    forever(lambda: host.cuda())


@program("copy_bound", "gpu_bound", why="copies of 1 GiB of pinned memory, each waited for: the GPU's copy engine is the work")
def pinned_copies():
    import torch
    host = torch.zeros(1 << 28, pin_memory=True)
    forever(lambda: host.cuda())


@program("gil_bound", "lock_bound", why="four Python threads, one of which launches, compute in turn")
def gil_threads():
    import torch
    a = torch.randn(64, 64, device="cuda")

    def spin():
        while True:
            sum(range(1000))
    def step():
        if threading.active_count() < 5:
            for _ in range(4):
                threading.Thread(target=spin, daemon=True).start()
        torch.mm(a, a)
    forever(step)


@program("gpu_bound", why="JAX: a chain of 8192x8192 products, waited for")
def jax_matmul():
    import jax
    import jax.numpy as jnp
    a = jnp.ones((8192, 8192), jnp.bfloat16)
    chain = jax.jit(lambda x: x @ x @ x @ x)
    forever(lambda: chain(a).block_until_ready())


@program("gpu_bound", why="CuPy: a product of 8192x8192 floats, waited for")
def cupy_matmul():
    import cupy
    a = cupy.ones((8192, 8192), dtype=cupy.float32)

    def step():
        cupy.dot(a, a)
        cupy.cuda.Device().synchronize()
    forever(step)


@program("launch_bound", why="CuPy: sums of 64 floats, one kernel each")
def cupy_small():
    import cupy
    a = cupy.ones(64, dtype=cupy.float32)

    def step():
        for _ in range(1000):
            a + a
        cupy.cuda.Device().synchronize()
    forever(step)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
