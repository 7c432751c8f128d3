/* Text, colours and the axis of time. */
#include "output/plot/plot_int.h"

#include <math.h>
#include <string.h>
#include <time.h>

const struct plot_colour plot_ink = {0.13, 0.15, 0.18}, plot_pale = {0.42, 0.45, 0.50},
			 plot_grid = {0.87, 0.88, 0.90};

void plot_colour(const struct plot_pen *p, struct plot_colour c, double alpha)
{
	p->c->set_source_rgba(p->to, c.r, c.g, c.b, alpha);
}

/* Okabe and Ito's colours, which people who see fewer colours can distinguish too; further ones go
 * around the circle of hues. */
struct plot_colour plot_device_colour(size_t i, size_t n)
{
	static const struct plot_colour few[] = {
		{0.00, 0.45, 0.70}, {0.84, 0.37, 0.00}, {0.00, 0.62, 0.45}, {0.80, 0.47, 0.65},
		{0.34, 0.71, 0.91}, {0.90, 0.62, 0.00}, {0.55, 0.52, 0.05}, {0.25, 0.25, 0.25},
	};
	double hue, x;

	if (n <= sizeof(few) / sizeof(few[0]))
		return few[i];
	hue = 6.0 * (double)i / (double)n;
	x = 1 - fabs(fmod(hue, 2) - 1);
	struct plot_colour c = hue < 1   ? (struct plot_colour){1, x, 0}
			       : hue < 2 ? (struct plot_colour){x, 1, 0}
			       : hue < 3 ? (struct plot_colour){0, 1, x}
			       : hue < 4 ? (struct plot_colour){0, x, 1}
			       : hue < 5 ? (struct plot_colour){x, 0, 1}
					 : (struct plot_colour){1, 0, x};
	return (struct plot_colour){0.10 + 0.70 * c.r, 0.10 + 0.58 * c.g, 0.10 + 0.75 * c.b};
}

void plot_text(const struct plot_pen *p, double x, double y, double size, enum plot_align align,
	       bool bold, const char *text)
{
	struct plot_extents e;

	p->c->select_font_face(p->to, "sans-serif", 0,
			       bold); /* slant normal; weight normal, bold */
	p->c->set_font_size(p->to, size);
	p->c->text_extents(p->to, text, &e);
	p->c->move_to(p->to,
		      align == PLOT_LEFT    ? x
		      : align == PLOT_RIGHT ? x - e.x_advance
					    : x - e.x_advance / 2,
		      y);
	p->c->show_text(p->to, text);
}

void plot_text_end(const struct plot_pen *p, double x, double y, double size, double room,
		   const char *text)
{
	char shorter[160];
	struct plot_extents e;

	p->c->select_font_face(p->to, "sans-serif", 0, 0);
	p->c->set_font_size(p->to, size);
	snprintf(shorter, sizeof(shorter), "%s", text);
	for (p->c->text_extents(p->to, shorter, &e); e.x_advance > room && *text;
	     p->c->text_extents(p->to, shorter, &e)) {
		do
			text++;
		while (((unsigned char)*text & 0xc0) == 0x80); /* within a letter */
		snprintf(shorter, sizeof(shorter), "\u2026%s", text);
	}
	plot_text(p, x, y, size, PLOT_RIGHT, false, shorter);
}

double plot_x(const struct plot_pen *p, int64_t wall_ns)
{
	return p->left + (p->right - p->left) * (double)(wall_ns - p->t0) / (double)(p->t1 - p->t0);
}

double plot_round_step(double range, int n)
{
	double raw = range / n, power = pow(10, floor(log10(raw))), m = raw / power;

	return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

/* Seconds between two times on the axis. */
static int64_t time_step_s(double range_s)
{
	static const int64_t steps[] = {1,     2,     5,      10,     15,      30,     60,    120,
					300,   600,   900,    1800,   3600,    7200,   10800, 21600,
					43200, 86400, 172800, 604800, 1209600, 2592000};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (range_s / (double)steps[i] <= 10)
			return steps[i];
	return 31536000;
}

void plot_time_axis(const struct plot_pen *p, double top, double y, bool labels)
{
	double range_s = (double)(p->t1 - p->t0) / 1e9;
	int64_t step = time_step_s(range_s);
	time_t t = (time_t)(p->t0 / 1000000000);
	char day_before[32] = "", text[64];
	struct tm tm;

	/* Round in local time: midnights at midnight. */
	localtime_r(&t, &tm);
	t -= (time_t)(((int64_t)t + tm.tm_gmtoff) % step);
	for (; (int64_t)t * 1000000000 <= p->t1; t += (time_t)step) {
		double x = plot_x(p, (int64_t)t * 1000000000);

		if ((int64_t)t * 1000000000 < p->t0)
			continue;
		plot_colour(p, plot_grid, 1);
		p->c->set_line_width(p->to, 0.7);
		p->c->move_to(p->to, x, top);
		p->c->line_to(p->to, x, y);
		p->c->stroke(p->to);
		if (!labels)
			continue;
		localtime_r(&t, &tm);
		plot_colour(p, plot_pale, 1);
		strftime(text, sizeof(text),
			 step < 60      ? "%H:%M:%S"
			 : step < 86400 ? "%H:%M"
					: "%d %b",
			 &tm);
		plot_text(p, x, y + 12, 9, PLOT_MIDDLE, false, text);
		strftime(text, sizeof(text), step < 86400 ? "%d %b %Y" : "%Y", &tm);
		if (strcmp(text, day_before) != 0)
			plot_text(p, x, y + 23, 9, PLOT_MIDDLE, false, text);
		memcpy(day_before, text, sizeof(day_before));
	}
}
