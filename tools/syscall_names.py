#!/usr/bin/env python3
"""Writes C tables of the names of system calls (both x86 numberings) and of io_uring's operations,
out of the C library's kernel headers.

usage: tools/syscall_names.py UNISTD_64 UNISTD_32 IO_URING > work_names.h
"""
import re
import sys


def unistd(path):
    with open(path, encoding='ascii') as f:
        return {int(n): name for name, n in re.findall(r'#define __NR_(\w+)\s+(\d+)', f.read())}


def operations(path):
    with open(path, encoding='ascii') as f:
        text = f.read()
    body = re.search(r'IORING_OP_NOP\s*(?:=\s*0)?,(.*?)IORING_OP_LAST', text, re.S).group(1)
    body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
    return {i: name for i, name in enumerate(['NOP'] + re.findall(r'IORING_OP_(\w+)', body))}


def table(name, words):
    rows = '\n'.join(f'\t[{n}] = "{w}",' for n, w in sorted(words.items()) if n < 65536)
    return f'static const char *const {name}[] = {{\n{rows}\n}};\n'


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print('/* Written by tools/syscall_names.py. */')
    print(table('names_64', unistd(sys.argv[1])))
    print(table('names_32', unistd(sys.argv[2])))
    print(table('names_uring', operations(sys.argv[3])))


if __name__ == '__main__':
    main()
