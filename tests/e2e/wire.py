"""A line between two network cards, for netns.py.

wire.py A B DELAY_MS LOSS_AB LOSS_BA   carries frames from A to B and back until it is killed
wire.py whole CARD                     makes the card send whole frames with checksums, as wires need"""

import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

SIOCETHTOOL = 0x8946
# include/uapi/linux/ethtool.h: checksums of what is sent, TCP segments, generic segments, and their joining
OFFLOADS = {'ETHTOOL_STXCSUM': 0x17, 'ETHTOOL_STSO': 0x1F, 'ETHTOOL_SGSO': 0x24, 'ETHTOOL_SGRO': 0x2C}
ETH_P_ALL = 3
PACKET_OUTGOING = 4


def whole(card):
    import array

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for number in OFFLOADS.values():
            value = array.array('B', struct.pack('II', number, 0))
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack('16sP', card.encode(), value.buffer_info()[0]))


def carry(a, b, delay_s, loss):
    sockets = []
    for card in (a, b):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        s.bind((card, ETH_P_ALL))
        sockets.append(s)
    dice = random.Random(1)
    on_the_way, n = [], 0
    while True:
        now = time.monotonic()
        while on_the_way and on_the_way[0][0] <= now:
            _, _, to, frame = heapq.heappop(on_the_way)
            try:
                to.send(frame)
            except OSError:
                pass  # the card is down
        wait = max(0, on_the_way[0][0] - now) if on_the_way else None
        for s in select.select(sockets, [], [], wait)[0]:
            try:
                frame, where = s.recvfrom(65536)
            except OSError:
                continue
            at = sockets.index(s)
            if where[2] == PACKET_OUTGOING or dice.random() < loss[at]:
                continue
            n += 1
            heapq.heappush(on_the_way, (time.monotonic() + delay_s, n, sockets[1 - at], frame))


if sys.argv[1] == 'whole':
    whole(sys.argv[2])
else:
    carry(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000, (float(sys.argv[4]), float(sys.argv[5])))
