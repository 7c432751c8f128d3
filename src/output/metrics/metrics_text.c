/* The writer of text: headings, lines, escapes, numbers. Formats:
 * prometheus.io/docs/instrumenting/exposition_formats (0.0.4) and the OpenMetrics 1.0
 * specification. */
#include <math.h>
#include <string.h>

#include "output/metrics/metrics_int.h"

static void put_text(struct gs_metrics *p, const char *text)
{
	if (p->error == 0)
		p->error = gs_buf_puts(p->out, text);
}

/* With backslash, newline and (in labels and in OpenMetrics) quotes escaped. */
static void put_escaped(struct gs_metrics *p, const char *text, bool quotes)
{
	const char *special = quotes ? "\\\n\"" : "\\\n";

	while (p->error == 0 && *text) {
		size_t n = strcspn(text, special);

		p->error = gs_buf_put(p->out, text, n);
		text += n;
		if (*text) {
			put_text(p, *text == '\n' ? "\\n" : *text == '"' ? "\\\"" : "\\\\");
			text++;
		}
	}
}

const char *gs_metrics_suffix(enum gs_metrics_kind kind)
{
	return kind == GS_METRICS_COUNTER ? "_total" : kind == GS_METRICS_INFO ? "_info" : "";
}

static const char *type_of(const struct gs_metrics *p, enum gs_metrics_kind kind)
{
	switch (kind) {
	case GS_METRICS_COUNTER:
		return "counter";
	case GS_METRICS_INFO:
		return p->openmetrics ? "info" : "gauge";
	case GS_METRICS_BARE:
		/* OpenMetrics has no counter whose name does not end in "_total". */
		return p->openmetrics ? "unknown" : "counter";
	default:
		return "gauge";
	}
}

static void put_heading(struct gs_metrics *p, const struct gs_metrics_sample *s)
{
	/* OpenMetrics names the family, the older text the lines. */
	const char *name = p->openmetrics ? s->family : s->name;

	if (p->error == 0)
		p->error = gs_buf_printf(p->out, "# HELP %s ", name);
	put_escaped(p, s->help, p->openmetrics);
	if (p->error == 0)
		p->error = gs_buf_printf(p->out, "\n# TYPE %s %s\n", name, type_of(p, s->kind));
	if (p->error == 0 && p->openmetrics && s->unit[0])
		p->error = gs_buf_printf(p->out, "# UNIT %s %s\n", name, s->unit);
}

/* The shortest text that is read back as the same number. */
static void put_number(struct gs_metrics *p, double value)
{
	char text[40];

	if (value == rint(value) && fabs(value) < 1e15)
		snprintf(text, sizeof(text), "%.0f", value);
	else
		for (int digits = 15; digits <= 17; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, value);
			if (strtod(text, NULL) == value)
				break;
		}
	put_text(p, text);
}

int gs_metrics_text_put(void *ctx, const struct gs_metrics_sample *s)
{
	struct gs_metrics *p = ctx;

	if (s->first)
		put_heading(p, s);
	put_text(p, s->name);
	for (size_t i = 0; i < s->n_labels; i++) {
		put_text(p, i ? "," : "{");
		put_text(p, s->label[i].name);
		put_text(p, "=\"");
		put_escaped(p, s->label[i].value, true);
		put_text(p, "\"");
	}
	put_text(p, s->n_labels ? "} " : " ");
	put_number(p, s->value);
	if (s->time_ms && p->error == 0 && p->openmetrics)
		p->error = gs_buf_printf(p->out, " %lld.%03lld", (long long)s->time_ms / 1000,
					 (long long)s->time_ms % 1000);
	else if (s->time_ms && p->error == 0)
		p->error = gs_buf_printf(p->out, " %lld", (long long)s->time_ms);
	put_text(p, "\n");
	return p->error;
}
