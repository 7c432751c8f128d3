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
#include "elf/python_site.h"
#include "model/func.h"
#include "probe/probe_int.h"

#include "pycall.skel.h"

#define EVALUATE "_PyEval_EvalFrameDefault"
/* What it ends with: looks whether the result and an exception go together. */
#define CHECK "_Py_CheckFunctionResult"

/* Numbers of a process that has ended are kept for so many harvests: until its last events have
 * been read, and what its threads added up has been handed over. */
#define N_HARVESTS 4

/* --- where --- */

static void tell(const struct plan_context *c, const char *function, const char *reason, int status)
{
	struct gs_attach a = {.path = c->path,
			      .function = function,
			      .reason = reason,
			      .status = status,
			      .layer = GS_LAYER_PYTHON};

	c->options->on_attach(c->options->ctx, &a);
}

int pycall_plan(struct plan *plan, const struct plan_context *c, struct gs_err *err)
{
	const char *names[] = {EVALUATE, CHECK};
	struct gs_usdt_places left;
	struct gs_elf_symbol symbols[2];
	size_t before = plan->n;
	unsigned version;
	int r;

	if (!gs_elf_defines(c->elf, EVALUATE))
		return 0;
	version = gs_elf_python_version(c->elf);
	if (version >= GS_PYCALL_FIRST + GS_PYCALL_LEFT) {
		r = gs_elf_python_left_probe(c->elf, &left, err);
		if (r == 0)
			r = plan_add_probes(plan, &left, FAMILY_PYCALL,
					    (uint64_t)GS_PYCALL_LEFT << GS_COOKIE_CC_SHIFT,
					    c->selection->py_func);
		if (r == 0 && left.n)
			tell(c, "python:function__entry",
			     "Python 3.11 tells only when a function is left: its calls are "
			     "counted, without a time (--python-hz 99 shows where its time goes)",
			     -EOPNOTSUPP);
		if (r < 0 || left.n)
			return r;
	}
	if (version < GS_PYCALL_FIRST || version >= GS_PYCALL_FIRST + GS_PYCALL_LEFT) {
		tell(c, EVALUATE,
		     version ? "Python 3.11 and newer runs calls from Python to Python without "
			       "calling a function of C, so that they cannot be seen from outside: "
			       "--python-hz 99 shows where its time goes (a 3.11 built "
			       "--with-dtrace, as Debian's, has its calls counted)"
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

int pycalls_new(struct gs_probe *probe, struct gs_pyfunc_set **ret)
{
	if (!probe->selection.py_func)
		return 0;
	*ret = gs_pyfunc_set_new();
	return *ret ? 0 : -ENOMEM;
}

void pycalls_event(struct gs_pyfunc_set *set, const struct gs_event *event)
{
	const struct gs_event_task *task = (const void *)event;
	const struct gs_event_code *code = (const void *)event;

	if (!set)
		return;
	if (event->kind == GS_EV_PYFUNC && event->bytes >= sizeof(*code))
		gs_pyfunc_set_add(set, code->func, code->pid, code->code);
	if (event->kind == GS_EV_TASK && event->bytes >= sizeof(*task) && task->pid == task->tid &&
	    task->change == GS_TASK_EXIT)
		gs_pyfunc_set_end(set, task->pid);
}

static void take_back(void *ctx, uint32_t number, uint32_t pid, uint64_t code)
{
	const struct gs_probe *probe = ctx;
	int funcs_fd = bpf_map__fd(probe->kernel.pycall->maps.gs_py_funcs);
	int free_fd = bpf_map__fd(probe->kernel.pycall->maps.gs_free_pyfuncs);
	struct gs_py_func_key key = {code, pid};
	struct gs_py_func f;

	if (bpf_map_lookup_elem(funcs_fd, &key, &f) == 0 && f.number == number)
		bpf_map_delete_elem(funcs_fd, &key);
	bpf_map_update_elem(free_fd, NULL, &number, BPF_ANY);
}

/* Its first thread has ended before others, or its id is another's now. */
static bool has_no_threads(void *ctx, uint32_t pid)
{
	const struct gs_probe *probe = ctx;

	for (unsigned i = 1; i < GS_THREAD_MAX; i++)
		if (probe->kernel.threads[i].pid == pid && !probe->kernel.threads[i].ended)
			return false;
	return true;
}

void pycalls_harvest(struct gs_probe *probe)
{
	const struct gs_pyfunc_round round = {N_HARVESTS, has_no_threads, take_back, probe};

	if (probe->pycalls)
		gs_pyfunc_set_round(probe->pycalls, &round);
}
