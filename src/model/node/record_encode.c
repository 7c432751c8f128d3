/* Records out of snapshots. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "model/node/record_int.h"

static size_t texts_bytes(const struct text *texts, size_t n, uint16_t *text_bytes)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		text_bytes[i] = (uint16_t)strnlen(texts[i].at, texts[i].bytes);
		sum += text_bytes[i];
	}
	return sum;
}

/* A record: *fields (whose head is empty) and the texts, whose lengths go to fields + lengths_off.
 */
static int put_record(struct gs_buf *buf, enum gs_record_kind kind, void *fields, size_t bytes,
		      size_t lengths_off, const struct text *texts, size_t n)
{
	uint16_t lengths[16];
	size_t tail = texts_bytes(texts, n, lengths);
	struct gs_record *r = gs_record_put(buf, kind, bytes, tail);
	char *p;

	if (!r)
		return -ENOBUFS;
	memcpy((char *)fields + lengths_off, lengths, n * sizeof(lengths[0]));
	memcpy(r + 1, (char *)fields + sizeof(*r), bytes - sizeof(*r));
	p = (char *)r + bytes;
	for (size_t i = 0; i < n; i++) {
		memcpy(p, texts[i].at, lengths[i]);
		p += lengths[i];
	}
	return 0;
}

#define PUT(buf, kind, fields, texts)                                                              \
	put_record(buf, kind, &(fields), sizeof(fields), offsetof(__typeof__(fields), text_bytes), \
		   texts, GS_ARRAY_LEN(texts))

static int put_head(struct gs_buf *buf, const struct gs_node_snapshot *n)
{
	const struct gs_host_sample *h = &n->host->sample;
	const struct gs_gpu_snapshot *g = n->gpu;
	const struct text texts[] = {TEXT(n->name), TEXT(g->state_text)};
	struct gs_rec_host_sample r = {
		.time_ns = n->time_ns,
		.wall_ns = n->wall_ns,
		.n_gpus = g->n_gpus,
		.n_gpu_processes = g->n_processes,
		.n_gpu_events = g->n_events,
		.n_host_processes = n->host->n_processes,
		.n_jobs = n->jobs ? n->jobs->n_accounts : 0,
		.jobs_read = n->jobs != NULL,
		.host_time_ns = h->time_ns,
		.host_elapsed_ns = h->elapsed_ns,
		.n_cpus = h->n_cpus,
		.n_tasks = h->n_tasks,
		.n_running = h->n_running,
		.gpu_state = g->state,
		.cpu_ratio = h->cpu_ratio,
		.iowait_ratio = h->iowait_ratio,
		.load1 = h->load1,
		.load5 = h->load5,
		.load15 = h->load15,
		.mem_total_bytes = h->mem_total_bytes,
		.mem_used_bytes = h->mem_used_bytes,
		.swap_total_bytes = h->swap_total_bytes,
		.swap_used_bytes = h->swap_used_bytes,
		.disk_read_bps = h->disk_read_bps,
		.disk_write_bps = h->disk_write_bps,
		.net_rx_bps = h->net_rx_bps,
		.net_tx_bps = h->net_tx_bps,
		.failed_reads = h->failed_reads,
		.gpu_time_ns = g->time_ns,
		.gpu_wall_ns = g->wall_ns,
		.missed_samples = g->missed_samples,
		.failed_calls = g->failed_calls,
		.lost_events = g->lost_events,
		.read_ns = g->read_ns,
		.mem_used_ratio = h->mem_used_ratio,
		.root_used_ratio = h->root_used_ratio,
	};

	return PUT(buf, GS_REC_HOST_SAMPLE, r, texts);
}

static int put_info(struct gs_buf *buf, uint32_t gpu, const struct gs_gpu_info *g)
{
	const struct text texts[] = {
		TEXT(g->uuid),         TEXT(g->pci_bus_id),   TEXT(g->name),
		TEXT(g->serial),       TEXT(g->vbios),        TEXT(g->driver_version),
		TEXT(g->cuda_version), TEXT(g->architecture), TEXT(g->mig_profile)};
	struct gs_rec_gpu_info r = {
		.gpu = gpu,
		.index = g->index,
		.vendor = g->vendor,
		.minor = g->minor,
		.numa_node = g->numa_node,
		.n_sms = g->n_sms,
		.compute_major = g->compute_major,
		.compute_minor = g->compute_minor,
		.gpu_instance = g->gpu_instance,
		.compute_instance = g->compute_instance,
		.persistence = g->persistence,
		.mig_enabled = g->mig_enabled,
		.is_mig = g->is_mig,
	};

	return PUT(buf, GS_REC_GPU_INFO, r, texts);
}

static int put_sample(struct gs_buf *buf, uint32_t gpu, const struct gs_gpu_sample *s)
{
	struct gs_rec_gpu_sample *r;
	struct gs_rec_gpu_value *v;
	struct gs_rec_gpu_link *l;
	uint32_t n_values = 0,
		 n_links = s->n_links < GS_GPU_LINK_MAX ? s->n_links : GS_GPU_LINK_MAX;

	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		n_values += s->why[f] != GS_GPU_REASON_NOT_READ;
	r = gs_record_put(buf, GS_REC_GPU_SAMPLE, sizeof(*r),
			  n_values * sizeof(*v) + n_links * sizeof(*l));
	if (!r)
		return -ENOBUFS;
	r->gpu = gpu;
	r->lost = s->lost;
	r->time_ns = s->time_ns;
	r->elapsed_ns = s->elapsed_ns;
	r->n_values = n_values;
	r->n_links = n_links;
	v = (void *)(r + 1);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (s->why[f] != GS_GPU_REASON_NOT_READ) {
			*v = (struct gs_rec_gpu_value){
				.key_hash = gs_gpu_key_hash(gs_gpu_field_info(f)->key),
				.why = s->why[f],
				.value = s->why[f] == GS_GPU_REASON_OK ? s->value[f] : 0,
			};
			gs_rec_gpu_value_set_age(v++, gs_gpu_age_ns(s, f));
		}
	l = (void *)v;
	for (uint32_t i = 0; i < n_links; i++) {
		const struct gs_gpu_link *from = &s->link[i];

		l[i] = (struct gs_rec_gpu_link){
			.present = from->present,
			.up = from->up,
			.version = from->version,
			.have_bytes = from->have_bytes,
			.have_errors = from->have_errors,
			.tx_bytes = from->tx_bytes,
			.rx_bytes = from->rx_bytes,
			.crc_errors = from->crc_errors,
			.replay_errors = from->replay_errors,
			.recovery_errors = from->recovery_errors,
		};
		memcpy(l[i].remote_bus_id, from->remote_bus_id, sizeof(l[i].remote_bus_id));
	}
	return 0;
}

static int put_process(struct gs_buf *buf, const struct gs_gpu_process *p)
{
	const struct text texts[] = {TEXT(p->comm), TEXT(p->user), TEXT(p->container),
				     TEXT(p->cmdline)};
	struct gs_rec_gpu_process r = {
		.gpu = p->gpu,
		.pid = p->pid,
		.kind = p->kind,
		.uid = p->uid,
		.used_bytes = p->used_bytes,
		.sm_ratio = p->sm_ratio,
		.mem_ratio = p->mem_ratio,
		.enc_ratio = p->enc_ratio,
		.dec_ratio = p->dec_ratio,
		.jpg_ratio = p->jpg_ratio,
		.ofa_ratio = p->ofa_ratio,
		.start_ns = p->start_ns,
		.ended = p->ended,
		.gone = p->gone,
		.kept = p->kept,
	};

	return PUT(buf, GS_REC_GPU_PROCESS, r, texts);
}

static int put_event(struct gs_buf *buf, const struct gs_gpu_event *e)
{
	const struct text texts[] = {TEXT(e->pci_bus_id), TEXT(e->uuid), TEXT(e->text)};
	struct gs_rec_gpu_event r = {.time_ns = e->time_ns, .xid = e->xid, .source = e->source};

	return PUT(buf, GS_REC_GPU_EVENT, r, texts);
}

/* Before its process, as the last of those may end the snapshot. */
static int put_times(struct gs_buf *buf, const struct gs_node_snapshot *n,
		     const struct gs_host_process *p)
{
	const struct gs_job_process *from = gs_node_process_times(n, p);
	struct gs_rec_host_times *r;

	if (!from)
		return 0;
	r = gs_record_put(buf, GS_REC_HOST_TIMES, sizeof(*r), 0);
	if (!r)
		return -ENOBUFS;
	r->pid = from->pid;
	r->start_ns = from->start_ns;
	_Static_assert(sizeof(r->part_ns) == sizeof(from->part_ns), "parts");
	memcpy(r->part_ns, from->part_ns, sizeof(r->part_ns));
	return 0;
}

static int put_host_process(struct gs_buf *buf, const struct gs_host_process *p)
{
	const struct text texts[] = {TEXT(p->comm), TEXT(p->user), TEXT(p->container), TEXT(p->job),
				     TEXT(p->cmdline)};
	struct gs_rec_host_process r = {
		.pid = p->pid,
		.parent_pid = p->parent_pid,
		.uid = p->uid,
		.n_threads = p->n_threads,
		.flags = p->flags,
		.state = p->state,
		.cpu_ratio = p->cpu_ratio,
		.rss_bytes = p->rss_bytes,
		.cpu_ns = p->cpu_ns,
		.start_ns = p->start_ns,
	};

	return PUT(buf, GS_REC_HOST_PROCESS, r, texts);
}

static double known_or_minus(double v)
{
	return isfinite(v) ? v : -1;
}

static int put_job(struct gs_buf *buf, const struct gs_job_account *a, bool probes)
{
	const struct gs_job *j = &a->job;
	const struct text texts[] = {TEXT(j->id),       TEXT(j->name),      TEXT(j->user),
				     TEXT(j->account),  TEXT(j->partition), TEXT(j->nodes),
				     TEXT(a->job_class)};
	struct gs_rec_host_job r = {
		.kind = j->kind,
		.n_processes = a->n_processes,
		.known = a->known,
		.probes = probes,
		.n_gpus = a->n_gpus,
		.gpus_idle = a->gpus_idle,
		.uid = j->uid,
		.start_s = j->start_s,
		.limit_s = j->limit_s,
		.memory_bytes = a->memory_bytes,
		.memory_limit_bytes = a->memory_limit_bytes,
		.gpu_memory_bytes = a->gpu_memory_bytes,
		.cores = known_or_minus(a->cores),
		.cpus = known_or_minus(a->cpus),
		.io_bps = known_or_minus(a->io_bps),
		.net_bps = known_or_minus(a->net_bps),
		.gpu_ratio = known_or_minus(a->gpu_ratio),
		.score = known_or_minus(a->score),
		.confidence = known_or_minus(a->confidence),
		.gpu_mask = a->gpu_mask,
		.flags = j->is_claimed ? GS_REC_HOST_JOB_CLAIMED : 0,
	};

	return PUT(buf, GS_REC_HOST_JOB, r, texts);
}

int gs_node_encode(struct gs_buf *buf, const struct gs_node_snapshot *n)
{
	size_t start = buf->bytes;
	int r = put_head(buf, n);

	for (uint32_t i = 0; r == 0 && i < n->gpu->n_gpus; i++)
		r = put_info(buf, i, &n->gpu->info[i]);
	for (uint32_t i = 0; r == 0 && i < n->gpu->n_gpus; i++)
		r = put_sample(buf, i, &n->gpu->sample[i]);
	for (uint32_t i = 0; r == 0 && i < n->gpu->n_processes; i++)
		r = put_process(buf, &n->gpu->process[i]);
	for (uint32_t i = 0; r == 0 && i < n->gpu->n_events; i++)
		r = put_event(buf, &n->gpu->event[i]);
	for (uint32_t i = 0; r == 0 && i < n->host->n_processes; i++) {
		r = put_times(buf, n, &n->host->process[i]);
		if (r == 0)
			r = put_host_process(buf, &n->host->process[i]);
	}
	for (uint32_t i = 0; r == 0 && n->jobs && i < n->jobs->n_accounts; i++)
		r = put_job(buf, &n->jobs->account[i], n->jobs->probes);
	if (r < 0)
		buf->bytes = start;
	return r;
}
