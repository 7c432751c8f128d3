/* Snapshots out of records; record_encode.c makes records of them. */
#include "model/node/record_int.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define MAX_GPUS  4096
#define MAX_ROWS  65536 /* processes, events */
#define VALUE_MAX 1e18  /* beyond it nothing is a value of a machine */

uint32_t gs_gpu_key_hash(const char *key)
{
	uint32_t h = 2166136261u;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return h;
}

struct gs_node_decoder {
	struct gs_node_snapshot *node; /* owned; the snapshot that is being read, or NULL */
	uint32_t n_gpus, n_gpu_processes, n_gpu_events, n_host_processes; /* that it has */
	uint32_t n_jobs, room_jobs, room_times;
	uint32_t n_samples; /* so far */
	uint32_t room_gpus, room_samples, room_gpu_processes, room_gpu_events, room_host_processes;
	uint64_t n_torn;
	struct { /* the numbers of fields by the hashes of their keys */
		uint32_t hash, field;
	} slots[4 * GS_GPU_FIELD_COUNT];
};

struct gs_node_decoder *gs_node_decoder_new(void)
{
	struct gs_node_decoder *d = calloc(1, sizeof(*d));

	for (uint32_t f = 0; d && f < GS_GPU_FIELD_COUNT; f++) {
		uint32_t hash = gs_gpu_key_hash(gs_gpu_field_info(f)->key);
		size_t i = hash % GS_ARRAY_LEN(d->slots);

		while (d->slots[i].hash)
			i = (i + 1) % GS_ARRAY_LEN(d->slots);
		d->slots[i].hash = hash;
		d->slots[i].field = f;
	}
	return d;
}

void gs_node_decoder_free(struct gs_node_decoder **decoder)
{
	if (*decoder)
		gs_node_snapshot_free(&(*decoder)->node);
	free(*decoder);
	*decoder = NULL;
}

void gs_node_decoder_reset(struct gs_node_decoder *d)
{
	gs_node_snapshot_free(&d->node);
}

uint64_t gs_node_decoder_torn(const struct gs_node_decoder *d)
{
	return d->n_torn;
}

static double clean_number(double v)
{
	return isfinite(v) && v > -VALUE_MAX && v < VALUE_MAX ? v : -1;
}

static double clean_ratio(double v)
{
	return v >= 0 && v <= 1 ? v : -1;
}

static int64_t clean_bytes(int64_t v)
{
	return v >= -1 && v < (int64_t)VALUE_MAX ? v : -1;
}

/* The texts after the fields; false when they are longer than the record. */
static bool take_texts(const struct gs_record *r, size_t fields_bytes, const uint16_t *text_bytes,
		       const struct text *texts, size_t n)
{
	const char *p = (const char *)r + fields_bytes, *end = (const char *)r + r->bytes;

	for (size_t i = 0; i < n; i++) {
		size_t bytes = text_bytes[i];

		if (bytes > (size_t)(end - p))
			return false;
		if (bytes >= texts[i].bytes)
			bytes = texts[i].bytes - 1;
		memcpy(texts[i].at, p, bytes);
		texts[i].at[bytes] = '\0';
		p += text_bytes[i];
	}
	return true;
}

#define TAKE(r, texts)                                                                             \
	take_texts(&(r)->head, sizeof(*(r)), (r)->text_bytes, texts, GS_ARRAY_LEN(texts))

/* A new, zeroed row after n others, of which n_reported are to come in all: heads keep the newest
 * snapshot of each node, so there is no more room than is needed, nor more than a lie about them
 * costs. NULL: no memory. */
static void *grow_rows(void *rows, uint32_t n, uint32_t n_reported, uint32_t *room, size_t bytes)
{
	void **at = rows;

	if (n == *room) {
		uint32_t more = n ? n * 2 : 16;
		void *p;

		more = more < n_reported ? more : n_reported;
		p = realloc(*at, more * bytes);
		if (!p)
			return NULL;
		*at = p;
		*room = more;
	}
	memset((char *)*at + n * bytes, 0, bytes);
	return (char *)*at + n * bytes;
}

static int begin_snapshot(struct gs_node_decoder *d, const struct gs_rec_host_sample *r)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));
	struct gs_host_snapshot *h = calloc(1, sizeof(*h));
	bool ok;

	if (!n || !g || !h) {
		free(n);
		free(g);
		free(h);
		return -ENOMEM;
	}
	d->node = n;
	n->gpu = g;
	n->host = h;
	n->time_ns = r->time_ns;
	n->wall_ns = r->wall_ns;
	g->time_ns = r->gpu_time_ns;
	g->wall_ns = r->gpu_wall_ns;
	g->state = r->gpu_state;
	g->missed_samples = r->missed_samples;
	g->failed_calls = r->failed_calls;
	g->lost_events = r->lost_events;
	g->read_ns = r->read_ns;
	h->sample = (struct gs_host_sample){
		.time_ns = r->host_time_ns,
		.elapsed_ns = r->host_elapsed_ns,
		.n_cpus = r->n_cpus,
		.n_tasks = r->n_tasks,
		.n_running = r->n_running,
		.cpu_ratio = clean_number(r->cpu_ratio),
		.iowait_ratio = clean_number(r->iowait_ratio),
		.load1 = clean_number(r->load1),
		.load5 = clean_number(r->load5),
		.load15 = clean_number(r->load15),
		.mem_total_bytes = clean_bytes(r->mem_total_bytes),
		.mem_used_bytes = clean_bytes(r->mem_used_bytes),
		.swap_total_bytes = clean_bytes(r->swap_total_bytes),
		.swap_used_bytes = clean_bytes(r->swap_used_bytes),
		.disk_read_bps = clean_number(r->disk_read_bps),
		.disk_write_bps = clean_number(r->disk_write_bps),
		.net_rx_bps = clean_number(r->net_rx_bps),
		.net_tx_bps = clean_number(r->net_tx_bps),
		.failed_reads = r->failed_reads,
		.mem_used_ratio = clean_ratio(r->mem_used_ratio),
		.root_used_ratio = clean_ratio(r->root_used_ratio),
	};
	d->n_gpus = r->n_gpus;
	d->n_gpu_processes = r->n_gpu_processes;
	d->n_gpu_events = r->n_gpu_events;
	d->n_host_processes = r->n_host_processes;
	d->n_samples = d->n_jobs = d->room_jobs = d->room_times = 0;
	if (r->jobs_read) {
		d->n_jobs = r->n_jobs;
		n->jobs = calloc(1, sizeof(*n->jobs));
		if (!n->jobs)
			return -ENOMEM;
		n->jobs->time_ns = r->time_ns;
	}
	d->room_gpus = d->room_samples = d->room_gpu_processes = d->room_gpu_events =
		d->room_host_processes = 0;
	ok = TAKE(r, ((const struct text[]){TEXT(n->name), TEXT(g->state_text)}));
	return ok && r->n_gpus <= MAX_GPUS && r->n_gpu_processes <= MAX_ROWS &&
			       r->n_gpu_events <= MAX_ROWS && r->n_host_processes <= MAX_ROWS &&
			       d->n_jobs <= MAX_ROWS
		       ? 0
		       : -EBADMSG;
}

static int take_info(struct gs_node_decoder *d, const struct gs_rec_gpu_info *r)
{
	struct gs_gpu_snapshot *s = d->node->gpu;
	struct gs_gpu_info *g;
	bool ok;

	if (s->n_gpus == d->n_gpus || r->gpu != s->n_gpus)
		return -EBADMSG;
	g = grow_rows(&s->info, s->n_gpus, d->n_gpus, &d->room_gpus, sizeof(*g));
	if (!g)
		return -ENOMEM;
	s->n_gpus++;
	*g = (struct gs_gpu_info){
		.index = r->index,
		.vendor = r->vendor,
		.minor = r->minor,
		.numa_node = r->numa_node,
		.n_sms = r->n_sms,
		.compute_major = r->compute_major,
		.compute_minor = r->compute_minor,
		.persistence = r->persistence,
		.mig_enabled = r->mig_enabled,
		.is_mig = r->is_mig,
		.gpu_instance = r->gpu_instance,
		.compute_instance = r->compute_instance,
	};
	ok = TAKE(r, ((const struct text[]){TEXT(g->uuid), TEXT(g->pci_bus_id), TEXT(g->name),
					    TEXT(g->serial), TEXT(g->vbios),
					    TEXT(g->driver_version), TEXT(g->cuda_version),
					    TEXT(g->architecture), TEXT(g->mig_profile)}));
	return ok ? 0 : -EBADMSG;
}

/* The field of a key; GS_GPU_FIELD_COUNT: a later program's. */
static uint32_t field_of(const struct gs_node_decoder *d, uint32_t hash)
{
	size_t i = hash % GS_ARRAY_LEN(d->slots);

	while (d->slots[i].hash && d->slots[i].hash != hash)
		i = (i + 1) % GS_ARRAY_LEN(d->slots);
	return d->slots[i].hash && hash ? d->slots[i].field : (uint32_t)GS_GPU_FIELD_COUNT;
}

static int take_sample(struct gs_node_decoder *d, const struct gs_rec_gpu_sample *r)
{
	const struct gs_rec_gpu_value *v = (const void *)(r + 1);
	const struct gs_rec_gpu_link *l;
	size_t tail = r->head.bytes - sizeof(*r);
	struct gs_gpu_sample *s;

	if (d->n_samples == d->n_gpus || r->gpu != d->n_samples ||
	    r->n_values > tail / sizeof(*v) || r->n_links > GS_GPU_LINK_MAX ||
	    r->n_links > (tail - r->n_values * sizeof(*v)) / sizeof(*l))
		return -EBADMSG;
	s = grow_rows(&d->node->gpu->sample, d->n_samples, d->n_gpus, &d->room_samples, sizeof(*s));
	if (!s)
		return -ENOMEM;
	d->n_samples++;
	s->time_ns = r->time_ns;
	s->elapsed_ns = r->elapsed_ns;
	s->lost = r->lost != 0;
	s->n_links = r->n_links;
	memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
	for (uint32_t i = 0; i < r->n_values; i++, v++) {
		uint32_t f = field_of(d, v->key_hash);

		if (f == GS_GPU_FIELD_COUNT)
			continue;
		s->why[f] = v->why;
		s->value[f] = v->value;
		if (v->why == GS_GPU_REASON_OK && clean_number(v->value) != v->value)
			s->why[f] = GS_GPU_REASON_FAILED;
		gs_gpu_set_age(s, f, gs_rec_gpu_value_age(v));
	}
	l = (const void *)v;
	for (uint32_t i = 0; i < r->n_links; i++, l++) {
		struct gs_gpu_link *to = &s->link[i];

		*to = (struct gs_gpu_link){
			.present = l->present,
			.up = l->up,
			.version = l->version,
			.have_bytes = l->have_bytes,
			.have_errors = l->have_errors,
			.tx_bytes = l->tx_bytes,
			.rx_bytes = l->rx_bytes,
			.crc_errors = l->crc_errors,
			.replay_errors = l->replay_errors,
			.recovery_errors = l->recovery_errors,
		};
		memcpy(to->remote_bus_id, l->remote_bus_id, sizeof(to->remote_bus_id) - 1);
	}
	return 0;
}

static int take_process(struct gs_node_decoder *d, const struct gs_rec_gpu_process *r)
{
	struct gs_gpu_snapshot *s = d->node->gpu;
	struct gs_gpu_process *p;
	bool ok;

	if (s->n_processes == d->n_gpu_processes || r->gpu >= d->n_gpus)
		return -EBADMSG;
	p = grow_rows(&s->process, s->n_processes, d->n_gpu_processes, &d->room_gpu_processes,
		      sizeof(*p));
	if (!p)
		return -ENOMEM;
	s->n_processes++;
	*p = (struct gs_gpu_process){
		.gpu = r->gpu,
		.pid = r->pid,
		.kind = r->kind,
		.uid = r->uid,
		.used_bytes = clean_bytes(r->used_bytes),
		.sm_ratio = clean_number(r->sm_ratio),
		.mem_ratio = clean_number(r->mem_ratio),
		.enc_ratio = clean_number(r->enc_ratio),
		.dec_ratio = clean_number(r->dec_ratio),
		.jpg_ratio = clean_number(r->jpg_ratio),
		.ofa_ratio = clean_number(r->ofa_ratio),
		.start_ns = r->start_ns,
		.ended = r->ended,
		.gone = r->gone,
		.kept = r->kept,
	};
	ok = TAKE(r, ((const struct text[]){TEXT(p->comm), TEXT(p->user), TEXT(p->container),
					    TEXT(p->cmdline)}));
	return ok ? 0 : -EBADMSG;
}

static int take_event(struct gs_node_decoder *d, const struct gs_rec_gpu_event *r)
{
	struct gs_gpu_snapshot *s = d->node->gpu;
	struct gs_gpu_event *e;

	if (s->n_events == d->n_gpu_events)
		return -EBADMSG;
	e = grow_rows(&s->event, s->n_events, d->n_gpu_events, &d->room_gpu_events, sizeof(*e));
	if (!e)
		return -ENOMEM;
	s->n_events++;
	*e = (struct gs_gpu_event){.time_ns = r->time_ns, .xid = r->xid, .source = r->source};
	return TAKE(r, ((const struct text[]){TEXT(e->pci_bus_id), TEXT(e->uuid), TEXT(e->text)}))
		       ? 0
		       : -EBADMSG;
}

static int take_host_process(struct gs_node_decoder *d, const struct gs_rec_host_process *r)
{
	struct gs_host_snapshot *s = d->node->host;
	struct gs_host_process *p;
	bool ok;

	/* Rising, as gs_host_process_of() needs them. */
	if (s->n_processes == d->n_host_processes ||
	    (s->n_processes && r->pid <= s->process[s->n_processes - 1].pid))
		return -EBADMSG;
	p = grow_rows(&s->process, s->n_processes, d->n_host_processes, &d->room_host_processes,
		      sizeof(*p));
	if (!p)
		return -ENOMEM;
	s->n_processes++;
	*p = (struct gs_host_process){
		.pid = r->pid,
		.parent_pid = r->parent_pid,
		.uid = r->uid,
		.n_threads = r->n_threads,
		.flags = r->flags,
		.state = r->state,
		.cpu_ratio = clean_number(r->cpu_ratio),
		.rss_bytes = clean_bytes(r->rss_bytes),
		.cpu_ns = r->cpu_ns,
		.start_ns = r->start_ns,
	};
	ok = TAKE(r, ((const struct text[]){TEXT(p->comm), TEXT(p->user), TEXT(p->container),
					    TEXT(p->job), TEXT(p->cmdline)}));
	return ok ? 0 : -EBADMSG;
}

static int take_times(struct gs_node_decoder *d, const struct gs_rec_host_times *r)
{
	struct gs_node_snapshot *n = d->node;
	struct gs_job_process *p;

	/* Rising, as gs_job_process_of() needs them. */
	if (n->n_times == d->n_host_processes ||
	    (n->n_times && r->pid <= n->times[n->n_times - 1].pid))
		return -EBADMSG;
	p = grow_rows(&n->times, n->n_times, d->n_host_processes, &d->room_times, sizeof(*p));
	if (!p)
		return -ENOMEM;
	n->n_times++;
	*p = (struct gs_job_process){.pid = r->pid, .start_ns = r->start_ns};
	memcpy(p->part_ns, r->part_ns, sizeof(p->part_ns));
	return 0;
}

static double known_or_nan(double v)
{
	return clean_number(v) < 0 ? NAN : v;
}

static int take_job(struct gs_node_decoder *d, const struct gs_rec_host_job *r)
{
	struct gs_job_accounts *s = d->node->jobs;
	struct gs_job_account *a;
	bool ok;

	if (!s || s->n_accounts == d->n_jobs)
		return -EBADMSG;
	a = grow_rows(&s->account, s->n_accounts, d->n_jobs, &d->room_jobs, sizeof(*a));
	if (!a)
		return -ENOMEM;
	s->n_accounts++;
	s->probes = r->probes != 0;
	*a = (struct gs_job_account){
		.job = {.kind = r->kind,
			.job_id = -1,
			.array_job_id = -1,
			.array_task_id = -1,
			.het_job_id = -1,
			.het_offset = -1,
			.uid = r->uid,
			.n_cpus = -1,
			.mem_bytes = -1,
			.gpu_mask = r->gpu_mask,
			.start_s = r->start_s,
			.limit_s = r->limit_s,
			.is_claimed = r->flags & GS_REC_HOST_JOB_CLAIMED},
		.n_processes = r->n_processes,
		.known = r->known,
		.cores = known_or_nan(r->cores),
		.memory_bytes = clean_bytes(r->memory_bytes),
		.memory_peak_bytes = -1,
		.memory_limit_bytes = clean_bytes(r->memory_limit_bytes),
		.gpu_mask = r->gpu_mask,
		.n_gpus = r->n_gpus >= 0 && r->n_gpus <= 64 ? r->n_gpus : -1,
		.gpus_idle = r->gpus_idle >= 0 && r->gpus_idle <= 64 ? r->gpus_idle : -1,
		.gpu_memory_bytes = clean_bytes(r->gpu_memory_bytes),
		.gpu_ratio = known_or_nan(r->gpu_ratio),
		.cpus = known_or_nan(r->cpus),
		.io_bps = known_or_nan(r->io_bps),
		.net_bps = known_or_nan(r->net_bps),
		.score = known_or_nan(r->score),
		.confidence = known_or_nan(r->confidence),
		.cpu_percent = NAN,
		.io_percent = NAN,
		.wait_percent = NAN,
		.net_percent = NAN,
		.memory_percent = NAN,
	};
	memset(a->pressure_ns, 0xff, sizeof(a->pressure_ns)); /* -1 */
	ok = TAKE(r, ((const struct text[]){TEXT(a->job.id), TEXT(a->job.name), TEXT(a->job.user),
					    TEXT(a->job.account), TEXT(a->job.partition),
					    TEXT(a->job.nodes), TEXT(a->job_class)}));
	return ok ? 0 : -EBADMSG;
}

static int take_record(struct gs_node_decoder *d, const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_GPU_INFO:
		return take_info(d, (const void *)r);
	case GS_REC_GPU_SAMPLE:
		return take_sample(d, (const void *)r);
	case GS_REC_GPU_PROCESS:
		return take_process(d, (const void *)r);
	case GS_REC_GPU_EVENT:
		return take_event(d, (const void *)r);
	case GS_REC_HOST_PROCESS:
		return take_host_process(d, (const void *)r);
	case GS_REC_HOST_TIMES:
		return take_times(d, (const void *)r);
	case GS_REC_HOST_JOB:
		return take_job(d, (const void *)r);
	default:
		return 0;
	}
}

int gs_node_decode(struct gs_node_decoder *d, const struct gs_record *r,
		   struct gs_node_snapshot **ret)
{
	const struct gs_node_snapshot *n;
	int e;

	if ((r->kind < GS_REC_GPU_INFO || r->kind > GS_REC_HOST_PROCESS) &&
	    r->kind != GS_REC_HOST_JOB && r->kind != GS_REC_HOST_TIMES)
		return 0;
	if (r->kind == GS_REC_HOST_SAMPLE) {
		d->n_torn += d->node != NULL;
		gs_node_decoder_reset(d);
		e = begin_snapshot(d, (const void *)r);
	} else if (d->node) {
		e = take_record(d, r);
	} else {
		return 0; /* the rest of a snapshot whose beginning is missing */
	}
	if (e == -EBADMSG) {
		d->n_torn++;
		gs_node_decoder_reset(d);
		return 0;
	}
	if (e < 0)
		return e;
	n = d->node;
	if (n->gpu->n_gpus < d->n_gpus || d->n_samples < d->n_gpus ||
	    n->gpu->n_processes < d->n_gpu_processes || n->gpu->n_events < d->n_gpu_events ||
	    n->host->n_processes < d->n_host_processes ||
	    (n->jobs && n->jobs->n_accounts < d->n_jobs))
		return 0;
	*ret = gs_take(d->node);
	return GS_NODE_WHOLE;
}
