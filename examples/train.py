#!/usr/bin/env python3
"""A small but complete PyTorch training loop, to have something to trace.

A language model of four transformer layers learns to continue sequences of a toy grammar: batches
come from pinned host memory, the forward pass runs in mixed precision, gradients are clipped,
AdamW takes the step, a checkpoint is copied to the host now and then. With two GPUs or more it
runs one process for each of two, which average their gradients by NCCL.

    gpuscope trace -o demo.pftrace -- python3 examples/train.py --seconds 5
"""
import argparse
import os
import sys
import tempfile
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("train.py: PyTorch is not installed for " + sys.executable)

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 512, 128, 256, 4, 4, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        x = self.tokens(x) + self.places
        return self.head(self.layers(x, mask=self.mask, is_causal=True))


def batches(seed):
    """Endless batches in pinned memory: each sequence counts on by a step of its own."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.arange(LENGTH + 1)
    while True:
        start = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        step = torch.randint(1, 8, (BATCH, 1), generator=generator)
        yield ((start + step * places) % VOCABULARY).pin_memory()


def average_gradients(model, n_ranks):
    """One all-reduce over all gradients, as one flat block."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in gradients])
    torch.distributed.all_reduce(flat)
    flat /= n_ranks
    for g, part in zip(gradients, flat.split([g.numel() for g in gradients])):
        g.copy_(part.view_as(g))


def all_have_time(deadline, n_ranks, device):
    """Whether to go on, the same answer in every rank."""
    left = torch.tensor([deadline - time.monotonic()], device=device)
    if n_ranks > 1:
        torch.distributed.all_reduce(left, op=torch.distributed.ReduceOp.MIN)
    return left.item() > 0


def train(rank, n_ranks, meeting_file, seconds):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    if n_ranks > 1:
        torch.distributed.init_process_group("nccl", init_method="file://" + meeting_file,
                                             rank=rank, world_size=n_ranks)
    torch.manual_seed(1)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    source = batches(rank)
    deadline, n_steps, loss = time.monotonic() + seconds, 0, None
    begin = time.monotonic()
    while n_steps % 20 or all_have_time(deadline, n_ranks, device):
        data = next(source).to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            scores = model(data[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1), data[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        if n_ranks > 1:
            average_gradients(model, n_ranks)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        n_steps += 1
        if n_steps % 100 == 0:
            checkpoint = {k: v.cpu() for k, v in model.state_dict().items()}
            if rank == 0:
                print(f"step {n_steps}: loss {loss.item():.3f}, "
                      f"checkpoint of {len(checkpoint)} tensors", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"rank {rank} of {n_ranks}: {n_steps} steps in {took:.1f} s, loss {loss.item():.3f}",
          flush=True)
    if n_ranks > 1:
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description="a small PyTorch training loop")
    parser.add_argument("--seconds", type=float, default=5, help="how long to train (default 5)")
    parser.add_argument("--ranks", type=int, help="processes, one for each GPU (default 2 at most)")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("train.py: PyTorch finds no GPU")
    n_gpus = torch.cuda.device_count()
    n_ranks = args.ranks or min(2, n_gpus)
    if not 1 <= n_ranks <= n_gpus:
        parser.error(f"--ranks takes 1 to {n_gpus}: that many GPUs are here")
    if args.seconds <= 0:
        parser.error("--seconds takes more than 0")
    print(f"training on {n_ranks} of {n_gpus} x {torch.cuda.get_device_name()}, "
          f"PyTorch {torch.__version__}", flush=True)
    if n_ranks == 1:
        train(0, 1, None, args.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (n_ranks, os.path.join(folder, "meeting"), args.seconds),
                                    nprocs=n_ranks)


if __name__ == "__main__":
    main()
