#include "pipeline/process_gpu/process_gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/vec.h"
#include "pipeline/process_gpu/union.h"

struct process_row {
	struct gs_process_gpu_row sums;
	uint64_t before_ns;   /* sums.active_max_ns of the last tick */
	double window_core_s; /* since then */
	double ratio_sum;     /* over launches whose needs are known, since the last tick */
	uint64_t n_ratios;
	double ratio; /* the mean that was known last; negative: none was */
};

struct device_row {
	struct gs_process_gpu_device is;
	struct process_gpu_union active;
	struct gs_process_gpu_total total;
	double window_core_s;
	bool used;
};

struct process_seen {
	char *uuids;     /* owned; NULL: not known */
	int32_t guessed; /* device and 1; 0 none */
};

struct gs_process_gpu {
	struct gs_activity *activity;
	uint32_t max_rows;
	struct process_row *rows; /* owned */
	size_t n_rows, cap_rows;
	struct gs_map row_of;       /* process and context -> index of rows */
	struct device_row *devices; /* owned; GS_PROCESS_GPU_DEVICES_MAX */
	size_t n_devices;
	struct process_seen *processes; /* owned; by the caller's number */
	uint32_t n_processes;
	uint64_t tick_ns; /* the last */
	uint64_t n_left_out;
};

static void take_span(void *ctx, const struct gs_activity_span *span);

int gs_process_gpu_new(const struct gs_process_gpu_config *config, uint64_t now_ns,
		       struct gs_process_gpu **ret)
{
	struct gs_process_gpu *p = calloc(1, sizeof(*p));
	int r = p ? gs_activity_new(config ? &config->activity : NULL, &p->activity) : -ENOMEM;

	if (r == 0)
		p->devices = calloc(GS_PROCESS_GPU_DEVICES_MAX, sizeof(*p->devices));
	if (r < 0 || !p->devices) {
		gs_process_gpu_free(&p);
		return -ENOMEM;
	}
	p->max_rows = config && config->max_rows ? config->max_rows : 4096;
	p->row_of = GS_MAP_INIT(p->max_rows);
	p->tick_ns = now_ns;
	gs_activity_set_sink(p->activity, take_span, p);
	*ret = p;
	return 0;
}

void gs_process_gpu_free(struct gs_process_gpu **ref)
{
	struct gs_process_gpu *p = *ref;

	if (!p)
		return;
	for (uint32_t i = 0; i < p->n_processes; i++)
		free(p->processes[i].uuids);
	free(p->processes);
	free(p->devices);
	free(p->rows);
	gs_map_fini(&p->row_of);
	gs_activity_free(&p->activity);
	free(p);
	*ref = NULL;
}

/* --- devices --- */

static int32_t find_device(const struct gs_process_gpu *p, const char *uuid, size_t bytes)
{
	for (size_t i = 0; i < p->n_devices; i++)
		if (strlen(p->devices[i].is.uuid) == bytes &&
		    memcmp(p->devices[i].is.uuid, uuid, bytes) == 0)
			return (int32_t)i;
	return -1;
}

/* Of the GPUs that the process sees the one of this number. */
static int32_t device_of(const struct gs_process_gpu *p, uint32_t process, uint32_t context)
{
	const char *at = process < p->n_processes ? p->processes[process].uuids : NULL;

	if (at && (!*at || context == GS_ACTIVITY_DEVICE_UNKNOWN))
		return p->processes[process].guessed - 1;
	for (uint32_t i = 0; at && *at; i++) {
		size_t n = strcspn(at, ",");

		if (i == context)
			return find_device(p, at, n);
		at += n + (at[n] == ',');
	}
	return -1;
}

static void find_devices_of_rows(struct gs_process_gpu *p)
{
	for (size_t i = 0; i < p->n_rows; i++) {
		struct gs_process_gpu_row *s = &p->rows[i].sums;

		if (s->device < 0)
			s->device = device_of(p, s->process, s->context);
	}
}

int gs_process_gpu_set_devices(struct gs_process_gpu *p,
			       const struct gs_process_gpu_device *devices, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int32_t at = find_device(p, devices[i].uuid, strlen(devices[i].uuid));

		if (at < 0 && p->n_devices == GS_PROCESS_GPU_DEVICES_MAX)
			return -E2BIG;
		if (at < 0)
			at = (int32_t)p->n_devices++;
		p->devices[at].is = devices[i];
	}
	/* A process may have come before its GPU. */
	find_devices_of_rows(p);
	return 0;
}

/* --- processes and rows --- */

int gs_process_gpu_begin(struct gs_process_gpu *p, uint32_t process, const char *uuids, bool late)
{
	char *copy;

	if (process >= GS_DICT_MAX_ID)
		return -ENOBUFS;
	if (!gs_vec_reach(&p->processes, &p->n_processes, process))
		return -ENOMEM;
	copy = strdup(uuids);
	if (!copy)
		return -ENOMEM;
	free(p->processes[process].uuids);
	p->processes[process].uuids = copy;
	/* Of one GPU alone the choice is known. */
	if (late && (!*uuids || strchr(uuids, ',')))
		gs_activity_begin_late(p->activity, process);
	return 0;
}

void gs_process_gpu_guess(struct gs_process_gpu *p, uint32_t process, const char *uuid)
{
	if (process >= p->n_processes)
		return;
	p->processes[process].guessed = find_device(p, uuid, strlen(uuid)) + 1;
	find_devices_of_rows(p);
}

void gs_process_gpu_end(struct gs_process_gpu *p, uint32_t process, uint64_t time_ns)
{
	gs_activity_end_process(p->activity, process, time_ns);
}

static struct process_row *find_row(struct gs_process_gpu *p, uint32_t process, uint32_t context)
{
	uint64_t key = (uint64_t)process << 32 | context, at;
	struct process_row *row;

	if (gs_map_get(&p->row_of, key, &at))
		return &p->rows[at];
	if (p->n_rows >= p->max_rows || !gs_vec_reserve(&p->rows, &p->cap_rows, p->n_rows + 1) ||
	    gs_map_put(&p->row_of, key, p->n_rows) < 0) {
		p->n_left_out++;
		return NULL;
	}
	row = &p->rows[p->n_rows++];
	*row = (struct process_row){.ratio = -1};
	row->sums.process = process;
	row->sums.context = context;
	row->sums.device = device_of(p, process, context);
	return row;
}

static struct device_row *device_row(struct gs_process_gpu *p, const struct process_row *row)
{
	return row->sums.device < 0 ? NULL : &p->devices[row->sums.device];
}

/* Work was pending in a stream. What is before the last tick was counted then. */
static void add_active(struct gs_process_gpu *p, struct process_row *row, uint64_t start_ns,
		       uint64_t end_ns, uint64_t kernel_threads)
{
	struct device_row *d = device_row(p, row);

	if (start_ns < p->tick_ns)
		start_ns = p->tick_ns;
	if (!d || end_ns <= start_ns)
		return;
	d->used = true;
	process_gpu_union_add(&d->active, start_ns, end_ns);
	if (kernel_threads > d->is.n_cores)
		kernel_threads = d->is.n_cores;
	row->window_core_s += (double)(end_ns - start_ns) / 1e9 * (double)kernel_threads;
}

static void take_span(void *ctx, const struct gs_activity_span *span)
{
	struct gs_process_gpu *p = ctx;
	struct process_row *row;

	if (span->kind != GS_ACTIVITY_SPAN_WORK)
		return;
	row = find_row(p, span->process, span->context);
	if (row)
		add_active(p, row, span->start_ns, span->end_ns,
			   span->work == GS_ACTIVITY_KERNELS ? span->threads : 0);
}

void gs_process_gpu_take(struct gs_process_gpu *p, const struct gs_activity_call *call)
{
	gs_activity_take(p->activity, call);
}

void gs_process_gpu_take_record(struct gs_process_gpu *p, uint32_t process,
				const struct gs_rec_call *record,
				struct gs_activity_function function)
{
	gs_activity_take_record(p->activity, process, record, function);
}

void gs_process_gpu_take_needs(struct gs_process_gpu *p, uint32_t process, uint32_t context,
			       const struct gs_process_gpu_launch *launch)
{
	struct process_row *row = find_row(p, process, context);
	const struct device_row *d = row ? device_row(p, row) : NULL;
	double ratio =
		d ? gs_process_gpu_resident_ratio(d->is.major, d->is.minor, d->is.n_sms, launch)
		  : -1;

	if (ratio < 0)
		return;
	row->ratio_sum += ratio;
	row->n_ratios++;
	row->sums.n_needs_known++;
}

/* --- ticks --- */

static void add_pending(struct gs_process_gpu *p, uint64_t now_ns)
{
	struct gs_activity_pending pending;

	for (size_t i = 0; i < p->n_rows; i++)
		p->rows[i].sums.n_pending = 0;
	for (uint32_t i = 0; i < gs_activity_count_streams(p->activity); i++) {
		struct process_row *row;

		if (!gs_activity_read_pending(p->activity, i, &pending))
			continue;
		row = find_row(p, pending.process, pending.context);
		if (!row)
			continue;
		row->sums.n_pending++;
		gs_activity_see_process(p->activity, pending.process, now_ns);
		add_active(p, row, pending.start_ns, now_ns, pending.threads);
	}
}

static void add_totals(struct gs_process_gpu_row *sums, const struct gs_activity_totals *t)
{
	sums->threads += t->threads;
	sums->n_waits += t->n_syncs;
	for (unsigned w = 0; w < GS_ACTIVITY_WORKS; w++) {
		sums->n[w] += t->n[w];
		sums->bytes[w] += t->bytes[w];
	}
}

/* What the engine has summed up itself, put together again: several contexts of one number are those of
 * programs that followed each other in one process. */
static void add_engine_sums(struct gs_process_gpu *p)
{
	struct gs_activity_context c;
	struct gs_activity_stream s;
	struct process_row *row;

	for (size_t i = 0; i < p->n_rows; i++) {
		struct gs_process_gpu_row *sums = &p->rows[i].sums;

		p->rows[i].before_ns = sums->active_max_ns;
		sums->threads = sums->wait_ns = sums->n_waits = 0;
		sums->active_max_ns = sums->active_min_ns = 0;
		memset(sums->n, 0, sizeof(sums->n));
		memset(sums->bytes, 0, sizeof(sums->bytes));
	}
	for (uint32_t i = 0; i < gs_activity_count_contexts(p->activity); i++) {
		gs_activity_read_context(p->activity, i, &c);
		row = c.first_ns || c.wait_ns ? find_row(p, c.process, c.context) : NULL;
		if (!row)
			continue;
		add_totals(&row->sums, &c.rest);
		row->sums.active_max_ns += c.busy_max_ns;
		row->sums.active_min_ns += c.busy_min_ns;
		row->sums.wait_ns += c.wait_ns;
		row->sums.n_waits += c.n_syncs;
	}
	for (uint32_t i = 0; i < gs_activity_count_streams(p->activity); i++) {
		if (!gs_activity_read_stream(p->activity, i, &s) ||
		    !(s.totals.first_ns || s.totals.n_syncs))
			continue;
		row = find_row(p, s.process, s.context);
		if (row)
			add_totals(&row->sums, &s.totals);
	}
}

/* Cores of the window, divided where all together used more than there are. */
static void settle_cores(struct gs_process_gpu *p, uint64_t window_ns)
{
	for (size_t i = 0; i < p->n_rows; i++) {
		struct device_row *d = device_row(p, &p->rows[i]);

		if (d)
			d->window_core_s += p->rows[i].window_core_s;
	}
	for (size_t i = 0; i < p->n_devices; i++) {
		struct device_row *d = &p->devices[i];
		double most = (double)d->is.n_cores * (double)window_ns / 1e9;

		d->total.core_factor =
			most > 0 && d->window_core_s > most ? d->window_core_s / most : 1;
		d->total.core_s += d->window_core_s;
		d->total.core_share_s += d->window_core_s / d->total.core_factor;
		d->window_core_s = 0;
	}
	for (size_t i = 0; i < p->n_rows; i++) {
		struct process_row *row = &p->rows[i];
		const struct device_row *d = device_row(p, row);

		row->sums.core_s += row->window_core_s;
		row->sums.core_share_s += d ? row->window_core_s / d->total.core_factor : 0;
		row->window_core_s = 0;
	}
}

/* Places filled in the window: by the launches in it, or by those that were known before. */
static void settle_places(struct process_row *row)
{
	/* A process that has ended since was over a little before the tick that saw its work. */
	if (row->sums.active_max_ns < row->before_ns)
		row->sums.active_max_ns = row->before_ns;
	if (row->n_ratios) {
		row->ratio = row->ratio_sum / (double)row->n_ratios;
		row->ratio_sum = 0;
		row->n_ratios = 0;
	}
	if (row->ratio >= 0)
		row->sums.place_s +=
			row->ratio * (double)(row->sums.active_max_ns - row->before_ns) / 1e9;
}

void gs_process_gpu_tick(struct gs_process_gpu *p, uint64_t now_ns)
{
	if (now_ns <= p->tick_ns)
		return;
	add_pending(p, now_ns);
	add_engine_sums(p);
	settle_cores(p, now_ns - p->tick_ns);
	for (size_t i = 0; i < p->n_rows; i++)
		settle_places(&p->rows[i]);
	for (size_t i = 0; i < p->n_devices; i++)
		p->devices[i].total.active_max_ns =
			process_gpu_union_seal(&p->devices[i].active, now_ns);
	p->tick_ns = now_ns;
}

/* --- reading --- */

size_t gs_process_gpu_count(const struct gs_process_gpu *p)
{
	return p->n_rows;
}

void gs_process_gpu_read(const struct gs_process_gpu *p, size_t index,
			 struct gs_process_gpu_row *ret)
{
	*ret = p->rows[index].sums;
}

int32_t gs_process_gpu_find_device(const struct gs_process_gpu *p, uint32_t process,
				   uint32_t context)
{
	return device_of(p, process, context);
}

size_t gs_process_gpu_devices(const struct gs_process_gpu *p)
{
	return p->n_devices;
}

const char *gs_process_gpu_device_uuid(const struct gs_process_gpu *p, int32_t device)
{
	return device >= 0 && (size_t)device < p->n_devices ? p->devices[device].is.uuid : "";
}

bool gs_process_gpu_read_total(const struct gs_process_gpu *p, size_t device,
			       struct gs_process_gpu_total *ret)
{
	if (device >= p->n_devices || !p->devices[device].used)
		return false;
	*ret = p->devices[device].total;
	return true;
}

const struct gs_activity *gs_process_gpu_activity(const struct gs_process_gpu *p)
{
	return p->activity;
}

uint64_t gs_process_gpu_left_out(const struct gs_process_gpu *p)
{
	return p->n_left_out;
}
