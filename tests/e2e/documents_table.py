"""What running the commands of documents needs to know of some of them. Rows are regular expressions; each must match a
command of a document, and a command that needs a row and has none fails.

NOT_RUN      (command, how many at most, reason): it cannot run in the world of documents_world.py
REWRITTEN    (in the command, what to write there): shorter times, names of the world; {pid} is that of a running train.py
SERVES       (command, what it says when it is ready): it runs until the end of the document, then ends with 0 on SIGINT
WATCHES      (command, what it shows, key): it runs in a terminal until it has shown that, then gets the key
ENDS         (command, exit status...): other than 0 alone
PREPARED     (command, what is run once before it, in a shell)
SETTING      (command, {variable: value}): for the programs of the world
"""

NOT_RUN = (
    (r'^make demo\b', 1, 'installs packages and builds'),
    (r'^make\s+(?:[a-z]|#)', 19, 'builds, or runs the tests that this is one of'),
    (r'^meson test\b', 2, 'runs tests'),
    (r'^PYTHONPATH=python .* program\.py$', 1, 'program.py is the reader\'s; tests/python/document.py runs the examples'),
    (r'^cd build && /usr/bin/python3 \.\./tests', 1, 'runs tests'),
    (r'^gdb ', 1, 'waits for someone who types'),
    (r'^build/src/gpuscope trace -vv -- COMMAND', 1, 'COMMAND is a placeholder'),
    (r'^(?:bench|tools|tests)/\S+', 5, 'runs for minutes; part of make check, of another test or of a benchmark'),
    (r'^(?:R=\$\(mktemp|touch \$R|echo "deb \[|apt=|apt-get \$apt|dpkg -x linux-image)', 6, 'fetches packages from another host'),
    (r'^systemctl ', 2, 'there is no systemd in the world; tests/e2e/systemd.py starts the units'),
    (r'^docker compose ', 1, 'fetches images from another host; tests/e2e/grafana.py checks its files'),
    (r'^vmalert ', 1, 'its hosts are placeholders; tests/e2e/deployment.py runs it with these rules'),
    (r'nvidia-smi --gpu-reset', 1, 'resets a GPU'),
    (r'explain --job-id', 1, 'needs an agent that records jobs; tests/e2e/recorder.py has it'),
    (r'devices grant', 2, 'changes device rules of a container with GPUs; tests/e2e/devices.py does'),
)

REWRITTEN = (
    (r'^gpuscope connect ', 'gpuscope connect -v '),
    # Other tests' programs are jobs of this machine, too.
    (r'^gpuscope job (?=(?:--alerts \S+ )?-d )', 'gpuscope job -p {pid} '),
    (r'^gpuscope trace --keep-last', 'gpuscope trace -v --keep-last'),
    (r'(-p|trace-gpu) (?:4711|PID)\b', r'\1 {pid}'),
    (r'(?<=--duration )(?:10|30|1m)\b|(?<= -d )(?:5m|30)\b', '1500ms'),
    (r'torchrun \.\.\. train', 'torchrun train'),
    (r'\$\(pgrep -o train\.py\)', '{pid}'),
)

SERVES = (
    (r'^prometheus ', r'ready to receive web requests'),
    (r'^gpuscope agent +#', r'served at \S+/metrics'),
    (r'^gpuscope head(?: +#| -c \S+$)', r'head on \S+'),
    (r'^gpuscope connect (?:HEAD|--resilient)', r'connected to the head|no connection to the head'),
)

WATCHES = (
    (r'^gpuscope top(?: --re(?:cord|play)\S* \S+)?(?: +#.*)?$', r'H100|replay', 'q'),
    (r'^gpuscope trace --keep-last .* -p ', r'[0-9]+ probes', '\x03'),
    (r'^gpuscope job .* -r$', r'alice', '\x03'),
    (r'^gpuscope gpu --dmon', r'# gpu', '\x03'),
    (r'^gpuscope gpu .*(?:-w|--watch|--interval|-i (?=0\.\d|[1-9]$)) ?[0-9]', r'[Pp]ower', '\x03'),
)

ENDS = (
    (r'gpuscope devices(?: +#.*)?$', 0, 4),  # 4 where nothing has a GPU open; tests/e2e/devices.py has the answers
)

PREPARED = (
    (r'^curl .*127\.0\.0\.1:14780', 'curl -sf http://127.0.0.1:14780/metrics >/dev/null || { setsid gpuscope agent >agent.log 2>&1 & '
     'until curl -sf http://127.0.0.1:14780/metrics | grep -q gpuscope_gpu_; do sleep 0.2; done; }'),
    (r'\bmpirun\b', 'mpicc.openmpi -O1 -o solver.mpi tests/mpi/self_count.c && printf "#!/bin/sh\\nexec ./solver.mpi solver.out\\n" >solver'),
    (r'^gpuscope (?:open|report|explain)\b.* run\.gst', 'test -e run.gst || gpuscope trace -o run.gst -- ./train.py'),
    (r'--compare base\.gst new\.gst', 'gpuscope trace -o base.gst -- ./train.py; DOCUMENTS_STEP_MS=4 gpuscope trace -o new.gst -- ./train.py'),
    (r'agent -c /etc/gpuscope/agent\.yaml', 'gpuscope agent --print-config >/etc/gpuscope/agent.yaml'),
    (r'--alerts alerts\.yaml', 'printf "alerts:\\n  rules:\\n    - {name: waits, condition: \\"wait_percent > 80\\"}\\n" >alerts.yaml'),
    (r'^gpuscope session (?:start|status)', 'test -S /run/gpuscope-head/*.sock || { setsid gpuscope head >head.log 2>&1 & '
     'until grep -q "head on" head.log; do sleep 0.1; done; }'),
    (r'-u alice', 'useradd -M alice; DOCUMENTS_SECONDS=3600 setsid setpriv --reuid alice --regid alice --clear-groups ./train.py >/dev/null 2>&1 &'),
    (r'(?:monday|tuesday)\.json', 'for day in monday tuesday; do gpuscope job -p {pid} -d 1s -o $day.json; done'),
)

SETTING = (
    (r'--op\b|--layer torch|examples/train', {'DOCUMENTS_TORCH': '1'}),
    (r'gpu -[ig] 0:7', {'FAKE_NVML': 'gpus=2,parts=2'}),
)

# Code spans that begin like a command and are none.
NO_COMMAND = ('gpuscope losses', 'gpuscope help COMMAND')  # a track of traces; help takes a command and has none of its own
# Names that begin like a metric and are none.
NO_METRIC = ('gpuscope_stream',)  # a column of tables in MySQL
# Options that stand alone in a text and are not gpuscope's: of the benches, CPython's configure, gsprof, the SPANK plug-in.
OPTIONS_OF_OTHERS = ('--also', '--no-events', '--loads', '--with-dtrace', '--export', '--gpuscope-output')

# In a command, what it needs, which this machine may lack: (program or file, what to install).
OPTIONAL = {
    '--gpuscope': ('/usr/local/lib/x86_64-linux-gnu/gpuscope/spank_gpuscope.so', 'the SPANK plug-in is not built (libslurm-dev)'),
    '--gpuscope-output': ('/usr/local/lib/x86_64-linux-gnu/gpuscope/spank_gpuscope.so', 'the SPANK plug-in is not built (libslurm-dev)'),
    'gpuscope-*.json': ('/usr/local/lib/x86_64-linux-gnu/gpuscope/spank_gpuscope.so', 'the SPANK plug-in is not built (libslurm-dev)'),
    'prometheus': ('prometheus', 'prometheus is not installed'),
    'promtool': ('promtool', 'promtool is not installed (package prometheus)'),
    'mpirun': ('mpicc.openmpi', 'Open MPI is not installed (libopenmpi-dev)'),
    'jq': ('jq', 'jq is not installed'),
    'curl': ('curl', 'curl is not installed'),
    'packaging/mysql/trial.sh': ('/usr/sbin/mariadbd', 'MariaDB is not installed (mariadb-server-core)'),
}
