#!/usr/bin/env python3
"""Stacks of the probe programs: before Linux 6.13 all functions of a chain of calls share 512 bytes
(kernel/bpf/verifier.c: check_max_stack_depth), and at most eight frames. Kernels since give each its own, so only
this test sees here what an older one refuses.

usage: stack.py FOLDER     where the objects (*.bpf.o) are
"""

import glob
import os
import struct
import sys

MAX_BYTES, MAX_FRAMES = 512, 8
NEWER = ('_session',)  # session links exist since 6.13, too
TEXT, FUNC, SECTION = 4, 2, 3  # SHF_EXECINSTR, STT_FUNC, STT_SECTION


class Object:
    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        offset, size, n = struct.unpack_from('<40xQ10xHH', self.data)[0], *struct.unpack_from('<58xHH', self.data)
        self.sections = [struct.unpack_from('<IIQQQQIIQQ', self.data, offset + i * size) for i in range(n)]
        table = next(s for s in self.sections if s[1] == 2)
        self.symbols = [struct.unpack_from('<IBBHQQ', self.data, table[4] + i * 24) for i in range(table[5] // 24)]
        names = self.sections[table[6]][4]
        self.functions = {}  # (section, offset) -> (name, bytes)
        for name, info, _, section, value, size in self.symbols:
            if info & 15 == FUNC and section < len(self.sections):
                end = self.data.index(b'\0', names + name)
                self.functions[section, value] = self.data[names + name : end].decode(), size
        self.relocations = {}  # (section, offset) -> symbol
        for s in self.sections:
            if s[1] == 9:  # SHT_REL
                for i in range(s[5] // 16):
                    where, info = struct.unpack_from('<QQ', self.data, s[4] + i * 16)
                    self.relocations[s[7], where] = self.symbols[info >> 32]

    def target(self, section, at, imm, in_bytes):
        """The function that an instruction calls or takes the address of."""
        symbol = self.relocations.get((section, at))
        more = imm if in_bytes else (imm + 1) * 8
        if not symbol:
            return section, at + more
        return symbol[3], symbol[4] + (more if symbol[1] & 15 == SECTION else 0)

    def read_function(self, place):
        """Bytes of its stack, and what it calls."""
        section, begin = place
        depth, called, known, at = 0, set(), {10: 0}, begin
        while at < begin + self.functions[place][1]:
            op, registers, off, imm = struct.unpack_from('<BBhi', self.data, self.sections[section][4] + at)
            to, source, kind = registers & 15, registers >> 4, op & 7
            base = source if kind == 1 else to if kind in (2, 3) else None  # BPF_LDX; BPF_ST, BPF_STX
            if base in known:
                depth = max(depth, -(known[base] + off))
            if op == 0x85:  # BPF_CALL
                if source == 1:
                    called.add(self.target(section, at, imm, False))
                known = {r: v for r, v in known.items() if r > 5}
            elif op == 0x18 and source == 4:  # BPF_PSEUDO_FUNC: a step of bpf_loop()
                called.add(self.target(section, at, imm, True))
            elif op == 0xBF and source in known and to != 10:  # a pointer into the stack
                known[to] = known[source]
            elif op == 0x07 and to in known and to != 10:
                known[to] += imm
                depth = max(depth, -known[to])
            elif (kind in (4, 7) or kind in (0, 1)) and to != 10:
                known.pop(to, None)
            at += 16 if op == 0x18 else 8
        return depth, called

    def programs(self):
        """Each function that the kernel runs itself: the longest chain of stacks from it."""
        read = {place: self.read_function(place) for place in self.functions}

        def longest(place, above):
            depth, called = read[place]
            own = (max(depth, 1) + 31) // 32 * 32
            if place in above:
                raise ValueError(f'{self.functions[place][0]} calls itself')
            chains = [longest(c, (*above, place)) for c in called if c in read]
            total, names = max(chains, default=(0, []))
            return own + total, [f'{self.functions[place][0]} ({own})', *names]

        for place, (name, _) in sorted(self.functions.items(), key=lambda f: f[1]):
            if not any(place in called for _, called in read.values()):
                yield name, *longest(place, ())


def main():
    paths = sorted(glob.glob(os.path.join(sys.argv[1], '**', '*.bpf.o'), recursive=True))
    n = failed = 0
    for path in paths:
        for name, total, chain in Object(path).programs():
            n += 1
            if name.endswith(NEWER):
                continue
            if total > MAX_BYTES or len(chain) > MAX_FRAMES:
                failed += 1
                print(f'{os.path.basename(path)}: {total} bytes, {len(chain)} frames: {" > ".join(chain)}')
    print(f'{n} programs of {len(paths)} objects, {failed} with stacks that kernels before 6.13 refuse')
    return 1 if failed or n < 30 else 0


if __name__ == '__main__':
    sys.exit(main())
