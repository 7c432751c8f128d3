/*
 * Calls of Python functions: where the evaluation function of an interpreter is entered and left,
 * and the numbers that the kernel side gives them (bpf/pycall.bpf.c), taken back when their process
 * has ended.
 */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "model/func.h"
#include "probe/probe_int.h"

#include "pycall.skel.h"

#define EVALUATE "_PyEval_EvalFrameDefault"
/* What it ends with: looks whether the result and an exception go together. */
#define CHECK "_Py_CheckFunctionResult"

/* Numbers of a process that has ended are kept for so many harvests: until its last events have
 * been read, and what its threads added up has been handed over. */
#define N_HARVESTS 4

struct given { /* a number that is in use */
	uint64_t code;
	uint32_t pid;  /* 0: free */
	uint32_t next; /* of the same process: index plus 1 */
};

struct pycalls {
	struct given given[GS_PYFUNC_MAX];
	struct gs_map of_pid; /* -> index of its last, plus 1 */
	struct {
		uint32_t pid, last, n_harvests;
	} ended[1024];
	size_t n_ended;
};

/* --- where --- */

static void tell(const struct plan_context *c, const char *reason, int status)
{
	struct gs_attach a = {.path = c->path,
			      .function = EVALUATE,
			      .reason = reason,
			      .status = status,
			      .layer = GS_LAYER_PYTHON};

	c->options->on_attach(c->options->ctx, &a);
}

int pycall_plan(struct plan *plan, const struct plan_context *c, struct gs_err *err)
{
	const char *names[] = {EVALUATE, CHECK};
	struct gs_elf_symbol symbols[2];
	size_t before = plan->n;
	unsigned version;
	int r;

	if (!gs_elf_defines(c->elf, EVALUATE))
		return 0;
	version = gs_elf_python_version(c->elf);
	if (version < GS_PYCALL_FIRST || version >= GS_PYCALL_FIRST + GS_PYCALL_N) {
		tell(c,
		     version ? "Python 3.11 and newer runs calls from Python to Python without "
			       "calling a function of C, so that they cannot be seen from outside: "
			       "--python-hz 99 shows where its time goes"
			     : "a Python older than 3.8: its calls cannot be traced",
		     -EOPNOTSUPP);
		return 0;
	}
	r = gs_elf_find(c->elf, names, GS_ARRAY_LEN(names), true, symbols, err);
	if (r < 0 || !symbols[0].found)
		return r;
	/* Called in the same file its callee is known by its place, else by the stub's name. */
	if (symbols[1].found)
		(void)gs_map_put(c->callees, symbols[1].file_off, GS_CALLEE_RELEASE);
	r = plan_add_loop(plan, c, &symbols[0], EVALUATE, FAMILY_PYCALL, GS_LAYER_PYTHON,
			  c->selection->py_func);
	for (size_t i = before; i < plan->n; i++)
		if (!(plan->places[i].cookie & GS_COOKIE_EXIT))
			plan->places[i].cookie |= (uint64_t)(version - GS_PYCALL_FIRST)
						  << GS_COOKIE_CC_SHIFT;
	return r;
}

/* --- the kernel side --- */

int pycall_fill(struct gs_pycall_bpf *s, const struct gs_probe_options *o, struct gs_err *err)
{
	for (size_t i = 0; i < GS_PYCALL_N; i++)
		memcpy((void *)&s->rodata->gs_py_layouts[i], &o->py_layouts[i],
		       sizeof(o->py_layouts[i]));
	if (o->n_py_globs > GS_PY_GLOB_MAX)
		return gs_err_set(err, -E2BIG, "--python-calls: at most %d patterns",
				  GS_PY_GLOB_MAX);
	for (size_t i = 0; i < o->n_py_globs; i++)
		memcpy((void *)&s->rodata->gs_py_globs[i], &o->py_globs[i], sizeof(o->py_globs[i]));
	s->rodata->gs_n_py_globs = (uint32_t)o->n_py_globs;
	return 0;
}

/* --- numbers --- */

int pycalls_new(struct gs_probe *probe, struct pycalls **ret)
{
	struct pycalls *p;

	if (!probe->selection.py_func)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->of_pid = GS_MAP_INIT(GS_PYFUNC_MAX);
	*ret = p;
	return 0;
}

void pycalls_free(struct pycalls **ref)
{
	if (!*ref)
		return;
	gs_map_fini(&(*ref)->of_pid);
	free(*ref);
	*ref = NULL;
}

static void note_given(struct pycalls *p, const struct gs_event_code *e)
{
	uint32_t i = e->func - GS_FUNC_MAX;
	uint64_t last = 0;

	if (e->func < GS_FUNC_MAX || i >= GS_PYFUNC_MAX || !e->pid || p->given[i].pid)
		return;
	(void)gs_map_get(&p->of_pid, e->pid, &last);
	p->given[i] = (struct given){e->code, e->pid, (uint32_t)last};
	/* Without room it is not given again: there are many. */
	(void)gs_map_put(&p->of_pid, e->pid, i + 1);
}

static void note_end(struct pycalls *p, uint32_t pid)
{
	uint64_t last;

	if (!gs_map_get(&p->of_pid, pid, &last) || p->n_ended == GS_ARRAY_LEN(p->ended))
		return;
	/* Another process of this id has numbers of its own. */
	gs_map_del(&p->of_pid, pid);
	p->ended[p->n_ended].pid = pid;
	p->ended[p->n_ended].last = (uint32_t)last;
	p->ended[p->n_ended++].n_harvests = 0;
}

void pycalls_event(struct pycalls *p, const struct gs_event *event)
{
	const struct gs_event_task *task = (const void *)event;

	if (!p)
		return;
	if (event->kind == GS_EV_PYFUNC && event->bytes >= sizeof(struct gs_event_code))
		note_given(p, (const void *)event);
	if (event->kind == GS_EV_TASK && event->bytes >= sizeof(*task) && task->pid == task->tid &&
	    task->change == GS_TASK_EXIT)
		note_end(p, task->pid);
}

bool pycalls_knows(const struct pycalls *p, uint32_t number, uint32_t pid)
{
	return p && number - GS_FUNC_MAX < GS_PYFUNC_MAX &&
	       p->given[number - GS_FUNC_MAX].pid == pid;
}

static void take_back(struct gs_probe *probe, uint32_t pid, uint32_t at)
{
	struct pycalls *p = probe->pycalls;
	int funcs_fd = bpf_map__fd(probe->kernel.pycall->maps.gs_py_funcs);
	int free_fd = bpf_map__fd(probe->kernel.pycall->maps.gs_free_pyfuncs);

	while (at && at <= GS_PYFUNC_MAX) {
		struct given *g = &p->given[at - 1];
		struct gs_py_func_key key = {g->code, pid};
		uint32_t number = GS_FUNC_MAX + at - 1;
		struct gs_py_func f;

		if (bpf_map_lookup_elem(funcs_fd, &key, &f) == 0 && f.number == number)
			bpf_map_delete_elem(funcs_fd, &key);
		at = g->next;
		*g = (struct given){0};
		bpf_map_update_elem(free_fd, NULL, &number, BPF_ANY);
	}
}

static bool has_threads(const struct gs_probe *probe, uint32_t pid)
{
	for (unsigned i = 1; i < GS_THREAD_MAX; i++)
		if (probe->kernel.threads[i].pid == pid && !probe->kernel.threads[i].ended)
			return true;
	return false;
}

void pycalls_harvest(struct gs_probe *probe)
{
	struct pycalls *p = probe->pycalls;
	size_t n = 0;

	if (!p)
		return;
	for (size_t i = 0; i < p->n_ended; i++) {
		/* Threads: its first one has ended before others, or its id is another's now. */
		if (++p->ended[i].n_harvests < N_HARVESTS || has_threads(probe, p->ended[i].pid))
			p->ended[n++] = p->ended[i];
		else
			take_back(probe, p->ended[i].pid, p->ended[i].last);
	}
	p->n_ended = n;
}
