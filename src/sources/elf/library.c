/*
 * The files that a running process has mapped executable.
 *
 * /proc/PID/maps names them, but a name there is only text: as seen from our root where the file
 * can be reached from it, else from the root of the process's mount namespace; the file may have
 * been deleted or replaced since; the process may live in a chroot or another mount namespace.
 * What is certain is /proc/PID/map_files/START-END, a link to the very file of a mapping, which
 * only privileged users may follow. So each name is tried, and believed when it leads to the file
 * of the link (of the same inode number where the link cannot be followed):
 *
 *	/proc/PID/root + the name without the process's root    the usual case
 *	the name as it stands                                   mapped before a chroot
 *	the link itself                                         deleted, replaced, unreachable
 *
 * The first is preferred to the link because it stays good when the mapping or the process ends.
 *
 * Since Linux 6.11 the kernel is asked for the next executable mapping of a file (PROCMAP_QUERY),
 * before that the text is read: of a process with 60,000 mappings of long names 180 MB.
 */
#include "sources/elf/library_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"

#define DELETED " (deleted)"

/* Numbers in hex up to the stop character. */
static bool take_hex(char **p, char stop, uint64_t *ret_value)
{
	char *end;

	errno = 0;
	*ret_value = strtoull(*p, &end, 16);
	if (end == *p || *end != stop || errno)
		return false;
	*p = end + 1;
	return true;
}

/* The kernel writes a newline in a name as "\012" and leaves all else as it is. */
static void unescape_path(char *text)
{
	char *out = text;

	while (*text) {
		if (strncmp(text, "\\012", 4) == 0) {
			*out++ = '\n';
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = 0;
}

/* "[vdso]", "anon_inode:..." and "//anon" are no files; a memfd has no path to open. */
static bool is_file_path(const char *path)
{
	return path[0] == '/' && path[1] != '/' && strncmp(path, "/memfd:", 7) != 0;
}

bool gs_elf_parse_maps(char *line, struct gs_maps_line *ret_line)
{
	struct gs_maps_line l = {0};
	uint64_t ignored;
	char *p = line;

	line[strcspn(line, "\n")] = 0;
	if (!take_hex(&p, '-', &l.start) || !take_hex(&p, ' ', &l.end))
		return false;
	if (strspn(p, "rwxsp-") != 4 || p[4] != ' ')
		return false;
	l.executable = p[2] == 'x';
	p += 5;
	if (!take_hex(&p, ' ', &l.file_off) || !take_hex(&p, ':', &ignored) ||
	    !take_hex(&p, ' ', &ignored))
		return false;
	errno = 0;
	l.ino = strtoull(p, &p, 10);
	if (errno || (*p != ' ' && *p != 0))
		return false;
	p += strspn(p, " ");
	l.vdso = strcmp(p, "[vdso]") == 0;
	if (l.ino && is_file_path(p)) {
		l.path = p;
		unescape_path(p);
	}
	*ret_line = l;
	return true;
}

static bool cut_suffix(char *text, const char *suffix)
{
	size_t bytes = strlen(text), cut = strlen(suffix);

	if (bytes <= cut || strcmp(text + bytes - cut, suffix) != 0)
		return false;
	text[bytes - cut] = 0;
	return true;
}

struct scan {
	pid_t pid;
	char root[PATH_MAX]; /* the process's root as we see it; "" when it is ours */
	struct gs_file_id exe;
	bool have_exe;
};

struct file_link { /* /proc/PID/map_files/START-END */
	char path[96];
	bool followed; /* st is of the mapped file */
	struct stat st;
};

static void scan_init(struct scan *scan, pid_t pid)
{
	char path[64];
	struct stat st;
	ssize_t n;

	*scan = (struct scan){.pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	n = readlink(path, scan->root, sizeof(scan->root) - 1);
	scan->root[n > 1 ? n : 0] = 0; /* of one byte: "/" */
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st) == 0) {
		scan->exe = gs_elf_file_id_of(&st);
		scan->have_exe = true;
	}
}

/* Fill file if open_path leads to a regular file. */
static bool take_file(const struct scan *scan, const char *open_path, const char *path,
		      struct gs_mapped_file *file, struct stat *st)
{
	if (stat(open_path, st) < 0 || !S_ISREG(st->st_mode))
		return false;
	if (strlen(open_path) >= sizeof(file->open_path))
		return false;
	strcpy(file->open_path, open_path);
	file->path = path;
	file->id = gs_elf_file_id_of(st);
	file->uid = st->st_uid;
	file->is_exe =
		scan->have_exe && scan->exe.dev == file->id.dev && scan->exe.ino == file->id.ino;
	file->is_guess = false; /* the process has it */
	return true;
}

static bool is_mapped_file(const struct gs_maps_line *line, const struct file_link *fl,
			   const struct stat *st)
{
	if (fl->followed)
		return st->st_dev == fl->st.st_dev && st->st_ino == fl->st.st_ino;
	return st->st_ino == line->ino;
}

/* False when the mapping is of no regular file, or of one that cannot be reached. */
static bool resolve_mapping(const struct scan *scan, struct gs_maps_line *line,
			    struct gs_mapped_file *ret_file)
{
	char *inner = line->path; /* as the process names it */
	size_t root_bytes = strlen(scan->root);
	char open_path[sizeof(ret_file->open_path)];
	struct file_link fl = {0};
	bool under_root;
	struct stat st;

	snprintf(fl.path, sizeof(fl.path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, scan->pid,
		 line->start, line->end);
	fl.followed = stat(fl.path, &fl.st) == 0;
	if (fl.followed && !S_ISREG(fl.st.st_mode))
		return false;
	if (strncmp(inner, scan->root, root_bytes) == 0 && inner[root_bytes] == '/')
		inner += root_bytes;

	snprintf(open_path, sizeof(open_path), "/proc/%d/root%s", scan->pid, inner);
	under_root = take_file(scan, open_path, inner, ret_file, &st);
	if (under_root && is_mapped_file(line, &fl, &st))
		return true;
	if (cut_suffix(inner, DELETED))
		under_root = false; /* a name that ends so is believed above only */
	if (fl.followed) {
		if (take_file(scan, line->path, inner, ret_file, &st) &&
		    is_mapped_file(line, &fl, &st))
			return true;
		return take_file(scan, fl.path, inner, ret_file, &st);
	}
	/* Inode numbers of some stacked file systems differ from those in maps. A name that is not
	 * deleted is the file's unless something has been mounted over it since. */
	return under_root;
}

/* named: what is mapped under one name with one inode number is looked up once. */
static int visit_file(struct scan *scan, struct gs_maps_line *line, struct gs_elf_seen *named,
		      struct gs_elf_seen *seen, gs_mapped_file_fn fn, void *ctx)
{
	const struct gs_file_id name = {gs_hash_bytes(line->path, strlen(line->path)), line->ino};
	struct gs_mapped_file file;
	int r = gs_elf_seen_add(named, name);

	if (r <= 0 || !resolve_mapping(scan, line, &file))
		return r < 0 ? r : 0;
	r = gs_elf_seen_add(seen, file.id);
	return r > 0 ? fn(ctx, &file) : r;
}

static int scan_line(struct scan *scan, char *text, struct gs_elf_seen *named,
		     struct gs_elf_seen *seen, gs_mapped_file_fn fn, void *ctx)
{
	struct gs_maps_line line;

	return gs_elf_parse_maps(text, &line) && line.executable && line.path
		       ? visit_file(scan, &line, named, seen, fn, ctx)
		       : 0;
}

/* include/uapi/linux/fs.h of Linux 6.11; older headers lack it. */
struct map_query {
	uint64_t size, flags, addr; /* asked for; the rest is answered */
	uint64_t start, end, vma_flags, page_bytes, file_off, ino;
	uint32_t dev_major, dev_minor;
	uint32_t name_bytes, build_id_bytes; /* also asked for: room */
	uint64_t name_addr, build_id_addr;
};

#define MAP_QUERY            _IOWR('f', 17, struct map_query)
#define MAP_QUERY_EXECUTABLE 0x04
#define MAP_QUERY_OR_NEXT    0x10 /* the one at the address, or the next after it */
#define MAP_QUERY_FILE       0x20 /* of a file */

/* The first executable mapping of a file at that address or after it; name may be NULL. -ENOENT: there is
 * none; -ESRCH: the process has ended; another: the kernel cannot say. */
static int query_mapping(int fd, uint64_t addr, char *name, size_t name_bytes,
			 struct map_query *ret_query)
{
	*ret_query = (struct map_query){.size = sizeof(*ret_query),
					.flags = MAP_QUERY_EXECUTABLE | MAP_QUERY_FILE |
						 MAP_QUERY_OR_NEXT,
					.addr = addr,
					.name_bytes = name ? (uint32_t)name_bytes : 0,
					.name_addr = (uintptr_t)name};
	return ioctl(fd, MAP_QUERY, ret_query) < 0 ? -errno : 0;
}

/* By maps_fd, of /proc/PID/maps. *ret_all false: the kernel cannot say it all, the text has to be
 * read too. */
static int scan_queries(struct scan *scan, int maps_fd, struct gs_guard_work *work,
			struct gs_elf_seen *named, struct gs_elf_seen *seen, gs_mapped_file_fn fn,
			void *ctx, bool *ret_all)
{
	char name[PATH_MAX];
	struct map_query q = {0};

	*ret_all = true;
	for (;;) {
		struct gs_maps_line line = {.executable = true};
		int r = gs_guard_step(work);

		if (r < 0)
			return r;
		r = query_mapping(maps_fd, q.end, NULL, 0, &q);
		/* Where st_dev is not this number (btrfs) no file that was visited has it. */
		if (r == 0 &&
		    gs_elf_seen_has(seen,
				    (struct gs_file_id){makedev(q.dev_major, q.dev_minor), q.ino}))
			continue;
		if (r == 0)
			r = query_mapping(maps_fd, q.start, name, sizeof(name), &q);
		if (r == -ENOENT || r == -ESRCH)
			return 0;
		if (r < 0) {
			*ret_all = false;
			return 0;
		}
		line.start = q.start;
		line.end = q.end;
		line.ino = q.ino;
		line.path = q.ino && is_file_path(name) ? name : NULL;
		r = line.path ? visit_file(scan, &line, named, seen, fn, ctx) : 0;
		if (r != 0)
			return r;
	}
}

static int visit_mapping(struct scan *scan, char *text, gs_mapping_fn fn, void *ctx)
{
	struct gs_mapped_file file;
	struct gs_maps_line line;
	struct gs_mapping m;

	if (!gs_elf_parse_maps(text, &line) || !line.executable || line.end <= line.start)
		return 0;
	m = (struct gs_mapping){.start = line.start,
				.end = line.end,
				.file_off = line.file_off,
				.is_vdso = line.vdso};
	if (line.path && resolve_mapping(scan, &line, &file))
		m.file = &file;
	return fn(ctx, &m);
}

/* Each line of maps to one of the two: once a file, or once a mapping. */
static int scan_lines(pid_t pid, gs_mapped_file_fn file_fn, gs_mapping_fn mapping_fn, void *ctx)
{
	GS_CLEANUP(gs_elf_seen_fini) struct gs_elf_seen named = GS_ELF_SEEN_INIT;
	GS_CLEANUP(gs_elf_seen_fini) struct gs_elf_seen seen = GS_ELF_SEEN_INIT;
	GS_CLEANUP(gs_guard_end) struct gs_guard_work work = {0};
	GS_FCLOSE FILE *maps = NULL;
	GS_FREE char *text = NULL;
	size_t text_bytes = 0;
	struct scan scan;
	char path[64];
	bool all = false;
	int r;

	if (pid <= 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "mappings of process %d", pid);
	r = gs_guard_begin(&work, gs_foreign_process_uid(pid), path);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	scan_init(&scan, pid);
	if (file_fn)
		r = scan_queries(&scan, fileno(maps), &work, &named, &seen, file_fn, ctx, &all);
	if (r != 0 || all)
		return r;
	/* The kernel bounds a line: a path of 4096 bytes, each at most four characters. */
	for (;;) {
		/* A process may have 65,530 mappings, and its user many such processes. */
		r = gs_guard_step(&work);
		if (r < 0)
			return r;
		errno = 0;
		if (getline(&text, &text_bytes, maps) < 0)
			return -errno; /* 0 at the end */
		r = file_fn ? scan_line(&scan, text, &named, &seen, file_fn, ctx)
			    : visit_mapping(&scan, text, mapping_fn, ctx);
		if (r != 0)
			return r;
	}
}

/* The link to its program asks for the same right as those to its libraries. */
int gs_library_may_scan(pid_t pid, struct gs_err *err)
{
	char path[64], target[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (readlink(path, target, sizeof(target)) >= 0 || (errno != EACCES && errno != EPERM))
		return 0;
	return gs_err_set(
		err, -EPERM,
		"process %d belongs to another user: run as root or with CAP_SYS_PTRACE to see its libraries",
		(int)pid);
}

int gs_library_scan_process(pid_t pid, gs_mapped_file_fn fn, void *ctx)
{
	return scan_lines(pid, fn, NULL, ctx);
}

/* maps comes to an end where the process does, in the middle of the list. */
static bool has_memory(pid_t pid)
{
	char path[64], target[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, target, sizeof(target)) > 0;
}

int gs_library_scan_mappings(pid_t pid, gs_mapping_fn fn, void *ctx)
{
	int r = scan_lines(pid, NULL, fn, ctx);

	return r == 0 && !has_memory(pid) ? -ESRCH : r;
}

struct wanted_path {
	char path[PATH_MAX];
	struct gs_mapped_file *ret_file;
};

static int take_path(void *ctx, const struct gs_mapped_file *file)
{
	struct wanted_path *wanted = ctx;

	if (strcmp(file->path, wanted->path) != 0)
		return 0;
	*wanted->ret_file = *file;
	return 1;
}

int gs_library_resolve(pid_t pid, const char *path, struct gs_mapped_file *ret_file)
{
	char open_path[sizeof(ret_file->open_path)];
	struct gs_mapped_file file;
	struct wanted_path wanted = {.ret_file = &file};
	struct scan scan;
	struct stat st;
	int r;

	if (pid <= 0)
		return -ESRCH;
	if (!is_file_path(path))
		return -EINVAL;
	if (strlen(path) >= sizeof(wanted.path))
		return -ENAMETOOLONG;
	scan_init(&scan, pid);
	snprintf(open_path, sizeof(open_path), "/proc/%d/root%s", pid, path);
	if (take_file(&scan, open_path, path, ret_file, &st))
		return 0;
	if (stat(open_path, &st) == 0)
		return -EINVAL; /* a device or the like */
	/* Gone by now, but still mapped. */
	strcpy(wanted.path, path);
	cut_suffix(wanted.path, DELETED);
	r = gs_library_scan_process(pid, take_path, &wanted);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	file.path = path;
	*ret_file = file;
	return 0;
}
