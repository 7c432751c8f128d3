"""MPI of a job: what its ranks count themselves, MPICH and Open MPI."""

from table import layer

import mpi

SOURCE = 'the rank itself'


def sums(rows, *keys):
    """{what keys name: [calls, bytes]}."""
    out = {}
    for row in rows:
        sum_ = out.setdefault(tuple(row[k] for k in keys), [0, 0])
        sum_[0] += row['calls']
        sum_[1] += row['bytes']
    return out


def functions(m, rows):
    """Of all ranks together; MPI_Init was over when they were first looked at."""
    seen, wanted = sums([f for row in rows for f in row['functions']], 'name'), {}
    for row in rows:
        for function, (calls, n_bytes) in mpi.counted(m.path(f'said.{row["rank"]}'))['calls'].items():
            sum_ = wanted.setdefault(function, [0, 0])
            sum_[0] += calls
            sum_[1] += n_bytes
    del wanted['MPI_Init']
    for function, (calls, n_bytes) in wanted.items():
        got = seen.get((function,), (None, None))
        m.figure(f'{function}: calls', got[0], 'the ranks themselves', calls)
        if n_bytes:
            m.figure(f'{function}: bytes', got[1], 'the ranks themselves', n_bytes, unit='B')


def ranks_of(m, kind, n):
    job, whole = mpi.job_of_ranks(m, kind, n)
    rows = [r for r in whole['jobs'][0]['mpi_ranks'] if r['ranks'] == n]
    m.figure('ranks', len(rows), 'mpirun -n', n)
    functions(m, rows)
    for row in rows:
        said = mpi.counted(m.path(f'said.{row["rank"]}'))
        name = f'rank {row["rank"]}'
        wanted = {}
        for (direction, _, peer), (calls, n_bytes) in said['peers'].items():
            sum_ = wanted.setdefault((direction, peer), [0, 0])
            sum_[0] += calls
            sum_[1] += n_bytes
        got = sums(row['peers'], 'direction', 'peer')
        m.figure(f'{name}: peers and directions', len(got), SOURCE, len(wanted))
        for (direction, peer), (calls, n_bytes) in wanted.items():
            m.figure(f'{name}, {direction}, peer {peer}: bytes', got.get((direction, peer), (None, None))[1], SOURCE, n_bytes, unit='B')
        if row['rank'] == 0:
            most = next(f['max_ns'] for f in row['functions'] if f['name'] == 'MPI_Barrier')
            m.figure(f'{name}, MPI_Barrier: the longest', most / 1e9, 'a clock around it', said['barrier_ns'] / 1e9,
                     0.01 * said['barrier_ns'] / 1e9 + 0.002, 'the call itself, 1 %', 's')  # fmt: skip
    m.text('lost', whole['monitoring_session']['lost'], 'none made', None)


@layer('MPI of a job, MPICH')
def mpich(m):
    ranks_of(m, mpi.MPICH, 2)


@layer('MPI of a job, Open MPI')
def open_mpi(m):
    ranks_of(m, mpi.OPEN_MPI, 2)
