/*
 * Registers and stack of a thread that runs: the kernel takes them at one tick of a clock that counts the
 * thread's own time (perf_event_open(2), samples of user registers and stack), and the thread goes on. One
 * that gets no processor within LATEST_MS has no sample.
 */
#include "sources/thread_stack/thread_stack_int.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"

#define LATEST_MS  500
#define PERIOD_NS  1000000
#define RING_PAGES 32 /* a power of two; the first record is at its begin and smaller than it */

#define REG(name) (1ull << PERF_REG_X86_##name)

/* The registers that an unwinder needs, in the order in which a sample has them. */
static const struct {
	unsigned reg;
	size_t at; /* in struct gs_event_stack_bytes */
} wanted[] = {
#define WANT(name, field)                                                                          \
	{                                                                                          \
		PERF_REG_X86_##name, offsetof(struct gs_event_stack_bytes, field)                  \
	}
	WANT(BX, bx),   WANT(BP, bp),   WANT(SP, sp),   WANT(IP, ip),
	WANT(R12, r12), WANT(R13, r13), WANT(R14, r14), WANT(R15, r15),
};

/* A sample as it lies in the ring, without the stack. */
struct taken {
	struct perf_event_header head;
	uint64_t abi, regs[GS_ARRAY_LEN(wanted)], n_bytes;
};

static int open_clock(uint32_t tid)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_stack_user = THREAD_STACK_BYTES,
		.exclude_kernel =
			1, /* of system calls in between the other half of this room knows */
		.wakeup_events = 1,
	};
	long fd;

	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++)
		attr.sample_regs_user |= 1ull << wanted[i].reg;
	fd = syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* False: it is none, or not of a whole process of this machine's kind. */
static bool take_sample(const struct taken *s, uint64_t ring_bytes, struct gs_event_stack_bytes *e)
{
	const uint8_t *stack = (const uint8_t *)(s + 1);
	uint64_t dynamic;

	if (s->head.type != PERF_RECORD_SAMPLE || s->abi != PERF_SAMPLE_REGS_ABI_64 ||
	    s->head.size < sizeof(*s) + sizeof(dynamic) || s->head.size > ring_bytes ||
	    s->n_bytes > s->head.size - sizeof(*s) - sizeof(dynamic))
		return false;
	memcpy(&dynamic, stack + s->n_bytes, sizeof(dynamic));
	if (dynamic > s->n_bytes || dynamic > THREAD_STACK_BYTES)
		return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++)
		memcpy((uint8_t *)e + wanted[i].at, &s->regs[i], sizeof(uint64_t));
	e->n_bytes = (uint32_t)dynamic & ~7u;
	memcpy(e->bytes, stack, e->n_bytes);
	return true;
}

int thread_stack_sample(uint32_t tid, struct gs_event_stack_bytes *e)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), ring_bytes = RING_PAGES * page;
	GS_CLOSE int fd = open_clock(tid);
	struct pollfd ready = {fd, POLLIN, 0};
	struct perf_event_mmap_page *map;
	bool is_taken = false;

	if (fd < 0)
		return fd;
	map = mmap(NULL, page + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (poll(&ready, 1, LATEST_MS) == 1 &&
	    __atomic_load_n(&map->data_head, __ATOMIC_ACQUIRE) >= sizeof(struct taken))
		is_taken = take_sample((const void *)((const uint8_t *)map + page), ring_bytes, e);
	munmap(map, page + ring_bytes);
	return is_taken ? 0 : -EBUSY;
}
