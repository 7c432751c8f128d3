#!/usr/bin/env python3
"""One GPU, a quarter of whose memory is used, and the same share of it wherever it is shown. The driver keeps some of the memory for
itself: a place that counts that as used, or not as memory, has another share."""

import csv
import io
import json
import re

from agent_help import Agent
from browser import Browser
from harness import case, main, wait_until
from page_help import Head, text
from top_help import Screen, nvml

GPU = 'gpus=1,memory=20480'  # MiB, of 81,920; the driver keeps 512
SHARE = 0.25


def of_commands(t):
    env = {'FAKE_NVML': GPU}
    values = json.loads(t.tool('gpu', '--nvml', nvml(), '--format', 'json', env=env, status=0).out)['gpus'][0]['values']
    yield 'gpu', values['memory_used_bytes'] / values['memory_total_bytes']
    rows = csv.DictReader(io.StringIO(t.tool('gpu', '--nvml', nvml(), '--compat', 'gswarm', '--format', 'csv', env=env, status=0).out))
    yield "gpu with gswarm's names", float(next(rows)['mem_util'])
    s = Screen(t, '--ascii', env=env, columns=200)
    inside = re.search(r'\[([| ]*20\.0G/80\.0G)\]', s.wait(r'\[[| ]*20\.0G/80\.0G\]'))[1]
    s.keys('q')
    s.wait('ended with 0')
    s.close()
    full = inside.count('|')
    yield 'top', SHARE if full == round(SHARE * len(inside)) else full / len(inside)


def of_metrics(a):
    def found():
        return {k: float(v) for k, v in re.findall(r'(?m)^(gpuscope_gpu_memory_(?:used|total)_bytes)\{[^}]*\} (\S+)$', a.get()[2].decode())}

    wait_until(lambda: len(found()) == 2, 60, 'metrics of the memory')
    return found()['gpuscope_gpu_memory_used_bytes'] / found()['gpuscope_gpu_memory_total_bytes']


def of_page(t, whose, address, get, path):
    """What the page is made of, and what stands on it."""
    wait_until(lambda: [g['memory_used_ratio'] for g in get('/api/v1/gpus')['gpus']] not in ([], [None]), 60, f'a GPU of {whose}')
    yield f'API of {whose}', get('/api/v1/gpus')['gpus'][0]['memory_used_ratio']

    def means():
        return [v for v in get('/api/v1/series?node=1&gpu=0&from=-60&points=60&values=memory_used_ratio')['values']['memory_used_ratio']['mean'] if v is not None]

    wait_until(means, 60, f'a point of the chart of {whose}')
    yield f'chart of {whose}', means()[-1]
    b = Browser(t, name=whose)
    b.open(f'http://{address}/{path}')
    cells = ('[...document.querySelectorAll("main table")].map(e => [[...e.querySelectorAll("th")].findIndex(th => /^Memory/.test(th.innerText)), e])'
             '.filter(([i]) => i >= 0).map(([i, e]) => e.querySelector("tbody tr").children[i].innerText)')  # fmt: skip
    b.wait(f'/%/.test(({cells})[0])', 'the table of GPUs, with a share')
    column = b.run(cells)
    t.true(f'a share on the page of {whose}', column and re.fullmatch(r'\d+ %', column[0].strip()), (column, text(b)))
    yield f'page of {whose}', int(column[0].split()[0]) / 100


def of_head(t, h):
    yield from of_page(t, 'head', h.http, h.get, '#/gpus')
    t.equal('a session', h.json('POST', '/api/v1/sessions', {'name': 's'})[0], 200)
    wait_until(lambda: h.get('/api/v1/sessions/s')['samples'] > 3, 60, 'samples')
    h.json('POST', '/api/v1/sessions/s/stop', {})
    for kind, whole in (('gswarm', 1), ('json', 100)):
        yield f'an export as {kind}', float(h.get(f'/api/v1/sessions/s/export?format={kind}')['frames'][-1]['gpu_memory'][0]) / whole
    (client,) = h.get('/metrics/latest')['client_data'].values()
    yield "gswarm's interface", client['gpus_metrics'][0]['mem_util'] / 100


@case('how full the memory of a GPU is: gpu, top, metrics, pages, API, exports', timeout=200, needs=None)
def memory(t):
    shares = dict(of_commands(t))
    a = Agent(t, what=GPU)
    shares['metrics of an agent'] = of_metrics(a)
    shares.update(of_page(t, 'agent', a.address, lambda path: json.loads(a.get(path)[2]), ''))
    h = Head(t, '--interval', '200ms')
    node = h.node('one', 1, ',memory=20480')
    h.wait_gpus(1)
    shares.update(of_head(t, h))
    node.terminate()
    h.stop()
    t.equal('one share', shares, dict.fromkeys(shares, SHARE))
    t.equal('of as many places', len(shares), 13)


if __name__ == '__main__':
    main()
