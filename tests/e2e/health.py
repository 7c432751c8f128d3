"""The same states of a stand-in GPU through `gpu`, `top`, the API and alerts: one state, one reason, with its figures."""

import json
import re

from agent_help import Agent, config_text, library
from alert_help import Webhook
from harness import case, main, wait_until
from top_help import Screen, sleeper

RULES = 'alerts:\n  interval: 1s\n  for: 0s\n  gpu_health: info\n  webhook:\n    url: {}\n'
# What the stand-in pretends, state, condition, and the reason but for how long it holds.
STATES = [
    ('ecc=0,throttle=72', 'throttled', 'hw_thermal_slowdown', r'throttled by heat: 40 °C, 1100 of 1981 MHz'),
    ('ecc=0,throttle=4', 'throttled', 'power_cap', r'throttled by the power cap: 300 of 700 W, 1100 of 1981 MHz'),
    ('ecc=0,width=4', 'degraded', 'pcie_width', r'PCIe x4 of x16'),
    ('ecc=3', 'failing', 'ecc_uncorrected', r'uncorrected memory errors: 3 since the driver was loaded'),
    ('ecc=3,throttle=72,width=4', 'failing', 'ecc_uncorrected', r'uncorrected memory errors: 3 since the driver was loaded'),
    ('ecc=0,lost=0', 'failing', 'lost', r'lost: off the bus'),
]


def cause(reason):
    return re.sub(r', for (at least )?\d+ \w+$', '', reason)


def by_gpu(t, words):
    doc = json.loads(t.tool('gpu', '--nvml', library(), '--devices', '--format', 'json', env={'FAKE_NVML': words}, status=0).out)
    health = doc['gpus'][0]['health']
    worst = health['conditions'][0]
    return health['state'], worst['condition'], cause(worst['reason'])


def by_api(a):
    gpu = json.loads(a.get('/api/v1/gpus')[2])['gpus'][0]
    return gpu['state'], gpu['condition'], cause(gpu['reason'])


@case('gpu, top, API and alerts give the same state and reason', timeout=600, needs=None)
def same(t):
    program = sleeper(t, '600')
    for words, state, condition, reason in STATES:
        hook = Webhook()
        what = f'gpus=1,pids={program.pid},{words}'
        # A GPU can be lost only after it was there.
        before = what.replace(',lost=0', '')
        a = Agent(t, text=config_text(more=RULES.format(hook.url)), what=before)
        s = Screen(t, fake_file=a.what, columns=120, rows=40)
        wait_until(lambda: json.loads(a.get('/api/v1/gpus')[2])['gpus'], 120, 'the GPU')
        s.wait(r' 0 H100', seconds=120)
        a.pretend(what)
        expected = (state, condition, reason)
        if 'lost' not in words:
            t.equal(f'{words}: gpu', by_gpu(t, what), expected)
        wait_until(lambda: json.loads(a.get('/api/v1/gpus')[2])['gpus'][0].get('condition') == condition, 120, 'the condition')
        t.equal(f'{words}: API', by_api(a), expected)
        s.wait(re.escape(reason), seconds=120)
        wait_until(lambda: any(m['rule'] == f'gpu_{condition}' for m in hook.got), 120, 'the alert')
        message = next(m for m in hook.got if m['rule'] == f'gpu_{condition}')['message']
        t.true(f'{words}: alert', message.startswith(reason), message)
        s.close()
        a.stop()


if __name__ == '__main__':
    main()
