/*
 * The interpreter of a process: its executable, or a mapped libpython, has the variable
 * _PyRuntime (or, where that name was stripped, a section .PyRuntime). The version is in the
 * variable itself from 3.13 on, by Py_Version from 3.11 on, and before by which functions of the
 * documented interface there are. File names say nothing: "python3", "app", "libpython3.so".
 */
#include "sources/unwind/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "core/base/foreign.h"
#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/elf/library.h"
#include "sources/unwind/python_int.h"

#define FILES_MAX 4096

struct gs_pythons {
	struct gs_reader *reader; /* borrowed */
	struct gs_map by_id;      /* hash of dev and ino -> index */
	struct python_file files[FILES_MAX];
	size_t n_files;
};

/* A line of /proc/PID/maps that is executable and of a file. */
struct mapping {
	uint64_t start, end, off, ino;
	char path[4096];
};

struct gs_pythons *gs_pythons_new(struct gs_reader *reader)
{
	struct gs_pythons *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->reader = reader;
	p->by_id = GS_MAP_INIT(FILES_MAX);
	return p;
}

void gs_pythons_free(struct gs_pythons **ref)
{
	if (!*ref)
		return;
	gs_map_fini(&(*ref)->by_id);
	free(*ref);
	*ref = NULL;
}

int gs_python_peek(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EFAULT;
}

int gs_python_image(pid_t pid, uint64_t *ret_image)
{
	enum {
		ENV_END = 51,
		FIRST = 3
	}; /* proc(5): fields of stat; the first one after the name */
	GS_FCLOSE FILE *file = NULL;
	char text[2048], *at;
	size_t n;

	snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
	file = fopen(text, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	n = fread(text, 1, sizeof(text) - 1, file);
	if (ferror(file))
		return -ESRCH;
	text[n] = '\0';
	at = strrchr(text, ')');
	for (int field = FIRST - 1; at && field < ENV_END; field++)
		at = strchr(at + 1, ' ');
	*ret_image = at ? strtoull(at, NULL, 10) : 0;
	/* The kernel writes it when the program is mapped and its stack is made. 0 also means no
	 * permission; then the interpreter is unreadable anyway. */
	return *ret_image ? 0 : -EAGAIN;
}

/* A path that opens the mapped file from here, whatever root its process has: the mapping itself
 * where this user may follow it, else its name. */
static int open_path_of(pid_t pid, const struct mapping *m, struct gs_mapped_file *ret_where)
{
	struct stat st;

	snprintf(ret_where->open_path, sizeof(ret_where->open_path), "/proc/%d/map_files/%llx-%llx",
		 (int)pid, (unsigned long long)m->start, (unsigned long long)m->end);
	if (stat(ret_where->open_path, &st) == 0) {
		ret_where->id.dev = st.st_dev;
		ret_where->id.ino = st.st_ino;
		return 0;
	}
	return gs_library_resolve(pid, m->path, ret_where);
}

static void read_file(struct gs_pythons *p, const struct gs_mapped_file *where,
		      struct python_file *ret)
{
	const struct gs_foreign_want want = {.dev = where->id.dev, .ino = where->id.ino};
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	int r = gs_foreign_open(where->open_path, &want, &file);

	*ret = (struct python_file){.error = r};
	if (r == 0)
		ret->error = python_file_ask(p->reader, where->open_path, file.fd, ret);
}

/* What the file of a mapping is; NULL: no memory, or gone. */
static const struct python_file *file_of(struct gs_pythons *p, pid_t pid, const struct mapping *m,
					 struct gs_mapped_file *ret_where)
{
	uint64_t idx, key, id[3];

	if (open_path_of(pid, m, ret_where) < 0)
		return NULL;
	id[0] = ret_where->id.dev;
	id[1] = ret_where->id.ino;
	id[2] = m->ino; /* two ids of one hash: once in 2^64 */
	key = gs_hash_bytes(id, sizeof(id));
	if (gs_map_get(&p->by_id, key, &idx))
		return &p->files[idx];
	if (p->n_files == FILES_MAX) {
		gs_map_fini(&p->by_id);
		p->by_id = GS_MAP_INIT(FILES_MAX);
		p->n_files = 0;
	}
	idx = p->n_files;
	read_file(p, ret_where, &p->files[idx]);
	if (gs_map_put(&p->by_id, key, idx) < 0)
		return NULL;
	p->n_files++;
	return &p->files[idx];
}

/* Offsets and address, from the process that has the file mapped. */
static int read_process(pid_t pid, const struct python_file *f, uint64_t bias,
			struct gs_py_proc *ret, struct gs_err *err)
{
	uint8_t head[GS_PY_DEBUG_BYTES];
	uint64_t version = 0;
	int r = gs_python_peek(pid, f->runtime + bias, head, sizeof(head));

	if (r < 0)
		return r == -ESRCH ? r : -EAGAIN;
	r = gs_python_layout_debug(head, sizeof(head), ret);
	if (r == -ENOENT) {
		if (f->version_at &&
		    gs_python_peek(pid, f->version_at + bias, &version, sizeof(version)) < 0)
			return -EAGAIN;
		version = f->version_at ? version >> 16 : f->version;
		r = gs_python_layout((uint16_t)version, ret);
	} else {
		memcpy(&version, head + 8, sizeof(version));
		version >>= 16;
	}
	if (r < 0) {
		ret->runtime = f->runtime + bias;
		ret->version = version > 0x0300 && version < 0x0400 ? (uint16_t)version : 0;
		if (version > 0x0300 && version < 0x0400)
			return gs_err_set(
				err, r,
				"process %d runs Python 3.%u, whose stacks cannot be read (3.8 to 3.14 can, but for pre-releases)",
				(int)pid, (unsigned)version & 0xff);
		return gs_err_set(
			err, r,
			"process %d runs a Python whose version is not known (3.8 to 3.14 can be read)",
			(int)pid);
	}
	ret->runtime = f->runtime + bias;
	return 0;
}

/* Whether the interpreter's variables are where they belong. A loader maps the beginning of a library
 * over all of its place first, and may wait for a processor then: what is read there is no version. */
static bool is_in_place(struct gs_guard_work *work, pid_t pid, uint64_t address)
{
	char name[32], line[4200], perms[5];
	unsigned long long start, end;
	GS_FCLOSE FILE *maps = NULL;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	while (maps && gs_guard_step(work) == 0 && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) == 3 && start <= address &&
		    address < end)
			return perms[1] == 'w';
	return false;
}

static bool parse_mapping(const char *line, struct mapping *m)
{
	unsigned long long start, end, off, ino;
	char perms[5];
	int at = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*x:%*x %llu %n", &start, &end, perms, &off, &ino,
		   &at) != 5 ||
	    !at || perms[2] != 'x' || line[at] != '/')
		return false;
	m->start = start;
	m->end = end;
	m->off = off;
	m->ino = ino;
	snprintf(m->path, sizeof(m->path), "%s", line + at);
	m->path[strcspn(m->path, "\n")] = 0;
	return true;
}

/* The program itself (the first file mapped executable) and libraries of that name. */
static bool may_be_python(const struct mapping *m, unsigned nth)
{
	const char *slash = strrchr(m->path, '/');

	return nth == 0 || (slash && strncmp(slash + 1, "libpython", 9) == 0);
}

int gs_pythons_find(struct gs_pythons *p, pid_t pid, struct gs_py_proc *ret, struct gs_err *err)
{
	GS_CLEANUP(gs_guard_end) struct gs_guard_work work = {0};
	GS_FCLOSE FILE *maps = NULL;
	uint64_t image;
	int image_r = gs_python_image(pid, &image);
	struct mapping m;
	char name[32], line[4200];
	unsigned nth = 0;
	int r;

	snprintf(line, sizeof(line), "mappings of process %d", (int)pid);
	r = gs_guard_begin(&work, gs_foreign_process_uid(pid), line);
	if (r < 0)
		return r;
	r = -ENOENT;
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (gs_guard_step(&work) == 0 && fgets(line, sizeof(line), maps)) {
		const struct python_file *f;
		struct gs_mapped_file where;
		uint64_t bias;

		if (!parse_mapping(line, &m) || !may_be_python(&m, nth++))
			continue;
		f = file_of(p, pid, &m, &where);
		if (f && f->is_old) {
			ret->version = GS_PYTHONS_OLD;
			r = gs_err_set(
				err, -ENOTSUP,
				"process %d runs a Python older than 3.7, whose stacks cannot be read (3.8 to 3.14 can)",
				(int)pid);
		}
		if (!f || f->error < 0 || !f->runtime)
			continue;
		r = gs_elf_bias(&f->segments, m.start, m.off, &bias);
		if (r == 0)
			r = read_process(pid, f, bias, ret, err);
		if (r == -ENOTSUP)
			r = is_in_place(&work, pid, f->runtime + bias)
				    ? read_process(pid, f, bias, ret, err)
				    : -EAGAIN;
		if (r == 0 && image_r < 0)
			return image_r;
		if (r == 0) {
			ret->image = image;
			return 0;
		}
	}
	/* A program that is just being started has only its loader mapped yet, or not even that. */
	return r == -ENOENT && nth == 0 ? -EAGAIN : r;
}
