"""Samplers of eACGM: calls by eBPF, processes on GPUs, GPUs."""

from .base import BaseSampler, BaseSamplerState
from .ebpfsampler import eBPFSampler, eBPFSamplerState
from .gpusampler import GPUSampler, GPUSamplerState
from .nvmlsampler import NVMLSampler, NVMLSamplerState

__all__ = ['BaseSampler', 'BaseSamplerState', 'GPUSampler', 'GPUSamplerState', 'NVMLSampler', 'NVMLSamplerState', 'eBPFSampler',
           'eBPFSamplerState']  # fmt: skip
