"""Six threads of Python that compute: one at a time."""

import threading


def compute():
    n = 0
    while True:
        n += 1


for _ in range(6):
    threading.Thread(target=compute).start()
