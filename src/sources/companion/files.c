/*
 * The folder of a run and the files in it. A file is looked at once: it stays open as long as its process runs,
 * and is read to its end when that is gone.
 */
#include "sources/companion/companion.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/companion/companion_int.h"

#define FILES_MAX 4096u /* of processes at one time */
#define NAMES_MAX 65536u
#define PIDS_MAX  (4u << 20) /* as many as there may be: include/linux/threads.h, PID_MAX_LIMIT */
#define PARENT    "/dev/shm"
#define FOLDER    "gpuscope-XXXXXX"
#define STALE_S   60
#define STALE_MAX 256 /* folders looked at, at each begin */
/* Of what users share: bounds of what one reading takes, beyond which records are lost and counted by the writer. */
#define SHARED_NAMES_MAX  8192u /* of a folder, looked at in one scan */
#define SHARED_RING_MAX   (1u << 20)
#define SHARED_READING_NS 50000000ull /* the rest of the files is read next time */

struct entry {
	uint32_t pid;
	int pid_fd;                     /* owned; readable when the process has ended; -1: it has */
	struct gs_companion_file *file; /* owned */
	uint64_t ops_ns; /* when it was made, of the door of operators; 0: of another one */
	/* Of a file that keeps its name until then: */
	int folder_fd; /* owned; -1: it has none any more */
	char name[GS_COMPANION_NAME_BYTES];
	uint64_t key; /* in held */
};

struct gs_companion_files {
	char folder[256];
	int folder_fd; /* owned; -1: none was made */
	struct companion_shared shared;
	enum gs_companion_share (*takes)(void *ctx, uint32_t pid); /* NULL: a run's folder */
	void *ctx;
	struct gs_map held; /* hash of folder and name -> 1: an entry */
	uint32_t next;      /* which entry is read first the next time */
	uint64_t pid_namespace;
	struct entry *entries; /* owned */
	uint32_t n;
	struct gs_map refused; /* hash of a name that is not looked at again */
	struct gs_map pids;    /* door and process -> when its newest file with that was made */
	struct gs_map
		states; /* process -> whether its operators are seen: enum gs_companion_state */
	uint32_t all_states; /* that there were: bits 1 << enum gs_companion_state */
	struct gs_map execs; /* process -> when it began its present program, as far as is known */
	unsigned n_refused;
	int reason;
	struct gs_companion_late *late[COMPANION_LATE_MAX]; /* owned; n_late of them */
	unsigned n_late;
};

void companion_empty_folder(int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		close(fd);
		return;
	}
	rewinddir(dir);
	while ((e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(dirfd(dir), e->d_name, 0);
	closedir(dir);
}

/* A trace holds a shared lock on its folder for as long as it lives, and one that begins has it within STALE_S. A program that still
 * writes to a file there keeps its memory, as if alone. */
static void remove_if_stale(int parent_fd, const char *name)
{
	GS_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
	    time(NULL) - st.st_mtime < STALE_S || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	companion_empty_folder(gs_take_fd(&fd));
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* Of traces that were killed: their files are memory. */
static void remove_stale_folders(const char *parent)
{
	DIR *dir = opendir(parent);
	struct dirent *e;

	for (unsigned n = 0; dir && n < STALE_MAX && (e = readdir(dir)) != NULL;)
		if (strncmp(e->d_name, FOLDER, strlen(FOLDER) - 6) == 0 &&
		    strlen(e->d_name) == strlen(FOLDER)) {
			remove_if_stale(dirfd(dir), e->d_name);
			n++;
		}
	if (dir)
		closedir(dir);
}

static int make_folder(struct gs_companion_files *f, const char *parent, struct gs_err *err)
{
	struct stat st;

	if (snprintf(f->folder, sizeof(f->folder), "%s/" FOLDER, parent) >=
	    (int)sizeof(f->folder) - GS_COMPANION_NAME_BYTES)
		return gs_err_set(err, -ENAMETOOLONG, "%s: the name is too long", parent);
	remove_stale_folders(parent);
	if (!mkdtemp(f->folder)) {
		int r = -errno;

		f->folder[0] = '\0';
		return gs_err_set(err, r, "%s: no folder can be made there: %s", parent,
				  strerror(-r));
	}
	f->folder_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f->folder_fd < 0 || flock(f->folder_fd, LOCK_SH | LOCK_NB) < 0 ||
	    stat("/proc/self/ns/pid", &st) < 0)
		return gs_err_set(err, -errno, "%s: %s", f->folder, strerror(errno));
	f->pid_namespace = st.st_ino;
	return 0;
}

static int share_folders(struct gs_companion_files *f, const char *parent, struct gs_err *err)
{
	struct stat st = {0};
	int r = companion_shared_open(&f->shared, parent);

	if (r == 0 && stat("/proc/self/ns/pid", &st) < 0)
		r = -errno;
	if (r < 0)
		return gs_err_set(err, r, "%s: %s", parent, strerror(-r));
	f->pid_namespace = st.st_ino;
	return 0;
}

int gs_companion_files_new(const struct gs_companion_files_options *o,
			   struct gs_companion_files **ret_files, struct gs_err *err)
{
	struct gs_companion_files *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->folder_fd = f->shared.parent_fd = -1;
	f->takes = o->takes;
	f->ctx = o->ctx;
	f->held = GS_MAP_INIT(NAMES_MAX);
	f->refused = GS_MAP_INIT(NAMES_MAX);
	f->pids = GS_MAP_INIT(PIDS_MAX);
	f->states = GS_MAP_INIT(PIDS_MAX);
	f->execs = GS_MAP_INIT(PIDS_MAX);
	r = o->takes ? share_folders(f, o->parent ? o->parent : PARENT, err)
		     : make_folder(f, o->parent ? o->parent : PARENT, err);
	if (r < 0)
		gs_companion_files_free(&f);
	else
		*ret_files = f;
	return r;
}

static void close_entry(struct entry *e)
{
	gs_companion_file_free(&e->file);
	gs_close_p(&e->pid_fd);
	gs_close_p(&e->folder_fd);
}

static void remove_folder(struct gs_companion_files *f)
{
	if (f->folder_fd >= 0)
		companion_empty_folder(gs_take_fd(&f->folder_fd));
	if (f->folder[0])
		rmdir(f->folder);
}

void gs_companion_files_free(struct gs_companion_files **ref)
{
	struct gs_companion_files *f = *ref;

	if (!f)
		return;
	for (uint32_t i = 0; i < f->n; i++)
		close_entry(&f->entries[i]);
	free(f->entries);
	for (unsigned i = 0; i < f->n_late; i++)
		companion_late_free(&f->late[i]);
	companion_shared_close(&f->shared);
	gs_map_fini(&f->held);
	gs_map_fini(&f->refused);
	gs_map_fini(&f->pids);
	gs_map_fini(&f->states);
	gs_map_fini(&f->execs);
	remove_folder(f);
	gs_close_p(&f->folder_fd);
	free(f);
	*ref = NULL;
}

const char *gs_companion_files_folder(const struct gs_companion_files *f)
{
	return f->folder;
}

unsigned gs_companion_files_open(const struct gs_companion_files *f)
{
	return f->n;
}

unsigned gs_companion_files_refused(const struct gs_companion_files *f, int *ret_reason)
{
	*ret_reason = f->reason;
	return f->n_refused;
}

/* "1f3-5d21ab90": both in hexadecimal, as the companion writes them. */
static bool parse_name(const char *name, uint32_t *ret_pid)
{
	uint64_t pid = 0;
	size_t n = strspn(name, "0123456789abcdef"), rest;

	if (!n || n > 8 || name[n] != '-')
		return false;
	rest = strspn(name + n + 1, "0123456789abcdef");
	if (!rest || rest > 16 || name[n + 1 + rest])
		return false;
	for (size_t i = 0; i < n; i++)
		pid = pid << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
	*ret_pid = (uint32_t)pid;
	return pid > 0;
}

/* No other user can have written it: a regular file of one name, of the folder's owner. Of a shared folder another one can,
 * whom that owner has named. */
static int open_own(const struct gs_companion_files *f, int folder_fd, const char *name,
		    uid_t *ret_uid)
{
	GS_CLOSE int fd = openat(folder_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st, folder;

	if (fd < 0 || fstat(fd, &st) < 0 || fstat(folder_fd, &folder) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != folder.st_uid ||
	    st.st_mode & (f->takes ? 07 : 077))
		return -EACCES;
	*ret_uid = st.st_uid;
	return gs_take_fd(&fd);
}

/* Its head has the number that the name says, in our namespace: processes of other ones are not known by it. Of a shared
 * folder it is a process of the file's user, and no later one of the same number. */
static int check_process(const struct gs_companion_files *f, int fd, uint32_t pid, uid_t uid,
			 struct gs_companion_head *ret_head)
{
	struct gs_companion_head head = {0};

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || head.pid != pid)
		return -EBADMSG;
	*ret_head = head;
	if (head.pid_namespace != f->pid_namespace)
		return -EXDEV;
	if (!f->takes)
		return 0;
	if (head.ring_bytes > SHARED_RING_MAX)
		return -EFBIG;
	return companion_process_is_of(pid, uid, head.start_ns) ? 0 : -EPERM;
}

static uint64_t door_key(uint32_t pid, enum gs_companion_door door)
{
	return (uint64_t)door << 32 | pid;
}

/* Those of which a process is seen from inside or by probes. */
static const enum gs_companion_door doors_known[] = {GS_COMPANION_CALLS, GS_COMPANION_OPS,
						     GS_COMPANION_PYTHON};

static void note_doors(struct gs_companion_files *f, uint32_t pid,
		       const struct gs_companion_head *head)
{
	uint64_t exec_ns = 0;

	gs_map_get(&f->execs, pid, &exec_ns);
	for (size_t i = 0; i < GS_ARRAY_LEN(doors_known); i++) {
		uint64_t key = door_key(pid, doors_known[i]), before_ns = 0;

		gs_map_get(&f->pids, key, &before_ns);
		if (head->doors & 1u << doors_known[i] && head->start_ns > before_ns &&
		    head->start_ns >= exec_ns)
			gs_map_put(&f->pids, key, head->start_ns);
	}
}

/* Of the newest file of its process alone, and of the program that it runs now. */
static void note_state(struct gs_companion_files *f, const struct entry *e)
{
	enum gs_companion_state state;

	if (!e->ops_ns || gs_companion_files_since(f, e->pid, GS_COMPANION_OPS) != e->ops_ns)
		return;
	state = gs_companion_file_state(e->file);
	gs_map_put(&f->states, e->pid, state);
	f->all_states |= 1u << state;
}

static void forget_door(struct gs_companion_files *f, uint32_t pid, enum gs_companion_door door)
{
	gs_map_del(&f->pids, door_key(pid, door));
	if (door == GS_COMPANION_OPS)
		gs_map_del(&f->states, pid);
}

static int add_file(struct gs_companion_files *f, int folder_fd, const char *name, uint32_t pid)
{
	uid_t uid = 0;
	GS_CLOSE int fd = open_own(f, folder_fd, name, &uid);
	struct gs_companion_file *file;
	struct gs_companion_head head = {0};
	int r = fd < 0 ? fd : check_process(f, fd, pid, uid, &head);

	if (r == 0)
		r = gs_companion_file_open(&fd, pid, &file);
	if (r < 0)
		return r;
	if (f->n == FILES_MAX || !gs_vec_reserve_next(&f->entries, f->n)) {
		gs_companion_file_free(&file);
		return -ENOBUFS;
	}
	/* One that has ended already has no number to ask for: what it wrote is read all the same. */
	f->entries[f->n++] = (struct entry){.pid = pid,
					    .pid_fd = (int)syscall(SYS_pidfd_open, pid, 0),
					    .file = file,
					    .folder_fd = -1};
	note_doors(f, pid, &head);
	if (head.doors & 1u << GS_COMPANION_OPS)
		f->entries[f->n - 1].ops_ns = head.start_ns;
	note_state(f, &f->entries[f->n - 1]);
	return 0;
}

/* --- of folders that users share --- */

static void ignore_record(void *ctx, const struct gs_companion_thread *from,
			  const struct gs_companion_record *record)
{
}

static void ignore_inner(void *ctx, const struct gs_companion_thread *from, unsigned func,
			 uint32_t n)
{
}

static void ignore_sum(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
}

/* What it has so far is not ours. */
static void skip_past(struct gs_companion_file *file)
{
	const struct gs_companion_handler ignores = {
		.record = ignore_record, .inner = ignore_inner, .sum = ignore_sum};
	bool full = false;

	gs_companion_file_read(file, &ignores, true, &full);
}

static void add_shared(struct gs_companion_files *f, const struct companion_folder *folder,
		       const char *name, uint32_t pid, uint64_t key)
{
	enum gs_companion_share share = f->takes(f->ctx, pid);
	struct entry *e;
	uint64_t one;
	int r;

	if (share == GS_COMPANION_LEAVE || gs_map_get(&f->refused, key, &one))
		return;
	r = add_file(f, folder->fd, name, pid);
	if (r < 0) {
		if (gs_map_put(&f->refused, key, 1) == 0 && !f->n_refused++)
			f->reason = r;
		return;
	}
	e = &f->entries[f->n - 1];
	snprintf(e->name, sizeof(e->name), "%.*s", GS_COMPANION_NAME_BYTES - 1, name);
	e->folder_fd = fcntl(folder->fd, F_DUPFD_CLOEXEC, 0);
	e->key = key;
	gs_map_put(&f->held, key, 1);
	if (share == GS_COMPANION_FROM_NOW)
		skip_past(e->file);
}

/* cleans: names that ended processes have left are removed. */
static void find_in_folder(struct gs_companion_files *f, const struct companion_folder *folder,
			   bool cleans)
{
	int again = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *e;
	unsigned n = 0;
	uint64_t one;
	uint32_t pid;

	while (dir && n++ < SHARED_NAMES_MAX && !gs_guard_stopped() && (e = readdir(dir)) != NULL) {
		uint64_t key = gs_hash_bytes(e->d_name, strlen(e->d_name)) ^ folder->inode;

		if (!parse_name(e->d_name, &pid) || gs_map_get(&f->held, key, &one))
			continue;
		add_shared(f, folder, e->d_name, pid, key);
		if (cleans && !gs_map_get(&f->held, key, &one) && companion_process_is_gone(pid))
			unlinkat(folder->fd, e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	else
		gs_close_p(&again);
}

static void find_shared(struct gs_companion_files *f)
{
	bool looked = companion_shared_find_folders(&f->shared);

	for (uint32_t i = 0; i < f->shared.n; i++)
		find_in_folder(f, &f->shared.folder[i], looked);
}

static bool has_ended(const struct entry *e)
{
	struct pollfd fd = {.fd = e->pid_fd, .events = POLLIN};

	return e->pid_fd < 0 || poll(&fd, 1, 0) > 0;
}

/* Of a folder that is its user's, who may put anything there: only of the process that was asked, and of its children. */
static bool may_be_of(const struct gs_companion_late *late, uint32_t pid)
{
	uint64_t now_ns = gs_clock_mono_ns();

	/* Of one that has ended already, no more can be asked. */
	return !late || pid == (uint32_t)late->pid ||
	       (late->follows && (companion_process_is_gone(pid) ||
				  companion_process_is_of(pid, late->uid, now_ns)));
}

/* late: NULL, it is the run's. */
static void find_in_own(struct gs_companion_files *f, int folder_fd,
			const struct gs_companion_late *late)
{
	int again = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *e;
	unsigned n = 0;
	uint64_t one;
	uint32_t pid;

	while (dir && (!late || n++ < SHARED_NAMES_MAX) && !gs_guard_stopped() &&
	       (e = readdir(dir)) != NULL) {
		uint64_t key = gs_hash_bytes(e->d_name, strlen(e->d_name));
		int r;

		if (!parse_name(e->d_name, &pid) || gs_map_get(&f->refused, key, &one))
			continue;
		r = may_be_of(late, pid) ? add_file(f, folder_fd, e->d_name, pid) : -EPERM;
		if (r < 0 && gs_map_put(&f->refused, key, 1) == 0 && !f->n_refused++)
			f->reason = r;
		/* It is held: a name is not needed any more, and not left behind when we are killed. */
		if (r == 0)
			unlinkat(folder_fd, e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	else
		gs_close_p(&again);
}

static void find_files(struct gs_companion_files *f)
{
	if (f->takes) {
		find_shared(f);
		return;
	}
	find_in_own(f, f->folder_fd, NULL);
	for (unsigned i = 0; i < f->n_late; i++)
		if (f->late[i]->is_given)
			find_in_own(f, f->late[i]->fd, f->late[i]);
}

int companion_files_add_late(struct gs_companion_files *f, struct gs_companion_late *late)
{
	if (f->n_late == COMPANION_LATE_MAX)
		return -ENOBUFS;
	f->late[f->n_late++] = late;
	return 0;
}

int companion_files_folder_fd(const struct gs_companion_files *f)
{
	return f->folder_fd;
}

bool gs_companion_files_has_left(const struct gs_companion_files *f, pid_t pid)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->entries[i].pid == (uint32_t)pid && !has_ended(&f->entries[i]) &&
		    !gs_companion_file_has_left(f->entries[i].file))
			return false;
	return true;
}

void gs_companion_files_scan(struct gs_companion_files *f)
{
	find_files(f);
	for (uint32_t i = 0; i < f->n; i++)
		note_state(f, &f->entries[i]);
}

uint32_t gs_companion_files_states(const struct gs_companion_files *f)
{
	return f->all_states;
}

bool gs_companion_files_state(const struct gs_companion_files *f, uint32_t pid,
			      enum gs_companion_state *ret_state)
{
	uint64_t state;

	if (!gs_map_get(&f->states, pid, &state))
		return false;
	*ret_state = (enum gs_companion_state)state;
	return true;
}

uint64_t gs_companion_files_since(const struct gs_companion_files *f, uint32_t pid,
				  enum gs_companion_door door)
{
	uint64_t start_ns = 0;

	gs_map_get(&f->pids, door_key(pid, door), &start_ns);
	return start_ns;
}

void gs_companion_files_forget(struct gs_companion_files *f, uint32_t pid, uint64_t mono_ns)
{
	uint64_t start_ns;

	for (size_t i = 0; i < GS_ARRAY_LEN(doors_known); i++)
		if (gs_map_get(&f->pids, door_key(pid, doors_known[i]), &start_ns) &&
		    start_ns < mono_ns)
			forget_door(f, pid, doors_known[i]);
	/* Also one that has not been found yet. */
	gs_map_put(&f->execs, pid, mono_ns);
}

/* False: it is over, and the entry has another one's place. */
static bool read_entry(struct gs_companion_files *f, uint32_t i,
		       const struct gs_companion_handler *h, bool harvest, bool *ret_full)
{
	struct entry *e = &f->entries[i];
	bool ended = has_ended(e); /* asked for first: all that it wrote is read then */
	bool left = f->takes && !ended && f->takes(f->ctx, e->pid) == GS_COMPANION_LEAVE;
	bool whole = harvest || ended || left || gs_companion_file_is_crowded(e->file);

	note_state(f, e);
	gs_companion_file_read(e->file, h, whole, ret_full);
	if (!ended && !left) {
		if (whole)
			gs_companion_file_reclaim(e->file, h);
		return true;
	}
	if (ended)
		gs_companion_file_open_calls(e->file, h);
	if (ended && e->folder_fd >= 0)
		unlinkat(e->folder_fd, e->name, 0);
	for (size_t d = 0; left && d < GS_ARRAY_LEN(doors_known); d++)
		forget_door(f, e->pid, doors_known[d]);
	gs_map_del(&f->held, e->key);
	close_entry(e);
	*e = f->entries[--f->n];
	return false;
}

void gs_companion_files_poll(struct gs_companion_files *f, const struct gs_companion_handler *h,
			     bool harvest, bool *ret_full)
{
	uint64_t end_ns = gs_clock_mono_ns() + SHARED_READING_NS;
	uint32_t n;

	find_files(f);
	n = f->n;
	if (f->next >= f->n)
		f->next = 0;
	for (; n && f->n && !gs_guard_stopped(); n--) {
		if (read_entry(f, f->next, h, harvest, ret_full))
			f->next++;
		if (f->next >= f->n)
			f->next = 0;
		/* One is read each time, however slow it is. */
		if (f->takes && gs_clock_mono_ns() > end_ns) {
			*ret_full = true;
			break;
		}
	}
}

void gs_companion_files_stop(struct gs_companion_files *f, const struct gs_companion_handler *h)
{
	bool full = false;

	find_files(f);
	for (uint32_t i = 0; i < f->n; i++) {
		struct gs_companion_file *file = f->entries[i].file;

		gs_companion_file_stop(file);
		gs_companion_file_read(file, h, true, &full);
		gs_companion_file_open_calls(file, h);
	}
}
