"""Programs whose trouble is known by construction, for verdicts.py: verdict_programs.py NAME

Each prepares, prints "ready", and then does the same thing until it is killed. The label of each
stands beside it and was written before the first run.
"""
import sys
import threading
import time

LABELS = {}  # name: (classes that are right, what makes it so)


def program(*classes, why):
    def register(function):
        LABELS[function.__name__] = (classes, why)
        return function
    return register


def ready():
    print("ready", flush=True)


def forever(step):
    step()
    ready()
    while True:
        step()


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
    for _ in range(3):
        step()
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


def resnet(workers, seconds_per_image, batch=64):
    import torch
    import torchvision

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, i):
            end = time.perf_counter() + seconds_per_image
            while time.perf_counter() < end:
                pass
            return torch.zeros(3, 224, 224), 1
    torch.set_num_threads(1)
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = iter(torch.utils.data.DataLoader(Images(), batch_size=batch, num_workers=workers, pin_memory=True))

    def step():
        x, y = next(loader)
        x = x.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()
    for _ in range(3):
        step()
    forever(step)


@program("input_bound", why="one worker computes 10 ms for each of 64 images of a batch")
def resnet_slow_worker():
    resnet(1, 0.010)


@program("gpu_bound", why="8 workers that cost nothing before a step of some 60 ms on the GPU")
def resnet_fast_workers():
    resnet(8, 0.0, batch=256)


@program("input_bound", "cpu_bound", why="no worker: the main thread itself computes 10 ms for each image")
def resnet_no_worker():
    resnet(0, 0.010)


@program("asleep", why="holds a GPU's memory and sleeps")
def holds_gpu():
    import torch
    a = torch.zeros(1 << 28, device="cuda")
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


@program("gil_bound", "lock_bound", why="four Python threads, one of which launches, compute in turn")
def gil_threads():
    import torch
    a = torch.randn(64, 64, device="cuda")

    def spin():
        while True:
            sum(range(1000))
    for _ in range(4):
        threading.Thread(target=spin, daemon=True).start()
    forever(lambda: torch.mm(a, a))


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
