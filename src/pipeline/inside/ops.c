#include "pipeline/inside/ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/torch_op.h"

#define IDS_MAX  (1u << 20)
#define OPEN_MAX (1u << 18) /* operators, in all threads */
#define SUMS_MAX (1u << 16)

_Static_assert(GS_COMPANION_OPS_OPEN < 256, "open_at has 8 bits for it");

void inside_ops_init(struct inside_ops *o, struct gs_func_set *funcs)
{
	*o = (struct inside_ops){
		.funcs = funcs, .ids = GS_MAP_INIT(IDS_MAX), .open_at = GS_MAP_INIT(OPEN_MAX)};
}

void inside_ops_fini(struct inside_ops *o)
{
	gs_map_fini(&o->ids);
	gs_map_fini(&o->open_at);
	free(o->open);
	free(o->sums);
	*o = (struct inside_ops){0};
}

static uint64_t id_key(uint64_t file, uint32_t number)
{
	return file << 16 | number;
}

bool inside_ops_take_name(struct inside_ops *o, const struct gs_companion_thread *from,
			  const struct gs_companion_op_name *r)
{
	char name[GS_TORCH_NAME_BYTES + 8];
	uint16_t id;

	if (!o->funcs || !r->number || r->number >= GS_COMPANION_OP_NAMES)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(r->head.bytes - sizeof(*r)), r->text);
	return name[0] &&
	       gs_func_set_add(o->funcs, GS_LAYER_TORCH, GS_CLASS_OPERATOR, name, &id) == 0 &&
	       gs_map_put(&o->ids, id_key(from->file, r->number), id) == 0;
}

uint16_t inside_ops_id(const struct inside_ops *o, uint64_t file, uint32_t number)
{
	uint64_t id = 0;

	if (number && number < GS_COMPANION_OP_NAMES)
		gs_map_get(&o->ids, id_key(file, number), &id);
	return (uint16_t)id;
}

void inside_ops_take_open(struct inside_ops *o, struct gs_companion_ticks *ticks,
			  const struct gs_companion_thread *from,
			  const struct gs_companion_scope *scopes, unsigned n)
{
	uint32_t first = o->n_open;

	for (unsigned i = 0; i < n && o->n_open < OPEN_MAX; i++) {
		uint16_t id = inside_ops_id(o, from->file, scopes[i].name);

		/* One whose name has yet to come began after all that is placed by this. */
		if (!id || !gs_vec_reserve_next(&o->open, o->n_open))
			continue;
		o->open[o->n_open++] = (struct inside_open_op){
			.start_ns = gs_companion_thread_ns(ticks, from, scopes[i].start),
			.func = id,
			.is_span = scopes[i].is_span};
	}
	if (o->n_open > first)
		gs_map_put(&o->open_at, (uint64_t)from->pid << 32 | from->tid,
			   (uint64_t)first << 8 | (o->n_open - first));
}

void inside_ops_forget_open(struct inside_ops *o)
{
	if (!o->n_open)
		return;
	o->n_open = 0;
	gs_map_fini(&o->open_at);
	o->open_at = GS_MAP_INIT(OPEN_MAX);
}

const struct inside_open_op *inside_ops_open(const struct inside_ops *o, uint32_t pid, uint32_t tid,
					     unsigned *ret_n)
{
	uint64_t at;

	*ret_n = 0;
	if (!gs_map_get(&o->open_at, (uint64_t)pid << 32 | tid, &at))
		return NULL;
	*ret_n = at & 0xff;
	return &o->open[at >> 8];
}

bool inside_ops_take_sum(struct inside_ops *o, const struct gs_companion_thread *from,
			 const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
	if (o->n_sums == SUMS_MAX || !gs_vec_reserve_next(&o->sums, o->n_sums))
		return false;
	o->sums[o->n_sums++] = (struct inside_sum){*from, *before, *now};
	return true;
}
