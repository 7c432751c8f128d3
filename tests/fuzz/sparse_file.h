/*
 * A large file with holes out of few bytes, for targets whose cost lies in a file's size:
 *
 *	u32 size in pages of 4 KiB | chunks: u32 page | u16 n | n bytes at its beginning
 *
 * It is at most SPARSE_MAX_BYTES long and has at most SPARSE_CHUNKS chunks. What is read for it is
 * counted by a guard, and compared with what is in it.
 */
#ifndef TESTS_FUZZ_SPARSE_FILE_H
#define TESTS_FUZZ_SPARSE_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/foreign.h"

#define SPARSE_MAX_BYTES (8ull << 30)
#define SPARSE_CHUNKS    24u
#define SPARSE_PAGE      4096u

struct sparse_file {
	int fd;
	char path[32];
	uint64_t bytes;
	uint64_t at[SPARSE_CHUNKS]; /* where they begin */
	unsigned n_chunks;
};

static inline void sparse_open(struct sparse_file *f, const uint8_t *data, size_t bytes)
{
	uint32_t page = 0;
	uint16_t n;

	*f = (struct sparse_file){.fd = memfd_create("sparse", MFD_CLOEXEC)};
	if (f->fd < 0)
		abort();
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
	if (bytes >= sizeof(page))
		memcpy(&page, data, sizeof(page));
	f->bytes = page * (uint64_t)SPARSE_PAGE % (SPARSE_MAX_BYTES + 1);
	for (size_t at = sizeof(page); at + 6 <= bytes && f->n_chunks < SPARSE_CHUNKS;
	     at += 6 + n, f->n_chunks++) {
		uint64_t off;

		memcpy(&page, data + at, sizeof(page));
		memcpy(&n, data + at + 4, sizeof(n));
		n = n % (4 * SPARSE_PAGE);
		if (n > bytes - at - 6)
			n = (uint16_t)(bytes - at - 6);
		off = page * (uint64_t)SPARSE_PAGE % SPARSE_MAX_BYTES;
		if (pwrite(f->fd, data + at + 6, n, (off_t)off) != n)
			abort();
		f->at[f->n_chunks] = off;
		if (off + n > f->bytes)
			f->bytes = off + n;
	}
	if (ftruncate(f->fd, (off_t)f->bytes) < 0)
		abort();
}

static inline void sparse_close(struct sparse_file *f)
{
	close(f->fd);
}

/* This thread's guard: what it reads is bounded by what is in files, not by their size. */
static inline struct gs_guard *sparse_guard(void)
{
	static struct gs_guard *guard;
	const struct gs_guard_options o = {.size = sizeof(o)};

	if (!guard && gs_guard_new(&o, &guard) < 0)
		abort();
	gs_guard_enter(guard);
	return guard;
}

/* Since before, not more was read than some passes over what the file has: a block of 256 KiB for
 * each chunk and each pass, the headers of all sections that a file may have, and small reads. */
static inline void sparse_check(const struct sparse_file *f, uint64_t before)
{
	uint64_t most = (64ull << 20) + f->n_chunks * (8ull << 20);

	if (gs_guard_bytes_read(sparse_guard()) - before > most) {
		fprintf(stderr, "%llu bytes read for a file of %u chunks\n",
			(unsigned long long)(gs_guard_bytes_read(sparse_guard()) - before),
			f->n_chunks);
		abort();
	}
}

#endif
