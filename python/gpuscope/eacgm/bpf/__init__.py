"""Where events come from: BccBPF, which understands the texts that are written for BCC."""

from .base import BaseBPF, BPFState
from .bccBPF import BccBPF
from .text import TextError

__all__ = ['BPFState', 'BaseBPF', 'BccBPF', 'TextError']
