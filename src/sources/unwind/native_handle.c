/*
 * Which host function a handle of a kernel is of, by the memory of its process: programs of nvcc 13 keep the
 * handle of each kernel that they have launched in a variable of its own (sources/cubin/stubs.h), so also of
 * a process that was there before gpuscope, its kernels have names. Variables lie side by side: those of a
 * file are read in a few pieces.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/python.h"

#define PIECE_BYTES  65536u
#define HANDLE_TRIES 3

struct handle_search {
	struct gs_guard_work work;
	uint32_t pid;
	uint64_t handle, bias;
	const struct gs_cubin_handle *handles;
	size_t n;
	uint8_t piece[PIECE_BYTES];
};

/* How many of the variables from here on lie in one piece. */
static size_t count_near(const struct handle_search *s, size_t from)
{
	size_t n = 1;

	while (from + n < s->n &&
	       s->handles[from + n].vaddr - s->handles[from].vaddr <= PIECE_BYTES - 8)
		n++;
	return n;
}

static bool find_in_file(struct handle_search *s, uint64_t *ret_host)
{
	size_t n;

	for (size_t i = 0; i < s->n && gs_guard_step(&s->work) == 0; i += n) {
		uint64_t first = s->handles[i].vaddr;

		n = count_near(s, i);
		if (gs_python_peek((pid_t)s->pid, first + s->bias, s->piece,
				   s->handles[i + n - 1].vaddr - first + 8) < 0)
			continue;
		for (size_t k = i; k < i + n; k++) {
			uint64_t value;

			memcpy(&value, s->piece + (s->handles[k].vaddr - first), sizeof(value));
			if (value == s->handle) {
				*ret_host = s->handles[k].stub + s->bias;
				return true;
			}
		}
	}
	return false;
}

/* The file's variables, asked for once; none of files without CUDA code. The file need not stay open: a
 * process has more of them than may be. What is no fault of the file (its owner's share of time is used up,
 * no memory, readers that ended) is tried again with later handles. */
static void read_handles(struct gs_native *n, uint32_t file)
{
	struct native_file *f = &n->files[file - 1];
	int r = f->handle_tries < HANDLE_TRIES ? -ESTALE : 0;

	for (int i = 0; i < 2 && r == -ESTALE; i++) {
		f = native_file_open(n, file);
		r = f ? native_ask_handles(n, file, &f->handles, &f->n_handles) : -ENOENT;
	}
	f = &n->files[file - 1];
	if (r == -EDQUOT || r == -ECANCELED || r == -ENOMEM || r == -ESTALE)
		f->handle_tries++;
	else
		f->handle_tries = HANDLE_TRIES;
}

static bool search_files(struct gs_native *n, struct handle_search *s, uint64_t *ret_host)
{
	size_t n_maps;
	const struct native_map *maps = native_maps_of(n, s->pid, &n_maps);
	bool found = false;

	for (size_t i = 0; maps && i < n_maps && !found; i++) {
		const struct native_map *m = &maps[i];
		const struct native_file *f;

		if (!m->file)
			continue;
		if (gs_guard_step(&s->work) < 0)
			break;
		read_handles(n, m->file);
		f = &n->files[m->file - 1];
		if (!f->n_handles || !f->segments ||
		    gs_elf_bias(f->segments, m->start, m->file_off, &s->bias) < 0)
			continue;
		s->handles = f->handles;
		s->n = f->n_handles;
		found = find_in_file(s, ret_host);
	}
	return found;
}

bool gs_native_host_function(struct gs_native *n, uint32_t pid, uint64_t handle, uint64_t *ret_host)
{
	struct handle_search *s = calloc(1, sizeof(*s));
	bool found = false;

	if (!s)
		return false;
	n->now_ns = gs_clock_mono_ns();
	s->pid = pid;
	s->handle = handle;
	if (gs_guard_begin(&s->work, gs_foreign_process_uid((pid_t)pid), "handles of kernels") == 0)
		found = search_files(n, s, ret_host);
	gs_guard_end(&s->work);
	free(s);
	return found;
}
