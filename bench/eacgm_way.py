#!/usr/bin/python3
"""The way of eACGM: BCC, a uprobe and a uretprobe, a bpf_trace_printk line from each, read back
with trace_fields(). eacgm_way.py FILE FUNCTION; says READY, and READ n when it is asked to stop."""
import signal
import sys

from bcc import BPF

TEXT = r"""
#include <uapi/linux/ptrace.h>
int on_entry(struct pt_regs *ctx) {
    u64 ts = bpf_ktime_get_ns();
    u64 size = PT_REGS_PARM3(ctx);
    bpf_trace_printk("%ld@start@call@%ld\n", ts, size);
    return 0;
};
int on_exit(struct pt_regs *ctx) {
    u64 ts = bpf_ktime_get_ns();
    bpf_trace_printk("%ld@end@call\n", ts);
    return 0;
};
"""

stop = False


def on_signal(*_):
    global stop
    stop = True


def main():
    b = BPF(text=TEXT)
    b.attach_uprobe(name=sys.argv[1], sym=sys.argv[2], fn_name="on_entry")
    b.attach_uretprobe(name=sys.argv[1], sym=sys.argv[2], fn_name="on_exit")
    signal.signal(signal.SIGTERM, on_signal)
    print("READY", flush=True)
    n = 0
    while not stop:
        task, pid, cpu, _, _, msg = b.trace_fields(True)
        if task is None:
            continue
        words = msg.decode().split("@")
        if len(words) < 3:  # another program's line: all of the machine share this buffer
            continue
        _ = (task.decode(), int(pid), int(cpu), int(words[0]), words[1:])
        n += 1
    print("READ", n, flush=True)


main()
