/*
 * The files that code comes from, by identity: open ones are few, the others are known by name. An
 * address counts by file, so what is learned of a library serves all processes that map it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "stack/native_int.h"

static struct native_file *file_at(struct gs_native *n, uint32_t file)
{
	return file && file <= n->n_files ? &n->files[file - 1] : NULL;
}

static void drop_indexes(struct gs_native *n, struct native_file *f)
{
	if (f->symbols)
		n->index_bytes -= gs_symbols_bytes(f->symbols);
	if (f->cfi)
		n->index_bytes -= gs_cfi_bytes(f->cfi);
	gs_symbols_free(&f->symbols);
	gs_cfi_free(&f->cfi);
}

static void close_file(struct gs_native *n, struct native_file *f)
{
	drop_indexes(n, f);
	if (f->elf)
		n->n_open--;
	gs_elf_close(&f->elf);
}

void native_files_fini(struct gs_native *n)
{
	for (uint32_t i = 0; i < n->n_files; i++) {
		close_file(n, &n->files[i]);
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
	if (n->n_files == n->capacity) {
		uint32_t capacity = n->capacity ? 2 * n->capacity : 64;
		struct native_file *grown = realloc(n->files, capacity * sizeof(*grown));

		if (!grown)
			return 0;
		n->files = grown;
		n->capacity = capacity;
	}
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
		if (!f->elf && f->pid != pid && strcmp(f->open_path, mapped->open_path) != 0) {
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
	char path[64];

	if (n->vdso)
		return n->vdso;
	n->vdso = add_file(n, "[vdso]", "");
	f = file_at(n, n->vdso);
	if (f) {
		GS_CLOSE int fd = vdso_copy();

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		f->is_vdso = true;
		if (fd < 0 || gs_elf_open(path, &f->elf, NULL) < 0)
			f->cannot_open = true;
		else
			n->n_open++;
	}
	return n->vdso;
}

/* Close what was used longest ago. The vdso cannot be opened again. */
static void make_room(struct gs_native *n)
{
	while (n->n_open >= GS_NATIVE_MAX_OPEN) {
		struct native_file *oldest = NULL;

		for (uint32_t i = 0; i < n->n_files; i++) {
			struct native_file *f = &n->files[i];

			if (f->elf && !f->is_vdso && (!oldest || f->used < oldest->used))
				oldest = f;
		}
		if (!oldest)
			return;
		close_file(n, oldest);
	}
}

struct native_file *native_file_open(struct gs_native *n, uint32_t file)
{
	struct native_file *f = file_at(n, file);
	struct gs_foreign_want want;
	int r;

	if (!f || f->cannot_open)
		return NULL;
	f->used = ++n->uses;
	if (f->elf)
		return f;
	make_room(n);
	/* Another file may stand at the name by now. */
	want = (struct gs_foreign_want){.dev = f->id.dev, .ino = f->id.ino};
	r = gs_elf_open_known(f->open_path, &want, &f->elf, NULL);
	if (r < 0 && r != -ECANCELED)
		r = gs_elf_open_known(f->path, &want, &f->elf, NULL);
	if (r < 0) {
		gs_log(2, "%s: cannot be read for stacks: %s", f->path, strerror(-r));
		f->cannot_open = true;
		return NULL;
	}
	n->n_open++;
	return f;
}

/* Give up indexes and scanned tables of other files until this one's fit. */
static void bound_indexes(struct gs_native *n, const struct native_file *keep)
{
	while (n->index_bytes > GS_NATIVE_INDEX_BYTES) {
		struct native_file *oldest = NULL;

		for (uint32_t i = 0; i < n->n_files; i++) {
			struct native_file *f = &n->files[i];

			if ((f->symbols || (f->cfi && gs_cfi_bytes(f->cfi))) && f != keep &&
			    (!oldest || f->used < oldest->used))
				oldest = f;
		}
		if (!oldest)
			return;
		drop_indexes(n, oldest);
	}
}

struct gs_cfi *native_file_cfi(struct gs_native *n, uint32_t file)
{
	struct native_file *f = native_file_open(n, file);

	if (!f || f->no_cfi)
		return NULL;
	if (!f->cfi) {
		if (gs_cfi_new(f->elf, &f->cfi) < 0) {
			f->no_cfi = true;
			return NULL;
		}
		n->index_bytes += gs_cfi_bytes(f->cfi);
		bound_indexes(n, f);
	}
	return f->cfi;
}

struct gs_symbols *native_file_symbols(struct gs_native *n, uint32_t file)
{
	struct native_file *f = native_file_open(n, file);
	const char *roots[2] = {"", ""};
	char root[64];

	if (!f)
		return NULL;
	if (!f->symbols) {
		/* Its own root first: a container brings the debug files of its libraries. */
		snprintf(root, sizeof(root), "/proc/%u/root", f->pid);
		roots[0] = root;
		if (gs_symbols_new(f->elf, f->path, roots, 2, &f->symbols) < 0)
			return NULL;
		n->index_bytes += gs_symbols_bytes(f->symbols);
		bound_indexes(n, f);
		gs_log(2, "%s: names from %s", f->path,
		       *gs_symbols_source(f->symbols) ? gs_symbols_source(f->symbols)
						      : "its own tables");
	}
	return f->symbols;
}
