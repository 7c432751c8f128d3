/* Sections on one screen: see fit.h. */
#include "core/text/fit.h"

#include <stdio.h>
#include <string.h>

#define GAP     2
#define N_LEAST 3 /* a blank line, a title, and what shows the rest */

void gs_page_fit_begin(struct gs_fit *fit, struct gs_page *page)
{
	*fit = (struct gs_fit){.page = page, .pen = page->pen};
	gs_pen_open(&fit->draft, NULL);
	page->pen = &fit->draft;
}

void gs_page_fit_section(struct gs_fit *fit, unsigned n_keep, const char *option)
{
	if (fit->n < GS_FIT_MAX)
		fit->sections[fit->n++] = (struct gs_page_fit_section){
			.from_bytes = fit->draft.buf.bytes, .n_keep = n_keep, .option = option};
}

static size_t end_of(const struct gs_fit *fit, size_t i)
{
	return i + 1 < fit->n ? fit->sections[i + 1].from_bytes : fit->draft.buf.bytes;
}

/* Returns how many lines there are. */
static size_t count_lines(struct gs_fit *fit)
{
	size_t sum = 0;

	for (size_t i = 0; i < fit->n; i++) {
		struct gs_page_fit_section *s = &fit->sections[i];

		for (size_t k = s->from_bytes; k < end_of(fit, i); k++)
			s->n_lines += fit->draft.buf.data[k] == '\n';
		s->n_shown = s->n_lines;
		sum += s->n_lines;
	}
	return sum;
}

/* Lines that it keeps of those it has. What no option shows keeps its own. */
static size_t keep_of(const struct gs_page_fit_section *s, unsigned n_keep_most)
{
	return s->option && s->n_keep > n_keep_most ? n_keep_most : s->n_keep;
}

/* Line by line from the section that is most above what it keeps. Returns how many lines are left over. */
static size_t shrink_sections(struct gs_fit *fit, size_t n_over, unsigned n_keep_most)
{
	for (; n_over; n_over--) {
		struct gs_page_fit_section *longest = NULL;
		size_t most = 0;

		for (size_t i = 0; i < fit->n; i++) {
			struct gs_page_fit_section *s = &fit->sections[i];
			size_t keep = keep_of(s, n_keep_most);

			if (s->n_shown > keep && s->n_shown - keep >= most) {
				most = s->n_shown - keep;
				longest = s;
			}
		}
		if (!longest)
			break;
		longest->n_shown--;
	}
	return n_over;
}

static void leave_out_sections(struct gs_fit *fit, size_t n_over)
{
	for (size_t i = fit->n; n_over && i > 2; i--) {
		struct gs_page_fit_section *s = &fit->sections[i - 2];

		n_over -= s->n_shown < n_over ? s->n_shown : n_over;
		s->n_shown = 0;
	}
}

static void write_section(struct gs_fit *fit, size_t i)
{
	const struct gs_page_fit_section *s = &fit->sections[i];
	size_t n = s->n_shown < s->n_lines && s->n_shown && s->option ? s->n_shown - 1 : s->n_shown;
	size_t to = s->from_bytes;
	char text[256];

	for (size_t lines = 0; to < end_of(fit, i) && lines < n; to++)
		lines += fit->draft.buf.data[to] == '\n';
	gs_pen_check(fit->pen, gs_buf_put(&fit->pen->buf, fit->draft.buf.data + s->from_bytes,
					  to - s->from_bytes));
	if (n == s->n_shown)
		return;
	snprintf(text, sizeof(text), "... the rest: %s", s->option);
	gs_page_gap(fit->page, GAP);
	gs_page_rest(fit->page, GS_INK_DIM, text, GS_CUT_END);
	gs_page_line(fit->page);
}

void gs_page_fit_end(struct gs_fit *fit, unsigned n_lines)
{
	size_t n = count_lines(fit), n_over = n_lines && n > n_lines ? n - n_lines : 0;

	n_over = shrink_sections(fit, n_over, GS_FIT_SCREEN_LINES);
	n_over = shrink_sections(fit, n_over, N_LEAST);
	leave_out_sections(fit, n_over);
	fit->page->pen = fit->pen;
	gs_pen_check(fit->pen, fit->draft.r);
	for (size_t i = 0; i < fit->n; i++)
		write_section(fit, i);
	gs_pen_yield(fit->pen);
	gs_buf_fini(&fit->draft.buf);
}
