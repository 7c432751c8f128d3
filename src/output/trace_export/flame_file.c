#include "output/trace_export/flame_file.h"

uint8_t *gs_export_flame_file_start(struct gs_export *e, uint8_t *p)
{
	struct gs_export_flame_file *x = e->state;
	int r = gs_flame_new(e->dict, e->flame_by, &x->flame);

	if (r < 0)
		e->out.error = r;
	return p;
}

uint8_t *gs_export_flame_file_record(struct gs_export *e, const struct gs_record *r, uint8_t *p)
{
	struct gs_export_flame_file *x = e->state;
	int error = x->flame ? gs_flame_record(x->flame, r) : 0;

	if (error < 0)
		e->out.error = error;
	if (r->kind == GS_REC_LOSS)
		x->n_lost += ((const struct gs_rec_loss *)r)->count;
	return p;
}

void gs_export_flame_file_fini(void *state)
{
	struct gs_export_flame_file *x = state;

	gs_flame_free(&x->flame);
}

const struct gs_flame *gs_export_flame_file_end(struct gs_export *e)
{
	struct gs_export_flame_file *x = e->state;
	uint32_t n;
	int r;

	if (!x->flame)
		return NULL;
	r = gs_flame_finish(x->flame);
	if (r < 0) {
		e->out.error = r;
		return NULL;
	}
	e->shows_nothing = !gs_flame_nodes(x->flame, &n)->total;
	return x->flame;
}

uint32_t gs_export_flame_file_skip(const struct gs_flame_node *nodes, uint32_t i)
{
	while (i && !nodes[i].next)
		i = nodes[i].parent;
	return nodes[i].next;
}

uint32_t gs_export_flame_file_next(const struct gs_flame_node *nodes, uint32_t i)
{
	return nodes[i].first_child ? nodes[i].first_child : gs_export_flame_file_skip(nodes, i);
}
