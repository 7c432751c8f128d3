/* gpuscope trace --head: the records also go to a head, as a stream of their own whose title is
 * what is traced. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "commands/trace_output/trace_head.h"

#define CHUNK_BYTES (1u << 20)

struct trace_head {
	struct to_head *to;
	struct gs_sink sink;
	bool sums_only; /* calls stay here */
};

/* --- records in --- */

/* When the records are from: those of calls say it, others are of now. */
static void widen_span(struct gs_uplink_span *span, const struct gs_record *r,
		       int64_t wall_minus_boot)
{
	const struct gs_rec_call *c = (const struct gs_rec_call *)r;
	int64_t first, last;

	if (r->kind != GS_REC_CALL)
		return;
	first = (int64_t)c->start_ns + wall_minus_boot;
	last = first + (int64_t)c->dur_ns;
	if (first < span->first_wall_ns)
		span->first_wall_ns = first;
	if (last > span->last_wall_ns)
		span->last_wall_ns = last;
}

/* Samples of GPUs: a head has those of the node's agent. */
static bool is_sample(const struct gs_record *r)
{
	return (r->kind >= GS_REC_GPU_INFO && r->kind <= GS_REC_HOST_PROCESS) ||
	       r->kind == GS_REC_HOST_JOB;
}

static bool is_left_out(const struct trace_head *h, const struct gs_record *r)
{
	return is_sample(r) || (h->sums_only && r->kind == GS_REC_CALL);
}

static int push_chunk(struct trace_head *h, const uint8_t *data, size_t bytes,
		      struct gs_uplink_span *span)
{
	struct gs_batch part = {.data = data, .bytes = bytes};

	return bytes ? gs_uplink_push(to_head_link(h->to), &part, span) : 0;
}

/* Feed's batches may be larger than what a head takes: cut between records. */
static int push_batch(void *ctx, const struct gs_batch *batch)
{
	struct trace_head *h = ctx;
	const int64_t now = (int64_t)gs_clock_wall_ns();
	const int64_t wall_minus_boot = now - (int64_t)gs_clock_boot_ns();
	const struct gs_uplink_span fresh = {.first_wall_ns = now, .last_wall_ns = now};
	struct gs_uplink_span span = fresh;
	size_t begin = 0, end = 0;
	int r = 0;

	gs_records_for_each (batch, record) {
		if (end - begin + record->bytes > CHUNK_BYTES || is_left_out(h, record)) {
			r = push_chunk(h, batch->data + begin, end - begin, &span);
			if (r < 0)
				return r;
			begin = end;
			span = fresh;
		}
		if (is_left_out(h, record)) {
			end += record->bytes;
			begin = end;
			continue;
		}
		end += record->bytes;
		span.n_samples++;
		widen_span(&span, record, wall_minus_boot);
	}
	return push_chunk(h, batch->data + begin, end - begin, &span);
}

/* --- life --- */

int trace_head_new(const struct to_head_options *options, const char *title, bool sums_only,
		   struct trace_head **ret_head, struct gs_err *err)
{
	struct trace_head *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	r = to_head_open(options, GS_UPLINK_TRACE, title, &h->to, err);
	if (r < 0) {
		gs_free_p(&h);
		return r;
	}
	h->sums_only = sums_only;
	h->sink = (struct gs_sink){.push = push_batch, .ctx = h};
	*ret_head = h;
	return 0;
}

const struct gs_sink *trace_head_sink(struct trace_head *head)
{
	return &head->sink;
}

int trace_head_finish(struct trace_head **head)
{
	int r;

	if (!*head)
		return 0;
	r = to_head_finish(&(*head)->to);
	gs_free_p(head);
	return r;
}

void trace_head_free(struct trace_head **head)
{
	if (!*head)
		return;
	to_head_abandon(&(*head)->to);
	gs_free_p(head);
}
