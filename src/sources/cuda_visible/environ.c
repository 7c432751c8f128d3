#include "sources/cuda_visible/environ.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/elf/elf.h"
#include "sources/elf/library.h"
#include "sources/elf/object.h"

#define FILES_MAX      64   /* whose variable is remembered */
#define CANDIDATES_MAX 4    /* files of a process that may have it */
#define VARIABLES_MAX  8192 /* that are looked at */
#define PIECE          256  /* pointers read at once */
#define VALUE_BYTES    4096

/* Where the variable lies in a file, from where it is mapped executable. */
struct place {
	uint64_t distance; /* 0: it is not there */
};

struct gs_cuda_environ {
	struct gs_reader *reader;
	struct gs_map by_file; /* hash of file and offset -> index */
	struct place places[FILES_MAX];
	uint32_t n_places;
};

/* Of one process: what maps it, by rising address. */
struct search {
	struct gs_cuda_environ *environ;
	uint64_t address[CANDIDATES_MAX]; /* of the variable */
	unsigned n;
	bool seen_file;
};

struct gs_cuda_environ *gs_cuda_visible_environ_new(struct gs_reader *reader)
{
	struct gs_cuda_environ *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->reader = reader;
	e->by_file = GS_MAP_INIT(FILES_MAX);
	return e;
}

void gs_cuda_visible_environ_free(struct gs_cuda_environ **environ)
{
	if (!*environ)
		return;
	gs_map_fini(&(*environ)->by_file);
	free(*environ);
	*environ = NULL;
}

/* --- the variable in a file --- */

int gs_cuda_visible_environ_serve(void **state, struct gs_reader_request *request,
				  struct gs_wire_out *reply, struct gs_err *err)
{
	/* A program that is linked to use it has a copy, and the library uses that. */
	static const char *const names[] = {"__environ", "environ"};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	const char *name = gs_wire_text(&request->in);
	uint64_t map_off = gs_wire_u64(&request->in), vaddr[2] = {0}, bias;
	struct gs_elf_segments segments;
	int r;

	if (!name || !gs_wire_is_done(&request->in))
		return -EBADMSG;
	r = gs_elf_open_fd(&request->fds[0], name, false, &elf, err);
	if (r == 0)
		r = gs_elf_objects(elf, names, GS_ARRAY_LEN(names), vaddr);
	if (r == 0)
		r = gs_elf_code_segments(elf, &segments);
	/* As if it were mapped at 0. */
	if (r == 0)
		r = gs_elf_bias(&segments, 0, map_off, &bias);
	if (r < 0)
		return r;
	if (!vaddr[0])
		vaddr[0] = vaddr[1];
	gs_wire_put_u64(reply, vaddr[0] ? vaddr[0] + bias : 0);
	return 0;
}

static uint64_t ask_distance(struct gs_cuda_environ *e, const struct gs_mapping *m)
{
	const struct gs_foreign_want want = {.dev = m->file->id.dev, .ino = m->file->id.ino};
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(8192);
	GS_CLEANUP(gs_buf_fini) struct gs_buf reply = GS_BUF_INIT(4096);
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	struct gs_wire_out out = {.buf = &request};
	struct gs_wire_in in;
	uint64_t distance;

	if (gs_foreign_open(m->file->open_path, &want, &file) < 0)
		return 0;
	gs_wire_put_text(&out, m->file->open_path);
	gs_wire_put_u64(&out, m->file_off);
	gs_reader_set_owner(e->reader, file.uid);
	if (out.r < 0 ||
	    gs_reader_ask(e->reader, GS_READER_ENVIRON, &request, &file.fd, 1, &reply, NULL) < 0)
		return 0;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	distance = gs_wire_u64(&in);
	return gs_wire_is_done(&in) ? distance : 0;
}

static uint64_t find_distance(struct gs_cuda_environ *e, const struct gs_mapping *m)
{
	uint64_t id[] = {m->file->id.dev, m->file->id.ino, m->file_off}, i;
	uint64_t key = gs_hash_bytes(id, sizeof(id));

	if (gs_map_get(&e->by_file, key, &i))
		return e->places[i].distance;
	if (e->n_places == FILES_MAX) {
		gs_map_fini(&e->by_file);
		e->by_file = GS_MAP_INIT(FILES_MAX);
		e->n_places = 0;
	}
	i = e->n_places;
	if (gs_map_put(&e->by_file, key, i) < 0)
		return 0;
	e->places[e->n_places++].distance = ask_distance(e, m);
	return e->places[i].distance;
}

static bool is_c_library(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-2.", 7) == 0 ||
	       strncmp(name, "ld-musl-", 8) == 0 || strncmp(name, "libc.musl-", 10) == 0;
}

/* The program itself comes first: where it has the variable, the library's is not used. */
static int on_mapping(void *ctx, const struct gs_mapping *m)
{
	struct search *s = ctx;
	uint64_t distance;

	if (!m->file || (!m->file->is_exe && !is_c_library(m->file->path)))
		return 0;
	distance = find_distance(s->environ, m);
	if (!distance)
		return 0;
	if (m->file->is_exe) {
		memmove(s->address + 1, s->address, sizeof(s->address) - sizeof(s->address[0]));
		s->address[0] = m->start + distance;
		s->n += s->n < CANDIDATES_MAX;
	} else if (s->n < CANDIDATES_MAX) {
		s->address[s->n++] = m->start + distance;
	}
	return 0;
}

/* --- what it points to --- */

/* As much as there is, at most bytes; 0: none. */
static size_t peek_memory(uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
	ssize_t n = process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

static bool is_wanted_variable(const char *text, size_t bytes)
{
	static const char *const names[] = {
		"CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=", "NVIDIA_VISIBLE_DEVICES="};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);

		if (bytes > n && memcmp(text, names[i], n) == 0)
			return true;
	}
	return false;
}

/* Adds the variable at that address, when it is one of ours. */
static void take_variable(uint32_t pid, uint64_t address, char *text, size_t *bytes)
{
	char value[VALUE_BYTES];
	/* The end of memory may be near. */
	size_t n = peek_memory(pid, address, value, 32);

	if (!is_wanted_variable(value, n))
		return;
	n = peek_memory(pid, address, value, sizeof(value));
	n = strnlen(value, n);
	if (n == sizeof(value) || n + 1 > GS_CUDA_ENVIRON_BYTES - *bytes)
		return;
	memcpy(text + *bytes, value, n);
	text[*bytes + n] = '\0';
	*bytes += n + 1;
}

static int read_variables(struct gs_guard_work *work, uint32_t pid, uint64_t list, char *text,
			  size_t *ret_bytes)
{
	uint64_t piece[PIECE];

	*ret_bytes = 0;
	for (unsigned done = 0; done < VARIABLES_MAX; done += PIECE, list += sizeof(piece)) {
		size_t n = peek_memory(pid, list, piece, sizeof(piece)) / sizeof(piece[0]);

		if (!n)
			return -EFAULT;
		for (size_t i = 0; i < n; i++) {
			int r = gs_guard_step(work);

			if (r < 0)
				return r;
			if (!piece[i])
				return 0;
			take_variable(pid, piece[i], text, ret_bytes);
		}
		if (n < PIECE)
			return -EFAULT;
	}
	return -E2BIG;
}

int gs_cuda_visible_environ_read(struct gs_cuda_environ *e, uint32_t pid,
				 char ret_text[GS_CUDA_ENVIRON_BYTES], size_t *ret_bytes)
{
	struct search s = {.environ = e};
	struct gs_guard_work work;
	int r = gs_library_scan_mappings((pid_t)pid, on_mapping, &s);

	*ret_bytes = 0;
	if (r < 0)
		return r;
	r = gs_guard_begin(&work, gs_foreign_process_uid((pid_t)pid), "environments");
	for (unsigned i = 0; r == 0 && i < s.n; i++) {
		uint64_t list = 0;

		if (peek_memory(pid, s.address[i], &list, sizeof(list)) != sizeof(list) || !list)
			continue;
		r = read_variables(&work, pid, list, ret_text, ret_bytes);
		gs_guard_end(&work);
		return r;
	}
	gs_guard_end(&work);
	return r < 0 ? r : -ENOENT;
}
