/*
 * ".folded": a line for each way that has a weight of its own, outermost first, as the tools around
 * flame graphs read it (flamegraph.pl, speedscope, inferno):
 *
 *   process (pid);thread name (tid);main (train.py:40);aten::linear;cudaLaunchKernel 81250
 *
 * The number is nanoseconds, launches or bytes. A ";" inside of a name becomes ",", a control
 * character a blank.
 */
#include "output/trace_export/flame_file.h"

#define LINE_MAX_BYTES (GS_EXPORT_OUT_RECORD_BYTES - 8192) /* of one line; what is inside is cut */
#define DEPTH_MAX      4096

static char *put_label(char *p, const struct gs_flame *flame, uint32_t node)
{
	char label[GS_FLAME_LABEL_BYTES], *start = p;

	p = gs_put_utf8(p, gs_flame_label(flame, node, label), GS_PUT_MAX);
	for (char *q = start; q < p; q++) {
		if (*q == ';')
			*q = ',';
		else if ((unsigned char)*q < 0x20 || *q == 0x7f)
			*q = ' ';
	}
	return p;
}

static char *put_line(char *p, const struct gs_flame *flame, const struct gs_flame_node *nodes,
		      uint32_t node)
{
	uint32_t way[DEPTH_MAX], n = 0;
	char *start = p;

	for (uint32_t i = node; i && n < DEPTH_MAX; i = nodes[i].parent)
		way[n++] = i;
	if (!n)
		p = gs_put(p, "all");
	while (n-- > 0 && p - start < LINE_MAX_BYTES) {
		p = put_label(p, flame, way[n]);
		if (n)
			*p++ = ';';
	}
	if (p[-1] == ';')
		p--;
	*p++ = ' ';
	p = gs_put_u64(p, nodes[node].self);
	*p++ = '\n';
	return p;
}

static uint8_t *finish_export(struct gs_export *e, uint8_t *out)
{
	const struct gs_flame *flame = gs_export_flame_file_end(e);
	const struct gs_flame_node *nodes;
	uint32_t n;

	if (!flame)
		return out;
	nodes = gs_flame_nodes(flame, &n);
	for (uint32_t i = 0;; i = gs_export_flame_file_next(nodes, i)) {
		if (nodes[i].self && !e->full) {
			uint8_t *p = gs_export_out_begin(&e->out);
			uint8_t *end = (uint8_t *)put_line((char *)p, flame, nodes, i);

			e->full = e->max_bytes &&
				  e->out.file_bytes + (uint64_t)(end - e->out.buf) > e->max_bytes;
			if (!e->full)
				gs_export_out_commit(&e->out, end);
		}
		e->left_out += nodes[i].self && e->full;
		if (!gs_export_flame_file_next(nodes, i))
			break;
	}
	return gs_export_out_begin(&e->out);
}

const struct gs_export_writer gs_writer_folded = {
	.suffix = ".folded",
	.state_bytes = sizeof(struct gs_export_flame_file),
	.at_end = true,
	.start = gs_export_flame_file_start,
	.record = gs_export_flame_file_record,
	.finish = finish_export,
	.fini = gs_export_flame_file_fini,
};
