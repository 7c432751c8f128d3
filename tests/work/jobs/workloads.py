"""The labelled jobs: what each is short of is known by how it was made, not by what gpuscope says.

Words in commands: {load} the program job_load, {w} the folder of the run with the files big (512 MiB),
huge (2 GiB) and code.c, {python} a Python with numpy, {port} a free port,
{held} held.py by a Python of Debian, {openmp} the program held. A command runs in that folder in a session of its own.
"""

import dataclasses

# The columns of the confusion table, and the classes that are counted there.
COLUMNS = {
    'CPU': ('CPU-bound', 'CPU-starved', 'CPU-throttled'),
    'CPU-IO': ('CPU-IO-mixed',),
    'IO': ('IO-bound', 'IO-bound-intensive'),
    'Net': ('Network-bound',),
    'Input': ('Input-bound',),
    'Lock': ('Lock-bound',),
    'Idle': ('Idle-heavy', 'Idle-heavy-switching'),
    'Mem': ('Memory-bound',),
    'Mixed': ('Balanced', 'Mixed-intensive'),
}

# Advice that takes a processor from a job that can use it, or asks for memory that page cache fills.
FEWER = ('serial', 'processors-unused')
MEMORY = ('memory-short', 'paging', 'killed-for-memory')


@dataclasses.dataclass
class Job:
    name: str
    label: str  # a column, or several that are right, with |
    command: str
    forbidden: tuple = ()  # rules of advice that would hurt or mislead
    peer: str = ''  # runs outside of the job
    memory: str = ''  # limit of its memory cgroup
    quota: float = 0  # processors of its CPU cgroup
    by_cgroup: bool = False
    slurm: tuple = ()  # options of sbatch: the command is a batch script
    shaped: str = ''  # its network: arguments of tc's tbf
    settle_s: int = 2  # it is measured after its start-up


FIO = 'exec fio --name=a --filename=big --size=512m --time_based --runtime=600 --bs=4k --direct=1 --rw=randread '
MPI = 'mpirun --allow-run-as-root --oversubscribe -np 2 '

JOBS = [
    Job('stress-ng --cpu 2', 'CPU', 'exec stress-ng --cpu 2', FEWER + MEMORY),
    Job('stress-ng --mutex 2', 'CPU|Lock', 'exec setpriv --reuid=65534 --clear-groups --inh-caps=-all stress-ng --mutex 2', FEWER + MEMORY),
    Job('stress-ng --switch 2', 'CPU', 'exec stress-ng --switch 2', FEWER + MEMORY),
    Job('stress-ng --fork 2', 'CPU', 'exec stress-ng --fork 2', FEWER + MEMORY + ('small-io',)),
    Job('gcc, pinned to one processor', 'CPU', 'taskset -pc 0 $$; while :; do gcc -O2 -c code.c -o /dev/null; done', FEWER + MEMORY),
    Job('yes | cat', 'CPU', 'yes | cat >/dev/null', MEMORY + ('idle',)),
    Job('cat | head', 'CPU', 'cat /dev/zero | head -c 100T >/dev/null', MEMORY + ('idle',)),
    Job('MPI ping-pong', 'CPU', f'exec {MPI} {{python}} pingpong.py', FEWER + MEMORY),
    Job('MPI ping-pong, Slurm', 'CPU', f'{MPI} {{python}} pingpong.py', FEWER + MEMORY, slurm=('-n2',)),
    Job('hpcc', 'CPU', f'exec {MPI} hpcc', FEWER + MEMORY),
    Job('sysbench cpu', 'CPU', 'exec sysbench cpu --threads=2 --time=600 run', FEWER + MEMORY),
    Job('task of an array', 'CPU', '{load} busy', FEWER, slurm=('-n1', '--array=7')),
    Job('computes 75 % of the time', 'CPU', 'exec {load} duty 75', MEMORY),
    Job('numpy matmul, serial', 'CPU', 'OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec {python} matmul.py', MEMORY),
    Job('gcc', 'CPU', 'while :; do gcc -O2 -c code.c -o /dev/null; done', MEMORY),
    Job('memory bandwidth', 'CPU', 'exec {load} stream', MEMORY),
    Job('busy loop', 'CPU', 'exec {load} busy', MEMORY),
    Job('stress-ng --cpu 2, quota of 0.2', 'CPU', 'exec stress-ng --cpu 2', FEWER + MEMORY, quota=0.2),
    Job('the same, by its cgroup', 'CPU', 'exec stress-ng --cpu 2', FEWER + MEMORY, quota=0.2, memory='64M', by_cgroup=True),
    Job('fork loop of bash', 'CPU', 'while :; do /bin/true; done', MEMORY + ('small-io',)),
    Job('dd, synchronous writes', 'IO', 'exec dd if=/dev/zero of=out bs=64k count=100000000 oflag=dsync conv=notrunc seek=0', MEMORY + ('idle',)),
    Job('direct reads, 8 parked threads', 'IO', 'exec {load} direct big 8', FEWER + MEMORY + ('locks', 'idle')),
    Job('sysbench fileio', 'IO', 'exec sysbench fileio --file-total-size=256M --file-num=16 --file-test-mode=rndrw --time=600 run', MEMORY + ('idle',)),
    Job('fio psync', 'IO', FIO + '--ioengine=psync --numjobs=2', MEMORY + ('idle', 'small-io')),
    Job('fio write, fsync', 'IO', 'exec fio --name=a --filename=out --size=256m --time_based --runtime=600 --bs=256k --rw=write --fsync=16', MEMORY + ('idle',)),
    Job('fio libaio', 'IO', FIO + '--ioengine=libaio --iodepth=16', MEMORY + ('idle',)),
    Job('fio io_uring', 'IO', FIO + '--ioengine=io_uring --iodepth=16', MEMORY + ('idle',)),
    Job('reads ahead of its computing', 'CPU', 'exec {load} ahead big', MEMORY + ('idle', 'disks')),
    Job('fio mmap', 'IO', 'exec fio --name=a --filename=huge --size=2g --time_based --runtime=600 --bs=4k --rw=randread --ioengine=mmap', MEMORY[:1] + ('idle',)),
    Job('sqlite commits', 'IO', 'exec {python} commits.py', MEMORY + ('idle',)),
    Job('fio by srun', 'IO', 'srun -n1 --overlap ' + FIO[5:] + '--ioengine=psync >/dev/null', MEMORY + ('idle',), slurm=('-n1',)),
    Job('direct reads by srun', 'IO', 'srun -n1 --overlap {load} direct big 0', MEMORY + ('idle',), slurm=('-n1',)),
    Job('dd in a group of 64 MB', 'IO', 'while :; do dd if=/dev/zero of=out bs=1M count=512 2>/dev/null; done', MEMORY, memory='64M', by_cgroup=True),
    Job('cat in a Slurm job of 100 MB', 'IO', 'while :; do dd if=big of=big oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; cat big >/dev/null; done',
        MEMORY, slurm=('-n1', '--mem=100')),
    Job('iperf3, shaped', 'Net', 'exec iperf3 -c {host} -p {port} -t 600', MEMORY + ('idle',), 'iperf3 -s -p {port}', shaped='rate 50mbit burst 32k latency 400ms'),
    Job('iperf3, lossy', 'Net', 'exec iperf3 -c {host} -p {port} -t 600', MEMORY + ('idle',), 'iperf3 -s -p {port}', shaped='rate 50mbit burst 10k latency 1ms'),
    Job('requests and answers', 'Net', 'exec {load} ask {port}', MEMORY + ('idle',), '{load} answer {port} 5'),
    Job('push to a slow peer', 'Net', 'exec {load} push {port}', MEMORY + ('idle',), '{load} sink {port}'),
    Job('one mutex, 8 threads', 'Lock', 'exec {load} lock 8', FEWER + MEMORY),
    Job('one mutex, 3 threads', 'Lock', 'exec {load} lock 3', FEWER + MEMORY),
    Job('sysbench threads', 'Lock', 'exec sysbench threads --threads=8 --thread-locks=1 --time=600 run', FEWER + MEMORY),
    Job('Python threads', 'Lock', 'exec {python} threads.py', FEWER + MEMORY),
    Job('sleep', 'Idle', 'exec sleep 1000', MEMORY),
    Job('sleeps of 1 ms', 'Idle', 'exec {load} poll', MEMORY),
    Job('server without clients', 'Idle', 'exec {load} select', MEMORY),
    Job('server of threads without clients', 'Idle', 'exec {load} timers 6', FEWER + MEMORY + ('locks',)),
    Job('sleep | cat', 'Idle', 'sleep 1000 | cat', MEMORY),
    Job('computes 50 % of the time', 'Mixed', 'exec {load} duty 50', MEMORY),
    Job('two compute, one reads', 'CPU-IO', 'exec {load} mix big', FEWER + MEMORY),
    Job('60 % by srun -n2', 'Mixed', 'srun -n2 --overlap {load} duty 60', MEMORY, slurm=('-n2',)),
    Job('40 % by srun', 'Mixed', 'srun -n1 --overlap {load} duty 40', MEMORY, slurm=('-n1',)),
    Job('killed for memory', 'Mem', 'exec {load} hog 200', memory='64M'),
    Job('thrashes', 'Mem', 'exec {load} touch big', memory='64M'),
    Job('thrashes, by its cgroup', 'Mem', 'exec {load} touch big', memory='64M', by_cgroup=True),
]

# Written and labelled after the rules were made, before any of them had been run: what the rules say of programs
# that nobody made them for.
WAITS = ('locks', 'network')
HELD = [
    Job('log of a database', 'IO', 'exec {held} wal', MEMORY + WAITS + ('idle',)),
    Job('cat | gzip', 'CPU', 'while :; do cat big | gzip -1 >/dev/null; done', MEMORY + WAITS + ('idle',)),
    Job('queue of a slow process', 'Input|Idle', 'exec {held} starved', FEWER + MEMORY + WAITS),
    Job('queue of a slow thread', 'Idle', 'exec {held} thread_queue', FEWER + MEMORY + WAITS),
    Job('compilers, four at once', 'CPU', 'echo "int main(void) { return 0; }" >small.c; while :; do seq 40 | xargs -P4 -I@ gcc -c small.c -o small@.o; done',
        FEWER + MEMORY + WAITS + ('idle',)),
    Job('reads a cached mapping', 'CPU', 'exec {held} cached', MEMORY + WAITS + ('mapped-files', 'disks')),
    Job('receives from a slow sender', 'Net', 'exec {held} receive {port}', MEMORY + ('locks', 'idle'), '{held} drip {port}'),
    Job('looks every 10 ms', 'Idle', 'exec {held} poll', FEWER + MEMORY + WAITS),
    Job('OpenMP, unequal parts', 'CPU', 'exec {openmp} imbalance', MEMORY + WAITS),
    Job('OpenMP, streams', 'CPU', 'exec {openmp} triad', FEWER + MEMORY + WAITS),
    Job('JSON in four threads', 'Lock', 'exec {held} gil', FEWER + MEMORY + ('network',)),
    Job('helpers with little to do', 'CPU', 'exec {held} pool', MEMORY + WAITS),
    Job('tokens in the main thread', 'CPU', 'exec {held} torch_loop 0 tokens', MEMORY + WAITS, settle_s=10),
    Job('slow items, two workers', 'Input', 'exec {held} torch_loop 2 slow', FEWER + MEMORY + WAITS, settle_s=10),
    Job('items off a disk, two workers', 'IO|Input', 'exec {held} torch_loop 2 disk', FEWER + MEMORY + WAITS, settle_s=10),
]
