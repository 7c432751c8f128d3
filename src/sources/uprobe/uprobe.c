/* A probe's life: what the header promises, put together from the other files of this room. */
#include "sources/uprobe/uprobe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/shrink.h"
#include "sources/uprobe/account_int.h"
#include "sources/uprobe/uprobe_int.h"

#define FIRST_TURNS 4u /* of each user, before tracing begins */
#define DROPPED_NS  2000000000ull
#define WATCH_TURNS 1u /* and between two looks at signals and the clock */

/* From now on calls of the id have it. */
static void take_name(struct gs_uprobe *probe, const struct gs_event_name *e)
{
	char name[GS_SPAN_NAME_BYTES + 1];

	memcpy(name, e->name, sizeof(e->name));
	name[sizeof(e->name)] = '\0';
	gs_func_set_name(probe->options.funcs, e->func, name[0] ? name : "record_function \"\"");
}

static int on_ring_event(void *ctx, void *data, size_t bytes)
{
	struct gs_uprobe *probe = ctx;
	const struct gs_event *e = data;

	if (bytes == sizeof(struct gs_event_name) && e->kind == GS_EV_NAME) {
		take_name(probe, (const void *)e);
	} else if (bytes >= sizeof(*e) && e->bytes <= bytes && !uprobe_gpu_event(probe, e)) {
		uprobe_pycalls_event(probe->pycalls, e);
		if (e->kind == GS_EV_CALL && e->bytes >= sizeof(struct gs_event_call))
			uprobe_note_call(probe, ((const struct gs_event_call *)e)->func,
					 ((const struct gs_event_call *)e)->pid);
		probe->handler->event(probe->handler->ctx, e);
	}
	probe->n_polled++;
	return 0;
}

/* NULL after the last. */
static int copy_texts(char ***ret_texts, const char *const *texts, size_t n)
{
	*ret_texts = calloc(n + 1, sizeof(**ret_texts));
	for (size_t i = 0; *ret_texts && i < n; i++) {
		(*ret_texts)[i] = strdup(texts[i]);
		if (!(*ret_texts)[i])
			return -ENOMEM;
	}
	return *ret_texts ? 0 : -ENOMEM;
}

static void free_texts(char **texts)
{
	for (char **t = texts; t && *t; t++)
		free(*t);
	free(texts);
}

static int copy_options(struct gs_uprobe *probe, const struct gs_uprobe_options *o)
{
	probe->options = *o;
	probe->pids = calloc(o->n_pids + 1, sizeof(*probe->pids));
	if (!probe->pids || copy_texts(&probe->globs, o->globs, o->n_globs) < 0 ||
	    copy_texts(&probe->ops, o->ops, o->n_ops) < 0)
		return -ENOMEM;
	if (o->n_pids)
		memcpy(probe->pids, o->pids, o->n_pids * sizeof(*probe->pids));
	probe->comm = o->comm ? strdup(o->comm) : NULL;
	probe->cgroup = o->cgroup ? strdup(o->cgroup) : NULL;
	if ((o->comm && !probe->comm) || (o->cgroup && !probe->cgroup))
		return -ENOMEM;
	probe->options.pids = probe->pids;
	probe->options.globs = (const char *const *)probe->globs;
	probe->options.ops = (const char *const *)probe->ops;
	probe->options.comm = probe->comm;
	probe->options.cgroup = probe->cgroup;
	return 0;
}

static void describe_attach_mode(struct gs_uprobe *probe)
{
	uint32_t ring_bytes = probe->options.ring_bytes ? probe->options.ring_bytes : 16u << 20;
	char ring[GS_FMT_BYTES];

	snprintf(probe->attach_mode, sizeof(probe->attach_mode), "%s, %s, %s ring%s",
		 probe->features.session ? "session links"
		 : probe->features.multi ? "pairs of multi links"
					 : "single links",
		 probe->features.task_storage ? "task storage" : "hash by thread",
		 gs_fmt_bytes(ring, ring_bytes),
		 probe->by_process ? ", probes in the chosen processes only" : "");
}

/* Which functions, and where the running kernel lets them be probed. */
static int choose_functions(struct gs_uprobe *probe, struct gs_err *err)
{
	const struct gs_uprobe_options *o = &probe->options;
	const struct features *f = &probe->features;
	int r;

	probe->plan = (struct gs_attach_plan_options){
		.layers = o->layers,
		.globs = o->globs,
		.n_globs = o->n_globs,
		.op_set = o->op_set,
		.ops = o->ops,
		.n_ops = o->n_ops,
		.python_calls = o->python_calls,
		.python_gc = o->python_gc,
		.python_gil = o->python_gil,
		.described = gs_user_set_n(o->users),
		.may_throw = uprobe_users_may_throw(o->users),
		.funcs = o->funcs,
		.no_return_probes = o->disabled_features & GS_DISABLED_RETURN_PROBES,
		.first_byte = o->disabled_features & GS_DISABLED_MOVED_SITES,
		.on_attach = o->on_attach,
		.ctx = o->ctx};
	r = gs_attach_plan_select(&probe->selection, &probe->plan, err);
	if (r == 0)
		r = uprobe_features_detect(o->disabled_features, &probe->features, err);
	probe->plan.sites = f->sites;
	probe->plan.returns_are_kept = f->return_is_kept;
	probe->plan.returns_are_left_out = f->session;
	probe->plan.many_links = f->multi;
	return r;
}

static void load_account(struct gs_uprobe *probe, const struct gs_kernel_config *config)
{
	uint32_t ring_bytes = probe->options.ring_bytes ? probe->options.ring_bytes : 16u << 20;
	int r = uprobe_account_load(probe, config, &probe->features, ring_bytes);

	if (r < 0)
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "no wall-clock account: the kernel refused its programs (%s)", strerror(-r));
}

static int start_probe(struct gs_uprobe *probe, struct gs_err *err)
{
	const struct gs_uprobe_options *o = &probe->options;
	struct gs_err watch_err = {{0}};
	struct gs_kernel_config config;
	int r;

	r = choose_functions(probe, err);
	if (r == 0)
		r = uprobe_target_config(probe, &config, err);
	if (r < 0)
		return r;
	probe->by_process = o->n_pids && !o->follow && !config.filter && !probe->cgroup_v1;
	r = uprobe_kernel_load(&probe->kernel, o, &config, &probe->features, err);
	if (r == 0)
		r = uprobe_target_fill_maps(probe, err);
	if (r < 0)
		return r;
	if (config.account)
		load_account(probe, &config);
	uprobe_kernel_loaded(&probe->kernel);
	/* Given back before the ring is mapped, so that no peak has both, and before tables are made that are mostly
	 * never touched: out of what is free in the heap they would be cleared. */
	gs_shrink_reused();
	r = uprobe_kernel_map_all(&probe->kernel, on_ring_event, probe);
	if (r < 0)
		return gs_err_set(err, r, "cannot map the kernel's counters: %s", strerror(-r));
	if (o->modes)
		memset(probe->kernel.modes->mode, o->default_mode,
		       sizeof(probe->kernel.modes->mode));
	probe->n_cells = config.n_cells;
	probe->before = calloc(probe->n_cells, sizeof(*probe->before));
	probe->mpi_before = calloc(GS_MPI_ROW_MAX, sizeof(*probe->mpi_before));
	probe->hits_before = calloc(probe->n_cells, sizeof(*probe->hits_before));
	probe->cpu_before_ns = calloc(GS_THREAD_MAX, sizeof(*probe->cpu_before_ns));
	probe->files = uprobe_files_new();
	probe->turns = uprobe_turns_new();
	if (!probe->mpi_before || !probe->before || !probe->hits_before || !probe->cpu_before_ns ||
	    !probe->files || !probe->turns)
		return -ENOMEM;
	r = uprobe_users_new(probe, &probe->users);
	if (r == 0)
		r = uprobe_gpu_new(probe);
	if (r == 0)
		r = uprobe_pycalls_new(probe, &probe->pycalls);
	if (r < 0)
		return r;
	if (gs_sideband_new(&probe->watch, &watch_err) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "cannot be notified of newly loaded libraries (%s): scanning processes twice a second instead",
		       gs_err_text(&watch_err, 0));
	describe_attach_mode(probe);
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "attach mode: %s; %u functions chosen",
	       probe->attach_mode, probe->selection.n);
	for (size_t i = 0; i < o->n_pids && r == 0; i++)
		r = gs_uprobe_follow(probe, probe->pids[i]);
	for (size_t i = 0; i < o->n_pids && r == 0 && o->follow; i++)
		uprobe_target_follow_children(probe, probe->pids[i], 0);
	/* Those that run already get their accounts when they are attached to; a command that waits
	 * for its start gets one when it becomes its program. */
	probe->account_stale = true;
	return r;
}

int gs_uprobe_new(const struct gs_uprobe_options *options, struct gs_uprobe **ret_probe,
		  struct gs_err *err)
{
	struct gs_uprobe *probe = calloc(1, sizeof(*probe));
	int r = probe ? copy_options(probe, options) : -ENOMEM;

	if (probe)
		probe->descent = GS_MAP_INIT(65536);
	if (r == 0)
		r = start_probe(probe, err);
	gs_shrink_reused();
	if (r < 0)
		gs_uprobe_free(&probe);
	else
		*ret_probe = probe;
	return r;
}

/* Each single link takes the kernel some 0.1 s to remove (it waits for all CPUs to be past it), so
 * hundreds of them take minutes. A grandchild keeps the last references and releases them. */
static void close_in_background(struct links *links)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (fork() == 0) {
			setsid();
			signal(SIGINT, SIG_IGN);
			signal(SIGTERM, SIG_IGN);
			/* A reader that waits for the end of our output must not wait for this. */
			close(0);
			close(1);
			close(2);
			uprobe_links_close(links);
		}
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	uprobe_links_close(links);
}

void gs_uprobe_free(struct gs_uprobe **ref)
{
	struct gs_uprobe *probe = *ref;
	struct links links = {0};

	if (!probe)
		return;
	gs_sideband_free(&probe->watch);
	uprobe_turns_free(&probe->turns);
	uprobe_files_free(&probe->files, &links);
	uprobe_users_free(&probe->users);
	gs_pyfunc_set_free(&probe->pycalls);
	if (probe->features.multi || links.n == 0)
		uprobe_links_close_many(&links);
	else
		close_in_background(&links);
	uprobe_selftest_reap();
	uprobe_kernel_unload(&probe->kernel);
	free_texts(probe->globs);
	free_texts(probe->ops);
	free(probe->pids);
	free(probe->comm);
	free(probe->cgroup);
	free(probe->before);
	free(probe->mpi_before);
	free(probe->gpu_before);
	free(probe->hits_before);
	free(probe->cpu_before_ns);
	free(probe->account_handed_ns);
	gs_map_fini(&probe->descent);
	free(probe);
	*ref = NULL;
}

const char *gs_uprobe_attach_mode(const struct gs_uprobe *probe)
{
	return probe->attach_mode;
}

unsigned gs_uprobe_python_id(const struct gs_uprobe *probe)
{
	return probe->selection.py_func;
}

unsigned gs_uprobe_n_files(const struct gs_uprobe *probe)
{
	unsigned n_probes;

	return uprobe_files_count(probe->files, &n_probes);
}

unsigned gs_uprobe_n_probes(const struct gs_uprobe *probe)
{
	unsigned n_probes;

	uprobe_files_count(probe->files, &n_probes);
	return n_probes;
}

static void note_followed(struct gs_uprobe *probe, pid_t pid);

int gs_uprobe_follow(struct gs_uprobe *probe, pid_t pid)
{
	uint32_t key = (uint32_t)pid, one = 1;

	if (bpf_map_update_elem(probe->kernel.procs_fd, &key, &one, BPF_ANY) < 0)
		return -errno;
	__atomic_fetch_add(&probe->kernel.state->filter_gen, 1, __ATOMIC_RELEASE);
	note_followed(probe, pid);
	probe->account_stale = true;
	return 0;
}

int gs_uprobe_python(struct gs_uprobe *probe, pid_t pid, const struct gs_py_proc *python)
{
	uint32_t key = (uint32_t)pid;

	if (!python) {
		bpf_map_delete_elem(probe->kernel.py_procs_fd, &key);
		return 0;
	}
	if (bpf_map_update_elem(probe->kernel.py_procs_fd, &key, python, BPF_ANY) < 0)
		return -errno;
	return 0;
}

struct use {
	struct gs_uprobe *probe;
	pid_t pid;
};

static bool leaves_out(const struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file)
{
	const struct gs_uprobe_options *o = &probe->options;

	return o->leaves_out && o->leaves_out(o->ctx, pid, file->path);
}

static int use_file(void *ctx, const struct gs_mapped_file *file)
{
	struct use *u = ctx;

	if (!leaves_out(u->probe, u->pid, file))
		uprobe_turns_add(u->probe, u->pid, file, 0);
	return 0;
}

static int find_files(struct gs_uprobe *probe, pid_t pid)
{
	struct use u = {probe, pid};

	return gs_library_scan_process(pid, use_file, &u);
}

int gs_uprobe_attach_process(struct gs_uprobe *probe, pid_t pid)
{
	int r = find_files(probe, pid);

	uprobe_turns_serve(probe, UINT_MAX);
	return r;
}

/* A guess costs nothing until a process maps the file, but where each function takes links of its
 * own it costs seconds: then it has to wait for that. */
static int use_candidate(void *ctx, const struct gs_mapped_file *file)
{
	struct use *u = ctx;
	bool is_new;

	if (gs_guard_stopped())
		return -ECANCELED;
	if ((!file->is_guess || u->probe->features.multi) && !leaves_out(u->probe, 0, file))
		uprobe_files_use(u->probe, u->pid, file, &is_new);
	return 0;
}

int gs_uprobe_attach_candidates(struct gs_uprobe *probe, const char *command,
				char *const environment[])
{
	struct use u = {probe, 0};

	uprobe_users_attach_paths(probe);
	return gs_library_candidates(command, environment, use_candidate, &u);
}

static void probe_note_target(struct gs_uprobe *probe, pid_t pid)
{
	if (!probe->saw_target)
		probe->saw_target =
			uprobe_target_may_match(probe, pid) && uprobe_target_is_named(probe, pid);
}

/* Let the files of all chosen processes wait for their turn. */
static int find_running(struct gs_uprobe *probe)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;

	if (!proc)
		return -errno;
	while (!gs_guard_stopped() && (e = readdir(proc)) != NULL) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)atoi(e->d_name) : 0;

		if (pid <= 0 || pid == getpid() || !uprobe_target_may_match(probe, pid))
			continue;
		probe_note_target(probe, pid);
		find_files(probe, pid);
	}
	closedir(proc);
	return 0;
}

int gs_uprobe_attach_running(struct gs_uprobe *probe)
{
	int r;

	uprobe_account_rescan(probe);
	uprobe_users_attach_paths(probe);
	r = find_running(probe);
	uprobe_turns_serve(probe, FIRST_TURNS);
	return r;
}

bool gs_uprobe_saw_target(const struct gs_uprobe *probe)
{
	return probe->saw_target;
}

int gs_uprobe_watch_fd(const struct gs_uprobe *probe)
{
	return probe->watch ? gs_sideband_fd(probe->watch) : -1;
}

/* A process may be gone when its stacks are looked at: where its code was is noted as it goes. */
static void report_map(struct gs_uprobe *probe, const struct gs_sideband_notice *notice,
		       const struct gs_mapped_file *file)
{
	struct gs_mapping m = {.start = notice->start,
			       .end = notice->start + notice->len_bytes,
			       .file_off = notice->file_off,
			       .file = file};

	if (probe->options.maps && m.end > m.start)
		probe->options.on_map(probe->options.ctx, notice->pid, notice->time_ns, &m);
}

/* The kernel side forgets a process when it ends, and notices of it come later: those that were
 * chosen by their id, and their children, are known here until the notice of their end. */
static void note_followed(struct gs_uprobe *probe, pid_t pid)
{
	/* A process too many is as one that was not chosen: its last stacks may be lost. */
	gs_map_put(&probe->descent, (uint32_t)pid, 1);
}

static bool was_followed(struct gs_uprobe *probe, pid_t pid)
{
	uint64_t one;

	return gs_map_get(&probe->descent, (uint32_t)pid, &one) ||
	       uprobe_target_may_match(probe, pid);
}

static bool is_gone(pid_t pid)
{
	char exe[64], target[1];

	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	return readlink(exe, target, sizeof(target)) < 0;
}

/* The file of a process that has ended, if it can be reached from our root too. */
static bool resolve_gone(const struct gs_sideband_notice *notice, struct gs_mapped_file *ret_file)
{
	struct stat st;

	if (strlen(notice->path) >= sizeof(ret_file->open_path) || stat(notice->path, &st) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_ino != notice->ino)
		return false;
	*ret_file = (struct gs_mapped_file){
		.id = {.dev = st.st_dev, .ino = st.st_ino}, .uid = st.st_uid, .path = notice->path};
	strcpy(ret_file->open_path, notice->path);
	return true;
}

/* A process has mapped a file and ended: nothing was seen of it, but the next one may map it too.
 */
static void on_gone(struct gs_uprobe *probe, const struct gs_sideband_notice *notice)
{
	struct gs_mapped_file file;
	bool is_new = true;

	if (resolve_gone(notice, &file)) {
		report_map(probe, notice, &file);
		if (leaves_out(probe, notice->pid, &file))
			is_new = false;
		else if (!probe->by_process)
			uprobe_files_use(probe, notice->pid, &file, &is_new);
	}
	/* Whether it was chosen by its name can no longer be known. */
	if (is_new && uprobe_files_scan_traced(notice->path) && !probe->options.comm &&
	    probe->options.on_late)
		probe->options.on_late(probe->options.ctx, notice->path, 0, 0);
}

/* A program's files come as MAP; a child shares what its parent has mapped, and the links are on the file.
 * Names are read at once: the process may not live long. */
static void on_begin(struct gs_uprobe *probe, const struct gs_sideband_notice *notice)
{
	/* The notice of a fork comes before the tracepoint by which the kernel side follows the child
	 * (copy_process() and kernel_clone() of kernel/fork.c): its parent decides. */
	bool is_ours = notice->kind == GS_SIDEBAND_FORK && probe->options.follow &&
		       was_followed(probe, notice->parent_pid);

	if (is_ours)
		note_followed(probe, notice->pid);
	if (notice->kind == GS_SIDEBAND_EXEC && probe->options.maps &&
	    was_followed(probe, notice->pid))
		probe->options.on_map(probe->options.ctx, notice->pid, notice->time_ns, NULL);
	if (notice->kind == GS_SIDEBAND_EXEC && probe->options.on_exec)
		probe->options.on_exec(probe->options.ctx, notice->pid, notice->time_ns);
	if (!is_ours && !uprobe_target_may_match(probe, notice->pid))
		return;
	if (probe->options.on_process)
		probe->options.on_process(probe->options.ctx, notice->pid);
	if (probe->options.py_stack_at)
		probe->options.on_python(probe->options.ctx, notice->pid);
}

/* Nearly all that short processes map is of the system, seen thousands of times: its numbers are enough
 * then, and the process need not be asked. Where they are others than st_dev (btrfs) no file has them. */
static bool is_known_plain(const struct gs_uprobe *probe, const struct gs_sideband_notice *notice)
{
	return !probe->options.maps &&
	       uprobe_files_is_plain(probe, (struct gs_file_id){notice->dev, notice->ino});
}

static void on_mapped(struct gs_uprobe *probe, const struct gs_sideband_notice *notice)
{
	bool is_chosen = uprobe_target_may_match(probe, notice->pid);
	struct gs_mapped_file file;

	if (is_chosen && probe->options.py_stack_at && strstr(notice->path, "/libpython"))
		probe->options.on_python(probe->options.ctx, notice->pid);
	probe->n_mapped++;
	if (is_known_plain(probe, notice)) {
		probe->n_known++;
		return;
	}
	if (is_chosen && gs_library_resolve(notice->pid, notice->path, &file) == 0) {
		report_map(probe, notice, &file);
		if (!leaves_out(probe, notice->pid, &file))
			uprobe_turns_add(probe, notice->pid, &file, notice->time_ns);
		return;
	}
	/* One that has ended is no target any more, but its stacks may still come. The kernel side has
	 * forgotten it before its program can no longer be read (sched_process_exit comes before
	 * exit_mm(), do_exit() of kernel/exit.c, Linux 6.18): either says that it has ended. */
	if (was_followed(probe, notice->pid) && (!is_chosen || is_gone(notice->pid)))
		on_gone(probe, notice);
}

/* The end does not wait for those that are left. */
static bool on_notice(void *ctx, const struct gs_sideband_notice *notice)
{
	struct gs_uprobe *probe = ctx;

	if (gs_guard_stopped())
		return false;
	if (notice->kind != GS_SIDEBAND_EXIT)
		probe_note_target(probe, notice->pid);
	switch (notice->kind) {
	case GS_SIDEBAND_MAP:
		on_mapped(probe, notice);
		break;
	case GS_SIDEBAND_EXIT:
		gs_map_del(&probe->descent, (uint32_t)notice->pid);
		uprobe_files_process_gone(probe, notice->pid);
		break;
	case GS_SIDEBAND_EXEC:
	case GS_SIDEBAND_FORK:
		on_begin(probe, notice);
		break;
	}
	return true;
}

static bool count_unread(void *ctx, const struct gs_sideband_notice *notice)
{
	struct gs_uprobe *probe = ctx;

	probe->n_unread += notice->kind == GS_SIDEBAND_MAP && !is_known_plain(probe, notice) &&
			   was_followed(probe, notice->pid);
	return true;
}

void gs_uprobe_watch_poll(struct gs_uprobe *probe)
{
	if (probe->watch)
		gs_sideband_poll(probe->watch, on_notice, probe);
	else
		gs_uprobe_attach_running(probe);
	uprobe_turns_serve(probe, WATCH_TURNS);
}

void gs_uprobe_watch_end(struct gs_uprobe *probe)
{
	if (!gs_uprobe_n_waiting(probe))
		gs_uprobe_watch_poll(probe);
	else if (probe->watch)
		gs_sideband_poll(probe->watch, on_notice, probe);
	if (probe->watch)
		gs_sideband_poll_kept(probe->watch, count_unread, probe);
	if (probe->watch)
		gs_sideband_count_lost(probe->watch);
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "%llu mappings of files seen, %llu of them of files known to have no probes",
	       (unsigned long long)probe->n_mapped, (unsigned long long)probe->n_known);
}

size_t gs_uprobe_n_waiting(const struct gs_uprobe *probe)
{
	return uprobe_turns_n_waiting(probe->turns) + probe->n_unread;
}

void gs_uprobe_report_missing(struct gs_uprobe *probe)
{
	uprobe_users_report_missing(probe);
	uprobe_files_report_missing_ops(probe);
}

/* Dropped notices may have been about libraries, which are looked for then. Who maps more than can be
 * read is not to keep us at it. */
static void find_dropped(struct gs_uprobe *probe)
{
	uint64_t lost = probe->watch ? gs_sideband_lost(probe->watch) : 0, now = gs_clock_mono_ns();

	if (lost == probe->n_dropped || now - probe->dropped_ns < DROPPED_NS)
		return;
	probe->n_dropped = lost;
	find_running(probe);
	probe->dropped_ns = gs_clock_mono_ns();
}

void gs_uprobe_rescan(struct gs_uprobe *probe)
{
	uprobe_target_follow_cgroup_v1(probe);
	uprobe_account_rescan(probe);
	uprobe_files_sweep(probe);
	find_dropped(probe);
}

void gs_uprobe_regroup(struct gs_uprobe *probe)
{
	uprobe_files_regroup(probe);
}

void gs_uprobe_regroup_end(struct gs_uprobe *probe)
{
	uprobe_files_regroup_end(probe);
}

int gs_uprobe_poll(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler)
{
	probe->handler = handler;
	probe->n_polled = 0;
	ring_buffer__consume(probe->kernel.ring);
	return probe->n_polled;
}

void gs_uprobe_set_mode(struct gs_uprobe *probe, unsigned func, enum gs_mode mode)
{
	if (func >= GS_FUNC_MAX)
		return;
	__atomic_store_n(&probe->kernel.modes->mode[func], (uint8_t)mode, __ATOMIC_RELAXED);
	if (mode >= GS_MODE_COUNT)
		atomic_store(&probe->regroup, true);
}

uint64_t gs_uprobe_lost(const struct gs_uprobe *probe, unsigned layer, enum gs_loss cause)
{
	if (cause == GS_LOSS_MAPS)
		return probe->watch ? gs_sideband_lost(probe->watch) : 0;
	if (layer >= GS_LAYER_MAX || cause >= GS_LOSS_COUNT)
		return 0;
	return probe->kernel.state->lost[layer][cause];
}

void gs_uprobe_report_losses(const struct gs_uprobe *probe, struct gs_uprobe_losses *losses,
			     void (*fn)(void *ctx, unsigned layer, enum gs_loss cause,
					uint64_t count),
			     void *ctx)
{
	for (unsigned layer = 0; layer < GS_LAYER_COUNT; layer++) {
		for (unsigned cause = 1; cause < GS_LOSS_COUNT; cause++) {
			uint64_t *reported = &losses->reported[layer][cause], now;

			if (cause == GS_LOSS_MAPS && layer)
				continue;
			now = gs_uprobe_lost(probe, layer, cause);
			if (now <= *reported)
				continue;
			fn(ctx, layer, cause, now - *reported);
			*reported = now;
		}
	}
}
