/*
 * Programs that MPI is linked into: no library shows it, only the symbols of the program's own
 * file, which a reader looks up once for each file. Of a program without symbols its texts show that
 * MPI is in it, and no more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/attach_plan/remote.h"
#include "sources/launches/launches_int.h"

#define PROGRAMS_MAX 4096

struct launches_programs {
	struct gs_attach_plan_options options;
	struct gs_attach_plan_selection selection;
	struct gs_map holds;          /* hash of a file's id -> enum launches_holds */
	struct gs_map hidden;         /* hash of a path -> 1: those that have hidden MPI */
	bool any, is_hidden;          /* is_hidden: of the file that is being asked about */
	struct launches_hidden first; /* of those */
};

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	struct launches_programs *p = ctx;

	p->is_hidden |= launches_programs_add_hidden(p, attach);
}

int launches_programs_new(struct launches_programs **ret)
{
	static const char *const globs[] = {"MPI_*"};
	struct launches_programs *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->holds = GS_MAP_INIT(PROGRAMS_MAX);
	p->hidden = GS_MAP_INIT(PROGRAMS_MAX);
	p->options = (struct gs_attach_plan_options){.layers = 1u << GS_LAYER_MPI,
						     .globs = globs,
						     .n_globs = GS_ARRAY_LEN(globs),
						     .on_attach = on_attach,
						     .ctx = p};
	r = gs_attach_plan_select(&p->selection, &p->options, NULL);
	if (r < 0)
		launches_programs_free(&p);
	*ret = p;
	return r;
}

void launches_programs_free(struct launches_programs **ref)
{
	struct launches_programs *p = *ref;

	if (!p)
		return;
	gs_map_fini(&p->holds);
	gs_map_fini(&p->hidden);
	free(p);
	*ref = NULL;
}

static bool ask_reader(struct launches_programs *p, struct gs_reader *reader,
		       const struct gs_mapped_file *file)
{
	const struct gs_foreign_want want = {.dev = file->id.dev, .ino = file->id.ino};
	GS_CLEANUP(gs_attach_plan_fini) struct gs_attach_plan plan = {0};
	GS_CLEANUP(gs_foreign_close) struct gs_foreign opened = GS_FOREIGN_INIT;

	return gs_foreign_open(file->open_path, &want, &opened) == 0 &&
	       gs_attach_plan_ask(&plan, reader, &p->selection, &p->options, file, opened.fd,
				  NULL) == 0 &&
	       plan.n > 0;
}

enum launches_holds launches_programs_ask(struct launches_programs *p, struct gs_reader *reader,
					  const struct gs_mapped_file *file)
{
	const uint64_t id[2] = {file->id.dev, file->id.ino};
	uint64_t key = gs_hash_bytes(id, sizeof(id)), holds;

	if (gs_map_get(&p->holds, key, &holds))
		return (enum launches_holds)holds;
	p->is_hidden = false;
	holds = ask_reader(p, reader, file) ? LAUNCHES_HOLDS_MPI
		: p->is_hidden              ? LAUNCHES_HOLDS_HIDDEN_MPI
					    : LAUNCHES_HOLDS_NO_MPI;
	p->any |= holds == LAUNCHES_HOLDS_MPI;
	/* Without room it is asked again. */
	(void)gs_map_put(&p->holds, key, holds);
	return (enum launches_holds)holds;
}

bool launches_programs_any(const struct launches_programs *p)
{
	return p && p->any;
}

bool launches_programs_add_hidden(struct launches_programs *p, const struct gs_attach *attach)
{
	const char *name = strrchr(attach->path, '/');
	uint64_t key = gs_hash_bytes(attach->path, strlen(attach->path));

	if (attach->status != -ENOENT || attach->function || attach->layer != GS_LAYER_MPI)
		return false;
	if (!p->first.name[0]) {
		snprintf(p->first.name, sizeof(p->first.name), "%s",
			 name ? name + 1 : attach->path);
		snprintf(p->first.reason, sizeof(p->first.reason), "%s", attach->reason);
	}
	(void)gs_map_put(&p->hidden, key, 1);
	return true;
}

size_t launches_programs_hidden(const struct launches_programs *p,
				const struct launches_hidden **ret_first)
{
	*ret_first = p ? &p->first : NULL;
	return p ? p->hidden.n_used : 0;
}
