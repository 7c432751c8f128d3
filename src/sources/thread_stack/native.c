/*
 * The native stack of a thread. Of one that waits in a system call /proc says where, and its stack is copied; one that
 * runs is sampled (running.c).
 * Of the registers that calls preserve only two are known of one that waits; a frame that needs another one ends the
 * stack, and so does a return address that a probe has replaced.
 */
#include "sources/thread_stack/thread_stack_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

/* proc(5): "running", "-1 sp pc" outside of a system call, else "nr six arguments sp pc". */
static int read_registers(uint32_t pid, uint32_t tid, uint64_t *ret_sp, uint64_t *ret_pc)
{
	unsigned long long a[6], sp, pc;
	GS_FCLOSE FILE *f = NULL;
	char path[64];
	long nr;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (fscanf(f, "%ld", &nr) != 1)
		return -EBUSY;
	if (nr >= 0 && fscanf(f, "%llx %llx %llx %llx %llx %llx", &a[0], &a[1], &a[2], &a[3], &a[4],
			      &a[5]) != 6)
		return -EBUSY;
	if (fscanf(f, "%llx %llx", &sp, &pc) != 2 || !sp)
		return -EBUSY;
	*ret_sp = sp;
	*ret_pc = pc;
	return 0;
}

/* As much as there is: a stack ends somewhere. */
static uint32_t copy_stack(uint32_t pid, uint64_t sp, uint8_t *to)
{
	struct iovec local = {to, THREAD_STACK_BYTES},
		     remote = {(void *)(uintptr_t)sp, THREAD_STACK_BYTES};
	ssize_t n = process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0);

	return n > 0 ? (uint32_t)n & ~7u : 0;
}

int gs_thread_stack_native(struct gs_native *native, uint32_t pid, uint32_t tid,
			   struct gs_native_stack *ret_stack)
{
	GS_FREE struct gs_event_stack_bytes *e = calloc(1, sizeof(*e) + THREAD_STACK_BYTES);
	uint64_t sp = 0, pc = 0;
	int r;

	if (!e)
		return -ENOMEM;
	r = read_registers(pid, tid, &sp, &pc);
	if (r == -EBUSY)
		r = thread_stack_sample(tid, e);
	if (r < 0)
		return r;
	if (pc) {
		e->n_bytes = copy_stack(pid, sp, e->bytes);
		e->ip = pc;
		e->sp = sp;
		e->after_call = 1; /* of the instruction that enters the kernel */
	}
	e->head.kind = GS_EV_STACK_BYTES;
	e->head.bytes = (uint16_t)(sizeof(*e) + e->n_bytes);
	e->time_ns = gs_clock_mono_ns();
	e->pid = pid;
	e->tid = tid;
	return gs_native_unwind(native, e, ret_stack);
}
