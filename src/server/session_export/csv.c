/* One row for each sample of each GPU, with the sample's own time. */
#include <math.h>

#include "server/session_export/session_export_int.h"
#include "core/text/doc.h"
#include "core/text/text.h"

struct csv {
	struct archive *a;
	struct gs_pen *pen;
	unsigned field[GS_GPU_FIELD_COUNT];
	size_t n_fields;
};

static void put_text(struct gs_pen *pen, const char *text)
{
	gs_pen_puts(pen, ",");
	gs_pen_check(pen, gs_text_csv(&pen->buf, text));
}

static int write_sample(void *ctx, const struct session_export_sample *m)
{
	const struct csv *c = ctx;
	const struct gs_gpu_snapshot *g = m->snapshot->gpu;
	const struct session_export_node *node = &c->a->node[m->node];
	char time[ARCHIVE_TIME_BYTES];

	for (uint32_t i = 0; i < g->n_gpus; i++) {
		const struct gs_gpu_sample *s = &g->sample[i];
		/* When this GPU was read, which is a little before or after the snapshot. */
		int64_t wall_ns = m->wall_ns + (int64_t)(s->time_ns - m->snapshot->time_ns);
		double age_s;

		if (!s->time_ns || !m->snapshot->time_ns ||
		    llabs(wall_ns - m->wall_ns) > 60000000000ll)
			wall_ns = m->wall_ns;
		gs_pen_puts(c->pen, session_export_time(time, wall_ns, false));
		put_text(c->pen, node->client);
		gs_pen_printf(c->pen, ",%u", g->info[i].index);
		put_text(c->pen, g->info[i].uuid);
		put_text(c->pen, g->info[i].name);
		gs_pen_puts(c->pen, s->lost ? ",0" : ",1");
		for (size_t f = 0; f < c->n_fields; f++) {
			gs_pen_puts(c->pen, ",");
			if (gs_gpu_has(s, c->field[f]) && isfinite(s->value[c->field[f]]))
				gs_pen_double(c->pen, s->value[c->field[f]]);
		}
		gs_pen_puts(c->pen, ",");
		if (m->mark.n_samples)
			gs_pen_double(c->pen, (double)m->mark.interval_ns / 1e9);
		gs_pen_puts(c->pen, ",");
		age_s = session_export_age_s(s, c->field, c->n_fields);
		if (!isnan(age_s))
			gs_pen_double(c->pen, age_s);
		gs_pen_puts(c->pen, GS_TEXT_CSV_EOL);
		gs_pen_yield(c->pen);
	}
	return c->pen->r;
}

int session_export_csv(struct archive *a, struct gs_pen *pen)
{
	struct csv c = {.a = a, .pen = pen};
	struct session_export_sink sink = {.snapshot = write_sample, .ctx = &c};

	c.n_fields = session_export_fields(a->o->session, c.field);
	gs_pen_puts(pen, "time,node,gpu,uuid,name,available");
	for (size_t f = 0; f < c.n_fields; f++)
		put_text(pen, gs_gpu_field_info(c.field[f])->key);
	put_text(pen, "downsampled_seconds");
	put_text(pen, "oldest_value_seconds");
	gs_pen_puts(pen, GS_TEXT_CSV_EOL);
	return session_export_read(a, &sink);
}
