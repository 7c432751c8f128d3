#!/usr/bin/env python3
"""Texts of eBPF programs in eACGM's form: what is read from them, what is refused, and how its events are paired."""

import re

import package_help  # noqa: F401
from harness import case, main

from gpuscope.eacgm.bpf import BccBPF, BPFState, TextError
from gpuscope.eacgm.bpf.text import evaluate, known_arguments, parse
from gpuscope.eacgm.collector import to_perfetto
from gpuscope.eacgm.sampler import BaseSamplerState, GPUSamplerState, eBPFSamplerState

TIME = 'bpf_ktime_get_ns()'


def program(body, arguments='struct pt_regs *ctx'):
    return f'#include <uapi/linux/ptrace.h>\nint fooEntry({arguments}) {{ {body} return 0; }};\n'


def first(text):
    return next(iter(parse(text).values()))


def value(text, **known):
    """Of an expression of a text."""
    p = first(program(f'bpf_trace_printk("%ld@start@foo@%ld\\n", {TIME}, {text});'))
    return evaluate(p.values[0], known)[0]


@case('a program: its phase, name, arguments', needs=None)
def reads_program(t):
    p = first(program(f'u64 ts = {TIME}; u64 n = PT_REGS_PARM2(ctx); /* no */ // if (n)\n'
                      'bpf_trace_printk("%ld@start@my name@n=%d@%lx@100%%\\\\n", ts, n, n + 1);'))  # fmt: skip
    t.equal('form', (p.name, p.phase, p.event, p.formats, p.inputs()), ('fooEntry', 'start', 'my name', ['%d', '%lx'], ['arg2']))
    t.equal('shown', p.arguments([-5, 255]), ['n=-5', 'ff', '100%'])
    t.equal('not known', p.arguments([None, 1])[0], 'n=-')
    spaces = first(program(f'bpf_trace_printk("%ld end foo %u\\n", {TIME}, PT_REGS_RC(ctx));'))
    t.equal('blanks', (spaces.phase, spaces.event, spaces.inputs()), ('end', 'foo', ['ret']))
    extra = first(program(f'bpf_trace_printk("%ld@start@foo@%lu\\n", {TIME}, size);', 'struct pt_regs *ctx, void *p, size_t size'))
    t.equal('parameters of the function', extra.inputs(), ['arg2'])
    t.equal('registers', first(program(f'bpf_trace_printk("%ld@start@foo@%ld\\n", {TIME}, ctx->r8);')).inputs(), ['arg5'])


@case('expressions have the values that C gives them', needs=None)
def expressions(t):
    wanted = {
        '1 + 2 * 3': 7, '(1 + 2) * 3': 9, '7 / 2': 3, '-7 / 2': -3, '-7 % 3': -1, '1 << 40': 1 << 40 & 0xFFFFFFFF and 0,
        '1UL << 40': 1 << 40, '(u32)0x1ffffffff': 0xFFFFFFFF, '(s8)255': -1, '~0': -1, '~0U': 0xFFFFFFFF, '!5': 0, '3 > 2 && 1': 1,
        '010': 8, '0xffffffff + 1': 0, '4294967295 + 1': 1 << 32, '5 / 0': 0, '1 | 6 & 3': 3, '2 == 2': 1, '-1 > 0U': 1,
    }  # fmt: skip
    for text, number in wanted.items():
        t.equal(text, value(text), number)
    big = (1 << 64) - 1
    t.equal('a 64-bit argument', value('PT_REGS_PARM1(ctx) * 8', arg1=1 << 40), 1 << 43)
    t.equal('its wrap', value('PT_REGS_PARM1(ctx) + 1', arg1=big), 0)
    t.equal('signed', value('(s64)PT_REGS_PARM1(ctx)', arg1=big), -1)
    p = first(program(f'u32 low = PT_REGS_PARM1(ctx); low += 1; bpf_trace_printk("%ld@start@foo@%u\\n", {TIME}, low);'))
    t.equal('a variable of 32 bits', evaluate(p.values[0], {'arg1': big})[0], 0)


@case('what is not understood is refused with one line that says what is', needs=None)
def refusals(t):
    message = f'bpf_trace_printk("%ld@start@foo\\n", {TIME});'
    texts = {
        'BPF_HASH(start, u32);': 'BPF_HASH is of BCC',
        '#define N 3\n': 'only #include is',
        'int x = 3;': 'x is no function',
        program('if (1) return 0; ' + message): "'if' is not understood",
        program(message * 2): 'more than one message',
        program('u64 x = 1;'): 'it prints no message',
        program('u64 x = bpf_get_current_task();' + message): 'bpf_get_current_task() is not understood',
        program(f'bpf_trace_printk("%ld@begin@foo\\n", {TIME});'): 'does not have the form',
        program(f'bpf_trace_printk("%ld@start@%s\\n", {TIME}, ctx->di);'): 'conversion %s',
        program('bpf_trace_printk("hello\\n");'): 'does not begin with the time',
        program(f'bpf_trace_printk("%ld@start@foo@%d\\n", {TIME});'): '2 conversions for 1 values',
        program('bpf_trace_printk("%ld@start@foo\\n", 3);'): 'does not have the time',
        program('y = 3;' + message): "'y' is not declared",
        program('u64 y;' + f'bpf_trace_printk("%ld@start@foo@%d\\n", {TIME}, y);'): "'y' has no value",
        program('return 0; ' + message): 'after its return',
        'int fooEntry(struct pt_regs *ctx) { ' + message: 'its } is missing',
        program(message) * 2: 'two functions fooEntry',
        'int foo@': "'@' is not understood",
        program(f'bpf_trace_printk("%ld@start@foo@%d\\n", {TIME}, ctx->ip);'): 'ip is not an argument',
    }  # fmt: skip
    for text, why in texts.items():
        try:
            BccBPF('x', text, ['-w'])
            t.fail(f'{text!r} is accepted')
        except TextError as e:
            t.match(text, re.escape(why), str(e))
            t.true('one line, what is supported', '\n' not in str(e) and 'supported' in str(e), str(e))
    for flags in (['-DX=1'], ['-w', '--include=x']):
        try:
            BccBPF('x', program(message), flags)
            t.fail(f'{flags} are accepted')
        except TextError as e:
            t.match('flags', 'cflags', str(e))


@case('arguments that eACGM\'s texts mean are known; others count as they stand', needs=None)
def meanings(t):
    def known(name, formats, values, event=None):
        body = f'bpf_trace_printk("%ld@start@{event or name}{formats}\\n", {values});'
        return known_arguments(first(f'int {name}Entry(struct pt_regs *ctx) {{ {body} return 0; }}'))

    p = 'PT_REGS_PARM{}(ctx)'.format
    t.equal('times 8', known('ncclAllReduce', '@%ld', f'{TIME}, {p(3)} * 8'), ['bytes'])
    t.equal('a count alone', known('ncclAllReduce', '@%ld', f'{TIME}, {p(3)}'), None)
    t.equal('a copy without its size', known('cudaMemcpy', '@%ld@%ld', f'{TIME}, {p(4)}'), ['bytes', 'kind'])
    t.equal('time and pointer exchanged', known('cudaFree', '@%ld', f'{p(1)}, {TIME}'), ['pointer'])
    t.equal('threads of a launch', known('cudaLaunchKernel', '@%u', f'{TIME}, ({p(2)} & 0xFFFF) * ({p(4)} >> 32)'), ['threads'])
    t.equal('another value of a launch', known('cudaLaunchKernel', '@%lx', f'{TIME}, {p(1)}'), None)
    t.equal('another value of an allocation', known('cudaMalloc', '@%ld@%ld', f'{TIME}, {p(2)}, {p(2)} + 1'), None)
    t.equal('another function', known('ncclAllReduce', '@%ld', f'{TIME}, {p(3)} * 8', 'mine'), None)


def state(at, phase, name, pid=1, tid=1):
    s = eBPFSamplerState()
    s.task, s.pid, s.tid, s.cpu, s.timestamp, s.message = 'x', pid, tid, 0, at, [phase, name]
    return s


@case('nested calls of the same function keep their ends; those without one are left out', needs=None)
def pairs(t):
    states = [state(10, 'start', 'TorchAdd'), state(20, 'start', 'TorchAdd'), state(30, 'end', 'TorchAdd'), state(40, 'end', 'TorchAdd'),
              state(12, 'start', 'cudaFree'), state(14, 'end', 'cudaFree'), state(15, 'start', 'TorchAdd', tid=2),
              state(16, 'end', 'cudaMalloc'), BaseSamplerState(), state(35, 'end', 'TorchAdd', pid=2, tid=2)]  # fmt: skip
    events = to_perfetto(states[::-1])
    t.equal('events', [(e['ph'], e['name'], e['ts'], e['tid']) for e in events],
            [('B', 'TorchAdd', 0.01, 1), ('B', 'cudaFree', 0.012, 1), ('E', 'cudaFree', 0.014, 1), ('B', 'TorchAdd', 0.02, 1),
             ('E', 'TorchAdd', 0.03, 1), ('E', 'TorchAdd', 0.04, 1)])  # fmt: skip
    t.equal('keys', sorted(events[0]), sorted(['name', 'cat', 'pid', 'tid', 'cpu', 'ts', 'ph', 'message']))
    names = {'cudaFree': 'cuda', 'PyObject_Call': 'python', 'ncclSend': 'nccl', 'TorchAdd': 'torch', 'write': 'other', 'ncclPy': 'python'}
    t.equal('categories', {n: state(1, 'start', n).collect()['cat'] for n in names}, names)


@case('values of GPUs are counters beside the calls', needs=None)
def counters(t):
    gpu = GPUSamplerState()
    gpu.gpu, gpu.sm, gpu.usedMem, gpu.timestamp = 1, 40, 7, 5000
    found = to_perfetto([gpu, state(1000, 'start', 'foo'), state(9000, 'end', 'foo')])
    t.equal('events', [(e['ph'], e['ts'], e.get('args')) for e in found],
            [('B', 1.0, None), ('C', 5.0, {'value': 40}), ('C', 5.0, {'value': 7}), ('E', 9.0, None)])  # fmt: skip


@case('states as eACGM shows them', needs=None)
def states(t):
    empty = BPFState()
    t.equal('none', (empty.is_none(), repr(empty)), (True, 'BPFState None None None None None'))
    t.equal('one line', repr(state(5, 'start', 'foo')), "eBPFSamplerState x 1 0 5 ['start', 'foo']")


@case('any bytes are read or refused', needs=None)
def any_text(t):
    import random

    random.seed(7)
    words = ['int', 'fooEntry', '(', ')', '{', '}', 'struct', 'pt_regs', '*', 'ctx', 'u64', '=', ';', '"%ld@start@a\\n"', ',', '->', 'di',
             'bpf_trace_printk', TIME, 'return', '0', '+', 'PT_REGS_PARM1', '\n', '#include <x>', '"', '\\', '/*', '//', 'é', '(u32)']  # fmt: skip
    for _ in range(3000):
        text = ' '.join(random.choices(words, k=random.randint(1, 40)))
        try:
            parse(text)
        except TextError:
            pass
    for text in ('u64 x = ' + '(' * 50000 + ';', 'u64 x = ' + '-' * 50000 + '1;', 'u64 x = 1' + '+1' * 50000 + ';',
                 'u64 x = 1; ' + 'x = x + x;' * 100, 'u64 x = 1; ' + 'x += x;' * 100):  # fmt: skip
        try:
            parse(program(text))
            t.fail(f'{text[:30]} is accepted')
        except TextError as e:
            t.match('deep', 'too deep|too large', str(e))


main()
