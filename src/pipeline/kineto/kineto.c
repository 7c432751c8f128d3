/*
 * From events to records. Calls are written as they end, those inside of a call before it, as gpuscope trace
 * does; how deep each is, and in which operator a call of CUDA is, follows from who holds whom on a thread.
 */
#include "pipeline/kineto/kineto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/gpu_work/record.h"
#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "pipeline/kineto/kineto_int.h"

#define ZERO_NS    1000000000ull /* where the trace begins on the clock of the recording */
#define NESTED_MAX 255
#define PUSH_BYTES (1u << 20)

static uint64_t hash_name(const char *name, uint64_t more)
{
	return gs_hash_bytes(name, strlen(name)) * 31 + more;
}

uint32_t kineto_find_string(struct kineto *k, const char *text)
{
	uint64_t key = hash_name(text, 0), id;

	if (gs_map_get(&k->strings, key, &id))
		return (uint32_t)id;
	if (gs_map_put(&k->strings, key, k->n_strings + 1) < 0)
		return 0;
	if (gs_record_put_string(&k->names, ++k->n_strings, text, strlen(text)) < 0)
		return 0;
	return k->n_strings;
}

uint32_t kineto_find_function(struct kineto *k, unsigned layer, unsigned func_class,
			      const char *name)
{
	uint64_t key = hash_name(name, layer + 1), id;
	uint32_t string;
	struct gs_rec_function *f;

	if (gs_map_get(&k->functions, key, &id))
		return (uint32_t)id;
	string = kineto_find_string(k, name);
	if (!string || gs_map_put(&k->functions, key, k->n_functions + 1) < 0)
		return 0;
	f = gs_record_put(&k->names, GS_REC_FUNCTION, sizeof(*f), 0);
	if (!f)
		return 0;
	f->id = ++k->n_functions;
	f->layer = (uint16_t)layer;
	f->func_class = (uint16_t)func_class;
	f->name_str = string;
	k->layers[f->id] = (uint8_t)layer;
	return f->id;
}

static uint32_t find_process(struct kineto *k, uint32_t pid)
{
	struct gs_rec_process *p;
	uint64_t id;

	if (gs_map_get(&k->processes, pid, &id))
		return (uint32_t)id;
	if (gs_map_put(&k->processes, pid, k->n_processes + 1) < 0)
		return 0;
	p = gs_record_put(&k->names, GS_REC_PROCESS, sizeof(*p), 0);
	if (!p)
		return 0;
	p->id = ++k->n_processes;
	p->pid = pid;
	p->uid = UINT32_MAX;
	return p->id;
}

uint32_t kineto_find_thread(struct kineto *k, uint32_t pid, uint32_t tid)
{
	uint64_t key = (uint64_t)pid << 32 | tid, id;
	struct gs_rec_thread *t;
	uint32_t process;

	if (gs_map_get(&k->threads, key, &id))
		return (uint32_t)id;
	process = find_process(k, pid);
	if (!process || gs_map_put(&k->threads, key, k->n_threads + 1) < 0)
		return 0;
	t = gs_record_put(&k->names, GS_REC_THREAD, sizeof(*t), 0);
	if (!t)
		return 0;
	t->id = ++k->n_threads;
	t->process = process;
	t->tid = tid;
	return t->id;
}

void kineto_take_name(struct kineto *k, uint32_t pid, uint32_t tid, const char *name)
{
	uint32_t string = kineto_find_string(k, name);

	if (string)
		(void)gs_map_put(&k->comms, (uint64_t)pid << 32 | tid, string);
}

/* A process without a name of its own has none. */
static uint32_t find_comm(const struct kineto *k, uint32_t pid, uint32_t tid)
{
	uint64_t string = 0;

	if (!gs_map_get(&k->comms, (uint64_t)pid << 32 | tid, &string))
		(void)gs_map_get(&k->comms, (uint64_t)pid << 32, &string);
	return (uint32_t)string;
}

/* Names are known when all has been read. Processes stand before their threads. */
static void name_threads(struct kineto *k)
{
	struct gs_batch names = {k->names.data, k->names.bytes};
	uint32_t pids[KINETO_THREADS_MAX + 1] = {0};

	gs_records_for_each (&names, r) {
		/* Our own buffer, lent to ourselves. */
		struct gs_rec_process *p = (void *)(uintptr_t)r;
		struct gs_rec_thread *t = (void *)(uintptr_t)r;

		if (r->kind == GS_REC_PROCESS) {
			p->comm_str = find_comm(k, p->pid, 0);
			pids[p->id] = p->pid;
		} else if (r->kind == GS_REC_THREAD) {
			t->comm_str = find_comm(k, pids[t->process], t->tid);
		}
	}
}

/* --- who holds whom --- */

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By thread, those that hold others first. */
static int by_start(const void *a, const void *b)
{
	const struct kineto_event *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return compare_u64(x->start_ns, y->start_ns);
	return compare_u64(y->dur_ns, x->dur_ns);
}

/* Deeper ones first where several end at once. */
static int by_end(const void *a, const void *b)
{
	const struct kineto_event *x = a, *y = b;
	int r = compare_u64(x->start_ns + x->dur_ns, y->start_ns + y->dur_ns);

	return r ? r : (int)y->depth - (int)x->depth;
}

static void nest_calls(struct kineto *k)
{
	const struct kineto_event *open[NESTED_MAX];
	unsigned n = 0;

	qsort(k->events, k->n_events, sizeof(*k->events), by_start);
	for (size_t i = 0; i < k->n_events; i++) {
		struct kineto_event *e = &k->events[i];
		uint64_t end_ns = e->start_ns + e->dur_ns;

		if (e->work)
			continue;
		while (n && (open[n - 1]->thread != e->thread ||
			     open[n - 1]->start_ns + open[n - 1]->dur_ns < end_ns))
			n--;
		e->depth = (uint8_t)n;
		for (unsigned at = n; at && !e->scope && k->layers[e->name] != GS_LAYER_TORCH; at--)
			if (k->layers[open[at - 1]->name] == GS_LAYER_TORCH)
				e->scope = open[at - 1]->name;
		if (n < NESTED_MAX)
			open[n++] = e;
	}
	qsort(k->events, k->n_events, sizeof(*k->events), by_end);
}

/* --- records --- */

struct writer {
	struct gs_buf out; /* not pushed yet */
	const struct gs_sink *sink;
	uint64_t first_ns, last_ns; /* of all events */
};

static int push_out(struct writer *w)
{
	struct gs_batch batch = {w->out.data, w->out.bytes};
	int r = w->out.bytes ? w->sink->push(w->sink->ctx, &batch) : 0;

	gs_buf_reset(&w->out);
	return r;
}

static uint64_t clock_of(const struct writer *w, uint64_t ns)
{
	return ns - w->first_ns + ZERO_NS;
}

static int put_session(struct kineto *k, const struct writer *w, const char *name,
		       struct gs_buf *out)
{
	uint32_t command = kineto_find_string(k, name);
	uint32_t how = kineto_find_string(k, GS_SESSION_IMPORTED);
	struct gs_rec_session *s = gs_record_put(out, GS_REC_SESSION, sizeof(*s), 0);

	if (!s || !command || !how)
		return -ENOMEM;
	s->version = GS_RECORD_VERSION;
	s->mode = GS_SESSION_EVENTS;
	s->start_ns = clock_of(w, w->first_ns);
	/* Kineto has the time of day, in us; other writers a clock of their own. */
	s->wall_minus_boot_ns = (int64_t)(k->base_ns + w->first_ns) - (int64_t)ZERO_NS;
	s->command_str = command;
	s->attach_mode_str = how;
	return 0;
}

static int put_window(struct writer *w, uint32_t process, unsigned what, uint64_t ns)
{
	struct gs_rec_gpu_window *r = gs_record_put(&w->out, GS_REC_GPU_WINDOW, sizeof(*r), 0);

	if (!r)
		return -ENOMEM;
	r->process = process;
	r->what = what;
	r->time_ns = clock_of(w, ns);
	return 0;
}

static int put_event(struct writer *w, const struct kineto_event *e)
{
	struct gs_rec_gpu_work *g;
	struct gs_rec_call *c;

	if (!e->work) {
		c = gs_record_put(&w->out, GS_REC_CALL, sizeof(*c), 0);
		if (!c)
			return -ENOMEM;
		c->start_ns = clock_of(w, e->start_ns);
		c->dur_ns = e->dur_ns;
		c->thread = e->thread;
		c->function = e->name;
		c->depth = e->depth;
		c->scope = e->scope;
		return 0;
	}
	g = gs_record_put(&w->out, GS_REC_GPU_WORK, sizeof(*g), 0);
	if (!g)
		return -ENOMEM;
	g->process = 1; /* a trace is of one process; its GPUs are numbered as that one sees them */
	g->name_str = g->short_str = e->work == GS_WORK_KERNEL ? e->name : 0;
	g->work.what = e->work;
	g->work.start_ns = clock_of(w, e->start_ns);
	g->work.end_ns = g->work.start_ns + e->dur_ns;
	g->work.device = e->device;
	g->work.stream = e->stream;
	g->work.bytes = e->bytes;
	return 0;
}

static int put_events(struct kineto *k, struct writer *w)
{
	bool has_work = k->stats.n_gpu_work && k->n_processes;
	struct gs_rec_end *end;
	int r = 0;

	if (has_work)
		r = put_window(w, 1, GS_GPU_WINDOW_OPENED, w->first_ns);
	for (size_t i = 0; r == 0 && i < k->n_events; i++) {
		if (!k->events[i].work || has_work)
			r = put_event(w, &k->events[i]);
		if (r == 0 && w->out.bytes >= PUSH_BYTES)
			r = push_out(w);
	}
	if (r == 0 && has_work)
		r = put_window(w, 1, GS_GPU_WINDOW_CLOSED, w->last_ns);
	if (r < 0)
		return r;
	end = gs_record_put(&w->out, GS_REC_END, sizeof(*end), 0);
	if (!end)
		return -ENOMEM;
	end->end_ns = clock_of(w, w->last_ns);
	end->exit_status = -1;
	return push_out(w);
}

static int write_records(struct kineto *k, const char *name, const struct gs_sink *sink)
{
	struct writer w = {.out = GS_BUF_INIT(4 * PUSH_BYTES),
			   .sink = sink,
			   .first_ns = k->events[0].start_ns};
	struct gs_batch names;
	int r;

	for (size_t i = 0; i < k->n_events; i++) {
		const struct kineto_event *e = &k->events[i];

		w.first_ns = e->start_ns < w.first_ns ? e->start_ns : w.first_ns;
		w.last_ns =
			e->start_ns + e->dur_ns > w.last_ns ? e->start_ns + e->dur_ns : w.last_ns;
	}
	r = put_session(k, &w, name, &w.out);
	names = (struct gs_batch){k->names.data, k->names.bytes};
	if (r == 0) /* the session names strings */
		r = sink->push(sink->ctx, &names);
	if (r == 0)
		r = push_out(&w);
	if (r == 0)
		r = put_events(k, &w);
	gs_buf_fini(&w.out);
	return r;
}

int kineto_open(FILE *file, struct kineto **ret, struct gs_err *err)
{
	struct kineto *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return -ENOMEM;
	k->names = GS_BUF_INIT(64u << 20);
	k->functions = GS_MAP_INIT(KINETO_FUNCTIONS_MAX);
	k->strings = GS_MAP_INIT(KINETO_NAMES_MAX);
	k->threads = GS_MAP_INIT(KINETO_THREADS_MAX);
	k->processes = GS_MAP_INIT(KINETO_THREADS_MAX);
	k->comms = GS_MAP_INIT(2 * KINETO_THREADS_MAX);
	k->open = GS_MAP_INIT(KINETO_THREADS_MAX);
	*ret = k;
	r = kineto_parse(k, file, err);
	if (r == 0)
		kineto_drop_open_calls(k);
	if (r == 0 && !k->n_events)
		r = gs_err_set(
			err, -ENODATA,
			"it has no complete event, and no pair of begin and end events, of operators, CUDA, Python or GPUs");
	return r;
}

void kineto_close(struct kineto **ref)
{
	struct kineto *k = *ref;

	if (!k)
		return;
	free(k->events);
	gs_map_fini(&k->functions);
	gs_map_fini(&k->strings);
	gs_map_fini(&k->threads);
	gs_map_fini(&k->processes);
	gs_map_fini(&k->comms);
	gs_map_fini(&k->open);
	gs_buf_fini(&k->names);
	free(k);
	*ref = NULL;
}

int gs_kineto_read(FILE *file, const char *name, const struct gs_sink *sink,
		   struct gs_kineto_stats *ret_stats, struct gs_err *err)
{
	struct kineto *k = NULL;
	int r = kineto_open(file, &k, err);

	if (r == 0) {
		name_threads(k);
		nest_calls(k);
		r = write_records(k, name, sink);
	}
	*ret_stats = k ? k->stats : (struct gs_kineto_stats){0};
	kineto_close(&k);
	return r;
}
