/*
 * From a file to places: which of the wanted functions it defines, each address once (ncclX and
 * pncclX share one), and where in each a probe is cheap. A file is of interest when it defines one
 * of a few marker functions; asking that costs some hundred bytes of reading, so that every library
 * of every process can be asked, whatever its name.
 */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/near/near.h"
#include "core/base/vec.h"
#include "model/trace/func.h"
#include "sources/x86/exit.h"
#include "sources/elf/code.h"
#include "sources/attach_plan/attach_plan_int.h"

#define MAX_DYNSTR_BYTES (4u << 20)

static const char *const markers[] = {"cudaLaunchKernel", "cudaMalloc",    "cuLaunchKernel",
				      "cuMemAlloc_v2",    "ncclAllReduce", "ncclCommInitRank",
				      PLAN_MPI_MARKER};

static bool matches_any(const char *name, const char *const *globs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fnmatch(globs[i], name, 0) == 0)
			return true;
	return false;
}

/* The first of the patterns that no function of the layers has; NULL: there is none. */
static const char *without_match(const struct gs_attach_plan_options *o, uint32_t layers)
{
	for (size_t i = 0; i < o->n_globs; i++) {
		bool found = false;

		for (unsigned id = 1; id <= gs_func_count() && !found; id++) {
			const struct gs_func *f = gs_func_by_id(id);

			found = layers >> f->desc.layer & 1 && !f->watched_only &&
				fnmatch(o->globs[i], f->name, 0) == 0;
		}
		if (!found)
			return o->globs[i];
	}
	return NULL;
}

/* That no function has this name, or matches any of those given (NULL). -ENOENT. */
static int refuse_functions(const struct gs_attach_plan_options *o, uint32_t layers,
			    const char *unmatched, struct gs_err *err)
{
	const struct gs_func *elsewhere = NULL;
	struct gs_near near;
	char meant[120];

	if (!unmatched || strpbrk(unmatched, "*?["))
		return gs_err_set(
			err, -ENOENT,
			"no function matches%s%s%s: `gpuscope trace --list` shows all names",
			unmatched ? " --func " : "", unmatched ? unmatched : "",
			o->layers ? " in the chosen layers" : "");
	gs_near_init(&near, unmatched);
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		if (!f->watched_only && layers >> f->desc.layer & 1)
			gs_near_add(&near, f->name);
		else if (!f->watched_only && strcmp(f->name, unmatched) == 0)
			elsewhere = f;
	}
	if (elsewhere)
		return gs_err_set(err, -ENOENT, "%s is a function of another layer: add --layer %s",
				  unmatched, gs_layer_name(elsewhere->desc.layer));
	return gs_err_set(
		err, -ENOENT, "no function \"%s\"%s%s `gpuscope trace --list` shows all names",
		unmatched, gs_near_text(&near, meant, sizeof(meant)), near.name ? "" : ":");
}

/* Resets and the like that were not chosen themselves, in the layers of CUDA of which any function
 * was. */
static void select_watched(struct gs_attach_plan_selection *s)
{
	bool is_chosen[GS_LAYER_COUNT] = {false};

	for (unsigned id = 1; id <= gs_func_count(); id++)
		is_chosen[gs_func_by_id(id)->desc.layer] |= s->wanted[id];
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func_desc *d = &gs_func_by_id(id)->desc;

		s->watched[id] =
			!s->wanted[id] && d->post >= GS_POST_SET_DEVICE &&
			(is_chosen[GS_LAYER_CUDA_RUNTIME] || is_chosen[GS_LAYER_CUDA_DRIVER]);
	}
}

int gs_attach_plan_select(struct gs_attach_plan_selection *s,
			  const struct gs_attach_plan_options *o, struct gs_err *err)
{
	uint32_t layers = o->layers ? o->layers : GS_LAYERS_DEFAULT;
	const char *unmatched = without_match(o, layers);

	*s = (struct gs_attach_plan_selection){0};
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		if (!(layers >> f->desc.layer & 1) || f->watched_only)
			continue;
		if (o->n_globs ? !matches_any(f->name, o->globs, o->n_globs) : !f->by_default)
			continue;
		s->wanted[id] = true;
		s->n++;
	}
	select_watched(s);
	if (layers >> GS_LAYER_TORCH & 1) {
		int r = attach_plan_select_torch(s, o, err);

		if (r < 0)
			return r;
	}
	s->unwind = s->operators || (o->funcs && o->may_throw);
	s->python_gc = o->python_gc && o->funcs;
	s->python_gil = o->python_gil && o->funcs;
	if (o->python_calls && o->funcs) {
		int r = gs_func_set_add(o->funcs, GS_LAYER_PYTHON, GS_CLASS_PYTHON,
					"Python functions", &s->py_func);

		if (r < 0)
			return r;
	}
	s->scopes = s->unwind || s->python_gc || s->python_gil || s->py_func;
	if (unmatched || (!s->n && !s->scopes && !o->described))
		return refuse_functions(o, layers, unmatched, err);
	return 0;
}

/* libstdc++: called by all code that catches an exception. */
#define CATCHER "__cxa_begin_catch"

void gs_attach_plan_fini(struct gs_attach_plan *plan)
{
	free(plan->places);
	*plan = (struct gs_attach_plan){0};
}

static bool is_of_interest(struct gs_elf *elf, bool is_exe)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(markers); i++)
		if (gs_elf_defines(elf, markers[i]))
			return true;
	/* A runtime linked statically shows in the full symbol table only. */
	return is_exe && gs_elf_has_symtab(elf);
}

static bool has_place(const struct gs_attach_plan *plan, uint64_t file_off)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->places[i].file_off == file_off)
			return true;
	return false;
}

static int append_place(struct gs_attach_plan *plan, const struct gs_attach_plan_place *place)
{
	if (!gs_vec_reserve(&plan->places, &plan->n_room, plan->n + 1))
		return -ENOMEM;
	plan->places[plan->n++] = *place;
	return 0;
}

void attach_plan_report(const struct gs_attach_plan_context *c, const char *function,
			const char *reason, int status, unsigned layer)
{
	struct gs_attach a = {.path = c->path,
			      .function = function,
			      .reason = reason,
			      .status = status,
			      .layer = layer};

	c->options->on_attach(c->options->ctx, &a);
}

int attach_plan_add_probes(struct gs_attach_plan *plan, const struct gs_usdt_places *probe,
			   enum gs_family family, uint64_t cookie, uint16_t func)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < probe->n; i++)
		r = append_place(plan, &(struct gs_attach_plan_place){
					       .file_off = probe->at[i].file_off,
					       .ref_ctr_off = probe->at[i].ref_ctr_off,
					       .cookie = func | cookie | probe->at[i].cookie,
					       .func = func,
					       .family = (uint8_t)family});
	return r;
}

int attach_plan_add(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    const struct gs_elf_symbol *symbol, const char *name, enum gs_family family,
		    unsigned layer, uint16_t func)
{
	struct gs_attach_plan_place place = {.file_off = symbol->file_off,
					     .cookie = func,
					     .func = func,
					     .family = (uint8_t)family,
					     .has_return = true};
	struct gs_x86_site site = gs_attach_plan_site(c->elf, symbol->file_off, symbol->size_bytes,
						      &c->options->sites);

	if (site.kind == GS_X86_SITE_MOVED && c->options->first_byte) {
		site.reason =
			gs_attach_plan_first_refusal(c->elf, symbol->file_off, &c->options->sites);
		if (site.reason)
			site.kind = GS_X86_SITE_REFUSED;
	}
	if (site.kind == GS_X86_SITE_REFUSED) {
		attach_plan_report(c, name, site.reason, -EOPNOTSUPP, layer);
		return 0;
	}
	if (site.kind == GS_X86_SITE_MOVED && !c->options->first_byte)
		place.file_off += site.offset_bytes;
	else if (site.kind != GS_X86_SITE_EMULATED)
		place.is_stepped = true;
	plan->n_stepped += place.is_stepped;
	if (place.file_off != symbol->file_off)
		plan->n_moved++;
	gs_log(GS_LOG_DEBUG, GS_LOG_ATTACH, "%s: %s at 0x%llx+%u%s%s", c->path, name,
	       (unsigned long long)symbol->file_off, (unsigned)(place.file_off - symbol->file_off),
	       site.kind == GS_X86_SITE_STEPPED ? ", single-stepped: " : "",
	       site.kind == GS_X86_SITE_STEPPED ? site.reason : "");
	if (layer) {
		if (plan->n == 0)
			plan->layer = layer;
		else if (plan->layer != layer)
			plan->layer = 0;
	}
	return append_place(plan, &place);
}

#define MAX_EXITS          256u
#define MAX_FUNCTION_BYTES (256u << 10)
#define MAX_TAIL_LEVELS    3
#define MAX_NAME_BYTES     256u

/* Two probes at one place are asked in an order of the kernel's. The entry gives way to the exit: a
 * function of "test; jne" whose first byte is single-stepped has both on the jump. */
static int part_of_test(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			const struct gs_elf_symbol *symbol, struct gs_attach_plan_place *entry,
			uint64_t exit_off)
{
	if (exit_off != entry->file_off)
		return 0;
	if (entry->file_off == symbol->file_off ||
	    gs_attach_plan_first_refusal(c->elf, symbol->file_off, &c->options->sites))
		return -EILSEQ;
	entry->file_off = symbol->file_off;
	entry->is_stepped = true;
	plan->n_moved--;
	plan->n_stepped++;
	return 0;
}

/* The whole function; NULL: it cannot be had. Owned by the caller. */
static uint8_t *read_whole(const struct gs_attach_plan_context *c,
			   const struct gs_elf_symbol *symbol)
{
	uint8_t *code;

	if (symbol->size_bytes == 0 || symbol->size_bytes > MAX_FUNCTION_BYTES)
		return NULL;
	code = malloc(symbol->size_bytes);
	if (code && gs_elf_read(c->elf, symbol->file_off, code, symbol->size_bytes) !=
			    (long)symbol->size_bytes) {
		free(code);
		code = NULL;
	}
	return code;
}

/* One way out of the function whose entry is at that index of the plan. */
static int add_exit(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    const struct gs_elf_symbol *symbol, size_t entry, const struct gs_exit *e,
		    uint64_t frame_bytes)
{
	struct gs_attach_plan_place exit = plan->places[entry];
	int r;

	exit.file_off = symbol->file_off + (uint64_t)e->offset_bytes;
	r = part_of_test(plan, c, symbol, &plan->places[entry], exit.file_off);
	if (r < 0)
		return r;
	gs_log(GS_LOG_TRACE, GS_LOG_ATTACH, "%s: left at 0x%llx%+lld%s", c->path,
	       (unsigned long long)symbol->file_off, (long long)e->offset_bytes,
	       e->is_stepped ? ", single-stepped" : "");
	exit.is_stepped = e->is_stepped;
	exit.cookie = exit.func | GS_COOKIE_EXIT | (e->when_taken ? GS_COOKIE_TAKEN : 0) |
		      (e->when_not_taken ? GS_COOKIE_NOT_TAKEN : 0) |
		      (uint64_t)e->condition << GS_COOKIE_CC_SHIFT |
		      frame_bytes << GS_COOKIE_FRAME_SHIFT;
	plan->n_stepped += e->is_stepped;
	return append_place(plan, &exit);
}

/* Probes where the function is left, for the entry at that index of the plan. 0, or why there are
 * none. */
static int add_exits(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		     const struct gs_elf_symbol *symbol, size_t entry, bool is_loop)
{
	GS_FREE uint8_t *code = read_whole(c, symbol);
	struct gs_exit exits[MAX_EXITS];
	struct around around = {c, symbol->file_off};
	const struct gs_exit_around asked = {&around, attach_plan_read_around,
					     attach_plan_around_callee, is_loop};
	int n, r = 0;

	if (!code)
		return -EILSEQ;
	n = gs_x86_find_exits(code, symbol->size_bytes, &asked, exits, MAX_EXITS);
	for (int i = 0; r == 0 && i < n; i++) {
		const struct gs_exit *e = &exits[i];
		uint64_t frame = is_loop ? (uint64_t)e->depth_bytes : e->frame_bytes;

		if ((is_loop && e->depth_bytes < 0) || frame > GS_COOKIE_FRAME_MAX)
			return -EILSEQ;
		r = add_exit(plan, c, symbol, entry, e, frame);
	}
	return n < 0 ? n : r;
}

/* The same on its ret instructions alone. */
static int add_rets(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    const struct gs_elf_symbol *symbol, size_t entry,
		    struct gs_returns *ret_returns)
{
	GS_FREE uint8_t *code = read_whole(c, symbol);
	struct gs_exit exits[MAX_EXITS];
	int n, r = 0;

	if (!code)
		return -EILSEQ;
	n = gs_x86_find_returns(code, symbol->size_bytes, exits, MAX_EXITS, ret_returns);
	for (int i = 0; r == 0 && i < n; i++)
		r = add_exit(plan, c, symbol, entry, &exits[i], 0);
	return n < 0 ? n : r;
}

/* The function to which another one jumps in the place of a return: of this file, directly or by a
 * stub of the linker. */
static bool find_tail(const struct gs_attach_plan_context *c, uint64_t file_off,
		      struct gs_elf_symbol *ret_body)
{
	char text[MAX_NAME_BYTES];
	const char *name = text;

	*ret_body = (struct gs_elf_symbol){.file_off = file_off, .found = true};
	if (gs_elf_function_bytes(c->elf, file_off, &ret_body->size_bytes) == 0)
		return true;
	return gs_elf_stub_name(c->elf, file_off, text, sizeof(text)) == 0 &&
	       gs_elf_find(c->elf, &name, 1, false, ret_body, NULL) == 0 && ret_body->found;
}

static bool has_exit(const struct gs_attach_plan *plan, uint64_t from, uint64_t bytes)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->places[i].cookie & GS_COOKIE_EXIT && plan->places[i].file_off >= from &&
		    plan->places[i].file_off - from < bytes)
			return true;
	return false;
}

/* Probes on the rets of all functions to which one jumps in the place of a return. Several may jump
 * to the same, which has its probes once: the stack pointer says whose frame it is. */
static int add_tails(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		     const struct gs_elf_symbol *symbol, size_t entry,
		     const struct gs_returns *returns, unsigned level)
{
	int r = returns->n_tails && returns->n_tails <= GS_TAILS_MAX && level < MAX_TAIL_LEVELS
			? 0
			: -EILSEQ;

	for (unsigned i = 0; r == 0 && i < returns->n_tails; i++) {
		struct gs_elf_symbol body;
		struct gs_returns more;

		if (!find_tail(c, symbol->file_off + (uint64_t)returns->tails[i], &body))
			return -EILSEQ;
		if (has_exit(plan, body.file_off, body.size_bytes))
			continue;
		r = add_rets(plan, c, &body, entry, &more);
		if (r == 0 && more.jumps)
			r = add_tails(plan, c, &body, entry, &more, level + 1);
	}
	return r;
}

/* Of a stub, which jumps to the function proper, on that one's. One that may also
 * be left by a jump will do; tails_too: what it jumps to has probes as well. */
static int add_returns(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		       const struct gs_elf_symbol *symbol, size_t entry, bool tails_too)
{
	struct gs_elf_symbol body = {.found = true};
	struct gs_returns returns;
	int r = add_rets(plan, c, symbol, entry, &returns);

	if (r == 0 && returns.jumps && tails_too) {
		size_t before = plan->n;
		uint32_t n_stepped = plan->n_stepped;

		/* What cannot be followed is mostly what follows an error. */
		if (add_tails(plan, c, symbol, entry, &returns, 0) < 0) {
			plan->n = before;
			plan->n_stepped = n_stepped;
			r = before == entry + 1 ? -EILSEQ : 0;
		}
	} else if (r == 0 && returns.jumps && !returns.calls) {
		r = -EILSEQ;
		if (returns.indirect_jump >= 0 &&
		    gs_elf_stub_body(c->elf, symbol->file_off + (uint64_t)returns.indirect_jump,
				     &body.file_off, &body.size_bytes) == 0)
			r = add_rets(plan, c, &body, entry, &returns);
		if (r == 0 && returns.jumps)
			r = -EILSEQ;
	}
	if (r < 0)
		return r;
	for (size_t i = entry; i < plan->n; i++)
		plan->places[i].has_return = false;
	plan->places[entry].cookie |= GS_COOKIE_BY_EXITS | (returns.jumps ? GS_COOKIE_JUMPS : 0);
	return 0;
}

int attach_plan_add_loop(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			 const struct gs_elf_symbol *symbol, const char *name,
			 enum gs_family family, unsigned layer, uint16_t func)
{
	size_t before = plan->n, n_stepped;
	int r = attach_plan_add(plan, c, symbol, name, family, layer, func);

	if (r < 0 || plan->n == before)
		return r;
	n_stepped = plan->n_stepped;
	r = add_exits(plan, c, symbol, before, true);
	if (r < 0) {
		plan->n = before + 1;
		plan->n_stepped = (uint32_t)n_stepped;
	}
	return r;
}

int gs_attach_plan_add_scope(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			     const struct gs_elf_symbol *symbol, const char *name,
			     enum gs_family family, unsigned layer, uint16_t func)
{
	size_t before = plan->n;
	int r = attach_plan_add(plan, c, symbol, name, family, layer, func);

	if (r < 0 || plan->n == before)
		return r;
	r = add_exits(plan, c, symbol, before, false);
	if (r != -EILSEQ && r != -E2BIG)
		return r;
	plan->n = before;
	attach_plan_report(c, name, PLAN_NO_EXITS, -EOPNOTSUPP, layer);
	return 0;
}

/* One that calls nothing is left by its ret alone, unless a signal's handler is unwound through it.
 */
static bool is_alone(const struct gs_attach_plan_context *c, const struct gs_elf_symbol *symbol)
{
	GS_FREE uint8_t *code = read_whole(c, symbol);
	struct gs_exit exits[MAX_EXITS];
	struct gs_returns returns;

	return code &&
	       gs_x86_find_returns(code, symbol->size_bytes, exits, MAX_EXITS, &returns) > 0 &&
	       returns.alone;
}

/* The ends of the call whose entry is at that index of the plan. */
static int add_ends(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		    const struct gs_elf_symbol *symbol, size_t entry, bool by_ret)
{
	int r;

	if (!c->options->no_return_probes && (c->options->returns_are_kept || is_alone(c, symbol)))
		return 0;
	if (by_ret)
		return add_returns(plan, c, symbol, entry, false);
	r = add_exits(plan, c, symbol, entry, false);
	for (size_t i = entry; i < plan->n; i++)
		plan->places[i].has_return = false;
	plan->places[entry].cookie |= GS_COOKIE_BY_EXITS;
	return r;
}

int gs_attach_plan_add_call(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			    const struct gs_elf_symbol *symbol, const char *name, bool by_ret)
{
	uint32_t n_moved = plan->n_moved, n_stepped = plan->n_stepped;
	size_t before = plan->n;
	int r = attach_plan_add(plan, c, symbol, name, GS_FAMILY_USER, 0, 0);

	if (r < 0 || plan->n == before)
		return r;
	r = add_ends(plan, c, symbol, before, by_ret);
	if (r != -EILSEQ && r != -E2BIG)
		return r;
	plan->n = before;
	plan->n_moved = n_moved;
	plan->n_stepped = n_stepped;
	attach_plan_report(c, name, PLAN_NO_RETURNS, -EOPNOTSUPP, 0);
	return 0;
}

/* May it wait, open files, or call functions of the program? Then a thread may be cancelled in it,
 * or throw through it. What is left puts work into a queue, or asks. None of it is a cancellation
 * point in 4,000 calls with a full queue (tests/gpu/harm.cc, `points`, driver 580); events that are
 * recorded, copies to pageable memory and allocations in the order of a stream are. Those that make
 * a context or load code are, too: may_be_first(). */
static bool may_be_unwound(const struct gs_func *f)
{
	if (f->desc.layer == GS_LAYER_MPI) /* it waits, and calls functions for operations */
		return true;
	switch (f->desc.op) {
	case GS_CLASS_LAUNCH:
		return strstr(f->name, "MultiDevice");
	case GS_CLASS_GRAPH_LAUNCH:
		return false;
	case GS_CLASS_QUERY: /* of functions: loads them */
		return strstr(f->name, "Func") || strstr(f->name, "Occupancy");
	case GS_CLASS_STREAM:
		return f->desc.post == GS_POST_CALLBACK || f->desc.post == GS_POST_OUT_STREAM;
	case GS_CLASS_MEMSET:
		return !strstr(f->name, "Async");
	case GS_CLASS_CONTEXT: /* to choose one changes the thread's own stack of them alone */
		return f->desc.post != GS_POST_NONE;
	default:
		return true;
	}
}

/* May it be a process's first call, which makes a context, or a function's first launch, which loads
 * it? The probe's program knows only at the entry, where a return probe can no longer be left
 * out but by a session link (src/bpf/calls/first.bpf.h). */
static bool may_be_first(const struct gs_func *f, const struct gs_attach_plan_options *options)
{
	return (f->desc.layer == GS_LAYER_CUDA_RUNTIME || f->desc.layer == GS_LAYER_CUDA_DRIVER) &&
	       !options->returns_are_left_out;
}

/* How the end of the call is seen whose entry is at that index of the plan. A return probe replaces
 * the return address, where an unwinder stops: a thread that is cancelled loses its clean-up, a
 * program that throws is terminated. So functions that may be unwound have probes on their ret,
 * which is single-stepped, or none. */
static int choose_end(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		      const struct gs_elf_symbol *symbol, const struct gs_func *func, size_t entry)
{
	uint32_t n_stepped = plan->n_stepped;
	bool is_unwound = may_be_unwound(func) || may_be_first(func, c->options);
	int r;

	if ((!is_unwound || c->options->returns_are_kept) && !c->options->no_return_probes)
		return 0;
	r = add_returns(plan, c, symbol, entry, func->desc.layer == GS_LAYER_MPI);
	if (r == 0)
		return 0;
	plan->n = entry + 1;
	plan->n_stepped = n_stepped;
	if (r != -EILSEQ && r != -E2BIG)
		return r == -ENOMEM ? r : 0;
	plan->places[entry].has_return = false;
	plan->places[entry].cookie |= GS_COOKIE_NO_END;
	attach_plan_report(c, func->name,
			   "its calls are counted without their times: " PLAN_NO_EXITS, -EOPNOTSUPP,
			   func->desc.layer);
	return 0;
}

enum gs_family attach_plan_fixed_family(uint16_t func)
{
	switch (gs_func_by_id(func)->desc.layer) {
	case GS_LAYER_NCCL:
		return GS_FAMILY_NCCL;
	case GS_LAYER_MPI:
		return GS_FAMILY_MPI;
	default:
		return GS_FAMILY_CUDA;
	}
}

int attach_plan_add_fixed(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			  const struct gs_elf_symbol *symbol, uint16_t id)
{
	const struct gs_func *func = gs_func_by_id(id);
	size_t entry = plan->n;
	int r;

	if (has_place(plan, symbol->file_off))
		return 0;
	r = attach_plan_add(plan, c, symbol, func->name, attach_plan_fixed_family(id),
			    func->desc.layer, id);
	if (r == 0 && plan->n > entry && c->selection->watched[id]) {
		plan->places[entry].cookie |= GS_COOKIE_WATCHED;
		plan->places[entry].has_return = false;
		return 0;
	}
	if (r == 0 && plan->n > entry)
		r = choose_end(plan, c, symbol, func, entry);
	return r;
}

/* Functions of the fixed table, but for those of MPI. */
static int plan_fixed(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		      bool is_exe, struct gs_err *err)
{
	struct gs_elf_symbol symbols[GS_FUNC_FIXED];
	const char *names[GS_FUNC_FIXED];
	uint16_t ids[GS_FUNC_FIXED];
	size_t n = 0;
	int r;

	if (!c->selection->n || !is_of_interest(c->elf, is_exe))
		return 0;
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		bool is_watched = c->selection->watched[id] && c->options->returns_are_left_out &&
				  !c->options->no_return_probes;

		if (!(c->selection->wanted[id] || is_watched) ||
		    gs_func_by_id(id)->desc.layer == GS_LAYER_MPI)
			continue;
		names[n] = gs_func_by_id(id)->name;
		ids[n++] = (uint16_t)id;
	}
	r = gs_elf_find(c->elf, names, n, is_exe, symbols, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (symbols[i].found)
			r = attach_plan_add_fixed(plan, c, &symbols[i], ids[i]);
	return r;
}

bool attach_plan_dynstr_has(struct gs_elf *elf, const char *text)
{
	GS_FREE char *names = NULL;
	struct gs_elf_part part;
	long n;

	if (gs_elf_section_bytes(elf, ".dynstr", &part) < 0 || part.bytes > MAX_DYNSTR_BYTES)
		return false;
	names = malloc(part.bytes + 1);
	n = names ? gs_elf_read(elf, part.off, names, part.bytes) : -1;
	return n > 0 && memmem(names, (size_t)n, text, strlen(text));
}

/* A program with code for GPUs (nvcc and the linker name its sections so) and no CUDA runtime as a
 * library has one inside, whose functions only the full symbol table names. */
static void plan_report_hidden_runtime(const struct gs_attach_plan_context *c)
{
	struct gs_elf_part part;
	bool wanted = false;

	for (unsigned id = 1; id <= gs_func_count() && !wanted; id++)
		wanted = c->selection->wanted[id] &&
			 gs_func_by_id(id)->desc.layer == GS_LAYER_CUDA_RUNTIME;
	if (!wanted || gs_elf_has_symtab(c->elf) || gs_elf_defines(c->elf, "cudaLaunchKernel") ||
	    (gs_elf_section_bytes(c->elf, ".nv_fatbin", &part) < 0 &&
	     gs_elf_section_bytes(c->elf, "__nv_relfatbin", &part) < 0) ||
	    attach_plan_dynstr_has(c->elf, "libcudart.so"))
		return;
	attach_plan_report(
		c, NULL,
		"it has CUDA code (.nv_fatbin) and no symbols: calls of the CUDA runtime inside of it cannot be seen, only those of the driver",
		-ENOENT, GS_LAYER_CUDA_RUNTIME);
}

static int plan_catcher(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
			struct gs_err *err)
{
	const char *name = CATCHER;
	struct gs_elf_symbol symbol;
	int r = gs_elf_find(c->elf, &name, 1, false, &symbol, err);

	return r == 0 && symbol.found
		       ? attach_plan_add(plan, c, &symbol, name, GS_FAMILY_UNWIND, 0, 0)
		       : r;
}

int gs_attach_plan_file(struct gs_attach_plan *plan,
			const struct gs_attach_plan_selection *selection,
			const struct gs_attach_plan_options *options,
			const struct gs_mapped_file *file, struct gs_elf *elf, struct gs_err *err)
{
	GS_CLEANUP(gs_map_fini) struct gs_map callees = GS_MAP_INIT(GS_ATTACH_PLAN_CALLEES_MAX);
	struct gs_attach_plan_context c = {.selection = selection,
					   .options = options,
					   .path = file->path,
					   .elf = elf,
					   .callees = &callees};
	int r = plan_fixed(plan, &c, file->is_exe, err);

	if (r == 0)
		r = attach_plan_mpi(plan, &c, file->is_exe, err);
	if (r == 0 && file->is_exe)
		plan_report_hidden_runtime(&c);
	if (r == 0 && selection->unwind)
		r = plan_catcher(plan, &c, err);
	if (r == 0 && selection->operators)
		r = attach_plan_torch(plan, &c, err);
	if (r == 0 && (selection->python_gc || selection->python_gil))
		r = attach_plan_pyspan(plan, &c, err);
	if (r == 0 && selection->py_func)
		r = attach_plan_pycall(plan, &c, err);
	return r;
}
