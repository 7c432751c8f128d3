"""Prolog, epilog and the SPANK plug-in with a real Slurm: each job leaves a true report to its user, and nothing that goes
wrong with the recording is a matter of the job."""

import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys

import harness
from harness import Skip, case, main, read_text, wait_until
from job_help import FINISHED, again, kill, rows
from page_help import Head
from slurm_help import Slurm, find

SOURCE = os.path.join(os.path.dirname(os.path.dirname(harness.HERE)), 'packaging', 'slurm')
USER = 'games'
# Uses just so much processor time, however busy the machine is.
BURN = 'import time\nwhile time.process_time() < 2: pass\n'
ENV = 'cd $OUT && env | grep -v ^_ | sort > $1'


def install(t, binary=None, more=''):
    """The scripts in a folder of root's with a configuration; the prolog's and epilog's lines of slurm.conf."""
    folder, conf = t.path('libexec'), t.path('gs.conf')
    os.makedirs(folder, exist_ok=True)
    for name in ('common.sh', 'prolog.sh', 'epilog.sh', 'slurm-record'):
        with open(os.path.join(SOURCE, name)) as f, open(os.path.join(folder, name), 'w') as to:
            # slurmd gives its prolog no environment that could name another configuration.
            to.write(f.read().replace('/etc/gpuscope/slurm.conf', conf))
        os.chmod(os.path.join(folder, name), 0o755)
    with open(conf, 'w') as f:
        f.write(f'GPUSCOPE={binary or harness.gpuscope}\nGPUSCOPE_REPORTS={t.path("reports")}\nGPUSCOPE_RUN={t.path("run")}\n{more}')
    os.chmod(conf, 0o644)
    return f'Prolog={folder}/prolog.sh\nEpilog={folder}/epilog.sh\n'


def plugin(t, binary=None):
    so = os.path.join(harness.fake, '..', '..', 'packaging', 'slurm', 'spank_gpuscope.so')
    if not os.path.exists(so):
        raise Skip('the SPANK plug-in is not built (libslurm-dev)')
    install(t, binary)
    with open(t.path('plugstack.conf'), 'w') as f:
        f.write(f'optional {os.path.realpath(so)} record={t.path("libexec")}/slurm-record\n')
    return f'PlugStackConfig={t.path("plugstack.conf")}\n'


def user_folder(t, name='out'):
    who, path = pwd.getpwnam(USER), t.path(name)
    os.makedirs(path)
    os.chown(path, who.pw_uid, who.pw_gid)
    return path


def burner(t):
    path = t.path('burn.py')
    with open(path, 'w') as f:
        f.write(BURN)
    os.chmod(path, 0o644)
    return f'{sys.executable} {path}'


def check_report(t, path, job, tasks=1, share=0.95):
    """What a report of the burner says is what it did; share: of what it did that must be seen at least."""
    with open(path) as f:
        whole = json.load(f)
    t.equal('jobs', [j['job_id'] for j in whole['jobs']], [str(job)])
    j = whole['jobs'][0]
    t.equal('user', j['user'], USER)
    cpu = j['thread_seconds']['cpu']
    t.true('processor time', 2 * tasks * share <= cpu <= 2 * tasks + 1, cpu)
    t.true('most of it on a processor or waiting for one',
           cpu + j['thread_seconds']['runqueue'] >= 2 * tasks * share, j['thread_seconds'])  # fmt: skip
    t.true('duration', j['duration_seconds'] >= 2 * share, j['duration_seconds'])
    return j


def owner(path):
    st = os.stat(path)
    return pwd.getpwuid(st.st_uid).pw_name, stat.filemode(st.st_mode)


@case('prolog and epilog: a report of each job, true and its user\'s', timeout=180)
def prolog(t):
    lines = install(t, more='GPUSCOPE_AT_END=yes\n')
    with Slurm(t, prolog=lines) as s:
        out = user_folder(t)
        job = s.submit(f'srun -n1 --overlap {burner(t)}\necho done\n', '-n1', f'--output={out}/slurm.out', user=USER)
        s.wait_state(job, 'COMPLETED', 120)
        node = s.run('squeue', '-h', '-t', 'all', '-j', str(job), '-o', '%N').stdout.strip()
        base = os.path.join(t.path('reports'), f'{job}.{node}')
        wait_until(lambda: os.path.exists(base + '.json') and owner(base + '.json')[0] == USER, 60, 'the report')
        wait_until(lambda: re.search(rf'Job {job}\b.* of {USER}', read_text(f'{out}/slurm.out')), 60, 'the report in the output')
        for suffix in ('.json', '.txt'):
            t.equal(f'owner of {suffix}', owner(base + suffix), (USER, '-rw-r-----'))
        # A step is noticed some tenths of a second after it began, and seconds after on a machine where it waits for a processor.
        j = check_report(t, base + '.json', job, share=0.05)
        t.equal('partition', j['partition'], 'debug')
        t.equal('first line', read_text(f'{out}/slurm.out').splitlines()[0], 'done')
        t.equal("the output is the user's", owner(f'{out}/slurm.out')[0], USER)
        wait_until(lambda: not os.listdir(t.path('run')), 30, 'no recorder is left')
        t.true('the node stays', 'drain' not in s.run('sinfo', '-h', '-N', '-o', '%T').stdout)


@case('an epilog that did not come, a recorder and a slurm-record that were killed: whoever comes next hands the reports over', timeout=300)
def swept(t):
    lines = install(t)
    with Slurm(t, prolog=lines.splitlines()[0] + '\n') as s:  # no epilog
        def recorded(name):
            # It begins when its recorder has seen it.
            wait = 'while [ ! -e {} ]; do sleep 0.1; done\n'
            job = s.submit(wait.format(t.path(name + '.go')) + burner(t) + '\n' + wait.format(t.path(name)), '-n1', user=USER)
            s.wait_state(job, 'RUNNING')
            node = s.run('squeue', '-h', '-j', str(job), '-o', '%N').stdout.strip()
            wait_until(lambda: os.path.exists(t.path('reports', f'{job}.{node}.json')), 60, 'a saved report')
            with open(t.path(name + '.go'), 'w'):
                pass
            wait_until(lambda: saved(job, node)['jobs'][0]['thread_seconds']['cpu'] >= 1.9, 60, 'the burner, saved')
            return job, node

        def saved(job, node):
            with open(t.path('reports', f'{job}.{node}.json')) as f:
                return json.load(f)

        def end(job, name):
            with open(t.path(name), 'w'):
                pass
            s.wait_state(job, 'COMPLETED', 90)

        # One whose recorder is killed when the burner is in what it saved.
        first, node = recorded('first')
        t.equal('unfinished', saved(first, node)['monitoring_session'].get('complete'), False)
        os.kill(int(read_text(t.path('run', f'{first}.{node}.pid'))), 9)
        end(first, 'first')
        # One that ends by itself: Slurm says that its job is over.
        second, other = recorded('second')
        end(second, 'second')
        wait_until(lambda: read_text(t.path('run', f'{second}.{other}.pid')).startswith('ended 0'), 120, 'the end of its recorder')
        for job, at in ((first, node), (second, other)):
            t.equal(f'not handed over: {job}', owner(t.path('reports', f'{job}.{at}.json')), ('root', '-rw-------'))
            os.utime(t.path('run', f'{job}.{at}.pid'), (1, 1))
        # What the plug-in's recorder left, as if it had been killed with its step.
        run = t.path('run', '77.0.4000000')
        os.makedirs(run)
        for name, text in (('owner', f'4000000 {pwd.getpwnam(USER).pw_uid} 77.0.node\n'), ('pid', 'ended 0\n'), ('report.txt', 'its report\n')):
            with open(os.path.join(run, name), 'w') as f:
                f.write(text)
            os.utime(os.path.join(run, name), (1, 1))
        third, last = recorded('third')
        for name in (f'{first}.{node}.json', f'{second}.{other}.json', '77.0.node.txt'):
            path = t.path('reports', name)
            wait_until(lambda: os.path.exists(path) and owner(path) == (USER, '-rw-r-----'), 60, f'{name} is handed over')
        check_report(t, t.path('reports', f'{first}.{node}.json'), first)
        check_report(t, t.path('reports', f'{second}.{other}.json'), second)
        t.true('that one is whole', 'complete' not in saved(second, other)['monitoring_session'])
        mine = sorted(f'{third}.{last}.{x}' for x in ('pid', 'pid.log', 'uid'))
        wait_until(lambda: sorted(os.listdir(t.path('run'))) == mine, 60, 'the third goes on, and is alone')
        end(third, 'third')
        wait_until(lambda: read_text(t.path('run', f'{third}.{last}.pid')).startswith('ended 0'), 120, 'the end of the last')


@case('prolog and epilog with a head: each job\'s report once, whose it was and what it did, also after the head was away', timeout=400)
def prolog_head(t):
    head = Head(t)
    spool, submitted = t.path('spool'), []
    lines = install(t, more=f'GPUSCOPE_OPTIONS="--head {head.grpc} --spool {spool} --machine-id node"\n')
    with Slurm(t, prolog=lines) as s:
        out = user_folder(t)

        def submit(name, *more):
            submitted.append(s.submit(f'{burner(t)}\n', '-n1', f'--job-name={name}', f'--output={out}/{name}', *more, user=USER))
            return submitted[-1]

        def ended(job):
            """And its epilog, which hands the report over last of all."""
            s.wait_state(job, 'COMPLETED', 120)
            wait_until(lambda: any(f.startswith(f'{job}.') and f.endswith('.txt') and owner(t.path('reports', f))[0] == USER
                                   for f in os.listdir(t.path('reports'))), 60, f'the report of {job}')  # fmt: skip

        def at_head(*jobs):
            """What the head has of these jobs. On a busy machine the five seconds for delivery may not be enough: then the next
            job's takes it along."""
            for _ in range(5):
                if not os.listdir(spool):
                    break
                ended(submit('carrier'))
            found = [r for r in rows(head) if r['job'] in [str(job) for job in jobs]]
            t.equal('each once', sorted(r['job'] for r in found), sorted(map(str, jobs)))
            return {r['job']: r for r in found}

        first = submit('a|b,c')
        ended(first)
        r = at_head(first)[str(first)]
        t.equal('whose', [r['state'], r['source'], r['kind'], r['user'], r['name']], [FINISHED, 'job', 'slurm', USER, 'a|b,c'])
        j = r['document']['jobs'][0]
        t.equal('of Slurm', [j['partition'], j['cluster'], j['ended'], j['uid']], ['debug', 'testers', True, pwd.getpwnam(USER).pw_uid])
        # See check_report() above: how much of its two seconds is seen depends on the machine; the case before is exact.
        t.true('what it did', 0.1 <= j['thread_seconds']['cpu'] <= 3 and j['metrics']['total_syscalls'] > 0, j['thread_seconds'])
        t.true('its processes', 1 <= j['metrics']['monitored_pids'] <= 3, j['metrics'])
        t.true('judged', r['class'] and r['score'] is not None, r['class'])
        # Two at once, on both nodes, that end while there is no head; the jobs do not hear of it.
        kill(head)
        two = [submit(f'two{i}', f'--nodelist={node}') for i, node in enumerate(s.nodes)]
        for job in two:
            ended(job)
        t.equal('both wait', len(os.listdir(spool)), 2)
        t.true('the head did not hear of them', not {str(x) for x in two} & {r['job'] for r in rows(head)})
        t.true('the nodes stay', 'drain' not in s.run('sinfo', '-h', '-N', '-o', '%T').stdout)
        again(head)
        last = submit('last')
        ended(last)
        found = at_head(first, *two, last)
        t.equal('states', {r['state'] for r in found.values()}, {FINISHED})
        t.equal('users', {r['user'] for r in found.values()}, {USER})
        t.equal('names', [found[str(x)]['name'] for x in (*two, last)], ['two0', 'two1', 'last'])
        for r in found.values():
            t.true(f'what {r["job"]} did', 0.1 <= r['document']['jobs'][0]['thread_seconds']['cpu'] <= 3, r['document']['jobs'][0]['thread_seconds'])
        t.equal('nothing waits', os.listdir(spool), [])
        t.equal('all of them once', sorted(r['job'] for r in rows(head)), sorted(map(str, submitted)))
    head.stop()


@case('prolog and epilog without gpuscope, or with one that fails: jobs run', timeout=240, needs=None)
def prolog_missing(t):
    for binary, said in (('/nowhere/gpuscope', 'no program /nowhere/gpuscope'), ('/bin/false', 'gpuscope job ended with 1')):
        lines = install(t, binary)
        with Slurm(t, prolog=lines) as s:
            job = s.submit('echo ran > ran.txt\n', '-n1', f'--chdir={user_folder(t, binary.replace("/", "_"))}', user=USER)
            s.wait_state(job, 'COMPLETED', 90)
            t.true('the node stays', 'drain' not in s.run('sinfo', '-h', '-N', '-o', '%T').stdout)
            t.equal('no report', [f for f in os.listdir(t.path('reports')) if f.startswith(f'{job}.')]
                    if os.path.exists(t.path('reports')) else [], [])  # fmt: skip
            del said  # slurmd keeps what a prolog says only when it fails
        os.rename(t.path('slurm'), t.path('slurm' + binary.replace('/', '_')))


@case('a configuration that is not root\'s, or broken, is not run', timeout=60, needs=None)
def configuration(t):
    install(t)
    conf, mark = t.path('gs.conf'), t.path('mark')
    env = {'SLURM_JOB_ID': '4711', 'SLURM_JOB_UID': '5', 'PATH': os.environ['PATH']}
    script = os.path.join(t.path('libexec'), 'epilog.sh')

    def run():
        return subprocess.run([script], env=env, capture_output=True, text=True, timeout=60)

    if os.geteuid() != 0:
        raise Skip('needs root: files of several users')
    with open(conf, 'w') as f:
        f.write(f'touch {mark}\n')
    os.chmod(conf, 0o666)
    done = run()
    t.equal('writable', (done.returncode, os.path.exists(mark)), (0, False))
    t.match('said', 'is not read: others than root may write it', done.stderr)
    os.chmod(conf, 0o644)
    os.chown(conf, 5, 60)
    done = run()
    t.equal("a user's", (done.returncode, os.path.exists(mark)), (0, False))
    t.match('said', 'does not belong to root', done.stderr)
    os.chown(conf, 0, 0)
    with open(conf, 'w') as f:
        f.write('if [ "\n')
    t.equal('broken', run().returncode, 0)
    env['SLURM_JOB_ID'] = '1; touch ' + mark
    with open(conf, 'w') as f:
        f.write('')
    done = run()
    t.equal('a job that is none', (done.returncode, os.path.exists(mark)), (0, False))


@case('srun --gpuscope: a report of the user\'s own; without it nothing', timeout=180)
def spank(t):
    with Slurm(t, prolog=plugin(t)) as s:
        out = user_folder(t)
        with open(t.path('env.sh'), 'w') as f:
            f.write(ENV)
        os.chmod(t.path('env.sh'), 0o755)
        s.env['OUT'] = out
        plain = s.run('srun', '-n1', 'sh', t.path('env.sh'), 'plain.env', user=USER)
        t.equal('without it', (plain.stderr, os.listdir(out)), ('', ['plain.env']))
        done = s.run('srun', '-n1', '--gpuscope', f'--gpuscope-output={out}', *burner(t).split(), user=USER, timeout=120)
        reports = sorted(f for f in os.listdir(out) if f.startswith('gpuscope-'))
        # Numbers follow one another: this is the second job.
        second, sixth = s.first_job + 1, s.first_job + 5
        t.equal('reports', [re.sub(r'\.p\d+n\d\.', '.NODE.', f) for f in reports],
                [f'gpuscope-{second}.0.NODE.json', f'gpuscope-{second}.0.NODE.txt'])
        for f in reports:
            t.equal(f'owner of {f}', owner(os.path.join(out, f))[0], USER)
        check_report(t, os.path.join(out, reports[0]), second)
        t.match('the report at the end', rf'Job {second}\b.* of games', done.stderr)
        t.equal('output', done.stdout, '')
        # Slurm's own processes and ours are no part of the job: a sleeper, and who waits for it.
        s.run('srun', '-n1', '--gpuscope', f'--gpuscope-output={user_folder(t, "sleep")}', 'sleep', '1', user=USER, timeout=120)
        with open(os.path.join(t.path('sleep'), next(f for f in os.listdir(t.path('sleep')) if f.endswith('.json')))) as f:
            j = json.load(f)['jobs'][0]
        t.true('processes', j['metrics']['monitored_pids'] <= 3, j['metrics'])
        t.true('asleep', 1 <= j['thread_seconds']['sleep'] <= j['duration_seconds'] + 0.02, j)
        t.true('cpu', j['thread_seconds']['cpu'] < j['thread_seconds']['sleep'], j['thread_seconds'])
        # Its exit status and environment are the job's own.
        t.equal('status', s.run('srun', '-n1', '--gpuscope', f'--gpuscope-output={out}', 'sh', '-c', 'exit 7', user=USER,
                                check=False, timeout=120).returncode, 7)  # fmt: skip
        s.run('srun', '-n1', '--gpuscope', f'--gpuscope-output={out}', 'sh', t.path('env.sh'), 'with.env', user=USER, timeout=120)
        names = [{line.split('=')[0] for line in read_text(os.path.join(out, f)).splitlines()} for f in ('plain.env', 'with.env')]
        t.equal('environment', {n for n in names[0] ^ names[1] if 'SPANK' not in n}, set())
        wait_until(lambda: not os.listdir(t.path('run')), 30, 'nothing is left of the recorders')
        # The folder from which it was submitted is the default.
        os.chown(s.path('work'), pwd.getpwnam(USER).pw_uid, -1)
        s.run('srun', '-n2', '--gpuscope=job', *burner(t).split(), user=USER, timeout=120)
        mine = [f for f in os.listdir(s.path('work')) if f.startswith(f'gpuscope-{sixth}.0.') and f.endswith('.json')]
        t.equal('reports', len(mine), 1)
        check_report(t, s.path('work', mine[0]), sixth, tasks=2)


@case('sbatch --gpuscope: the batch script is recorded', timeout=120)
def batch(t):
    with Slurm(t, prolog=plugin(t)) as s:
        out = user_folder(t)
        job = s.submit(f'{burner(t)}\n', '-n1', '--gpuscope', f'--gpuscope-output={out}', user=USER)
        s.wait_state(job, 'COMPLETED', 90)
        wait_until(lambda: any(f.endswith('.txt') for f in os.listdir(out)), 60, 'the report')
        name = next(f for f in os.listdir(out) if f.endswith('.json'))
        t.match('name', rf'^gpuscope-{job}\.batch\.p\d+n\d\.json$', name)
        check_report(t, os.path.join(out, name), job)


@case('srun --gpuscope=trace: calls of the step, counted', timeout=180)
def trace(t):
    with Slurm(t, prolog=plugin(t)) as s:
        out = user_folder(t)
        done = s.run('srun', '-n1', '--gpuscope=trace', f'--gpuscope-output={out}', *burner(t).split(), user=USER, timeout=120)
        t.true('the trace began in time', 'not traced' not in done.stderr, done.stderr)
        gst = [f for f in os.listdir(out) if f.endswith('.gst')]
        t.equal("a trace of the user's", [owner(os.path.join(out, f))[0] for f in gst], [USER])
        # The stand-ins may lie where only root can go. Theirs are no libraries that a machine knows of before they are
        # mapped, so the first call waits until they have probes.
        os.makedirs(t.path('root2'))
        go = t.path('go')
        step = subprocess.Popen([find('srun'), '-n1', '--gpuscope=trace', f'--gpuscope-output={t.path("root2")}',
                                 *t.app(f'--go-file={go}', 'cudaLaunchKernel=101')], env=s.env, stdout=subprocess.DEVNULL)  # fmt: skip
        library = os.path.realpath(harness.fake) + '/'

        def probed():
            logs = [os.path.join(t.path('run'), d, 'trace.log') for d in os.listdir(t.path('run'))]
            return any(library in read_text(p) and 'libcudart' in read_text(p).split(library)[1] for p in logs if os.path.exists(p))

        wait_until(probed, 60, 'probes in the stand-in')
        with open(go, 'w'):
            pass
        t.equal('status', step.wait(90), 0)
        gst = [os.path.join(t.path('root2'), f) for f in os.listdir(t.path('root2')) if f.endswith('.gst')]
        t.equal('traces', len(gst), 1)
        run = t.tool('report', gst[0], '--format', 'json', status=0)
        calls = {f['name']: f['calls'] for f in json.loads(run.out)['functions']}
        t.equal('launches', calls.get('cudaLaunchKernel'), 101)


@case('what goes wrong with the recording is one line; the step runs', timeout=180, needs=None)
def spank_trouble(t):
    with Slurm(t, prolog=plugin(t)) as s:
        conf, good = t.path('gs.conf'), read_text(t.path('gs.conf'))

        def step(*options, command=('echo', 'ran')):
            done = s.run('srun', '-n1', '--gpuscope', *options, *command, user=USER, timeout=120)
            lines = [x for x in done.stderr.splitlines() if 'gpuscope' in x]
            t.equal(f'output of {options}', done.stdout, 'ran\n')
            t.equal(f'lines of {options} ({done.stderr})', len(lines), 1)
            return lines[0] if lines else ''

        out = user_folder(t)
        with open(conf, 'w') as f:
            f.write(good.replace(harness.gpuscope, '/nowhere/gpuscope'))
        t.match('missing', r'gpuscope: the step is not recorded: no program /nowhere/gpuscope on \S+$', step(f'--gpuscope-output={out}'))
        with open(conf, 'w') as f:
            f.write(good.replace(harness.gpuscope, '/bin/false'))
        t.match('failing', r'gpuscope: the step is not recorded: job \d+ is not recorded: gpuscope job ended with 1',
                step(f'--gpuscope-output={out}'))  # fmt: skip
        t.equal('nothing', os.listdir(out), [])
        with open(conf, 'w') as f:
            f.write(good)
        os.rename(t.path('libexec', 'slurm-record'), t.path('libexec', 'away'))
        t.match('no script', r'gpuscope: the step is not recorded: cannot run .*/slurm-record', step(f'--gpuscope-output={out}'))
        os.rename(t.path('libexec', 'away'), t.path('libexec', 'slurm-record'))
        # A folder of root's: the user cannot write there, and root does not do it for him.
        os.makedirs(t.path('roots'))
        t.match('not his', rf'gpuscope: cannot write {t.path("roots")}/gpuscope-\d+\.0\.p\d+n\d\.json: .*[Pp]ermission denied',
                step(f'--gpuscope-output={t.path("roots")}'))  # fmt: skip
        t.equal('nothing', os.listdir(t.path('roots')), [])
        # A link of his to a file of root's.
        with open(t.path('precious'), 'w') as f:
            f.write('precious')
        link = f'ln -s {t.path("precious")} {out}/gpuscope-$SLURM_JOB_ID.0.$SLURMD_NODENAME.json; echo ran'
        done = s.run('srun', '-n1', '--gpuscope', f'--gpuscope-output={out}', 'sh', '-c', link, user=USER, timeout=120)
        t.equal('his link', (done.stdout, read_text(t.path('precious'))), ('ran\n', 'precious'))
        t.match('said', 'gpuscope: cannot write .*[Pp]ermission denied', done.stderr)
        bad = s.run('srun', '-n1', '--gpuscope=all', 'true', user=USER, check=False)
        t.true('a word that is none', bad.returncode and '--gpuscope takes job or trace, not "all"' in bad.stderr, bad.stderr)


@case('the scripts run the program of the prefix in which they are installed', needs=None)
def prefix(t):
    for own in (True, False):
        root = t.path(f'prefix{own}')
        libexec = os.path.join(root, 'libexec', 'gpuscope')
        shutil.copytree(SOURCE, libexec)
        program = os.path.join(root, 'bin', 'gpuscope')
        if own:
            os.mkdir(os.path.dirname(program))
            os.symlink(harness.gpuscope, program)
        words = f'here={libexec}; . "$here/common.sh"; read_conf; echo "$GPUSCOPE"'
        done = subprocess.run(['sh', '-c', words], capture_output=True, text=True, check=True,
                              env={'GPUSCOPE_SLURM_CONF': '/nonexistent'})  # fmt: skip
        t.equal('program', done.stdout.strip(), os.path.realpath(program) if own else '/usr/bin/gpuscope')


if __name__ == '__main__':
    main(beside='jobs')
