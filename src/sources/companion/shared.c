/*
 * Folders that users have shared with gpuscope's agent. Everything in them is foreign: a folder is opened without following
 * links, has the number of its owner in its name, and is writable only for that owner and for whom its access list names.
 */
#include "sources/companion/companion_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/companion/companion.h"

#define LOOK_NS   1000000000ull
#define NAMES_MAX 65536u /* in the parent, of one look */

int companion_shared_open(struct companion_shared *s, const char *parent)
{
	s->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->parent_fd < 0 ? -errno : 0;
}

void companion_shared_close(struct companion_shared *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		gs_close_p(&s->folder[i].fd);
	s->n = 0;
	gs_close_p(&s->parent_fd);
}

/* "gpuscope-inside-1000": whose it says it is. */
static bool parse_folder(const char *name, uid_t *ret_uid)
{
	const size_t n = strlen(GS_COMPANION_SHARED_NAME);
	unsigned long uid;
	char *end;

	if (strncmp(name, GS_COMPANION_SHARED_NAME, n) != 0 || name[n] < '0' || name[n] > '9' ||
	    (name[n] == '0' && name[n + 1]))
		return false;
	uid = strtoul(name + n, &end, 10);
	*ret_uid = (uid_t)uid;
	return !*end && uid <= UINT32_MAX;
}

static struct companion_folder *find_folder(struct companion_shared *s, const struct stat *st)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->folder[i].inode == st->st_ino && s->folder[i].device == st->st_dev)
			return &s->folder[i];
	return NULL;
}

static void add_folder(struct companion_shared *s, const char *name, uid_t uid)
{
	GS_CLOSE int fd = openat(s->parent_fd, name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != uid || st.st_mode & 07 ||
	    s->n == COMPANION_FOLDERS_MAX || find_folder(s, &st))
		return;
	s->folder[s->n++] = (struct companion_folder){
		.fd = gs_take_fd(&fd), .uid = uid, .device = st.st_dev, .inode = st.st_ino};
}

/* In one that has no name any more no file can come. */
static void drop_removed(struct companion_shared *s)
{
	struct stat st;

	for (uint32_t i = 0; i < s->n;) {
		if (fstat(s->folder[i].fd, &st) == 0 && st.st_nlink) {
			i++;
			continue;
		}
		gs_close_p(&s->folder[i].fd);
		s->folder[i] = s->folder[--s->n];
	}
}

bool companion_shared_find_folders(struct companion_shared *s)
{
	uint64_t now_ns = gs_clock_mono_ns();
	struct dirent *e;
	unsigned n = 0;
	DIR *dir;
	uid_t uid;
	int fd;

	if (s->looked_ns && now_ns - s->looked_ns < LOOK_NS)
		return false;
	s->looked_ns = now_ns;
	drop_removed(s);
	fd = openat(s->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	while (dir && n++ < NAMES_MAX && !gs_guard_stopped() && (e = readdir(dir)) != NULL)
		if (parse_folder(e->d_name, &uid))
			add_folder(s, e->d_name, uid);
	if (dir)
		closedir(dir);
	else
		gs_close_p(&fd);
	return true;
}

bool companion_process_is_gone(uint32_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

/* When it began, by the clock of its file; 0: not known. */
static uint64_t began_mono_ns(uint32_t pid)
{
	GS_FCLOSE FILE *f = NULL;
	char path[48], line[1024], *at;
	unsigned long long ticks = 0;
	long a_second = sysconf(_SC_CLK_TCK);
	int64_t boot_ns;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f) || a_second <= 0)
		return 0;
	/* The name may hold anything, but no later bracket follows it: the state is the third field, the begin the 22nd. */
	at = strrchr(line, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%llu", &ticks) != 1)
		return 0;
	boot_ns = (int64_t)(ticks * (1000000000ull / (unsigned long long)a_second));
	boot_ns -= gs_clock_boot_minus_mono_ns();
	return boot_ns > 0 ? (uint64_t)boot_ns : 1;
}

bool companion_process_is_of(uint32_t pid, uid_t uid, uint64_t mono_ns)
{
	struct stat st;
	char path[32];
	uint64_t began_ns;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &st) < 0 || st.st_uid != uid)
		return false;
	began_ns = began_mono_ns(pid);
	return began_ns && began_ns <= mono_ns;
}
