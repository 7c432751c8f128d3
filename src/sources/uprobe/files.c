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
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/elf/torch_name.h"
#include "model/trace/func.h"
#include "model/trace/library.h"
#include "sources/attach_plan/remote.h"
#include "sources/uprobe/uprobe_int.h"

#define MAX_FILES   65536u
#define USER_FILES  256u   /* that have probes, of one user, */
#define USER_PROBES 65536u /* and their probes */
#define ROOT_TIMES  8u     /* what belongs to root is trusted with more */
#define USERS_MAX   65536u
#define UNUSED_NS   30000000000ull /* probes stay this long on a file that no process uses */

struct file {
	struct gs_file_id id;
	uint32_t uid;   /* of its owner */
	pid_t only_pid; /* 0: for all processes */
	int fd;         /* owned: of one whose functions may be taken off; else -1 */
	struct links links;
	unsigned n_probes;
	pid_t *users; /* owned; processes known to use it */
	size_t n_users;
	bool keep;                /* attached ahead of a command: no user yet */
	uint64_t unused_since_ns; /* monotonic; 0: in use */
};

struct file_user {
	unsigned n_files, n_probes;
};

struct file_table {
	struct file *files; /* owned */
	size_t n, capacity;
	struct gs_map at;        /* hash of identity and pid -> index of files */
	struct gs_map user_at;   /* uid -> index of users */
	struct file_user *users; /* owned */
	size_t n_users, capacity_users;
};

struct file_table *uprobe_files_new(void)
{
	struct file_table *t = calloc(1, sizeof(*t));

	if (t) {
		t->at = GS_MAP_INIT(MAX_FILES);
		t->user_at = GS_MAP_INIT(USERS_MAX);
	}
	return t;
}

/* What the owner has by now; NULL: no memory. Good until the next call. */
static struct file_user *user_of(struct file_table *t, uint32_t uid)
{
	uint64_t i;

	if (gs_map_get(&t->user_at, uid, &i))
		return &t->users[i];
	if (!gs_vec_reserve(&t->users, &t->capacity_users, t->n_users + 1))
		return NULL;
	if (gs_map_put(&t->user_at, uid, t->n_users) < 0)
		return NULL;
	t->users[t->n_users] = (struct file_user){0};
	return &t->users[t->n_users++];
}

void uprobe_files_free(struct file_table **table, struct links *ret_links)
{
	struct file_table *t = *table;

	for (size_t i = 0; t && i < t->n; i++) {
		uprobe_links_move(ret_links, &t->files[i].links);
		gs_close_p(&t->files[i].fd);
		free(t->files[i].users);
	}
	if (t) {
		gs_map_fini(&t->at);
		gs_map_fini(&t->user_at);
		free(t->users);
		free(t->files);
	}
	free(t);
	*table = NULL;
}

static uint64_t key_of(struct gs_file_id id, pid_t only_pid)
{
	const uint64_t key[3] = {id.dev, id.ino, (uint64_t)only_pid};

	return gs_hash_bytes(key, sizeof(key));
}

static struct file *find_file(struct file_table *t, struct gs_file_id id, pid_t only_pid)
{
	uint64_t i;

	/* Two files of one hash are met once in 2^64. */
	return gs_map_get(&t->at, key_of(id, only_pid), &i) ? &t->files[i] : NULL;
}

static void forget_file(struct file_table *t, struct file *f)
{
	struct file *last = &t->files[t->n - 1];

	gs_map_del(&t->at, key_of(f->id, f->only_pid));
	gs_close_p(&f->fd);
	free(f->users);
	if (f != last) {
		*f = *last;
		gs_map_put(&t->at, key_of(f->id, f->only_pid), (uint64_t)(f - t->files));
	}
	t->n--;
}

/* Those without probes only save looking at them again. */
static void forget_plain(struct file_table *t)
{
	for (size_t i = t->n; i-- > 0;)
		if (!t->files[i].n_probes)
			forget_file(t, &t->files[i]);
}

static struct file *add_file(struct file_table *t, struct gs_file_id id, pid_t only_pid)
{
	if (t->n == MAX_FILES)
		forget_plain(t);
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
	if (gs_map_put(&t->at, key_of(id, only_pid), t->n) < 0)
		return NULL;
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

void uprobe_files_report_failure(struct gs_uprobe *probe, const char *path, const char *function,
				 const char *reason, int status, uint32_t layer)
{
	struct gs_attach a = {.path = path,
			      .function = function,
			      .reason = reason,
			      .status = status,
			      .layer = layer};

	probe->options.on_attach(probe->options.ctx, &a);
}

const char *uprobe_files_reason_of(int status)
{
	switch (status) {
	case -EOPNOTSUPP:
	case -524: /* ENOTSUPP, the kernel's own */
		return "the kernel cannot probe the instruction there";
	case -EINVAL:
		return "the kernel refused the place";
	case -EBUSY:
		return "the kernel has refused too many places of this file";
	case -ECANCELED:
		return "the run ended before";
	default:
		return strerror(-status);
	}
}

/* A file that comes when the function is gone already. */
bool uprobe_files_is_off(const struct gs_uprobe *probe, uint16_t func)
{
	return probe->options.modes && probe->kernel.modes->mode[func] == GS_MODE_OFF;
}

void uprobe_files_report_cost(struct gs_uprobe *probe, const struct gs_attach_plan_place *p,
			      const struct gs_user_row *row)
{
	struct gs_hit hit = {.kind = GS_COST_CALL};

	if (!probe->options.on_function || !p->func)
		return;
	if (row) {
		hit.kind = p->has_return || p->cookie & (GS_COOKIE_BY_EXITS | GS_COOKIE_EXIT)
				   ? GS_COST_USER
				   : GS_COST_PLACE;
		for (unsigned i = 0; i < row->n_values; i++)
			hit.n_values += row->values[i].n_chain > 0;
		hit.n_texts = row->n_texts;
	} else if (p->family == GS_FAMILY_PYCALL) {
		hit.kind = GS_COST_PYTHON;
	} else if (p->family > GS_FAMILY_MPI) {
		hit.kind = GS_COST_SCOPE;
	} else if (uprobe_leaves_first_calls(probe)) {
		hit.is_kept = gs_func_by_id(p->func)->desc.post >= GS_POST_SET_DEVICE;
		hit.is_watched = p->cookie & GS_COOKIE_WATCHED;
	}
	probe->options.on_function(probe->options.ctx, p->func, &hit);
}

/* Which of the chosen names of operators the file has. */
static void note_operators(struct gs_uprobe *probe, const struct gs_attach_plan *plan)
{
	const struct gs_uprobe_options *o = &probe->options;

	for (size_t i = 0; i < plan->n; i++) {
		const struct gs_attach_plan_place *p = &plan->places[i];
		const struct gs_func *func = gs_func_set_get(o->funcs, p->func);
		const char *name = p->family == GS_FAMILY_SPAN            ? GS_TORCH_SPANS
				   : p->family == GS_FAMILY_TORCH && func ? func->name
									  : NULL;

		for (size_t op = 0; name && op < o->n_ops && op < 64; op++)
			if (gs_torch_matches(o->ops[op], name))
				probe->ops_found |= 1ull << op;
	}
}

void uprobe_files_report_missing_ops(struct gs_uprobe *probe)
{
	const struct gs_uprobe_options *o = &probe->options;

	for (size_t op = 0; probe->ops_found && op < o->n_ops && op < 64; op++)
		if (!(probe->ops_found >> op & 1))
			uprobe_files_report_failure(probe, "PyTorch", o->ops[op],
						    "no library that was used has such an operator",
						    -ENOENT, GS_LAYER_TORCH);
}

/* One family's places of the plan. */
static int attach_family(struct gs_uprobe *probe, struct file *f, const struct gs_mapped_file *file,
			 const struct gs_attach_plan *plan, enum gs_family family)
{
	GS_FREE struct gs_attach_plan_place *places = calloc(plan->n + 1, sizeof(*places));
	GS_FREE int *status = calloc(plan->n + 1, sizeof(*status));
	size_t n = 0;
	int done;

	for (size_t i = 0; places && i < plan->n; i++)
		if (plan->places[i].family == family) {
			if (!uprobe_files_is_off(probe, plan->places[i].func)) {
				places[n++] = plan->places[i];
				continue;
			}
			probe->off_somewhere[plan->places[i].func] = true;
			atomic_store(&probe->regroup, true);
		}
	if (!n || !status)
		return 0;
	done = uprobe_links_attach(&f->links, &probe->kernel, &probe->features, family,
				   file->open_path, f->only_pid, places, n, status);
	if (done < 0) {
		uprobe_files_report_failure(probe, file->path, NULL, uprobe_files_reason_of(done),
					    done, plan->layer);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct gs_func *func =
			family == GS_FAMILY_UNWIND
				? NULL
				: gs_func_set_get(probe->options.funcs, places[i].func);

		if (status[i] == 0)
			uprobe_files_report_cost(probe, &places[i], NULL);
		else
			uprobe_files_report_failure(probe, file->path,
						    func ? func->name : "the unwinder",
						    uprobe_files_reason_of(status[i]), status[i],
						    func ? func->desc.layer : 0);
	}
	return done;
}

/* Where it has functions of interest, as a process without rights finds, or this one when there is
 * none such. */
static int plan_file(struct gs_uprobe *probe, const struct gs_mapped_file *file, int fd,
		     struct gs_attach_plan *plan, struct gs_err *err)
{
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	GS_CLOSE int own = -1;
	int r;

	if (probe->options.reader)
		return gs_attach_plan_ask(plan, probe->options.reader, &probe->selection,
					  &probe->plan, file, fd, err);
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = gs_elf_open_fd(&own, file->path, false, &elf, err);
	return r < 0 ? r
		     : gs_attach_plan_file(plan, &probe->selection, &probe->plan, file, elf, err);
}

static unsigned probes_left(struct gs_uprobe *probe, uint32_t uid)
{
	const struct file_user *user = user_of(probe->files, uid);
	unsigned most = uid ? USER_PROBES : ROOT_TIMES * USER_PROBES;

	return user && user->n_probes < most ? most - user->n_probes : 0;
}

static bool may_have_more(struct gs_uprobe *probe, uint32_t uid)
{
	const struct file_user *user = user_of(probe->files, uid);

	return user && user->n_files < (uid ? USER_FILES : ROOT_TIMES * USER_FILES);
}

static void attach_file(struct gs_uprobe *probe, struct file *f, const struct gs_mapped_file *seen)
{
	const struct gs_foreign_want want = {.dev = seen->id.dev, .ino = seen->id.ino};
	GS_FOREIGN_CLOSE struct gs_foreign opened = GS_FOREIGN_INIT;
	struct gs_mapped_file held = *seen, *file = &held;
	struct gs_err err = {{0}};
	unsigned n_users;
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	int r = gs_foreign_open(seen->open_path, &want, &opened);

	/* The way through /proc/PID ends with the process, which may be before we are done here;
	 * probes then still serve the next one that uses the file. */
	snprintf(held.open_path, sizeof(held.open_path), "/proc/self/fd/%d", opened.fd);
	if (r == 0 && (probe->selection.n || probe->selection.scopes))
		r = plan_file(probe, file, opened.fd, &plan, &err);
	else if (r < 0)
		gs_err_set(&err, r, "%s", gs_foreign_reason(r));
	if (r == 0 && plan.n > probes_left(probe, opened.uid)) {
		gs_guard_refuse(GS_REFUSED_USER_PROBES, 1, file->path);
		return;
	}
	if (r < 0) {
		/* Most files that are mapped executable are none of ours; only what looks like one
		 * by its name is worth a word. */
		if (uprobe_files_scan_traced(file->path) || r == -ETIME || r == -EIO ||
		    r == -EBADMSG)
			uprobe_files_report_failure(probe, file->path, NULL, gs_err_text(&err, r),
						    r, 0);
		return;
	}
	note_operators(probe, &plan);
	f->n_probes += (unsigned)attach_family(probe, f, file, &plan, GS_FAMILY_UNWIND);
	for (int family = 0; family < GS_FAMILY_UNWIND; family++)
		f->n_probes += (unsigned)attach_family(probe, f, file, &plan, family);
	n_users = uprobe_users_attach(probe, &f->links, file, f->only_pid);
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
		f->fd = gs_take_fd(&opened.fd);
}

bool uprobe_files_scan_traced(const char *path)
{
	return gs_layer_file_is_cuda(path) || strstr(path, "libtorch");
}

/* The file's probes are there (1), or go (-1). */
static void count_user(struct file_table *t, const struct file *f, int sign)
{
	struct file_user *user = f->n_probes ? user_of(t, f->uid) : NULL;

	if (!user)
		return;
	user->n_files += (unsigned)sign;
	user->n_probes += (unsigned)sign * f->n_probes;
}

int uprobe_files_use(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file,
		     bool *ret_new)
{
	pid_t only_pid = probe->by_process ? pid : 0;
	struct file *f = find_file(probe->files, file->id, only_pid);

	*ret_new = false;
	if (!f) {
		if (gs_guard_stopped())
			return -ECANCELED;
		/* Not remembered: there may be room when it is mapped again. */
		if (!may_have_more(probe, file->uid)) {
			gs_guard_refuse(GS_REFUSED_USER_FILES, 1, file->path);
			return -EDQUOT;
		}
		f = add_file(probe->files, file->id, only_pid);
		if (!f) {
			gs_guard_refuse(GS_REFUSED_MEMORY, 1, file->path);
			return -ENOBUFS;
		}
		f->uid = file->uid;
		attach_file(probe, f, file);
		*ret_new = f->n_probes > 0;
		count_user(probe->files, f, 1);
	}
	if (f->n_probes)
		add_user(f, pid);
	return 0;
}

unsigned uprobe_files_n_probes(struct gs_uprobe *probe, pid_t pid,
			       const struct gs_mapped_file *file)
{
	const struct file *f = find_file(probe->files, file->id, probe->by_process ? pid : 0);

	return f ? f->n_probes : 0;
}

bool uprobe_files_is_plain(const struct gs_uprobe *probe, struct gs_file_id id)
{
	const struct file *f = probe->by_process ? NULL : find_file(probe->files, id, 0);

	return f && !f->n_probes;
}

bool uprobe_files_known(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file)
{
	struct file *f = find_file(probe->files, file->id, probe->by_process ? pid : 0);

	if (f && f->n_probes)
		add_user(f, pid);
	return f;
}

void uprobe_files_process_gone(struct gs_uprobe *probe, pid_t pid)
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

void uprobe_files_sweep(struct gs_uprobe *probe)
{
	struct file_table *t = probe->files;
	uint64_t now = gs_clock_mono_ns();
	struct links gone = {0};

	for (size_t i = 0; i < t->n;) {
		struct file *f = &t->files[i];

		if (!f->unused_since_ns || now - f->unused_since_ns < UNUSED_NS) {
			i++;
			continue;
		}
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "no process uses inode %llu any more: %u probes removed",
		       (unsigned long long)f->id.ino, f->n_probes);
		uprobe_links_release_numbers(&f->links, &probe->kernel);
		uprobe_links_move(&gone, &f->links);
		count_user(t, f, -1);
		forget_file(t, f);
	}
	if (gone.n)
		uprobe_links_close_many(&gone);
}

static bool is_leaving(const struct file_table *t, uint16_t func)
{
	for (size_t i = 0; i < t->n; i++)
		if (uprobe_links_will_lose(&t->files[i].links, func))
			return true;
	return false;
}

/* is_over: also of those that are on their way, who go no further. */
static void report_off(struct gs_uprobe *probe, bool is_over)
{
	for (unsigned func = 1; func < GS_FUNC_MAX; func++) {
		if (probe->off_reported[func] || !probe->off_somewhere[func] ||
		    (!is_over && is_leaving(probe->files, (uint16_t)func)))
			continue;
		probe->off_reported[func] = true;
		probe->options.on_off(probe->options.ctx, func);
	}
}

void uprobe_files_regroup_end(struct gs_uprobe *probe)
{
	report_off(probe, true);
}

void uprobe_files_regroup(struct gs_uprobe *probe)
{
	struct file_table *t = probe->files;
	bool more = false;

	/* A function that is to go from now on asks for another round. */
	if (!atomic_exchange(&probe->regroup, false))
		return;
	/* Those that are used first: each takes the kernel some ms. */
	for (size_t i = 0; i < 2 * t->n; i++) {
		struct file *f = &t->files[i % t->n];
		char path[64];

		if ((i < t->n) != (f->n_users > 0))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
		more |= uprobe_links_regroup(probe, &f->links, path, f->only_pid);
	}
	report_off(probe, false);
	if (more)
		atomic_store(&probe->regroup, true);
}

unsigned uprobe_files_count(const struct file_table *t, unsigned *ret_n_probes)
{
	unsigned n = 0;

	*ret_n_probes = 0;
	for (size_t i = 0; i < t->n; i++) {
		n += t->files[i].n_probes > 0;
		*ret_n_probes += t->files[i].n_probes;
	}
	return n;
}
