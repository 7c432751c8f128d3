/*
 * The file of this process: made in gpuscope's folder, whole before it has its name. Where anything stands in
 * the way (limits of files or memory, a folder that is another user's, no room) there is none, and the
 * program goes on as if alone.
 */
#include "companion/ring/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "companion/ring/sys.h"
#include "model/companion/python.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGE 4096ul

static struct companion_setup setup;
static uint64_t last_epoch;

static char *put_hex(char *to, uint64_t v)
{
	int shift = 60;

	while (shift > 0 && !(v >> shift & 15))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*to++ = "0123456789abcdef"[v >> shift & 15];
	*to = '\0';
	return to;
}

/* A file beyond RLIMIT_FSIZE ends the program by a signal; of one with a limit of address space nothing is
 * taken away. */
static bool limits_allow(uint64_t file_bytes)
{
	struct rlimit files, space;

	return COMPANION_SYS4(prlimit64, 0, RLIMIT_FSIZE, 0, &files) == 0 &&
	       COMPANION_SYS4(prlimit64, 0, RLIMIT_AS, 0, &space) == 0 &&
	       files.rlim_cur >= file_bytes && space.rlim_cur == RLIM_INFINITY;
}

/* Has its user shared it with another one, the agent's, by its access list (commands/agent_gpu/agent_inside.c)? */
static bool is_shared(const struct stat *folder)
{
	return (folder->st_mode & (S_ISGID | 077)) == (S_ISGID | 070);
}

/* Opened for its files; negative: it is not one that only this user, and whom this user named, can write. */
static int open_folder(mode_t *ret_file_mode)
{
	int fd = (int)COMPANION_SYS4(openat, AT_FDCWD, setup.folder,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return fd;
	if (COMPANION_SYS3(fstat, fd, &st, 0) == 0 && S_ISDIR(st.st_mode) &&
	    ((st.st_mode & 077) == 0 || is_shared(&st)) &&
	    st.st_uid == (uid_t)COMPANION_SYS3(geteuid, 0, 0, 0)) {
		*ret_file_mode = is_shared(&st) ? 0660 : 0600;
		return fd;
	}
	COMPANION_SYS3(close, fd, 0, 0);
	return -EACCES;
}

static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return COMPANION_SYS4(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 ? st.st_ino
										      : 0;
}

/* The whole file in memory; NULL: it cannot be had. */
static void *map_file(int fd, uint64_t bytes)
{
	long at;

	if (COMPANION_SYS3(ftruncate, fd, bytes, 0) < 0)
		return NULL;
	at = COMPANION_SYS6(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			    0);
	if (at < 0 && at > -4096)
		return NULL;
	if (COMPANION_SYS3(madvise, at, PAGE, MADV_POPULATE_WRITE) == 0) {
		COMPANION_SYS3(madvise, at, bytes, MADV_DONTFORK);
		COMPANION_SYS3(madvise, at, bytes, MADV_DONTDUMP);
		return (void *)at;
	}
	COMPANION_SYS3(munmap, at, bytes, 0);
	return NULL;
}

static void fill_head(struct gs_companion_head *head, uint32_t pid, uint64_t start_ns)
{
	*head = (struct gs_companion_head){
		.magic = GS_COMPANION_MAGIC,
		.version = GS_COMPANION_VERSION,
		.pid = pid,
		.start_ns = start_ns,
		.pid_namespace = own_pid_namespace(),
		.clock = setup.clock,
		.doors = setup.doors,
		.n_slots = setup.n_slots,
		.ring_bytes = setup.ring_bytes,
		.rings_at = GS_COMPANION_SLOTS_AT +
			    setup.n_slots * (uint64_t)sizeof(struct gs_companion_slot),
		.state = setup.state,
	};
}

/* In the open folder. NULL: it could not be made, and nothing is left of it. */
static struct gs_companion_head *make_file(int folder, mode_t mode, uint64_t bytes)
{
	uint32_t pid = (uint32_t)COMPANION_SYS3(getpid, 0, 0, 0);
	uint64_t start_ns = companion_mono_ns();
	char name[GS_COMPANION_NAME_BYTES], first[GS_COMPANION_NAME_BYTES + 1];
	struct gs_companion_head *head;
	char *end = put_hex(name, pid);
	int fd;

	*end++ = '-';
	put_hex(end, start_ns);
	first[0] = '.';
	for (unsigned i = 0; i < sizeof(name); i++)
		first[i + 1] = name[i];
	fd = (int)COMPANION_SYS4(openat, folder, first,
				 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return NULL;
	head = map_file(fd, bytes);
	COMPANION_SYS3(close, fd, 0, 0);
	if (head) {
		fill_head(head, pid, start_ns);
		if (COMPANION_SYS4(renameat, folder, first, folder, name) == 0)
			return head;
		COMPANION_SYS3(munmap, head, bytes, 0);
	}
	COMPANION_SYS3(unlinkat, folder, first, 0);
	return NULL;
}

bool companion_announce(void)
{
	struct companion_live *live = companion_live;
	uint64_t bytes = gs_companion_file_bytes(setup.n_slots, setup.ring_bytes, setup.doors);
	struct gs_companion_head *head = NULL;
	mode_t mode = 0600;
	int folder;

	if (!live || live->failed)
		return false;
	if (live->epoch)
		return true;
	if (setup.only_pid && setup.only_pid != (uint32_t)COMPANION_SYS3(getpid, 0, 0, 0)) {
		live->failed = 1;
		return false;
	}
	/* Another thread is at it, or the one that this signal handler has interrupted. */
	if (__atomic_exchange_n(&live->busy, 1, __ATOMIC_ACQ_REL))
		return false;
	folder = limits_allow(bytes) ? open_folder(&mode) : -EACCES;
	if (folder >= 0) {
		head = make_file(folder, mode, bytes);
		COMPANION_SYS3(close, folder, 0, 0);
	}
	if (!head) {
		live->failed = 1;
		return false;
	}
	live->head = head;
	live->slots = (void *)((char *)head + GS_COMPANION_SLOTS_AT);
	live->rings = (uint8_t *)head + head->rings_at;
	live->sums = (void *)(live->rings + (uint64_t)setup.n_slots * setup.ring_bytes);
	__atomic_store_n(&live->epoch, ++last_epoch, __ATOMIC_RELEASE);
	return true;
}

void companion_set_state(enum gs_companion_state state)
{
	struct companion_live *live = companion_live;

	__atomic_store_n(&setup.state, state, __ATOMIC_RELEASE);
	if (live && __atomic_load_n(&live->epoch, __ATOMIC_ACQUIRE))
		__atomic_store_n(&live->head->state, state, __ATOMIC_RELEASE);
}

static int map_live(struct companion_live **ret_live)
{
	long page = COMPANION_SYS6(mmap, 0, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page < 0 && page > -4096)
		return (int)page;
	/* A kernel without it would have children write into their parent's file. */
	if (COMPANION_SYS3(madvise, page, PAGE, MADV_WIPEONFORK) < 0) {
		COMPANION_SYS3(munmap, page, PAGE, 0);
		return -ENOTSUP;
	}
	*ret_live = (struct companion_live *)page;
	return 0;
}

int companion_start(const struct companion_setup *s)
{
	struct companion_live *live = companion_live;
	int r = live ? 0 : map_live(&live);

	if (r < 0)
		return r;
	companion_find_vdso();
	setup = *s;
	companion_clock = s->clock;
	companion_ns_per_tick = s->ns_per_tick;
	*live = (struct companion_live){0};
	__atomic_store_n(&companion_live, live, __ATOMIC_RELEASE);
	return 0;
}

void companion_end(void)
{
	struct companion_live *live = companion_live;

	if (!live)
		return;
	__atomic_store_n(&live->failed, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&live->epoch, 0, __ATOMIC_SEQ_CST);
}

void companion_unmap(void)
{
	struct companion_live *live = companion_live;
	struct gs_companion_head *head = live ? live->head : NULL;

	/* A forked child has none. */
	if (!head)
		return;
	live->head = NULL;
	__atomic_store_n(&head->left, 1, __ATOMIC_RELEASE);
	COMPANION_SYS3(munmap, head,
		       gs_companion_file_bytes(setup.n_slots, setup.ring_bytes, setup.doors), 0);
}

void companion_remove_folder(void)
{
	static const char *const names[] = {GS_COMPANION_PLAN_NAME, GS_COMPANION_PYTHON_PLAN_NAME,
					    GS_COMPANION_BEGIN_NAME, GS_COMPANION_END_NAME,
					    GS_COMPANION_LATE_NAME};
	mode_t mode;
	int fd = open_folder(&mode);

	if (fd < 0)
		return;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		COMPANION_SYS3(unlinkat, fd, names[i], 0);
	COMPANION_SYS3(close, fd, 0, 0);
	COMPANION_SYS3(unlinkat, AT_FDCWD, setup.folder, AT_REMOVEDIR);
}

bool companion_has_reader(void)
{
	int fd = (int)COMPANION_SYS4(openat, AT_FDCWD, setup.folder,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	long r;

	/* Its folder is removed when it ends; where there is no descriptor free nothing is known. */
	if (fd < 0)
		return fd != -ENOENT;
	r = COMPANION_SYS3(flock, fd, LOCK_EX | LOCK_NB, 0);
	COMPANION_SYS3(close, fd, 0, 0);
	return r < 0;
}
