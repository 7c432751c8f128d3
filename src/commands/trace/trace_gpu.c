#include "commands/trace/trace_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands/trace/trace.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/node/record.h"
#include "sources/gpu/gpu.h"

/* NVIDIA asks for 100 ms between two readings of performance metrics (nvmlGpmSampleGet, nvml.h of CUDA
 * 12.4), and each GPU that is read adds its calls. */
#define INTERVAL_NS      100000000ull
#define INTERVAL_MORE_NS 50000000ull /* for each further GPU */
#define INTERVAL_MAX_NS  1000000000ull
/* Of one processor's time, for NVIDIA's library: what costs more is read less often. */
#define BUDGET       0.005
#define OLDEST_NS    2000000000ull
#define HANG_NS      1000000000ull
#define RECORD_MAX   (4u << 20)    /* of one moment */
#define ALL_AFTER_NS 2000000000ull /* of CUDA calls by processes that no GPU has by their numbers */
#define HELD_MAX     64
#define GROUPS       (GS_GPU_READ_BASIC | GS_GPU_READ_PROCESSES | GS_GPU_READ_GPM | GS_GPU_READ_EVENTS)
/* What no track shows. */
#define NOT_SHOWN                                                                                  \
	(1ull << GS_GPU_PART_CLOCKS_MORE | 1ull << GS_GPU_PART_FAN | 1ull << GS_GPU_PART_PCIE |    \
	 1ull << GS_GPU_PART_ENGINES | 1ull << GS_GPU_PART_THROTTLE | 1ull << GS_GPU_PART_ENERGY)

struct trace_gpu {
	const struct trace_options *options;
	struct trace_output *output;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool stop; /* under the lock */
	/* The thread's: */
	struct gs_gpu *gpu;
	struct gs_buf records;
	struct gs_gpu_uuid *used; /* owned; GPUs that a traced process had */
	uint32_t n_used, cap_used;
	bool takes_all;          /* it is not known which GPUs are used: all are recorded */
	uint64_t calls_since_ns; /* when CUDA calls were seen first; 0 none yet */
	struct gs_gpu_event
		held[HELD_MAX]; /* events that came before there was a sample to record */
	uint32_t n_held;
	uint64_t n_samples; /* that were recorded */
	uint64_t cpu_ns, start_ns;
	uint32_t n_gpus; /* that are read */
	uint32_t state;  /* enum gs_gpu_state of the last reading */
	char host[GS_HOST_NAME_BYTES];
};

/* --- which GPUs --- */

static bool is_used(const struct trace_gpu *g, const char *uuid)
{
	for (uint32_t i = 0; i < g->n_used; i++)
		if (strcmp(g->used[i].text, uuid) == 0)
			return true;
	return false;
}

static void note_used(struct trace_gpu *g, const struct gs_gpu_info *info)
{
	if (is_used(g, info->uuid) || !gs_vec_reserve(&g->used, &g->cap_used, g->n_used + 1))
		return;
	memcpy(g->used[g->n_used++].text, info->uuid, sizeof(info->uuid));
	g->takes_all = false;
	(void)gs_gpu_set_focus(g->gpu, g->used, g->n_used);
}

static bool is_traced(const struct trace_gpu *g, uint32_t pid)
{
	const struct trace_options *o = g->options;

	for (size_t i = 0; i < o->n_pids; i++)
		if ((uint32_t)o->pids[i] == pid)
			return true;
	return o->all || trace_output_has_process(g->output, pid);
}

/* Marks those that traced processes have; others' processes lose their names, which are not of
 * this trace. */
static void mark_traced_processes(struct trace_gpu *g, struct gs_gpu_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_processes; i++) {
		struct gs_gpu_process *p = &s->process[i];

		if (p->gpu >= s->n_gpus)
			continue;
		if (is_traced(g, p->pid)) {
			note_used(g, &s->info[p->gpu]);
			continue;
		}
		p->comm[0] = p->user[0] = p->container[0] = p->cmdline[0] = '\0';
		p->uid = UINT32_MAX;
	}
}

/* In a container the driver may know its processes by other numbers. Where a while after the first CUDA
 * calls no GPU has a traced process, all GPUs are taken. */
static void check_calls(struct trace_gpu *g)
{
	struct trace_progress progress;

	if (g->takes_all || g->n_used)
		return;
	trace_output_progress(g->output, &progress);
	if (!progress.calls[GS_LAYER_CUDA_RUNTIME] && !progress.calls[GS_LAYER_CUDA_DRIVER])
		return;
	if (!g->calls_since_ns)
		g->calls_since_ns = gs_clock_mono_ns();
	if (gs_clock_mono_ns() - g->calls_since_ns < ALL_AFTER_NS)
		return;
	g->takes_all = true;
	(void)gs_gpu_set_focus(g->gpu, NULL, 0);
	gs_log(GS_LOG_INFO, GS_LOG_GPU,
	       "the driver lists no traced process on a GPU: all %u GPUs are recorded", g->n_gpus);
}

static int keep_used(struct trace_gpu *g, struct gs_gpu_snapshot *s)
{
	GS_FREE bool *keep = calloc(s->n_gpus + 1, sizeof(*keep));

	if (!keep)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_gpus; i++)
		keep[i] = g->takes_all || is_used(g, s->info[i].uuid);
	gs_gpu_snapshot_keep(s, keep);
	return 0;
}

/* --- samples --- */

static void record_snapshot(struct trace_gpu *g, struct gs_gpu_snapshot *s)
{
	/* Nothing was asked of the machine itself. */
	struct gs_host_snapshot host = {.sample = gs_host_sample_unknown};
	struct gs_node_snapshot node = {
		.time_ns = s->time_ns, .wall_ns = s->wall_ns, .gpu = s, .host = &host};

	memcpy(node.name, g->host, sizeof(node.name));
	gs_buf_reset(&g->records);
	if (gs_node_encode(&g->records, &node) < 0)
		return;
	trace_output_records(g->output, g->records.data, g->records.bytes);
	g->n_samples++;
}

/* Events come once: those that come with no sample to record go with the next one. */
static void hold_events(struct trace_gpu *g, const struct gs_gpu_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_events && g->n_held < HELD_MAX; i++)
		g->held[g->n_held++] = s->event[i];
}

static void add_held(struct trace_gpu *g, struct gs_gpu_snapshot *s)
{
	uint32_t capacity = s->n_events;

	if (!g->n_held || !gs_vec_reserve(&s->event, &capacity, s->n_events + g->n_held))
		return;
	memcpy(s->event + s->n_events, g->held, g->n_held * sizeof(*g->held));
	s->n_events += g->n_held;
	g->n_held = 0;
}

/* False: no GPU will come. */
static bool take_sample(struct trace_gpu *g)
{
	GS_CLEANUP(gs_gpu_snapshot_free) struct gs_gpu_snapshot *s = NULL;

	if (gs_gpu_read_groups(g->gpu, GROUPS, &s) < 0)
		return true;
	if (s->state != g->state)
		gs_log(GS_LOG_INFO, GS_LOG_GPU, "GPUs: %s %s", gs_gpu_state_name(s->state),
		       s->state_text);
	g->state = s->state;
	g->n_gpus = s->n_gpus;
	if (!s->n_gpus)
		return s->state != GS_GPU_STATE_NO_LIBRARY && s->state != GS_GPU_STATE_NO_DRIVER &&
		       s->state != GS_GPU_STATE_NO_GPU;
	mark_traced_processes(g, s);
	check_calls(g);
	if (keep_used(g, s) < 0 || !s->n_gpus) {
		hold_events(g, s);
		return true;
	}
	g->n_gpus = s->n_gpus;
	add_held(g, s);
	record_snapshot(g, s);
	return true;
}

/* With the lock: until it is time for the next sample, or the end. */
static void wait_for_turn(struct trace_gpu *g, uint64_t last_ns)
{
	uint64_t interval_ns = INTERVAL_NS + (g->n_gpus ? g->n_gpus - 1 : 0) * INTERVAL_MORE_NS;
	uint64_t due_ns = last_ns + (interval_ns < INTERVAL_MAX_NS ? interval_ns : INTERVAL_MAX_NS);
	struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000),
				 .tv_nsec = (long)(due_ns % 1000000000)};

	while (!g->stop && gs_clock_mono_ns() < due_ns)
		pthread_cond_timedwait(&g->cond, &g->lock, &until);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *sample_gpus(void *ctx)
{
	struct trace_gpu *g = ctx;
	bool go_on = true;

	pthread_mutex_lock(&g->lock);
	while (!g->stop && go_on) {
		uint64_t now_ns = gs_clock_mono_ns();

		pthread_mutex_unlock(&g->lock);
		go_on = take_sample(g);
		pthread_mutex_lock(&g->lock);
		wait_for_turn(g, now_ns);
	}
	pthread_mutex_unlock(&g->lock);
	/* How it was at the end, all of it. */
	gs_gpu_set_budget(g->gpu, 0);
	if (go_on && g->state == GS_GPU_STATE_OK)
		(void)take_sample(g);
	g->cpu_ns = own_cpu_ns();
	return NULL;
}

/* --- life --- */

static void free_gpu(struct trace_gpu **ref)
{
	struct trace_gpu *g = *ref;

	if (!g)
		return;
	gs_gpu_close(&g->gpu);
	gs_buf_fini(&g->records);
	free(g->used);
	pthread_cond_destroy(&g->cond);
	pthread_mutex_destroy(&g->lock);
	gs_free_p(ref);
}

int trace_gpu_start(const struct trace_options *options, struct trace_output *output,
		    struct trace_gpu **ret_gpu, struct gs_err *err)
{
	struct gs_gpu_options go = {.size = sizeof(go),
				    .groups = GROUPS,
				    .nvml_path = options->nvml,
				    .nvml_option = "--nvml PATH",
				    .hang_ns = HANG_NS,
				    .leave_out = NOT_SHOWN,
				    .budget = BUDGET,
				    .oldest_ns = OLDEST_NS};
	pthread_condattr_t attr;
	struct trace_gpu *g;
	int r;

	/* Samples stand beside calls that come one by one. */
	if (options->no_gpu || options->summary_only)
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return gs_err_set(err, -ENOMEM, "no memory");
	g->options = options;
	g->output = output;
	g->state = GS_GPU_STATE_OK;
	g->records = GS_BUF_INIT(RECORD_MAX);
	g->start_ns = gs_clock_mono_ns();
	if (gethostname(g->host, sizeof(g->host) - 1) < 0)
		g->host[0] = '\0';
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->cond, &attr);
	pthread_condattr_destroy(&attr);
	r = gs_gpu_open(&go, &g->gpu, err);
	if (r == 0)
		r = gs_gpu_set_focus(g->gpu, &(struct gs_gpu_uuid){""}, 0);
	if (r == 0)
		r = -pthread_create(&g->thread, NULL, sample_gpus, g);
	if (r < 0)
		free_gpu(&g);
	else
		*ret_gpu = g;
	return r;
}

static void log_cost(struct trace_gpu *g)
{
	struct gs_gpu_cost costs[GS_GPU_COSTS_MAX];
	size_t n = gs_gpu_costs(g->gpu, GS_GPU_COST_BY_PART, costs, GS_ARRAY_LEN(costs));
	uint64_t driver_ns = 0, wall_ns = gs_clock_mono_ns() - g->start_ns;
	char driver[GS_FMT_BYTES], own[GS_FMT_BYTES];

	for (size_t i = 0; i < n; i++)
		driver_ns += costs[i].cpu_ns;
	if (!g->n_samples && !driver_ns)
		return;
	gs_log(GS_LOG_INFO, GS_LOG_COST,
	       "%llu samples of GPUs: %s of processor time in the driver's library, %s here: %.2f %% of one processor, in threads of their own",
	       (unsigned long long)g->n_samples, gs_fmt_ns(driver, driver_ns),
	       gs_fmt_ns(own, g->cpu_ns),
	       wall_ns ? 100.0 * (double)(driver_ns + g->cpu_ns) / (double)wall_ns : 0);
}

void trace_gpu_stop(struct trace_gpu **gpu)
{
	struct trace_gpu *g = *gpu;

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	pthread_cond_broadcast(&g->cond);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	log_cost(g);
	free_gpu(gpu);
}
