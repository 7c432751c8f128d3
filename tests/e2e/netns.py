"""Several hosts that deliver to one head over networks that lose, delay and part, with wrong clocks,
with programs that are killed: afterwards everything is accounted for in the head's store.

Each host is a network namespace that a sleeping process holds: it vanishes with that process. Lines
that lose and delay are a process of ours between two virtual cards (wire.py), since not every kernel
has netem."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import Skip, case, main, wait_until
from head_help import Head, Node, account, nvml, skewed

HEAD = '10.77.0.1'
ROUNDS = int(os.environ.get('GPUSCOPE_KILL_ROUNDS', '10'))  # of killing; more by hand


class Net:
    """A switch, and hosts on it."""

    def __init__(self, t):
        if os.geteuid() != 0:
            raise Skip('needs root: network namespaces')
        for tool in ('ip', 'unshare', 'nsenter'):
            if not shutil.which(tool):
                raise Skip(f'{tool} is not installed')
        nvml()
        self.t, self.n = t, 0
        self.switch = self.hold()
        if self.ip(self.switch, 'link', 'add', 'name', 'switch', 'type', 'bridge', check=False).returncode:
            raise Skip('this kernel makes no bridges')
        self.ip(self.switch, 'link', 'set', 'switch', 'up')
        self.head = self.host()

    def hold(self):
        try:
            proc = subprocess.Popen(['unshare', '--net', 'sleep', 'infinity'], stderr=subprocess.DEVNULL)
            ours = os.stat('/proc/self/ns/net').st_ino
            wait_until(lambda: proc.poll() is not None or os.stat(f'/proc/{proc.pid}/ns/net').st_ino != ours, 20, 'namespace')
        except OSError as e:
            raise Skip(f'no network namespaces: {e}') from e
        if proc.poll() is not None:
            raise Skip('no network namespaces here')
        return proc.pid

    def inside(self, pid):
        return ['nsenter', '-t', str(pid), '-n', '--']

    def ip(self, pid, *words, check=True):
        return subprocess.run([*self.inside(pid), 'ip', *words], check=check, capture_output=True, text=True)

    def host(self, delay_ms=0, loss_up=0, loss_down=0):
        """A host with an address; its words are to stand in front of commands."""
        self.n += 1
        pid, port = self.hold(), f'p{self.n}'
        self.ip(self.switch, 'link', 'add', 'name', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(pid))
        self.ip(self.switch, 'link', 'set', port, 'up')
        self.ip(pid, 'link', 'set', 'lo', 'up')
        self.ip(pid, 'address', 'add', f'10.77.0.{self.n}/24', 'dev', 'eth0')
        self.ip(pid, 'link', 'set', 'eth0', 'up')
        if delay_ms or loss_up or loss_down:
            self.wire(pid, port, delay_ms, loss_up, loss_down)
        else:
            self.ip(self.switch, 'link', 'set', port, 'master', 'switch')
        return pid

    def wire(self, pid, port, delay_ms, loss_up, loss_down):
        far, near = port + 'f', port + 'n'
        self.ip(self.switch, 'link', 'add', 'name', near, 'type', 'veth', 'peer', 'name', far)
        self.ip(self.switch, 'link', 'set', far, 'master', 'switch')
        for name in (near, far):
            self.ip(self.switch, 'link', 'set', name, 'up')
        wire = os.path.join(harness.HERE, 'wire.py')
        for ns, card in ((pid, 'eth0'), (self.head, 'eth0')):
            subprocess.run([*self.inside(ns), sys.executable, wire, 'whole', card], check=True)
        subprocess.Popen([*self.inside(self.switch), sys.executable, wire, port, near, str(delay_ms), str(loss_up),
                          str(loss_down)])  # fmt: skip

    def part(self, pid, up):
        self.ip(pid, 'link', 'set', 'eth0', 'up' if up else 'down')


def settled(head, *nodes, seconds=240):
    """Everything made has been acknowledged at some moment, while it goes on."""
    for node in nodes:
        wait_until(lambda n=node: head.stored(n.name) > 0, seconds, f'{node.name} comes')


def end(t, head, node, seconds=240):
    """Ends a node when it can deliver; nothing waits then. Another start delivers what did not fit
    into the time that one gives itself."""
    told = node.stop()
    for _ in range(20):
        if told[3] == 0:
            return told
        node.start()
        wait_until(node.waits_for_nothing, seconds, f'{node.name} delivers')
        told = node.stop()
    t.fail(f'{node.name} never delivers everything: {told}')
    return told


@case('loss, delay, a partition, a wrong clock: all of it, at its own time', timeout=400, needs=None)
def network(t):
    net = Net(t)
    head = Head(t, HEAD + ':8090', net.inside(net.head))
    lossy, parted, wrong, killed = net.host(50, 0.2, 0.05), net.host(), net.host(20), net.host()
    nodes = [Node(t, head.address, 'lossy', net.inside(lossy)),
             Node(t, head.address, 'parted', net.inside(parted)),
             Node(t, head.address, 'wrong', net.inside(wrong), env=skewed(t, -1800)),
             Node(t, head.address, 'killed', net.inside(killed))]  # fmt: skip
    settled(head, *nodes)
    before = head.stored('parted')
    net.part(parted, False)
    # It goes on measuring, and another one dies meanwhile.
    seq, down = nodes[1].last_seq(), time.time_ns()
    nodes[3].kill()
    wait_until(lambda: nodes[1].last_seq() >= seq + 20, 60, 'the parted node measures')
    nodes[3].start()
    up = time.time_ns()
    net.part(parted, True)
    wait_until(lambda: head.stored('parted') > before + 20, 240, 'the parted node comes back')
    wait_until(lambda: head.stored('killed') > 5, 120, 'the killed node comes back')
    wait_until(lambda: head.stored('lossy') > 30, 240, 'the lossy line delivers')
    wait_until(lambda: head.stored('wrong') > 30, 120, 'the node with the wrong clock delivers')
    for node in nodes:
        told = end(t, head, node)
        t.equal(f'{node.name}: lost', told[4], 0)
    for node in nodes:
        s = account(t, head, node)[0]
        if node.name != 'killed':
            t.equal(f'{node.name}: read and stored', s['n_samples'], node.n_read)
            t.equal(f'{node.name}: missed', s['missed_samples'] <= node.n_missed, True)
    # What was measured while it was away stands at its own time.
    rows = head.batches(head.streams('parted')[0]['id'])
    t.true('batches of the partition', sum(down < row[1] < up for row in rows) >= 19)
    # Half of a round trip is what an estimate can be wrong by; a busy machine's trips are long.
    offsets = [row[3] / 1e9 for row in head.batches(head.streams('wrong')[0]['id'])]
    t.true('the first batch has an estimate too', all(abs(x - 1800) < 15 for x in offsets), str(offsets[:3]))
    t.true('the estimate', abs(offsets[-1] - 1800) < 2, str(offsets[-1]))
    t.note(f'offset {offsets[-1] - 1800:+.4f} s beside the truth; {sum(n.n_read for n in nodes)} samples')
    head.stop()


@case('head and nodes killed at random points', timeout=300 + 12 * ROUNDS, needs=None)
def kills(t):
    net = Net(t)
    seed = int(os.environ.get('GPUSCOPE_SEED', random.randrange(1 << 30)))
    dice = random.Random(seed)
    t.note(f'GPUSCOPE_SEED={seed} GPUSCOPE_KILL_ROUNDS={ROUNDS}')
    head = Head(t, HEAD + ':8090', net.inside(net.head))
    nodes = [Node(t, head.address, f'node{i}', net.inside(net.host()), options=['--interval', '50ms']) for i in range(4)]
    settled(head, *nodes)
    for _ in range(ROUNDS):
        who = dice.choice([head, head, *nodes[1:]])  # the first node lives through it all
        time.sleep(dice.random())  # at any point of whatever it does
        who.kill()
        if dice.random() < 0.5:
            time.sleep(dice.random())
        who.start()
    total = sum(head.stored(n.name) for n in nodes)
    for node in nodes:
        wait_until(lambda n=node: node_is_back(head, n), 240, f'{node.name} comes back')
    for node in nodes:
        told = end(t, head, node)
        t.equal(f'{node.name}: lost', told[4], 0)
        account(t, head, node)
    t.equal('read and stored', head.stored('node0'), nodes[0].n_read)
    t.true('it went on', sum(head.stored(n.name) for n in nodes) > total)
    t.equal('the store is sound', head.ask('PRAGMA integrity_check'), [('ok',)])
    head.stop()


def node_is_back(head, node):
    if not hasattr(node, 'seen'):
        node.seen = head.stored(node.name)
    return head.stored(node.name) > node.seen


@case('a full disk at a node: memory takes over, what is lost is counted', timeout=240, needs=None)
def full(t):
    net = Net(t)
    spool = t.path('small')
    os.mkdir(spool)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=96k', 'none', spool], check=True)
    node = Node(t, HEAD + ':8090', 'full', net.inside(net.host()), spool=spool,
                options=['--interval', '50ms', '--all-processes', '--memory-max', '128K'])  # fmt: skip
    wait_until(lambda: (node.state() or {}).get('lost_samples', 0) >= 10, 120, 'samples are lost')
    t.true('memory is used', node.state()['memory_batches'] > 0)
    head = Head(t, HEAD + ':8090', net.inside(net.head))
    settled(head, node)
    told = end(t, head, node)
    s = account_gaps(t, head, node)
    t.equal('lost, as the node and the head say', [told[4], s['lost_samples']], [node.state()['lost_samples']] * 2)
    t.true('some were lost', told[4] >= 10)
    t.equal('read: stored or lost', node.n_read, s['n_samples'] + s['lost_samples'])
    # Killed while its disk is full: the next run counts what was in its memory alone.
    head.kill()
    node.start()
    wait_until(lambda: node.state()['memory_batches'] > 0, 120, 'memory is used again')
    node.live.proc.send_signal(signal.SIGSTOP)  # or its state changes until it dies
    before = node.state()
    node.kill()
    head.start()
    node.start()
    wait_until(lambda: node.state()['lost_samples'] >= before['lost_samples'] + before['memory_samples'], 60, 'counted')
    end(t, head, node)
    s = head.streams('full')[0]
    t.equal('lost with the killed program', [node.state()['lost_samples'], s['lost_samples']],
            [before['lost_samples'] + before['memory_samples']] * 2)  # fmt: skip
    account_gaps(t, head, node)
    head.stop()


def account_gaps(t, head, node):
    """As account(), where numbers are missing at the begin too."""
    streams = head.streams(node.name)
    t.equal('streams', len(streams), 1)
    s, state = streams[0], node.state()
    seqs = [row[0] for row in head.batches(s['id'])]
    t.true('numbers rise', all(a < b for a, b in zip(seqs, seqs[1:])))
    t.equal('numbers that are missing', seqs[-1] - len(seqs), s['lost_batches'])
    t.equal('all of it', s['last_seq'], state['next_seq'] - 1)
    return s


if __name__ == '__main__':
    main()
