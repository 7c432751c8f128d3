/* Counters of what is in no account of a thread, and slows threads all the same. */
#include "commands/trace_output/trace_stress.h"

#include <unistd.h>

#include "output/findings/findings.h"
#include "core/base/clock.h"

#define READ_NS 1000000000ull

void trace_stress_note(struct trace_stress *s, uint32_t pid, bool has_ended)
{
	if (has_ended ? pid != s->pid : s->pid != 0)
		return;
	s->pid = has_ended ? 0 : pid;
	s->read_ns = 0;
	s->is_known = false;
	s->said_quota_ns = s->said_retransmits = 0;
}

/* A run without a quota has no such counter, and a number that stays is said once. */
static void put_growth(struct gs_ingest *feed, const char *name, int64_t before, int64_t now,
		       int64_t *said)
{
	int64_t growth = before >= 0 && now > before ? now - before : 0;

	if (growth != *said)
		gs_ingest_counter(feed, name, growth);
	*said = growth;
}

void trace_stress_tick(struct trace_stress *s, struct gs_ingest *feed)
{
	uint64_t now_ns = gs_clock_mono_ns();
	int64_t quota_ns, retransmits;

	if (!s->pid || now_ns - s->read_ns < READ_NS)
		return;
	s->read_ns = now_ns;
	quota_ns = gs_host_cgroup_throttled_ns("/sys/fs/cgroup", "/proc", s->pid);
	retransmits = gs_host_tcp_retransmits("/proc", s->pid);
	if (s->is_known) {
		put_growth(feed, GS_FINDINGS_QUOTA_COUNTER, s->quota_ns, quota_ns,
			   &s->said_quota_ns);
		put_growth(feed, GS_FINDINGS_RETRANSMITS_COUNTER, s->retransmits, retransmits,
			   &s->said_retransmits);
	}
	s->is_known = true;
	s->quota_ns = quota_ns;
	s->retransmits = retransmits;
}

void trace_stress_begin(struct trace_stress *s, const struct trace_options *options)
{
	s->cgroup_pid = options->command ? getpid() : options->n_pids ? options->pids[0] : 0;
	if (s->cgroup_pid && !gs_host_cgroup_read("/sys/fs/cgroup", "/proc",
						  (uint32_t)s->cgroup_pid, NULL, &s->cgroup))
		s->cgroup_pid = 0;
}

/* The process of -p may be gone: then nothing is known. */
void trace_stress_put_quota(const struct trace_stress *s, struct gs_summary *summary)
{
	const struct gs_host_cgroup *from = &s->cgroup;
	struct gs_host_cgroup now;

	if (!s->cgroup_pid ||
	    !gs_host_cgroup_read("/sys/fs/cgroup", "/proc", (uint32_t)s->cgroup_pid, NULL, &now))
		return;
	if (from->periods < 0 || now.periods < from->periods || from->throttled_periods < 0 ||
	    now.throttled_periods < from->throttled_periods || from->throttled_ns < 0 ||
	    now.throttled_ns < from->throttled_ns)
		return;
	summary->quota_periods = (uint64_t)(now.periods - from->periods);
	summary->throttled_periods = (uint64_t)(now.throttled_periods - from->throttled_periods);
	summary->throttled_ns = (uint64_t)(now.throttled_ns - from->throttled_ns);
}
