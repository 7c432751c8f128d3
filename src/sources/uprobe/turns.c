/*
 * Files wait for their turn by owner: each turn takes of each user what costs about as much as one
 * library. So a user who maps thousands of libraries waits for himself, and those of others get
 * their probes at once. What waits is a path and an identity; a list that is too long for one user
 * refuses more, counted.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/uprobe/uprobe_int.h"

#define AT_ONCE         8u
#define TURN_COST       1024u /* of what a user gets in one turn; in about 4 us */
#define ROOT_TIMES      8u    /* the system's own files are many */
#define FILE_COST       16u   /* to look at a file, */
#define LINKS_COST      256u  /* to make its links, and as much more as it has probes */
#define USERS_MAX       65536u
#define USER_BYTES      (1u << 20) /* of what waits, of one user */
#define ROOT_USER_BYTES (16u << 20)

struct waiting {
	struct waiting *next;
	struct gs_file_id id;
	uint32_t uid;
	pid_t pid;
	bool is_exe, is_late;
	uint64_t since_ns; /* monotonic; of one that is late */
	size_t bytes;
	const char *path; /* within texts */
	char texts[];     /* open_path and path */
};

struct waiting_list {
	struct waiting *first, **last; /* owned */
};

struct waiting_user {
	uint32_t uid;
	struct waiting_list named,
		others; /* by their names libraries of interest, which go first */
	size_t bytes;
	unsigned n_at_once; /* served as they came, since the last turn */
};

struct turns {
	struct waiting_user **users; /* owned */
	size_t n_users, capacity, n_waiting;
	struct gs_map user_of_uid; /* -> index */
};

struct turns *uprobe_turns_new(void)
{
	struct turns *t = calloc(1, sizeof(*t));

	if (t)
		t->user_of_uid = GS_MAP_INIT(USERS_MAX);
	return t;
}

static void list_fini(struct waiting_list *list)
{
	for (struct waiting *w = list->first, *next; w; w = next) {
		next = w->next;
		free(w);
	}
}

void uprobe_turns_free(struct turns **turns)
{
	struct turns *t = *turns;

	if (!t)
		return;
	for (size_t i = 0; i < t->n_users; i++) {
		list_fini(&t->users[i]->named);
		list_fini(&t->users[i]->others);
		free(t->users[i]);
	}
	free(t->users);
	gs_map_fini(&t->user_of_uid);
	free(t);
	*turns = NULL;
}

static struct waiting_user *user_of(struct turns *t, uint32_t uid)
{
	struct waiting_user *user;
	uint64_t i;

	if (gs_map_get(&t->user_of_uid, uid, &i))
		return t->users[i];
	if (!gs_vec_reserve(&t->users, &t->capacity, t->n_users + 1))
		return NULL;
	user = calloc(1, sizeof(*user));
	if (!user || gs_map_put(&t->user_of_uid, uid, t->n_users) < 0) {
		free(user);
		return NULL;
	}
	user->uid = uid;
	user->named.last = &user->named.first;
	user->others.last = &user->others.first;
	t->users[t->n_users++] = user;
	return user;
}

/* The process has ended before its turn. False: its file cannot be reached any more. */
static bool reach_gone(struct gs_uprobe *probe, const struct waiting *w,
		       struct gs_mapped_file *file)
{
	struct stat st;

	if (strlen(w->path) < sizeof(file->open_path) && stat(w->path, &st) == 0 &&
	    st.st_dev == w->id.dev && st.st_ino == w->id.ino) {
		strcpy(file->open_path, w->path);
		return true;
	}
	if (uprobe_files_scan_traced(w->path) && !probe->options.comm && probe->options.on_late)
		probe->options.on_late(probe->options.ctx, w->path, 0, 0);
	return false;
}

/* What it cost. */
static unsigned serve_one(struct gs_uprobe *probe, struct waiting_user *user)
{
	struct waiting_list *list = user->named.first ? &user->named : &user->others;
	GS_FREE struct waiting *w = list->first;
	struct gs_mapped_file file = {
		.id = w->id, .uid = w->uid, .path = w->path, .is_exe = w->is_exe};
	bool is_new, is_gone = w->pid > 0 && kill(w->pid, 0) < 0 && errno == ESRCH;
	unsigned n_probes = 0;

	list->first = w->next;
	if (!list->first)
		list->last = &list->first;
	user->bytes -= w->bytes;
	probe->turns->n_waiting--;
	strcpy(file.open_path, w->texts); /* it came from such a field */
	if (is_gone && !reach_gone(probe, w, &file))
		return FILE_COST;
	n_probes = uprobe_files_use(probe, w->pid, &file, &is_new) < 0
			   ? 0
			   : uprobe_files_n_probes(probe, w->pid, &file);
	/* The notice of its end may have come before its turn. */
	if (is_gone)
		uprobe_files_process_gone(probe, w->pid);
	if (is_new && w->is_late && probe->options.on_late && uprobe_target_is_named(probe, w->pid))
		probe->options.on_late(probe->options.ctx, w->path, w->pid,
				       gs_clock_mono_ns() - w->since_ns);
	return FILE_COST + (is_new ? LINKS_COST + n_probes : 0);
}

/* One turn. */
static void serve_user(struct gs_uprobe *probe, struct waiting_user *user)
{
	unsigned most = user->uid ? TURN_COST : ROOT_TIMES * TURN_COST, cost = 0;

	while ((user->named.first || user->others.first) && cost < most && !gs_guard_stopped())
		cost += serve_one(probe, user);
}

void uprobe_turns_add(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file,
		      uint64_t late_since_ns)
{
	size_t open_bytes = strlen(file->open_path) + 1, path_bytes = strlen(file->path) + 1;
	struct waiting_list *list;
	struct waiting_user *user;
	struct waiting *w;
	bool alone;

	if (uprobe_files_known(probe, pid, file))
		return;
	user = user_of(probe->turns, file->uid);
	if (!user || user->bytes > (file->uid ? USER_BYTES : ROOT_USER_BYTES)) {
		gs_guard_refuse(GS_REFUSED_USER_FILES, 1, file->path);
		return;
	}
	w = malloc(sizeof(*w) + open_bytes + path_bytes);
	if (!w)
		return;
	*w = (struct waiting){.id = file->id,
			      .uid = file->uid,
			      .pid = pid,
			      .is_exe = file->is_exe,
			      .is_late = late_since_ns != 0,
			      .since_ns = late_since_ns,
			      .bytes = sizeof(*w) + open_bytes + path_bytes};
	memcpy(w->texts, file->open_path, open_bytes);
	memcpy(w->texts + open_bytes, file->path, path_bytes);
	w->path = w->texts + open_bytes;
	list = uprobe_files_scan_traced(file->path) ? &user->named : &user->others;
	alone = !user->named.first && !user->others.first;
	*list->last = w;
	list->last = &w->next;
	user->bytes += w->bytes;
	probe->turns->n_waiting++;
	/* A process that has just mapped it is about to call: few of one user do not wait. */
	if (late_since_ns && alone && user->n_at_once++ < AT_ONCE)
		serve_one(probe, user);
}

size_t uprobe_turns_n_waiting(const struct turns *t)
{
	return t->n_waiting;
}

bool uprobe_turns_serve(struct gs_uprobe *probe, unsigned n)
{
	struct turns *t = probe->turns;

	for (size_t i = 0; i < t->n_users; i++)
		t->users[i]->n_at_once = 0;
	for (unsigned turn = 0; turn < n && t->n_waiting; turn++)
		for (size_t i = 0; i < t->n_users; i++) {
			if (gs_guard_stopped())
				return t->n_waiting > 0;
			serve_user(probe, t->users[i]);
		}
	return t->n_waiting > 0;
}
