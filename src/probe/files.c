/*
 * Files by identity: looked at once, whatever their name and from whichever mount namespace they
 * are seen. One with functions of interest holds links as long as processes use it; one without is
 * remembered as such. Where the followed processes are given by pid and stay the same, a file is
 * attached for each of them alone, so that others that use the same file pay nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/foreign.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/func.h"
#include "plan/remote.h"
#include "probe/probe_int.h"

#define MAX_FILES 65536
#define UNUSED_NS 30000000000ull /* probes stay this long on a file that nobody uses */

struct file {
	struct gs_file_id id;
	pid_t only_pid; /* 0: for all processes */
	int fd;         /* owned: of one whose functions may be taken off; else -1 */
	struct links links;
	unsigned n_probes;
	pid_t *users; /* owned; processes known to use it */
	size_t n_users;
	bool keep;                /* attached ahead of a command: no user yet */
	uint64_t unused_since_ns; /* monotonic; 0: in use */
};

struct file_table {
	struct file *files; /* owned */
	size_t n, capacity;
};

struct file_table *files_new(void)
{
	return calloc(1, sizeof(struct file_table));
}

void files_free(struct file_table **table, struct links *ret_links)
{
	struct file_table *t = *table;

	for (size_t i = 0; t && i < t->n; i++) {
		links_move(ret_links, &t->files[i].links);
		gs_close_p(&t->files[i].fd);
		free(t->files[i].users);
	}
	if (t)
		free(t->files);
	free(t);
	*table = NULL;
}

static struct file *find(struct file_table *t, struct gs_file_id id, pid_t only_pid)
{
	for (size_t i = 0; i < t->n; i++) {
		struct file *f = &t->files[i];

		if (f->id.ino == id.ino && f->id.dev == id.dev && f->only_pid == only_pid)
			return f;
	}
	return NULL;
}

static struct file *add(struct file_table *t, struct gs_file_id id, pid_t only_pid)
{
	if (t->n == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 64;
		struct file *files;

		if (capacity > MAX_FILES)
			return NULL;
		files = realloc(t->files, capacity * sizeof(*files));
		if (!files)
			return NULL;
		t->files = files;
		t->capacity = capacity;
	}
	t->files[t->n] = (struct file){.id = id, .only_pid = only_pid, .fd = -1};
	return &t->files[t->n++];
}

static void add_user(struct file *f, pid_t pid)
{
	pid_t *users;

	if (pid <= 0) {
		f->keep = true;
		return;
	}
	for (size_t i = 0; i < f->n_users; i++)
		if (f->users[i] == pid)
			return;
	users = realloc(f->users, (f->n_users + 1) * sizeof(*users));
	if (!users)
		return;
	f->users = users;
	f->users[f->n_users++] = pid;
	f->unused_since_ns = 0;
}

void files_tell_failure(struct gs_probe *probe, const char *path, const char *function,
			const char *reason, int status, uint32_t layer)
{
	struct gs_attach a = {.path = path,
			      .function = function,
			      .reason = reason,
			      .status = status,
			      .layer = layer};

	probe->options.on_attach(probe->options.ctx, &a);
}

const char *files_reason_of(int status)
{
	switch (status) {
	case -EOPNOTSUPP:
	case -524: /* ENOTSUPP, the kernel's own */
		return "the kernel cannot probe the instruction there";
	case -EINVAL:
		return "the kernel refused the place";
	default:
		return strerror(-status);
	}
}

/* A file that comes when the function is gone already. */
bool files_is_off(const struct gs_probe *probe, uint16_t func)
{
	return probe->options.modes && probe->kernel.modes->mode[func] == GS_MODE_OFF;
}

void files_tell_price(struct gs_probe *probe, const struct gs_plan_place *p,
		      const struct gs_user_row *row)
{
	struct gs_hit hit = {.kind = GS_PRICE_CALL,
			     .is_exit = p->cookie & GS_COOKIE_EXIT,
			     .is_stepped = p->is_stepped};

	if (!probe->options.on_function || !p->func)
		return;
	if (row) {
		hit.kind = p->has_return ? GS_PRICE_USER : GS_PRICE_PLACE;
		hit.is_exit = false;
		for (unsigned i = 0; i < row->n_values; i++)
			hit.n_values += row->values[i].n_chain > 0;
		hit.n_texts = row->n_texts;
	} else if (p->family == GS_FAMILY_PYCALL) {
		hit.kind = GS_PRICE_PYTHON;
	} else if (p->family != GS_FAMILY_CUDA && p->family != GS_FAMILY_NCCL) {
		hit.kind = GS_PRICE_SCOPE;
	}
	probe->options.on_function(probe->options.ctx, p->func, &hit);
}

/* One family's places of the plan. */
static int attach_family(struct gs_probe *probe, struct file *f, const struct gs_mapped_file *file,
			 const struct gs_plan *plan, enum gs_family family)
{
	GS_FREE struct gs_plan_place *places = calloc(plan->n + 1, sizeof(*places));
	GS_FREE int *status = calloc(plan->n + 1, sizeof(*status));
	size_t n = 0;
	int done;

	for (size_t i = 0; places && i < plan->n; i++)
		if (plan->places[i].family == family && !files_is_off(probe, plan->places[i].func))
			places[n++] = plan->places[i];
	if (!n || !status)
		return 0;
	done = links_attach(&f->links, &probe->kernel, &probe->features, family, file->open_path,
			    f->only_pid, places, n, status);
	if (done < 0) {
		files_tell_failure(probe, file->path, NULL, files_reason_of(done), done,
				   plan->layer);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct gs_func *func =
			family == GS_FAMILY_UNWIND
				? NULL
				: gs_func_set_get(probe->options.funcs, places[i].func);

		if (status[i] == 0)
			files_tell_price(probe, &places[i], NULL);
		else
			files_tell_failure(
				probe, file->path, func ? func->name : "the C++ unwinder",
				files_reason_of(status[i]), status[i], func ? func->desc.layer : 0);
	}
	return done;
}

/* Where it has functions of interest, as a process without rights finds, or this one when there is
 * none such. */
static int plan_file(struct gs_probe *probe, const struct gs_mapped_file *file, int fd,
		     struct gs_plan *plan, struct gs_err *err)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	GS_CLOSE int own = -1;
	int r;

	if (probe->options.reader)
		return gs_plan_ask(plan, probe->options.reader, &probe->selection, &probe->plan,
				   file, fd, err);
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = gs_elf_open_fd(&own, file->path, false, &elf, err);
	return r < 0 ? r : gs_plan_file(plan, &probe->selection, &probe->plan, file, elf, err);
}

static void attach_file(struct gs_probe *probe, struct file *f, const struct gs_mapped_file *seen)
{
	const struct gs_foreign_want want = {.dev = seen->id.dev, .ino = seen->id.ino};
	GS_FOREIGN_CLOSE struct gs_foreign open = GS_FOREIGN_INIT;
	struct gs_mapped_file held = *seen, *file = &held;
	struct gs_err err = {{0}};
	unsigned n_users;
	GS_CLEANUP(gs_plan_fini) struct gs_plan plan = {0};
	int r = gs_foreign_open(seen->open_path, &want, &open);

	/* The way through /proc/PID ends with the process, which may be before we are done here;
	 * probes then still serve the next one that uses the file. */
	snprintf(held.open_path, sizeof(held.open_path), "/proc/self/fd/%d", open.fd);
	if (r == 0)
		r = plan_file(probe, file, open.fd, &plan, &err);
	if (r < 0) {
		/* Most files that are mapped executable are none of ours; only what looks like one
		 * by its name is worth a word. */
		if (files_look_traced(file->path) || r == -ETIME || r == -EIO || r == -EBADMSG)
			files_tell_failure(probe, file->path, NULL, gs_err_text(&err, r), r, 0);
		return;
	}
	/* The unwinder's first: from the first probe on, exceptions need it. */
	f->n_probes += (unsigned)attach_family(probe, f, file, &plan, GS_FAMILY_UNWIND);
	for (int family = 0; family < GS_FAMILY_UNWIND; family++)
		f->n_probes += (unsigned)attach_family(probe, f, file, &plan, family);
	n_users = users_attach(probe, &f->links, file, f->only_pid);
	if (f->n_probes) {
		struct gs_attach a = {.path = file->path,
				      .n_probes = f->n_probes,
				      .n_moved = plan.n_moved,
				      .n_stepped = plan.n_stepped,
				      .layer = plan.layer};

		probe->options.on_attach(probe->options.ctx, &a);
	}
	f->n_probes += n_users;
	if (f->n_probes && probe->options.modes)
		f->fd = gs_take_fd(&open.fd);
}

bool files_look_traced(const char *path)
{
	return strstr(path, "libcuda") || strstr(path, "libnccl") || strstr(path, "libtorch");
}

int files_use(struct gs_probe *probe, pid_t pid, const struct gs_mapped_file *file, bool *ret_new)
{
	pid_t only_pid = probe->by_process ? pid : 0;
	struct file *f = find(probe->files, file->id, only_pid);

	*ret_new = false;
	if (!f) {
		f = add(probe->files, file->id, only_pid);
		if (!f)
			return -ENOBUFS;
		attach_file(probe, f, file);
		*ret_new = f->n_probes > 0;
	}
	if (f->n_probes)
		add_user(f, pid);
	return 0;
}

void files_process_gone(struct gs_probe *probe, pid_t pid)
{
	struct file_table *t = probe->files;

	for (size_t i = 0; i < t->n; i++) {
		struct file *f = &t->files[i];

		for (size_t u = 0; u < f->n_users; u++) {
			if (f->users[u] != pid)
				continue;
			f->users[u] = f->users[--f->n_users];
			if (!f->n_users && !f->keep)
				f->unused_since_ns = gs_clock_mono_ns();
			break;
		}
	}
}

void files_sweep(struct gs_probe *probe)
{
	struct file_table *t = probe->files;
	uint64_t now = gs_clock_mono_ns();

	for (size_t i = 0; i < t->n;) {
		struct file *f = &t->files[i];

		if (!f->unused_since_ns || now - f->unused_since_ns < UNUSED_NS) {
			i++;
			continue;
		}
		gs_log(1, "no process uses inode %llu any more: %u probes removed",
		       (unsigned long long)f->id.ino, f->n_probes);
		links_release_numbers(&f->links, &probe->kernel);
		links_close(&f->links);
		gs_close_p(&f->fd);
		free(f->users);
		*f = t->files[--t->n];
	}
}

static bool is_attached(const struct file_table *t, uint16_t func)
{
	for (size_t i = 0; i < t->n; i++)
		if (links_have(&t->files[i].links, func))
			return true;
	return false;
}

void files_regroup(struct gs_probe *probe)
{
	struct file_table *t = probe->files;
	bool more = false;

	/* A function that is to go from now on asks for another round. */
	if (!atomic_exchange(&probe->regroup, false))
		return;
	for (size_t i = 0; i < t->n; i++) {
		struct file *f = &t->files[i];
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
		more |= links_regroup(probe, &f->links, path, f->only_pid);
	}
	for (unsigned func = 1; func < GS_FUNC_MAX; func++) {
		if (probe->off_told[func] || !files_is_off(probe, (uint16_t)func) ||
		    is_attached(t, (uint16_t)func))
			continue;
		probe->off_told[func] = true;
		probe->options.on_off(probe->options.ctx, func);
	}
	if (more)
		atomic_store(&probe->regroup, true);
}

unsigned files_count(const struct file_table *t, unsigned *ret_n_probes)
{
	unsigned n = 0;

	*ret_n_probes = 0;
	for (size_t i = 0; i < t->n; i++) {
		n += t->files[i].n_probes > 0;
		*ret_n_probes += t->files[i].n_probes;
	}
	return n;
}
