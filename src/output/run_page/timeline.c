/*
 * An excerpt of the timeline: what threads and GPUs did between two times. What would be too short to be
 * seen is counted alone, and so is what comes after the excerpt is full.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/gpu_work/record.h"
#include "model/trace/account.h"
#include "model/trace/dict.h"
#include "output/run_page/run_page_int.h"

#define LEAST_PART  4000 /* of the excerpt: what is shorter is no point of a screen */
#define NAMES_MAX   2000
#define TRACKS_KEPT 512
#define NAME_BYTES  160

/* Numbers of names and tracks are made of ids and one of these. */
enum source { OF_CALL = 1, OF_WAIT = 2, OF_GPU = 3 };

struct span {
	uint64_t start_ns, dur_ns; /* from the excerpt's begin */
	uint32_t track, name;
	uint8_t depth;
};

struct track {
	char name[NAME_BYTES];
	enum source source;
	uint64_t covered_ns; /* by its outermost spans */
	size_t n;
};

struct gs_run_page_timeline {
	struct gs_dict *dict;    /* owned */
	uint64_t from_ns, to_ns; /* from the start of the recording */
	uint64_t n_shorter, n_left_out;
	struct span *spans; /* owned, like the following */
	size_t n_spans, cap_spans;
	struct track *tracks;
	size_t n_tracks, cap_tracks;
	char (*names)[NAME_BYTES];
	size_t n_names, cap_names;
	struct gs_map track_by_key, name_by_key;
};

int gs_run_page_new_timeline(uint64_t from_ns, uint64_t to_ns, struct gs_run_page_timeline **ret)
{
	struct gs_run_page_timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->from_ns = from_ns;
	t->to_ns = to_ns;
	t->track_by_key = GS_MAP_INIT(TRACKS_KEPT);
	t->name_by_key = GS_MAP_INIT(NAMES_MAX);
	t->dict = gs_dict_new();
	*ret = t;
	if (t->dict)
		return 0;
	gs_run_page_free_timeline(ret);
	return -ENOMEM;
}

void gs_run_page_free_timeline(struct gs_run_page_timeline **timeline)
{
	struct gs_run_page_timeline *t = *timeline;

	if (!t)
		return;
	gs_dict_free(&t->dict);
	gs_map_fini(&t->track_by_key);
	gs_map_fini(&t->name_by_key);
	free(t->spans);
	free(t->tracks);
	free(t->names);
	free(t);
	*timeline = NULL;
}

/* The number of a name; -ENOBUFS: too many, -ENOMEM. */
static int64_t find_name(struct gs_run_page_timeline *t, enum source source, uint64_t id,
			 const char *prefix, const char *text)
{
	uint64_t key = id << 2 | source, i;

	if (gs_map_get(&t->name_by_key, key, &i))
		return (int64_t)i;
	if (t->n_names == NAMES_MAX)
		return -ENOBUFS;
	if (!gs_vec_reserve(&t->names, &t->cap_names, t->n_names + 1) ||
	    gs_map_put(&t->name_by_key, key, t->n_names) < 0)
		return -ENOMEM;
	snprintf(t->names[t->n_names], NAME_BYTES, "%s%s", prefix, *text ? text : "unknown");
	return (int64_t)t->n_names++;
}

static int64_t find_track(struct gs_run_page_timeline *t, enum source source, uint64_t id,
			  const char *name)
{
	uint64_t key = id << 2 | source, i;

	if (gs_map_get(&t->track_by_key, key, &i))
		return (int64_t)i;
	if (t->n_tracks == TRACKS_KEPT)
		return -ENOBUFS;
	if (!gs_vec_reserve(&t->tracks, &t->cap_tracks, t->n_tracks + 1) ||
	    gs_map_put(&t->track_by_key, key, t->n_tracks) < 0)
		return -ENOMEM;
	t->tracks[t->n_tracks] = (struct track){.source = source};
	snprintf(t->tracks[t->n_tracks].name, NAME_BYTES, "%s", name);
	return (int64_t)t->n_tracks++;
}

/* Within the excerpt, and long enough to be seen? Times of the boot clock; cuts them to it. */
static bool clip_span(struct gs_run_page_timeline *t, uint64_t *start_ns, uint64_t *end_ns)
{
	const struct gs_rec_session *session = gs_dict_session(t->dict);
	uint64_t zero_ns = session ? session->start_ns : 0;
	uint64_t from_ns = zero_ns + t->from_ns, to_ns = zero_ns + t->to_ns;

	if (*end_ns <= from_ns || *start_ns >= to_ns || *end_ns < *start_ns)
		return false;
	*start_ns = (*start_ns > from_ns ? *start_ns : from_ns) - from_ns;
	*end_ns = (*end_ns < to_ns ? *end_ns : to_ns) - from_ns;
	if (*end_ns - *start_ns >= (t->to_ns - t->from_ns) / LEAST_PART)
		return true;
	t->n_shorter++;
	return false;
}

static int add_span(struct gs_run_page_timeline *t, int64_t track, int64_t name, uint64_t start_ns,
		    uint64_t end_ns, uint8_t depth)
{
	if (track == -ENOMEM || name == -ENOMEM)
		return -ENOMEM;
	if (track < 0 || name < 0 || t->n_spans == GS_RUN_PAGE_SPANS_MAX) {
		t->n_left_out++;
		return 0;
	}
	if (!gs_vec_reserve(&t->spans, &t->cap_spans, t->n_spans + 1))
		return -ENOMEM;
	t->spans[t->n_spans++] =
		(struct span){start_ns, end_ns - start_ns, (uint32_t)track, (uint32_t)name, depth};
	t->tracks[track].n++;
	t->tracks[track].covered_ns += depth ? 0 : end_ns - start_ns;
	return 0;
}

static const char *name_thread(const struct gs_run_page_timeline *t, uint32_t id, const char *what,
			       char out[NAME_BYTES])
{
	const struct gs_rec_thread *thread = gs_dict_thread(t->dict, id);
	const struct gs_rec_process *p = thread ? gs_dict_process(t->dict, thread->process) : NULL;

	snprintf(out, NAME_BYTES, "%.80s %u%s%s",
		 thread ? gs_dict_string(t->dict, thread->comm_str) : "thread",
		 thread ? thread->tid : 0, what, "");
	if (p && thread->tid != p->pid)
		snprintf(out, NAME_BYTES, "%.80s %u of process %u%s",
			 gs_dict_string(t->dict, thread->comm_str), thread->tid, p->pid, what);
	return out;
}

static int take_call(struct gs_run_page_timeline *t, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(t->dict, c->function);
	uint64_t start_ns = c->start_ns, end_ns = c->start_ns + c->dur_ns;
	char name[NAME_BYTES];

	if (!clip_span(t, &start_ns, &end_ns))
		return 0;
	return add_span(t, find_track(t, OF_CALL, c->thread, name_thread(t, c->thread, "", name)),
			find_name(t, OF_CALL, c->function, "",
				  f ? gs_dict_string(t->dict, f->name_str) : ""),
			start_ns, end_ns, c->depth);
}

static int take_wait(struct gs_run_page_timeline *t, const struct gs_rec_wait *w)
{
	uint64_t end_ns = w->time_ns, start_ns = end_ns > w->wait_ns ? end_ns - w->wait_ns : 0;
	const char *cause = gs_account_wait_name(w->cause);
	char name[NAME_BYTES];

	if (!clip_span(t, &start_ns, &end_ns))
		return 0;
	return add_span(
		t, find_track(t, OF_WAIT, w->thread, name_thread(t, w->thread, ", waiting", name)),
		find_name(t, OF_WAIT, w->cause, "waiting: ", cause ? cause : ""), start_ns, end_ns,
		0);
}

static int take_gpu_work(struct gs_run_page_timeline *t, const struct gs_rec_gpu_work *r)
{
	static const char *const kinds[] = {
		[GS_WORK_COPY] = "copy", [GS_WORK_FILL] = "memset", [GS_WORK_GRAPH] = "graph"};
	const struct gs_gpu_work *w = &r->work;
	const struct gs_rec_process *p = gs_dict_process(t->dict, r->process);
	uint64_t start_ns = w->start_ns, end_ns = w->end_ns;
	const char *text = w->what == GS_WORK_KERNEL ? gs_dict_string(t->dict, r->short_str)
			   : w->what < GS_ARRAY_LEN(kinds) && kinds[w->what] ? kinds[w->what]
									     : NULL;
	uint64_t place = (uint64_t)(r->process & 0xfffff) << 36 |
			 (uint64_t)(w->device & 0xff) << 28 | (w->stream & 0xfffffff);
	char name[NAME_BYTES];

	if (!text || !w->start_ns || !clip_span(t, &start_ns, &end_ns))
		return 0;
	snprintf(name, sizeof(name), "GPU %u, stream %u of process %u", w->device, w->stream,
		 p ? p->pid : 0);
	return add_span(t, find_track(t, OF_GPU, place, name),
			find_name(t, OF_GPU,
				  w->what == GS_WORK_KERNEL ? (uint64_t)r->short_str + GS_WORK_KINDS
							    : w->what,
				  "", text),
			start_ns, end_ns, 0);
}

int gs_run_page_push(struct gs_run_page_timeline *t, const struct gs_batch *batch)
{
	int ret = 0;

	gs_records_for_each (batch, r) {
		int one = 0;

		if (r->kind == GS_REC_CALL)
			one = take_call(t, (const void *)r);
		else if (r->kind == GS_REC_WAIT)
			one = take_wait(t, (const void *)r);
		else if (r->kind == GS_REC_GPU_WORK)
			one = take_gpu_work(t, (const void *)r);
		else
			one = gs_dict_apply(t->dict, r);
		if (one == -ENOMEM)
			ret = one;
	}
	return ret;
}

/* --- as JSON --- */

/* The busiest tracks first. Returns how many. */
static size_t order_tracks(const struct gs_run_page_timeline *t, uint32_t order[TRACKS_KEPT])
{
	for (uint32_t i = 0; i < t->n_tracks; i++) {
		uint32_t at = i;

		for (; at && t->tracks[order[at - 1]].covered_ns < t->tracks[i].covered_ns; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	return t->n_tracks < GS_RUN_PAGE_TRACKS_MAX ? t->n_tracks : GS_RUN_PAGE_TRACKS_MAX;
}

static void put_track(struct gs_doc *doc, const struct gs_run_page_timeline *t, uint32_t number)
{
	static const char *const sources[] = {
		[OF_CALL] = "calls", [OF_WAIT] = "waits", [OF_GPU] = "gpu"};
	const struct track *track = &t->tracks[number];

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_text(doc, "name", track->name);
	gs_doc_put_text(doc, "of", sources[track->source]);
	gs_doc_begin_list(doc, "spans", track->n);
	for (size_t i = 0; i < t->n_spans; i++) {
		const struct span *s = &t->spans[i];

		if (s->track != number)
			continue;
		gs_doc_begin_flat_list(doc, NULL);
		gs_doc_put_u64(doc, NULL, s->start_ns);
		gs_doc_put_u64(doc, NULL, s->dur_ns);
		gs_doc_put_u64(doc, NULL, s->name);
		gs_doc_put_u64(doc, NULL, s->depth);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
	gs_pen_yield(doc->pen);
}

void run_page_put_timeline(struct gs_doc *doc, const struct gs_run_page_timeline *t)
{
	uint32_t order[TRACKS_KEPT];
	size_t n = order_tracks(t, order);

	gs_doc_begin_map(doc, "timeline");
	gs_doc_put_u64(doc, "start_ns", t->from_ns);
	gs_doc_put_u64(doc, "duration_ns", t->to_ns - t->from_ns);
	gs_doc_put_u64(doc, "shorter", t->n_shorter);
	gs_doc_put_u64(doc, "left_out", t->n_left_out);
	gs_doc_put_u64(doc, "tracks_left_out", t->n_tracks - n);
	gs_doc_begin_list(doc, "names", t->n_names);
	for (size_t i = 0; i < t->n_names; i++)
		gs_doc_put_word(doc, NULL, t->names[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "tracks", n);
	for (size_t i = 0; i < n; i++)
		put_track(doc, t, order[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}
