/*
 * Work that is pending: what comes in goes into the last segment of its stream, what is known to be
 * done leaves at the front. What a finished segment waited for is done too: such points are put on a
 * list (todo) and taken from it until nothing is left, so that no chain of waits is too long.
 */
#include <string.h>

#include "core/base/vec.h"
#include "pipeline/gpu_activity/gpu_activity_int.h"

#define ALL UINT64_MAX

bool activity_is_capturing(const struct gs_activity *a, uint32_t capture, uint32_t generation)
{
	return capture && a->captures[capture].open &&
	       a->captures[capture].generation == generation;
}

/* --- the time in which work is pending --- */

static void begin_active(struct gs_activity *a, struct activity_stream *s, uint64_t start_ns)
{
	struct activity_context *c = &a->contexts[s->context];
	uint64_t gap_ns;

	s->active_ns = start_ns > s->done_ns ? start_ns : s->done_ns;
	gap_ns = s->done_ns ? s->active_ns - s->done_ns : 0;
	if (gap_ns) {
		s->totals.n_gaps++;
		s->totals.gap_ns += gap_ns;
		if (gap_ns > s->totals.gap_max_ns)
			s->totals.gap_max_ns = gap_ns;
	}
	s->totals.n_spans++;
	if (gap_ns && a->span)
		a->span(a->span_ctx, &(struct gs_activity_span){.kind = GS_ACTIVITY_SPAN_GAP,
								.process = c->sums.process,
								.context = c->sums.context,
								.thread = s->thread,
								.index = (uint32_t)(s - a->streams),
								.stream = s->handle,
								.start_ns = s->done_ns,
								.end_ns = s->active_ns});
	if (c->n_active++)
		return;
	c->active_ns = start_ns > c->done_ns ? start_ns : c->done_ns;
	gap_ns = c->done_ns ? c->active_ns - c->done_ns : 0;
	c->sums.n_gaps += gap_ns > 0;
	c->sums.gap_ns += gap_ns;
	if (gap_ns > c->sums.gap_max_ns)
		c->sums.gap_max_ns = gap_ns;
}

static void end_active(struct gs_activity *a, struct activity_stream *s, uint64_t end_ns)
{
	struct activity_context *c = &a->contexts[s->context];

	s->done_ns = end_ns > s->active_ns ? end_ns : s->active_ns;
	s->totals.busy_max_ns += s->done_ns - s->active_ns;
	if (--c->n_active)
		return;
	c->done_ns = end_ns > c->active_ns ? end_ns : c->active_ns;
	c->sums.busy_max_ns += c->done_ns - c->active_ns;
	if (a->busy)
		a->busy(a->busy_ctx, s->context - 1, GS_ACTIVITY_AT_MOST, c->active_ns, c->done_ns);
}

/* --- segments --- */

static uint32_t take_segment(struct gs_activity *a)
{
	uint32_t i = a->free_segment;

	if (i) {
		a->free_segment = a->segments[i].next;
		return i;
	}
	i = a->n_segments;
	if (i > a->config.max_segments || !gs_vec_reserve(&a->segments, &a->cap_segments, i + 1))
		return 0;
	a->n_segments++;
	return i;
}

static void list_stream(struct gs_activity *a, uint32_t stream)
{
	struct activity_stream *s = &a->streams[stream];
	uint32_t *list = &a->contexts[s->context].list;

	s->listed = true;
	s->list_prev = 0;
	s->list_next = *list;
	if (*list)
		a->streams[*list].list_prev = stream;
	*list = stream;
}

static void unlist_stream(struct gs_activity *a, struct activity_stream *s)
{
	if (s->list_prev)
		a->streams[s->list_prev].list_next = s->list_next;
	else
		a->contexts[s->context].list = s->list_next;
	if (s->list_next)
		a->streams[s->list_next].list_prev = s->list_prev;
	s->listed = false;
}

static void add_lane(struct activity_segment *g, unsigned work, uint64_t first_ns, uint64_t n,
		     uint64_t bytes)
{
	struct activity_lane *l = &g->lanes[work];

	if (!(g->lanes_used >> work & 1)) {
		g->lanes_used |= (uint16_t)(1u << work);
		*l = (struct activity_lane){.first_ns = first_ns, .n = n, .bytes = bytes};
		return;
	}
	if (first_ns < l->first_ns)
		l->first_ns = first_ns;
	l->n += n;
	l->bytes += bytes;
}

static void add_dep(struct gs_activity *a, struct activity_segment *g,
		    const struct activity_point *at)
{
	for (unsigned i = 0; i < g->n_deps; i++) {
		struct activity_point *d = &g->deps[i];

		/* Of one stream the later point is enough. */
		if (d->stream != at->stream || d->generation != at->generation)
			continue;
		if (at->segment > d->segment)
			d->segment = at->segment;
		if (at->seq > d->seq)
			d->seq = at->seq;
		return;
	}
	if (g->n_deps == ACTIVITY_DEPS)
		a->n_limit[GS_ACTIVITY_LIMIT_WAITS]++;
	else
		g->deps[g->n_deps++] = *at;
}

/* Put the work of one segment into another. */
static void merge_work(struct activity_segment *to, const struct activity_segment *from)
{
	for (unsigned w = 0; w < GS_ACTIVITY_WORKS; w++)
		if (from->lanes_used >> w & 1)
			add_lane(to, w, from->lanes[w].first_ns, from->lanes[w].n,
				 from->lanes[w].bytes);
	to->threads += from->threads;
	to->n_pieces += from->n_pieces;
}

static void free_segment(struct gs_activity *a, uint32_t segment)
{
	a->segments[segment].next = a->free_segment;
	a->free_segment = segment;
}

/* The two oldest of a stream become one, under the number of the second. */
static void merge_oldest(struct gs_activity *a, struct activity_stream *s)
{
	uint32_t first = s->head;
	const struct activity_segment *from = &a->segments[first];
	struct activity_segment *to = &a->segments[from->next];

	merge_work(to, from);
	for (unsigned i = 0; i < from->n_deps; i++)
		add_dep(a, to, &from->deps[i]);
	if (from->legacy_seq > to->legacy_seq)
		to->legacy_seq = from->legacy_seq;
	if (from->last_ns > to->last_ns)
		to->last_ns = from->last_ns;
	s->head = from->next;
	s->n_segments--;
	free_segment(a, first);
	a->n_limit[GS_ACTIVITY_LIMIT_SEGMENTS]++;
}

/* A new last segment; when there is no room, the one that is last goes on. NULL: there is none. */
static struct activity_segment *append_segment(struct gs_activity *a, uint32_t stream,
					       uint32_t thread)
{
	struct activity_stream *s = &a->streams[stream];
	struct activity_segment *g;
	uint32_t i;

	if (s->n_segments >= a->config.max_stream_segments && s->n_segments > 1)
		merge_oldest(a, s);
	i = take_segment(a);
	if (!i && s->n_segments > 1) {
		merge_oldest(a, s);
		i = take_segment(a);
	}
	if (!i) {
		a->n_limit[GS_ACTIVITY_LIMIT_SEGMENTS]++;
		if (!s->tail)
			return NULL;
		/* Events that were recorded after it are done when what comes now is. */
		g = &a->segments[s->tail];
		g->number = s->next_number++;
		g->sealed = false;
		return g;
	}
	g = &a->segments[i];
	g->number = s->next_number++;
	g->last_seq = a->contexts[s->context].seq;
	g->legacy_seq = 0;
	g->last_ns = 0;
	g->threads = 0;
	g->n_pieces = 0;
	g->thread = thread;
	g->next = 0;
	g->lanes_used = 0;
	g->n_deps = 0;
	g->sealed = false;
	if (s->tail)
		a->segments[s->tail].next = i;
	else
		s->head = i;
	s->tail = i;
	s->n_segments++;
	if (!s->listed)
		list_stream(a, stream);
	return g;
}

/* Does the legacy default stream stand between the segment's last piece and what comes now? */
static bool is_divided(const struct activity_context *c, const struct activity_stream *s,
		       const struct activity_segment *g)
{
	if (s->is_legacy)
		return c->blocking_seq > g->last_seq;
	return s->blocking == GS_ACTIVITY_BLOCKING && c->legacy_seq > g->last_seq;
}

/* The next number of the context, and what that means to the legacy default stream. */
static void number_segment(struct gs_activity *a, const struct activity_stream *s,
			   struct activity_segment *g)
{
	struct activity_context *c = &a->contexts[s->context];

	g->last_seq = ++c->seq;
	if (s->is_legacy) {
		c->legacy_seq = c->seq;
	} else if (s->blocking == GS_ACTIVITY_BLOCKING) {
		g->legacy_seq = c->legacy_seq;
		c->blocking_seq = c->seq;
	}
}

void activity_work_add(struct gs_activity *a, uint32_t stream, const struct gs_activity_call *call,
		       uint64_t queued_ns)
{
	struct activity_stream *s = &a->streams[stream];
	struct activity_context *c = &a->contexts[s->context];
	struct activity_segment *g = s->tail ? &a->segments[s->tail] : NULL;
	uint32_t n = activity_pieces(call);

	if (!g || g->sealed ||
	    (g->n_pieces && (g->thread != call->thread || is_divided(c, s, g)))) {
		g = append_segment(a, stream, call->thread);
		if (!g)
			return;
	}
	g->thread = call->thread;
	if (!s->n_pending)
		begin_active(a, s, call->start_ns);
	s->n_pending += n;
	if (s->n_pending > s->totals.depth_max)
		s->totals.depth_max = s->n_pending;
	/* As each of the n was queued. */
	s->totals.depth_sum += (uint64_t)n * s->n_pending - (uint64_t)n * (n - 1) / 2;
	number_segment(a, s, g);
	g->n_pieces += n;
	if (queued_ns > g->last_ns)
		g->last_ns = queued_ns;
	g->threads += call->threads;
	add_lane(g, call->function.work, call->start_ns, n, call->bytes);
}

/* --- what is done --- */

static void push_todo(struct gs_activity *a, const struct activity_point *at)
{
	const struct activity_stream *s = &a->streams[at->stream];
	bool is_due =
		(at->stream && s->generation == at->generation && s->done_number < at->segment) ||
		(at->seq && at->seq > a->contexts[at->context].done_seq);

	if (!is_due)
		return;
	if (!gs_vec_reserve(&a->todo, &a->cap_todo, a->n_todo + 1)) {
		a->n_limit[GS_ACTIVITY_LIMIT_WAITS]++;
		return;
	}
	a->todo[a->n_todo++] = *at;
}

/* The spans of the work that became done together. */
static void report_spans(const struct gs_activity *a, const struct activity_stream *s,
			 const struct activity_segment *sum, const struct activity_closing *closing)
{
	const struct activity_context *c = &a->contexts[s->context];
	struct gs_activity_span span = {.kind = GS_ACTIVITY_SPAN_WORK,
					.ended = closing->ended,
					.process = c->sums.process,
					.context = c->sums.context,
					.thread = s->thread,
					.index = (uint32_t)(s - a->streams),
					.stream = s->handle,
					.end_ns = closing->end_ns};

	for (unsigned w = 0; w < GS_ACTIVITY_WORKS; w++) {
		const struct activity_lane *l = &sum->lanes[w];

		if (!(sum->lanes_used >> w & 1))
			continue;
		span.work = (uint8_t)w;
		span.start_ns = l->first_ns > s->span_ns ? l->first_ns : s->span_ns;
		if (span.start_ns > span.end_ns)
			span.start_ns = span.end_ns;
		span.n = l->n;
		span.bytes = l->bytes;
		span.threads = w == GS_ACTIVITY_KERNELS ? sum->threads / l->n : 0;
		a->span(a->span_ctx, &span);
	}
}

void gs_activity_report_pending(const struct gs_activity *a, uint64_t end_ns)
{
	const struct activity_closing closing = {.end_ns = end_ns, .ended = true};

	for (uint32_t i = 1; a->span && i < a->n_streams; i++) {
		const struct activity_stream *s = &a->streams[i];
		struct activity_segment sum;

		sum.lanes_used = 0;
		sum.n_pieces = 0;
		sum.threads = 0;
		for (uint32_t g = s->head; g; g = a->segments[g].next)
			merge_work(&sum, &a->segments[g]);
		if (sum.n_pieces)
			report_spans(a, s, &sum, &closing);
	}
}

/* Take the first segment out of its stream. */
static void pop_segment(struct gs_activity *a, struct activity_stream *s,
			struct activity_segment *sum)
{
	uint32_t i = s->head;
	struct activity_segment *g = &a->segments[i];
	struct activity_point at = {.context = s->context, .seq = g->legacy_seq};

	s->head = g->next;
	if (!s->head)
		s->tail = 0;
	s->n_segments--;
	s->done_number = g->number;
	if (a->span)
		merge_work(sum, g);
	else
		sum->n_pieces += g->n_pieces;
	if (s->is_legacy)
		at.seq = g->last_seq;
	if (at.seq)
		push_todo(a, &at);
	for (unsigned d = 0; d < g->n_deps; d++)
		push_todo(a, &g->deps[d]);
	free_segment(a, i);
}

/* Segments of the stream are done up to this number and this seq. */
static void close_stream(struct gs_activity *a, uint32_t stream, uint64_t number, uint64_t seq,
			 struct activity_closing *closing)
{
	struct activity_stream *s = &a->streams[stream];
	struct activity_segment sum;

	sum.lanes_used = 0;
	sum.n_pieces = 0;
	sum.threads = 0;
	while (s->head) {
		struct activity_segment *g = &a->segments[s->head];

		if (g->number > number || g->last_seq > seq)
			break;
		if (g->last_ns > closing->limit_ns) {
			/* Another thread queued while this one waited: done at the next wait. */
			g->sealed = true;
			break;
		}
		pop_segment(a, s, &sum);
	}
	if (!s->n_segments && s->listed) {
		unlist_stream(a, s);
		if (s->ended)
			activity_stream_retire(a, stream);
	}
	if (!sum.n_pieces)
		return;
	closing->n_pieces += sum.n_pieces;
	closing->n_own += stream == closing->stream ? sum.n_pieces : 0;
	if (a->span)
		report_spans(a, s, &sum, closing);
	if (closing->end_ns > s->span_ns)
		s->span_ns = closing->end_ns;
	if (closing->is_wait && stream != closing->stream)
		s->totals.wait_ns += closing->end_ns - closing->start_ns;
	s->n_pending -= sum.n_pieces;
	if (!s->n_pending)
		end_active(a, s, closing->end_ns);
}

/* All that the legacy default stream orders is done up to this seq, or all of the context. */
static void close_streams(struct gs_activity *a, uint32_t context, bool blocking_alone,
			  uint64_t seq, struct activity_closing *closing)
{
	uint32_t next;

	for (uint32_t i = a->contexts[context].list; i; i = next) {
		next = a->streams[i].list_next;
		if (!blocking_alone || a->streams[i].blocking == GS_ACTIVITY_BLOCKING)
			close_stream(a, i, ALL, seq, closing);
	}
}

/* Until nothing follows any more from what is done. */
static void settle_todo(struct gs_activity *a, struct activity_closing *closing)
{
	uint64_t limit_ns = closing->limit_ns;

	/* What follows was queued before what it follows from. */
	closing->limit_ns = ALL;
	while (a->n_todo) {
		struct activity_point at = a->todo[--a->n_todo];

		if (at.stream && a->streams[at.stream].generation == at.generation)
			close_stream(a, at.stream, at.segment, ALL, closing);
		if (at.seq > a->contexts[at.context].done_seq) {
			a->contexts[at.context].done_seq = at.seq;
			close_streams(a, at.context, true, at.seq, closing);
		}
	}
	closing->limit_ns = limit_ns;
}

void activity_work_close(struct gs_activity *a, uint32_t stream, uint64_t number,
			 struct activity_closing *closing)
{
	close_stream(a, stream, number, ALL, closing);
	settle_todo(a, closing);
}

void activity_work_close_context(struct gs_activity *a, uint32_t context, bool blocking_alone,
				 struct activity_closing *closing)
{
	close_streams(a, context, blocking_alone, ALL, closing);
	settle_todo(a, closing);
}

void activity_work_close_point(struct gs_activity *a, const struct activity_point *at,
			       struct activity_closing *closing)
{
	push_todo(a, at);
	settle_todo(a, closing);
}

struct activity_point activity_work_mark(struct gs_activity *a, uint32_t stream)
{
	struct activity_stream *s = &a->streams[stream];
	struct activity_context *c = &a->contexts[s->context];
	struct activity_point at = {.stream = stream,
				    .generation = s->generation,
				    .context = s->context,
				    .segment = s->next_number - 1};

	if (s->tail)
		a->segments[s->tail].sealed = true;
	/* There the event waits for all that is before it, as work would; elsewhere for what is
	 * before it there. */
	if (s->is_legacy)
		at.seq = c->legacy_seq = ++c->seq;
	else if (s->blocking == GS_ACTIVITY_BLOCKING && c->legacy_seq > c->done_seq)
		at.seq = c->legacy_seq;
	if (!s->is_legacy && at.seq)
		c->blocking_seq = ++c->seq;
	return at;
}

void activity_work_wait(struct gs_activity *a, uint32_t stream, const struct activity_point *at)
{
	const struct activity_stream *from = &a->streams[at->stream];
	struct activity_stream *s = &a->streams[stream];
	struct activity_segment *g;
	bool is_due = (from->generation == at->generation && from->done_number < at->segment) ||
		      at->seq > a->contexts[at->context].done_seq;

	/* Where the legacy default stream orders, it is an action that waits itself. */
	if (at->stream == stream || (!is_due && s->blocking != GS_ACTIVITY_BLOCKING))
		return;
	g = s->tail ? &a->segments[s->tail] : NULL;
	if (!g || g->sealed || g->n_pieces)
		g = append_segment(a, stream, 0);
	if (!g)
		return;
	if (is_due)
		add_dep(a, g, at);
	number_segment(a, s, g);
}

void activity_totals_add(struct gs_activity_totals *sum, const struct gs_activity_totals *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;
	struct gs_activity_totals was = *sum;

	_Static_assert(sizeof(*sum) % sizeof(*to) == 0, "totals are words");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
	sum->gap_max_ns = was.gap_max_ns > more->gap_max_ns ? was.gap_max_ns : more->gap_max_ns;
	sum->depth_max = was.depth_max > more->depth_max ? was.depth_max : more->depth_max;
	sum->first_ns = !was.first_ns || (more->first_ns && more->first_ns < was.first_ns)
				? more->first_ns
				: was.first_ns;
	sum->last_ns = was.last_ns > more->last_ns ? was.last_ns : more->last_ns;
}
