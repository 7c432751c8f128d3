/*
 * Calls of Python functions: where the evaluation function of an interpreter is entered and left,
 * and the numbers that the kernel side gives them (bpf/pycall.bpf.c), taken back when their process
 * has ended.
 */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/mem.h"
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

/* The evaluation function, whose entry that place is, has ways out that are not known, or that the
 * kernel has to single-step, which costs more than all else. */
static bool is_dear(const struct plan *plan, size_t entry)
{
	for (size_t i = entry + 1; i < plan->n; i++)
		if (plan->places[i].is_stepped)
			return true;
	return plan->n == entry + 1;
}

/* The static probe in place of ways out. */
static int add_left(struct plan *plan, const struct plan_context *c, unsigned layout,
		    const struct gs_usdt_places *left)
{
	return plan_add_probes(plan, left, FAMILY_PYCALL,
			       GS_COOKIE_EXIT | (uint64_t)layout << GS_COOKIE_CC_SHIFT,
			       c->selection->py_func);
}

static int plan_timed(struct plan *plan, const struct plan_context *c,
		      const struct gs_elf_symbol *symbol, unsigned layout,
		      const struct gs_usdt_places *left)
{
	size_t before = plan->n;
	int r = plan_add_loop(plan, c, symbol, EVALUATE, FAMILY_PYCALL, GS_LAYER_PYTHON,
			      c->selection->py_func);

	if ((r < 0 && r != -EILSEQ && r != -E2BIG) || plan->n == before)
		return r;
	plan->places[before].cookie |= (uint64_t)layout << GS_COOKIE_CC_SHIFT;
	if (is_dear(plan, before) && left->n) {
		while (plan->n > before + 1)
			plan->n_stepped -= plan->places[--plan->n].is_stepped;
		return add_left(plan, c, layout, left);
	}
	if (r < 0) {
		plan->n = before;
		plan_tell(c, EVALUATE, PLAN_NO_EXITS, -EOPNOTSUPP, GS_LAYER_PYTHON);
	}
	return 0;
}

int pycall_plan(struct plan *plan, const struct plan_context *c, struct gs_err *err)
{
	const char *names[] = {EVALUATE, CHECK};
	struct gs_usdt_places left;
	struct gs_elf_symbol symbols[2];
	unsigned version;
	int r;

	if (!gs_elf_defines(c->elf, EVALUATE))
		return 0;
	version = gs_elf_python_version(c->elf);
	r = gs_elf_python_left_probe(c->elf, version, &left, err);
	if (r < 0)
		return r;
	if (version >= GS_PYCALL_FIRST + GS_PYCALL_LEFT && left.n) {
		plan_tell(c, "python:function__entry",
			  "Python 3.11 tells only when a function is left: its calls are counted, "
			  "without a time (--python-hz 99 shows where its time goes)",
			  -EOPNOTSUPP, GS_LAYER_PYTHON);
		return add_left(plan, c, GS_PYCALL_LEFT, &left);
	}
	if (version < GS_PYCALL_FIRST || version >= GS_PYCALL_FIRST + GS_PYCALL_LEFT) {
		plan_tell(c, EVALUATE,
			  version ? "Python 3.11 and newer runs calls from Python to Python "
				    "without calling a function of C, so that they cannot be seen "
				    "from outside: --python-hz 99 shows where its time goes (a "
				    "3.11 built --with-dtrace, as Debian's, has its calls counted)"
				  : "a Python older than 3.8: its calls cannot be traced",
			  -EOPNOTSUPP, GS_LAYER_PYTHON);
		return 0;
	}
	r = gs_elf_find(c->elf, names, GS_ARRAY_LEN(names), true, symbols, err);
	if (r < 0 || !symbols[0].found)
		return r;
	/* Called in the same file its callee is known by its place, else by the stub's name. */
	if (symbols[1].found)
		(void)gs_map_put(c->callees, symbols[1].file_off, GS_CALLEE_RELEASE);
	return plan_timed(plan, c, &symbols[0], version - GS_PYCALL_FIRST, &left);
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
