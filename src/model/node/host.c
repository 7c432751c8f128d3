#include "model/node/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"

const struct gs_host_sample gs_host_sample_unknown = {
	.n_cpus = -1,
	.n_tasks = -1,
	.n_running = -1,
	.cpu_ratio = -1,
	.iowait_ratio = -1,
	.load1 = -1,
	.load5 = -1,
	.load15 = -1,
	.mem_total_bytes = -1,
	.mem_used_bytes = -1,
	.swap_total_bytes = -1,
	.swap_used_bytes = -1,
	.disk_read_bps = -1,
	.disk_write_bps = -1,
	.net_rx_bps = -1,
	.net_tx_bps = -1,
	.mem_used_ratio = -1,
	.root_used_ratio = -1,
};

void gs_host_snapshot_free(struct gs_host_snapshot **ref)
{
	struct gs_host_snapshot *s = *ref;

	if (!s)
		return;
	free(s->process);
	free(s);
	*ref = NULL;
}

void gs_node_snapshot_free(struct gs_node_snapshot **ref)
{
	struct gs_node_snapshot *s = *ref;

	if (!s)
		return;
	gs_gpu_snapshot_free(&s->gpu);
	gs_host_snapshot_free(&s->host);
	gs_job_accounts_free(&s->jobs);
	free(s->times);
	free(s);
	*ref = NULL;
}

static bool is_chosen(const struct gs_node_choice *c, uint32_t pid, uint32_t uid)
{
	bool chosen = c->n_pids == 0;

	for (unsigned i = 0; i < c->n_pids && !chosen; i++)
		chosen = c->pids[i] == pid;
	return chosen && (!c->has_user || c->uid == uid);
}

void gs_node_snapshot_keep(struct gs_node_snapshot *n, const struct gs_node_choice *c)
{
	uint32_t n_gpu = 0, n_host = 0, n_jobs = 0;

	for (uint32_t i = 0; i < n->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &n->gpu->process[i];
		/* One that ended is not the process that has the pid now. */
		const struct gs_host_process *h =
			p->ended ? NULL : gs_host_process_of(n->host, p->pid);

		if (is_chosen(c, p->pid, h ? h->uid : p->uid))
			n->gpu->process[n_gpu++] = *p;
	}
	n->gpu->n_processes = n_gpu;
	for (uint32_t i = 0; i < n->host->n_processes; i++)
		if (is_chosen(c, n->host->process[i].pid, n->host->process[i].uid))
			n->host->process[n_host++] = n->host->process[i];
	n->host->n_processes = n_host;
	if (!n->jobs || !c->has_user)
		return;
	for (uint32_t i = 0; i < n->jobs->n_accounts; i++)
		if (n->jobs->account[i].job.uid == (int64_t)c->uid)
			n->jobs->account[n_jobs++] = n->jobs->account[i];
	n->jobs->n_accounts = n_jobs;
}

const struct gs_job_process *gs_node_process_times(const struct gs_node_snapshot *n,
						   const struct gs_host_process *p)
{
	/* Of what was recorded or delivered the jobs have none. */
	return n->jobs && n->jobs->n_processes
		       ? gs_job_process_of(n->jobs->process, n->jobs->n_processes, p->pid,
					   p->start_ns)
		       : gs_job_process_of(n->times, n->n_times, p->pid, p->start_ns);
}

/* An instance that was not chosen needs no label. */
static const char *label_instance(const char *instance)
{
	return strcmp(instance, "default") == 0 ? "" : instance;
}

void gs_node_label(const char *hostname, const char *instance, const char *machine_id,
		   bool name_is_shared, char *out, size_t bytes)
{
	const char *own = label_instance(instance);

	snprintf(out, bytes, "%s%s%s%s%.12s", hostname, own[0] ? "/" : "", own,
		 name_is_shared ? "/" : "", name_is_shared ? machine_id : "");
}

uint64_t gs_node_label_hash(const char *hostname, const char *instance)
{
	char label[GS_NODE_LABEL_BYTES];

	gs_node_label(hostname, instance, "", false, label, sizeof(label));
	return gs_hash_bytes(label, strlen(label));
}

const struct gs_host_process *gs_host_process_of(const struct gs_host_snapshot *host, uint32_t pid)
{
	uint32_t from = 0, to = host->n_processes;

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;

		if (host->process[mid].pid == pid)
			return &host->process[mid];
		if (host->process[mid].pid < pid)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}
