#include "output/node_report/node.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text/text.h"

#define MAX_BYTES (256u << 20)

/* A text under construction; its first error sticks. */
struct page {
	struct gs_buf buf;
	int r;
	bool first; /* in its list or map */
};

static void keep_error(struct page *p, int r)
{
	if (r < 0 && p->r == 0)
		p->r = r;
}

static void put_raw(struct page *p, const char *text)
{
	keep_error(p, gs_buf_puts(&p->buf, text));
}

static void put_comma(struct page *p)
{
	if (!p->first)
		put_raw(p, ",");
	p->first = false;
}

static void put_key(struct page *p, const char *name)
{
	put_comma(p);
	keep_error(p, gs_text_json(&p->buf, name));
	put_raw(p, ":");
}

static void put_text(struct page *p, const char *name, const char *text)
{
	put_key(p, name);
	if (text && text[0])
		keep_error(p, gs_text_json(&p->buf, text));
	else
		put_raw(p, "null");
}

/* The shortest text that is read back as this number. */
static void number_text(char out[40], double v)
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(out, 40, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			break;
	}
}

static void put_number(struct page *p, const char *name, double v, bool known)
{
	char text[40] = "null";

	put_key(p, name);
	if (known && isfinite(v))
		number_text(text, v);
	put_raw(p, text);
}

static void put_int(struct page *p, const char *name, int64_t v, bool known)
{
	put_key(p, name);
	if (known)
		keep_error(p, gs_buf_printf(&p->buf, "%lld", (long long)v));
	else
		put_raw(p, "null");
}

static void open_map(struct page *p, const char *name)
{
	if (name)
		put_key(p, name);
	else
		put_comma(p);
	put_raw(p, "{");
	p->first = true;
}

static void close_with(struct page *p, const char *mark)
{
	put_raw(p, mark);
	p->first = false;
}

static void put_host(struct page *p, const struct gs_host_sample *h)
{
	open_map(p, "host");
	put_int(p, "cpus", h->n_cpus, h->n_cpus >= 0);
	put_number(p, "cpu_ratio", h->cpu_ratio, h->cpu_ratio >= 0);
	put_number(p, "iowait_ratio", h->iowait_ratio, h->iowait_ratio >= 0);
	put_number(p, "load1", h->load1, h->load1 >= 0);
	put_number(p, "load5", h->load5, h->load5 >= 0);
	put_number(p, "load15", h->load15, h->load15 >= 0);
	put_int(p, "threads", h->n_tasks, h->n_tasks >= 0);
	put_int(p, "threads_running", h->n_running, h->n_running >= 0);
	put_int(p, "memory_total_bytes", h->mem_total_bytes, h->mem_total_bytes >= 0);
	put_int(p, "memory_used_bytes", h->mem_used_bytes, h->mem_used_bytes >= 0);
	put_int(p, "swap_total_bytes", h->swap_total_bytes, h->swap_total_bytes >= 0);
	put_int(p, "swap_used_bytes", h->swap_used_bytes, h->swap_used_bytes >= 0);
	put_number(p, "disk_read_bytes_per_second", h->disk_read_bps, h->disk_read_bps >= 0);
	put_number(p, "disk_written_bytes_per_second", h->disk_write_bps, h->disk_write_bps >= 0);
	put_number(p, "network_received_bytes_per_second", h->net_rx_bps, h->net_rx_bps >= 0);
	put_number(p, "network_sent_bytes_per_second", h->net_tx_bps, h->net_tx_bps >= 0);
	put_int(p, "failed_reads", (int64_t)h->failed_reads, true);
	close_with(p, "}");
}

static void put_gpu(struct page *p, const struct gs_gpu_info *g, const struct gs_gpu_sample *s)
{
	open_map(p, NULL);
	put_int(p, "index", g->index, true);
	put_text(p, "uuid", g->uuid);
	put_text(p, "pci_bus_id", g->pci_bus_id);
	put_text(p, "name", g->name);
	put_text(p, "driver_version", g->driver_version);
	put_text(p, "cuda_version", g->cuda_version);
	if (g->is_mig) {
		put_text(p, "mig_profile", g->mig_profile);
		put_int(p, "gpu_instance", g->gpu_instance, g->gpu_instance >= 0);
		put_int(p, "compute_instance", g->compute_instance, g->compute_instance >= 0);
	}
	put_key(p, "lost");
	put_raw(p, s->lost ? "true" : "false");
	put_int(p, "time_ns", (int64_t)s->time_ns, true);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		put_number(p, gs_gpu_field_info(f)->key, s->value[f],
			   gs_gpu_has(s, (enum gs_gpu_field)f));
	close_with(p, "}");
}

/* A process as one row: what is known of it on a GPU (may be NULL) and on the machine (may be). */
struct both {
	const struct gs_gpu_process *g;
	const struct gs_host_process *h;
	const struct gs_gpu_info *info;
};

static const char *either_text(const struct both *b, size_t host_off, size_t gpu_off)
{
	const char *host = b->h ? (const char *)b->h + host_off : "";

	return host[0] ? host : b->g ? (const char *)b->g + gpu_off : "";
}

static void put_process(struct page *p, const struct both *b, const struct gs_node_snapshot *n)
{
	const struct gs_gpu_process *g = b->g;
	const struct gs_host_process *h = b->h;
	uint64_t start_ns = h ? h->start_ns : g->start_ns;
	char state[2] = {h ? h->state : '\0', '\0'};
	uint32_t uid = h && h->uid != UINT32_MAX ? h->uid : g ? g->uid : UINT32_MAX;

	open_map(p, NULL);
	put_int(p, "pid", h ? h->pid : g->pid, true);
	put_int(p, "parent_pid", h ? h->parent_pid : 0, h != NULL);
	put_int(p, "uid", uid, uid != UINT32_MAX);
	put_text(p, "user",
		 either_text(b, offsetof(struct gs_host_process, user),
			     offsetof(struct gs_gpu_process, user)));
	put_int(p, "gpu_index", b->info ? b->info->index : 0, b->info != NULL);
	put_text(p, "gpu_uuid", b->info ? b->info->uuid : NULL);
	put_key(p, "type");
	keep_error(p, gs_buf_printf(&p->buf, g ? "\"%s%s%s\"" : "null",
				    g && g->kind & GS_GPU_PROCESS_COMPUTE ? "C" : "",
				    g && g->kind & GS_GPU_PROCESS_GRAPHICS ? "G" : "",
				    g && g->kind & GS_GPU_PROCESS_MPS ? "M" : ""));
	put_int(p, "gpu_memory_bytes", g ? g->used_bytes : 0, g && g->used_bytes >= 0);
	put_number(p, "sm_ratio", g ? g->sm_ratio : 0, g && g->sm_ratio >= 0);
	put_number(p, "memory_ratio", g ? g->mem_ratio : 0, g && g->mem_ratio >= 0);
	put_number(p, "encoder_ratio", g ? g->enc_ratio : 0, g && g->enc_ratio >= 0);
	put_number(p, "decoder_ratio", g ? g->dec_ratio : 0, g && g->dec_ratio >= 0);
	put_key(p, "ended");
	put_raw(p, g && g->ended ? "true" : "false");
	put_text(p, "state", state);
	put_int(p, "threads", h ? h->n_threads : 0, h != NULL);
	put_number(p, "cpu_ratio", h ? h->cpu_ratio : 0, h && h->cpu_ratio >= 0);
	put_int(p, "rss_bytes", h ? h->rss_bytes : 0, h && h->rss_bytes >= 0);
	put_number(p, "age_seconds",
		   start_ns && n->time_ns >= start_ns ? (double)(n->time_ns - start_ns) / 1e9 : 0,
		   start_ns && n->time_ns >= start_ns);
	put_text(p, "container",
		 either_text(b, offsetof(struct gs_host_process, container),
			     offsetof(struct gs_gpu_process, container)));
	put_text(p, "job", h ? h->job : NULL);
	put_text(p, "comm",
		 either_text(b, offsetof(struct gs_host_process, comm),
			     offsetof(struct gs_gpu_process, comm)));
	put_text(p, "command",
		 either_text(b, offsetof(struct gs_host_process, cmdline),
			     offsetof(struct gs_gpu_process, cmdline)));
	close_with(p, "}");
}

static void put_job(struct page *p, const struct gs_job_account *a, bool probes)
{
	const struct gs_job *j = &a->job;

	open_map(p, NULL);
	put_text(p, "id", j->id);
	put_text(p, "kind", gs_job_kind_name(j->kind));
	put_text(p, "proof", gs_job_proof_name(j));
	put_text(p, "name", j->name);
	put_text(p, "user", j->user);
	put_int(p, "uid", j->uid, j->uid >= 0);
	put_text(p, "account", j->account);
	put_text(p, "partition", j->partition);
	put_text(p, "nodes", j->nodes);
	put_int(p, "start_time", j->start_s, j->start_s > 0);
	put_int(p, "time_limit_seconds", j->limit_s, j->limit_s > 0);
	put_int(p, "processes", a->n_processes, true);
	put_number(p, "cpus", a->cores, a->cores > 0);
	put_number(p, "cpu_ratio", a->cpus, a->cpus >= 0);
	put_int(p, "memory_bytes", a->memory_bytes, a->memory_bytes >= 0);
	put_int(p, "memory_limit_bytes", a->memory_limit_bytes, a->memory_limit_bytes >= 0);
	put_int(p, "gpus", a->n_gpus, a->n_gpus >= 0);
	put_int(p, "gpus_idle", a->gpus_idle, a->gpus_idle >= 0);
	put_number(p, "gpu_ratio", a->gpu_ratio, a->gpu_ratio >= 0);
	put_int(p, "gpu_memory_bytes", a->gpu_memory_bytes, a->gpu_memory_bytes >= 0);
	put_number(p, "io_bytes_per_second", a->io_bps, a->io_bps >= 0);
	put_number(p, "network_bytes_per_second", a->net_bps, a->net_bps >= 0);
	put_text(p, "class", a->job_class);
	put_number(p, "class_confidence", a->confidence, a->job_class[0] != '\0');
	put_number(p, "efficiency_score", a->score, a->score >= 0);
	put_text(p, "counted_by", probes ? "kernel" : "procfs");
	close_with(p, "}");
}

typedef void (*row_fn)(struct page *p, const struct both *b, const struct gs_node_snapshot *n);

static void for_each_process(struct page *p, const struct gs_node_snapshot *n, row_fn row)
{
	const struct gs_gpu_snapshot *g = n->gpu;
	const struct gs_host_snapshot *host = n->host;
	bool *on_gpu = calloc((size_t)host->n_processes + 1, sizeof(*on_gpu));

	if (!on_gpu) {
		keep_error(p, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < g->n_processes; i++) {
		struct both b = {.g = &g->process[i]};

		b.info = b.g->gpu < g->n_gpus ? &g->info[b.g->gpu] : NULL;
		/* What accounting says of one that ended is not of the process that has the pid now. */
		b.h = b.g->ended ? NULL : gs_host_process_of(host, b.g->pid);
		if (b.h)
			on_gpu[b.h - host->process] = true;
		row(p, &b, n);
	}
	for (uint32_t i = 0; i < host->n_processes; i++) {
		struct both b = {.h = &host->process[i]};

		if (!on_gpu[i] && !(b.h->flags & GS_HOST_PROCESS_ANCESTOR))
			row(p, &b, n);
	}
	free(on_gpu);
}

static void put_time(struct page *p, int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	char text[64] = "", whole[96];
	struct tm tm;

	if (wall_ns > 0 && gmtime_r(&s, &tm) &&
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(whole, sizeof(whole), "%s.%03dZ", text, (int)(wall_ns / 1000000 % 1000));
	else
		whole[0] = '\0';
	put_text(p, "time", whole);
}

static int write_out(FILE *out, struct page *p)
{
	int r = p->r;

	if (r == 0 && (fwrite(p->buf.data, 1, p->buf.bytes, out) != p->buf.bytes || fflush(out)))
		r = errno ? -errno : -EIO;
	gs_buf_fini(&p->buf);
	return r;
}

int gs_report_node_json(FILE *out, const struct gs_node_snapshot *n)
{
	struct page p = {.buf = GS_BUF_INIT(MAX_BYTES), .first = true};
	const struct gs_gpu_snapshot *g = n->gpu;

	open_map(&p, NULL);
	put_text(&p, "host_name", n->name);
	put_time(&p, n->wall_ns);
	put_int(&p, "time_ns", (int64_t)n->time_ns, true);
	put_text(&p, "gpu_state", gs_gpu_state_name(g->state));
	put_text(&p, "gpu_state_text", g->state_text);
	put_int(&p, "missed_samples", (int64_t)g->missed_samples, true);
	put_int(&p, "failed_calls", (int64_t)g->failed_calls, true);
	put_int(&p, "lost_events", (int64_t)g->lost_events, true);
	put_host(&p, &n->host->sample);
	put_key(&p, "gpus");
	put_raw(&p, "[");
	p.first = true;
	for (uint32_t i = 0; i < g->n_gpus; i++)
		put_gpu(&p, &g->info[i], &g->sample[i]);
	close_with(&p, "]");
	put_key(&p, "processes");
	put_raw(&p, "[");
	p.first = true;
	for_each_process(&p, n, put_process);
	close_with(&p, "]");
	if (n->jobs) {
		put_key(&p, "jobs");
		put_raw(&p, "[");
		p.first = true;
		for (uint32_t i = 0; i < n->jobs->n_accounts; i++)
			put_job(&p, &n->jobs->account[i], n->jobs->probes);
		close_with(&p, "]");
	}
	put_key(&p, "events");
	put_raw(&p, "[");
	p.first = true;
	for (uint32_t i = 0; i < g->n_events; i++) {
		const struct gs_gpu_event *e = &g->event[i];

		open_map(&p, NULL);
		put_int(&p, "time_ns", (int64_t)e->time_ns, true);
		put_int(&p, "xid", e->xid, e->xid != 0);
		put_text(&p, "pci_bus_id", e->pci_bus_id);
		put_text(&p, "text", e->text);
		close_with(&p, "}");
	}
	close_with(&p, "]");
	close_with(&p, "}\n");
	return write_out(out, &p);
}

/* --- CSV --- */

static void field_text(struct page *p, const char *text)
{
	put_comma(p);
	keep_error(p, gs_text_csv(&p->buf, text));
}

static void field_number(struct page *p, double v, bool known)
{
	char text[40] = "";

	put_comma(p);
	if (known && isfinite(v))
		number_text(text, v);
	put_raw(p, text);
}

static void csv_row(struct page *p, const struct both *b, const struct gs_node_snapshot *n)
{
	const struct gs_gpu_process *g = b->g;
	const struct gs_host_process *h = b->h;
	uint64_t start_ns = h ? h->start_ns : g->start_ns;

	p->first = true;
	field_number(p, b->info ? b->info->index : 0, b->info != NULL);
	field_text(p, b->info ? b->info->uuid : "");
	field_number(p, h ? h->pid : g->pid, true);
	field_text(p, either_text(b, offsetof(struct gs_host_process, user),
				  offsetof(struct gs_gpu_process, user)));
	field_number(p, g ? (double)g->used_bytes : 0, g && g->used_bytes >= 0);
	field_number(p, g ? g->sm_ratio : 0, g && g->sm_ratio >= 0);
	field_number(p, g ? g->mem_ratio : 0, g && g->mem_ratio >= 0);
	field_number(p, h ? h->cpu_ratio : 0, h && h->cpu_ratio >= 0);
	field_number(p, h ? (double)h->rss_bytes : 0, h && h->rss_bytes >= 0);
	field_number(p,
		     start_ns && n->time_ns >= start_ns ? (double)(n->time_ns - start_ns) / 1e9 : 0,
		     start_ns && n->time_ns >= start_ns);
	field_text(p, either_text(b, offsetof(struct gs_host_process, container),
				  offsetof(struct gs_gpu_process, container)));
	field_text(p, h ? h->job : "");
	field_text(p, either_text(b, offsetof(struct gs_host_process, cmdline),
				  offsetof(struct gs_gpu_process, cmdline)));
	put_raw(p, GS_TEXT_CSV_EOL);
}

static void csv_job(struct page *p, const struct gs_job_account *a)
{
	const struct gs_job *j = &a->job;

	p->first = true;
	field_text(p, j->id);
	field_text(p, gs_job_kind_name(j->kind));
	field_text(p, j->user);
	field_text(p, j->name);
	field_text(p, j->partition);
	field_number(p, a->n_processes, true);
	field_number(p, a->cpus, a->cpus >= 0);
	field_number(p, (double)a->memory_bytes, a->memory_bytes >= 0);
	field_number(p, a->n_gpus, a->n_gpus >= 0);
	field_number(p, a->gpus_idle, a->gpus_idle >= 0);
	field_number(p, a->gpu_ratio, a->gpu_ratio >= 0);
	field_number(p, (double)a->gpu_memory_bytes, a->gpu_memory_bytes >= 0);
	field_number(p, a->io_bps, a->io_bps >= 0);
	field_number(p, a->net_bps, a->net_bps >= 0);
	field_text(p, a->job_class);
	field_number(p, a->score, a->score >= 0);
	put_raw(p, GS_TEXT_CSV_EOL);
}

int gs_report_node_jobs_csv(FILE *out, const struct gs_node_snapshot *n)
{
	struct page p = {.buf = GS_BUF_INIT(MAX_BYTES)};

	put_raw(&p, "id,kind,user,name,partition,processes,cpu_ratio,memory_bytes,gpus,gpus_idle,"
		    "gpu_ratio,gpu_memory_bytes,io_bytes_per_second,network_bytes_per_second,class,"
		    "efficiency_score" GS_TEXT_CSV_EOL);
	for (uint32_t i = 0; n->jobs && i < n->jobs->n_accounts; i++)
		csv_job(&p, &n->jobs->account[i]);
	return write_out(out, &p);
}

int gs_report_node_csv(FILE *out, const struct gs_node_snapshot *n)
{
	struct page p = {.buf = GS_BUF_INIT(MAX_BYTES)};

	put_raw(&p, "gpu_index,gpu_uuid,pid,user,gpu_memory_bytes,sm_ratio,memory_ratio,cpu_ratio,"
		    "rss_bytes,age_seconds,container,job,command" GS_TEXT_CSV_EOL);
	for_each_process(&p, n, csv_row);
	return write_out(out, &p);
}
