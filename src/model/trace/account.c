/* Words and arithmetic of the wall-clock account. */
#include "model/trace/account.h"

#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"

const char *gs_account_state_name(unsigned state)
{
	static const char *const words[GS_STATE_COUNT] = {"cpu",   "runqueue", "lock",  "poll",
							  "disk",  "network",  "sleep", "pipe",
							  "fault", "child",    "other", "mutex"};

	return state < GS_ARRAY_LEN(words) ? words[state] : NULL;
}

const char *gs_account_inside_name(unsigned inside)
{
	static const char *const words[GS_INSIDE_COUNT] = {"outside", "gpu_wait", "cuda",
							   "nccl",    "operator", "mpi"};

	return inside < GS_ARRAY_LEN(words) ? words[inside] : NULL;
}

/* Of a call's time what the thread was off its processor is known by state: the rest it ran. */
static void share_out_cpu(struct gs_account_reading *r, const uint64_t busy_ns[GS_INSIDE_COUNT])
{
	uint64_t left_ns = r->time_ns[GS_STATE_CPU][GS_INSIDE_NONE];

	for (unsigned in = 1; in < GS_INSIDE_COUNT; in++) {
		uint64_t ran_ns = busy_ns[in];

		/* A call may have opened or closed between two looks: never below nothing. */
		for (unsigned state = 1; state < GS_STATE_COUNT; state++)
			ran_ns -= r->time_ns[state][in] < ran_ns ? r->time_ns[state][in] : ran_ns;
		if (ran_ns > left_ns)
			ran_ns = left_ns;
		r->time_ns[GS_STATE_CPU][in] = ran_ns;
		left_ns -= ran_ns;
	}
	r->time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = left_ns;
}

void gs_account_settle(const struct gs_account *a, uint64_t now_mono_ns,
		       const uint64_t open_ns[GS_INSIDE_COUNT], struct gs_account_reading *r)
{
	uint64_t busy_ns[GS_INSIDE_COUNT];
	unsigned state = a->state < GS_STATE_COUNT ? a->state : GS_STATE_OTHER;
	unsigned inside = a->inside < GS_INSIDE_COUNT && state ? a->inside : GS_INSIDE_NONE;

	*r = (struct gs_account_reading){.pid = a->pid,
					 .tid = a->tid,
					 .uid = a->uid,
					 .parent_pid = a->parent_pid,
					 .ended = a->ended,
					 .end_signal = a->end_signal,
					 .exit_status = a->exit_status,
					 .born_mono_ns = a->born_ns,
					 .now_mono_ns = a->ended ? a->since_ns : now_mono_ns};
	memcpy(r->comm, a->comm, sizeof(r->comm));
	memcpy(r->process, a->process, sizeof(r->process));
	r->comm[sizeof(r->comm) - 1] = r->process[sizeof(r->process) - 1] = '\0';
	memcpy(r->time_ns, a->time_ns, sizeof(r->time_ns));
	if (!a->ended && now_mono_ns > a->since_ns)
		r->time_ns[state][inside] += now_mono_ns - a->since_ns;
	for (unsigned in = 0; in < GS_INSIDE_COUNT; in++) {
		/* An operator that is open has lost the calls in it already: below nothing until
		 * its own time is added. */
		int64_t busy = (int64_t)(a->busy_ns[in] + open_ns[in]);

		busy_ns[in] = busy > 0 ? (uint64_t)busy : 0;
	}
	share_out_cpu(r, busy_ns);
}

static const struct {
	const char *name, *title, *source;
} parts[GS_PART_COUNT] = {
	[GS_PART_GPU_WAIT] = {"gpu_wait", "waiting for the GPU", "calls that wait"},
	[GS_PART_CUDA] = {"cuda", "other CUDA calls", "calls of CUDA"},
	[GS_PART_NCCL] = {"nccl", "NCCL calls", "calls of NCCL"},
	[GS_PART_MPI] = {"mpi", "MPI calls", "calls of MPI"},
	[GS_PART_OPERATOR] = {"operators", "PyTorch operators (self)", "operators"},
	[GS_PART_CPU] = {"cpu", "other code on the CPU", "scheduler"},
	[GS_PART_RUNQUEUE] = {"runqueue", "ready, but no CPU was free", "scheduler"},
	[GS_PART_LOCK] = {"lock", "waiting for a lock", "scheduler, futex"},
	[GS_PART_POLL] = {"poll", "polling (poll, select, epoll)", "scheduler, system call"},
	[GS_PART_PIPE] = {"pipe", "waiting for another process", "scheduler, pipe or socket"},
	[GS_PART_CHILD] = {"child", "waiting for a child to end", "scheduler, system call"},
	[GS_PART_DISK] = {"disk", "waiting for a disk", "scheduler, iowait or file"},
	[GS_PART_NETWORK] = {"network", "waiting for the network", "scheduler, socket"},
	[GS_PART_SLEEP] = {"sleep", "asleep on purpose", "scheduler, system call"},
	[GS_PART_FAULT] = {"fault", "page faults and memory mapping", "scheduler"},
	[GS_PART_OTHER] = {"other", "waiting, reason not known", "scheduler"},
};

const char *gs_account_part_name(unsigned part)
{
	return part < GS_PART_COUNT ? parts[part].name : NULL;
}

const char *gs_account_part_title(unsigned part)
{
	return part < GS_PART_COUNT ? parts[part].title : NULL;
}

const char *gs_account_part_source(unsigned part)
{
	return part < GS_PART_COUNT ? parts[part].source : NULL;
}

unsigned gs_account_part_of(unsigned state, unsigned inside)
{
	static const uint8_t by_state[GS_STATE_COUNT] = {
		[GS_STATE_CPU] = GS_PART_CPU,     [GS_STATE_RUNQUEUE] = GS_PART_RUNQUEUE,
		[GS_STATE_LOCK] = GS_PART_LOCK,   [GS_STATE_POLL] = GS_PART_POLL,
		[GS_STATE_DISK] = GS_PART_DISK,   [GS_STATE_NETWORK] = GS_PART_NETWORK,
		[GS_STATE_SLEEP] = GS_PART_SLEEP, [GS_STATE_PIPE] = GS_PART_PIPE,
		[GS_STATE_FAULT] = GS_PART_FAULT, [GS_STATE_CHILD] = GS_PART_CHILD,
		[GS_STATE_OTHER] = GS_PART_OTHER, [GS_STATE_MUTEX] = GS_PART_LOCK};

	if (inside == GS_INSIDE_GPU_WAIT)
		return GS_PART_GPU_WAIT;
	if (state != GS_STATE_RUNQUEUE && inside == GS_INSIDE_CUDA)
		return GS_PART_CUDA;
	if (state != GS_STATE_RUNQUEUE && inside == GS_INSIDE_NCCL)
		return GS_PART_NCCL;
	if (state != GS_STATE_RUNQUEUE && inside == GS_INSIDE_MPI)
		return GS_PART_MPI;
	if (state == GS_STATE_CPU && inside == GS_INSIDE_OPERATOR)
		return GS_PART_OPERATOR;
	return by_state[state];
}

uint64_t gs_account_parts(const uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT],
			  uint64_t ret_ns[GS_PART_COUNT])
{
	uint64_t sum_ns = 0;

	memset(ret_ns, 0, GS_PART_COUNT * sizeof(*ret_ns));
	for (unsigned state = 0; state < GS_STATE_COUNT; state++) {
		for (unsigned inside = 0; inside < GS_INSIDE_COUNT; inside++) {
			ret_ns[gs_account_part_of(state, inside)] += time_ns[state][inside];
			sum_ns += time_ns[state][inside];
		}
	}
	return sum_ns;
}

uint64_t gs_account_parked_ns(const uint64_t part_ns[GS_PART_COUNT])
{
	return part_ns[GS_PART_LOCK] + part_ns[GS_PART_POLL] + part_ns[GS_PART_PIPE] +
	       part_ns[GS_PART_CHILD] + part_ns[GS_PART_NETWORK];
}

const char *gs_account_wait_name(unsigned cause)
{
	static const char *const names[GS_WAIT_COUNT] = {
		[GS_STATE_CPU] = "cpu",         [GS_STATE_RUNQUEUE] = "runqueue",
		[GS_STATE_LOCK] = "lock",       [GS_STATE_POLL] = "poll",
		[GS_STATE_DISK] = "disk",       [GS_STATE_NETWORK] = "network",
		[GS_STATE_SLEEP] = "sleep",     [GS_STATE_PIPE] = "pipe",
		[GS_STATE_FAULT] = "fault",     [GS_STATE_CHILD] = "child",
		[GS_STATE_OTHER] = "other",     [GS_WAIT_GPU] = "gpu",
		[GS_WAIT_GIL] = "gil",          [GS_WAIT_MANY] = "unattributed",
		[GS_WAIT_BARE] = "no_function",
	};

	return cause < GS_WAIT_COUNT ? names[cause] : NULL;
}
