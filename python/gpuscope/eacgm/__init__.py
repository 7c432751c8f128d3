"""eACGM's classes over gpuscope: `from eacgm.bpf import BccBPF` becomes `from gpuscope.eacgm.bpf import BccBPF`, and so on.

Nothing is compiled and BCC is not needed. doc/python.md says what differs from eACGM.
"""
