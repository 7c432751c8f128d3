#include "core/base/shrink.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/mem.h"

/* Of the stack below the caller this much stays: this file's own calls are in it. */
#define STACK_KEPT (64u << 10)

static atomic_bool heap_is_spared;

void gs_shrink_spare_heap(void)
{
	atomic_store(&heap_is_spared, true);
}

void gs_shrink_heap(void)
{
	if (!atomic_load(&heap_is_spared))
		malloc_trim(0);
}

void gs_shrink_begin_reuse(void)
{
	if (atomic_load(&heap_is_spared))
		return;
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

void gs_shrink_end_reuse(void)
{
	if (!atomic_load(&heap_is_spared))
		mallopt(M_MMAP_THRESHOLD, 256 << 10);
}

void gs_shrink_reused(void)
{
	if (atomic_load(&heap_is_spared))
		return;
	mallopt(M_TRIM_THRESHOLD, 256 << 10);
	malloc_trim(0);
}

static bool number_of(const char *line, const char *name, uint64_t *ret)
{
	size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && sscanf(line + n, ": %" SCNu64 " kB", ret) == 1;
}

bool gs_shrink_line(struct gs_shrink_mapping *m, const char *line)
{
	uint64_t begin, end, inode;
	char mode[5] = "", major[9], minor[9];
	int at = 0;

	/* proc(5): "begin-end mode offset major:minor inode  path" */
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %8[0-9a-f]:%8[0-9a-f] %" SCNu64 " %n",
		   &begin, &end, mode, major, minor, &inode, &at) == 6 &&
	    at > 0) {
		*m = (struct gs_shrink_mapping){.begin = begin, .end = end};
		/* Not devices: what a driver has put there may not come again. */
		m->file = mode[0] == 'r' && mode[1] == '-' && mode[3] == 'p' && inode &&
			  line[at] == '/' && strncmp(line + at, "/dev/", 5) != 0;
		m->stack = mode[1] == 'w' && strncmp(line + at, "[stack]", 7) == 0;
		return false;
	}
	/* Locked is the last of the three. */
	if (!number_of(line, "Rss", &m->rss_kib) &&
	    !number_of(line, "Anonymous", &m->anonymous_kib))
		m->complete |= number_of(line, "Locked", &m->locked_kib);
	return true;
}

enum gs_shrink_kind gs_shrink_kind_of(const struct gs_shrink_mapping *m)
{
	if (!m->complete || !m->rss_kib || m->locked_kib || m->end <= m->begin)
		return GS_SHRINK_NOT;
	if (m->file && !m->anonymous_kib)
		return GS_SHRINK_FILE;
	return m->stack ? GS_SHRINK_STACK : GS_SHRINK_NOT;
}

static void give_back(const struct gs_shrink_mapping *m, struct gs_shrunk *s)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	switch (gs_shrink_kind_of(m)) {
	case GS_SHRINK_FILE:
		if (madvise((void *)(uintptr_t)m->begin, m->end - m->begin, MADV_DONTNEED) == 0) {
			s->file_bytes += m->rss_kib << 10;
			s->n_mappings++;
		} else {
			s->n_refused++;
		}
		break;
	case GS_SHRINK_STACK:
		/* Only the thread that runs on it knows how deep it is. */
		if (gettid() != getpid() || here < m->begin || here > m->end)
			break;
		here = (here - STACK_KEPT) & ~(page - 1);
		if (here > m->begin &&
		    madvise((void *)(uintptr_t)m->begin, here - m->begin, MADV_DONTNEED) == 0)
			s->stack_bytes += here - m->begin;
		break;
	default:
		break;
	}
}

int gs_shrink_mappings(struct gs_shrunk *ret)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/smaps", "re");
	struct gs_shrink_mapping m = {0}, next;
	struct gs_shrunk s = {0};
	char line[512];

	if (!f)
		return -errno;
	/* A path may be longer than a line here; what is left of it is no line that counts. */
	while (fgets(line, sizeof(line), f)) {
		next = m;
		if (!gs_shrink_line(&next, line))
			give_back(&m, &s);
		m = next;
	}
	give_back(&m, &s);
	*ret = s;
	return 0;
}

size_t gs_shrink_zeroes(void *begin, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
	uintptr_t at = ((uintptr_t)begin + page - 1) & ~(uintptr_t)(page - 1);
	uintptr_t end = ((uintptr_t)begin + bytes) & ~(uintptr_t)(page - 1);

	for (; at < end; at += page) {
		const char *p = (const char *)at;

		/* All bytes are the next one, and the first is zero. */
		if (p[0] == 0 && memcmp(p, p + 1, page - 1) == 0 &&
		    madvise((void *)at, page, MADV_DONTNEED) == 0)
			n += page;
	}
	return n;
}
