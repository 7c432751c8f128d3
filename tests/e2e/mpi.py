#!/usr/bin/env python3
"""MPI: what a program did, as it counted itself, is what a trace of its ranks says."""

import csv
import glob
import json
import os
import re
import shutil
import subprocess

import harness
import slurm_help
from harness import HERE, Skip, case, main, wait_until

# Name, compiler, and how ranks are started.
OPEN_MPI = ('mpicc.openmpi', ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '-n'])
MPICH = ('mpicc.mpich', ['mpirun.mpich', '-n'])
WORLD = '0x44000000'  # of MPICH


def build(t, kind, source='self_count.c', extra=()):
    compiler, launcher = kind
    for tool in (compiler, launcher[0]):
        if not shutil.which(tool):
            raise Skip(f'{tool} is not installed (tools/deps.sh --check)')
    program = t.path('program')
    subprocess.run([compiler, '-O1', '-o', program, os.path.join(HERE, '..', 'mpi', source), *extra], check=True,
                   timeout=120)  # fmt: skip
    return program, launcher


def linked_in(kind):
    """Arguments that put MPI into the program itself: its archive, and the libraries that the shared one needs."""
    show = subprocess.run([kind[0], '-show'], capture_output=True, text=True).stdout if shutil.which(kind[0]) else ''
    for archive in glob.glob('/usr/lib/*/libmpich.a') if '-lmpich' in show else []:
        ldd = subprocess.run(['ldd', archive[:-1] + 'so'], capture_output=True, text=True).stdout
        needed = [line.split()[2] for line in ldd.splitlines() if ' => /' in line and '/libc.so' not in line]
        return [word for word in show.split()[1:] if word != '-lmpich'] + [archive, *needed]
    raise Skip('no libmpich.a (package libmpich-dev)')


def build_linked_in(t, kind, extra=()):
    """A program that has no library of MPI."""
    archive = linked_in(kind)
    program, launcher = build(t, ('gcc', kind[1]), extra=[*archive, *extra])
    ldd = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
    t.true('no library of MPI', 'libmpi' not in ldd, ldd)
    return program, launcher


def build_init_thread(t, kind):
    """The same where of the functions that begin MPI only MPI_Init_thread is in it."""
    return build_linked_in(t, kind, ('-DINIT_THREAD',))


def build_stripped(t, kind):
    return build_linked_in(t, kind, ('-s',))


# Open MPI inside of a program: a stand-in, and what tests/mpi/open_mpi_inside.c does after MPI_Init.
ALONE = ('gcc', ['sh', '-c', 'shift; exec "$@"', 'sh'])
INSIDE = {'MPI_Comm_rank': (1, 0), 'MPI_Comm_size': (1, 0), 'MPI_Send': (12, 4 * 28 + 8 * 15), 'MPI_Barrier': (1, 0),
          'MPI_Finalize': (1, 0)}  # fmt: skip


def build_open_mpi_inside(t, kind, extra=()):
    return build(t, kind, 'open_mpi_inside.c', extra)


def hidden_reason(name):
    return (f'it has {name} inside and no symbols: its calls of MPI cannot be seen; '
            "do not strip it (the linker's -s does), or link MPI as a library")  # fmt: skip


def environment(t):
    # Ranks of one machine; no network, no ssh.
    return t.envs({'OMPI_MCA_btl': 'self,vader', 'OMPI_MCA_plm_rsh_agent': '/bin/false', 'TMPDIR': t.tmp})


def counted(path):
    """What rank PATH.N said: pid, {name: (calls, bytes)}, {(direction, comm, peer): (calls, bytes)}."""
    said = {'calls': {}, 'peers': {}}
    with open(path, encoding='utf-8') as f:
        for line in f:
            kind, *words = line.split()
            if kind == 'call':
                said['calls'][words[0]] = (int(words[1]), int(words[2]))
            elif kind == 'peer':
                said['peers'][(words[0], words[1], int(words[2]))] = (int(words[3]), int(words[4]))
            else:
                said[kind] = int(words[0])
    return said


def functions_of(summary, pid):
    (process,) = [p for p in summary['processes'] if p['pid'] == pid]
    return {f['name']: f for f in process['functions'] if f['layer'] == 'mpi'}


def peers_of(summary, pid):
    """By direction and peer, over all communicators: which handle is which only the program knows."""
    sums = {}
    for p in summary['mpi_peers']:
        if p['pid'] == pid:
            key = (p['direction'], p['peer'])
            calls, size = sums.get(key, (0, 0))
            sums[key] = (calls + p['calls'], size + p['bytes'])
    return sums


def check_rank(t, summary, said, rank):
    seen = functions_of(summary, said['pid'])
    for name, (calls, size) in said['calls'].items():
        row = seen.pop(name, None)
        if not row:
            t.fail(f'rank {rank}: no {name}')
            continue
        t.equal(f'rank {rank}: calls of {name}', row['calls'], calls)
        t.equal(f'rank {rank}: bytes of {name}', row['bytes'], size)
        t.true(f'rank {rank}: {name} took time', row['total_ns'] > 0)
    t.equal(f'rank {rank}: functions that it did not call', [n for n, row in seen.items() if row['calls']], [])
    wanted = {}
    for (direction, _, peer), (calls, size) in said['peers'].items():
        c, b = wanted.get((direction, peer), (0, 0))
        wanted[(direction, peer)] = (c + calls, b + size)
    t.equal(f'rank {rank}: peers', peers_of(summary, said['pid']), wanted)
    (row,) = [r for r in summary['mpi_ranks'] if r['pid'] == said['pid']]
    t.equal(f'rank {rank}: which rank', (row['rank'], row['ranks']), (rank, said['ranks']))
    t.equal(f'rank {rank}: time in MPI', row['total_ns'],
            sum(f['total_ns'] for f in functions_of(summary, said['pid']).values()))  # fmt: skip
    t.true(f'rank {rank}: its time in MPI is part of that from the first call to the last',
           0 < row['total_ns'] <= row['span_ns'] <= summary['duration_ns'], row)  # fmt: skip
    t.equal(f'rank {rank}: calls of unknown size', row['unsized_calls'], 0)


def exact(t, kind, n, *options, how=build):
    program, launcher = how(t, kind)
    run = t.trace('--layer', 'mpi', *options, command=[*launcher, str(n), program, t.path('said')], status=0,
                  env=environment(t))  # fmt: skip
    for rank in range(n):
        check_rank(t, run.summary, counted(t.path(f'said.{rank}')), rank)
    t.equal('open calls', run.summary['open_calls'], [])
    t.equal('unmatched, unsized, without a peer', [run.lost(x) for x in ('unmatched', 'sizes', 'peers')], [0, 0, 0])
    return run


@case('four ranks of MPICH, added up: calls, bytes and peers are what each counted', timeout=240)
def mpich(t):
    exact(t, MPICH, 4)


@case('two ranks of MPICH that is linked into the program: the same', timeout=240)
def mpich_linked_in(t):
    exact(t, MPICH, 2, how=build_linked_in)


@case('two ranks of MPICH that is linked in and begun by MPI_Init_thread: the same', timeout=240)
def mpich_init_thread(t):
    exact(t, MPICH, 2, how=build_init_thread)


@case('Open MPI that is linked into the program: calls, bytes and peers')
def open_mpi_linked_in(t):
    program, launcher = build_open_mpi_inside(t, ALONE)
    run = t.trace('--layer', 'mpi', command=[*launcher, '1', program, t.path('said')], status=0)
    (rank,) = run.summary['mpi_ranks']
    seen = {n: (f['calls'], f['bytes']) for n, f in functions_of(run.summary, rank['pid']).items() if f['calls']}
    t.equal('calls and bytes', seen, {**INSIDE, 'MPI_Init': (1, 0)})
    t.equal('peers', peers_of(run.summary, rank['pid']), {('sent', 1): (12, 4 * 28 + 8 * 15)})
    t.equal('which rank', (rank['rank'], rank['ranks'], rank['unsized_calls']), (0, 2, 0))


def said_hidden(run):
    return [(os.path.basename(a['path']), a['reason']) for a in run.summary['attach_failures'] if 'cannot be seen' in a['reason']]


@case('a program that MPI is linked into, stripped: that its calls cannot be seen is said', timeout=240)
def hidden(t):
    program, launcher = build_stripped(t, MPICH)
    command = [*launcher, '2', program, t.path('said')]
    run = t.trace('--layer', 'mpi', command=command, status=0, env=environment(t))
    t.equal('of MPICH', said_hidden(run), [('program', hidden_reason('MPICH or a derivative'))])
    t.equal('functions', run.summary['functions'], [])
    run = t.trace('--layer', 'cuda', command=command, status=0, env=environment(t))
    t.equal('not when MPI is not asked for', said_hidden(run), [])
    program, launcher = build_open_mpi_inside(t, ALONE, ('-s',))
    run = t.trace('--layer', 'mpi', command=[*launcher, '1', program, t.path('said')], status=0)
    t.equal('of Open MPI', said_hidden(run), [('program', hidden_reason('Open MPI'))])


@case('a stripped program with MPI as a library: its calls are seen, and nothing is said', timeout=240)
def stripped_dynamic(t):
    for kind in (MPICH, OPEN_MPI):
        program, launcher = build(t, kind, extra=('-s',))
        run = t.trace('--layer', 'mpi', command=[*launcher, '2', program, t.path('said')], status=0, env=environment(t))
        t.equal(f'{kind[0]}: said', said_hidden(run), [])
        t.equal(f'{kind[0]}: MPI_Init', run.calls('MPI_Init'), 2)


@case('four ranks of Open MPI, added up: calls, bytes and peers are what each counted', timeout=240)
def open_mpi(t):
    exact(t, OPEN_MPI, 4)


@case('two ranks of MPICH, as events: the same, and each transfer says its peer', timeout=240)
def mpich_events(t):
    out = t.path('trace.json')
    exact(t, MPICH, 2, '-o', out)
    with open(out, encoding='utf-8') as f:
        events = [e for e in json.load(f)['traceEvents'] if e['ph'] in 'XB']
    for rank in range(2):
        said = counted(t.path(f'said.{rank}'))
        mine = [e for e in events if e['pid'] == said['pid']]
        sends = [e['args'] for e in mine if e['name'] == 'MPI_Isend']
        t.equal('sends', [(a['peer'], a['bytes'], a['comm']) for a in sends],
                [(1 - rank, 8 * i, WORLD) for i in range(1, 8)])  # fmt: skip
        # Asked for from any source: the status says who it was.
        receives = [e['args'] for e in mine if e['name'] == 'MPI_Recv']
        t.equal('receives', [(a['peer'], a['bytes']) for a in receives], [(1 - rank, 8 * i) for i in range(1, 8)])
        t.equal('to nobody', sum(e['args'].get('peer') == 'none' for e in mine), 7)
        t.equal('roots', [e['args'].get('root') for e in mine if e['name'] == 'MPI_Bcast'], [0, 0])


@case('two ranks of Open MPI, as events', timeout=240)
def open_mpi_events(t):
    exact(t, OPEN_MPI, 2, '-o', t.path('trace.gst'))
    first = t.tool('report', t.path('trace.gst'), '--format', 'json', status=0).out
    summary = json.loads(first)
    for rank in range(2):
        check_rank(t, summary, counted(t.path(f'said.{rank}')), rank)


class Job:
    """A recorder of `gpuscope job`, made when it follows the job and has its probes."""

    def __init__(self, t, which, env):
        self.t, self.env, self.pidfile = t, env, t.path('recorder')
        self.files = {kind: t.path('job.' + kind) for kind in ('json', 'csv', 'html', 'txt')}
        words = [harness.gpuscope, 'job', '-v', *which, '--detach', self.pidfile]
        for path in self.files.values():
            words += ['-o', path]
        self.run(words)

    def run(self, words):
        done = subprocess.run(words, capture_output=True, text=True, env=self.env, timeout=120)
        self.t.equal(f'exit status of {words[1:]} ({done.stderr[-300:]})', done.returncode, 0)

    def result(self):
        """When the ranks have ended."""
        self.run([harness.gpuscope, 'job', '--stop', self.pidfile])
        with open(self.files['json'], encoding='utf-8') as f:
            return json.load(f)


def check_job_rank(t, row, said, rank):
    """A row of mpi_ranks of a job; MPI_Init was over when it was first looked at."""
    seen = {f['name']: f for f in row['functions']}
    wanted = {name: what for name, what in said['calls'].items() if name not in ('MPI_Init', 'MPI_Init_thread')}
    t.equal(f'rank {rank}: calls and bytes', {n: (f['calls'], f['bytes']) for n, f in seen.items()}, wanted)
    peers = {}
    for p in row['peers']:
        calls, size = peers.get((p['direction'], p['peer']), (0, 0))
        peers[(p['direction'], p['peer'])] = (calls + p['calls'], size + p['bytes'])
    by_peer = {}
    for (direction, _, peer), (calls, size) in said['peers'].items():
        c, b = by_peer.get((direction, peer), (0, 0))
        by_peer[(direction, peer)] = (c + calls, b + size)
    t.equal(f'rank {rank}: peers', peers, by_peer)
    t.equal(f'rank {rank}: which', (row['rank'], row['ranks']), (rank, said['ranks']))
    t.equal(f'rank {rank}: sums', (row['calls'], row['total_ns']), (sum(f['calls'] for f in seen.values()), sum(f['total_ns'] for f in seen.values())))
    if rank == 0:  # it came first
        most, by_program = seen['MPI_Barrier']['max_ns'], said['barrier_ns']
        t.true('the longest barrier, by a clock around it', 0.5 * by_program < most <= by_program, (most, by_program))
    t.true(f'rank {rank}: its time is part of the span', 0 < row['total_ns'] <= row['span_ns'], row)
    t.equal(f'rank {rank}: errors, unsized', (sum(f['errors'] for f in seen.values()), row['unsized_calls']), (0, 0))


def check_job_texts(t, job, ranks):
    """What JSON says stands in the other formats."""
    with open(job.files['csv'], encoding='utf-8', newline='') as f:
        rows = {tuple(x[1:4]): x[4] for x in csv.reader(f) if len(x) == 5 and x[1].startswith('mpi_')}
    text = harness.read_text(job.files['txt'])
    t.equal('HTML', harness.page_report(job.files['html'])['jobs'][0]['mpi_ranks'], ranks)
    for r in ranks:
        name = f'rank {r["rank"]}'
        for f in r['functions']:
            t.equal(f'CSV, {name} {f["name"]}', [rows.get(('mpi_function', f'{name} {f["name"]}', key)) for key in ('calls', 'total_ns', 'bytes')],
                    [str(f[key]) for key in ('calls', 'total_ns', 'bytes')])  # fmt: skip
            t.true(f'text has {f["name"]}', f['name'] in text)
        for p in r['peers']:
            key = f'{name} {p["direction"]} {p["peer"]} {p["communicator"]}'
            t.equal(f'CSV, {key}', [rows.get(('mpi_peer', key, x)) for x in ('calls', 'bytes')], [str(p['calls']), str(p['bytes'])])
        share = 100 * r['total_ns'] / r['span_ns']
        t.match('text', rf'{name}: in MPI {share:.1f} % of .*; sent ', text)


def check_job(t, job, whole, n):
    (found,) = whole['jobs']
    t.match('source', r'^probes on MPI: [0-9]+ in [0-9]+ files', whole['monitoring_session']['sources']['mpi'])
    t.equal('of CUDA', whole['monitoring_session']['sources']['cuda'], 'no readable library of CUDA or NCCL is loaded')
    t.equal('launches are not known', found['figures']['launches_per_second'], None)
    t.equal('lost', harness.lost_of(whole), None)
    rows = [r for r in found['mpi_ranks'] if r['ranks'] == n]
    t.equal('ranks', [r['rank'] for r in rows], list(range(n)))
    for rank, row in enumerate(rows):
        said = counted(t.path(f'said.{rank}'))
        t.equal('process', row['pid'], said['pid'])
        check_job_rank(t, row, said, rank)
    check_job_texts(t, job, rows)


def job_of_ranks(t, kind, n, how=build):
    """The Job and its report."""
    program, launcher = how(t, kind)
    go = t.path('go')
    ranks = subprocess.Popen([*launcher, str(n), program, t.path('said'), go], env=environment(t), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(lambda: len(glob.glob(t.path('said.*.ready'))) == n, 120, f'{n} ranks')
        job = Job(t, ['-p', str(ranks.pid)], t.envs({'COLUMNS': '1000'}))
        open(go, 'w', encoding='ascii').close()
        t.equal('the program', ranks.wait(timeout=120), 0)
        whole = job.result()
    finally:
        if ranks.poll() is None:
            os.killpg(ranks.pid, 9)
            ranks.wait()
    return job, whole


def measured_job(t, kind, n, how=build):
    check_job(t, *job_of_ranks(t, kind, n, how), n)


@case('job: four ranks of MPICH by function, bytes and peers, as each counted', timeout=300)
def job_mpich(t):
    measured_job(t, MPICH, 4)


@case('job: three ranks of MPICH that is linked into the program: the same', timeout=300)
def job_mpich_linked_in(t):
    measured_job(t, MPICH, 3, build_linked_in)


@case('job: two ranks of MPICH that is linked in and begun by MPI_Init_thread: the same', timeout=300)
def job_mpich_init_thread(t):
    measured_job(t, MPICH, 2, build_init_thread)


@case('job: Open MPI that is linked into the program, by function, bytes and peers')
def job_open_mpi_linked_in(t):
    _, whole = job_of_ranks(t, ALONE, 1, build_open_mpi_inside)
    (rank,) = whole['jobs'][0]['mpi_ranks']
    t.equal('calls and bytes', {f['name']: (f['calls'], f['bytes']) for f in rank['functions']}, INSIDE)
    t.equal('peers', [(p['direction'], p['peer'], p['calls'], p['bytes']) for p in rank['peers']],
            [('sent', 1, 12, 4 * 28 + 8 * 15)])  # fmt: skip
    t.equal('which rank', (rank['rank'], rank['ranks'], rank['unsized_calls']), (0, 2, 0))


@case('job: a program one of whose functions of MPI shows no end: the others are measured')
def job_hidden_end(t):
    _, whole = job_of_ranks(t, ALONE, 1, lambda t, kind: build_open_mpi_inside(t, kind, ('-DHIDDEN_END',)))
    (rank,) = whole['jobs'][0]['mpi_ranks']
    seen = {f['name']: (f['calls'], f['bytes']) for f in rank['functions'] if f['name'] != 'MPI_Finalize'}
    t.equal('calls and bytes', seen, {name: what for name, what in INSIDE.items() if name != 'MPI_Finalize'})


def check_hidden(t, job, whole, name):
    session, reason = whole['monitoring_session'], hidden_reason(name)
    t.equal('lost', harness.lost_of(whole), f'program: {reason}')
    t.equal('source', session['sources']['mpi'], 'no probes in program: MPI is linked into it, and it has no symbols')
    t.equal('ranks are not known', whole['jobs'][0]['mpi_ranks'], None)
    t.match('text', rf'lost +.*program: {re.escape(reason)}', harness.read_text(job.files['txt']))
    page = harness.page_report(job.files['html'])
    t.equal('HTML', (page['monitoring_session']['lost'], page['jobs'][0]['mpi_ranks']), (session['lost'], None))


@case('job: a program that MPI is linked into, stripped: what cannot be seen, why and what to do are said', timeout=300)
def job_hidden(t):
    check_hidden(t, *job_of_ranks(t, MPICH, 2, build_stripped), 'MPICH or a derivative')


@case('job: the same of Open MPI')
def job_hidden_open_mpi(t):
    check_hidden(t, *job_of_ranks(t, ALONE, 1, lambda t, kind: build_open_mpi_inside(t, kind, ('-s',))), 'Open MPI')


def ranks_by_program(whole):
    return {os.path.basename(j['command'].split()[0]): j['mpi_ranks'] for j in whole['jobs']}


def saved_ranks(job):
    try:
        with open(job.files['json'], encoding='utf-8') as f:
            return ranks_by_program(json.load(f))
    except (FileNotFoundError, ValueError):
        return {}


@case('job: a stripped program beside one whose calls are seen: each job has what is true of it', timeout=120)
def job_hidden_beside(t):
    started = []
    try:
        for name, extra in (('seen', ()), ('hidden', ('-s',))):
            program = t.path(name)
            os.rename(build_open_mpi_inside(t, ALONE, extra)[0], program)
            started.append(subprocess.Popen([program, t.path(name), t.path('go')], stdout=subprocess.DEVNULL))
            wait_until(lambda: glob.glob(t.path(f'{name}.*.ready')), 60, name)
        job = Job(t, ['-p', ','.join(str(p.pid) for p in started)], t.envs({'COLUMNS': '1000'}))
        # Which job runs the file is looked for each second; what is known is saved as it goes.
        wait_until(lambda: saved_ranks(job) == {'seen': [], 'hidden': None}, 60, 'the job of the stripped program')
        open(t.path('go'), 'w', encoding='ascii').close()
        for p in started:
            t.equal('the program', p.wait(timeout=60), 0)
        whole = job.result()
    finally:
        for p in started:
            p.kill()
            p.wait()
    ranks = ranks_by_program(whole)
    t.equal('hidden', ranks['hidden'], None)
    t.equal('seen', [r['pid'] for r in ranks['seen']], [started[0].pid])
    t.equal('lost', harness.lost_of(whole), f'hidden: {hidden_reason("Open MPI")}')
    t.match('source', r'^probes on MPI: [0-9]+ in 1 files, added up in the kernel; not in hidden: ', whole['monitoring_session']['sources']['mpi'])


@case('job: three ranks of Open MPI by function, bytes and peers, as each counted', timeout=300)
def job_open_mpi(t):
    measured_job(t, OPEN_MPI, 3)


def by_slurm(t, kind, interface):
    """Ranks that srun starts and the interface of a real Slurm brings together, without mpirun."""
    program, _ = build(t, kind)
    os.chmod(t.tmp, 0o755)
    with slurm_help.Slurm(t, cgroups=slurm_help.has_cgroup1()) as slurm:
        kinds = slurm.run('srun', '--mpi=list').stderr + slurm.run('srun', '--mpi=list').stdout
        if interface not in kinds:
            raise Skip(f'this Slurm has no {interface}: {kinds}')
        slurm.env['OMPI_MCA_btl'] = 'self,vader'
        go = t.path('go')
        job_id = slurm.submit(f'srun --mpi={interface} -N1 -n2 {program} {t.path("said")} {go}\n', '-N1', '-n2')
        wait_until(lambda: len(glob.glob(t.path('said.*.ready'))) == 2, 120, f'two ranks ({slurm.logs()})')
        job = Job(t, ['-j', str(job_id)], slurm.env)
        open(go, 'w', encoding='ascii').close()
        slurm.wait_state(job_id, 'COMPLETED', 120)
        whole = job.result()
    check_job(t, job, whole, 2)


@case('job: srun --mpi=pmi2 of a real Slurm, ranks of MPICH', timeout=300, beside='jobs')
def srun_pmi2(t):
    by_slurm(t, MPICH, 'pmi2')


@case('job: srun --mpi=pmix of a real Slurm, ranks of Open MPI', timeout=300, beside='jobs')
def srun_pmix(t):
    by_slurm(t, OPEN_MPI, 'pmix')


# Of tests/mpi/known_count.f90, without MPI_Init and MPI_Finalize: calls, bytes.
FORTRAN = {'MPI_Comm_rank': (1, 0), 'MPI_Comm_size': (1, 0), 'MPI_Isend': (7, 560), 'MPI_Recv': (7, 560), 'MPI_Wait': (7, 0),
           'MPI_Allreduce': (5, 120), 'MPI_Barrier': (2, 0), 'MPI_Bcast': (3, 48)}  # fmt: skip


@case('a program in Fortran: its wrappers call the library, and each call counts once', timeout=300)
def fortran(t):
    for kind in (MPICH, OPEN_MPI):
        compiler = kind[0].replace('mpicc', 'mpif90')
        program, launcher = build(t, (compiler, kind[1]), 'known_count.f90')
        run = t.trace('--layer', 'mpi', command=[*launcher, '2', program], status=0, env=environment(t))
        ranks = [r for r in run.summary['mpi_ranks'] if r['ranks'] == 2]
        t.equal(f'{compiler}: ranks', [r['rank'] for r in ranks], [0, 1])
        for r in ranks:
            seen = functions_of(run.summary, r['pid'])
            t.equal(f'{compiler}: rank {r["rank"]}', {n: (f['calls'], f['bytes']) for n, f in seen.items() if n in FORTRAN}, FORTRAN)
            t.equal(f'{compiler}: begin and end', [seen[n]['calls'] for n in ('MPI_Init', 'MPI_Finalize')], [1, 1])
            t.equal(f'{compiler}: peers of rank {r["rank"]}', peers_of(run.summary, r['pid']),
                    {('sent', 1 - r['rank']): (7, 560), ('received', 1 - r['rank']): (7, 560)})  # fmt: skip


if __name__ == '__main__':
    main()
