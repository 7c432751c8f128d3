/* Counters of what is in no account of a thread, and slows threads all the same. */
#include "commands/trace_output/trace_stress.h"

#include "commands/common/findings.h"
#include "core/base/clock.h"
#include "sources/host/taskstats.h"

#define READ_NS 1000000000ull

void trace_stress_note(struct trace_stress *s, uint32_t pid, bool has_ended)
{
	if (has_ended && pid == s->pid)
		*s = (struct trace_stress){.pid = 0};
	else if (!has_ended && !s->pid)
		*s = (struct trace_stress){.pid = pid};
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
