/*
 * The reader's side parses the file and answers: when the profiler looked, the names of kernels, and one row for each
 * kernel, copy and fill, with the call that asked for it. The holder's side checks each of these.
 */
#include "pipeline/kineto/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "pipeline/kineto/kineto_int.h"

#define ROW_BYTES  sizeof(struct gs_kineto_work_row)
#define NAME_BYTES 4096 /* longer ones are cut */

/* --- the reader's side --- */

struct answer {
	const struct kineto *k;
	struct gs_wire_out *out;
	struct gs_map launches; /* correlation -> index of the call, + 1 */
	uint32_t *tids;         /* owned; by id of a thread */
	uint32_t *
		names; /* owned; by id of a string: its place among the names that are sent, from 1 */
	uint32_t n_names;
	uint64_t n_left_out;
};

static void note_launches(struct answer *a)
{
	for (size_t i = 0; i < a->k->n_events; i++) {
		const struct kineto_event *e = &a->k->events[i];

		if (!e->work && e->correlation)
			(void)gs_map_put(&a->launches, e->correlation, i + 1);
	}
}

static void put_names(struct answer *a)
{
	const struct kineto *k = a->k;
	const struct gs_batch names = {k->names.data, k->names.bytes};
	char text[NAME_BYTES];

	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *e = &k->events[i];

		if (e->work == GS_WORK_KERNEL && !a->names[e->name] &&
		    a->n_names < GS_KINETO_NAMES_MAX)
			a->names[e->name] = ++a->n_names;
	}
	/* In the order of their ids, which is not that of their places. */
	gs_wire_put_u32(a->out, a->n_names);
	gs_records_for_each (&names, r) {
		const struct gs_rec_string *s = (const void *)r;
		const struct gs_rec_thread *t = (const void *)r;

		if (r->kind == GS_REC_THREAD)
			a->tids[t->id] = t->tid;
		if (r->kind != GS_REC_STRING || !a->names[s->id])
			continue;
		snprintf(text, sizeof(text), "%.*s", (int)s->text_bytes, s->text);
		gs_wire_put_u32(a->out, a->names[s->id]);
		gs_wire_put_text(a->out, text);
	}
}

static void put_row(struct answer *a, const struct kineto_event *e)
{
	const struct kineto *k = a->k;
	struct gs_kineto_work_row row = {.name = e->work == GS_WORK_KERNEL ? a->names[e->name] : 0};
	struct gs_gpu_work *w = &row.work;
	uint64_t launch;

	w->what = e->work;
	w->start_ns = k->base_ns + e->start_ns;
	w->end_ns = w->start_ns + e->dur_ns;
	w->device = e->device;
	w->stream = e->stream;
	w->bytes = e->bytes;
	w->correlation = e->correlation;
	if (e->correlation && gs_map_get(&a->launches, e->correlation, &launch)) {
		const struct kineto_event *call = &k->events[launch - 1];

		w->launch_ns = k->base_ns + call->start_ns;
		w->launch_dur_ns = call->dur_ns;
		w->tid = a->tids[call->thread];
	}
	gs_wire_put(a->out, &row, sizeof(row));
}

static void put_answer(struct answer *a)
{
	const struct kineto *k = a->k;
	uint64_t from_ns = UINT64_MAX, to_ns = 0, n = 0;

	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *e = &k->events[i];

		from_ns = e->start_ns < from_ns ? e->start_ns : from_ns;
		to_ns = e->start_ns + e->dur_ns > to_ns ? e->start_ns + e->dur_ns : to_ns;
		n += e->work != 0;
	}
	if (k->window_from_ns && k->window_from_ns < from_ns)
		from_ns = k->window_from_ns;
	if (k->window_to_ns > to_ns)
		to_ns = k->window_to_ns;
	gs_wire_put_u64(a->out, k->base_ns + from_ns);
	gs_wire_put_u64(a->out, k->base_ns + to_ns);
	put_names(a);
	a->n_left_out = n > GS_KINETO_WORK_MAX ? n - GS_KINETO_WORK_MAX : 0;
	gs_wire_put_u64(a->out, a->n_left_out + k->stats.n_left_out);
	gs_wire_put_u32(a->out, (uint32_t)(n - a->n_left_out));
	n -= a->n_left_out;
	for (size_t i = 0; n && i < k->n_events; i++) {
		if (!k->events[i].work)
			continue;
		put_row(a, &k->events[i]);
		n--;
	}
}

struct position {
	struct gs_foreign file;
	uint64_t off;
};

static ssize_t read_on(void *cookie, char *to, size_t bytes)
{
	struct position *p = cookie;
	ssize_t n = gs_foreign_read(&p->file, p->off, to, bytes);

	if (n < 0) {
		errno = (int)-n;
		return -1;
	}
	p->off += (uint64_t)n;
	return n;
}

/* A reader may not ask what a descriptor is for, as fdopen() does (fcntl(2)). */
static int parse_fd(int *fd, struct kineto **ret, struct gs_err *err)
{
	const cookie_io_functions_t functions = {.read = read_on};
	struct position p = {.file = GS_FOREIGN_INIT};
	int r = gs_foreign_adopt(fd, NULL, &p.file);
	FILE *file;

	if (r < 0)
		return r;
	file = fopencookie(&p, "r", functions);
	r = file ? kineto_open(file, ret, err) : -ENOMEM;
	if (file)
		fclose(file);
	gs_foreign_close(&p.file);
	return r;
}

int gs_kineto_work_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
			 struct gs_err *err)
{
	GS_CLEANUP(kineto_close) struct kineto *k = NULL;
	struct answer a = {.out = reply, .launches = GS_MAP_INIT(GS_KINETO_EVENTS_MAX)};
	int r;

	(void)state;
	if (!gs_wire_is_done(&request->in) || request->fds[0] < 0)
		return -EBADMSG;
	r = parse_fd(&request->fds[0], &k, err);
	if (r < 0)
		return r;
	a.k = k;
	a.tids = calloc(k->n_threads + 1, sizeof(*a.tids));
	a.names = calloc(k->n_strings + 1, sizeof(*a.names));
	if (a.tids && a.names) {
		note_launches(&a);
		put_answer(&a);
	} else {
		r = -ENOMEM;
	}
	gs_map_fini(&a.launches);
	free(a.tids);
	free(a.names);
	return r;
}

/* --- the holder's side --- */

static uint64_t mono_of(uint64_t wall_ns, int64_t wall_minus_mono_ns)
{
	return wall_ns - (uint64_t)wall_minus_mono_ns;
}

static bool take_names(struct gs_wire_in *in, struct gs_kineto_work *w)
{
	uint32_t n = gs_wire_count(in, 5);

	if (n > GS_KINETO_NAMES_MAX)
		return false;
	w->names = calloc(n + 1, sizeof(*w->names));
	if (!w->names)
		return false;
	w->n_names = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t place = gs_wire_u32(in);
		const char *text = gs_wire_line(in);

		if (!place || place > n || !text)
			return false;
		w->names[place - 1] = text;
	}
	for (uint32_t i = 0; i < n; i++)
		if (!w->names[i])
			return false;
	return true;
}

static bool row_is_right(const struct gs_kineto_work_row *row, uint32_t n_names)
{
	const struct gs_gpu_work *w = &row->work;

	return w->what && w->what < GS_WORK_KINDS && w->end_ns >= w->start_ns &&
	       row->name <= n_names;
}

static bool take_rows(struct gs_wire_in *in, int64_t wall_minus_mono_ns, struct gs_kineto_work *w)
{
	uint32_t n = gs_wire_count(in, ROW_BYTES);

	if (n > GS_KINETO_WORK_MAX)
		return false;
	w->rows = calloc(n + 1, sizeof(*w->rows));
	if (!w->rows)
		return false;
	for (; w->n_rows < n; w->n_rows++) {
		const void *bytes = gs_wire_bytes(in, ROW_BYTES);
		struct gs_kineto_work_row *row = &w->rows[w->n_rows];

		if (!bytes)
			return false;
		memcpy(row, bytes, ROW_BYTES);
		if (!row_is_right(row, w->n_names))
			return false;
		row->work.start_ns = mono_of(row->work.start_ns, wall_minus_mono_ns);
		row->work.end_ns = mono_of(row->work.end_ns, wall_minus_mono_ns);
		if (row->work.launch_ns)
			row->work.launch_ns = mono_of(row->work.launch_ns, wall_minus_mono_ns);
	}
	return true;
}

int gs_kineto_work_ask(struct gs_reader *reader, int fd, int64_t wall_minus_mono_ns,
		       struct gs_kineto_work *ret_work, struct gs_err *err)
{
	struct gs_buf request = GS_BUF_INIT(64);
	struct gs_kineto_work *w = ret_work;
	struct gs_wire_in in;
	int r;

	*w = (struct gs_kineto_work){.answer = GS_BUF_INIT(GS_READER_MAX_BYTES)};
	r = gs_reader_ask(reader, GS_READER_KINETO, &request, &fd, 1, &w->answer, err);
	gs_buf_fini(&request);
	if (r < 0)
		return r;
	in = GS_WIRE_IN(w->answer.data, w->answer.bytes);
	w->from_ns = mono_of(gs_wire_u64(&in), wall_minus_mono_ns);
	w->to_ns = mono_of(gs_wire_u64(&in), wall_minus_mono_ns);
	if (!take_names(&in, w))
		return gs_reader_distrust(reader, err);
	w->n_left_out = gs_wire_u64(&in);
	if (!take_rows(&in, wall_minus_mono_ns, w) || !gs_wire_is_done(&in) ||
	    w->to_ns < w->from_ns)
		return gs_reader_distrust(reader, err);
	return 0;
}

void gs_kineto_work_fini(struct gs_kineto_work *w)
{
	free(w->rows);
	free(w->names);
	gs_buf_fini(&w->answer);
	*w = (struct gs_kineto_work){0};
}
