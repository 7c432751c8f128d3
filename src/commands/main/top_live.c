/*
 * This machine as a source of moments. One thread reads (a call to a driver may take its time) and
 * puts moments into a short queue; the screen takes them and never waits for a driver.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <time.h>

#include "analysis/job_accounting/accounting.h"
#include "core/base/clock.h"
#include "commands/common/cli.h"
#include "commands/main/top.h"
#include "sources/gpu/gpu.h"
#include "sources/host/host.h"
#include "pipeline/recording/recording.h"
#include "sources/gpu/select.h"
#include "model/node/record.h"
#include "sources/sampler/sampler.h"

#define QUEUE_MAX     16 /* samples that wait; then the oldest is given up */
#define HANG_NS       2000000000ull
#define FIRST_NS      250000000ull /* the second reading comes early: rates need two */
#define RECORD_MAX    (64u << 20)  /* of one sample */
#define SYNC_EVERY_MS 5000
#define BUDGET        0.005 /* of a processor, for NVIDIA's library at a reading a second */

/* What no screen shows, and only recordings hold. */
#define NOT_SHOWN                                                                                  \
	(1ull << GS_GPU_PART_ENERGY | 1ull << GS_GPU_PART_THROTTLE | 1ull << GS_GPU_PART_BAR1 |    \
	 1ull << GS_GPU_PART_CLOCKS_MORE | 1ull << GS_GPU_PART_C2C)
/* What stands on the first screen; the rest comes with the next reading. */
#define FIRST_GROUPS                                                                               \
	(GS_GPU_READ_BASIC | GS_GPU_READ_PROCESSES | GS_GPU_READ_GPM | GS_GPU_READ_EVENTS)

#define JOBS_LINGER_NS 30000000000ull /* one that ended is shown for so long */

struct top_live {
	const struct top_options *options;
	struct gs_gpu *gpu;
	struct gs_sampler *sampler;    /* of the thread that reads */
	struct gs_host *ui_host;       /* of the screen: signals, environments */
	struct gs_accounting *account; /* of the thread that reads; NULL: jobs are not shown */
	struct top_findings *findings; /* owned */
	struct top_traffic *traffic;   /* owned */
	char name[GS_HOST_NAME_BYTES];

	struct gs_recording *journal; /* NULL: nothing is recorded */
	struct gs_buf records;
	uint64_t missed; /* readings that did not take place because those before took too long */
	bool known;      /* the GPUs that were asked for have been seen */

	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop, again; /* again: read at once */
	uint64_t interval_ns;
	struct gs_node_snapshot *queue[QUEUE_MAX];
	size_t n_queue;
	int error; /* of the thread; it has ended */
	struct gs_err error_text;
	int event_fd;
	_Atomic bool all, wants_jobs;
};

int top_select(const struct top_options *o, bool *known, struct gs_node_snapshot *node,
	       struct gs_err *err)
{
	int r = o->gpus ? gs_gpu_select(node->gpu, o->gpus, err) : 0;

	if (r == 0)
		*known = true;
	/* One that went away, or is not there yet, is no mistake of the user. */
	return *known || node->gpu->state != GS_GPU_STATE_OK ? 0 : r;
}

/* --- recording --- */

static int put_begin(struct top_live *l)
{
	struct utsname kernel;
	struct gs_recording_samples about = {.start_ns = gs_clock_boot_ns(),
					     .wall_minus_boot_ns = gs_clock_wall_minus_boot_ns(),
					     .host = l->name,
					     .command = "gpuscope top",
					     .kernel = kernel.release};

	if (uname(&kernel) < 0)
		kernel.release[0] = '\0';
	return gs_recording_put_samples_begin(&l->records, &about);
}

static int push_sample(struct top_live *l)
{
	const struct gs_sink *sink = gs_recording_sink(l->journal);
	struct gs_batch batch = {l->records.data, l->records.bytes};
	int r = sink->push(sink->ctx, &batch);

	gs_buf_reset(&l->records);
	return r;
}

static int record_sample(struct top_live *l, const struct gs_node_snapshot *node,
			 struct gs_err *err)
{
	int r = gs_node_encode(&l->records, node);

	if (r == 0)
		r = push_sample(l);
	if (r < 0)
		gs_err_set(err, r, "cannot write %s: %s", l->options->record, strerror(-r));
	return r;
}

static int open_record(struct top_live *l, struct gs_err *err)
{
	struct gs_recording_options jo = {.size = sizeof(jo),
					  .sync_every_ms = SYNC_EVERY_MS,
					  .is_private = geteuid() == 0}; /* it sees all users */
	int r = gs_recording_create(l->options->record, &jo, &l->journal, err);

	if (r == 0)
		r = put_begin(l);
	if (r == 0)
		r = push_sample(l);
	return r;
}

static int close_record(struct top_live *l, struct gs_err *err)
{
	int r, e;

	if (!l->journal)
		return 0;
	e = gs_recording_put_samples_end(&l->records, gs_clock_boot_ns());
	if (e == 0)
		e = push_sample(l);
	r = gs_recording_close(&l->journal, err);
	return r < 0 ? r : e;
}

/* --- reading --- */

/* What the jobs do, as long as they are shown: nothing is counted otherwise. */
static int read_jobs(struct top_live *l, struct gs_node_snapshot *n, struct gs_err *err)
{
	const struct gs_accounting_options o = {
		.size = sizeof(o),
		.kinds = UINT32_MAX,
		.probes = true,
		.ask = true,
		.linger_ns = JOBS_LINGER_NS,
	};
	int r = 0;

	if (!l->wants_jobs) {
		gs_accounting_free(&l->account);
		return 0;
	}
	if (!l->account)
		r = gs_accounting_new(&o, &l->account, err);
	return r < 0 ? r
		     : gs_accounting_read(l->account,
					  n->gpu->state == GS_GPU_STATE_OK ? n->gpu : NULL,
					  &n->jobs, err);
}

/* Machine and processes beside what GPUs said. */
static int read_host(struct top_live *l, struct gs_node_snapshot *n)
{
	/* Without GPUs there is still the machine to look at. */
	const bool all =
		l->all || n->gpu->state == GS_GPU_STATE_NO_LIBRARY ||
		n->gpu->state == GS_GPU_STATE_NO_DRIVER || n->gpu->state == GS_GPU_STATE_NO_GPU ||
		n->gpu->state == GS_GPU_STATE_FAILED || n->gpu->state == GS_GPU_STATE_READING;

	/* Who they are takes longer than what they do: not before the first screen. */
	return gs_sampler_fill(l->sampler, all, n->gpu->state != GS_GPU_STATE_READING, n);
}

static int read_node(struct top_live *l, bool quick, struct gs_node_snapshot *n, struct gs_err *err)
{
	int r = gs_gpu_read_groups(l->gpu, quick ? FIRST_GROUPS : GS_GPU_READ_ALL, &n->gpu);

	if (r == 0) {
		n->gpu->missed_samples += l->missed;
		r = top_select(l->options, &l->known, n, err);
	}
	if (r == 0)
		r = read_host(l, n);
	if (r == 0)
		r = read_jobs(l, n, err);
	return r == 0 && l->journal ? record_sample(l, n, err) : r;
}

/* What is there before NVIDIA's library has started. */
static int read_early(struct top_live *l, struct gs_node_snapshot **ret)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	int r = -ENOMEM;

	if (n)
		n->gpu = calloc(1, sizeof(*n->gpu));
	if (n && n->gpu) {
		n->gpu->state = GS_GPU_STATE_READING;
		n->gpu->time_ns = gs_clock_boot_ns();
		n->gpu->wall_ns = (int64_t)gs_clock_wall_ns();
		strcpy(n->gpu->state_text, "reading GPUs ...");
		r = read_host(l, n);
	}
	if (r < 0)
		gs_node_snapshot_free(&n);
	else
		*ret = n;
	return r;
}

static int read_now(struct top_live *l, bool quick, struct gs_node_snapshot **ret,
		    struct gs_err *err)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	int r = n ? read_node(l, quick, n, err) : -ENOMEM;

	if (r < 0)
		gs_node_snapshot_free(&n);
	else
		*ret = n;
	return r;
}

int top_live_read(struct top_live *l, struct gs_node_snapshot **ret, struct gs_err *err)
{
	int r = read_now(l, false, ret, err);

	if (r == 0) {
		top_findings_take(l->findings, *ret);
		gs_node_snapshot_keep(*ret, &l->options->choice);
	}
	return r;
}

int top_live_new(const struct top_options *options, struct top_live **ret, struct gs_err *err)
{
	struct gs_gpu_options go = {.size = sizeof(go),
				    .nvml_path = options->nvml,
				    .nvml_option = "--nvml PATH",
				    .hang_ns = HANG_NS,
				    .leave_out = 1ull << GS_GPU_PART_LINK_EACH |
						 (options->record ? 0 : NOT_SHOWN),
				    .budget = BUDGET * (options->interval_ns < 1000000000ull
								? 1e9 / (double)options->interval_ns
								: 1)};
	struct top_live *l = calloc(1, sizeof(*l));
	struct gs_err ignored;
	int r;

	if (!l)
		return gs_err_set(err, -ENOMEM, "no memory");
	l->options = options;
	l->interval_ns = options->interval_ns;
	l->all = options->tui.all;
	l->wants_jobs = options->tui.jobs;
	l->event_fd = -1;
	l->records = GS_BUF_INIT(RECORD_MAX);
	pthread_mutex_init(&l->lock, NULL);
	if (gethostname(l->name, sizeof(l->name) - 1) < 0)
		l->name[0] = '\0';
	r = gs_sampler_new(&l->sampler, err);
	if (r == 0 && top_findings_new(true, &l->findings) < 0)
		r = gs_err_set(err, -ENOMEM, "no memory");
	if (r == 0 && top_traffic_new(&l->traffic) < 0)
		r = gs_err_set(err, -ENOMEM, "no memory");
	if (r == 0)
		r = gs_host_open("/proc", &l->ui_host, err);
	if (r == 0)
		r = gs_gpu_open(&go, &l->gpu, err);
	if (r == 0 && options->record)
		r = open_record(l, err);
	if (r < 0)
		top_live_close(&l, &ignored);
	else
		*ret = l;
	return r;
}

/* --- the thread --- */

static void add_ns(struct timespec *t, uint64_t ns)
{
	ns += (uint64_t)t->tv_nsec;
	t->tv_sec += (time_t)(ns / 1000000000ull);
	t->tv_nsec = (long)(ns % 1000000000ull);
}

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000ull + (uint64_t)t->tv_nsec;
}

static void hand_over(struct top_live *l, struct gs_node_snapshot *n)
{
	uint64_t one = 1;

	if (l->n_queue == QUEUE_MAX) {
		gs_node_snapshot_free(&l->queue[0]);
		memmove(l->queue, l->queue + 1, (QUEUE_MAX - 1) * sizeof(l->queue[0]));
		l->n_queue--;
	}
	l->queue[l->n_queue++] = n;
	if (write(l->event_fd, &one, sizeof(one)) < 0)
		return; /* the counter is at its maximum: it is readable anyway */
}

static void *read_on(void *arg)
{
	struct top_live *l = arg;
	struct timespec due;
	bool first = true;
	struct gs_node_snapshot *early = NULL;

	clock_gettime(CLOCK_MONOTONIC, &due);
	if (read_early(l, &early) == 0) {
		gs_node_snapshot_keep(early, &l->options->choice);
		pthread_mutex_lock(&l->lock);
		hand_over(l, early);
		pthread_mutex_unlock(&l->lock);
	}
	pthread_mutex_lock(&l->lock);
	while (!l->stop && !l->error) {
		struct gs_node_snapshot *n = NULL;
		struct gs_err err = {{0}};
		struct timespec now;
		uint64_t one = 1;
		int r;

		l->again = false;
		pthread_mutex_unlock(&l->lock);
		r = read_now(l, first, &n, &err);
		if (r == 0) {
			top_traffic_take(l->traffic);
			top_findings_take(l->findings, n);
			gs_node_snapshot_keep(n, &l->options->choice);
		}
		pthread_mutex_lock(&l->lock);
		if (r < 0) {
			l->error = r;
			l->error_text = err;
			if (write(l->event_fd, &one, sizeof(one)) < 0)
				break;
			break;
		}
		hand_over(l, n);
		add_ns(&due, first && l->interval_ns > FIRST_NS ? FIRST_NS : l->interval_ns);
		first = false;
		clock_gettime(CLOCK_MONOTONIC, &now);
		/* Late (a slow driver, a machine that stood still): left out, and counted. */
		if (ns_of(&now) >= ns_of(&due)) {
			uint64_t late = (ns_of(&now) - ns_of(&due)) / l->interval_ns + 1;

			add_ns(&due, late * l->interval_ns);
			l->missed += late;
		}
		while (!l->stop && !l->again &&
		       pthread_cond_timedwait(&l->wake, &l->lock, &due) != ETIMEDOUT)
			;
		if (l->again)
			clock_gettime(CLOCK_MONOTONIC, &due);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int next_sample(void *ctx, struct gs_node_snapshot **ret, struct gs_err *err)
{
	struct top_live *l = ctx;
	uint64_t count;
	int r = GS_TUI_LATER;

	pthread_mutex_lock(&l->lock);
	if (l->n_queue) {
		*ret = l->queue[0];
		memmove(l->queue, l->queue + 1, (l->n_queue - 1) * sizeof(l->queue[0]));
		l->n_queue--;
		r = GS_TUI_MOMENT;
	} else if (l->error) {
		r = l->error;
		*err = l->error_text;
	} else if (read(l->event_fd, &count, sizeof(count)) < 0) {
		r = GS_TUI_LATER; /* nothing new: the descriptor does not block */
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

static void ask_again(struct top_live *l)
{
	l->again = true;
	pthread_cond_signal(&l->wake);
}

static void set_interval(void *ctx, uint64_t interval_ns)
{
	struct top_live *l = ctx;

	pthread_mutex_lock(&l->lock);
	l->interval_ns = interval_ns;
	ask_again(l);
	pthread_mutex_unlock(&l->lock);
}

static void set_all(void *ctx, bool all)
{
	struct top_live *l = ctx;

	pthread_mutex_lock(&l->lock);
	l->all = all;
	ask_again(l);
	pthread_mutex_unlock(&l->lock);
}

static void set_jobs(void *ctx, bool jobs)
{
	struct top_live *l = ctx;

	pthread_mutex_lock(&l->lock);
	l->wants_jobs = jobs;
	ask_again(l);
	pthread_mutex_unlock(&l->lock);
}

static void set_traffic(void *ctx, uint32_t pid)
{
	struct top_live *l = ctx;

	if (!top_traffic_want(l->traffic, pid))
		return;
	pthread_mutex_lock(&l->lock);
	ask_again(l);
	pthread_mutex_unlock(&l->lock);
}

static int send_signal(void *ctx, uint32_t pid, uint64_t start_ns, int number)
{
	struct top_live *l = ctx;

	return gs_host_signal(l->ui_host, pid, start_ns, number);
}

static int read_environment(void *ctx, uint32_t pid, struct gs_buf *buf)
{
	struct top_live *l = ctx;

	return gs_host_read_environ(l->ui_host, pid, buf);
}

int top_live_start(struct top_live *l, struct gs_tui_source *ret, struct gs_err *err)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->event_fd < 0)
		return gs_err_set(err, -errno, "eventfd: %s", strerror(errno));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are the screen's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&l->thread, NULL, read_on, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	l->has_thread = true;
	*ret = (struct gs_tui_source){
		.ctx = l,
		.title = "",
		.next = next_sample,
		.wake_fd = l->event_fd,
		.set_interval = set_interval,
		.set_all = set_all,
		.set_jobs = set_jobs,
		.signal = send_signal,
		.environment = read_environment,
		.set_traffic = set_traffic,
		.traffic = top_traffic_of,
		.traffic_ctx = l->traffic,
		.findings = top_findings_at,
		.findings_ctx = l->findings,
	};
	return 0;
}

struct top_findings *top_live_findings(struct top_live *l)
{
	return l->findings;
}

int top_live_close(struct top_live **ref, struct gs_err *err)
{
	struct top_live *l = *ref;
	int r;

	if (!l)
		return 0;
	if (l->has_thread) {
		pthread_mutex_lock(&l->lock);
		l->stop = true;
		pthread_cond_signal(&l->wake);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
		pthread_cond_destroy(&l->wake);
	}
	pthread_mutex_destroy(&l->lock);
	r = close_record(l, err);
	for (size_t i = 0; i < l->n_queue; i++)
		gs_node_snapshot_free(&l->queue[i]);
	gs_gpu_close(&l->gpu);
	gs_sampler_free(&l->sampler);
	gs_host_close(&l->ui_host);
	gs_accounting_free(&l->account);
	top_findings_free(&l->findings);
	top_traffic_free(&l->traffic);
	gs_close_p(&l->event_fd);
	gs_buf_fini(&l->records);
	free(l);
	*ref = NULL;
	return r;
}
