/* XID errors and findings as log records. */
#include <string.h>

#include "commands/agent_findings/agent_findings.h"
#include "commands/agent_findings/agent_logs.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

void agent_findings_logs_init(struct agent_logs *l)
{
	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
}

void agent_findings_logs_add(struct agent_logs *l, const struct gs_gpu_event *e)
{
	int64_t age_ns = e->time_ns ? (int64_t)(gs_clock_boot_ns() - e->time_ns) : 0;
	size_t at;

	pthread_mutex_lock(&l->lock);
	at = l->n_put++ % AGENT_LOGS_MAX;
	l->xid[at].event = *e;
	l->xid[at].wall_ns = (int64_t)gs_clock_wall_ns() - (age_ns > 0 ? age_ns : 0);
	pthread_mutex_unlock(&l->lock);
}

static int put_xid(const struct gs_gpu_event *e, int64_t wall_ns, struct push_message *out)
{
	char code[16], body[320];
	const struct gs_metrics_label attributes[] = {{"gpuscope.xid", code},
						      {"hw.type", "gpu"},
						      {"hw.id", e->uuid},
						      {"gpuscope.gpu.pci_bus_id", e->pci_bus_id}};
	const struct gs_push_log log = {.wall_ns = wall_ns,
					.severity = GS_PUSH_LOG_ERROR,
					.event = "gpuscope.xid",
					.body = body,
					.attribute = attributes,
					.n_attributes = GS_ARRAY_LEN(attributes)};

	snprintf(code, sizeof(code), "%u", e->xid);
	snprintf(body, sizeof(body), "XID %u on %s%s%s", e->xid, e->pci_bus_id,
		 e->text[0] ? ": " : "", e->text);
	return gs_push_log_put(out, &log);
}

int agent_findings_logs_put(struct agent_logs *l, struct agent_findings *findings,
			    struct push_message *out)
{
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (l->n_put - l->n_taken > AGENT_LOGS_MAX) {
		l->n_lost += l->n_put - l->n_taken - AGENT_LOGS_MAX;
		l->n_taken = l->n_put - AGENT_LOGS_MAX;
	}
	for (; r == 0 && l->n_taken < l->n_put; l->n_taken++)
		r = put_xid(&l->xid[l->n_taken % AGENT_LOGS_MAX].event,
			    l->xid[l->n_taken % AGENT_LOGS_MAX].wall_ns, out);
	pthread_mutex_unlock(&l->lock);
	return r == 0 ? agent_findings_put_logs(findings, &l->finding, out) : r;
}

uint64_t agent_findings_logs_lost(const struct agent_logs *l)
{
	return l->n_lost;
}
