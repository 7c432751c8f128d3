/*
 * The files that code comes from, by identity: open ones are few, the others are known by name. An
 * address counts by file, so what is learned of a library serves all processes that map it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/symbolize.h"

static struct native_file *file_at(struct gs_native *n, uint32_t file)
{
	return file && file <= n->n_files ? &n->files[file - 1] : NULL;
}

/* With its reader everything that it knew is gone. */
static bool is_open(const struct gs_native *n, const struct native_file *f)
{
	return f->is_open && f->generation == gs_reader_generation(n->reader);
}

static uint32_t number_of(const struct gs_native *n, const struct native_file *f)
{
	return (uint32_t)(f - n->files) + 1;
}

static void forget_file(struct gs_native *n, struct native_file *f)
{
	n->n_open -= f->is_open;
	n->index_bytes -= f->index_bytes;
	f->index_bytes = 0;
	f->is_open = f->asked_debug = false;
	free(gs_take(f->build_id));
	free(gs_take(f->debug_link));
}

static void close_file(struct gs_native *n, struct native_file *f)
{
	if (is_open(n, f))
		native_ask_close(n, number_of(n, f));
	forget_file(n, f);
}

void native_files_fini(struct gs_native *n)
{
	for (uint32_t i = 0; i < n->n_files; i++) {
		forget_file(n, &n->files[i]);
		free(n->files[i].segments);
		free(n->files[i].handles);
		free(n->files[i].path);
		free(n->files[i].open_path);
	}
	free(n->files);
	gs_map_fini(&n->file_of_id);
}

static uint32_t add_file(struct gs_native *n, const char *path, const char *open_path)
{
	size_t bytes = strlen(path) + strlen(open_path);
	struct native_file *f;

	if (n->n_files == NATIVE_MAX_FILES || n->path_bytes + bytes > NATIVE_PATHS) {
		gs_guard_refuse(GS_REFUSED_MEMORY, 1, path);
		return 0;
	}
	if (!gs_vec_reserve(&n->files, &n->capacity, n->n_files + 1))
		return 0;
	f = &n->files[n->n_files];
	*f = (struct native_file){.path = strdup(path), .open_path = strdup(open_path)};
	if (!f->path || !f->open_path) {
		free(f->path);
		free(f->open_path);
		return 0;
	}
	n->path_bytes += bytes;
	return ++n->n_files;
}

uint32_t native_file_of(struct gs_native *n, uint32_t pid, const struct gs_mapped_file *mapped)
{
	uint64_t key = gs_hash_bytes(&mapped->id, sizeof(mapped->id)), i;
	struct native_file *f;
	uint32_t file;

	for (; gs_map_get(&n->file_of_id, key, &i); key++) {
		f = &n->files[i - 1];
		if (f->id.dev != mapped->id.dev || f->id.ino != mapped->id.ino)
			continue;
		/* The way to it may be closed by now: that of the living process is good. */
		if (!f->is_open && f->pid != pid && strcmp(f->open_path, mapped->open_path) != 0) {
			char *open_path = strdup(mapped->open_path);

			if (open_path) {
				free(f->open_path);
				f->open_path = open_path;
				f->pid = pid;
				f->cannot_open = false;
			}
		}
		return (uint32_t)i;
	}
	file = add_file(n, mapped->path, mapped->open_path);
	if (!file || gs_map_put(&n->file_of_id, key, file) < 0)
		return 0;
	f = &n->files[file - 1];
	f->id = mapped->id;
	f->pid = pid;
	f->uid = mapped->uid;
	return file;
}

/* Our own vdso is that of every process of this kernel; as a file it can be read like any other. */
static int vdso_copy(void)
{
	GS_FCLOSE FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	GS_CLOSE int fd = -1;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		fd = memfd_create("vdso", MFD_CLOEXEC);
		if (fd < 0 || write(fd, (void *)start, end - start) != (ssize_t)(end - start))
			return -1;
		return gs_take_fd(&fd);
	}
	return -1;
}

uint32_t native_file_vdso(struct gs_native *n)
{
	struct native_file *f;

	if (n->vdso)
		return n->vdso;
	n->vdso = add_file(n, "[vdso]", "");
	f = file_at(n, n->vdso);
	if (f) {
		n->vdso_fd = vdso_copy();
		f->is_vdso = true;
		f->cannot_open = n->vdso_fd < 0;
	}
	return n->vdso;
}

/* Close what was used longest ago. */
static void make_room(struct gs_native *n)
{
	while (n->n_open >= GS_NATIVE_MAX_OPEN) {
		struct native_file *oldest = NULL;

		for (uint32_t i = 0; i < n->n_files; i++) {
			struct native_file *f = &n->files[i];

			if (f->is_open && (!oldest || f->used < oldest->used))
				oldest = f;
		}
		if (!oldest)
			return;
		close_file(n, oldest);
	}
}

/* The file itself, opened by us: another one may stand at its name by now. */
static int open_mapped(struct gs_native *n, const struct native_file *f, struct gs_foreign *ret)
{
	const struct gs_foreign_want want = {.dev = f->id.dev, .ino = f->id.ino};
	int r, fd;

	if (f->is_vdso) {
		fd = fcntl(n->vdso_fd, F_DUPFD_CLOEXEC, 0);
		return gs_foreign_adopt(&fd, NULL, ret);
	}
	r = gs_foreign_open(f->open_path, &want, ret);
	return r < 0 && r != -ECANCELED ? gs_foreign_open(f->path, &want, ret) : r;
}

static int take_answer(struct native_file *f, const struct native_answer *a)
{
	if (!f->segments)
		f->segments = malloc(sizeof(*f->segments));
	f->build_id = strdup(a->build_id);
	f->debug_link = a->debug_link ? strdup(a->debug_link) : NULL;
	if (!f->segments || !f->build_id)
		return -ENOMEM;
	*f->segments = a->segments;
	f->has_symtab = a->has_symtab;
	return 0;
}

struct native_file *native_file_open(struct gs_native *n, uint32_t file)
{
	GS_FOREIGN_CLOSE struct gs_foreign opened = GS_FOREIGN_INIT;
	struct native_file *f = file_at(n, file);
	struct native_answer answer;
	int r;

	if (!f || f->cannot_open)
		return NULL;
	f->used = ++n->uses;
	if (is_open(n, f))
		return f;
	forget_file(n, f);
	make_room(n);
	r = open_mapped(n, f, &opened);
	if (r == 0)
		r = native_ask_open(n, file, opened.fd, &answer);
	if (r == 0)
		r = take_answer(f, &answer);
	if (r < 0) {
		gs_log(GS_LOG_DEBUG, GS_LOG_FILES, "%s: cannot be read for stacks: %s", f->path,
		       strerror(-r));
		f->cannot_open = true;
		return NULL;
	}
	f->generation = gs_reader_generation(n->reader);
	f->is_open = true;
	n->n_open++;
	return f;
}

/* Have tables of other files given up until this one's fit. */
static void bound_indexes(struct gs_native *n, const struct native_file *keep)
{
	while (n->index_bytes > GS_NATIVE_INDEX_BYTES) {
		struct native_file *oldest = NULL;

		for (uint32_t i = 0; i < n->n_files; i++) {
			struct native_file *f = &n->files[i];

			if (f->index_bytes && f != keep && (!oldest || f->used < oldest->used))
				oldest = f;
		}
		if (!oldest)
			return;
		native_ask_drop(n, number_of(n, oldest));
	}
}

int native_file_row(struct gs_native *n, uint32_t file, uint64_t vaddr, struct gs_cfi_row *ret_row)
{
	struct native_file *f = native_file_open(n, file);
	int r = f ? native_ask_row(n, file, vaddr, ret_row) : -ENOENT;

	/* Its reader died, and another one answered. */
	if (r == -ESTALE) {
		f = native_file_open(n, file);
		r = f ? native_ask_row(n, file, vaddr, ret_row) : -ENOENT;
	}
	if (f)
		bound_indexes(n, f);
	return r;
}

struct offer {
	struct gs_native *n;
	struct native_file *file;
};

/* True ends the walk. */
static bool offer_debug(void *ctx, const char *path, bool by_build_id)
{
	GS_FOREIGN_CLOSE struct gs_foreign opened = GS_FOREIGN_INIT;
	const struct offer *o = ctx;
	bool taken = false;

	if (gs_foreign_open(path, NULL, &opened) < 0)
		return false;
	if (native_ask_debug(o->n, number_of(o->n, o->file), path, by_build_id, opened.fd, &taken) <
	    0)
		return false;
	if (taken)
		gs_log(GS_LOG_DEBUG, GS_LOG_FILES, "%s: names from %s", o->file->path, path);
	return taken;
}

/* The file open, with its debug file where it needs one. */
static struct native_file *open_with_debug(struct gs_native *n, uint32_t file)
{
	struct native_file *f = native_file_open(n, file);
	struct offer offer = {n, f};
	const char *roots[2] = {"", ""};
	char root[64];

	if (!f || f->asked_debug)
		return f;
	f->asked_debug = true;
	if (f->has_symtab)
		return f;
	/* Its own root first: a container brings the debug files of its libraries. */
	snprintf(root, sizeof(root), "/proc/%u/root", f->pid);
	roots[0] = root;
	gs_unwind_debug_paths(f->build_id, f->debug_link, f->path, roots, 2, offer_debug, &offer);
	return f;
}

/* A name at an address of the file, by one of these questions. */
static bool find_name(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		      size_t bytes, struct native_file *(*reach)(struct gs_native *, uint32_t),
		      int (*ask)(struct gs_native *, uint32_t, uint64_t, char *, size_t))
{
	struct native_file *f = NULL;
	int r = -ESTALE;

	/* A second time: its reader died, and another one answered. */
	for (int i = 0; i < 2 && r == -ESTALE; i++) {
		f = reach(n, file);
		r = f ? ask(n, file, vaddr, ret_name, bytes) : -ENOENT;
	}
	if (f)
		bound_indexes(n, f);
	return r == 0;
}

bool native_file_name(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
		      size_t bytes)
{
	return find_name(n, file, vaddr, ret_name, bytes, open_with_debug, native_ask_name);
}

bool native_file_kernel(struct gs_native *n, uint32_t file, uint64_t vaddr, char *ret_name,
			size_t bytes)
{
	return find_name(n, file, vaddr, ret_name, bytes, native_file_open, native_ask_kernel);
}

int gs_native_needs(struct gs_native *n, uint32_t file, uint32_t sm, struct gs_cubin_wanted *wanted,
		    size_t n_wanted)
{
	int r = -ESTALE;

	for (int i = 0; i < 2 && r == -ESTALE; i++)
		r = native_file_open(n, file) ? native_ask_needs(n, file, sm, wanted, n_wanted)
					      : -ENOENT;
	return r;
}
