/*
 * ".svg": the flame graph as a page of its own: nothing is loaded from anywhere, and it can be
 * read without its script as well, because each frame is a picture of its own (an <svg> inside of
 * the <svg>) at a place in per cent: the text is cut at its edge and all follow the width of the
 * window. flame.js adds zoom, search and keys. Roots are at the top.
 */
#include "output/trace_export/flame_file.h"

#include <stdio.h>

#include "core/base/fmt.h"
#include "flame_css.h"
#include "flame_js.h"

#define ROW_PX      17
#define TOP_PX      118
#define WIDTH_PX    1200 /* of a usual window: what is narrower than MIN_PX there is left out */
#define MIN_PX      0.1
#define FRAME_BYTES 210 /* about, of a frame without its label */

/* --- what a weight reads as --- */

static char *put_weight(char *p, enum gs_flame_by by, uint64_t weight)
{
	char text[GS_FMT_BYTES];

	if (by == GS_FLAME_LAUNCHES)
		return gs_put(gs_put(p, gs_fmt_count(text, weight)),
			      weight == 1 ? " launch" : " launches");
	if (by == GS_FLAME_BYTES || by == GS_FLAME_MEMORY)
		return gs_put(p, gs_fmt_bytes(text, weight));
	return gs_put(p, gs_fmt_ns(text, weight));
}

static const char *heading_of(enum gs_flame_by by)
{
	switch (by) {
	case GS_FLAME_SAMPLES:
		return "Time on a processor, by samples";
	case GS_FLAME_WALL:
		return "Wall time of Python threads: running by samples, and waiting";
	case GS_FLAME_LAUNCHES:
		return "Kernel launches";
	case GS_FLAME_BYTES:
		return "Bytes moved by copies, memsets and collectives";
	case GS_FLAME_MEMORY:
		return "Bytes allocated";
	default:
		return "Host time in traced calls";
	}
}

/* Parts of a whole with decimals enough that neighbours do not overlap. */
static char *put_percent(char *p, uint64_t part, uint64_t whole, unsigned decimals)
{
	char text[48];
	int n = snprintf(text, sizeof(text), "%.*f", (int)decimals,
			 whole ? 100.0 * (double)part / (double)whole : 0.0);

	memcpy(p, text, (size_t)n);
	return p + n;
}

/* --- the head --- */

static char *put_note(struct gs_export *e, char *p, const struct gs_flame *flame,
		      const struct gs_flame_node *nodes, uint64_t n_hidden)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	const struct gs_export_flame_file *x = e->state;
	char n[GS_FMT_BYTES];

	p = put_weight(p, gs_flame_shown(flame), nodes[0].total);
	if (s && s->host_str)
		p = gs_put_xml(gs_put(p, " on "), gs_dict_string(e->dict, s->host_str), 256);
	if (n_hidden) {
		p = gs_put(gs_put(p, "; "), gs_fmt_count(n, n_hidden));
		p = gs_put(p, n_hidden == 1 ? " frame" : " frames");
		p = gs_put(p,
			   e->full ? " left out for --max-size" : " narrower than 0.1 px hidden");
	}
	if (gs_flame_coarse(flame)) {
		p = put_weight(gs_put(p, "; "), gs_flame_shown(flame), gs_flame_coarse(flame));
		p = gs_put(p, " shown less finely, there were too many different stacks");
	}
	if (x->n_lost)
		p = gs_put(gs_put(gs_put(p, "; "), gs_fmt_count(n, x->n_lost)),
			   " calls or samples were lost or left out");
	if (!e->ended)
		p = gs_put(p, "; the recording was cut off");
	return p;
}

static void put_head(struct gs_export *e, const struct gs_flame *flame,
		     const struct gs_flame_node *nodes, unsigned n_rows, uint64_t n_hidden)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	const char *what = heading_of(gs_flame_shown(flame));
	char *p = (char *)gs_export_out_begin(&e->out);

	p = gs_put(p, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"");
	p = gs_put_u64(p, TOP_PX + n_rows * ROW_PX + 12);
	p = gs_put(gs_put(gs_put(p, "\">\n<title>"), what), "</title>\n<style>\n");
	p = gs_put(gs_put(p, flame_css),
		   "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
		   "<text class=\"head\" x=\"1%\" y=\"26\">");
	p = gs_put(p, what);
	if (s && s->command_str)
		p = gs_put_xml(gs_put(p, ": "), gs_dict_string(e->dict, s->command_str), 512);
	p = gs_put(p, "</text>\n<text class=\"soft\" x=\"1%\" y=\"46\">");
	p = put_note(e, p, flame, nodes, n_hidden);
	p = gs_put(p, "</text>\n"
		      "<foreignObject x=\"1%\" y=\"56\" width=\"98%\" height=\"30\">"
		      "<div xmlns=\"http://www.w3.org/1999/xhtml\" class=\"tools\">"
		      "<input id=\"search\" type=\"search\" placeholder=\"Search: text or regular "
		      "expression ( / )\" aria-label=\"Search\"/> "
		      "<button id=\"reset\" type=\"button\">Reset zoom (Esc)</button> "
		      "<span id=\"found\" role=\"status\"></span></div></foreignObject>\n"
		      "<text id=\"details\" x=\"1%\" y=\"106\" role=\"status\"> </text>\n"
		      "<svg id=\"graph\" role=\"tree\" x=\"1%\" y=\"");
	p = gs_put_u64(p, TOP_PX);
	p = gs_put_u64(gs_put(p, "\" width=\"98%\" height=\""), n_rows * ROW_PX);
	gs_export_out_commit(&e->out, gs_put(p, "\">\n"));
}

/* --- frames --- */

static unsigned colour_of(const struct gs_flame_node *n)
{
	if (n->kind == GS_FLAME_WAIT)
		return 9;
	if (n->kind != GS_FLAME_FUNCTION)
		return n->kind;
	switch (n->layer) {
	case GS_LAYER_TORCH:
	case GS_LAYER_TORCH_MEM:
		return 5;
	case GS_LAYER_NCCL:
		return 7;
	case GS_LAYER_PYTHON:
		return GS_FLAME_PYTHON;
	case GS_LAYER_USER:
		return 8;
	default:
		return 6;
	}
}

static void put_frame(struct gs_export *e, const struct gs_flame *flame,
		      const struct gs_flame_node *nodes, uint32_t i, uint64_t left)
{
	const struct gs_flame_node *n = &nodes[i];
	enum gs_flame_by by = gs_flame_shown(flame);
	uint64_t all = nodes[0].total;
	char label[GS_FLAME_LABEL_BYTES], *p = (char *)gs_export_out_begin(&e->out);

	gs_flame_label(flame, i, label);
	p = gs_put_u64(gs_put(p, "<svg class=\"f k"), colour_of(n));
	p = gs_put_u64(gs_put(p, " v"), (n->ref + n->depth) % 3);
	p = gs_put_u64(gs_put(p, "\" role=\"treeitem\" tabindex=\"-1\" data-d=\""), n->depth);
	p = gs_put_u64(gs_put(p, "\" data-v=\""), n->total);
	p = put_percent(gs_put(p, "\" x=\""), left, all, 7);
	p = gs_put_u64(gs_put(p, "%\" y=\""), (uint64_t)n->depth * ROW_PX);
	p = put_percent(gs_put(p, "\" width=\""), n->total, all, 7);
	p = gs_put_u64(gs_put(p, "%\" height=\""), ROW_PX - 1);
	p = gs_put_xml(gs_put(p, "\"><title>"), label, GS_PUT_MAX);
	*p++ = '\n';
	p = put_weight(p, by, n->total);
	p = gs_put(put_percent(gs_put(p, ", "), n->total, all, 2), " %");
	if (n->self && n->self < n->total)
		p = put_weight(gs_put(p, "; itself "), by, n->self);
	p = gs_put(p, "</title><rect width=\"100%\" height=\"100%\" rx=\"1\"/>"
		      "<text x=\"3\" y=\"12\">");
	p = gs_put_xml(p, label, GS_PUT_MAX);
	gs_export_out_commit(&e->out, gs_put(p, "</text></svg>\n"));
}

/* Frames that are wide enough, in the order of the walk: counted how many, how deep, and about how
 * many bytes they take; written when e is given. */
struct walk {
	uint64_t n, bytes;
	unsigned n_rows;
};

static struct walk walk_frames(struct gs_export *e, const struct gs_flame *flame, double min_weight)
{
	char label[GS_FLAME_LABEL_BYTES];
	struct walk w = {0};
	const struct gs_flame_node *nodes;
	uint64_t right[4096] = {0}; /* by depth: where the next frame begins */
	uint32_t n, i = 0;

	nodes = gs_flame_nodes(flame, &n);
	do {
		const struct gs_flame_node *f = &nodes[i];
		bool shown = f->total && (double)f->total >= min_weight &&
			     f->depth + 1u < GS_ARRAY_LEN(right);
		uint64_t left = right[f->depth];

		right[f->depth] += f->total;
		if (shown) {
			right[f->depth + 1] = left;
			w.n++;
			w.n_rows = f->depth + 1u > w.n_rows ? f->depth + 1u : w.n_rows;
			if (e)
				put_frame(e, flame, nodes, i, left);
			else
				w.bytes +=
					FRAME_BYTES + 3 * strlen(gs_flame_label(flame, i, label));
		}
		i = shown ? gs_export_flame_file_next(nodes, i)
			  : gs_export_flame_file_skip(nodes, i);
	} while (i);
	return w;
}

static uint8_t *finish_export(struct gs_export *e, uint8_t *out)
{
	const struct gs_flame *flame = gs_export_flame_file_end(e);
	uint64_t fixed = sizeof(flame_css) + sizeof(flame_js) + 4096;
	const struct gs_flame_node *nodes;
	double min_weight;
	struct walk w;
	char *p;
	uint32_t n;

	if (!flame)
		return out;
	nodes = gs_flame_nodes(flame, &n);
	min_weight = (double)nodes[0].total * MIN_PX / WIDTH_PX;
	w = walk_frames(NULL, flame, min_weight);
	while (e->max_bytes && w.n > 1 && w.bytes + fixed > e->max_bytes) {
		e->full = true;
		min_weight *= 1.5;
		w = walk_frames(NULL, flame, min_weight);
	}
	if (e->full)
		e->left_out = n - w.n;
	put_head(e, flame, nodes, w.n_rows, n - (w.n ? w.n : 1));
	walk_frames(e, flame, min_weight);
	p = gs_put((char *)gs_export_out_begin(&e->out), "</svg>\n");
	if (!w.n)
		p = gs_put(
			p,
			"<text x=\"1%\" y=\"130\">Nothing was recorded that this graph could show.</text>\n");
	else
		p = gs_put(gs_put(gs_put(p, "<script>//<![CDATA[\n"), flame_js),
			   "//]]></script>\n");
	return (uint8_t *)gs_put(p, "</svg>\n");
}

const struct gs_export_writer gs_writer_svg = {
	.suffix = ".svg",
	.state_bytes = sizeof(struct gs_export_flame_file),
	.at_end = true,
	.start = gs_export_flame_file_start,
	.record = gs_export_flame_file_record,
	.finish = finish_export,
	.fini = gs_export_flame_file_fini,
};
