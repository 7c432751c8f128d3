/*
 * Copies of the files of nodes' flight recorders (store.recorder_dir), for nodes that are away when a user asks. Every ten
 * seconds, a thread lists the files of each connected node, copies new ones to FOLDER/NODE/NAME with their time and reason,
 * and removes the oldest copies to make room.
 */
#include "server/api/api_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "core/base/vec.h"

#define ROUND_NS   10000000000ull /* pause between two passes */
#define ANSWER_NS  5000000000ull  /* longest wait for an answer of a node */
#define PART       ".part"        /* suffix of a copy that is not complete */
#define COPIES_MAX 65536u
#define NODE_BYTES 24

struct copy {
	char place[NODE_BYTES + 256]; /* "NODE/NAME" */
	uint64_t bytes;
	int64_t wall_ns;
};

struct copies {
	struct copy *copy; /* owned; n of them, oldest first */
	size_t n, capacity;
	uint64_t bytes; /* of all */
};

struct api_keep {
	struct gs_api *api;
	int dir;
	uint64_t max_bytes;
	pthread_t thread;
	pthread_cond_t wake;          /* with the lock of the api */
	bool stop;                    /* protected by that lock */
	struct gs_head_answer answer; /* of the thread; the last one of a node */
};

static bool is_stopping(struct api_keep *k)
{
	bool stop;

	pthread_mutex_lock(&k->api->lock);
	stop = k->stop;
	pthread_mutex_unlock(&k->api->lock);
	return stop;
}

/* --- what there is --- */

static int oldest_first(const void *a, const void *b)
{
	const struct copy *x = a, *y = b;

	return x->wall_ns < y->wall_ns ? -1 : x->wall_ns > y->wall_ns;
}

static bool add_copies(int dir, const char *node, struct copies *to)
{
	int fd = openat(dir, node, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool there = true;

	if (!d) {
		gs_close_p(&fd);
		return true;
	}
	while (there && (e = readdir(d)) != NULL && to->n < COPIES_MAX) {
		struct copy *c;
		struct stat st;

		if (!api_recorder_name_valid(e->d_name) ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		there = gs_vec_reserve(&to->copy, &to->capacity, to->n + 1);
		if (!there)
			break;
		c = &to->copy[to->n++];
		*c = (struct copy){.bytes = (uint64_t)st.st_size,
				   .wall_ns = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
		snprintf(c->place, sizeof(c->place), "%s/%.255s", node, e->d_name);
		to->bytes += c->bytes;
	}
	closedir(d);
	return there;
}

static bool is_number(const char *text)
{
	return *text && strlen(text) < NODE_BYTES && strspn(text, "0123456789") == strlen(text);
}

/* Lists the copies of a node; 0: of all nodes. 0 or -ENOMEM. */
static int list_copies(int dir, int64_t node, struct copies *ret)
{
	char name[NODE_BYTES];
	const struct dirent *e;
	bool there = true;
	DIR *d;
	int fd;

	*ret = (struct copies){0};
	if (node) {
		snprintf(name, sizeof(name), "%lld", (long long)node);
		there = add_copies(dir, name, ret);
	} else {
		fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		d = fd < 0 ? NULL : fdopendir(fd);
		while (d && there && (e = readdir(d)) != NULL)
			if (is_number(e->d_name))
				there = add_copies(dir, e->d_name, ret);
		if (d)
			closedir(d);
		else
			gs_close_p(&fd);
	}
	if (ret->n)
		qsort(ret->copy, ret->n, sizeof(*ret->copy), oldest_first);
	return there ? 0 : -ENOMEM;
}

/* Removes as many copies older than wall_ns as needed. False: even that would not make room for so many bytes, and
 * nothing was removed. */
static bool make_room(struct api_keep *k, uint64_t bytes, int64_t wall_ns)
{
	struct copies all;
	uint64_t left = 0, freed = 0;
	bool fits = false;
	size_t n = 0;

	if (list_copies(k->dir, 0, &all) == 0 && bytes <= k->max_bytes) {
		left = all.bytes;
		while (left - freed + bytes > k->max_bytes && n < all.n &&
		       all.copy[n].wall_ns < wall_ns)
			freed += all.copy[n++].bytes;
		fits = left - freed + bytes <= k->max_bytes;
	}
	for (size_t i = 0; fits && i < n; i++)
		(void)unlinkat(k->dir, all.copy[i].place, 0);
	free(all.copy);
	return fits;
}

/* --- fetching --- */

static int ask_file(struct api_keep *k, int64_t node, const char *name, uint64_t offset)
{
	const struct gs_head_question q = {.kind = GS_HEAD_RECORDER_FILE,
					   .name = name,
					   .offset = offset,
					   .max_bytes = GS_HEAD_ANSWER_MAX};

	return gs_head_ask(k->api->o.head, node, &q, ANSWER_NS, &k->answer);
}

/* Writes the whole file to fd. False: it is not complete. */
static bool fetch_file(struct api_keep *k, int64_t node, const struct api_recorder_file *f, int fd)
{
	uint64_t at = 0;

	while (at < f->bytes || at == 0) {
		if (is_stopping(k) || ask_file(k, node, f->name, at) < 0 ||
		    k->answer.total_bytes != f->bytes)
			return false;
		for (size_t n = 0; n < k->answer.data.bytes;) {
			ssize_t w = write(fd, k->answer.data.data + n, k->answer.data.bytes - n);

			if (w < 0)
				return false;
			n += (size_t)w;
		}
		at += k->answer.data.bytes;
		if (!k->answer.data.bytes)
			break;
	}
	return at == f->bytes;
}

static void keep_file(struct api_keep *k, int64_t node, const struct api_recorder_file *f)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
					  {f->wall_ns / 1000000000, f->wall_ns % 1000000000}};
	char place[NODE_BYTES + 256], part[NODE_BYTES + 256 + sizeof(PART)];
	GS_CLOSE int fd = -1;
	struct stat st;

	snprintf(place, sizeof(place), "%lld/%s", (long long)node, f->name);
	if (fstatat(k->dir, place, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    !make_room(k, f->bytes, f->wall_ns))
		return;
	snprintf(part, sizeof(part), "%s" PART, place);
	(void)unlinkat(k->dir, part, 0);
	fd = openat(k->dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (!fetch_file(k, node, f, fd) || futimens(fd, times) < 0 ||
	    renameat(k->dir, part, k->dir, place) < 0) {
		(void)unlinkat(k->dir, part, 0);
		return;
	}
	(void)fsetxattr(fd, GS_OUTPUT_REASON_XATTR, f->reason, strlen(f->reason), 0);
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "copied %s of node %lld", f->name, (long long)node);
}

static void keep_node(struct api_keep *k, int64_t node)
{
	const struct gs_head_question q = {
		.kind = GS_HEAD_RECORDER, .name = "", .max_bytes = GS_HEAD_ANSWER_MAX};
	struct api_recorder_file f;
	char name[NODE_BYTES];
	json_t *whole, *entry;
	size_t i;

	if (gs_head_ask(k->api->o.head, node, &q, ANSWER_NS, &k->answer) < 0)
		return;
	whole = json_loadb((const char *)k->answer.data.data, k->answer.data.bytes, 0, NULL);
	snprintf(name, sizeof(name), "%lld", (long long)node);
	if (json_array_size(json_object_get(whole, "files")))
		(void)mkdirat(k->dir, name, 0700);
	json_array_foreach(json_object_get(whole, "files"), i, entry)
	{
		if (is_stopping(k))
			break;
		if (api_recorder_take_file(entry, &f))
			keep_file(k, node, &f);
	}
	json_decref(whole);
}

static void keep_all(struct api_keep *k)
{
	struct gs_registry_view *view = gs_registry_view(gs_head_cluster(k->api->o.head));

	for (size_t i = 0; view && i < gs_registry_view_count(view) && !is_stopping(k); i++) {
		const struct gs_registry_node *n = gs_registry_view_at(view, i);

		if (n->healthy)
			keep_node(k, n->id);
	}
	gs_registry_view_unref(&view);
}

static void *run_keep(void *arg)
{
	struct api_keep *k = arg;
	struct timespec due;
	uint64_t due_ns;

	while (!is_stopping(k)) {
		keep_all(k);
		due_ns = gs_clock_mono_ns() + ROUND_NS;
		due.tv_sec = (time_t)(due_ns / 1000000000);
		due.tv_nsec = (long)(due_ns % 1000000000);
		pthread_mutex_lock(&k->api->lock);
		while (!k->stop &&
		       pthread_cond_timedwait(&k->wake, &k->api->lock, &due) != ETIMEDOUT)
			;
		pthread_mutex_unlock(&k->api->lock);
	}
	return NULL;
}

/* --- life --- */

int api_keep_start(struct gs_api *a, struct gs_err *err)
{
	const char *folder = a->o.recorder_dir;
	struct api_keep *k;
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	if (!folder || !folder[0])
		return 0;
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "store.recorder_dir: cannot make %s: %s", folder,
				  strerror(errno));
	k = calloc(1, sizeof(*k));
	if (!k)
		return gs_err_set(err, -ENOMEM, "out of memory");
	k->api = a;
	k->max_bytes = a->o.recorder_max_bytes;
	k->answer.data = GS_BUF_INIT(GS_HEAD_ANSWER_MAX);
	k->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (k->dir < 0) {
		r = gs_err_set(err, -errno, "store.recorder_dir: %s: %s", folder, strerror(errno));
		free(k);
		return r;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&k->thread, NULL, run_keep, k);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		pthread_cond_destroy(&k->wake);
		close(k->dir);
		free(k);
		return gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	a->keep = k;
	return 0;
}

void api_keep_stop(struct gs_api *a)
{
	struct api_keep *k = a->keep;

	if (!k)
		return;
	pthread_mutex_lock(&a->lock);
	k->stop = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(k->thread, NULL);
	pthread_cond_destroy(&k->wake);
	gs_buf_fini(&k->answer.data);
	close(k->dir);
	free(k);
	a->keep = NULL;
}

/* --- serving copies --- */

bool api_keep_list(struct gs_api *a, int64_t node, struct gs_buf *b)
{
	struct copies own;
	bool there;

	if (!a->keep)
		return false;
	there = list_copies(a->keep->dir, node, &own) == 0 && own.n;
	for (size_t i = own.n; there && i-- > 0;) {
		const char *name = strchr(own.copy[i].place, '/') + 1;
		struct api_recorder_file f = {.bytes = own.copy[i].bytes,
					      .wall_ns = own.copy[i].wall_ns};
		GS_CLOSE int fd =
			openat(a->keep->dir, own.copy[i].place, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		ssize_t n = fgetxattr(fd, GS_OUTPUT_REASON_XATTR, f.reason, sizeof(f.reason) - 1);

		f.reason[n > 0 ? n : 0] = '\0';
		snprintf(f.name, sizeof(f.name), "%s", name);
		api_recorder_put_file(b, &f);
	}
	free(own.copy);
	return there;
}

int api_keep_open(struct gs_api *a, int64_t node, const char *name)
{
	char place[NODE_BYTES + 256];
	int fd;

	if (!a->keep || !api_recorder_name_valid(name))
		return -ENOENT;
	snprintf(place, sizeof(place), "%lld/%s", (long long)node, name);
	fd = openat(a->keep->dir, place, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}
