#include "core/text/page.h"

#include <stdint.h>
#include <string.h>

#include "core/text/text.h"

#define LINE_MAX_BYTES (1u << 20)
#define NARROW_MIN     10 /* columns of a narrowed one */

void gs_page_init(struct gs_page *page, struct gs_pen *pen, unsigned width, bool color)
{
	*page = (struct gs_page){
		.pen = pen,
		.width = width ? width : SIZE_MAX,
		.color = color,
		.scratch = GS_BUF_INIT(LINE_MAX_BYTES),
	};
}

void gs_page_fini(struct gs_page *page)
{
	gs_buf_fini(&page->scratch);
}

/* Harmless and terminated; lent until the next. */
static const char *clean_text(struct gs_page *page, const char *text)
{
	int r;

	gs_buf_reset(&page->scratch);
	r = gs_text_line(&page->scratch, text);
	if (r == 0)
		r = gs_buf_put(&page->scratch, "", 1);
	gs_pen_check(page->pen, r);
	return r == 0 ? (const char *)page->scratch.data : "";
}

size_t gs_page_columns(struct gs_page *page, const char *text)
{
	return gs_text_columns(clean_text(page, text));
}

/* Bytes of the longest start of text that takes at most this many columns; *ret_used: how many. */
static size_t bytes_within(const char *text, size_t columns, size_t *ret_used)
{
	size_t bytes = 0;

	*ret_used = 0;
	for (size_t n, more; text[bytes]; bytes += n, *ret_used += more) {
		more = gs_text_char_columns(gs_text_decode(text + bytes, &n));
		if (*ret_used + more > columns)
			break;
	}
	return bytes;
}

static void ink_on(struct gs_page *page, enum gs_ink ink)
{
	/* Warnings are magenta: yellow cannot be read on white. */
	static const char *const codes[GS_INK_COUNT] = {"", "\033[1m", "\033[2m", "\033[31m",
							"\033[35m"};

	gs_pen_printf(page->pen, "%*s", (int)page->pending, "");
	page->pending = 0;
	if (page->color)
		gs_pen_puts(page->pen, codes[ink]);
}

static void ink_off(struct gs_page *page, enum gs_ink ink)
{
	if (page->color && ink != GS_INK_PLAIN)
		gs_pen_puts(page->pen, "\033[0m");
}

static void put_bytes(struct gs_page *page, const char *text, size_t bytes)
{
	gs_pen_check(page->pen, gs_buf_put(&page->pen->buf, text, bytes));
}

/* A harmless text that takes all columns, in fewer. Returns how many it took. */
static size_t put_cut(struct gs_page *page, const char *text, size_t all, size_t columns,
		      enum gs_cut cut)
{
	size_t dots = cut == GS_CUT_MIDDLE && columns < 24 ? 2 : 3;
	size_t keep, head, head_bytes, used, left;

	dots = dots < columns ? dots : columns;
	keep = columns - dots;
	head = cut == GS_CUT_END ? keep : cut == GS_CUT_START ? 0 : keep - keep / 3;
	head_bytes = bytes_within(text, head, &used);
	put_bytes(page, text, head_bytes);
	put_bytes(page, "...", dots);
	if (cut == GS_CUT_END)
		return used + dots;
	text += head_bytes;
	left = all - used;
	for (size_t n; left > columns - used - dots; text += n)
		left -= gs_text_char_columns(gs_text_decode(text, &n));
	put_bytes(page, text, strlen(text));
	return used + dots + left;
}

/* A harmless text in at most this many columns; returns how many it took. */
static size_t put_text(struct gs_page *page, enum gs_ink ink, const char *text, size_t columns,
		       enum gs_cut cut)
{
	size_t all = gs_text_columns(text);

	if (!all || !columns)
		return 0;
	ink_on(page, ink);
	if (all <= columns)
		put_bytes(page, text, strlen(text));
	else
		all = put_cut(page, text, all, columns, cut);
	ink_off(page, ink);
	page->at += all;
	return all;
}

void gs_page_gap(struct gs_page *page, size_t columns)
{
	page->pending += columns;
	page->at += columns;
}

static size_t columns_left(const struct gs_page *page)
{
	return page->at < page->width ? page->width - page->at : 0;
}

void gs_page_left(struct gs_page *page, enum gs_ink ink, const char *text, size_t columns,
		  enum gs_cut cut)
{
	if (columns > columns_left(page))
		columns = columns_left(page);
	gs_page_gap(page, columns - put_text(page, ink, clean_text(page, text), columns, cut));
}

void gs_page_right(struct gs_page *page, enum gs_ink ink, const char *text, size_t columns)
{
	const char *c = clean_text(page, text);
	size_t used = gs_text_columns(c);

	if (columns > columns_left(page))
		columns = columns_left(page);
	if (used < columns)
		gs_page_gap(page, columns - used);
	put_text(page, ink, c, columns, GS_CUT_END);
}

void gs_page_rest(struct gs_page *page, enum gs_ink ink, const char *text, enum gs_cut cut)
{
	put_text(page, ink, clean_text(page, text), columns_left(page), cut);
}

void gs_page_line(struct gs_page *page)
{
	gs_pen_puts(page->pen, "\n");
	gs_pen_yield(page->pen);
	page->at = page->pending = 0;
}

/* Bytes of text that stand on a line with room for this many columns: whole words, or a part of
 * one that is longer than a line; never none. */
static size_t words_within(const char *text, size_t columns)
{
	size_t used, bytes = bytes_within(text, columns, &used), end = bytes;

	if (!text[bytes])
		return bytes;
	if (!bytes)
		gs_text_decode(text, &bytes);
	while (end && text[end] != ' ')
		end--;
	while (end && text[end - 1] == ' ')
		end--;
	return end ? end : bytes;
}

void gs_page_words(struct gs_page *page, enum gs_ink ink, const char *text)
{
	const char *words = clean_text(page, text);
	size_t indent = page->at;

	/* No room to speak of: the indent gives way. */
	if (indent && page->width < indent + NARROW_MIN) {
		gs_page_line(page);
		indent = 0;
	}
	do {
		size_t bytes = words_within(words, columns_left(page));

		ink_on(page, ink);
		put_bytes(page, words, bytes);
		ink_off(page, ink);
		gs_page_line(page);
		gs_page_gap(page, indent);
		words += bytes;
		while (*words == ' ')
			words++;
	} while (*words);
	page->at = page->pending = 0;
}

void gs_grid_fit(struct gs_grid *grid, unsigned narrow, size_t keep_columns)
{
	size_t all = keep_columns;

	for (unsigned i = 0; i < GS_GRID_MAX; i++)
		all += grid->columns[i] ? grid->columns[i] + 2 : 0;
	grid->measuring = false;
	if (all > grid->page->width) {
		size_t over = all - grid->page->width, columns = grid->columns[narrow];

		grid->columns[narrow] = columns > over + NARROW_MIN ? columns - over
					: columns < NARROW_MIN      ? columns
								    : NARROW_MIN;
	}
}

bool gs_grid_piece(struct gs_grid *grid, size_t keep)
{
	size_t used = grid->columns[0], rest = keep && keep < grid->rest ? keep : grid->rest;
	bool first = !grid->in_pieces;

	if (grid->with_rest)
		return false;
	grid->measuring = false;
	grid->in_pieces = true;
	grid->from = grid->to = first ? 1 : grid->to;
	for (; grid->to < grid->cells; grid->to++) {
		/* What is wider than the page is cut after all, alone. */
		if (grid->to > grid->from && used + 4 + grid->columns[grid->to] > grid->page->width)
			break;
		used += grid->columns[grid->to] + 2;
	}
	grid->with_rest = grid->to >= grid->cells &&
			  (!rest || grid->from == grid->to || used + 4 + rest <= grid->page->width);
	if (!first)
		gs_page_line(grid->page);
	return true;
}

/* True when the cell is not written: only measured, or not of this piece. */
static bool skip_cell(struct gs_grid *grid, const char *text)
{
	size_t columns;

	if (!grid->measuring) {
		if (grid->in_pieces && grid->n && (grid->n < grid->from || grid->n >= grid->to)) {
			grid->n++;
			return true;
		}
		gs_page_gap(grid->page, 2);
		return false;
	}
	columns = gs_page_columns(grid->page, text);
	if (columns > grid->columns[grid->n])
		grid->columns[grid->n] = columns;
	grid->n++;
	return true;
}

void gs_grid_left(struct gs_grid *grid, enum gs_ink ink, const char *text, enum gs_cut cut)
{
	if (!skip_cell(grid, text))
		gs_page_left(grid->page, ink, text, grid->columns[grid->n++], cut);
}

void gs_grid_right(struct gs_grid *grid, enum gs_ink ink, const char *text)
{
	if (!skip_cell(grid, text))
		gs_page_right(grid->page, ink, text, grid->columns[grid->n++]);
}

void gs_grid_rest(struct gs_grid *grid, enum gs_ink ink, const char *text, enum gs_cut cut)
{
	if (grid->measuring) {
		size_t columns = gs_page_columns(grid->page, text);

		grid->rest = columns > grid->rest ? columns : grid->rest;
		grid->cells = grid->n > grid->cells ? grid->n : grid->cells;
	}
	grid->n = 0;
	if (grid->measuring)
		return;
	if (!grid->in_pieces || grid->with_rest) {
		gs_page_gap(grid->page, 2);
		gs_page_rest(grid->page, ink, text, cut);
	}
	gs_page_line(grid->page);
}

void gs_grid_words(struct gs_grid *grid, enum gs_ink ink, const char *text)
{
	grid->n = 0;
	if (grid->measuring)
		return;
	gs_page_gap(grid->page, 2);
	gs_page_words(grid->page, ink, text);
}
