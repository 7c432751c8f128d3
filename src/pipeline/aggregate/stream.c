/*
 * What was asked of each stream: launches, copies, collectives, and waits for it. Only calls that
 * come one by one name their stream, so there is nothing of calls that were added up in the kernel.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

static struct view_stream *stream_of(struct gs_aggregate *v, uint32_t process, uint64_t handle)
{
	const uint64_t name[] = {process, handle};
	uint64_t key = gs_hash_bytes(name, sizeof(name)), idx;
	struct view_stream *s;

	if (gs_map_get(&v->stream_idx, key, &idx)) {
		s = (struct view_stream *)v->streams.items + idx;
		return s->process == process && s->stream == handle ? s : NULL;
	}
	s = gs_aggregate_grow(&v->streams, sizeof(*s), GS_AGGREGATE_MAX_STREAMS);
	if (!s || gs_map_put(&v->stream_idx, key, v->streams.n - 1) < 0) {
		v->streams.n -= s != NULL;
		return NULL;
	}
	s->process = process;
	s->stream = handle;
	return s;
}

/* Do calls of this class go to a stream? Events and devices are waited for without one. */
static bool uses_stream(unsigned func_class)
{
	return func_class == GS_CLASS_LAUNCH || func_class == GS_CLASS_GRAPH_LAUNCH ||
	       func_class == GS_CLASS_COPY || func_class == GS_CLASS_MEMSET ||
	       func_class == GS_CLASS_COLLECTIVE || func_class == GS_CLASS_P2P;
}

void gs_aggregate_take_stream(struct gs_aggregate *v, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, c->function);
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, c->thread);
	struct view_stream *s;

	if (!f || !t || f->layer < GS_LAYER_CUDA_RUNTIME || f->layer > GS_LAYER_NCCL)
		return;
	if (!uses_stream(f->func_class) && !(f->func_class == GS_CLASS_SYNC && c->stream))
		return;
	s = stream_of(v, t->process, c->stream);
	if (!s) {
		v->n_left_out++;
		return;
	}
	s->calls++;
	s->host_ns += c->dur_ns;
	s->bytes += c->failed ? 0 : c->bytes;
	if (f->func_class == GS_CLASS_LAUNCH || f->func_class == GS_CLASS_GRAPH_LAUNCH) {
		s->launches++;
	} else if (f->func_class == GS_CLASS_COPY || f->func_class == GS_CLASS_MEMSET) {
		s->copies++;
	} else if (f->func_class == GS_CLASS_SYNC) {
		s->syncs++;
		s->sync_ns += c->dur_ns;
	} else {
		s->collectives++;
	}
}

static int compare_streams(const void *a, const void *b)
{
	const struct gs_stream_summary *x = a, *y = b;

	if (x->host_ns != y->host_ns)
		return x->host_ns > y->host_ns ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

int gs_aggregate_add_streams(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct view_stream *from = v->streams.items;

	if (!v->streams.n)
		return 0;
	s->streams = gs_summary_alloc(s, v->streams.n * sizeof(*s->streams));
	if (!s->streams)
		return -ENOMEM;
	for (size_t i = 0; i < v->streams.n; i++) {
		const struct gs_rec_process *p = gs_dict_process(v->dict, from[i].process);

		s->streams[s->n_streams++] = (struct gs_stream_summary){
			.pid = p ? p->pid : 0,
			.stream = from[i].stream,
			.calls = from[i].calls,
			.launches = from[i].launches,
			.copies = from[i].copies,
			.collectives = from[i].collectives,
			.syncs = from[i].syncs,
			.bytes = from[i].bytes,
			.host_ns = from[i].host_ns,
			.sync_ns = from[i].sync_ns,
		};
	}
	qsort(s->streams, s->n_streams, sizeof(*s->streams), compare_streams);
	return 0;
}
