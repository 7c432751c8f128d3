#!/usr/bin/env python3
"""The clearest programs of tests/verdicts/labels.tsv, and their verdicts.

A program that waited for a processor for a fifth of its time or more, because others had them, is no longer what its
label says: then any verdict but a sure and wrong one is right."""

import os
import sys
import tempfile

import harness
from harness import case, main

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'verdicts'))
import run as verdicts

CLEAR = ('gpu_input', 'gpu_long_sync', 'gpu_start_up', 'gpu_start_up_near', 'gpu_reduce_unknown', 'mutex', 'mutex_uneven', 'mutex_kept', 'parked_clock', 'process_lock', 'sleep', 'child_alone', 'epoll_server',
         'sleep_then_raise', 'child_killed')


def was_kept_waiting(summary):
    thread = next((x for x in summary['account']['threads'] if x['critical']), None)
    waited = sum(p['ns'] for p in thread['components'] if p['component'] == 'runqueue') if thread else 0
    return thread is not None and waited >= 0.2 * thread['wall_ns']


def add_case(label):
    @case(f'{label.name}: {" or ".join(label.classes)}', timeout=120)
    def verdict_of(t):
        with tempfile.TemporaryDirectory(dir='/var/tmp') as scratch:
            runner = verdicts.Runner(harness.gpuscope, os.path.join(harness.fake, '..'), scratch)
            verdict, summary, error = runner.run(label)
        t.true('a verdict', verdict is not None, error)
        if verdict:
            judged = verdicts.judge(label, verdict)
            kept = was_kept_waiting(summary)
            t.true(f'judged {judged}', judged == 'right' or (kept and (judged != 'serious' or verdict['class'] == 'cpu_starved')),
                   verdict)
            if kept:
                t.note('others had the processors')


for one in verdicts.read_labels():
    if one.name in CLEAR:
        add_case(one)


if __name__ == '__main__':
    main()
