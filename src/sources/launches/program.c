/*
 * Programs that MPI is linked into: no library shows it, only the symbols of the program's own
 * file, which a reader looks up once for each file.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/attach_plan/remote.h"
#include "sources/launches/launches_int.h"

#define PROGRAMS_MAX 4096

struct launches_programs {
	struct gs_attach_plan_options options;
	struct gs_attach_plan_selection selection;
	struct gs_map has_mpi; /* hash of a file's id -> 0, 1 */
	bool any;
};

int launches_programs_new(struct launches_programs **ret)
{
	static const char *const globs[] = {"MPI_Init*", "MPI_Finalize"};
	struct launches_programs *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->has_mpi = GS_MAP_INIT(PROGRAMS_MAX);
	p->options = (struct gs_attach_plan_options){
		.layers = 1u << GS_LAYER_MPI, .globs = globs, .n_globs = GS_ARRAY_LEN(globs)};
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
	gs_map_fini(&p->has_mpi);
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

bool launches_programs_has_mpi(struct launches_programs *p, struct gs_reader *reader,
			       const struct gs_mapped_file *file)
{
	const uint64_t id[2] = {file->id.dev, file->id.ino};
	uint64_t key = gs_hash_bytes(id, sizeof(id)), has;

	if (gs_map_get(&p->has_mpi, key, &has))
		return has;
	has = ask_reader(p, reader, file);
	p->any |= has;
	/* Without room it is asked again. */
	(void)gs_map_put(&p->has_mpi, key, has);
	return has;
}

bool launches_programs_any(const struct launches_programs *p)
{
	return p && p->any;
}
