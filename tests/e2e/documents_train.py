#!/usr/bin/env python3
"""The train.py of documents: a training loop whose steps load, compute and wait, on the stand-in of the CUDA runtime.

DOCUMENTS_SECONDS: how long (1). DOCUMENTS_TORCH: the forward pass is PyTorch's, on the processor.
DOCUMENTS_STEP_MS: how long loading a batch takes (2).
"""
import ctypes
import os
import time

torch = __import__('torch') if os.environ.get('DOCUMENTS_TORCH') else None
cuda = ctypes.CDLL('libcudart.so.13')
cuda.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
cuda.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
COPY_TO_DEVICE = 1
BATCH = ctypes.create_string_buffer(1 << 16)


def load():
    time.sleep(float(os.environ.get('DOCUMENTS_STEP_MS', '2')) / 1e3)


def forward(layer, batch):
    return layer(batch) if layer is not None else sum(i * i for i in range(2000))


def main():
    memory = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(memory), len(BATCH))
    layer, batch = (torch.nn.Linear(64, 64), torch.ones(8, 64)) if torch else (None, None)
    end = time.monotonic() + float(os.environ.get('DOCUMENTS_SECONDS', '1'))
    while time.monotonic() < end:
        load()
        cuda.cudaMemcpy(memory, BATCH, len(BATCH), COPY_TO_DEVICE)
        forward(layer, batch)
        cuda.cudaDeviceSynchronize()


main()
