/* The writer of metrics: headings, lines, escapes, numbers. Formats:
 * prometheus.io/docs/instrumenting /exposition_formats (0.0.4) and the OpenMetrics 1.0
 * specification. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "output/metrics/metrics.h"
#include "core/text/text.h"

void gs_metrics_init(struct gs_metrics *p, struct gs_buf *out, bool openmetrics)
{
	*p = (struct gs_metrics){.out = out, .openmetrics = openmetrics, .name = ""};
}

static void put_text(struct gs_metrics *p, const char *text)
{
	if (p->error == 0)
		p->error = gs_buf_puts(p->out, text);
}

/* Valid UTF-8 with backslash, newline and (in labels and in OpenMetrics) quotes escaped. */
static int put_escaped(struct gs_buf *out, const char *text, bool quotes)
{
	int r = 0;

	while (r == 0 && *text) {
		size_t n;
		uint32_t c = gs_text_decode(text, &n);

		if (c == '\\')
			r = gs_buf_puts(out, "\\\\");
		else if (c == '\n')
			r = gs_buf_puts(out, "\\n");
		else if (c == '"' && quotes)
			r = gs_buf_puts(out, "\\\"");
		else if (c < 0x20 || c == 0x7f)
			r = gs_buf_puts(out, "?"); /* a control character steers terminals */
		else if (c == 0xfffd)
			r = gs_buf_puts(out, "\xef\xbf\xbd");
		else
			r = gs_buf_put(out, text, n);
		text += n;
	}
	return r;
}

int gs_metrics_put_label(struct gs_buf *out, const char *name, const char *value)
{
	int r;

	if (!value || !value[0])
		return 0;
	r = out->bytes ? gs_buf_puts(out, ",") : 0;
	if (r == 0)
		r = gs_buf_puts(out, name);
	if (r == 0)
		r = gs_buf_puts(out, "=\"");
	if (r == 0)
		r = put_escaped(out, value, true);
	return r == 0 ? gs_buf_puts(out, "\"") : r;
}

void gs_metrics_family(struct gs_metrics *p, const char *name, enum gs_metrics_kind kind,
		       const char *unit, const char *help)
{
	p->name = name;
	p->kind = kind;
	p->unit = unit;
	p->help = help;
	p->headed = false;
}

static const char *suffix_of(enum gs_metrics_kind kind)
{
	return kind == GS_METRICS_COUNTER ? "_total" : kind == GS_METRICS_INFO ? "_info" : "";
}

static const char *type_of(const struct gs_metrics *p)
{
	switch (p->kind) {
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

static void put_heading(struct gs_metrics *p)
{
	/* OpenMetrics names the family, the older text the lines. */
	const char *suffix = p->openmetrics ? "" : suffix_of(p->kind);

	p->headed = true;
	if (p->error == 0)
		p->error = gs_buf_printf(p->out, "# HELP %s%s ", p->name, suffix);
	if (p->error == 0)
		p->error = put_escaped(p->out, p->help, p->openmetrics);
	if (p->error == 0)
		p->error = gs_buf_printf(p->out, "\n# TYPE %s%s %s\n", p->name, suffix, type_of(p));
	if (p->error == 0 && p->openmetrics && p->unit[0])
		p->error = gs_buf_printf(p->out, "# UNIT %s %s\n", p->name, p->unit);
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

void gs_metrics_line(struct gs_metrics *p, const char *lead, const struct gs_metrics_label *labels,
		     size_t n_labels, double value, int64_t time_ms)
{
	struct gs_buf more = GS_BUF_INIT(64 << 10);
	int r = 0;

	if (p->error || !isfinite(value))
		return;
	if (!p->headed)
		put_heading(p);
	for (size_t i = 0; r == 0 && i < n_labels; i++)
		r = gs_metrics_put_label(&more, labels[i].name, labels[i].value);
	if (r < 0)
		p->error = r;
	put_text(p, p->name);
	put_text(p, suffix_of(p->kind));
	if (lead[0] || more.bytes) {
		put_text(p, "{");
		put_text(p, lead);
		put_text(p, lead[0] && more.bytes ? "," : "");
		if (p->error == 0)
			p->error = gs_buf_put(p->out, more.data, more.bytes);
		put_text(p, "}");
	}
	put_text(p, " ");
	put_number(p, value);
	if (time_ms && p->error == 0 && p->openmetrics)
		p->error = gs_buf_printf(p->out, " %lld.%03lld", (long long)time_ms / 1000,
					 (long long)time_ms % 1000);
	else if (time_ms && p->error == 0)
		p->error = gs_buf_printf(p->out, " %lld", (long long)time_ms);
	put_text(p, "\n");
	gs_buf_fini(&more);
}

int gs_metrics_end(struct gs_metrics *p)
{
	if (p->openmetrics)
		put_text(p, "# EOF\n");
	return p->error;
}

/* The quality of a media range of an Accept header ("a/b;q=0.5"): 1 when none is given. */
static double quality_of(const char *range, size_t bytes)
{
	for (size_t i = 0; i + 2 < bytes; i++)
		if (range[i] == ';') {
			size_t k = i + 1;

			while (k < bytes && (range[k] == ' ' || range[k] == '\t'))
				k++;
			if (k + 2 < bytes && (range[k] == 'q' || range[k] == 'Q') &&
			    range[k + 1] == '=') {
				char number[16] = "";

				snprintf(number, sizeof(number), "%.*s",
					 (int)(bytes - k - 2 < 6 ? bytes - k - 2 : 6),
					 range + k + 2);
				return strtod(number, NULL);
			}
		}
	return 1;
}

bool gs_metrics_accepts_openmetrics(const char *accept)
{
	static const char open[] = "application/openmetrics-text", plain[] = "text/plain";
	double best_open = 0, best_plain = 0;

	while (accept && *accept) {
		size_t n = strcspn(accept, ",");

		while (n && (*accept == ' ' || *accept == '\t')) {
			accept++;
			n--;
		}
		if (strncasecmp(accept, open, sizeof(open) - 1) == 0)
			best_open = fmax(best_open, quality_of(accept, n));
		else if (strncasecmp(accept, plain, sizeof(plain) - 1) == 0)
			best_plain = fmax(best_plain, quality_of(accept, n));
		accept += n;
		accept += *accept == ',';
	}
	return best_open > 0 && best_open >= best_plain;
}

void gs_metrics_one(struct gs_metrics *p, const char *name, enum gs_metrics_kind kind, double value,
		    const char *help)
{
	const char *end = strrchr(name, '_');
	const char *unit =
		end && (strcmp(end, "_seconds") == 0 || strcmp(end, "_bytes") == 0) ? end + 1 : "";

	gs_metrics_family(p, name, kind, unit, help);
	gs_metrics_line(p, "", NULL, 0, value, 0);
}
