/*
 * The thread that reads. The caller asks for a snapshot and waits; when a call of the driver's
 * library does not come back the caller goes on without it, and the next request finds the worker
 * busy until the call ends (or for ever: then the worker is left behind when the reader closes).
 *
 *   caller:  want = READ ──► worker: start or mend the session, sample, result ──► caller
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sources/amdgpu/amdgpu.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

struct gs_gpu_worker {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* Under the lock. */
	bool want_read, busy, end, ended, abandoned;
	unsigned want_groups; /* of the reading that is wanted */
	double want_budget;
	bool want_released, released;
	bool want_topology;             /* asked for once: known from then on */
	struct gs_gpu_snapshot *result; /* owned; of the last request that came back */
	int result_r;
	uint8_t *topology; /* owned copy */
	unsigned n_topology;
	struct gs_nvml_cost call_cost[NVML_CALL_COUNT], part_cost[GS_GPU_PARTS]; /* copies */
	const char *part_way[GS_GPU_PARTS];
	uint64_t part_interval_ns[GS_GPU_PARTS];
	bool new_focus;
	struct gs_gpu_uuid *want_focus; /* owned */
	size_t n_want_focus;
	/* Both sides. */
	struct gs_gpu_watch watch;
	struct gs_gpu_events *events;
	/* The worker's. */
	struct gs_gpu_options options;
	struct gs_nvml nv;
	struct gs_amdgpu *amd;
	uint64_t next_amd_ns;
	uint64_t mends_since_ns; /* how often the session was opened again, and since when */
	unsigned n_mends;
};

#define SLOW_FIRST_NS 1000000000ull
#define SLOW_AGAIN_NS 10000000000ull
/* A driver that always says that something changed must not be opened again at each sample. */
#define MENDS_MAX   5
#define MENDS_IN_NS 10000000000ull

static void free_all(struct gs_gpu_worker *w)
{
	gs_gpu_events_unref(&w->events);
	gs_gpu_snapshot_free(&w->result);
	gs_amdgpu_free(&w->amd);
	free(w->topology);
	free(w->nv.focus);
	free(w->want_focus);
	free((char *)w->options.nvml_path);
	free((char *)w->options.sysfs_root);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static bool any_lost(const struct gs_nvml *nv)
{
	for (unsigned i = 0; i < nv->n_devices; i++)
		if (!nv->device[i].handle || nv->device[i].sample.lost)
			return true;
	return false;
}

/* Bring the session to where it should be: open it, or open it again when GPUs have changed. */
static void mend_session(struct gs_gpu_worker *w, uint64_t now_ns)
{
	struct gs_nvml *nv = &w->nv;

	if (nv->started && now_ns >= nv->next_layout_ns) {
		nv->next_layout_ns = now_ns + w->options.slow_ns;
		if (gs_nvml_layout_changed(nv))
			nv->changed = true;
	}
	if (now_ns - w->mends_since_ns > MENDS_IN_NS) {
		w->mends_since_ns = now_ns;
		w->n_mends = 0;
	}
	if (nv->started && nv->changed && w->n_mends++ >= MENDS_MAX) {
		nv->changed = false;
	} else if (nv->started && nv->changed) {
		gs_log(GS_LOG_INFO, GS_LOG_GPU,
		       "nvml: the GPUs have changed, opening the session again");
		gs_nvml_stop(nv, true);
		nv->retry_ns = 0;
	} else if (nv->started && any_lost(nv) && now_ns >= nv->retry_ns) {
		/* After a reset only a new session sees the GPU again. */
		gs_nvml_stop(nv, true);
	}
	gs_nvml_start(nv, now_ns);
	if (nv->started && !any_lost(nv) && nv->session_state == GS_GPU_STATE_OK)
		nv->retry_after_ns = nv->retry_ns = 0;
}

static void sample_nvidia(struct gs_gpu_worker *w, unsigned groups, struct gs_gpu_rows *rows)
{
	struct gs_nvml *nv = &w->nv;

	/* Twice when the first round finds that the table is out of date. */
	for (unsigned turn = 0; turn < 2; turn++) {
		uint64_t now_ns = gs_clock_mono_ns();

		mend_session(w, now_ns);
		rows->n = 0;
		if (!nv->started)
			return;
		gs_nvml_begin_sample(nv, groups, now_ns);
		for (unsigned i = 0; i < nv->n_devices && !nv->changed; i++) {
			if (groups & ~(unsigned)GS_GPU_READ_EVENTS && !nv->device[i].out_of_focus)
				gs_nvml_sample(nv, &nv->device[i], groups, gs_clock_mono_ns());
			if (groups & GS_GPU_READ_PROCESSES)
				gs_nvml_processes(nv, &nv->device[i], i, now_ns, rows);
		}
		if (!nv->changed)
			return;
	}
}

/* Asking every GPU for its links takes as long as several readings: only for who wants to know. */
static void find_topology(struct gs_gpu_worker *w)
{
	bool want;

	pthread_mutex_lock(&w->lock);
	want = w->want_topology;
	pthread_mutex_unlock(&w->lock);
	if (want && w->nv.started && !w->nv.topology)
		gs_nvml_topology(&w->nv);
}

static void keep_topology(struct gs_gpu_worker *w)
{
	unsigned n = w->nv.n_devices;
	uint8_t *copy;

	find_topology(w);
	copy = n && w->nv.topology ? malloc((size_t)n * n) : NULL;
	if (copy)
		memcpy(copy, w->nv.topology, (size_t)n * n);
	pthread_mutex_lock(&w->lock);
	free(w->topology);
	w->topology = copy;
	w->n_topology = copy ? n : 0;
	pthread_mutex_unlock(&w->lock);
}

static void keep_costs(struct gs_gpu_worker *w)
{
	const struct gs_nvml *nv = &w->nv;

	pthread_mutex_lock(&w->lock);
	memcpy(w->call_cost, nv->call_cost, sizeof(w->call_cost));
	memcpy(w->part_cost, nv->part_cost, sizeof(w->part_cost));
	for (unsigned i = 0; i < GS_GPU_PARTS; i++) {
		w->part_way[i] = nv->n_devices ? gs_nvml_part_method(&nv->device[0], i) : "";
		w->part_interval_ns[i] = 0;
		for (unsigned j = 0; j < nv->n_devices; j++)
			if (nv->device[j].part[i].interval_ns > w->part_interval_ns[i])
				w->part_interval_ns[i] = nv->device[j].part[i].interval_ns;
	}
	pthread_mutex_unlock(&w->lock);
}

struct amd_rows {
	struct gs_gpu_rows *rows;
	uint32_t first; /* the number of the first of AMD's GPUs */
};

static int add_amd_process(void *ctx, unsigned gpu, uint32_t pid, uint64_t bytes)
{
	struct amd_rows *to = ctx;
	struct gs_gpu_process *p = gs_gpu_rows_add(to->rows, to->first + gpu, pid);

	if (!p)
		return -ENOMEM;
	p->kind = GS_GPU_PROCESS_COMPUTE;
	p->used_bytes = (int64_t)bytes;
	return 0;
}

static int fill_rows(struct gs_gpu_worker *w, unsigned groups, bool released,
		     struct gs_gpu_snapshot *s, struct gs_gpu_rows *rows)
{
	struct gs_nvml *nv = &w->nv;
	unsigned n = nv->n_devices, n_amd = w->amd ? gs_amdgpu_count(w->amd) : 0;
	int r = 0;

	s->n_gpus = n + n_amd;
	if (s->n_gpus) {
		s->info = calloc(s->n_gpus, sizeof(*s->info));
		s->sample = calloc(s->n_gpus, sizeof(*s->sample));
		if (!s->info || !s->sample)
			return -ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		s->info[i] = nv->device[i].info;
		s->sample[i] = nv->device[i].sample;
		if (!nv->device[i].handle && !released)
			s->sample[i].lost = 1;
	}
	if (n_amd) {
		struct amd_rows to = {rows, n};

		gs_amdgpu_read(w->amd, groups & GS_GPU_READ_BASIC, groups & GS_GPU_READ_HEALTH,
			       s->info + n, s->sample + n);
		if (groups & GS_GPU_READ_PROCESSES)
			r = gs_amdgpu_processes(w->amd, add_amd_process, &to);
	}
	s->state = released ? GS_GPU_STATE_RELEASED : nv->session_state;
	memcpy(s->state_text, nv->text, sizeof(s->state_text));
	if (released)
		strcpy(s->state_text,
		       "the driver was released on request; values are the last known");
	/* A machine with GPUs of another vendor lacks nothing. */
	else if (n_amd && !n && s->state != GS_GPU_STATE_OK && !w->options.nvml_path) {
		s->state = GS_GPU_STATE_OK;
		s->state_text[0] = '\0';
	}
	return r;
}

static int by_gpu_then_memory(const void *a, const void *b)
{
	const struct gs_gpu_process *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->used_bytes != y->used_bytes)
		return x->used_bytes > y->used_bytes ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int read_all(struct gs_gpu_worker *w, unsigned groups, bool released,
		    struct gs_gpu_snapshot **ret)
{
	struct gs_gpu_snapshot *s = calloc(1, sizeof(*s));
	uint64_t start_ns = gs_clock_mono_ns();
	struct gs_gpu_rows rows = {0};
	int r;

	if (!s)
		return -ENOMEM;
	if (!released)
		sample_nvidia(w, groups, &rows);
	if (w->amd && start_ns >= w->next_amd_ns) {
		gs_amdgpu_rescan(w->amd);
		w->next_amd_ns = start_ns + w->options.slow_ns;
	}
	r = fill_rows(w, groups, released, s, &rows);
	keep_topology(w);
	keep_costs(w);
	if (rows.n)
		qsort(rows.item, rows.n, sizeof(*rows.item), by_gpu_then_memory);
	s->process = rows.item;
	s->n_processes = rows.n;
	s->time_ns = gs_clock_boot_ns();
	s->wall_ns = (int64_t)gs_clock_wall_ns();
	s->read_ns = gs_clock_mono_ns() - start_ns;
	if (r < 0)
		gs_gpu_snapshot_free(&s);
	*ret = s;
	return r;
}

/* With the lock. */
static void take_focus(struct gs_gpu_worker *w)
{
	if (!w->new_focus)
		return;
	free(w->nv.focus);
	w->nv.focus = gs_take(w->want_focus);
	w->nv.n_focus = w->n_want_focus;
	w->new_focus = false;
}

static void *run_worker(void *arg)
{
	struct gs_gpu_worker *w = arg;
	bool abandoned;

	pthread_mutex_lock(&w->lock);
	while (!w->end) {
		struct gs_gpu_snapshot *s = NULL;
		bool read, release;
		unsigned groups;
		int r = 0;

		if (!w->want_read && w->want_released == w->released) {
			pthread_cond_wait(&w->cond, &w->lock);
			continue;
		}
		read = w->want_read;
		groups = w->want_groups;
		w->options.budget = w->want_budget;
		take_focus(w);
		release = w->want_released;
		w->want_read = false;
		w->busy = true;
		pthread_mutex_unlock(&w->lock);
		if (release && !w->released)
			gs_nvml_stop(&w->nv, true);
		if (!release && w->released)
			w->nv.retry_ns = 0;
		if (read)
			r = read_all(w, groups, release, &s);
		pthread_mutex_lock(&w->lock);
		w->released = release;
		if (read) {
			gs_gpu_snapshot_free(&w->result);
			w->result = s;
			w->result_r = r;
		}
		w->busy = false;
		pthread_cond_broadcast(&w->cond);
	}
	pthread_mutex_unlock(&w->lock);
	gs_nvml_fini(&w->nv);
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	abandoned = w->abandoned;
	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
	if (abandoned)
		free_all(w);
	return NULL;
}

/* With the lock: wait for the condition, or until a call hangs; true: it hangs. */
static bool wait_or_hang(struct gs_gpu_worker *w, uint64_t since_ns)
{
	uint64_t hang_ns = w->options.hang_ns, now = gs_clock_mono_ns();
	uint64_t call_ns = atomic_load(&w->watch.call_since_ns);
	uint64_t slice_ns = hang_ns / 16 < 100000000 ? hang_ns / 16 + 1 : 100000000;
	struct timespec until;

	if ((call_ns && now > call_ns && now - call_ns > hang_ns) || now - since_ns > 4 * hang_ns)
		return true;
	now += slice_ns;
	until.tv_sec = (time_t)(now / 1000000000);
	until.tv_nsec = (long)(now % 1000000000);
	pthread_cond_timedwait(&w->cond, &w->lock, &until);
	return false;
}

void gs_gpu_worker_waits_for(const struct gs_gpu_worker *w, uint64_t since_ns, char *text,
			     size_t room)
{
	uint64_t call_ns = atomic_load(&w->watch.call_since_ns), now_ns = gs_clock_mono_ns();
	const char *name = gs_nvml_call_name(atomic_load(&w->watch.call));

	if (call_ns && now_ns > call_ns && call_ns <= since_ns + (now_ns - since_ns) / 2)
		snprintf(text, room, "%s has not returned for %.1f s", name,
			 (double)(now_ns - call_ns) / 1e9);
	else
		snprintf(text, room, "it answers slowly: %.1f s so far, the last call is %s",
			 (double)(now_ns - since_ns) / 1e9, name);
}

/* Without the lock, when it is time: say what a reading waits for, after a second and each ten
 * seconds from then on.
 */
static void report_slow(struct gs_gpu_worker *w, uint64_t since_ns, uint64_t *next_ns)
{
	char text[160];

	*next_ns += SLOW_AGAIN_NS;
	gs_gpu_worker_waits_for(w, since_ns, text, sizeof(text));
	w->options.on_slow(w->options.on_slow_ctx, text);
}

void gs_gpu_worker_set_budget(struct gs_gpu_worker *w, double budget)
{
	pthread_mutex_lock(&w->lock);
	w->want_budget = budget;
	pthread_mutex_unlock(&w->lock);
}

int gs_gpu_worker_set_focus(struct gs_gpu_worker *w, const struct gs_gpu_uuid *uuids, size_t n)
{
	struct gs_gpu_uuid *copy = uuids ? calloc(n + 1, sizeof(*copy)) : NULL;

	if (uuids && !copy)
		return -ENOMEM;
	if (n)
		memcpy(copy, uuids, n * sizeof(*copy));
	pthread_mutex_lock(&w->lock);
	free(w->want_focus);
	w->want_focus = copy;
	w->n_want_focus = n;
	w->new_focus = true;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* The same for who wants to hear that it lasts. */
static bool wait_for_answer(struct gs_gpu_worker *w, uint64_t since_ns, uint64_t *slow_ns)
{
	/* First: who was stopped for long hears it too before the driver is said to hang. */
	if (w->options.on_slow && gs_clock_mono_ns() >= *slow_ns) {
		pthread_mutex_unlock(&w->lock);
		report_slow(w, since_ns, slow_ns);
		pthread_mutex_lock(&w->lock);
		if (!w->busy && !w->want_read)
			return false;
	}
	return wait_or_hang(w, since_ns);
}

int gs_gpu_worker_read(struct gs_gpu_worker *w, unsigned groups, struct gs_gpu_snapshot **ret)
{
	uint64_t since_ns = gs_clock_mono_ns(), slow_ns = since_ns + SLOW_FIRST_NS;
	int r;

	pthread_mutex_lock(&w->lock);
	while (w->busy || w->want_read)
		if (wait_for_answer(w, since_ns, &slow_ns))
			goto hung;
	gs_gpu_snapshot_free(&w->result);
	w->want_read = true;
	w->want_groups = groups & w->options.groups;
	pthread_cond_broadcast(&w->cond);
	while (w->busy || w->want_read)
		if (wait_for_answer(w, since_ns, &slow_ns))
			goto hung;
	*ret = gs_take(w->result);
	r = w->result_r;
	pthread_mutex_unlock(&w->lock);
	return r;
hung:
	pthread_mutex_unlock(&w->lock);
	return -ETIMEDOUT;
}

int gs_gpu_worker_release(struct gs_gpu_worker *w, bool release)
{
	uint64_t since_ns = gs_clock_mono_ns();
	int r = 0;

	pthread_mutex_lock(&w->lock);
	w->want_released = release;
	pthread_cond_broadcast(&w->cond);
	/* The caller may act on a GPU that is released only when it is. */
	while (r == 0 && (w->released != w->want_released || w->busy))
		if (wait_or_hang(w, since_ns))
			r = -ETIMEDOUT;
	pthread_mutex_unlock(&w->lock);
	return r;
}

struct gs_gpu_events *gs_gpu_worker_events(struct gs_gpu_worker *w)
{
	return w->events;
}

uint64_t gs_gpu_worker_failed_calls(const struct gs_gpu_worker *w)
{
	return atomic_load(&w->watch.failed_calls);
}

bool gs_gpu_worker_accounting_off(const struct gs_gpu_worker *w)
{
	return atomic_load(&w->watch.accounting_off);
}

size_t gs_gpu_worker_costs(struct gs_gpu_worker *w, enum gs_gpu_cost_by by, struct gs_gpu_cost *ret,
			   size_t room)
{
	unsigned max = by == GS_GPU_COST_BY_CALL ? NVML_CALL_COUNT : GS_GPU_PARTS;
	size_t n = 0;

	pthread_mutex_lock(&w->lock);
	for (unsigned i = 0; i < max && n < room; i++) {
		const struct gs_nvml_cost *c =
			by == GS_GPU_COST_BY_CALL ? &w->call_cost[i] : &w->part_cost[i];

		if (!c->n)
			continue;
		ret[n] = (struct gs_gpu_cost){.name = gs_gpu_part_name(i),
					      .way = "",
					      .n = c->n,
					      .wall_ns = c->wall_ns,
					      .cpu_ns = c->cpu_ns};
		if (by == GS_GPU_COST_BY_CALL) {
			ret[n].name = gs_nvml_call_name(i);
		} else {
			ret[n].way = w->part_way[i];
			ret[n].interval_ns = w->part_interval_ns[i];
		}
		n++;
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

const char *gs_gpu_worker_topology(struct gs_gpu_worker *w, uint32_t a, uint32_t b)
{
	const char *name = "";
	struct gs_gpu_snapshot *s;
	bool first;

	pthread_mutex_lock(&w->lock);
	first = !w->want_topology;
	w->want_topology = true;
	pthread_mutex_unlock(&w->lock);
	/* A reading of nothing, for what goes with each. */
	if (first && gs_gpu_worker_read(w, 0, &s) == 0)
		gs_gpu_snapshot_free(&s);
	pthread_mutex_lock(&w->lock);
	if (a < w->n_topology && b < w->n_topology)
		name = gs_nvml_topology_names[w->topology[a * w->n_topology + b]];
	pthread_mutex_unlock(&w->lock);
	return name;
}

int gs_gpu_worker_new(const struct gs_gpu_options *options, struct gs_gpu_worker **ret,
		      struct gs_err *err)
{
	struct gs_gpu_worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	pthread_attr_t detached;
	pthread_t thread;
	int r;

	if (!w)
		return -ENOMEM;
	w->options = *options;
	w->want_budget = options->budget;
	w->options.nvml_path = options->nvml_path ? strdup(options->nvml_path) : NULL;
	w->options.sysfs_root = strdup(options->sysfs_root);
	w->options.proc_root = w->options.kmsg_path = NULL; /* the caller's side */
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &attr);
	pthread_condattr_destroy(&attr);
	w->events = gs_gpu_events_new();
	w->amd = w->options.sysfs_root ? gs_amdgpu_new(w->options.sysfs_root) : NULL;
	w->nv = (struct gs_nvml){.options = &w->options, .watch = &w->watch, .events = w->events};
	if (!w->events || !w->amd || (options->nvml_path && !w->options.nvml_path)) {
		free_all(w);
		return -ENOMEM;
	}
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &detached, run_worker, w);
	pthread_attr_destroy(&detached);
	if (r != 0) {
		free_all(w);
		return gs_err_set(err, -r, "cannot start the thread that reads GPUs: %s",
				  strerror(r));
	}
	*ret = w;
	return 0;
}

void gs_gpu_worker_free(struct gs_gpu_worker **ref)
{
	struct gs_gpu_worker *w = *ref;
	uint64_t since_ns = gs_clock_mono_ns();
	bool ended;

	*ref = NULL;
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->end = true;
	pthread_cond_broadcast(&w->cond);
	while (!w->ended)
		if (wait_or_hang(w, since_ns))
			break;
	ended = w->ended;
	w->abandoned = !ended;
	pthread_mutex_unlock(&w->lock);
	if (ended)
		free_all(w);
}
