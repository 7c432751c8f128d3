#!/usr/bin/env python3
"""Files that cost their owner nothing and whoever reads them much, beside programs of others: what is
read for them is bounded, what is refused is shown, others are counted exactly, and Ctrl-C works."""

import os
import re
import shutil
import struct
import subprocess
import time

import harness
from harness import case, main

NOBODY = 65534
# Files are mapped executable in turn, "ready" is said, and SIGTERM waited for.
MAP = 'import mmap, os, sys, time\n' \
      'k = [mmap.mmap(os.open(x, 0), 4096, prot=5, flags=2) for x in sys.stdin.read().split()]\n' \
      'print("ready", flush=True); time.sleep(600)'  # fmt: skip


def as_nobody(*words, **more):
    return subprocess.Popen(words, user=NOBODY, group=NOBODY, extra_groups=[], stdout=subprocess.PIPE, text=True,
                            **more)  # fmt: skip


def map_files(*paths):
    """A process of nobody that has mapped them."""
    proc = as_nobody('/usr/bin/python3', '-c', MAP, stdin=subprocess.PIPE, cwd='/')
    proc.stdin.write('\n'.join(paths))
    proc.stdin.close()
    assert proc.stdout.readline() == 'ready\n'
    return proc


def own(t, *names):
    """A folder of nobody's."""
    path = t.path(*names)
    os.makedirs(path)
    os.chmod(t.tmp, 0o755)
    os.chown(path, NOBODY, NOBODY)
    return path


def give(path):
    os.chown(path, NOBODY, NOBODY)
    return path


def header(shoff, n_sections, n_segments=1):
    eh = struct.pack('<16sHHIQQQIHHHHHH', b'\x7fELF\2\1\1', 3, 62, 1, 0, 64, shoff, 0, 64, 56, n_segments, 64,
                     n_sections, 0)  # fmt: skip
    return eh + struct.pack('<IIQQQQQQ', 1, 5, 0, 0, 0, 4096, 4096, 4096)


def section(kind, flags, off, size, link, entry):
    return struct.pack('<IIQQQQIIQQ', 0, kind, flags, 0, off, size, link, 0, 8, entry)


def sparse(path):
    """Symbol tables of 1 GB each and their strings, all holes: 8 KiB on disk."""
    n, base = 1063004160 // 24 * 24, 8192
    with open(path, 'wb') as f:
        f.write(header(4096, 5))
        f.seek(4096)
        f.write(bytes(64) + section(11, 2, base, n, 2, 24) + section(3, 0, base + n, n, 0, 0)
                + section(2, 0, base, n, 4, 24) + section(3, 0, base + n, n, 0, 0))  # fmt: skip
        f.truncate(base + 2 * n)
    return give(path)


def overlapping(t, path):
    """A library with one operator and 60,000 sections of constant data, all of them the same 32 MiB."""
    source, plain = t.path('e.c'), t.path('e.so')
    with open(source, 'w') as f:
        f.write('void _ZN2at13globalContextEv(void){}\nint _ZN2at4_ops7nothing4callEv(int a){return a;}\n')
    subprocess.run(['gcc', '-shared', '-fPIC', '-o', plain, source], check=True)
    with open(plain, 'rb') as f:
        b = bytearray(f.read())
    sh, n0 = struct.unpack_from('<Q', b, 40)[0], struct.unpack_from('<H', b, 60)[0]
    sections = [bytearray(b[sh + 64 * i : sh + 64 * i + 64]) for i in range(n0)]
    symbols = next(s for s in sections if struct.unpack_from('<I', s, 4)[0] == 11)
    strings = sections[struct.unpack_from('<I', symbols, 40)[0]]
    struct.pack_into('<I', symbols, 40, 2)
    off, size, n = (len(b) + 4095) // 4096 * 4096, 32 << 20, 60000
    struct.pack_into('<Q', b, 40, off + size)
    struct.pack_into('<HH', b, 60, n, 0)
    with open(path, 'wb') as f:
        f.write(b)
        f.seek(off + size)
        f.write(bytes(64) + symbols + strings + section(1, 2, off, size, 0, 1) * (n - 3))
    return give(path)


def kib_read(run):
    return int(re.search(r'files of traced programs: (\d+) KiB read', run.err).group(1))


def anon_kib(pid):
    return int(re.search(r'RssAnon:\s+(\d+) kB', harness.read_text(f'/proc/{pid}/status')).group(1))


def most_kib(pid):
    return int(re.search(r'VmHWM:\s+(\d+) kB', harness.read_text(f'/proc/{pid}/status')).group(1))


@case('holes of 1 GB as tables of symbols cost nothing', timeout=60)
def holes(t):
    target = map_files(sparse(os.path.join(own(t, 'p4'), 'libcuda.so.1')))
    run = t.trace('-v', '-p', str(target.pid), '--duration', '0.2', status=None)
    t.true('bytes read', kib_read(run) < 16 << 10, kib_read(run))
    run = t.tool('job', '-p', str(target.pid), '--duration', '1', status=0)
    t.match('report of the job', r'no readable library of CUDA or NCCL is loaded', ' '.join(run.out.split()))


@case('a recorder in the background ends beside such a file', timeout=60)
def recorder(t):
    target = map_files(sparse(os.path.join(own(t, 'p4'), 'libcuda.so.1')))
    t.tool('job', '-p', str(target.pid), '--detach', t.path('pid'), '-o', t.path('r.json'), status=0)
    t.tool('job', '--stop', t.path('pid'), status=0)
    t.true('report', os.path.getsize(t.path('r.json')) > 0)


@case('sections that share their bytes are refused', timeout=60)
def overlap(t):
    target = map_files(overlapping(t, os.path.join(own(t, 'p5'), 'libtorch_cpu.so')))
    run = t.trace('-v', '-p', str(target.pid), '--layer', 'torch', '--duration', '0.2', status=None)
    t.match('refused', 'malformed', str(run.summary['attach_failures']))
    t.true('bytes read', kib_read(run) < 128 << 10, kib_read(run))


RACE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	struct stat st;
	int fd = open("libcuda.so.1", O_RDONLY);

	mkfifo("fifo", 0666);
	if (fd < 0 || fstat(fd, &st) < 0 || mmap(0, st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		syscall(SYS_renameat2, AT_FDCWD, "libcuda.so.1", AT_FDCWD, "fifo", 2 /* RENAME_EXCHANGE */);
}
"""


@case('a FIFO in the place of a library does not hold the tracer', timeout=60)
def fifo(t):
    folder, source = own(t, 'p6'), t.path('race.c')
    with open(source, 'w') as f:
        f.write(RACE)
    subprocess.run(['gcc', '-O1', '-o', t.path('race'), source], check=True)
    shutil.copy(os.path.join(harness.fake, 'libcuda.so.999.0'), os.path.join(folder, 'libcuda.so.1'))
    target = as_nobody(t.path('race'), cwd=folder)
    assert target.stdout.readline() == 'ready\n'
    for _ in range(4):
        t.trace('-p', str(target.pid), '--layer', 'cuda', '--duration', '0.1', status=None, timeout=20)


def copies(t, n):
    """n small libraries that pass for the driver's."""
    folder, source, first = own(t, 'many'), t.path('small.c'), t.path('small.so')
    with open(source, 'w') as f:
        f.write('int cuInit(int n){return n;} int cuLaunchKernel(int n){return n+1;} int cuCtxSynchronize(void){return 0;}')
    subprocess.run(['gcc', '-O1', '-shared', '-fPIC', '-o', first, source], check=True)
    paths = []
    for i in range(n):
        os.mkdir(os.path.join(folder, str(i)))
        paths.append(os.path.join(folder, str(i), 'libcuda.so.1'))
        shutil.copyfile(first, paths[-1])
        os.chmod(paths[-1], 0o755)
        give(paths[-1])
    return paths


@case('beside 1,500 copies of a library others are counted exactly', timeout=120)
def many(t):
    folder = own(t, 'worse')
    hostile = [map_files(*copies(t, 1500)),
               map_files(sparse(os.path.join(folder, 'libcuda.so.1')),
                         overlapping(t, os.path.join(folder, 'libtorch_cpu.so')))]  # fmt: skip
    app = t.start_app('cudaLaunchKernel=101', 'cuMemAlloc_v2=31', 'ncclCommInitRank=13')
    live = t.start_trace('-a')
    for library in ('libcudart', 'libcuda', 'libnccl'):
        live.wait_err(rf'{re.escape(harness.fake)}/{library}[^ ]*: [0-9]+ probes')
    app.let_go()
    line = app.result()[0]
    live.wait_err('refused: files beyond those that one user may have probed', 60)
    t.true('memory', anon_kib(live.pid) < 64 << 10, anon_kib(live.pid))
    # With what is mapped of the kernel's: the ring twice, counters and threads as far as they are in use.
    t.true('all memory', harness.is_asan() or most_kib(live.pid) < 64 << 10, most_kib(live.pid))
    t.true('still traces', live.proc.poll() is None)
    live.interrupt()
    run = live.finish()
    t.equal('status', run.status, 0)
    own_row = [p for p in run.summary['processes'] if p['pid'] == app.pid]
    t.equal('rows of the honest process', len(own_row), 1)
    got = {f['name']: f['calls'] for f in own_row[0]['functions'] if f['calls']} if own_row else {}
    t.equal('calls', got, {k: f['calls'] for k, f in line['functions'].items()})
    placed = len(re.findall(rf'^.*{re.escape(t.tmp)}/many/\d+/libcuda\.so\.1: \d+ probes', run.err, re.M))
    t.true('files of one user with probes', 0 < placed <= 256, placed)
    # Those that found no place were refused, or the end came before their turn; of some the notice may be lost.
    t.true('refused', sum(run.lost(x) for x in ('refused', 'late_attach', 'map_notices')) >= 1500 - 256, run.summary['lost'])
    t.true('bytes read', kib_read(run) < 256 << 10, kib_read(run))
    t.true('hostile ones live', all(p.poll() is None for p in hostile))


DEEP = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	char name[32];
	int first = open("f", O_RDONLY);

	/* Memory that nothing is read of, under so many names of one file. */
	for (int i = 0; i < 60000; i++) {
		int fd;

		snprintf(name, sizeof(name), "n%d", i);
		if (link("f", name) < 0 && access(name, F_OK) < 0)
			snprintf(name, sizeof(name), "f");
		fd = open(name, O_RDONLY);
		mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd < 0 ? first : fd, 0);
		close(fd);
	}
	for (int i = 0; i < 31; i++)
		if (fork() == 0)
			break;
	puts("ready");
	fflush(stdout);
	pause();
}
"""


def asks_by_query():
    """Whether the kernel is asked for executable mappings alone (PROCMAP_QUERY), which makes these cheap."""
    return tuple(int(n) for n in re.findall(r'\d+', os.uname().release)[:2]) >= (6, 11)


@case('beside processes of 60,000 mappings others are counted exactly: these have a share of processor time', timeout=300)
def mappings(t):
    source, folder = t.path('deep.c'), own(t, 'names')
    with open(source, 'w') as f:
        f.write(DEEP)
    subprocess.run(['gcc', '-O1', '-o', t.path('deep'), source], check=True)
    for _ in range(30):
        folder = own(t, os.path.join(folder, 'a' * 100))
    with open(os.path.join(folder, 'f'), 'wb') as f:
        f.write(bytes(4096))
    target = as_nobody(t.path('deep'), cwd=folder, start_new_session=True)
    try:
        assert [target.stdout.readline() for _ in range(32)] == 32 * ['ready\n']
        app = t.start_app('cudaLaunchKernel=101', 'cuMemAlloc_v2=31')
        live = t.start_trace('-a', '-v', '--layer', 'cuda')
        # Ten seconds of a processor and what grows back meanwhile: long for a tracer that seldom has one.
        if not asks_by_query():
            live.wait_err('refused: files and processes of a user whose share of processor time is used up', 100)
        for library in ('libcudart', 'libcuda'):
            live.wait_err(rf'{re.escape(harness.fake)}/{library}[^ ]*: [0-9]+ probes')
        app.let_go()
        line = app.result()[0]
        live.interrupt()
        run = live.finish()
        t.equal('status', run.status, 0)
        rows = [p for p in run.summary['processes'] if p['pid'] == app.pid]
        got = {f['name']: f['calls'] for p in rows for f in p['functions'] if f['calls']}
        t.equal('calls', got, {k: f['calls'] for k, f in line['functions'].items()})
        # Where the kernel is asked for each mapping, a fast machine gets through them within the share.
        told = 'refused: files and processes of a user whose share of processor time is used up' in run.err
        t.equal('what is refused is said', run.lost('refused') > 0, told)
        t.true('as text they use up their share', told or asks_by_query(), run.summary['lost'])
    finally:
        os.killpg(target.pid, 9)


@case('Ctrl-C ends it at once beside 1,500 copies', timeout=60)
def interrupted(t):
    map_files(*copies(t, 1500))
    live = t.start_trace('-a', '--stacks', 'native', '-o', 't.gst')
    live.wait_err(r'/many/\d+/libcuda\.so\.1: \d+ probes')
    live.interrupt()
    before = time.monotonic()
    run = live.finish(20)
    t.note(f'{time.monotonic() - before:.2f} s')
    t.true('the end', time.monotonic() - before < 10 * harness.PATIENCE)
    t.equal('status', run.status, 0)


JIT = r"""
import ctypes, mmap, os, struct, sys, time
lib = ctypes.CDLL(sys.argv[1])
at = ctypes.cast(lib.cuLaunchKernel, ctypes.c_void_p).value
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
page.write(b'\x48\x83\xec\x08\x48\xb8' + struct.pack('<Q', at) + b'\xff\xd0\x48\x83\xc4\x08\xc3')
call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("ready", flush=True)
while True:
    call(0, 0, 0, 0, 0, 0)
    time.sleep(0.02)
"""


@case('one map of generated code under ten names is kept once', timeout=90)
def perf_maps(t):
    library = os.path.join(harness.fake, 'libcuda.so.999.0')
    os.chmod(t.tmp, 0o755)
    targets = [as_nobody('/usr/bin/python3', '-c', JIT, library, cwd='/') for _ in range(10)]
    maps = [f'/tmp/perf-{p.pid}.map' for p in targets]
    try:
        for path in maps:  # of programs long ended that had these ids
            if os.path.lexists(path):
                os.unlink(path)
        with open(maps[0], 'w') as f:
            for i in range(1, 700000):
                f.write(f'{i * 16:x} 10 a_function_of_generated_code_number_{i:07}\n')
        give(maps[0])
        for path in maps[1:]:
            os.link(maps[0], path)
        for p in targets:
            assert p.stdout.readline() == 'ready\n'
        live = t.start_trace('-p', ','.join(str(p.pid) for p in targets), '--stacks', 'native', '-o', 't.folded')
        live.wait_err(r'libcuda[^ ]*: [0-9]+ probes')
        time.sleep(1.5)
        t.true('memory', anon_kib(live.pid) < 64 << 10, anon_kib(live.pid))
        live.interrupt()
        run = live.finish()
        t.true('names refused', run.lost('refused') >= 1, run.summary['lost'])
        t.true('calls', run.calls('cuLaunchKernel') > 10)
        t.true('bytes read', kib_read(run) < 256 << 10, kib_read(run))
    finally:
        for path in maps:
            if os.path.exists(path):
                os.unlink(path)


@case('no checksum is taken of a debug file of any length', timeout=60)
def debug_link(t):
    folder = own(t, 'p14')
    program, debug = os.path.join(folder, 'app'), os.path.join(folder, 'app.debug')
    shutil.copy(os.path.join(harness.fake, 'fake_app'), program)
    subprocess.run(['objcopy', '--only-keep-debug', program, debug], check=True)
    subprocess.run(['objcopy', '--strip-all', '--remove-section=.note.gnu.build-id', program], check=True)
    subprocess.run(['objcopy', f'--add-gnu-debuglink={debug}', program], check=True)
    os.truncate(debug, 3900000000)
    give(debug)
    run = t.trace('-v', '--stacks', 'native', '-o', 't.folded', command=[program, 'cudaLaunchKernel=20'],
                  env={'LD_LIBRARY_PATH': harness.fake})  # fmt: skip
    t.equal('calls', run.calls('cudaLaunchKernel'), 20)
    t.true('bytes read', kib_read(run) < 256 << 10, kib_read(run))
    t.match('refused', 'debug files that are not trusted', run.err)


@case('a probe file of 100,000 brackets is refused at once', timeout=30, needs=None)
def deep(t):
    with open(t.path('deep.yaml'), 'w') as f:
        f.write('probes: ' + '[' * 100000)
    run = t.tool('trace', '--probes', t.path('deep.yaml'), '--', 'true', status=2, timeout=10)
    t.match('why', 'nested more than 32 levels deep', run.err)


if __name__ == '__main__':
    main()
