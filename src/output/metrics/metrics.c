/* Families and samples on their way to a writer: labels put together, values made fit to be shown. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "output/metrics/metrics_int.h"
#include "core/text/text.h"

void gs_metrics_init_put(struct gs_metrics *p, gs_metrics_put_fn *put, void *ctx)
{
	*p = (struct gs_metrics){.put = put, .ctx = ctx, .family = ""};
}

void gs_metrics_init(struct gs_metrics *p, struct gs_buf *out, bool openmetrics)
{
	gs_metrics_init_put(p, gs_metrics_text_put, p);
	p->out = out;
	p->openmetrics = openmetrics;
}

int gs_metrics_put_label(struct gs_buf *lead, const char *name, const char *value)
{
	int r;

	if (!value || !value[0])
		return 0;
	r = gs_buf_put(lead, name, strlen(name) + 1);
	return r == 0 ? gs_buf_put(lead, value, strlen(value) + 1) : r;
}

void gs_metrics_family(struct gs_metrics *p, const char *name, enum gs_metrics_kind kind,
		       const char *unit, const char *help)
{
	int n = snprintf(p->name, sizeof(p->name), "%s%s", name, gs_metrics_suffix(kind));

	if (p->error == 0 && n >= (int)sizeof(p->name))
		p->error = -ENAMETOOLONG;
	p->family = name;
	p->kind = kind;
	p->unit = unit;
	p->help = help;
	p->headed = false;
}

/* Nearly every value: visible ASCII. */
static bool is_plain(const char *value)
{
	while ((unsigned char)*value >= 0x20 && (unsigned char)*value < 0x7f)
		value++;
	return !*value;
}

/* Valid UTF-8; a control character, which steers terminals, becomes a question mark. */
static int put_clean(struct gs_buf *out, const char *value)
{
	int r = 0;

	while (r == 0 && *value) {
		size_t n;
		uint32_t c = gs_text_decode(value, &n);

		if ((c < 0x20 && c != '\n') || c == 0x7f)
			r = gs_buf_puts(out, "?");
		else if (c == 0xfffd)
			r = gs_buf_puts(out, "\xef\xbf\xbd");
		else
			r = gs_buf_put(out, value, n);
		value += n;
	}
	return r == 0 ? gs_buf_put(out, "", 1) : r;
}

/* Values that cannot be shown as they are, cleaned into room, which they then point to. */
static int clean_values(struct gs_metrics_label *labels, size_t n, struct gs_buf *room)
{
	size_t need = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (!is_plain(labels[i].value))
			need += 3 * strlen(labels[i].value) +
				1; /* a byte that is no UTF-8 becomes three */
	if (need)
		r = gs_buf_reserve(room, need); /* so that nothing moves below */
	for (size_t i = 0; r == 0 && need && i < n; i++) {
		const char *clean = (const char *)room->data + room->bytes;

		if (is_plain(labels[i].value))
			continue;
		r = put_clean(room, labels[i].value);
		labels[i].value = clean;
	}
	return r;
}

static int add_label(struct gs_metrics_label *all, size_t *n, const char *name, const char *value)
{
	if (!value || !value[0])
		return 0;
	if (*n == GS_METRICS_LABELS_MAX)
		return -E2BIG;
	all[(*n)++] = (struct gs_metrics_label){name, value};
	return 0;
}

void gs_metrics_line(struct gs_metrics *p, const char *lead, const struct gs_metrics_label *labels,
		     size_t n_labels, double value, int64_t time_ms)
{
	struct gs_metrics_label all[GS_METRICS_LABELS_MAX];
	struct gs_metrics_sample sample = {.name = p->name,
					   .family = p->family,
					   .kind = p->kind,
					   .unit = p->unit,
					   .help = p->help,
					   .first = !p->headed,
					   .label = all,
					   .value = value,
					   .time_ms = time_ms};
	struct gs_buf room = GS_BUF_INIT(256 << 10);
	int r = 0;

	if (p->error || !isfinite(value))
		return;
	while (r == 0 && *lead) {
		const char *text = lead + strlen(lead) + 1;

		r = add_label(all, &sample.n_labels, lead, text);
		lead = text + strlen(text) + 1;
	}
	for (size_t i = 0; r == 0 && i < n_labels; i++)
		r = add_label(all, &sample.n_labels, labels[i].name, labels[i].value);
	if (r == 0)
		r = clean_values(all, sample.n_labels, &room);
	if (r == 0)
		r = p->put(p->ctx, &sample);
	p->headed = true;
	p->n_samples += r == 0;
	p->error = r;
	gs_buf_fini(&room);
}

int gs_metrics_end(struct gs_metrics *p)
{
	if (p->error == 0 && p->out && p->openmetrics)
		p->error = gs_buf_puts(p->out, "# EOF\n");
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
