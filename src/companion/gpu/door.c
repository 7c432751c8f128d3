/*
 * The door's life. The driver calls InitializeInjection() within cuInit() (CUDA_INJECTION64_PATH): CUPTI is found and
 * switched on before there is a context. From then on a thread of its own does all: it opens and closes windows, takes
 * what was recorded, and releases CUPTI where the program wants it for itself. Others ask it and wait a little.
 */
#include "companion/gpu/gpu_int.h"
#include "model/gpu_work/cupti.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

#define SETTINGS_ENV "GPUSCOPE_COMPANION_GPU" /* "WINDOW_MS/PERIOD_MS", then or alone "calls" */

#define MS             1000000ull
#define WINDOW_MS      1000u
#define PERIOD_MS      20000u
#define STEP_MS        50u
#define FLUSH_MS       500u  /* in a window that goes on */
#define QUIET_MS       2000u /* after another's last use of CUPTI, before it is taken back */
#define ANSWER_MS      2000u /* that others wait for the thread */
#define RING_BYTES     (2u << 20)
#define SLOTS          2u
#define STACK_BYTES    (256u << 10)
#define RESERVE        4u   /* buffers */
#define LAST_MS        300u /* that work which was begun in a window has to end */
#define LAST_STEP_MS   10u
#define CALL_NUMBERS   1200u /* that CUPTI's callbacks have names for, of a domain */
#define CALLS_MAX      96u
#define SYSTEM_THREADS 1 /* CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM */

int InitializeInjection(void);
int __cxa_atexit(void (*at_exit)(void *), void *ctx,
		 void *library); /* atexit() is no part of libc.so */

struct gpu_cupti gpu_cupti;

static struct {
	pid_t owner;
	uint32_t asked, answered; /* futexes */
	uint32_t ends;            /* the program does */
	uint32_t others_hold;     /* CUPTI */
	uint64_t others_last_ns;
	uint64_t window_ns, period_ns; /* period 0: always open */
	bool wants_calls;              /* which call asked for which work: costs each launch */
} door;

/* Of the thread. */
static struct {
	bool open, yielded, began;
	bool was_open; /* there was a window before this one */
	uint64_t
		counted_ns; /* from when on the window counts; 0: nothing has come in the first one */
	uint64_t opened_ns, flushed_ns, next_ns;
	int thread_ids; /* as others had it */
	char refusal[160];
	char note[160]; /* what is not as it was asked for; "" nothing */
} at;

static struct {
	uint8_t is_runtime;
	uint16_t number;
} calls[CALLS_MAX];
static unsigned n_calls;

/* Not waits (SYNCHRONIZATION): they cost a loop of launches more than all others, and calls have them. */
static const uint8_t kinds[] = {GPU_KIND_KERNEL, GPU_KIND_COPY, GPU_KIND_PEER, GPU_KIND_FILL,
				GPU_KIND_OVERHEAD};

static void wait_for(uint32_t *word, uint32_t while_it_is, uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	COMPANION_SYS6(futex, word, FUTEX_WAIT_PRIVATE, while_it_is, &t, 0, 0);
}

static void wake_all(uint32_t *word)
{
	COMPANION_SYS6(futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

/* --- windows --- */

/* Calls whose work a GPU does: which number has which name depends on the version. */
static bool is_wanted(const char *name)
{
	static const char *const wanted[] = {"cudaLaunchKernel",     "cudaLaunchCooperativeKernel",
					     "cudaGraphLaunch",      "cudaMemcpyAsync",
					     "cudaMemsetAsync",      "cudaLaunchKernelExC",
					     "cuLaunchKernel",       "cuLaunchCooperativeKernel",
					     "cuGraphLaunch",        "cuLaunchKernelEx",
					     "cuMemcpyAsync",        "cuMemcpyHtoDAsync_v2",
					     "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		size_t n = strlen(wanted[i]);

		if (strncmp(name, wanted[i], n) == 0 &&
		    (!name[n] || strncmp(name + n, "_ptsz", 5) == 0 ||
		     strncmp(name + n, "_v", 2) == 0))
			return true;
	}
	return false;
}

static void find_calls(void)
{
	const char *name;

	if (!gpu_cupti.callback_name || !gpu_cupti.enable_driver_call ||
	    !gpu_cupti.enable_runtime_call)
		return;
	for (int domain = 1; domain <= 2; domain++)
		for (uint16_t i = 1; i < CALL_NUMBERS && n_calls < CALLS_MAX; i++) {
			if (gpu_cupti.callback_name(domain, i, &name) != GPU_CUPTI_OK || !name ||
			    !is_wanted(name))
				continue;
			calls[n_calls].is_runtime = domain == 2;
			calls[n_calls++].number = i;
		}
}

static void switch_calls(bool on)
{
	for (unsigned i = 0; i < n_calls; i++)
		(calls[i].is_runtime ? gpu_cupti.enable_runtime_call
				     : gpu_cupti.enable_driver_call)(calls[i].number, on);
}

static void refuse_with(const char *why)
{
	if (strcmp(at.refusal, why) == 0)
		return;
	snprintf(at.refusal, sizeof(at.refusal), "%s", why);
	if (at.began)
		gpu_record_state(GS_COMPANION_GPU_REFUSED, companion_mono_ns(), gpu_cupti.version,
				 why);
}

static void refuse_result(int r)
{
	char why[sizeof(at.refusal)];

	if (r == GPU_CUPTI_HELD)
		snprintf(why, sizeof(why), "another profiler of this program holds CUPTI");
	else if (r == GPU_CUPTI_NO_RIGHTS)
		snprintf(why, sizeof(why), "the driver keeps CUPTI for administrators");
	else if (r == GPU_CUPTI_NOT_INITIALIZED)
		snprintf(why, sizeof(why), "its CUPTI (version %u) is newer than the driver",
			 gpu_cupti.version);
	else
		snprintf(why, sizeof(why), "its CUPTI (version %u) answers with error %d",
			 gpu_cupti.version, r);
	refuse_with(why);
}

/* Graphs as a whole, where that is not switched off again: with CUPTI 13.0.1 programs that use graphs die of it within
 * seconds, and of cuptiFinalize() after a window (tests/gpu/collector.sh). In windows each of their kernels has a record. */
static bool takes_whole_graphs(void)
{
	return !door.period_ns;
}

static void switch_off(void)
{
	if (door.wants_calls)
		switch_calls(false);
	for (size_t i = 0; i < sizeof(kinds); i++)
		gpu_cupti.disable(kinds[i]);
	if (takes_whole_graphs())
		gpu_cupti.disable(GPU_KIND_GRAPH);
	if (gpu_cupti.get_thread_ids && gpu_cupti.set_thread_ids)
		gpu_cupti.set_thread_ids(at.thread_ids);
}

/* Kernels must be had; what a version does not know of the rest is not there. */
static bool switch_on(void)
{
	int r;

	gpu_buffer_keep(true);
	r = gpu_cupti.register_callbacks(gpu_buffer_request, gpu_buffer_complete);
	if (r == GPU_CUPTI_OK)
		r = gpu_cupti.enable(GPU_KIND_KERNEL);
	if (r != GPU_CUPTI_OK) {
		refuse_result(r);
		return false;
	}
	if (gpu_cupti.get_thread_ids && gpu_cupti.set_thread_ids &&
	    gpu_cupti.get_thread_ids(&at.thread_ids) == GPU_CUPTI_OK)
		gpu_cupti.set_thread_ids(SYSTEM_THREADS);
	for (size_t i = 0; i < sizeof(kinds); i++)
		if (kinds[i] != GPU_KIND_KERNEL)
			gpu_cupti.enable(kinds[i]);
	if (takes_whole_graphs())
		gpu_cupti.enable(GPU_KIND_GRAPH);
	if (door.wants_calls)
		switch_calls(true);
	return true;
}

/* The first window begins with the first work: until then a program gets ready. */
static void note_begin(void)
{
	if (at.counted_ns || !at.began)
		return;
	at.counted_ns = at.was_open
				? at.opened_ns
				: __atomic_load_n(&gpu_buffer_counts.first_ns, __ATOMIC_ACQUIRE);
	if (!at.counted_ns)
		return;
	at.was_open = true;
	at.next_ns = at.counted_ns + door.period_ns;
	at.refusal[0] = '\0';
	gpu_record_state(GS_COMPANION_GPU_OPENED, at.counted_ns, gpu_cupti.version, at.note);
}

static void open_window(void)
{
	at.open = switch_on();
	at.opened_ns = at.flushed_ns = companion_mono_ns();
	at.next_ns = at.opened_ns + (door.period_ns ? door.period_ns : PERIOD_MS * MS);
	at.counted_ns = 0;
	if (at.open)
		note_begin();
}

static void take_records(void)
{
	gpu_cupti.flush_all(0);
	gpu_record_all(&gpu_cupti, gpu_buffer_take());
	at.flushed_ns = companion_mono_ns();
}

/* CUPTI gives back buffers whose work has ended. To have all of them at once (CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) breaks
 * programs that use graphs, or whose threads have work on the GPU then (seen with 13.0.1: tests/gpu/collector.sh). */
static void take_last_records(void)
{
	uint64_t until = companion_mono_ns() + LAST_MS * MS;

	for (;;) {
		take_records();
		if (!gpu_buffer_is_out() || companion_mono_ns() >= until)
			return;
		wait_for(&door.ends, __atomic_load_n(&door.ends, __ATOMIC_ACQUIRE),
			 LAST_STEP_MS * MS);
	}
}

static void close_window(enum gs_companion_gpu_what what)
{
	uint64_t closed_ns = companion_mono_ns();

	note_begin();
	switch_off();
	take_last_records();
	at.open = false;
	if (at.counted_ns)
		gpu_record_state(what, closed_ns, gpu_cupti.version, "");
}

/* --- the thread --- */

static void check_window(uint64_t now)
{
	note_begin();
	if (!at.counted_ns)
		return;
	if (door.period_ns && now >= at.counted_ns + door.window_ns)
		close_window(GS_COMPANION_GPU_CLOSED);
	else if (now - at.flushed_ns >= FLUSH_MS * MS)
		take_records();
}

static void take_back(uint64_t now)
{
	uint64_t last = __atomic_load_n(&door.others_last_ns, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&door.others_hold, __ATOMIC_ACQUIRE) || now < last + QUIET_MS * MS)
		return;
	at.yielded = false;
	open_window();
}

/* False: it is over. */
static bool do_step(void)
{
	uint64_t now = companion_mono_ns();

	if (__atomic_load_n(&door.ends, __ATOMIC_ACQUIRE) || !companion_live->epoch ||
	    companion_live->head->stopped) {
		if (at.open)
			close_window(GS_COMPANION_GPU_CLOSED);
		return false;
	}
	if (at.yielded)
		take_back(now);
	else if (__atomic_load_n(&door.others_hold, __ATOMIC_ACQUIRE)) {
		if (at.open)
			close_window(GS_COMPANION_GPU_YIELDED);
		gpu_buffer_keep(false);
		at.yielded = true;
	} else if (at.open)
		check_window(now);
	else if (now >= at.next_ns)
		open_window();
	return true;
}

static void *run_thread(void *unused)
{
	bool goes_on = true;

	at.began = true;
	if (!at.open && at.refusal[0])
		gpu_record_state(GS_COMPANION_GPU_REFUSED, companion_mono_ns(), gpu_cupti.version,
				 at.refusal);
	gpu_buffer_prepare(RESERVE);
	while (goes_on) {
		uint32_t seen = __atomic_load_n(&door.asked, __ATOMIC_ACQUIRE);

		goes_on = gpu_cupti.library && do_step();
		__atomic_store_n(&door.answered, goes_on ? seen : UINT32_MAX, __ATOMIC_RELEASE);
		wake_all(&door.answered);
		if (goes_on)
			wait_for(&door.asked, seen, STEP_MS * MS);
	}
	return NULL;
}

/* It has seen what was set before, or takes too long. */
static void ask_thread(void)
{
	uint32_t wanted = __atomic_add_fetch(&door.asked, 1, __ATOMIC_ACQ_REL), got;
	uint64_t until = companion_mono_ns() + ANSWER_MS * MS;

	wake_all(&door.asked);
	while ((got = __atomic_load_n(&door.answered, __ATOMIC_ACQUIRE)) < wanted &&
	       companion_mono_ns() < until)
		wait_for(&door.answered, got, STEP_MS * MS);
}

bool gpu_door_is_open(void)
{
	return gpu_cupti.library && door.owner == getpid();
}

void gpu_door_note(bool holds)
{
	__atomic_store_n(&door.others_last_ns, companion_mono_ns(), __ATOMIC_RELEASE);
	__atomic_store_n(&door.others_hold, holds, __ATOMIC_RELEASE);
}

void gpu_door_yield(void)
{
	bool held = __atomic_load_n(&door.others_hold, __ATOMIC_ACQUIRE);

	gpu_door_note(true);
	if (!held)
		ask_thread();
}

static void on_exit_of_program(void *unused)
{
	if (!gpu_door_is_open())
		return;
	__atomic_store_n(&door.ends, 1, __ATOMIC_RELEASE);
	ask_thread();
}

/* --- beginning --- */

static bool start_ring(void)
{
	struct companion_setup setup = {.clock = GS_COMPANION_MONOTONIC,
					.doors = 1u << GS_COMPANION_GPU,
					.n_slots = SLOTS,
					.ring_bytes = RING_BYTES};
	const char *folder = getenv(GS_COMPANION_FOLDER_ENV);

	if (!folder || folder[0] != '/' || getuid() != geteuid() ||
	    snprintf(setup.folder, sizeof(setup.folder), "%s", folder) >= (int)sizeof(setup.folder))
		return false;
	return companion_start(&setup) == 0 && companion_announce();
}

static void read_settings(void)
{
	const char *text = getenv(SETTINGS_ENV);
	unsigned long window = WINDOW_MS, period = PERIOD_MS;
	char *end;

	door.wants_calls = text && strstr(text, "calls");
	if (text && *text >= '0' && *text <= '9') {
		window = strtoul(text, &end, 10);
		period = *end == '/' ? strtoul(end + 1, NULL, 10) : PERIOD_MS;
	}
	if (!period && !gs_cupti_may_stay_open(gpu_cupti.version)) {
		snprintf(
			at.note, sizeof(at.note),
			"its CUPTI (version %u) leaks memory when it is always on, which CUDA 13.4.1 mends: it has windows of 1 s in 20 s instead",
			gpu_cupti.version);
		window = WINDOW_MS;
		period = PERIOD_MS;
	}
	door.window_ns = window * MS;
	door.period_ns = period * MS;
}

/* Signals are the program's. */
static bool start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int r;

	sigfillset(&all);
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &attr, run_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return r == 0;
}

/* 1: whatever has become of it, the program goes on. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	static uint32_t begun;

	if (__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL) || !start_ring())
		return 1;
	door.owner = getpid();
	if (gpu_cupti_find(&gpu_cupti, at.refusal, sizeof(at.refusal))) {
		read_settings();
		find_calls();
		door.others_hold = gpu_yield_is_held();
		if (!door.others_hold)
			open_window();
	}
	if (!start_thread()) {
		if (at.open)
			switch_off();
		gpu_cupti.library = NULL;
	} else if (gpu_cupti.library) {
		/* After the driver's own, so that it comes before it. */
		__cxa_atexit(on_exit_of_program, NULL, NULL);
	}
	return 1;
}
