#include "core/base/window.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"

#define FIRST_BYTES ((size_t)256 << 10)

struct gs_window {
	uint8_t *base; /* owned; reserved */
	int fd;        /* borrowed */
	size_t item_bytes, all_bytes, mapped_bytes;
	unsigned n_items;
	atomic_uint n_mapped;
	bool failed;
	pthread_mutex_t lock; /* of what is mapped */
};

/* So many bytes at least, from the start. */
static int map_up_to(struct gs_window *w, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t want = w->mapped_bytes ? 2 * w->mapped_bytes : FIRST_BYTES;

	if (want < bytes)
		want = (bytes + page - 1) / page * page;
	if (want > w->all_bytes)
		want = w->all_bytes;
	if (mmap(w->base + w->mapped_bytes, want - w->mapped_bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, w->fd, (off_t)w->mapped_bytes) == MAP_FAILED)
		return -errno;
	w->mapped_bytes = want;
	want /= w->item_bytes;
	atomic_store(&w->n_mapped, want < w->n_items ? (unsigned)want : w->n_items);
	return 0;
}

int gs_window_open(int fd, unsigned n_items, size_t item_bytes, struct gs_window **ret_window,
		   void *ret_base)
{
	GS_CLEANUP(gs_window_close) struct gs_window *w = calloc(1, sizeof(*w));
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *base;
	int r;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->fd = fd;
	w->n_items = n_items;
	w->item_bytes = (item_bytes + 7u) & ~(size_t)7;
	w->all_bytes = (w->n_items * w->item_bytes + page - 1) / page * page;
	base = mmap(NULL, w->all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (base == MAP_FAILED)
		return -errno;
	w->base = base;
	r = map_up_to(w, 1);
	if (r < 0)
		return r;
	*(void **)ret_base = w->base;
	*ret_window = gs_take(w);
	return 0;
}

void gs_window_close(struct gs_window **window)
{
	struct gs_window *w = *window;

	if (w && w->base)
		munmap(w->base, w->all_bytes);
	if (w)
		pthread_mutex_destroy(&w->lock);
	free(w);
	*window = NULL;
}

unsigned gs_window_reach(struct gs_window *w, unsigned n)
{
	unsigned n_mapped = atomic_load(&w->n_mapped);
	int r = 0;

	if (n > w->n_items)
		n = w->n_items;
	if (n <= n_mapped)
		return n;
	pthread_mutex_lock(&w->lock);
	if (n > atomic_load(&w->n_mapped) && !w->failed)
		r = map_up_to(w, (size_t)n * w->item_bytes);
	if (r < 0) {
		w->failed = true;
		gs_guard_refuse(GS_REFUSED_MEMORY, 1, "the kernel's counters");
	}
	n_mapped = atomic_load(&w->n_mapped);
	pthread_mutex_unlock(&w->lock);
	return n < n_mapped ? n : n_mapped;
}
