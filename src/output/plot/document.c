/* Pages of A4: what has been put stands above y, and what would pass the foot begins a page. */
#include "output/plot/document.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "output/plot/plot_int.h"

#define WIDTH    595.0 /* points */
#define HEIGHT   842.0
#define MARGIN   42.0
#define FOOT     30.0
#define TEXT     9.5
#define LINE     13.0
#define ROW      12.5
#define GAP      6.0 /* between cells */
#define ROOM     (WIDTH - 2 * MARGIN)
#define CUT_MAX  400 /* bytes of a cell */
#define NO_SPACE 11  /* CAIRO_STATUS_WRITE_ERROR */

struct gs_plot_document {
	const struct plot_cairo *c;
	void *surface; /* owned */
	struct plot_pen pen;
	const char *title;
	unsigned n_pages;
	bool is_full; /* no page may follow */
	double y;
	const struct gs_plot_column *columns; /* of the open table; NULL: none */
	size_t n_columns;
};

static int take_bytes(void *ctx, const unsigned char *data, unsigned bytes)
{
	return gs_buf_put(ctx, data, bytes) < 0 ? NO_SPACE : 0;
}

static void begin_page(struct gs_plot_document *d)
{
	char number[48];

	d->n_pages++;
	d->y = MARGIN;
	plot_colour(&d->pen, plot_pale, 1);
	snprintf(number, sizeof(number), "%u", d->n_pages);
	plot_text(&d->pen, WIDTH - MARGIN, HEIGHT - FOOT + 8, 8, PLOT_RIGHT, false, number);
	plot_text(&d->pen, MARGIN, HEIGHT - FOOT + 8, 8, PLOT_LEFT, false, d->title);
	plot_colour(&d->pen, plot_ink, 1);
}

int gs_plot_open_document(struct gs_buf *out, const char *title, struct gs_plot_document **ret,
			  struct gs_err *err)
{
	const struct plot_cairo *c;
	struct gs_plot_document *d;
	int r = plot_cairo_open(&c, err);

	if (r < 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->c = c;
	d->title = title;
	d->surface = c->pdf_surface_create_for_stream(take_bytes, out, WIDTH, HEIGHT);
	d->pen = (struct plot_pen){.c = c, .to = c->create(d->surface)};
	begin_page(d);
	*ret = d;
	return 0;
}

int gs_plot_close_document(struct gs_plot_document **document, struct gs_err *err)
{
	struct gs_plot_document *d = *document;
	const struct plot_cairo *c;
	int status;

	if (!d)
		return 0;
	c = d->c;
	c->show_page(d->pen.to);
	status = c->status(d->pen.to);
	c->destroy(d->pen.to);
	c->surface_finish(d->surface);
	if (status == 0)
		status = c->surface_status(d->surface);
	c->surface_destroy(d->surface);
	free(d);
	*document = NULL;
	if (status == NO_SPACE)
		return gs_err_set(err, -ENOBUFS, "the document is too large");
	return status ? gs_err_set(err, -EIO, "cannot draw: %s", c->status_to_string(status)) : 0;
}

static void put_table_head(struct gs_plot_document *d);

/* Room for that much, on this page or the next one. False: there is none. */
static bool make_room(struct gs_plot_document *d, double height)
{
	if (d->is_full)
		return false;
	if (d->y + height <= HEIGHT - MARGIN - FOOT / 2)
		return true;
	if (d->n_pages == GS_PLOT_PAGES_MAX) {
		plot_text(&d->pen, WIDTH / 2, HEIGHT - FOOT + 8, 8, PLOT_MIDDLE, true,
			  "More is left out: the document is full");
		d->is_full = true;
		return false;
	}
	d->c->show_page(d->pen.to);
	begin_page(d);
	if (d->columns)
		put_table_head(d);
	return true;
}

static double text_width(const struct gs_plot_document *d, double size, bool bold, const char *text)
{
	struct plot_extents e;

	d->c->select_font_face(d->pen.to, "sans-serif", 0, bold);
	d->c->set_font_size(d->pen.to, size);
	d->c->text_extents(d->pen.to, text, &e);
	return e.x_advance;
}

static bool is_inside_letter(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The text, or as much of its begin as there is room for. */
static void put_cut(const struct gs_plot_document *d, double x, double size, double room,
		    enum plot_align align, bool bold, const char *text)
{
	char cut[CUT_MAX + 4];
	size_t n = strnlen(text, CUT_MAX);
	bool whole = !text[n];

	while (n && is_inside_letter(text[n]))
		n--;
	snprintf(cut, sizeof(cut), "%.*s%s", (int)n, text, whole ? "" : "…");
	while (n && text_width(d, size, bold, cut) > room) {
		do
			n--;
		while (n && is_inside_letter(text[n]));
		snprintf(cut, sizeof(cut), "%.*s…", (int)n, text);
	}
	plot_text(&d->pen, x, d->y, size, align, bold, cut);
}

void gs_plot_put_title(struct gs_plot_document *d, const char *text)
{
	if (!make_room(d, 24))
		return;
	d->y += 14;
	put_cut(d, MARGIN, 15, ROOM, PLOT_LEFT, true, text);
	d->y += 10;
}

/* Not alone at the end of a page. */
void gs_plot_put_heading(struct gs_plot_document *d, const char *text)
{
	if (!make_room(d, 80))
		return;
	d->y += 22;
	put_cut(d, MARGIN, 12, ROOM, PLOT_LEFT, true, text);
	d->y += 6;
}

/* The next line of a text: how many bytes of it, at a space where there is one. */
static size_t line_bytes(const struct gs_plot_document *d, const char *text)
{
	char line[CUT_MAX + 1];
	size_t n = strnlen(text, CUT_MAX), at;

	snprintf(line, sizeof(line), "%.*s", (int)n, text);
	while (n && text_width(d, TEXT, false, line) > ROOM) {
		for (at = n - 1; at && text[at] != ' '; at--)
			;
		/* A word that is wider than the page is broken. */
		n = at ? at : n - 1;
		while (n && is_inside_letter(text[n]))
			n--;
		line[n] = '\0';
	}
	return n;
}

void gs_plot_put_paragraph(struct gs_plot_document *d, bool pale, const char *text)
{
	while (*text) {
		size_t n = line_bytes(d, text);

		if (!n || !make_room(d, LINE))
			return;
		d->y += LINE;
		plot_colour(&d->pen, pale ? plot_pale : plot_ink, 1);
		{
			char line[CUT_MAX + 1];

			snprintf(line, sizeof(line), "%.*s", (int)n, text);
			plot_text(&d->pen, MARGIN, d->y, TEXT, PLOT_LEFT, false, line);
		}
		plot_colour(&d->pen, plot_ink, 1);
		text += n;
		text += strspn(text, " ");
	}
}

void gs_plot_put_bar(struct gs_plot_document *d, const double *shares, size_t n)
{
	double x = MARGIN;

	if (!make_room(d, 26))
		return;
	d->y += 6;
	for (size_t i = 0; i < n; i++) {
		plot_colour(&d->pen, plot_device_colour(i, n), 1);
		d->c->rectangle(d->pen.to, x, d->y, ROOM * shares[i], 14);
		d->c->fill(d->pen.to);
		x += ROOM * shares[i];
	}
	plot_colour(&d->pen, plot_ink, 1);
	d->y += 16;
}

void gs_plot_put_mark(struct gs_plot_document *d, size_t i, size_t n)
{
	if (!make_room(d, ROW))
		return;
	plot_colour(&d->pen, plot_device_colour(i, n), 1);
	d->c->rectangle(d->pen.to, MARGIN - 11, d->y + ROW - 8, 7, 7);
	d->c->fill(d->pen.to);
	plot_colour(&d->pen, plot_ink, 1);
}

/* --- tables --- */

static void put_cells(struct gs_plot_document *d, const char *const *cells, bool is_head)
{
	double sum = 0, x = MARGIN;

	for (size_t i = 0; i < d->n_columns; i++)
		sum += d->columns[i].width;
	d->y += ROW;
	plot_colour(&d->pen, is_head ? plot_pale : plot_ink, 1);
	for (size_t i = 0; i < d->n_columns; i++) {
		const struct gs_plot_column *column = &d->columns[i];
		double width = ROOM * column->width / sum;

		put_cut(d, column->right ? x + width - GAP : x, 8.5, width - GAP,
			column->right ? PLOT_RIGHT : PLOT_LEFT, false,
			is_head ? column->title : cells[i]);
		x += width;
	}
	plot_colour(&d->pen, plot_grid, 1);
	d->c->rectangle(d->pen.to, MARGIN, d->y + 3.2, ROOM, 0.4);
	d->c->fill(d->pen.to);
	plot_colour(&d->pen, plot_ink, 1);
}

static void put_table_head(struct gs_plot_document *d)
{
	put_cells(d, NULL, true);
}

void gs_plot_begin_table(struct gs_plot_document *d, const struct gs_plot_column *columns, size_t n)
{
	d->columns = NULL;
	if (!make_room(d, 2 * ROW))
		return;
	d->columns = columns;
	d->n_columns = n < GS_PLOT_COLUMNS_MAX ? n : GS_PLOT_COLUMNS_MAX;
	put_table_head(d);
}

void gs_plot_put_row(struct gs_plot_document *d, const char *const *cells)
{
	if (d->columns && make_room(d, ROW))
		put_cells(d, cells, false);
}

void gs_plot_end_table(struct gs_plot_document *d)
{
	d->columns = NULL;
	d->y += 4;
}
