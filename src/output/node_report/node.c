#include "output/node_report/node.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/doc.h"
#include "core/text/json.h"
#include "core/text/put.h"
#include "core/text/text.h"

#define MAX_BYTES (256u << 20)

static void put_text(struct gs_buf *b, const char *name, const char *text)
{
	if (text && text[0])
		gs_json_text(b, name, text);
	else
		gs_json_null(b, name);
}

static void put_number(struct gs_buf *b, const char *name, double v, bool known)
{
	gs_json_double(b, name, known ? v : NAN);
}

static void put_int(struct gs_buf *b, const char *name, int64_t v, bool known)
{
	if (known)
		gs_json_i64(b, name, v);
	else
		gs_json_null(b, name);
}

static void put_host(struct gs_buf *b, const struct gs_host_sample *h)
{
	gs_json_open(b, "host", '{');
	put_int(b, "cpus", h->n_cpus, h->n_cpus >= 0);
	put_number(b, "cpu_ratio", h->cpu_ratio, h->cpu_ratio >= 0);
	put_number(b, "iowait_ratio", h->iowait_ratio, h->iowait_ratio >= 0);
	put_number(b, "load1", h->load1, h->load1 >= 0);
	put_number(b, "load5", h->load5, h->load5 >= 0);
	put_number(b, "load15", h->load15, h->load15 >= 0);
	put_int(b, "threads", h->n_tasks, h->n_tasks >= 0);
	put_int(b, "threads_running", h->n_running, h->n_running >= 0);
	put_int(b, "memory_total_bytes", h->mem_total_bytes, h->mem_total_bytes >= 0);
	put_int(b, "memory_used_bytes", h->mem_used_bytes, h->mem_used_bytes >= 0);
	put_int(b, "swap_total_bytes", h->swap_total_bytes, h->swap_total_bytes >= 0);
	put_int(b, "swap_used_bytes", h->swap_used_bytes, h->swap_used_bytes >= 0);
	put_number(b, "disk_read_bytes_per_second", h->disk_read_bps, h->disk_read_bps >= 0);
	put_number(b, "disk_written_bytes_per_second", h->disk_write_bps, h->disk_write_bps >= 0);
	put_number(b, "network_received_bytes_per_second", h->net_rx_bps, h->net_rx_bps >= 0);
	put_number(b, "network_sent_bytes_per_second", h->net_tx_bps, h->net_tx_bps >= 0);
	put_int(b, "failed_reads", (int64_t)h->failed_reads, true);
	gs_json_close(b, '}');
}

static void put_gpu(struct gs_buf *b, const struct gs_gpu_info *g, const struct gs_gpu_sample *s)
{
	gs_json_open(b, NULL, '{');
	put_int(b, "index", g->index, true);
	put_text(b, "uuid", g->uuid);
	put_text(b, "pci_bus_id", g->pci_bus_id);
	put_text(b, "name", g->name);
	put_text(b, "driver_version", g->driver_version);
	put_text(b, "cuda_version", g->cuda_version);
	if (g->is_mig) {
		put_text(b, "mig_profile", g->mig_profile);
		put_int(b, "gpu_instance", g->gpu_instance, g->gpu_instance >= 0);
		put_int(b, "compute_instance", g->compute_instance, g->compute_instance >= 0);
	}
	gs_json_bool(b, "lost", s->lost);
	put_int(b, "time_boot_ns", (int64_t)s->time_ns, true);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		put_number(b, gs_gpu_field_info(f)->key, s->value[f],
			   gs_gpu_has(s, (enum gs_gpu_field)f));
	gs_json_close(b, '}');
}

/* A process as one row: what is known of it on a GPU (may be NULL) and on the machine (may be). */
struct both {
	const struct gs_gpu_process *g;
	const struct gs_host_process *h;
	const struct gs_gpu_info *info;
};

static const char *either_text(const struct both *of, size_t host_off, size_t gpu_off)
{
	const char *host = of->h ? (const char *)of->h + host_off : "";

	return host[0] ? host : of->g ? (const char *)of->g + gpu_off : "";
}

static void put_process(struct gs_buf *b, const struct both *of, const struct gs_node_snapshot *n)
{
	const struct gs_gpu_process *g = of->g;
	const struct gs_host_process *h = of->h;
	uint64_t start_ns = h ? h->start_ns : g->start_ns;
	char state[2] = {h ? h->state : '\0', '\0'}, type[4];
	uint32_t uid = h && h->uid != UINT32_MAX ? h->uid : g ? g->uid : UINT32_MAX;

	gs_json_open(b, NULL, '{');
	put_int(b, "pid", h ? h->pid : g->pid, true);
	put_int(b, "parent_pid", h ? h->parent_pid : 0, h != NULL);
	put_int(b, "uid", uid, uid != UINT32_MAX);
	put_text(b, "user",
		 either_text(of, offsetof(struct gs_host_process, user),
			     offsetof(struct gs_gpu_process, user)));
	put_int(b, "gpu_index", of->info ? of->info->index : 0, of->info != NULL);
	put_text(b, "gpu_uuid", of->info ? of->info->uuid : NULL);
	snprintf(type, sizeof(type), "%s%s%s", g && g->kind & GS_GPU_PROCESS_COMPUTE ? "C" : "",
		 g && g->kind & GS_GPU_PROCESS_GRAPHICS ? "G" : "",
		 g && g->kind & GS_GPU_PROCESS_MPS ? "M" : "");
	if (g)
		gs_json_text(b, "type", type);
	else
		gs_json_null(b, "type");
	put_int(b, "gpu_memory_bytes", g ? g->used_bytes : 0, g && g->used_bytes >= 0);
	put_number(b, "sm_ratio", g ? g->sm_ratio : 0, g && g->sm_ratio >= 0);
	put_number(b, "memory_ratio", g ? g->mem_ratio : 0, g && g->mem_ratio >= 0);
	put_number(b, "encoder_ratio", g ? g->enc_ratio : 0, g && g->enc_ratio >= 0);
	put_number(b, "decoder_ratio", g ? g->dec_ratio : 0, g && g->dec_ratio >= 0);
	gs_json_bool(b, "ended", g && g->ended);
	put_text(b, "state", state);
	put_int(b, "threads", h ? h->n_threads : 0, h != NULL);
	put_number(b, "cpu_ratio", h ? h->cpu_ratio : 0, h && h->cpu_ratio >= 0);
	put_int(b, "rss_bytes", h ? h->rss_bytes : 0, h && h->rss_bytes >= 0);
	put_number(b, "age_seconds",
		   start_ns && n->time_ns >= start_ns ? (double)(n->time_ns - start_ns) / 1e9 : 0,
		   start_ns && n->time_ns >= start_ns);
	put_text(b, "container",
		 either_text(of, offsetof(struct gs_host_process, container),
			     offsetof(struct gs_gpu_process, container)));
	put_text(b, "job", h ? h->job : NULL);
	put_text(b, "comm",
		 either_text(of, offsetof(struct gs_host_process, comm),
			     offsetof(struct gs_gpu_process, comm)));
	put_text(b, "command",
		 either_text(of, offsetof(struct gs_host_process, cmdline),
			     offsetof(struct gs_gpu_process, cmdline)));
	gs_json_close(b, '}');
}

static void put_job(struct gs_buf *b, const struct gs_job_account *a, bool probes)
{
	const struct gs_job *j = &a->job;

	gs_json_open(b, NULL, '{');
	put_text(b, "id", j->id);
	put_text(b, "kind", gs_job_kind_name(j->kind));
	put_text(b, "proof", gs_job_proof_name(j));
	put_text(b, "name", j->name);
	put_text(b, "user", j->user);
	put_int(b, "uid", j->uid, j->uid >= 0);
	put_text(b, "account", j->account);
	put_text(b, "partition", j->partition);
	put_text(b, "nodes", j->nodes);
	put_int(b, "start_time", j->start_s, j->start_s > 0);
	put_int(b, "time_limit_seconds", j->limit_s, j->limit_s > 0);
	put_int(b, "processes", a->n_processes, true);
	put_number(b, "cpus", a->cores, a->cores > 0);
	put_number(b, "cpu_ratio", a->cpus, a->cpus >= 0);
	put_int(b, "memory_bytes", a->memory_bytes, a->memory_bytes >= 0);
	put_int(b, "memory_limit_bytes", a->memory_limit_bytes, a->memory_limit_bytes >= 0);
	put_int(b, "gpus", a->n_gpus, a->n_gpus >= 0);
	put_int(b, "gpus_idle", a->gpus_idle, a->gpus_idle >= 0);
	put_number(b, "gpu_ratio", a->gpu_ratio, a->gpu_ratio >= 0);
	put_int(b, "gpu_memory_bytes", a->gpu_memory_bytes, a->gpu_memory_bytes >= 0);
	put_number(b, "io_bytes_per_second", a->io_bps, a->io_bps >= 0);
	put_number(b, "network_bytes_per_second", a->net_bps, a->net_bps >= 0);
	put_text(b, "class", a->job_class);
	put_number(b, "class_confidence", a->confidence, a->job_class[0] != '\0');
	put_number(b, "efficiency_score", a->score, a->score >= 0);
	put_text(b, "counted_by", probes ? "kernel" : "procfs");
	gs_json_close(b, '}');
}

typedef void (*row_fn)(struct gs_buf *b, const struct both *of, const struct gs_node_snapshot *n);

static void for_each_process(struct gs_buf *b, const struct gs_node_snapshot *n, row_fn row)
{
	const struct gs_gpu_snapshot *g = n->gpu;
	const struct gs_host_snapshot *host = n->host;
	bool *on_gpu = calloc((size_t)host->n_processes + 1, sizeof(*on_gpu));

	if (!on_gpu) {
		b->r = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < g->n_processes; i++) {
		struct both of = {.g = &g->process[i]};

		of.info = of.g->gpu < g->n_gpus ? &g->info[of.g->gpu] : NULL;
		/* What accounting says of one that ended is not of the process that has the pid now. */
		of.h = of.g->ended ? NULL : gs_host_process_of(host, of.g->pid);
		if (of.h)
			on_gpu[of.h - host->process] = true;
		row(b, &of, n);
	}
	for (uint32_t i = 0; i < host->n_processes; i++) {
		struct both of = {.h = &host->process[i]};

		if (!on_gpu[i] && !(of.h->flags & GS_HOST_PROCESS_ANCESTOR))
			row(b, &of, n);
	}
	free(on_gpu);
}

static int write_out(FILE *out, struct gs_buf *b)
{
	int r = b->r;

	if (r == 0 && (fwrite(b->data, 1, b->bytes, out) != b->bytes || fflush(out)))
		r = errno ? -errno : -EIO;
	gs_buf_fini(b);
	return r;
}

int gs_report_node_json(FILE *out, const struct gs_node_snapshot *n)
{
	struct gs_buf whole = GS_BUF_INIT(MAX_BYTES), *b = &whole;
	const struct gs_gpu_snapshot *g = n->gpu;

	gs_json_open(b, NULL, '{');
	gs_json_u64(b, "version", GS_DOC_VERSION);
	put_text(b, "host_name", n->name);
	gs_json_time(b, "time", n->wall_ns);
	put_int(b, "time_boot_ns", (int64_t)n->time_ns, true);
	put_text(b, "gpu_state", gs_gpu_state_name(g->state));
	put_text(b, "gpu_state_text", g->state_text);
	put_int(b, "missed_samples", (int64_t)g->missed_samples, true);
	put_int(b, "failed_calls", (int64_t)g->failed_calls, true);
	put_int(b, "lost_events", (int64_t)g->lost_events, true);
	put_host(b, &n->host->sample);
	gs_json_open(b, "gpus", '[');
	for (uint32_t i = 0; i < g->n_gpus; i++)
		put_gpu(b, &g->info[i], &g->sample[i]);
	gs_json_close(b, ']');
	gs_json_open(b, "processes", '[');
	for_each_process(b, n, put_process);
	gs_json_close(b, ']');
	if (n->jobs) {
		gs_json_open(b, "jobs", '[');
		for (uint32_t i = 0; i < n->jobs->n_accounts; i++)
			put_job(b, &n->jobs->account[i], n->jobs->probes);
		gs_json_close(b, ']');
	}
	gs_json_open(b, "events", '[');
	for (uint32_t i = 0; i < g->n_events; i++) {
		const struct gs_gpu_event *e = &g->event[i];

		gs_json_open(b, NULL, '{');
		put_int(b, "time_boot_ns", (int64_t)e->time_ns, true);
		put_int(b, "xid", e->xid, e->xid != 0);
		put_text(b, "pci_bus_id", e->pci_bus_id);
		put_text(b, "text", e->text);
		gs_json_close(b, '}');
	}
	gs_json_close(b, ']');
	(void)gs_buf_puts(b, "}\n");
	return write_out(out, b);
}

/* --- CSV --- */

/* Each field with the comma after it. */
static void field_text(struct gs_buf *b, const char *text)
{
	(void)gs_text_csv(b, text);
	(void)gs_buf_puts(b, ",");
}

static void field_number(struct gs_buf *b, double v, bool known)
{
	char text[GS_PUT_DOUBLE + 1], *p = text;

	if (known && isfinite(v))
		p = gs_put_double(p, v);
	*p++ = ',';
	(void)gs_buf_put(b, text, (size_t)(p - text));
}

static void end_row(struct gs_buf *b)
{
	if (b->r == 0)
		b->bytes--;
	(void)gs_buf_puts(b, GS_TEXT_CSV_EOL);
}

static void csv_row(struct gs_buf *b, const struct both *of, const struct gs_node_snapshot *n)
{
	const struct gs_gpu_process *g = of->g;
	const struct gs_host_process *h = of->h;
	uint64_t start_ns = h ? h->start_ns : g->start_ns;

	field_number(b, of->info ? of->info->index : 0, of->info != NULL);
	field_text(b, of->info ? of->info->uuid : "");
	field_number(b, h ? h->pid : g->pid, true);
	field_text(b, either_text(of, offsetof(struct gs_host_process, user),
				  offsetof(struct gs_gpu_process, user)));
	field_number(b, g ? (double)g->used_bytes : 0, g && g->used_bytes >= 0);
	field_number(b, g ? g->sm_ratio : 0, g && g->sm_ratio >= 0);
	field_number(b, g ? g->mem_ratio : 0, g && g->mem_ratio >= 0);
	field_number(b, h ? h->cpu_ratio : 0, h && h->cpu_ratio >= 0);
	field_number(b, h ? (double)h->rss_bytes : 0, h && h->rss_bytes >= 0);
	field_number(b,
		     start_ns && n->time_ns >= start_ns ? (double)(n->time_ns - start_ns) / 1e9 : 0,
		     start_ns && n->time_ns >= start_ns);
	field_text(b, either_text(of, offsetof(struct gs_host_process, container),
				  offsetof(struct gs_gpu_process, container)));
	field_text(b, h ? h->job : "");
	field_text(b, either_text(of, offsetof(struct gs_host_process, cmdline),
				  offsetof(struct gs_gpu_process, cmdline)));
	end_row(b);
}

static void csv_job(struct gs_buf *b, const struct gs_job_account *a)
{
	const struct gs_job *j = &a->job;

	field_text(b, j->id);
	field_text(b, gs_job_kind_name(j->kind));
	field_text(b, j->user);
	field_text(b, j->name);
	field_text(b, j->partition);
	field_number(b, a->n_processes, true);
	field_number(b, a->cpus, a->cpus >= 0);
	field_number(b, (double)a->memory_bytes, a->memory_bytes >= 0);
	field_number(b, a->n_gpus, a->n_gpus >= 0);
	field_number(b, a->gpus_idle, a->gpus_idle >= 0);
	field_number(b, a->gpu_ratio, a->gpu_ratio >= 0);
	field_number(b, (double)a->gpu_memory_bytes, a->gpu_memory_bytes >= 0);
	field_number(b, a->io_bps, a->io_bps >= 0);
	field_number(b, a->net_bps, a->net_bps >= 0);
	field_text(b, a->job_class);
	field_number(b, a->score, a->score >= 0);
	end_row(b);
}

int gs_report_node_jobs_csv(FILE *out, const struct gs_node_snapshot *n)
{
	struct gs_buf b = GS_BUF_INIT(MAX_BYTES);

	(void)gs_buf_puts(
		&b,
		"id,kind,user,name,partition,processes,cpu_ratio,memory_bytes,gpus,gpus_idle,gpu_ratio,gpu_memory_bytes,io_bytes_per_second,network_bytes_per_second,class,efficiency_score" GS_TEXT_CSV_EOL);
	for (uint32_t i = 0; n->jobs && i < n->jobs->n_accounts; i++)
		csv_job(&b, &n->jobs->account[i]);
	return write_out(out, &b);
}

int gs_report_node_csv(FILE *out, const struct gs_node_snapshot *n)
{
	struct gs_buf b = GS_BUF_INIT(MAX_BYTES);

	(void)gs_buf_puts(
		&b,
		"gpu_index,gpu_uuid,pid,user,gpu_memory_bytes,sm_ratio,memory_ratio,cpu_ratio,rss_bytes,age_seconds,container,job,command" GS_TEXT_CSV_EOL);
	for_each_process(&b, n, csv_row);
	return write_out(out, &b);
}
