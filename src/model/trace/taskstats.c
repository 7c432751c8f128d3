/* Words and sums of what the kernel did. */
#include "model/trace/taskstats.h"

#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "model/trace/work_names.h"

const char *gs_taskstats_time_name(unsigned time)
{
	static const char *const w[GS_TIME_COUNT] = {"cpu", "runqueue", "disk", "network", "lock",
						     "gpu", "sleep",    "pipe", "other"};

	return time < GS_TIME_COUNT ? w[time] : NULL;
}

const char *gs_taskstats_part_title(unsigned part)
{
	static const char *const titles[GS_TASKSTATS_PARTS] = {
		[GS_TIME_CPU] = "on CPU",   [GS_TIME_RUNQUEUE] = "waiting for a CPU",
		[GS_TIME_DISK] = "disk",    [GS_TIME_NETWORK] = "network",
		[GS_TIME_LOCK] = "locks",   [GS_TIME_GPU] = "GPU",
		[GS_TIME_SLEEP] = "asleep", [GS_TIME_PIPE] = "pipes, children",
		[GS_TIME_OTHER] = "other",  [GS_TASKSTATS_PART_IDLE] = "idle threads",
	};

	return part < GS_TASKSTATS_PARTS ? titles[part] : NULL;
}

uint64_t gs_taskstats_parts(const struct gs_taskstats *w, uint64_t ret_ns[GS_TASKSTATS_PARTS])
{
	uint64_t all_ns = 0;

	for (unsigned i = 0; i < GS_TASKSTATS_PARTS; i++) {
		ret_ns[i] = i == GS_TASKSTATS_PART_IDLE ? w->idle_ns : w->time_ns[i];
		if (i == GS_TIME_LOCK)
			ret_ns[i] -= w->idle_ns < ret_ns[i] ? w->idle_ns : ret_ns[i];
		all_ns += ret_ns[i];
	}
	return all_ns;
}

const char *gs_taskstats_io_name(unsigned io)
{
	static const char *const w[GS_TASKSTATS_IO_KINDS] = {"file",   "netfile", "tmpfs", "pipe",
							     "socket", "device",  "tty",   "other"};

	return io < GS_TASKSTATS_IO_KINDS ? w[io] : NULL;
}

const char *gs_taskstats_call_word(uint32_t id)
{
	uint32_t nr = GS_TASKSTATS_CALL_NR(id);

	switch (GS_TASKSTATS_CALL_ABI(id)) {
	case GS_TASKSTATS_ABI_64:
	case GS_TASKSTATS_ABI_X32:
		return nr < GS_ARRAY_LEN(names_64) ? names_64[nr] : NULL;
	case GS_TASKSTATS_ABI_32:
		return nr < GS_ARRAY_LEN(names_32) ? names_32[nr] : NULL;
	case GS_TASKSTATS_ABI_URING:
		return nr < GS_ARRAY_LEN(names_uring) ? names_uring[nr] : NULL;
	}
	return NULL;
}

const char *gs_taskstats_call_name(uint32_t id, char *buf, size_t bytes)
{
	static const char *const before[] = {"", "", "", "io_uring:"};
	static const char *const after[] = {"", " (32-bit)", " (x32)", ""};
	uint32_t abi = GS_TASKSTATS_CALL_ABI(id);
	const char *word = gs_taskstats_call_word(id);

	if (abi >= GS_ARRAY_LEN(before))
		snprintf(buf, bytes, "syscall_%u", id);
	else if (word)
		snprintf(buf, bytes, "%s%s%s", before[abi], word, after[abi]);
	else
		snprintf(buf, bytes, "%ssyscall_%u%s", before[abi], GS_TASKSTATS_CALL_NR(id),
			 after[abi]);
	return buf;
}

void gs_taskstats_io_add(struct gs_taskstats_io_count *a, const struct gs_taskstats_io_count *b)
{
	a->reads += b->reads;
	a->writes += b->writes;
	a->read_bytes += b->read_bytes;
	a->write_bytes += b->write_bytes;
	a->errors += b->errors;
	a->total_ns += b->total_ns;
}

/* The struct is counters of one width from end to end; a field that is not would break this. */
_Static_assert(sizeof(struct gs_taskstats) ==
		       sizeof(__u64) * (GS_TIME_COUNT + 1 + 4 + GS_TASKSTATS_LOG2 + 1 + 2 + 3 +
					6 * GS_TASKSTATS_IO_KINDS + 5 + 5 + 3),
	       "struct gs_taskstats holds 64-bit counters only");

void gs_taskstats_add(struct gs_taskstats *a, const struct gs_taskstats *b)
{
	__u64 *to = (__u64 *)a;
	const __u64 *from = (const __u64 *)b;

	for (size_t i = 0; i < sizeof(*a) / sizeof(*to); i++)
		to[i] += from[i];
}

static void add_hist(__u32 *a, const __u32 *b)
{
	for (size_t i = 0; i < GS_TASKSTATS_LOG2; i++)
		a[i] += b[i];
}

static __u64 larger_of(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

void gs_taskstats_syscall_add(struct gs_taskstats_syscall *a, const struct gs_taskstats_syscall *b)
{
	a->calls += b->calls;
	a->errors += b->errors;
	a->total_ns += b->total_ns;
	a->max_ns = larger_of(a->max_ns, b->max_ns);
	a->timed += b->timed;
	a->sampled += b->sampled;
	a->sampled_ns += b->sampled_ns;
	add_hist(a->hist, b->hist);
}

void gs_taskstats_syscall_settle(struct gs_taskstats_syscall *c)
{
	uint64_t exact = c->timed - c->sampled;

	if (c->sampled && c->calls > exact)
		c->total_ns += (uint64_t)((double)c->sampled_ns * (double)(c->calls - exact) /
					  (double)c->sampled);
	c->sampled = c->sampled_ns = 0;
}

void gs_taskstats_disk_add(struct gs_taskstats_disk *a, const struct gs_taskstats_disk *b)
{
	a->reads += b->reads;
	a->writes += b->writes;
	a->read_bytes += b->read_bytes;
	a->write_bytes += b->write_bytes;
	a->errors += b->errors;
	a->total_ns += b->total_ns;
	a->max_ns = larger_of(a->max_ns, b->max_ns);
	a->flushes += b->flushes;
	a->flush_ns += b->flush_ns;
	a->flush_max_ns = larger_of(a->flush_max_ns, b->flush_max_ns);
	add_hist(a->hist, b->hist);
}

void gs_taskstats_peer_add(struct gs_taskstats_peer *a, const struct gs_taskstats_peer *b)
{
	a->sent_bytes += b->sent_bytes;
	a->received_bytes += b->received_bytes;
	a->sends += b->sends;
	a->receives += b->receives;
	a->connects += b->connects;
	a->accepts += b->accepts;
	a->failed_connects += b->failed_connects;
	a->retransmits += b->retransmits;
	a->connect_ns += b->connect_ns;
	a->connect_max_ns = larger_of(a->connect_max_ns, b->connect_max_ns);
	a->rtt_ns += b->rtt_ns;
	a->rtt_max_ns = larger_of(a->rtt_max_ns, b->rtt_max_ns);
	a->rtt_count += b->rtt_count;
}

uint64_t gs_taskstats_queue_timed(const struct gs_taskstats *w)
{
	uint64_t n = 0;

	for (size_t i = 0; i < GS_TASKSTATS_LOG2; i++)
		n += w->queue_hist[i];
	return n;
}

double gs_taskstats_queue_quantile_ns(const struct gs_taskstats *w, double q)
{
	double wanted = q * (double)gs_taskstats_queue_timed(w), below = 0;

	for (size_t i = 0; i < GS_TASKSTATS_LOG2; i++) {
		double here = (double)w->queue_hist[i];

		/* As if they lay evenly between the bucket's ends. */
		if (here > 0 && below + here >= wanted) {
			double part = wanted > below ? (wanted - below) / here : 0;

			return i ? (double)(1ull << i) * (1 + part) : 2 * part;
		}
		below += here;
	}
	return NAN;
}

uint64_t gs_taskstats_wall_ns(const struct gs_taskstats *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < GS_TIME_COUNT; i++)
		sum += w->time_ns[i];
	return sum;
}

struct gs_taskstats_io_count gs_taskstats_file_io(const struct gs_taskstats *w)
{
	static const enum gs_taskstats_io kinds[] = {GS_IO_FILE, GS_IO_NETFILE, GS_IO_TMPFS};
	struct gs_taskstats_io_count sum = {0};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct gs_taskstats_io_count *c = &w->io[kinds[i]];

		sum.reads += c->reads;
		sum.writes += c->writes;
		sum.read_bytes += c->read_bytes;
		sum.write_bytes += c->write_bytes;
		sum.errors += c->errors;
		sum.total_ns += c->total_ns;
	}
	return sum;
}

uint64_t gs_taskstats_cached_bytes(const struct gs_taskstats *w)
{
	uint64_t read = w->io[GS_IO_FILE].read_bytes;

	return read > w->disk_read_bytes ? read - w->disk_read_bytes : 0;
}
