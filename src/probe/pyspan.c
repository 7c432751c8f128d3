/*
 * What an interpreter does beside running code: collecting garbage, and waiting for its lock. Both
 * are functions of C that it does not export, so they are found where it is not stripped; a wait is
 * also seen at the exported functions by which code outside of the interpreter takes the lock.
 *
 *   collection   collect()         3.8, 3.9    Modules/gcmodule.c
 *                gc_collect_main() 3.10 on     Modules/gcmodule.c, 3.13 on: Python/gc.c
 *   lock         take_gil()        all         Python/ceval_gil.h, 3.12 on: Python/ceval_gil.c
 *
 * Compilers make copies of them for constant arguments (".constprop.0"), each a function of its
 * own; all are probed. USDT probes gc__start and gc__done say the same as collect(), where an
 * interpreter was built with them, and are not needed beside it.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "model/func.h"
#include "probe/probe_int.h"

static const char *const collect_names[] = {
	"gc_collect_main",     "gc_collect_main.constprop.0", "gc_collect_main.isra.0", "collect",
	"collect.constprop.0", "collect.constprop.1",         "collect.isra.0",
};

static const char *const take_names[] = {
	"take_gil",
	"take_gil.constprop.0",
	"take_gil.constprop.1",
	"take_gil.isra.0",
};

/* PyGILState_Ensure() calls the first of them. */
static const char *const exported_names[] = {"PyEval_RestoreThread", "PyEval_AcquireThread"};

static int add_all(struct plan *plan, const struct plan_context *c, const char *const *names,
		   size_t n, unsigned func_class, const char *shown, unsigned *ret_n,
		   struct gs_err *err)
{
	struct gs_elf_symbol symbols[8];
	size_t before = plan->n;
	uint16_t id;
	int r = gs_elf_find(c->elf, names, n, true, symbols, err);

	*ret_n = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!symbols[i].found)
			continue;
		r = gs_func_set_add(c->options->funcs, GS_LAYER_PYTHON, func_class, shown, &id);
		if (r == 0)
			r = plan_add_scope(plan, c, &symbols[i], names[i], FAMILY_PYSPAN,
					   GS_LAYER_PYTHON, id);
	}
	*ret_n = (unsigned)(plan->n - before);
	return r;
}

static void tell(const struct plan_context *c, const char *what, const char *why)
{
	struct gs_attach a = {.path = c->path,
			      .function = what,
			      .reason = why,
			      .status = -ENOENT,
			      .layer = GS_LAYER_PYTHON};

	c->options->on_attach(c->options->ctx, &a);
}

int pyspan_plan(struct plan *plan, const struct plan_context *c, struct gs_err *err)
{
	unsigned n;
	int r = 0;

	/* The interpreter itself, a program or libpython: extension modules only use it. */
	if (!gs_elf_defines(c->elf, "_PyEval_EvalFrameDefault"))
		return 0;
	if (c->selection->python_gc) {
		r = add_all(plan, c, collect_names, GS_ARRAY_LEN(collect_names), GS_CLASS_GC, "gc",
			    &n, err);
		if (r == 0 && !n)
			tell(c, "gc_collect_main",
			     "this interpreter is stripped, and exports nothing that collects "
			     "garbage by itself: collections are not seen");
	}
	if (r == 0 && c->selection->python_gil) {
		r = add_all(plan, c, take_names, GS_ARRAY_LEN(take_names), GS_CLASS_GIL, "gil wait",
			    &n, err);
		if (r == 0 && !n) {
			tell(c, "take_gil",
			     "this interpreter is stripped: waits are seen where C code takes the "
			     "lock back, not where running Python code has to give way");
			r = add_all(plan, c, exported_names, GS_ARRAY_LEN(exported_names),
				    GS_CLASS_GIL, "gil wait", &n, err);
		}
	}
	return r;
}
