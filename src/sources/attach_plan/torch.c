/*
 * Operators of PyTorch in a file: which it exports (some 3,000), what PyTorch calls them, and which
 * of them are chosen. Their names cannot be looked up one by one (their arguments are part of the
 * symbols and differ between versions), so a file that defines one of two markers is read in two
 * passes, over its symbols and over its texts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/elf/elf.h"
#include "model/trace/func.h"
#include "model/trace/torch_op.h"
#include "sources/attach_plan/attach_plan_int.h"
#include "sources/elf/torch_name.h"

#define MAX_OPERATORS (GS_FUNC_MAX - GS_FUNC_FIXED)

/* Each takes a handful of single links, and each of these takes the kernel 0.1 s to remove. */
#define MAX_SINGLE_OPERATORS 32

struct operator
{
	struct gs_elf_symbol symbol;
	char part[GS_TORCH_NAME_BYTES]; /* "add_Tensor"; of a span: its name */
	char name[GS_TORCH_NAME_BYTES]; /* "add.Tensor"; "" not known yet */
	bool is_span;
	bool is_node; /* a span of which a backward pass has one for each of its nodes */
	bool exact;   /* the name is a whole schema's, not the end of a longer one's */
};

struct operators {
	struct operator* items; /* owned */
	size_t n, n_room;
	struct gs_map by_part;                      /* hash -> index */
	struct gs_elf_symbol span[GS_SPAN_END + 1]; /* by enum gs_span_site */
};

static void operators_fini(struct operators *o)
{
	free(o->items);
	gs_map_fini(&o->by_part);
}

static bool wants_spans(const struct gs_attach_plan_options *o)
{
	for (size_t i = 0; i < o->n_ops; i++)
		if (gs_torch_matches(o->ops[i], GS_TORCH_SPANS))
			return true;
	return !o->n_ops && o->op_set != GS_OPS_EACGM;
}

int attach_plan_select_torch(struct gs_attach_plan_selection *s,
			     const struct gs_attach_plan_options *o, struct gs_err *err)
{
	if (!o->funcs)
		return gs_err_set(err, -EINVAL, "operators need a set of functions");
	s->operators = true;
	if (!wants_spans(o))
		return 0;
	if (gs_func_set_reserve(o->funcs, GS_LAYER_TORCH, GS_CLASS_OPERATOR, GS_SPAN_NAMES,
				GS_TORCH_SPANS, &s->span_first) < 0)
		return gs_err_set(err, -ENOMEM, "no memory for the names of spans");
	return 0;
}

static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t h = gs_hash_bytes(text, bytes);

	return h ? h : 1;
}

static int take_symbol(void *ctx, const char *name, const struct gs_elf_symbol *symbol)
{
	struct operators *o = ctx;
	const char *part = NULL, *span = gs_torch_span(name);
	struct operator* op;
	size_t bytes = 0;
	unsigned site = gs_torch_span_site(name);

	if (site)
		o->span[site] = *symbol;
	if (!span && !gs_torch_part(name, &part, &bytes))
		return 0;
	if (o->n == MAX_OPERATORS)
		return 0;
	if (!gs_vec_reserve(&o->items, &o->n_room, o->n + 1))
		return -ENOMEM;
	op = &o->items[o->n];
	*op = (struct operator){.symbol = *symbol, .is_span = span != NULL};
	if (span) {
		snprintf(op->name, sizeof(op->name), "%s", span);
		op->is_node = strcmp(span, "autograd::evaluate_function") == 0;
		o->n++;
		return 0;
	}
	memcpy(op->part, part, bytes);
	return gs_map_put(&o->by_part, hash_of(part, bytes), o->n++);
}

/* A schema may be stored as the end of a longer one (linkers merge such texts: "cos(Tensor self)"
 * is the end of "acos(Tensor self)"), so each end of its name is looked up. */
static int take_text(void *ctx, const char *text)
{
	struct operators *o = ctx;
	size_t bytes = gs_torch_schema_name(text);
	char part[GS_TORCH_NAME_BYTES];

	if (!bytes)
		return 0;
	memcpy(part, text, bytes);
	part[bytes] = 0;
	for (char *dot = strchr(part, '.'); dot; dot = NULL)
		*dot = '_';
	for (size_t from = 0; from < bytes && text[from] != '.'; from++) {
		struct operator* op;
		uint64_t i;

		if (!gs_map_get(&o->by_part, hash_of(part + from, bytes - from), &i))
			continue;
		op = &o->items[i];
		if (strcmp(op->part, part + from) != 0 || op->exact || (from && op->name[0]))
			continue;
		snprintf(op->name, sizeof(op->name), "%.*s", (int)(bytes - from), text + from);
		op->exact = from == 0;
	}
	return 0;
}

/* Without a schema the part is the name: at worst an overload is not set apart. */
static void name_rest(struct operators *o, const char *path)
{
	unsigned n = 0;

	for (size_t i = 0; i < o->n; i++) {
		if (o->items[i].name[0])
			continue;
		memcpy(o->items[i].name, o->items[i].part, sizeof(o->items[i].name));
		n++;
	}
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "%s: %zu operators, %u of them without a schema", path,
	       o->n, n);
}

static void full_name(const struct operator* op, char out[GS_TORCH_NAME_BYTES + 8])
{
	snprintf(out, GS_TORCH_NAME_BYTES + 8, "%s%s", op->is_span ? "" : "aten::", op->name);
}

static bool is_chosen(const struct gs_attach_plan_options *o, const struct operator* op,
		      const char *full_name, const char **ret_name)
{
	*ret_name = full_name;
	if (o->n_ops) {
		for (size_t i = 0; i < o->n_ops; i++)
			if (gs_torch_matches(o->ops[i], full_name))
				return true;
		return false;
	}
	switch (o->op_set) {
	case GS_OPS_ALL:
		return true;
	case GS_OPS_EACGM:
		*ret_name = op->is_span ? NULL : gs_torch_eacgm_name(op->name);
		return *ret_name != NULL;
	default:
		return op->is_span ? !op->is_node : !gs_torch_is_trivial(op->name);
	}
}

/* Where spans are seen. */
static int add_spans(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		     const struct operators *o)
{
	static const char *const names[GS_SPAN_END + 1] = {
		[GS_SPAN_NAME] = "record_function_enter_new",
		[GS_SPAN_BEGIN] = "RecordFunction::RecordFunction",
		[GS_SPAN_END] = "RecordFunction::end"};
	size_t before = plan->n;
	int r = 0;

	for (unsigned i = GS_SPAN_NAME; r == 0 && i <= GS_SPAN_END; i++) {
		if (o->span[i].found) {
			r = attach_plan_add(plan, c, &o->span[i], names[i], GS_FAMILY_SPAN,
					    GS_LAYER_TORCH, 0);
			if (plan->n == before + i)
				plan->places[plan->n - 1].cookie = i;
		}
		if (r == 0 && plan->n == before + i)
			continue;
		plan->n = before;
		if (r == 0)
			attach_plan_report(
				c, names[i],
				"it cannot be probed here, so steps of optimizers, waits for data loaders and other spans are not seen",
				-ENOENT, GS_LAYER_TORCH);
		return r;
	}
	return r;
}

static int add_chosen(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		      const struct operators *o)
{
	unsigned room = c->options->many_links ? MAX_OPERATORS : MAX_SINGLE_OPERATORS;
	size_t n_refused = 0, before = plan->n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n; i++) {
		const struct operator* op = & o->items[i];
		char full[GS_TORCH_NAME_BYTES + 8];
		const char *name;
		uint16_t id;

		full_name(op, full);
		if (!is_chosen(c->options, op, full, &name))
			continue;
		if (!room) {
			n_refused++;
			continue;
		}
		room--;
		r = gs_func_set_add(c->options->funcs, GS_LAYER_TORCH, GS_CLASS_OPERATOR, name,
				    &id);
		if (r == 0)
			r = gs_attach_plan_add_scope(plan, c, &op->symbol, name, GS_FAMILY_TORCH,
						     GS_LAYER_TORCH, id);
	}
	if (r == 0 && plan->n == before && !n_refused && !c->selection->span_first)
		attach_plan_report(c, "operators", "no operator matches these names", -ENOENT,
				   GS_LAYER_TORCH);
	if (n_refused)
		attach_plan_report(
			c, "operators",
			"this kernel has no multi links (Linux 6.6), and removing as many single links takes minutes: only the first 32 operators are traced; choose yours with --op, or --op-set eacgm",
			-E2BIG, GS_LAYER_TORCH);
	return r;
}

/* Empty when the file defines none. */
static int read_operators(struct gs_elf *elf, const char *path, struct operators *o,
			  struct gs_err *err)
{
	int r = 0;

	if (!gs_elf_defines(elf, "_ZN2at13globalContextEv") &&
	    !gs_elf_defines(elf, "_ZN5torch8autograd6Engine18get_default_engineEv"))
		return 0;
	r = gs_elf_each_symbol(elf, "_ZN", take_symbol, o, err);
	if (r == 0 && o->n)
		r = gs_elf_each_text(elf, ") -> ", take_text, o, err);
	if (r == 0 && o->n)
		name_rest(o, path);
	return r;
}

int attach_plan_torch(struct gs_attach_plan *plan, const struct gs_attach_plan_context *c,
		      struct gs_err *err)
{
	GS_CLEANUP(operators_fini) struct operators o = {.by_part = GS_MAP_INIT(GS_FUNC_MAX)};
	int r = read_operators(c->elf, c->path, &o, err);

	if (r == 0 && o.n)
		r = add_chosen(plan, c, &o);
	/* Of PyTorch's libraries one has them. */
	if (r == 0 && c->selection->span_first && o.span[GS_SPAN_BEGIN].found)
		r = add_spans(plan, c, &o);
	return r;
}

int attach_plan_each_operator(struct gs_elf *elf, const char *path, attach_plan_operator_fn fn,
			      void *ctx, struct gs_err *err)
{
	GS_CLEANUP(operators_fini) struct operators o = {.by_part = GS_MAP_INIT(GS_FUNC_MAX)};
	const struct gs_attach_plan_options defaults = {.op_set = GS_OPS_DEFAULT};
	int r = read_operators(elf, path, &o, err);

	for (size_t i = 0; r == 0 && i < o.n; i++) {
		char full[GS_TORCH_NAME_BYTES + 8];
		const char *name;

		full_name(&o.items[i], full);
		r = fn(ctx, full, is_chosen(&defaults, &o.items[i], full, &name));
	}
	return r;
}
