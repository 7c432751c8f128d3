#!/usr/bin/env python3
"""Reports of jobs at a head: delivered once, whoever is killed; listed, compared; hostile ones refused."""

import json
import os
import subprocess
import sys
import threading
import time

from agent_help import Agent, config_text
from cluster_help import Stubs, messages
from harness import Skip, case, main, page_report, read_text, wait_until
from job_help import FINISHED, LANE_OF_USER, PARTIAL, RUNNING, USER, again, ask, batch, end, job, kill, rest, rounded, rows, spin, waits
from page_help import Head


@case('a report of gpuscope job: stored once, as in its file, and nothing waits', timeout=120)
def delivered(t):
    head = Head(t)
    p = rest()
    try:
        job(t, head, '-p', str(p.pid), '-o', t.path('r.json'))
    finally:
        end(p)
    stored = rows(head)
    t.equal('reports', len(stored), 1)
    with open(t.path('r.json')) as f:
        in_file = json.load(f)
    r, verdict = stored[0], in_file['jobs'][0]['classification']
    t.equal('the same job', rounded(r['document']['jobs'][0]), rounded(in_file['jobs'][0]))
    t.equal('in columns', [r['state'], r['source'], r['kind'], r['job']], [PARTIAL, 'job', 'tree', f'tree of {p.pid}'])
    t.equal('class and score', [r['class'], r['score']], [verdict['type'], verdict['efficiency_score']])
    stream = lambda: ask(head, 'SELECT kind, ended, last_seq, n_samples FROM stream')  # noqa: E731
    wait_until(lambda: stream() == [(3, 1, 1, 1)], 60, 'the stream is over')
    t.equal('it is no batch of samples', ask(head, 'SELECT count(*) FROM batch'), [(0,)])
    t.equal('and who sent it no node to be watched', head.json('GET', '/api/v1/nodes')[1]['total'], 0)
    t.equal('nothing waits', waits(t), [])
    head.stop()


@case('the head is killed before and between: kept, told, delivered once by the next measurement', timeout=300)
def away(t):
    head = Head(t)
    p = spin()
    try:
        job(t, head, '-p', str(p.pid))
        kill(head)
        run = job(t, head, '-p', str(p.pid))
        t.match('it is told', r'1 report not delivered yet: .*the next measurement with --head, or gpuscope connect, sends them from', run.err)
        job(t, head, '-p', str(p.pid))
        t.equal('two wait', len(waits(t)), 2)
        again(head)
        run = job(t, head, '-p', str(p.pid))
    finally:
        end(p)
    t.match('it is told', r'2 earlier measurements delivered to the head, too', run.err)
    t.equal('nothing waits', waits(t), [])
    found = rows(head)
    t.equal('each once', [len(found), len({r['report'] for r in found})], [4, 4])
    kill(head)
    again(head)
    t.equal('and they stay', [r['report'] for r in rows(head)], [r['report'] for r in found])
    head.stop()


GROUP = f'gpuscope-job-{os.getpid()}'


def make_group():
    """A cgroup of our own: the job of whoever is in it."""
    v2 = next((p for p in ('/sys/fs/cgroup/unified', '/sys/fs/cgroup') if os.path.exists(p + '/cgroup.procs')), None)
    for base in ('/sys/fs/cgroup/memory', '/sys/fs/cgroup/cpu', v2):
        try:
            if base and os.path.exists(base):
                os.makedirs(f'{base}/{GROUP}', exist_ok=True)
                return f'{base}/{GROUP}'
        except OSError:
            pass
    raise Skip('no cgroup can be made')


def gone(group):
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True


def spin_in(group):
    script = f'echo $$ > {group}/cgroup.procs && exec {sys.executable} -c "while True: pass"'
    return subprocess.Popen(['sh', '-c', script], cwd='/')


def agent(t, head):
    jobs = 'jobs:\n  interval: 500ms\n  slurm: false\n  pods: false\n  cgroups: true\n  linger: 20s\n'
    link = f'head:\n  addresses: "{head.grpc}"\n  spool: {t.path("agent-spool")}\n  machine_id: node\n  jobs_interval: 1s\n'
    return Agent(t, config_text(more=jobs + link), what='gpus=2')


def of_group(head):
    return [r for r in rows(head) if GROUP in r['job']]


@case('an agent: a report while a job runs, replaced until it has ended, over a kill of the head', timeout=300)
def of_agent(t):
    group = make_group()
    head = Head(t)
    a = agent(t, head)
    p = spin_in(group)
    try:
        wait_until(lambda: of_group(head), 60, 'a report of the running job')
        first = of_group(head)[0]
        t.equal('running', [first['state'], first['source'], first['kind']], [RUNNING, 'agent', 'cgroup'])
        wait_until(lambda: of_group(head)[0]['end_wall_ns'] > first['end_wall_ns'], 60, 'a newer one')
        kill(head)
        end(p)
        a.wait_metric('gpuscope_agent_head_waiting_job_reports', lambda v: v and v >= 1, 60)
        again(head)
        wait_until(lambda: of_group(head)[0]['state'] == FINISHED, 90, 'the report of the end')
    finally:
        end(p)
    found = of_group(head)
    t.equal('it is one, and the same', [r['report'] for r in found], [first['report']])
    done = found[0]['document']['jobs'][0]
    t.equal('ended', done['ended'], True)
    t.true('it computed', done['thread_seconds']['cpu'] > 0, str(done['thread_seconds']))
    t.true('and is judged', done['classification']['efficiency_score'] is not None and done['classification']['evidence'])
    wait_until(lambda: a.metrics().get('gpuscope_agent_head_waiting_job_reports') == 0, 60, 'nothing waits')
    t.equal('nothing lost', a.metrics()['gpuscope_agent_head_lost_job_reports_total'], 0)
    p = spin_in(group)
    try:
        try:
            wait_until(lambda: any(r['state'] == RUNNING for r in of_group(head)), 60, 'it runs again')
        except AssertionError:
            t.note(f'in the group: {read_text(f"{group}/cgroup.procs").split()}, started: {p.pid}; rows: {[(r["state"], r["report"][:8]) for r in of_group(head)]}')
            t.note({k: v for k, v in a.metrics().items() if k.startswith(('gpuscope_agent_head', 'gpuscope_agent_job'))})
            raise
        before = len(of_group(head))
        a.stop()
        t.equal('the agent ended before the job', [r['state'] for r in of_group(head)][-1], PARTIAL)
        a = agent(t, head)
        wait_until(lambda: of_group(head)[-1]['state'] == RUNNING, 60, 'the next agent tells of it')
        a.proc.kill()
        a.proc.wait()
        t.equal('killed: it said so last', of_group(head)[-1]['state'], RUNNING)
        a = agent(t, head)
        wait_until(lambda: len(of_group(head)) == before + 2 and of_group(head)[-1]['state'] == RUNNING, 60, 'one more agent')
        wait_until(lambda: of_group(head)[-2]['state'] == PARTIAL, 60, 'what the killed one left behind is partial')
    finally:
        end(p)
    wait_until(lambda: of_group(head)[-1]['state'] == FINISHED, 60, 'its end')
    a.stop()
    head.stop()
    wait_until(lambda: gone(group), 20, 'an empty cgroup')


@case('real reports from the live head: list, pages, filters, one, compared by API and command', timeout=300, alone=LANE_OF_USER)
def live(t):
    head = Head(t)
    for make in (rest, rest, rest, rest, spin):
        p = make(user=USER)
        try:
            job(t, head, '-u', USER)
        finally:
            end(p)
    p = rest()
    try:
        job(t, head, '-p', str(p.pid))
    finally:
        end(p)
    get = lambda path: head.json('GET', '/api/v1/job-reports' + path)  # noqa: E731
    _, all_of = get('')
    t.equal('all, newest first', [r['job'] for r in all_of['reports']], [f'tree of {p.pid}'] + 5 * [all_of['reports'][-1]['job']])
    seen, after = [], ''
    while after is not None:
        _, part = get(f'?limit=4{after and "&after=" + after}')
        seen += [r['id'] for r in part['reports']]
        after = part['next']
    t.equal('in pages', seen, [r['id'] for r in all_of['reports']])
    begin = all_of['reports'][3]['start_time']
    t.equal('by user', len(get('?user=' + USER)[1]['reports']), 5)
    t.equal('of nobody else', get('?user=x')[1]['reports'], [])
    t.equal('by job', len(get('?job=tree%20of%20' + str(p.pid))[1]['reports']), 1)
    t.equal('by name', [len(get(q)[1]['reports']) for q in ('?name=*', '?name=no-such*')], [6, 0])
    t.equal('by state', [len(get('?state=' + s)[1]['reports']) for s in ('partial', 'running', 'finished')], [6, 0, 0])
    t.equal('by time', [len(get(q)[1]['reports']) for q in ('?from=-3600', '?to=-3600', f'?from=4000000000')], [6, 0, 0])
    for bad in ('?state=x', '?after=x', '?after=1', '?limit=0', '?from=x', '/compare?ids=', '/compare?ids=1,x', '/compare?last=0'):
        t.equal('refused: ' + bad, get(bad)[0], 400)
    for bad in ('/999', '/x', '/-1', '/compare?ids=999'):
        t.equal('not there: ' + bad, get(bad)[0], 404)
    whole = get(f'/{seen[0]}')[1]
    t.equal('whole', [whole['job'], whole['document']['jobs'][0]['job_id'], whole['start_time']],
            [f'tree of {p.pid}', f'tree of {p.pid}', all_of['reports'][0]['start_time']])  # fmt: skip
    t.true('its parts', whole['document']['jobs'][0]['classification']['efficiency_parts'])
    compared = get(f'/compare?user={USER}')[1]
    t.equal('compared', [compared['summary']['total_jobs'], {j['user'] for j in compared['jobs']}], [5, {USER}])
    # However busy the machine is: it wants a processor, the others none.
    t.true('the one that computes is an outlier', any(o['metric'] == 'wait_percent' and o['file'].endswith('#5') for o in compared['outliers']),
           str(compared['outliers']))  # fmt: skip
    t.equal('of some', len(get('/compare?ids=' + ','.join(map(str, seen[:2])))[1]['jobs']), 2)
    run = t.tool('report', '--compare', '--head', head.grpc, '--user', USER, '--format', 'json', status=0)
    t.equal('the command says the same', json.loads(run.out)['summary'], compared['summary'])
    run = t.tool('report', '--compare', '--head', head.grpc, '--last', '3', status=0)
    t.match('as a table, by its name', rf'\w+ \({p.pid}\)', run.out)
    t.tool('report', '--compare', '--head', head.grpc, '-o', t.path('c.html'), status=0)
    t.true('as a page', page_report(t.path('c.html'))['jobs'])
    run = t.tool('report', '--compare', '--head', head.grpc, '--user', 'x', status=4)
    t.match('none', r'the head at \S+ has no report of such jobs', run.err)
    run = t.tool('report', '--compare', '--head', '127.0.0.1:1', status=1)
    t.match('no head', r'no head answers at 127\.0\.0\.1:1', run.err)
    run = t.tool('report', '--compare', '--user', 'x', t.path('c.html'), status=2)
    t.match('without a head', r'select reports from --head', run.err)
    t.tool('report', '--head', head.grpc, t.path('c.html'), status=2)
    head.stop()


@case('hostile reports are refused by number, and good ones after them are stored', timeout=200, needs=None)
def hostile(t):
    grpc, gp, _ = messages(t)
    head = Head(t)
    # Of now: the head removes what is older than its retention, every ten seconds.
    now = time.time_ns()
    delivery = {'report': 'r1', 'state': 'finished', 'source': 'job', 'kind': 'tree', 'begin_wall_ns': now, 'end_wall_ns': now + 1}
    good = {'delivery': delivery, 'jobs': [{'job_id': '1', 'user': 'u\x1b[2Jv', 'job_name': 'n' * 300, 'classification': 'x'}]}

    def changed(**more):
        return json.dumps({**good, 'delivery': {**delivery, **more}})

    wrong = {
        'nothing': '', 'no JSON': '{', 'a list': '[]', 'no delivery': json.dumps({'jobs': good['jobs']}), 'depth': '[' * 100000,
        'no job': json.dumps({**good, 'jobs': []}), 'two jobs': json.dumps({**good, 'jobs': good['jobs'] * 2}),
        'no list': json.dumps({**good, 'jobs': {}}), 'a job without an id': json.dumps({**good, 'jobs': [{}]}),
        'a path as name': changed(report='../x'), 'no name': changed(report=''), 'a long name': changed(report='x' * 65),
        'a state': changed(state='dead'), 'a source': changed(source='a b'), 'times': changed(begin_wall_ns=2e18),
        'the end first': changed(end_wall_ns=1), 'a late time': changed(begin_wall_ns=2**63 - 2, end_wall_ns=2**63 - 1),
        'bytes': b'\xff' * 64, 'too much': json.dumps({**good, 'more': 'x' * (1 << 20)}), 'twice': '{"jobs": [], ' + json.dumps(good)[1:],
    }  # fmt: skip

    def say():
        yield gp.ToHead(hello=gp.Hello(protocol=1, machine_id='m', hostname='gpu7', stream=5, kind=gp.STREAM_KIND_JOBS))
        yield welcomed.wait(300) and batch(gp, 1, json.dumps(good))
        for i, text in enumerate(wrong.values(), 2):
            yield batch(gp, i, text)
        yield batch(gp, n, json.dumps(good), raw_bytes=80)
        yield batch(gp, n + 1, json.dumps(good), codec=1)
        yield batch(gp, n + 2, json.dumps({**good, 'delivery': {**delivery, 'report': 'r2'}}))
        enough.wait(300)

    welcomed, enough = threading.Event(), threading.Event()
    n, refused, acked = len(wrong) + 2, [], 0
    with grpc.insecure_channel(head.grpc) as channel:
        for m in Stubs(channel, gp, 'Node').Link(say(), timeout=300):
            kind = m.WhichOneof('body')
            welcomed.set() if kind == 'welcome' else None
            if kind == 'reject':
                refused.append(m.reject.seq)
            if kind == 'ack':
                acked = m.ack.seq
            if acked == n + 2:
                enough.set()
                break
    t.equal('refused', refused, list(range(2, n + 2)))
    stored = rows(head)
    t.equal('stored', [r['report'] for r in stored], ['r1', 'r2'])
    t.equal('what steers a terminal does not', [stored[0]['user'], len(stored[0]['name'])], ['u?[2Jv', 127])
    t.equal('and the head lives', head.json('GET', '/api/v1/job-reports')[0], 200)
    run = t.tool('report', '--compare', '--head', head.grpc, status=0)
    t.true('nor in a comparison', '\x1b' not in run.out and '\x1b' not in run.err)
    head.stop()


@case('tokens: a node delivers, read looks, nobody else', timeout=120)
def tokens(t):
    path = t.path('tokens')
    with open(path, 'w') as f:
        f.write('read look-at-it\nnode only-deliver\n')
    os.chmod(path, 0o600)
    for name, word in (('n', 'only-deliver'), ('r', 'look-at-it')):
        with open(t.path(name), 'w') as f:
            f.write(word + '\n')
        os.chmod(t.path(name), 0o600)
    head = Head(t, '--token-file', path)
    p = rest()
    try:
        run = job(t, head, '-p', str(p.pid))
        t.match('without a token it waits', r'1 report not delivered yet', run.err)
        job(t, head, '-p', str(p.pid), '--token-file', t.path('n'))
    finally:
        end(p)
    t.equal('delivered', len(rows(head)), 2)
    run = t.tool('report', '--compare', '--head', head.grpc, '--token-file', t.path('n'), status=3)
    t.equal('who delivers may not look', len(run.err.strip().split('\n')), 1)
    t.tool('report', '--compare', '--head', head.grpc, '--token-file', t.path('r'), status=0)
    t.equal('nor without one', head.json('GET', '/api/v1/job-reports')[0], 401)
    t.equal('who reads may', head.json('GET', '/api/v1/job-reports', headers={'Authorization': 'Bearer look-at-it'})[0], 200)
    head.stop()


@case('wrong options: one line each', timeout=60, needs=None)
def options(t):
    for args, words in ((('--token-file', 'x'), r'need --head'),
                        (('--detach', '/tmp/x.pid'), r'needs -o or --head'),
                        (('--head', 'h:1', '--token-file', '/no/such', '-p', '1'), r'cannot read the token file /no/such'),
                        (('--head', 'h:1', '--spool', '/proc/no', '-p', '1'), r'cannot make /proc/no for the spool')):  # fmt: skip
        run = t.tool('job', *args)
        t.true(f'{args}: status', run.status in (1, 2), str(run.status))
        t.match(str(args), words, run.err)


if __name__ == '__main__':
    main()
