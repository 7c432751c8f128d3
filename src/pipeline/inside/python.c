#include "pipeline/inside/python.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "model/trace/func.h"

#define NUMBERS_MAX   (4u << 20)    /* of all processes */
#define KEPT_NS       5000000000ull /* numbers of a process that has ended */
#define PROCESSES_MAX 65536u
#define TEXT_BYTES    256

void gs_inside_python_init(struct gs_inside_python *p)
{
	p->number_of = GS_MAP_INIT(NUMBERS_MAX);
	p->numbers_of = GS_MAP_INIT(PROCESSES_MAX);
	p->refused = GS_MAP_INIT(PROCESSES_MAX);
}

void gs_inside_python_fini(struct gs_inside_python *p)
{
	gs_map_fini(&p->number_of);
	gs_map_fini(&p->numbers_of);
	gs_map_fini(&p->refused);
}

static uint64_t number_key(uint32_t pid, uint32_t number)
{
	return (uint64_t)pid << 32 | number;
}

void gs_inside_python_name(struct gs_inside_python *p, struct gs_ingest *feed, uint32_t pid,
			   uint32_t number, const char *file, const char *name, uint32_t line)
{
	uint64_t last = 0;

	gs_map_get(&p->numbers_of, pid, &last);
	if (number > last)
		(void)gs_map_put(&p->numbers_of, pid, number);
	/* Without memory its calls are counted as those of a number that is none. */
	(void)gs_map_put(&p->number_of, number_key(pid, number),
			 gs_ingest_python_function(feed, file, name, line));
}

static bool find_function(struct gs_inside_python *p, uint32_t pid, uint32_t number,
			  uint16_t *ret_id)
{
	uint64_t id;

	if (!number || number >= GS_COMPANION_PYTHON_FUNCS ||
	    !gs_map_get(&p->number_of, number_key(pid, number), &id) || !id)
		return false;
	*ret_id = (uint16_t)id;
	return true;
}

uint16_t gs_inside_python_function(struct gs_inside_python *p, uint32_t pid, uint32_t number)
{
	uint16_t id = 0;

	return find_function(p, pid, number, &id) ? id : 0;
}

bool gs_inside_python_call(struct gs_inside_python *p, const struct gs_companion_thread *from,
			   const struct gs_companion_python_call *c,
			   struct gs_event_call *ret_event)
{
	struct gs_event_call e = {.head = {.kind = GS_EV_CALL, .bytes = sizeof(e)},
				  .pid = from->pid,
				  .tid = from->tid,
				  .cpu = c->cpu,
				  .depth = c->depth};

	if (!find_function(p, from->pid, c->number, &e.func) ||
	    (c->around && !find_function(p, from->pid, c->around, &e.scope)) || c->self > c->dur)
		return false;
	e.flags = c->flags & GS_COMPANION_PYTHON_RESUMED ? GS_CALL_RESUMED : 0;
	e.arg[1] = c->launches;
	*ret_event = e;
	return true;
}

static struct gs_cell cell_of(const struct gs_companion_python_row *row, const uint32_t *hist,
			      uint16_t func)
{
	struct gs_cell c = {.func = func,
			    .thread_slot = GS_INGEST_PAST, /* rows are read some time after */
			    .calls = row->calls,
			    .total_ns = row->total_ns,
			    .max_ns = row->max_ns,
			    .py = {.self_ns = row->self_ns,
				   .launches = row->launches,
				   .resumes = row->resumes}};

	memcpy(c.hist, hist, sizeof(c.hist));
	return c;
}

bool gs_inside_python_sum(struct gs_inside_python *p, struct gs_ingest *feed,
			  const struct gs_companion_thread *from,
			  const struct gs_companion_python_sum *s)
{
	static struct gs_thread thread; /* large; of its fields two are looked at */
	struct gs_cell before, now;
	uint16_t func;

	if (!find_function(p, from->pid, s->now->number, &func) ||
	    s->now->self_ns < s->before->self_ns || s->now->resumes < s->before->resumes ||
	    s->now->launches < s->before->launches ||
	    (s->before->number && s->before->number != s->now->number))
		return false;
	before = cell_of(s->before, s->hist_before, func);
	now = cell_of(s->now, s->hist, func);
	thread.pid = from->pid;
	thread.tid = from->tid;
	gs_ingest_cell(feed, &thread, &before, &now);
	return true;
}

bool gs_inside_python_open(struct gs_inside_python *p, struct gs_ingest *feed,
			   const struct gs_companion_thread *from,
			   const struct gs_companion_python_frame *f, unsigned depth,
			   uint64_t start_ns)
{
	static struct gs_thread thread; /* large; they come from the outermost on */
	uint16_t func;

	if (depth >= GS_SCOPE_MAX)
		return true;
	thread.scope[depth].func = 0;
	if (!from->tid || !find_function(p, from->pid, f->number, &func))
		return false;
	thread.pid = from->pid;
	thread.tid = from->tid;
	thread.scope[depth] =
		(struct gs_scope){.start_ns = start_ns, .func = func, .layer = GS_LAYER_PYTHON};
	gs_ingest_open_scope(feed, &thread, depth, gs_clock_mono_ns());
	return true;
}

bool gs_inside_python_state(struct gs_inside_python *p, struct gs_ingest *feed, uint32_t pid,
			    const struct gs_companion_python_state *s)
{
	char text[TEXT_BYTES], reason[TEXT_BYTES + 96];
	uint64_t hash;

	if (s->what != GS_COMPANION_PYTHON_REFUSED && s->what != GS_COMPANION_PYTHON_HELD)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(s->head.bytes - sizeof(*s)), s->text);
	for (char *c = text; *c; c++)
		*c = (unsigned char)*c < ' ' ? '?' : *c;
	if (s->what == GS_COMPANION_PYTHON_REFUSED)
		(void)gs_map_put(&p->refused, pid, gs_clock_mono_ns());
	hash = gs_hash_bytes(text, strlen(text));
	for (unsigned i = 0; i < p->n_said; i++)
		if (p->said[i] == hash)
			return true;
	if (p->n_said == GS_INSIDE_PYTHON_SAID)
		return true;
	p->said[p->n_said++] = hash;
	snprintf(reason, sizeof(reason), "%s%s",
		 s->what == GS_COMPANION_PYTHON_REFUSED
			 ? "Python functions are seen by probes, not from inside: "
			 : "",
		 text);
	gs_ingest_attach(feed, &(struct gs_attach){.path = "python",
						   .reason = reason,
						   .status = -ENOTSUP,
						   .layer = GS_LAYER_PYTHON});
	return true;
}

bool gs_inside_python_refused(const struct gs_inside_python *p, uint32_t pid)
{
	uint64_t one;

	return gs_map_get(&p->refused, pid, &one);
}

void gs_inside_python_exec(struct gs_inside_python *p, uint32_t pid, uint64_t mono_ns)
{
	uint64_t since_ns;

	if (gs_map_get(&p->refused, pid, &since_ns) && since_ns < mono_ns)
		gs_map_del(&p->refused, pid);
}

void gs_inside_python_end(struct gs_inside_python *p, uint32_t pid, uint64_t mono_ns)
{
	/* Of more at one time the numbers stay. */
	if (p->n_ended - p->n_swept < GS_INSIDE_PYTHON_ENDED)
		p->ended[p->n_ended++ % GS_INSIDE_PYTHON_ENDED] =
			(struct gs_inside_python_ended){.pid = pid, .time_ns = mono_ns};
}

void gs_inside_python_sweep(struct gs_inside_python *p, uint64_t now_ns)
{
	for (; p->n_swept != p->n_ended; p->n_swept++) {
		const struct gs_inside_python_ended *e =
			&p->ended[p->n_swept % GS_INSIDE_PYTHON_ENDED];
		uint64_t last = 0;

		if (now_ns < e->time_ns + KEPT_NS)
			return;
		gs_map_get(&p->numbers_of, e->pid, &last);
		for (uint32_t number = 1; number <= last; number++)
			gs_map_del(&p->number_of, number_key(e->pid, number));
		gs_map_del(&p->numbers_of, e->pid);
		gs_map_del(&p->refused, e->pid);
	}
}
