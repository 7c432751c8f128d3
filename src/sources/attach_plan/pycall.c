/*
 * Calls of Python functions: where the evaluation function of an interpreter is entered and left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/python_site.h"
#include "model/trace/func.h"
#include "model/trace/python.h"
#include "sources/attach_plan/attach_plan_int.h"

#define EVALUATE "_PyEval_EvalFrameDefault"
/* What it ends with: looks whether the result and an exception go together. */
#define CHECK "_Py_CheckFunctionResult"

/* The evaluation function, whose entry that place is, has ways out that are not known, or that the
 * kernel has to single-step, which costs more than all else. */
static bool is_expensive(const struct gs_attach_plan *plan, size_t entry)
{
	for (size_t i = entry + 1; i < plan->n; i++)
		if (plan->places[i].is_stepped)
			return true;
	return plan->n == entry + 1;
}

/* The static probe in place of ways out. */
static int add_left(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    unsigned layout, const struct gs_usdt_places *left)
{
	return attach_plan_add_probes(plan, left, GS_FAMILY_PYCALL,
				      GS_COOKIE_EXIT | (uint64_t)layout << GS_COOKIE_CC_SHIFT,
				      c->selection->py_func);
}

static int plan_timed(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		      const struct gs_elf_symbol *symbol, unsigned layout,
		      const struct gs_usdt_places *left)
{
	size_t before = plan->n;
	int r = attach_plan_add_loop(plan, c, symbol, EVALUATE, GS_FAMILY_PYCALL, GS_LAYER_PYTHON,
				     c->selection->py_func);

	if ((r < 0 && r != -EILSEQ && r != -E2BIG) || plan->n == before)
		return r;
	plan->places[before].cookie |= (uint64_t)layout << GS_COOKIE_CC_SHIFT;
	if (is_expensive(plan, before) && left->n) {
		while (plan->n > before + 1)
			plan->n_stepped -= plan->places[--plan->n].is_stepped;
		return add_left(plan, c, layout, left);
	}
	if (r < 0) {
		plan->n = before;
		attach_plan_report(c, EVALUATE, PLAN_NO_EXITS, -EOPNOTSUPP, GS_LAYER_PYTHON);
	}
	return 0;
}

#define MAX_EVALUATE_BYTES (1u << 20)
#define CALL_BYTES         5 /* e8 and how far from its end */
#define MAX_CALLEES        512u
#define MAX_NAME_BYTES     64u

/* Is that the place of a stub by which the file calls a function that it exports? Each place is asked
 * for once, in *n places. */
static bool is_stub_of(struct gs_elf *elf, uint64_t file_off, const char *name,
		       uint64_t places[MAX_CALLEES], unsigned *n)
{
	char text[MAX_NAME_BYTES];

	for (unsigned i = 0; i < *n; i++)
		if (places[i] == file_off)
			return false;
	if (*n == MAX_CALLEES)
		return false;
	places[(*n)++] = file_off;
	return gs_elf_stub_name(elf, file_off, text, sizeof(text)) == 0 && strcmp(text, name) == 0;
}

/* Does the evaluation function call that one? Where the compiler put its body in place of all calls,
 * the function is there and nothing comes by. Both are in one segment of the file. */
static bool evaluation_calls(struct gs_elf *elf, const struct gs_elf_symbol *evaluate,
			     const struct gs_elf_symbol *callee, const char *name)
{
	uint64_t bytes = evaluate->size_bytes, places[MAX_CALLEES], to;
	GS_FREE uint8_t *code = NULL;
	unsigned n = 0;

	if (!evaluate->found || bytes < CALL_BYTES || bytes > MAX_EVALUATE_BYTES)
		return false;
	code = malloc(bytes);
	if (!code || gs_elf_read(elf, evaluate->file_off, code, bytes) != (long)bytes)
		return false;
	for (uint64_t i = 0; i + CALL_BYTES <= bytes; i++) {
		int32_t by;

		if (code[i] != 0xe8)
			continue;
		memcpy(&by, code + i + 1, sizeof(by));
		to = evaluate->file_off + i + CALL_BYTES + (uint64_t)by;
		if (to == callee->file_off || is_stub_of(elf, to, name, places, &n))
			return true;
	}
	return false;
}

/* Python 3.12 and newer: a probe where each frame ends. 0, also when there is no such place. */
static int plan_cleared(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			struct gs_err *err)
{
	const char *name = EVALUATE, *reason;
	const char *evaluate = EVALUATE;
	struct gs_elf_symbol symbol, caller;
	size_t before = plan->n;
	int r = gs_elf_python_cleared(c->elf, &symbol, &name, &reason);

	if (r > 0) {
		r = gs_elf_find(c->elf, &evaluate, 1, true, &caller, err);
		if (r < 0)
			return r;
		r = evaluation_calls(c->elf, &caller, &symbol, name);
		if (!r)
			reason =
				"the compiler inlined the function that ends frames: --python-hz 99 shows where the time goes";
	}
	if (r < 0)
		return gs_err_set(err, r, "its tables of symbols cannot be read");
	if (r == 0) {
		attach_plan_report(
			c, EVALUATE,
			reason ? reason
			       : "Python 3.11 runs calls from Python to Python without calling a function of C, so that they cannot be seen from outside: --python-hz 99 shows where its time goes (a 3.11 built --with-dtrace, as Debian's, has its calls counted)",
			-EOPNOTSUPP, GS_LAYER_PYTHON);
		return 0;
	}
	r = attach_plan_add(plan, c, &symbol, name, GS_FAMILY_PYCALL, GS_LAYER_PYTHON,
			    c->selection->py_func);
	if (r < 0 || plan->n == before)
		return r;
	plan->places[before].has_return = false;
	plan->places[before].cookie |= GS_COOKIE_EXIT | (uint64_t)GS_PYCALL_CLEARED
								<< GS_COOKIE_CC_SHIFT;
	attach_plan_report(
		c, name,
		"Python 3.12 and newer shows only when a frame has ended: its calls are counted, without a time, a generator once, and which makes each call of any function slower: --max-overhead bounds it, --python-hz 99 shows where the time goes",
		-EOPNOTSUPP, GS_LAYER_PYTHON);
	return 0;
}

int attach_plan_pycall(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		       struct gs_err *err)
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
		attach_plan_report(
			c, "python:function__entry",
			"Python 3.11 shows only when a function is left: its calls are counted, without a time, and which makes each call of any function slower: --max-overhead bounds it, --python-hz 99 shows where the time goes",
			-EOPNOTSUPP, GS_LAYER_PYTHON);
		return add_left(plan, c, GS_PYCALL_LEFT, &left);
	}
	if (version >= GS_PYCALL_FIRST + GS_PYCALL_LEFT)
		return plan_cleared(plan, c, err);
	if (version < GS_PYCALL_FIRST) {
		attach_plan_report(c, EVALUATE,
				   "a Python older than 3.8: its calls cannot be traced",
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
