"""GPUs: the stand-in library's values follow from formulas (tests/fake/nvml.c), of which this is the second writing."""

import json
import os

from agent_help import Agent, config_text, library
from table import layer

GIB, MIB = 1 << 30, 1 << 20
SOURCE = "the stand-in's formula"
I = 1  # the second GPU: its number is in every value


def values_of(m, what, *options, lib=None):
    run = m.tool('gpu', '--format', 'json', '--nvml', lib or library(), *options, env={'FAKE_NVML': what}, status=0)
    return json.loads(run.out)


@layer("values of a GPU (stand-in for NVIDIA's library)", quick=True, needs=None)
def values(m):
    found = values_of(m, 'gpus=2')['gpus'][I]
    v = found['values']
    # How often memory was asked for is the clock of the formulas; it is in the memory in use.
    t = round((v['memory_used_bytes'] - (I + 1) * GIB) / MIB)
    m.figure('memory in use', v['memory_used_bytes'], SOURCE, (I + 1) * GIB + t * MIB, unit='B')
    m.figure('memory', v['memory_total_bytes'], SOURCE, 80 * GIB, unit='B')
    m.figure('utilisation', 100 * v['utilization_ratio'], SOURCE, (I * 10 + t * 7) % 101, 1e-9, 'floating point', '%')
    m.figure('memory activity', 100 * v['memory_utilization_ratio'], SOURCE, (I * 5 + t * 3) % 101, 1e-9, 'floating point', '%')
    m.figure('power', v['power_watts'], SOURCE, 300 + I, unit='W')
    m.figure('energy', v['energy_joules'], SOURCE, 1000 * (I + 1) + t * 300, unit='J')
    m.figure('temperature', v['temperature_celsius'], SOURCE, 40 + I, unit='C')
    m.figure('SM clock', v['sm_clock_hertz'], SOURCE, (1000 + 100 + I) * 1e6, unit='Hz')
    m.figure('highest SM clock', v['sm_clock_max_hertz'], SOURCE, 1981e6, unit='Hz')
    m.figure('power limit', v['power_limit_watts'], SOURCE, 700, unit='W')
    m.figure('lanes of PCIe', v['pcie_link_width'], SOURCE, 16)
    m.figure('corrected memory errors', v['ecc_corrected_errors'], SOURCE, 10 + I)
    m.figure('replaced rows, uncorrectable', v['row_remaps_uncorrectable'], SOURCE, 2 * I)
    m.figure('encoder', 100 * v['encoder_utilization_ratio'], SOURCE, I, 1e-9, 'floating point', '%')


@layer('PCIe where nothing counts (a driver of 2018)', needs=None)
def pcie(m):
    found = values_of(m, 'gpus=2,board=t4', lib=library(old=True))['gpus'][I]['values']
    m.figure('sent by the GPU', found['pcie_tx_bytes_per_second'], SOURCE, (1000 + I) * 1024, unit='B/s')
    m.figure('received by the GPU', found['pcie_rx_bytes_per_second'], SOURCE, (2000 + I) * 1024, unit='B/s')


@layer('processes on GPUs', needs=None)
def processes(m):
    found = values_of(m, f'gpus=2,pids={os.getpid()}:{os.getppid()}')['processes']
    m.figure('processes', len(found), 'the stand-in', 2)
    mine = [p for p in found if p['pid'] == os.getpid()]
    m.figure('on GPU 0 with our number', len(mine), 'getpid()', 1)
    uid = mine[0].get('uid')
    if uid is not None:
        m.figure('its user', uid, 'getuid()', os.getuid())


@layer('the agent for Prometheus', needs=None)
def agent(m):
    a = Agent(m, config_text(), what='gpus=2')
    found = a.metrics()
    one = {k: v for k, v in found.items() if 'gpu="1"' in k}

    def metric(name):
        return next((v for k, v in one.items() if k.startswith(name + '{')), None)

    m.figure('power', metric('gpuscope_gpu_power_watts'), SOURCE, 301, unit='W')
    m.figure('temperature', metric('gpuscope_gpu_temperature_celsius'), SOURCE, 41, unit='C')
    a.stop()
