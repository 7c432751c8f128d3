#!/usr/bin/env python3
"""Native stacks: each frame against what libgcc's unwinder saw at the same place."""

import glob
import json
import os
import shutil
import subprocess
import sys

from harness import HERE, Skip, case, main, wait_until
import harness

sys.path.insert(0, os.path.dirname(HERE))

PLAIN, TRUNCATED, PARTIAL = 0, 1, 2


def build(t, name, *flags, source='stack_app.c', compiler='gcc'):
    """Compile a test program; its path."""
    if not shutil.which(compiler):
        raise Skip(f'no {compiler}')
    out = t.path(name)
    done = subprocess.run([compiler, os.path.join(HERE, source), '-o', out, *flags], capture_output=True, text=True)
    if done.returncode:
        raise Skip(f'{compiler} {" ".join(flags)}: {done.stderr.strip()[-200:]}')
    return out


def with_cuda(*flags):
    """Flags of a program that calls the stand-in."""
    fake = harness.fake
    return [*flags, '-rdynamic', os.path.join(fake, 'libcudart.so.13'), '-Wl,-rpath,' + fake]


class Trace:
    """What a .gst file says about stacks."""

    def __init__(self, path):
        gst = os.path.join(os.path.dirname(HERE), 'gst.py')
        text = subprocess.run([sys.executable, gst, path], capture_output=True, text=True, check=True).stdout
        self.records = [json.loads(x) for x in text.splitlines()]
        self.strings = {r['id']: r['text'] for r in self.of('STRING')}
        self.frames = {r['id']: r for r in self.of('FRAME')}
        self.stacks = {r['id']: r for r in self.of('STACK')}
        self.functions = {r['id']: self.strings[r['name_str']] for r in self.of('FUNCTION')}

    def of(self, kind):
        return [r for r in self.records if r['kind'] == kind]

    def calls(self, name):
        return [r for r in self.of('CALL') if self.functions[r['function']] == name]

    def flags(self, record):
        return self.stacks[record['native_stack']]['stack_flags']

    def places(self, record):
        """(file, offset, function) of each frame."""
        stack = self.stacks.get(record['native_stack'])
        if not stack:
            return []
        frames = [self.frames[f] for f in stack['frames']]
        return [(self.strings.get(f['file_str'], ''), f['file_off'], self.strings.get(f['function_str'], ''))
                for f in frames]  # fmt: skip

    def names(self, record):
        return [p[2] for p in self.places(record)]


def record(t, command, *options, **more):
    out = t.path('stacks.gst')
    done = subprocess.run([harness.gpuscope, 'trace', '--stacks', 'native', *options, '-o', out, '--', *command],
                          capture_output=True, text=True, timeout=100, env=t.env, **more)  # fmt: skip
    t.equal(f'exit status ({done.stderr[-300:]})', done.returncode, 0)
    truth = [json.loads(x) for x in done.stdout.splitlines() if x.startswith('{"tag"')]
    trace = Trace(out)
    trace.said = done.stderr
    return trace, truth


def compare(t, trace, truth, whole=True, rename=lambda path: path):
    """Each frame of each stack is where libgcc says it is. A call's frame is told by its last byte, one that a
    signal interrupted by the instruction."""
    calls = trace.calls('cudaMalloc')
    t.equal('stacks', len(calls), len(truth))
    for call, seen in zip(calls, truth):
        tag, frames = seen['tag'], seen['frames']
        got = trace.places(call)
        if not got:
            t.fail(f'{tag}: no stack: {trace.said[-1500:]}')
            continue
        flags = trace.flags(call)
        if tag == 'nested':
            # The truth sees the kernel's trampoline in place of what a traced call returns to, and stops.
            t.equal(tag, [p[2] for p in got[:4]], ['leaf', 'cudaMemset', 'through_memset', 'main'])
            continue
        if tag == 'altstack':
            # The stack that the signal interrupted is another one, and not copied.
            t.equal(f'{tag}: flags', flags, PARTIAL)
        elif flags == PLAIN:
            t.equal(f'{tag}: frames', len(got), len(frames))
        elif whole:
            t.true(f'{tag}: truncated at 128 only', flags == TRUNCATED and len(got) == 128 < len(frames), f'{flags} {len(got)}')
        # The innermost return address is that of another call in the same function.
        t.equal(f'{tag}: innermost function', got[0][2], 'leaf')
        interrupted = False
        for i in range(1, min(len(got), len(frames))):
            path, at, name = got[i]
            want_path, want = frames[i]
            interrupted_next = name == '<signal handler called>'
            fine = (want,) if interrupted else (want - 1,)
            t.true(f'{tag}: frame {i} ({name}) is {path}+{at:#x}, not {want_path}+{want:#x}',
                   rename(want_path) == path and at in fine)  # fmt: skip
            interrupted = interrupted_next
    return {seen['tag']: call for call, seen in zip(calls, truth)}


@case('code without frame pointers')
def omitted(t):
    app = build(t, 'app', '-O2', '-fomit-frame-pointer', *with_cuda())
    trace, truth = record(t, [app], '--stack-bytes', '32K')
    by_tag = compare(t, trace, truth)
    t.equal('flags of plain', trace.flags(by_tag['plain']), PLAIN)
    t.equal('names', trace.names(by_tag['plain'])[:2], ['leaf', 'main'])
    t.equal('recursion', trace.names(by_tag['deep10'])[1:12], ['deep'] * 11)
    t.equal('deep300 is cut', trace.flags(by_tag['deep300']), TRUNCATED)
    t.true('signal', '<signal handler called>' in trace.names(by_tag['signal']))
    t.true('on a stack of its own', '<signal handler called>' in trace.names(by_tag['altstack']))


@case('code with frame pointers, and little of the stack copied')
def pointers(t):
    app = build(t, 'app', '-O0', '-fno-omit-frame-pointer', *with_cuda())
    trace, truth = record(t, [app], '--stack-bytes', '512')
    by_tag = compare(t, trace, truth, whole=False)
    # The copy holds some frames; frame pointers lead on to main().
    t.true('frame pointers lead on', len(trace.places(by_tag['deep60'])) >= 62,
           len(trace.places(by_tag['deep60'])))  # fmt: skip
    t.equal('to main', trace.names(by_tag['deep60'])[62], 'main')


@case('a copy that is too short is told')
def short(t):
    app = build(t, 'app', '-O2', '-fomit-frame-pointer', *with_cuda())
    trace, truth = record(t, [app], '--stack-bytes', '512')
    by_tag = compare(t, trace, truth, whole=False)
    t.equal('flags', trace.flags(by_tag['deep60']), PARTIAL)


@case('other ways to compile')
def compiled(t):
    for flags in (['-O3', '-fno-plt'], ['-Os', '-fcf-protection=full'], ['-O2', '-no-pie', '-Wl,-z,lazy'],
                  ['-O1', '-fuse-ld=gold']):  # fmt: skip
        try:
            app = build(t, 'app', *flags, '-fomit-frame-pointer', *with_cuda())
        except Skip as e:
            t.note(str(e))
            continue
        trace, truth = record(t, [app], '--stack-bytes', '32K')
        compare(t, trace, truth)


@case('a static program, position independent and not')
def static(t):
    for flags in (['-static-pie'], ['-static']):
        app = build(t, 'app', '-O2', '-fomit-frame-pointer', '-DOWN_CUDA', *flags)
        trace, truth = record(t, [app], '--stack-bytes', '32K')
        compare(t, trace, truth)


@case('a library loaded at run time, with names of C++')
def library(t):
    app = build(t, 'app', '-O2', *with_cuda())
    lib = build(t, 'liblayers.so', '-O2', '-shared', '-fPIC', source='stack_library.cc', compiler='g++')
    trace, truth = record(t, [app, lib], '--stack-bytes', '32K')
    by_tag = compare(t, trace, truth)
    names = trace.names(by_tag['library'])
    t.equal('names', [n.replace(' [clone .isra.0]', '') for n in names[:5]], ['leaf', 'gs_test::Layer<char const*, 3>::forward(void (*)(char const*), char const*) const',
                                 'gs_test::hidden(void (*)(char const*), char const*)', 'library_entry', 'main'])  # fmt: skip


def strip_to(t, lib, root, by_link):
    """Part the library from its debug information, which goes below a root by build id or by link."""
    if not shutil.which('objcopy'):
        raise Skip('no objcopy')
    debug = t.path('parted.debug')
    subprocess.run(['objcopy', '--only-keep-debug', lib, debug], check=True)
    if by_link:
        subprocess.run(['objcopy', '--strip-all', f'--add-gnu-debuglink={debug}', lib], check=True)
        return
    text = subprocess.run(['readelf', '-n', lib], capture_output=True, text=True, check=True).stdout
    build_id = [x.split()[-1] for x in text.splitlines() if 'Build ID' in x][0]
    subprocess.run(['strip', '--strip-all', lib], check=True)
    os.makedirs(os.path.join(root, '.build-id', build_id[:2]), exist_ok=True)
    shutil.move(debug, os.path.join(root, '.build-id', build_id[:2], build_id[2:] + '.debug'))


HIDDEN = 'gs_test::hidden(void (*)(char const*), char const*)'


@case('names from a debug file by link, and none without')
def debug_link(t):
    app = build(t, 'app', '-O2', *with_cuda())
    lib = build(t, 'liblayers.so', '-O2', '-shared', '-fPIC', '-fvisibility=hidden', '-Wl,--build-id=none',
                source='stack_library.cc', compiler='g++')  # fmt: skip
    strip_to(t, lib, '', by_link=True)
    trace, truth = record(t, [app, lib], '--stack-bytes', '32K')
    names = trace.names(compare(t, trace, truth)['library'])
    t.equal('with the file', names[2], HIDDEN)
    os.rename(t.path('parted.debug'), t.path('gone.debug'))
    trace, truth = record(t, [app, lib], '--stack-bytes', '32K')
    names = trace.names(compare(t, trace, truth)['library'])
    t.equal('without it', names[2:4], ['', 'library_entry'])
    t.true('told', [r for r in trace.of('LOSS') if r['cause'] == 14])


@case('a debug file by build id in the mount namespace of the process')
def build_id(t):
    if not shutil.which('unshare'):
        raise Skip('no unshare')
    app = build(t, 'app', '-O2', *with_cuda())
    lib = build(t, 'liblayers.so', '-O2', '-shared', '-fPIC', '-fvisibility=hidden', '-Wl,--build-id',
                source='stack_library.cc', compiler='g++')  # fmt: skip
    root = t.path('debug')
    strip_to(t, lib, root, by_link=False)
    os.makedirs('/usr/lib/debug', exist_ok=True)
    script = f'mount --bind {root} /usr/lib/debug && exec "$@"'
    command = ['unshare', '-m', 'sh', '-c', script, 'sh', app, lib]
    trace, truth = record(t, command, '--stack-bytes', '32K')
    t.equal('hidden', trace.names(compare(t, trace, truth)['library'])[2], HIDDEN)


@case('a process in another root')
def chroot(t):
    root = t.path('root')
    app = build(t, 'app', '-O2', '-DOWN_CUDA', '-static-pie')
    os.makedirs(os.path.join(root, 'proc'))
    shutil.copy(app, os.path.join(root, 'other_name'))
    os.unlink(app)
    script = f'mount -t proc proc {root}/proc && exec chroot {root} /other_name'
    trace, truth = record(t, ['unshare', '-m', 'sh', '-c', script], '--stack-bytes', '32K')
    compare(t, trace, truth, rename=lambda path: path)


@case('samples of running code')
def samples(t):
    app = build(t, 'spin', '-O2', '-fomit-frame-pointer', source='stack_spin.c')
    out = t.path('stacks.gst')
    subprocess.run([harness.gpuscope, 'trace', '--stacks', 'native,at=sample', '-o', out, '--', app],
                   capture_output=True, timeout=60, env=t.env)  # fmt: skip
    trace = Trace(out)
    names = [trace.names(r) for r in trace.of('SAMPLE')]
    inside = [n for n in names if 'spin_here' in n]
    t.true('samples', len(names) >= 20, len(names))
    t.true('most of them in the loop', len(inside) * 10 >= len(names) * 8, f'{len(inside)} of {len(names)}')
    for n in inside:
        at = n.index('spin_here')
        t.equal('callers', n[at : at + 3], ['spin_here', 'between', 'main'])


@case('slow operators')
def slow_operators(t):
    out = t.path('slow.gst')
    done = subprocess.run([harness.gpuscope, 'trace', '--layer', 'torch', '--op', 'cos', '--stacks', 'native,at=slow-op',
                           '--python-at', 'slow-op=1ns', '-o', out, '--', os.path.join(harness.fake, 'fake_torch'), '20'],
                          capture_output=True, text=True, timeout=60, env=t.env)  # fmt: skip
    t.equal('status', done.returncode, 0)
    trace = Trace(out)
    stacks = [trace.names(r) for r in trace.of('CALL') if r['native_stack']]
    t.equal('stacks', len(stacks), 20)
    for names in stacks:
        t.equal('the operator is the innermost', 'cos' in names[0] and names[1], 'run')


@case('what cannot be asked for', needs=None)
def errors(t):
    for words in ('nativ', 'native,at=', 'native,at=launch+never', 'native,when=launch'):
        run = t.tool('trace', '--stacks', words, '-o', t.path('x.gst'), '--', 'true', status=2)
        t.match(words, r'--stacks takes native', run.err)
    for size in ('0', '33K', 'x'):
        run = t.tool('trace', '--stack-bytes', size, '--', 'true', status=2)
        t.match(size, r'--stack-bytes takes 512 to 32K', run.err)
    run = t.tool('trace', '--stacks', 'native', '--', 'true', status=2)
    t.match('no file', r'add -o FILE', run.err)


@case('programs of another libc (musl)')
def musl(t):
    for flags in (('-O2',), ('-O0', '-fno-omit-frame-pointer'), ('-O2', '-static')):
        app, out, probes = build(t, 'app', *flags, source='stack_musl.c', compiler='musl-gcc'), t.path('out.gst'), t.path('p.yaml')
        lib = 'exe' if '-static' in flags else 'libc.so'
        with open(probes, 'w') as f:
            f.write(f'- {{lib: {lib}, function: getppid, return: true, stack: native}}\n')
        run = t.trace('--layer', 'user', '--probes', probes, '-o', out, command=[app, '23'])
        t.equal(f'{flags}: calls', run.calls('getppid'), 23)
        stacks = stacks_of(out)
        t.true(f'{flags}: stacks', stacks)
        for _, names in stacks:
            t.equal(f'{flags}: functions', names[:4], ['inner', 'middle', 'outer', 'main'])


def perf_pythons():
    """Interpreters that tell perf of their functions: 3.12 and newer."""
    found = {}
    for program in (shutil.which('python3'), *glob.glob('/usr/bin/python3.*'),
                    *glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3'))):  # fmt: skip
        if not program or 'config' in program:
            continue
        text = 'import sys; print("%d.%d" % sys.version_info[:2], sys.executable); sys.activate_stack_trampoline("perf")'
        done = subprocess.run([program, '-c', text], capture_output=True, text=True)
        if done.returncode == 0:
            version, path = done.stdout.split()
            found[version] = path
    return sorted(found.items(), key=lambda x: int(x[0][2:]))


@case('functions of Python as it tells perf of them', timeout=120)
def perf_maps(t):
    pythons = perf_pythons()
    if not pythons:
        raise Skip('no Python 3.12 or newer that can tell perf')
    script, probes = t.path('perf.py'), t.path('probes.yaml')
    with open(script, 'w') as f:
        # It lives until it has been looked at.
        f.write('import os, sys, time\n'
                'def inner(): return os.getppid()\n'
                'def middle(): return inner()\n'
                'def outer(n):\n'
                '    for i in range(n): middle()\n'
                'outer(50)\n'
                'sys.stdin.read()\n')  # fmt: skip
    with open(probes, 'w') as f:
        f.write('- {name: parent, lib: libc.so.6, function: getppid, return: true, stack: native}\n')
    for version, program in pythons:
        out, folded = t.path(f'{version}.gst'), t.path(f'{version}.folded')
        live = t.start_trace('--layer', 'user', '--probes', probes, '-o', out, '-o', folded,
                             command=[program, '-X', 'perf', script], stdin=subprocess.PIPE)  # fmt: skip

        def seen():
            # The file is written with the first stack's records; its 50 come together.
            return os.path.exists(out) and len(stacks_of(out)) >= 1

        wait_until(seen, 30, 'stacks in the file')
        live.proc.stdin.close()
        live.finish()
        stacks = stacks_of(out)
        t.true(f'{version}: stacks', stacks)
        for flags, names in stacks:
            py = [n.rsplit(':', 1)[0] for n in names if n.startswith('py::')]
            t.equal(f'{version}: functions', py, ['py::inner', 'py::middle', 'py::outer', 'py::<module>'])
            t.equal(f'{version}: to the end', flags, 0)
        t.match(f'{version}: flame graph', r'py::outer:\S*;py::middle:\S*;py::inner:\S*;', harness.read_text(folded))


def stacks_of(path):
    """[(flags, names)] of the native stacks of calls so far."""
    gst = os.path.join(os.path.dirname(harness.HERE), 'gst.py')
    done = subprocess.run([sys.executable, gst, path], capture_output=True, text=True)
    text, frames, stacks = {0: ''}, {}, []
    for line in done.stdout.splitlines():
        r = json.loads(line)
        if r['kind'] == 'STRING':
            text[r['id']] = r['text']
        elif r['kind'] == 'FRAME':
            frames[r['id']] = text[r['function_str']]
        elif r['kind'] == 'STACK':
            stacks.append((r['stack_flags'], [frames[f] for f in r['frames']]))
    return stacks


main()
