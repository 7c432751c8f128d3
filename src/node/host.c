#include "node/host.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
	free(s);
	*ref = NULL;
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

/* A PCI bus id with or without leading zeros of its domain: "00000000:3B:00.0", "3b:00.0". */
static bool is_bus_id(const char *id, const char *text, size_t bytes)
{
	size_t n = strlen(id);

	if (!memchr(text, ':', bytes) || bytes > n || strncasecmp(id + n - bytes, text, bytes) != 0)
		return false;
	for (size_t i = 0; i < n - bytes; i++)
		if (id[i] != '0' && id[i] != ':')
			return false;
	return true;
}

static bool is_named(const struct gs_gpu_info *g, const char *text, size_t bytes)
{
	char number[16];
	int n = snprintf(number, sizeof(number), "%u", g->index);

	if ((size_t)n == bytes && memcmp(number, text, bytes) == 0)
		return true;
	/* The beginning of an id is enough, as it is for nvidia-smi and CUDA_VISIBLE_DEVICES. */
	if (bytes >= 5 && strncasecmp(g->uuid, text, bytes) == 0)
		return true;
	return is_bus_id(g->pci_bus_id, text, bytes);
}

uint32_t gs_gpu_snapshot_select(struct gs_gpu_snapshot *s, const char *text,
				const char **ret_unmatched)
{
	uint32_t n = 0, n_processes = 0, n_kept = 0;
	bool *keep = calloc(s->n_gpus + 1, sizeof(*keep));
	uint32_t *new_index = calloc(s->n_gpus + 1, sizeof(*new_index));

	*ret_unmatched = NULL;
	for (const char *p = text; keep && new_index && *p;) {
		size_t bytes = strcspn(p, ",");
		bool found = false;

		for (uint32_t i = 0; i < s->n_gpus; i++)
			if (bytes && is_named(&s->info[i], p, bytes))
				keep[i] = found = true;
		if (!found && !*ret_unmatched)
			*ret_unmatched = p;
		p += bytes + (p[bytes] == ',');
	}
	for (uint32_t i = 0; keep && new_index && i < s->n_gpus; i++) {
		if (!keep[i])
			continue;
		new_index[i] = n;
		if (n != i) {
			s->info[n] = s->info[i];
			s->sample[n] = s->sample[i];
		}
		n++;
	}
	for (uint32_t i = 0; keep && new_index && i < s->n_processes; i++) {
		uint32_t gpu = s->process[i].gpu;

		if (gpu >= s->n_gpus || !keep[gpu])
			continue;
		s->process[n_processes] = s->process[i];
		s->process[n_processes++].gpu = new_index[gpu];
	}
	n_kept = n;
	s->n_gpus = n;
	s->n_processes = n_processes;
	free(keep);
	free(new_index);
	return n_kept;
}
