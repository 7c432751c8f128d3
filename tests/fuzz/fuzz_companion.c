/*
 * A file as a traced process may leave it, read as gpuscope reads it: what is handed over lies within what was
 * read, is of a kind that is known, and as long as that kind is. It is read twice, with other positions the
 * second time.
 */
#include "sparse_file.h"

#define FUZZ_MS_AT_ALL 3000.0 /* some bytes describe rings of megabytes */
#include "replay_main.h"
#include "model/companion/python.h"
#include "sources/companion/companion.h"

static unsigned sum; /* so that what is read is used */

static void take_record(void *ctx, const struct gs_companion_thread *from,
			const struct gs_companion_record *r)
{
	size_t min = gs_companion_min_bytes(r->kind);

	if (!min || r->bytes < min || r->kind == GS_COMPANION_PAD)
		abort();
	for (size_t i = 0; i < r->bytes; i++)
		sum += ((const uint8_t *)r)[i];
}

static void take_inner(void *ctx, const struct gs_companion_thread *from, unsigned func, uint32_t n)
{
	if (func >= GS_FUNC_FIXED || !n)
		abort();
}

static void take_open(void *ctx, const struct gs_companion_thread *from,
		      const struct gs_frame *call, unsigned depth)
{
	if (depth >= GS_COMPANION_OPEN_MAX)
		abort();
	sum += call->func + (unsigned)call->v[GS_V_MAX - 1];
}

static void take_lost(void *ctx, const struct gs_companion_thread *from,
		      enum gs_companion_loss cause, unsigned layer, uint64_t n)
{
	if (cause >= GS_COMPANION_LOSSES || layer >= GS_LAYER_MAX || !n)
		abort();
}

static void take_sum(void *ctx, const struct gs_companion_thread *from,
		     const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
	if (before->calls == now->calls)
		abort();
	sum += now->func + now->hist[GS_HIST_N_BUCKETS - 1];
}

static void take_name(void *ctx, uint32_t pid, uint32_t number, const char *file, const char *name,
		      uint32_t line)
{
	if (!number || number >= GS_COMPANION_PYTHON_FUNCS ||
	    strlen(file) > GS_COMPANION_PYTHON_TEXT_MAX ||
	    strlen(name) > GS_COMPANION_PYTHON_TEXT_MAX)
		abort();
	sum += line;
}

static void take_row(void *ctx, const struct gs_companion_thread *from,
		     const struct gs_companion_python_sum *s)
{
	if (s->before->calls == s->now->calls)
		abort();
	sum += s->now->number + s->hist[GS_HIST_N_BUCKETS - 1] + s->hist_before[0];
}

static void take_frame(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_python_frame *frame, unsigned depth)
{
	if (depth >= GS_COMPANION_PYTHON_OPEN)
		abort();
	sum += frame->number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct gs_companion_handler h = {.record = take_record,
					       .inner = take_inner,
					       .open = take_open,
					       .sum = take_sum,
					       .python_name = take_name,
					       .python_sum = take_row,
					       .python_open = take_frame,
					       .lost = take_lost};
	struct gs_companion_file *file = NULL;
	struct sparse_file s;
	bool full = false;
	int fd;

	sparse_open(&s, data, bytes);
	sparse_guard();
	fd = dup(s.fd);
	if (fd < 0)
		abort();
	if (gs_companion_file_open(&fd, 1, &file) == 0) {
		gs_companion_file_read(file, &h, true, &full);
		/* The first slot's position moves on by what the input's end says. */
		if (bytes >= 8 && pwrite(s.fd, data + bytes - 8, 8, GS_COMPANION_SLOTS_AT + 8) != 8)
			abort();
		gs_companion_file_read(file, &h, true, &full);
		gs_companion_file_open_calls(file, &h);
		gs_companion_file_reclaim(file, &h);
		if (ftruncate(s.fd, GS_COMPANION_SLOTS_AT) < 0)
			abort();
		gs_companion_file_read(file, &h, true, &full);
		gs_companion_file_stop(file);
	}
	gs_companion_file_free(&file);
	if (fd >= 0)
		abort();
	sparse_close(&s);
	return 0;
}
