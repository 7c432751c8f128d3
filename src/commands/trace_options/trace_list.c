/* gpuscope trace --list: what can be traced, of the layers and by the patterns that are given. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/trace_options/trace_options_int.h"
#include "core/base/err.h"
#include "core/reader/reader.h"
#include "sources/attach_plan/attach_plan.h"
#include "sources/attach_plan/remote.h"
#include "sources/elf/torch_name.h"
#include "model/trace/func.h"

struct list {
	const struct trace_options *options;
	char *library; /* whose operators are listed; owned */
	unsigned n;
	unsigned n_unreadable; /* files that could not be read, said */
};

static void put_function(struct list *l, unsigned layer, unsigned func_class, const char *name,
			 const char *remark)
{
	printf("%-13s %-13s %s%s\n", gs_layer_name(layer), gs_class_name(func_class), name, remark);
	l->n++;
}

static bool operator_wanted(const struct trace_options *o, const char *name)
{
	for (size_t i = 0; i < o->ops.n; i++)
		if (gs_torch_matches(o->ops.glob[i], name))
			return true;
	return !o->ops.n;
}

static void on_operator(void *ctx, const char *name, bool by_default, const char *path)
{
	struct list *l = ctx;

	/* Of the first library: others are copies of it, or rare. */
	if (!l->library)
		l->library = strdup(path);
	if (l->library && strcmp(l->library, path) == 0 && operator_wanted(l->options, name))
		put_function(l, GS_LAYER_TORCH, GS_CLASS_OPERATOR, name,
			     by_default ? "" : "   (only by --op or --op-set all)");
}

static void on_unreadable(void *ctx, const char *path, const char *reason)
{
	struct list *l = ctx;

	gs_cli_print_message("%s: %s", path, reason);
	l->n_unreadable++;
}

/* Operators are those of the library that the command would load, or Python's, when there is none.
 * Who lists them is often root, and the library anybody's: a process without rights reads it. */
static void list_operators(struct list *l)
{
	static const struct gs_reader_options reads_files = {.name = "files"};
	const char *command = l->options->command ? l->options->command[0] : "python3";
	const struct gs_operator_handler handler = {on_operator, on_unreadable, l};
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = NULL;
	struct gs_err err = {{0}};
	int r = gs_reader_new(&reads_files, &reader, &err);

	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		l->n_unreadable++;
		return;
	}
	gs_attach_plan_list_operators(command, environ, reader, &handler);
	if (l->library)
		gs_cli_print_message("these are the operators of %s", l->library);
	else
		gs_cli_print_message(
			"%s has no PyTorch whose operators could be listed: give the command after --list --layer torch --",
			command);
	free(l->library);
}

static bool function_wanted(const struct trace_options *o, const char *name)
{
	for (size_t i = 0; i < o->funcs.n; i++)
		if (fnmatch(o->funcs.glob[i], name, 0) == 0)
			return true;
	return !o->funcs.n;
}

/* With which name of a function may be meant, as when they are traced. */
static void list_print_nothing(const struct trace_options *o)
{
	const struct gs_attach_plan_options wanted = {
		.layers = o->layers, .globs = o->funcs.glob, .n_globs = o->funcs.n};
	struct gs_attach_plan_selection selection;
	struct gs_err err = {{0}};

	if (o->funcs.n)
		(void)gs_attach_plan_select(&selection, &wanted, &err);
	gs_cli_print_message("%s", err.text[0] ? err.text : "nothing that can be traced matches");
}

int trace_list(const struct trace_options *o)
{
	uint32_t layers = o->layers ? o->layers : GS_LAYERS_DEFAULT;
	struct list l = {.options = o};

	if (o->ops.n || o->op_set_given)
		layers = (o->layers ? o->layers : 0) | 1u << GS_LAYER_TORCH;
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		if (layers >> f->desc.layer & 1 && !f->watched_only && function_wanted(o, f->name))
			put_function(&l, f->desc.layer, f->desc.op, f->name,
				     f->by_default ? "" : "   (only by --func)");
	}
	if (layers >> GS_LAYER_TORCH & 1)
		list_operators(&l);
	if (layers >> GS_LAYER_TORCH_MEM & 1) {
		put_function(&l, GS_LAYER_TORCH_MEM, GS_CLASS_ALLOC, "pytorch:malloc", "");
		put_function(&l, GS_LAYER_TORCH_MEM, GS_CLASS_FREE, "pytorch:free", "");
	}
	if (layers >> GS_LAYER_PYTHON & 1) {
		put_function(&l, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "gc", "");
		put_function(&l, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "gil wait",
			     "   (only by --python-gil)");
		put_function(&l, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "functions of Python",
			     "   (only by --python-calls)");
	}
	if (layers >> GS_LAYER_USER & 1)
		gs_cli_print_message("what --layer user can trace: gpuscope probes LIBRARY");
	else if (!l.n && !l.n_unreadable)
		list_print_nothing(o);
	if (l.n || layers >> GS_LAYER_USER & 1)
		return GS_EXIT_DONE;
	return l.n_unreadable ? GS_EXIT_FAILED : GS_EXIT_NOTHING;
}
