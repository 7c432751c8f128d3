/*
 * The shares are buckets: what a file or a user may have read at once, and what grows back in a
 * second. Sizes come from what honest programs need: finding the functions of a library of 450 MB
 * with all operators of PyTorch reads some 300 MB of it, a look at one function's row or name some
 * KB; a user with ten such libraries is served at once. Of processor time such a library takes some
 * hundred ms, the mappings of a process with PyTorch some 10 ms.
 */
#include "core/base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define FILE_TIMES      4u         /* a file may be read so many times at once */
#define FILE_MIN_BYTES  (8u << 20) /* and a small one so much */
#define FILE_MAX_BYTES  (1ull << 30)
#define FILE_PER_S      (16u << 20)
#define USER_MAX_BYTES  (4ull << 30)
#define USER_PER_S      (32u << 20)
#define USER_MAX_NS     10000000000ull /* of processor time, at once */
#define USER_NS_PER_S   50000000u
#define ROOT_TIMES      16u /* what belongs to root is trusted with more */
#define USERS_MAX       65536u
#define READ_COST_BYTES 256u       /* a call costs as much as so many bytes */
#define CHECK_BYTES     (1u << 20) /* stop is asked at least so often, */
#define CHECK_READS     64u        /* and so */
#define CHECK_STEPS     256u       /* of a loop, processor time is looked at */

struct share {
	uint64_t left, filled_ns;
};

struct user {
	struct share bytes, time_ns;
};

struct gs_guard {
	struct gs_guard_options options;
	struct gs_map user_of_uid; /* -> index */
	struct user *users;        /* owned */
	size_t n_users, capacity;
	uint64_t read_bytes, checked_bytes, time_ns;
	unsigned n_reads;
	bool stopped;
	uint64_t refused[GS_REFUSED_COUNT], n_refused;
	char what[GS_REFUSED_COUNT][160];
};

static _Thread_local struct gs_guard *current;

const char *gs_refused_words(enum gs_refused cause)
{
	static const char *const words[GS_REFUSED_COUNT] = {
		[GS_REFUSED_FILE_BYTES] = "files that cost too much to read",
		[GS_REFUSED_USER_BYTES] = "files of a user whose share of reading is used up",
		[GS_REFUSED_USER_TIME] =
			"files and processes of a user whose share of processor time is used up",
		[GS_REFUSED_USER_FILES] = "files beyond those that one user may have probed",
		[GS_REFUSED_USER_PROBES] = "files beyond the probes that one user may have",
		[GS_REFUSED_KIND] = "files that are not regular, or were replaced",
		[GS_REFUSED_DEBUG] = "debug files that are not trusted",
		[GS_REFUSED_MEMORY] = "tables beyond the memory for them",
		[GS_REFUSED_NAMES] = "names of generated code beyond the memory for them",
	};

	return cause > 0 && cause < GS_REFUSED_COUNT ? words[cause] : "";
}

int gs_guard_new(const struct gs_guard_options *options, struct gs_guard **ret_guard)
{
	struct gs_guard *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->options = *options;
	g->user_of_uid = GS_MAP_INIT(USERS_MAX);
	*ret_guard = g;
	return 0;
}

void gs_guard_free(struct gs_guard **guard)
{
	struct gs_guard *g = *guard;

	if (!g)
		return;
	if (current == g)
		current = NULL;
	gs_map_fini(&g->user_of_uid);
	free(g->users);
	free(g);
	*guard = NULL;
}

struct gs_guard *gs_guard_enter(struct gs_guard *guard)
{
	struct gs_guard *before = current;

	current = guard;
	return before;
}

void gs_guard_set_deadline(struct gs_guard *guard, uint64_t mono_ns)
{
	guard->options.deadline_mono_ns = mono_ns;
	guard->stopped = false;
}

bool gs_guard_stopped(void)
{
	struct gs_guard *g = current;

	if (!g)
		return false;
	if (!g->stopped)
		g->stopped = (g->options.stop && g->options.stop(g->options.ctx)) ||
			     (g->options.deadline_mono_ns &&
			      gs_clock_mono_ns() >= g->options.deadline_mono_ns);
	return g->stopped;
}

void gs_guard_refuse(enum gs_refused cause, uint64_t count, const char *what)
{
	struct gs_guard *g = current;

	if (!g || !count)
		return;
	if (!g->refused[cause] && what)
		snprintf(g->what[cause], sizeof(g->what[cause]), "%s", what);
	g->refused[cause] += count;
	g->n_refused += count;
}

uint64_t gs_guard_refused(struct gs_guard *guard, enum gs_refused cause, char *ret_what,
			  size_t bytes)
{
	uint64_t n = guard->refused[cause];

	snprintf(ret_what, bytes, "%s", n ? guard->what[cause] : "");
	guard->refused[cause] = 0;
	guard->what[cause][0] = '\0';
	return n;
}

uint64_t gs_guard_n_refused(void)
{
	return current ? current->n_refused : 0;
}

uint64_t gs_guard_bytes_read(const struct gs_guard *guard)
{
	return guard->read_bytes;
}

uint64_t gs_guard_time_ns(const struct gs_guard *guard)
{
	return guard->time_ns;
}

void gs_guard_log_costs(const struct gs_guard *a, const struct gs_guard *b)
{
	gs_log(GS_LOG_INFO, GS_LOG_FILES,
	       "files of traced programs: %llu KiB read; %llu ms of processor time for them",
	       (unsigned long long)(a->read_bytes + b->read_bytes) >> 10,
	       (unsigned long long)(a->time_ns + b->time_ns) / 1000000);
}

/* ---- shares ---- */

/* What it holds at most, and what has grown back since it was looked at. */
static void share_fill(struct share *s, uint64_t most, uint64_t per_s)
{
	uint64_t now = gs_clock_mono_ns(), passed_ms = (now - s->filled_ns) / 1000000, grown;

	s->filled_ns += passed_ms * 1000000; /* what is left of a ms counts the next time */
	if (passed_ms > 1000000)             /* long enough for any share */
		passed_ms = 1000000;
	grown = passed_ms * (per_s / 1000);
	s->left = s->left > most || grown > most - s->left ? most : s->left + grown;
}

static bool share_take(struct share *s, uint64_t amount, uint64_t most, uint64_t per_s)
{
	if (s->left < amount)
		share_fill(s, most, per_s);
	if (s->left < amount)
		return false;
	s->left -= amount;
	return true;
}

/* What has been used already. False: nothing is left. */
static bool share_use(struct share *s, uint64_t amount, uint64_t most, uint64_t per_s)
{
	share_fill(s, most, per_s);
	s->left -= amount < s->left ? amount : s->left;
	return s->left > 0;
}

static uint64_t file_share(const struct gs_foreign *file)
{
	uint64_t most = file->uid ? FILE_MAX_BYTES : ROOT_TIMES * FILE_MAX_BYTES, want;

	want = file->bytes > most / FILE_TIMES ? most : FILE_TIMES * file->bytes;
	return want < FILE_MIN_BYTES ? FILE_MIN_BYTES : want;
}

static uint64_t limit_of_user(uint32_t uid)
{
	return uid ? 1 : ROOT_TIMES;
}

/* NULL: no memory, or more users than any machine has. */
static struct user *user_of(struct gs_guard *g, uint32_t uid)
{
	uint64_t i;

	if (gs_map_get(&g->user_of_uid, uid, &i))
		return &g->users[i];
	if (!gs_vec_reserve(&g->users, &g->capacity, g->n_users + 1))
		return NULL;
	if (gs_map_put(&g->user_of_uid, uid, g->n_users) < 0)
		return NULL;
	g->users[g->n_users] =
		(struct user){.bytes = {limit_of_user(uid) * USER_MAX_BYTES, gs_clock_mono_ns()},
			      .time_ns = {limit_of_user(uid) * USER_MAX_NS, gs_clock_mono_ns()}};
	return &g->users[g->n_users++];
}

int gs_guard_charge(uint32_t uid, uint64_t bytes)
{
	struct gs_guard *g = current;
	struct user *user;
	char what[64];

	if (!g)
		return 0;
	if (gs_guard_stopped())
		return -ECANCELED;
	g->read_bytes += bytes;
	user = user_of(g, uid);
	if (user && share_use(&user->bytes, bytes, limit_of_user(uid) * USER_MAX_BYTES,
			      limit_of_user(uid) * USER_PER_S))
		return 0;
	snprintf(what, sizeof(what), "a file of user %u", uid);
	if (!bytes)
		gs_guard_refuse(GS_REFUSED_USER_BYTES, 1, what);
	return -EDQUOT;
}

int gs_guard_charge_time(uint32_t uid, uint64_t cpu_ns, const char *what)
{
	struct gs_guard *g = current;
	struct user *user;

	if (!g)
		return 0;
	if (gs_guard_stopped())
		return -ECANCELED;
	g->time_ns += cpu_ns;
	user = user_of(g, uid);
	if (user && share_use(&user->time_ns, cpu_ns, limit_of_user(uid) * USER_MAX_NS,
			      limit_of_user(uid) * USER_NS_PER_S))
		return 0;
	if (!cpu_ns)
		gs_guard_refuse(GS_REFUSED_USER_TIME, 1, what);
	return -EDQUOT;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
		       ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec
		       : 0;
}

int gs_guard_begin(struct gs_guard_work *w, uint32_t uid, const char *what)
{
	*w = (struct gs_guard_work){.uid = uid, .from_ns = thread_cpu_ns()};
	snprintf(w->what, sizeof(w->what), "%s", what);
	return gs_guard_charge_time(uid, 0, w->what);
}

int gs_guard_step(struct gs_guard_work *w)
{
	uint64_t now;
	int r;

	if (++w->n_steps % CHECK_STEPS)
		return gs_guard_stopped() ? -ECANCELED : 0;
	now = thread_cpu_ns();
	r = gs_guard_charge_time(w->uid, now - w->from_ns, NULL);
	w->from_ns = now;
	if (r == -EDQUOT)
		gs_guard_refuse(GS_REFUSED_USER_TIME, 1, w->what);
	return r;
}

void gs_guard_end(struct gs_guard_work *w)
{
	uint64_t now = thread_cpu_ns();

	if (now > w->from_ns)
		(void)gs_guard_charge_time(w->uid, now - w->from_ns, NULL);
	w->from_ns = now;
}

static void count_refused(struct gs_foreign *file, enum gs_refused cause)
{
	char what[64];

	if (!file->refused) {
		snprintf(what, sizeof(what), "inode %llu of user %u", (unsigned long long)file->ino,
			 file->uid);
		gs_guard_refuse(cause, 1, what);
	}
	file->refused = true;
}

/* May so much be read now? */
static int charge_bytes(struct gs_foreign *file, size_t bytes)
{
	struct share own = {file->left_bytes, file->filled_ns};
	struct gs_guard *g = current;
	struct user *user;

	if (bytes < READ_COST_BYTES)
		bytes = READ_COST_BYTES;

	if (g) {
		g->read_bytes += bytes;
		if (g->read_bytes - g->checked_bytes >= CHECK_BYTES ||
		    ++g->n_reads >= CHECK_READS) {
			g->checked_bytes = g->read_bytes;
			g->n_reads = 0;
			gs_guard_stopped();
		}
		if (g->stopped)
			return -ECANCELED;
		user = user_of(g, file->uid);
		if (!user ||
		    !share_take(&user->bytes, bytes, limit_of_user(file->uid) * USER_MAX_BYTES,
				limit_of_user(file->uid) * USER_PER_S)) {
			count_refused(file, GS_REFUSED_USER_BYTES);
			return -EDQUOT;
		}
	}
	if (!share_take(&own, bytes, file_share(file), FILE_PER_S)) {
		count_refused(file, GS_REFUSED_FILE_BYTES);
		return -EDQUOT;
	}
	file->left_bytes = own.left;
	file->filled_ns = own.filled_ns;
	return 0;
}

/* ---- files ---- */

static int check_kind(const struct stat *st, const struct gs_foreign_want *want)
{
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if (want && want->ino && (want->ino != st->st_ino || want->dev != st->st_dev))
		return -ESTALE;
	if (want && want->max_bytes && (uint64_t)st->st_size > want->max_bytes)
		return -EFBIG;
	return 0;
}

static int file_adopt(int *fd, const struct stat *st, struct gs_foreign *ret_file)
{
	*ret_file = (struct gs_foreign){
		.fd = gs_take_fd(fd),
		.uid = st->st_uid,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.bytes = (uint64_t)st->st_size,
		.filled_ns = gs_clock_mono_ns(),
	};
	ret_file->left_bytes = file_share(ret_file);
	return 0;
}

int gs_foreign_adopt(int *fd, const struct gs_foreign_want *want, struct gs_foreign *ret_file)
{
	GS_CLOSE int own = gs_take_fd(fd);
	struct stat st;
	int r;

	*ret_file = GS_FOREIGN_INIT;
	if (fstat(own, &st) < 0)
		return -errno;
	r = check_kind(&st, want);
	return r < 0 ? r : file_adopt(&own, &st, ret_file);
}

/* at: a handle that opens nothing: whatever it leads to, a device or a FIFO, is not touched. What is
 * opened then is what was looked at, wherever the path leads by now. */
static int file_open_handle(int at, const char *path, const struct gs_foreign_want *want,
			    struct gs_foreign *ret_file)
{
	GS_CLOSE int fd = -1;
	struct stat st;
	char self[32];
	int r;

	*ret_file = GS_FOREIGN_INIT;
	if (at < 0 || fstat(at, &st) < 0)
		return -errno;
	r = check_kind(&st, want);
	if (r == 0) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			r = -errno;
	}
	if (r == -EINVAL || r == -ESTALE)
		gs_guard_refuse(GS_REFUSED_KIND, 1, path);
	if (r < 0)
		return r;
	return file_adopt(&fd, &st, ret_file);
}

int gs_foreign_open(const char *path, const struct gs_foreign_want *want,
		    struct gs_foreign *ret_file)
{
	GS_CLOSE int at =
		open(path, O_PATH | O_CLOEXEC | (want && want->no_links ? O_NOFOLLOW : 0));

	return file_open_handle(at, path, want, ret_file);
}

int gs_foreign_open_under(int root_fd, const char *path, const struct gs_foreign_want *want,
			  struct gs_foreign *ret_file)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (want && want->no_links ? O_NOFOLLOW : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	GS_CLOSE int at = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	return file_open_handle(at, path, want, ret_file);
}

void gs_foreign_close(struct gs_foreign *file)
{
	gs_close_p(&file->fd);
}

ssize_t gs_foreign_read(struct gs_foreign *file, uint64_t off, void *to, size_t bytes)
{
	size_t done = 0;
	int r = charge_bytes(file, bytes);

	if (r < 0)
		return r;
	while (done < bytes) {
		ssize_t n = pread(file->fd, (char *)to + done, bytes - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

uint64_t gs_foreign_skip_hole(struct gs_foreign *file, uint64_t off, uint64_t end)
{
	off_t from, to;

	if (off >= end || (off >= file->data_from && off < file->data_to))
		return off < end ? off : end;
	from = lseek(file->fd, (off_t)off, SEEK_DATA);
	if (from < 0) /* ENXIO: nothing but a hole is left; else it cannot be known */
		return errno == ENXIO ? end : off;
	to = lseek(file->fd, from, SEEK_HOLE);
	if (to > from) {
		file->data_from = (uint64_t)from;
		file->data_to = (uint64_t)to;
	}
	return (uint64_t)from < end ? (uint64_t)from : end;
}

uint32_t gs_foreign_process_uid(pid_t pid)
{
	char path[40], line[128];
	GS_FCLOSE FILE *f = NULL;
	struct stat st;
	unsigned uid;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return 0;
	if (st.st_uid)
		return st.st_uid;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) /* some 60 lines */
		if (sscanf(line, "Uid: %u", &uid) == 1)
			return uid;
	return 0;
}

const char *gs_foreign_reason(int r)
{
	switch (r) {
	case -EDQUOT:
		return "reading it costs too much";
	case -ECANCELED:
		return "the run ended before it was read";
	case -ESTALE:
		return "another file has taken its place";
	default:
		return strerror(-r);
	}
}

ssize_t gs_foreign_read_text(const char *path, const struct gs_foreign_want *want, char *out,
			     size_t bytes)
{
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	ssize_t n = gs_foreign_open(path, want, &file);

	if (n == 0)
		n = gs_foreign_read(&file, 0, out, bytes - 1);
	if (n >= 0)
		out[n] = '\0';
	return n;
}
