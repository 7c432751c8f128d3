/* The thread of --gpu-time: orders to profilers, their files, and the GPU work in these. */
#include "commands/trace/trace_kineto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/trace/trace.h"
#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "pipeline/kineto/work.h"
#include "sources/kineto_daemon/daemon.h"

#define ANSWER_MS      40 /* the profiler waits 50 ms for an answer (IpcFabricConfigClient.cpp) */
#define LOOK_NS        200000000ull   /* how often the file is checked for */
#define FILE_NS        30000000000ull /* longest wait for the file after the end of the recording */
#define LAST_NS        6000000000ull  /* the same after the end of tracing */
#define WARM_UP_S      1              /* time that the profiler needs to start */
#define FILE_BYTES_MAX (1ull << 30)
#define FILES_MAX      16 /* files of a folder that are considered */

enum target_state {
	TARGET_ASKED,   /* the order waits for the profiler to ask */
	TARGET_RECORDS, /* the profiler records, or writes its file */
	TARGET_DONE,
	TARGET_FAILED, /* why has the reason */
};

struct target {
	uint32_t pid, uid;
	enum target_state state;
	struct gs_kineto_daemon *daemon; /* one of the list's */
	int tmp_fd, folder_fd;           /* owned; -1: none */
	char folder[40];                 /* name below /tmp */
	uint64_t taken_ns, looked_ns;
	uint64_t file_bytes; /* at the last check */
	uint64_t n_work, n_left_out;
	char why[256];
};

struct trace_kineto {
	const struct trace_options *options;
	struct trace_output *output;
	struct target targets[TRACE_MAX_PIDS];
	size_t n_targets;
	/* One for each network namespace; owned. */
	struct gs_kineto_daemon *daemons[TRACE_MAX_PIDS];
	ino_t namespaces[TRACE_MAX_PIDS];
	size_t n_daemons;
	struct gs_reader *reader;
	struct gs_guard *guard;
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	/* From the stop on: records that are under way are not waited for. Borrowed, NULL: they are. */
	const atomic_bool *_Atomic gives_up;
};

/* --- before the first answer --- */

static int find_daemon(struct trace_kineto *k, struct target *t, struct gs_err *err)
{
	struct stat st;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%u/ns/net", t->pid);
	if (stat(path, &st) < 0)
		return -errno;
	for (size_t i = 0; i < k->n_daemons; i++)
		if (k->namespaces[i] == st.st_ino) {
			t->daemon = k->daemons[i];
			return 0;
		}
	r = gs_kineto_daemon_open(t->pid, &t->daemon, err);
	if (r < 0)
		return r;
	k->namespaces[k->n_daemons] = st.st_ino;
	k->daemons[k->n_daemons++] = t->daemon;
	return 0;
}

/* In the /tmp that the process sees, for it alone: no symbolic link leads elsewhere. */
static int make_folder(struct target *t)
{
	GS_CLOSE int root_fd = -1;
	struct stat process;
	uint64_t random;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", t->pid);
	if (stat(path, &process) < 0 ||
	    getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	snprintf(path, sizeof(path), "/proc/%u/root", t->pid);
	snprintf(t->folder, sizeof(t->folder), "gpuscope-kineto-%016" PRIx64, random);
	root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	t->tmp_fd = openat(root_fd, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->tmp_fd < 0 || mkdirat(t->tmp_fd, t->folder, 0700) < 0)
		return -errno;
	t->folder_fd =
		openat(t->tmp_fd, t->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->folder_fd < 0 || fchown(t->folder_fd, process.st_uid, process.st_gid) < 0)
		return -errno;
	t->uid = process.st_uid;
	return 0;
}

/* Keys of libkineto/src/Config.cpp. Kernels are not named by what launched them in Triton: the kind of its calls is
 * unknown to older profilers, which then refuse all of it. */
static int give_order(const struct trace_kineto *k, struct target *t)
{
	char text[GS_KINETO_TEXT_BYTES];

	snprintf(text, sizeof(text),
		 "ACTIVITIES_LOG_FILE=/tmp/%s/trace.json\nPROFILE_START_TIME=0\n"
		 "ACTIVITIES_WARMUP_PERIOD_SECS=%d\nACTIVITIES_DURATION_MSECS=%" PRIu64 "\n"
		 "ACTIVITY_TYPES=kernel,gpu_memcpy,gpu_memset,cuda_runtime\n",
		 t->folder, WARM_UP_S, k->options->gpu_time_ns / 1000000u);
	t->state = TARGET_ASKED;
	return gs_kineto_daemon_order(t->daemon, t->pid, text);
}

static void add_target(struct trace_kineto *k, uint32_t pid)
{
	struct target *t = &k->targets[k->n_targets++];
	struct gs_err err = {{0}};
	int r;

	*t = (struct target){.pid = pid, .tmp_fd = -1, .folder_fd = -1};
	r = find_daemon(k, t, &err);
	if (r == 0) {
		r = make_folder(t);
		if (r < 0)
			gs_err_set(&err, r, "cannot create a directory in its /tmp: %s",
				   strerror(-r));
	}
	if (r == 0)
		r = give_order(k, t);
	if (r < 0) {
		t->state = TARGET_FAILED;
		snprintf(t->why, sizeof(t->why), "%s", gs_err_text(&err, r));
	}
}

/* --- the file --- */

static bool is_trace_name(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

/* The profiler may add to the name that it was given. "": there is none yet. */
static void find_file(const struct target *t, char name[NAME_MAX + 1])
{
	int fd = openat(t->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	name[0] = '\0';
	if (!folder) {
		gs_close_p(&fd);
		return;
	}
	for (unsigned n = 0; n < FILES_MAX && !name[0] && (d = readdir(folder)); n++)
		if (is_trace_name(d->d_name))
			snprintf(name, NAME_MAX + 1, "%s", d->d_name);
	closedir(folder);
}

static int64_t wall_minus_mono_ns(void)
{
	return gs_clock_wall_minus_boot_ns() + gs_clock_boot_minus_mono_ns();
}

/* True: the file was read, or will never be. */
static bool take_file(struct trace_kineto *k, struct target *t, const char *name, bool is_late)
{
	const struct gs_foreign_want want = {.no_links = true, .max_bytes = FILE_BYTES_MAX};
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	GS_CLEANUP(gs_kineto_work_fini) struct gs_kineto_work work = {0};
	struct gs_err err = {{0}};
	int r = gs_foreign_open_under(t->folder_fd, name, &want, &file);

	if (r == 0 && file.uid != t->uid)
		r = -EACCES;
	if (r == 0 && (!file.bytes || file.bytes != t->file_bytes) && !is_late) {
		t->file_bytes = file.bytes; /* it may still be written */
		return false;
	}
	if (r == 0) {
		gs_reader_set_owner(k->reader, file.uid);
		r = gs_kineto_work_ask(k->reader, file.fd, wall_minus_mono_ns(), &work, &err);
	}
	/* Old ones write it under its own name, bit by bit. */
	if (r == -EBADMSG && !is_late)
		return false;
	if (r < 0) {
		t->state = TARGET_FAILED;
		snprintf(t->why, sizeof(t->why), "cannot read its profiler's trace: %s",
			 gs_err_text(&err, r));
		gs_log(GS_LOG_INFO, GS_LOG_GPU, "process %u: %s", t->pid, t->why);
		return true;
	}
	trace_output_gpu_work(k->output, t->pid, &work);
	t->n_work += work.n_rows;
	t->n_left_out += work.n_left_out;
	t->state = TARGET_DONE;
	gs_log(GS_LOG_INFO, GS_LOG_GPU,
	       "process %u: PyTorch's profiler has recorded %u kernels and copies", t->pid,
	       work.n_rows);
	return true;
}

static void poll_file(struct trace_kineto *k, struct target *t)
{
	uint64_t now_ns = gs_clock_mono_ns();
	uint64_t ends_ns = t->taken_ns + k->options->gpu_time_ns + WARM_UP_S * 1000000000ull;
	bool is_late = now_ns > ends_ns + (atomic_load(&k->stop) ? LAST_NS : FILE_NS);
	char name[NAME_MAX + 1];

	if (now_ns - t->looked_ns < LOOK_NS)
		return;
	t->looked_ns = now_ns;
	find_file(t, name);
	if (name[0] && take_file(k, t, name, is_late)) {
		(void)unlinkat(t->folder_fd, name, 0);
	} else if (is_late) {
		t->state = TARGET_FAILED;
		snprintf(
			t->why, sizeof(t->why),
			"its profiler accepted the request but wrote no trace (is another profiler active in it?)");
	}
}

/* --- the thread --- */

static unsigned count_in_state(const struct trace_kineto *k, enum target_state state)
{
	unsigned n = 0;

	for (size_t i = 0; i < k->n_targets; i++)
		n += k->targets[i].state == state;
	return n;
}

static void poll_targets(struct trace_kineto *k)
{
	for (size_t i = 0; i < k->n_targets; i++) {
		struct target *t = &k->targets[i];

		if (t->state == TARGET_ASKED &&
		    gs_kineto_daemon_state(t->daemon, t->pid) == GS_KINETO_TAKEN) {
			t->state = TARGET_RECORDS;
			t->taken_ns = gs_clock_mono_ns();
			gs_log(GS_LOG_INFO, GS_LOG_GPU,
			       "process %u: PyTorch's profiler records GPU work", t->pid);
		}
		if (t->state == TARGET_RECORDS)
			poll_file(k, t);
	}
}

static bool is_given_up(const struct trace_kineto *k)
{
	const atomic_bool *gives_up = atomic_load(&k->gives_up);

	return gives_up && atomic_load(gives_up);
}

static void *serve_profilers(void *ctx)
{
	struct trace_kineto *k = ctx;

	gs_guard_enter(k->guard);
	while ((count_in_state(k, TARGET_RECORDS) && !is_given_up(k)) ||
	       (!atomic_load(&k->stop) && count_in_state(k, TARGET_ASKED))) {
		for (size_t i = 0; i < k->n_daemons; i++)
			(void)gs_kineto_daemon_serve(k->daemons[i], ANSWER_MS / (int)k->n_daemons);
		poll_targets(k);
	}
	return NULL;
}

/* --- life --- */

static void remove_folder(struct target *t)
{
	char name[NAME_MAX + 1] = "";

	/* What it left there; one that does not end is its owner's. A profiler that writes keeps its folder. */
	for (unsigned n = 0; t->folder_fd >= 0 && t->state != TARGET_RECORDS && n < FILES_MAX;
	     n++) {
		find_file(t, name);
		if (!name[0] || unlinkat(t->folder_fd, name, 0) < 0)
			break;
	}
	if (t->folder_fd >= 0 && t->state != TARGET_RECORDS) {
		(void)unlinkat(t->folder_fd, "trace.json.tmp", 0);
		(void)unlinkat(t->tmp_fd, t->folder, AT_REMOVEDIR);
	}
	gs_close_p(&t->folder_fd);
	gs_close_p(&t->tmp_fd);
}

static void free_kineto(struct trace_kineto **ref)
{
	struct trace_kineto *k = *ref;

	if (!k)
		return;
	for (size_t i = 0; i < k->n_daemons; i++)
		gs_kineto_daemon_close(&k->daemons[i]);
	for (size_t i = 0; i < k->n_targets; i++)
		remove_folder(&k->targets[i]);
	gs_reader_free(&k->reader);
	gs_guard_free(&k->guard);
	gs_free_p(ref);
}

static int start_thread(struct trace_kineto *k, struct gs_err *err)
{
	const struct gs_reader_options reads_traces = {.name = "traces of PyTorch's profiler",
						       .late_ms = 60000};
	const struct gs_guard_options unguided = {.size = sizeof(unguided)};
	int r = gs_guard_new(&unguided, &k->guard);

	if (r == 0)
		r = gs_reader_new(&reads_traces, &k->reader, err);
	for (size_t i = 0; r == 0 && i < k->options->n_pids; i++)
		add_target(k, (uint32_t)k->options->pids[i]);
	if (r == 0)
		r = -pthread_create(&k->thread, NULL, serve_profilers, k);
	k->has_thread = r == 0;
	return r;
}

struct trace_kineto *trace_kineto_start(const struct trace_options *options,
					struct trace_output *output)
{
	struct trace_kineto *k;
	struct gs_err err = {{0}};
	int r;

	if (!options->gpu_time_ns)
		return NULL;
	k = calloc(1, sizeof(*k));
	if (k) {
		k->options = options;
		k->output = output;
	}
	r = k ? start_thread(k, &err) : -ENOMEM;
	if (r < 0) {
		gs_cli_print_message("--gpu-time: %s", gs_err_text(&err, r));
		free_kineto(&k);
	}
	return k;
}

static void report_target(const struct target *t)
{
	if (t->state == TARGET_FAILED)
		gs_cli_print_message("--gpu-time: process %u: %s", t->pid, t->why);
	else if (t->state == TARGET_ASKED && !gs_kineto_daemon_n_received(t->daemon, t->pid))
		gs_cli_print_message(
			"--gpu-time: no PyTorch profiler of process %u connected within the trace: it needs PyTorch 2.0 or newer, started with KINETO_USE_DAEMON=1, and up to 5 s; or use --inside=gpu -- COMMAND",
			t->pid);
	else if (t->state == TARGET_ASKED)
		gs_cli_print_message(
			"--gpu-time: the profiler of process %u did not accept the request before the trace ended: trace for longer",
			t->pid);
	else if (t->state == TARGET_RECORDS)
		gs_cli_print_message(
			"--gpu-time: the records of process %u were not waited for: its profiler leaves them in its /tmp/%s, which can be removed",
			t->pid, t->folder);
	else if (t->n_left_out)
		gs_cli_print_message("--gpu-time: process %u: %" PRIu64
				     " kernels and copies past the first %" PRIu64
				     " are not in the trace",
				     t->pid, t->n_left_out, t->n_work);
}

void trace_kineto_stop(struct trace_kineto **ref, const atomic_bool *gives_up)
{
	struct trace_kineto *k = *ref;

	if (!k)
		return;
	atomic_store(&k->gives_up, gives_up);
	atomic_store(&k->stop, true);
	if (k->has_thread)
		pthread_join(k->thread, NULL);
	for (size_t i = 0; i < k->n_targets; i++)
		report_target(&k->targets[i]);
	free_kineto(ref);
}
