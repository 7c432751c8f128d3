/*
 * What an interpreter does beside running code: collecting garbage, and waiting for its lock, at
 * the places that sources/elf/python_site.h finds.
 */
#include <errno.h>

#include "sources/elf/python_site.h"
#include "model/trace/func.h"
#include "sources/attach_plan/attach_plan_int.h"

static int add_all(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		   enum gs_python_deed deed, unsigned func_class, const char *shown,
		   unsigned *ret_n, struct gs_err *err)
{
	struct gs_python_site sites[GS_PYTHON_SITE_MAX];
	size_t before = plan->n;
	unsigned n;
	uint16_t id;
	int r = gs_elf_python_sites(c->elf, deed, sites, &n, err);

	for (unsigned i = 0; r == 0 && i < n; i++) {
		r = gs_func_set_add(c->options->funcs, GS_LAYER_PYTHON, func_class, shown, &id);
		if (r == 0)
			r = gs_attach_plan_add_scope(plan, c, &sites[i].symbol, sites[i].name,
						     GS_FAMILY_PYSPAN, GS_LAYER_PYTHON, id);
	}
	*ret_n = (unsigned)(plan->n - before);
	return r;
}

/* The stack pointer is the same at both but for arguments that are just being passed. The function
 * calls others, so that nothing lies below it: a kernel may make calls of the nops. */
#define FRAME_BYTES 256

static int add_gc_probes(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			 unsigned *ret_n, struct gs_err *err)
{
	const uint64_t ends = GS_COOKIE_EXIT | GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN |
			      (uint64_t)FRAME_BYTES << GS_COOKIE_FRAME_SHIFT;
	struct gs_usdt_places probes[2];
	int r = gs_elf_python_gc_probes(c->elf, probes, err);
	uint16_t id;

	*ret_n = probes[0].n;
	if (r == 0 && *ret_n)
		r = gs_func_set_add(c->options->funcs, GS_LAYER_PYTHON, GS_CLASS_GC, "gc", &id);
	if (r == 0 && *ret_n)
		r = attach_plan_add_probes(plan, &probes[0], GS_FAMILY_PYSPAN, 0, id);
	if (r == 0 && *ret_n)
		r = attach_plan_add_probes(plan, &probes[1], GS_FAMILY_PYSPAN, ends, id);
	return r;
}

int attach_plan_pyspan(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		       struct gs_err *err)
{
	unsigned n;
	int r = 0;

	/* The interpreter itself, a program or libpython: extension modules only use it. */
	if (!gs_elf_defines(c->elf, "_PyEval_EvalFrameDefault"))
		return 0;
	if (c->selection->python_gc) {
		r = add_all(plan, c, GS_PYTHON_COLLECTS, GS_CLASS_GC, "gc", &n, err);
		if (r == 0 && !n)
			r = add_gc_probes(plan, c, &n, err);
		if (r == 0 && !n)
			attach_plan_report(
				c, "gc_collect_main",
				"this interpreter is stripped, and has no static probes of its collections: they are not seen",
				-ENOENT, GS_LAYER_PYTHON);
	}
	if (r == 0 && c->selection->python_gil) {
		r = add_all(plan, c, GS_PYTHON_TAKES_LOCK, GS_CLASS_GIL, "gil wait", &n, err);
		if (r == 0 && !n) {
			attach_plan_report(
				c, "take_gil",
				"this interpreter is stripped: waits are seen where C code calls PyEval_RestoreThread to take the lock back, not where running Python code has to release it",
				-ENOENT, GS_LAYER_PYTHON);
			/* The row says by its name that it is a part. */
			r = add_all(plan, c, GS_PYTHON_RETAKES_LOCK, GS_CLASS_GIL,
				    "gil wait after C code", &n, err);
		}
	}
	return r;
}
