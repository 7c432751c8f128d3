/*
 * Pages that live blocks lie in. The driver gives small blocks out of pages of 2 MiB, and a page is
 * free when its last block is: what the pages have more than the blocks is unused, by rounding or
 * because blocks that were freed lay between others. Pages that a block has for itself are only
 * counted; its first and last one may be shared and are remembered.
 */
#include "pipeline/gpu_memory/gpu_memory_int.h"

struct extent {
	uint64_t first, last; /* pages */
};

static struct extent extent_of(const struct memory_block *b)
{
	return (struct extent){b->pointer / GS_MEMORY_PAGE_BYTES,
			       (b->pointer + b->bytes - 1) / GS_MEMORY_PAGE_BYTES};
}

static void see_page_peak(struct memory_holder *h)
{
	h->sums.page_bytes = h->live_pages * GS_MEMORY_PAGE_BYTES;
	if (h->sums.page_bytes > h->sums.peak_page_bytes)
		h->sums.peak_page_bytes = h->sums.page_bytes;
}

/* One more block lies in it: 1 when it is the first. Without room, it is a page of its own. */
static uint64_t enter_page(struct gs_memory *m, uint32_t process, uint64_t page)
{
	struct memory_block *p = memory_table_find(&m->pages, process, MEMORY_SPACE_PAGE, page);

	if (p) {
		p->bytes++;
		return 0;
	}
	p = memory_table_add(&m->pages, process, MEMORY_SPACE_PAGE, page);
	if (p)
		p->bytes = 1;
	return 1;
}

/* 1: it was the last. */
static uint64_t leave_page(struct gs_memory *m, uint32_t process, uint64_t page)
{
	struct memory_block *p = memory_table_find(&m->pages, process, MEMORY_SPACE_PAGE, page);

	if (p && --p->bytes)
		return 0;
	if (p)
		memory_table_remove(&m->pages, p);
	return 1;
}

void memory_pages_add(struct gs_memory *m, uint32_t holder, struct memory_block *b)
{
	struct memory_holder *h = &m->holders[holder];
	struct extent e = extent_of(b);

	if (!b->bytes || b->pointer < GS_MEMORY_PAGE_BYTES || b->pointer + b->bytes < b->pointer)
		return;
	b->flags |= MEMORY_HAS_PAGES;
	h->live_pages += enter_page(m, b->process, e.first);
	if (e.last != e.first)
		h->live_pages += e.last - e.first - 1 + enter_page(m, b->process, e.last);
	see_page_peak(h);
}

void memory_pages_remove(struct gs_memory *m, uint32_t holder, const struct memory_block *b)
{
	struct memory_holder *h = &m->holders[holder];
	struct extent e = extent_of(b);
	uint64_t n;

	if (!(b->flags & MEMORY_HAS_PAGES))
		return;
	n = leave_page(m, b->process, e.first);
	if (e.last != e.first)
		n += e.last - e.first - 1 + leave_page(m, b->process, e.last);
	h->live_pages -= n < h->live_pages ? n : h->live_pages;
	see_page_peak(h);
}
