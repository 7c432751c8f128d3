/*
 * What a process's file has of Python functions: names, which are read before anything that says their numbers is
 * handed over, sums, and open functions.
 */
#include "sources/companion/companion_int.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/companion/python.h"
#include "sources/companion/companion.h"

#define ROWS_MAX   65536u /* of all threads of a process, that are kept to compare with */
#define ROWS_PIECE 64u    /* read at once */
#define PIECE      65536u /* of names, likewise */

struct row {
	struct gs_companion_python_row sum;
	uint32_t hist[GS_HIST_N_BUCKETS];
};

struct companion_python {
	uint64_t names_read; /* bytes */
	bool is_damaged;     /* its names are none: they are read no further */
	uint32_t n_rows;     /* of all slots */
	struct {
		struct row *rows; /* owned */
		uint32_t n;
		bool is_full; /* there were more than are kept; counted once */
	} slots[GS_COMPANION_SLOTS_MAX];
};

struct companion_python *companion_python_new(void)
{
	return calloc(1, sizeof(struct companion_python));
}

void companion_python_free(struct companion_python **ref)
{
	if (!*ref)
		return;
	for (unsigned i = 0; i < GS_COMPANION_SLOTS_MAX; i++)
		free((*ref)->slots[i].rows);
	free(*ref);
	*ref = NULL;
}

static off_t thread_at(const struct gs_companion_head *head, uint32_t slot)
{
	return (off_t)(gs_companion_python_at(head->n_slots, head->ring_bytes) +
		       (uint64_t)slot * sizeof(struct gs_companion_python_thread));
}

/* The names that a piece has whole; how many bytes they are. -1: it is no name. */
static long take_names(const uint8_t *piece, size_t bytes, uint32_t pid,
		       const struct gs_companion_handler *h)
{
	char file[GS_COMPANION_PYTHON_TEXT_MAX + 1], name[GS_COMPANION_PYTHON_TEXT_MAX + 1];
	size_t at = 0;

	while (bytes - at >= sizeof(struct gs_companion_python_name)) {
		const struct gs_companion_python_name *n = (const void *)(piece + at);

		if (n->bytes < sizeof(*n) || n->bytes % 8 || n->number == 0 ||
		    n->number >= GS_COMPANION_PYTHON_FUNCS ||
		    n->file_bytes > GS_COMPANION_PYTHON_TEXT_MAX ||
		    n->name_bytes > GS_COMPANION_PYTHON_TEXT_MAX ||
		    n->bytes < sizeof(*n) + n->file_bytes + n->name_bytes || n->bytes > PIECE)
			return -1;
		if (n->bytes > bytes - at)
			break;
		memcpy(file, n->text, n->file_bytes);
		file[n->file_bytes] = '\0';
		memcpy(name, n->text + n->file_bytes, n->name_bytes);
		name[n->name_bytes] = '\0';
		h->python_name(h->ctx, pid, n->number, file, name, n->line);
		at += n->bytes;
	}
	return (long)at;
}

void companion_python_names(struct companion_python *p, int fd,
			    const struct gs_companion_head *head,
			    const struct gs_companion_handler *h)
{
	off_t at = (off_t)gs_companion_python_names_at(head->n_slots, head->ring_bytes);
	uint8_t piece[PIECE] __attribute__((aligned(8)));
	uint64_t written;

	if (!h->python_name || p->is_damaged ||
	    pread(fd, &written, sizeof(written), at) != sizeof(written))
		return;
	at += (off_t)offsetof(struct gs_companion_python_names, names);
	while (p->names_read < written && !gs_guard_stopped()) {
		uint64_t left = written - p->names_read;
		size_t bytes = left < PIECE ? left : PIECE;
		long n = -1;

		if (written <= sizeof(((struct gs_companion_python_names *)0)->names) &&
		    pread(fd, piece, bytes, at + (off_t)p->names_read) == (ssize_t)bytes)
			n = take_names(piece, bytes, head->pid, h);
		if (n <= 0) {
			p->is_damaged = true;
			if (h->damaged)
				h->damaged(h->ctx, head->pid, left);
			return;
		}
		p->names_read += (uint64_t)n;
	}
}

/* Room for so many of the slot, the new ones zero; how many there are. */
static uint32_t hold_rows(struct companion_python *p, uint32_t slot, uint32_t n)
{
	struct row *rows;

	if (n <= p->slots[slot].n)
		return n;
	if (n - p->slots[slot].n > ROWS_MAX - p->n_rows)
		n = p->slots[slot].n + ROWS_MAX - p->n_rows;
	if (n == p->slots[slot].n)
		return n;
	rows = realloc(p->slots[slot].rows, n * sizeof(*rows));
	if (!rows)
		return p->slots[slot].n;
	memset(&rows[p->slots[slot].n], 0, (n - p->slots[slot].n) * sizeof(*rows));
	p->n_rows += n - p->slots[slot].n;
	p->slots[slot].rows = rows;
	p->slots[slot].n = n;
	return n;
}

static void report_row(const struct gs_companion_thread *from, int fd, off_t hist_at,
		       struct row *before, const struct gs_companion_python_row *sum,
		       const struct gs_companion_handler *h)
{
	struct row now = {.sum = *sum};
	struct gs_companion_python_sum s = {&before->sum, &now.sum, before->hist, now.hist};

	if (sum->calls == before->sum.calls)
		return;
	if (pread(fd, now.hist, sizeof(now.hist), hist_at) != (ssize_t)sizeof(now.hist))
		return;
	h->python_sum(h->ctx, from, &s);
	*before = now;
}

void companion_python_sums(struct companion_python *p, int fd, const struct gs_companion_head *head,
			   uint32_t slot, const struct gs_companion_thread *from,
			   const struct gs_companion_handler *h)
{
	const off_t begin = thread_at(head, slot),
		    hists = begin + (off_t)offsetof(struct gs_companion_python_thread, hist),
		    rows = begin + (off_t)offsetof(struct gs_companion_python_thread, rows);
	struct gs_companion_python_row piece[ROWS_PIECE];
	uint32_t numbers[2], n, kept;

	if (!h->python_sum || pread(fd, numbers, sizeof(numbers), begin) != sizeof(numbers))
		return;
	n = numbers[1] < GS_COMPANION_PYTHON_ROWS ? numbers[1] : GS_COMPANION_PYTHON_ROWS;
	kept = hold_rows(p, slot, n);
	if (kept < n && !p->slots[slot].is_full && h->lost)
		h->lost(h->ctx, from, GS_COMPANION_LOST_SUM, GS_LAYER_PYTHON, n - kept);
	p->slots[slot].is_full |= kept < n;
	for (uint32_t i = 0; i < kept && !gs_guard_stopped(); i += ROWS_PIECE) {
		uint32_t some = kept - i < ROWS_PIECE ? kept - i : ROWS_PIECE;
		size_t bytes = some * sizeof(piece[0]);

		if (pread(fd, piece, bytes, rows + (off_t)(i * sizeof(piece[0]))) != (ssize_t)bytes)
			return;
		companion_python_names(p, fd, head, h);
		for (uint32_t k = 0; k < some; k++)
			report_row(from, fd,
				   hists + (off_t)((i + k) * sizeof(uint32_t[GS_HIST_N_BUCKETS])),
				   &p->slots[slot].rows[i + k], &piece[k], h);
	}
}

void companion_python_open(struct companion_python *p, int fd, const struct gs_companion_head *head,
			   uint32_t slot, const struct gs_companion_thread *from,
			   const struct gs_companion_handler *h)
{
	off_t begin = thread_at(head, slot);
	struct gs_companion_python_frame f;
	uint32_t depth = 0;

	if (!h->python_open || pread(fd, &depth, sizeof(depth), begin) != sizeof(depth))
		return;
	begin += (off_t)offsetof(struct gs_companion_python_thread, frames);
	for (uint32_t i = 0; i < depth && i < GS_COMPANION_PYTHON_OPEN && !gs_guard_stopped();
	     i++, begin += (off_t)sizeof(f)) {
		if (pread(fd, &f, sizeof(f), begin) != (ssize_t)sizeof(f))
			return;
		companion_python_names(p, fd, head, h);
		h->python_open(h->ctx, from, &f, i);
	}
}
