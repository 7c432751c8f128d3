"""Samples as files of other programs."""

from .profetto import to_perfetto

__all__ = ['to_perfetto']
