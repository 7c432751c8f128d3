/* Texts with expressions between braces. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/rules/rules_int.h"

#define EXPR_BYTES 200

enum form {
	FORM_PLAIN,
	FORM_CEIL,
	FORM_ROUND,
	FORM_ONE,
	FORM_BYTES,
	FORM_MEM,
	FORM_TIME,
	FORM_NONE
};

static enum form form_of(const char *name)
{
	static const struct {
		const char *name;
		enum form form;
	} forms[] = {{"", FORM_PLAIN},   {"ceil", FORM_CEIL},   {"round", FORM_ROUND},
		     {"1", FORM_ONE},    {"bytes", FORM_BYTES}, {"mem", FORM_MEM},
		     {"time", FORM_TIME}};

	for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++)
		if (strcmp(forms[i].name, name) == 0)
			return forms[i].form;
	return FORM_NONE;
}

static void put_number(char *out, size_t bytes, double v, enum form form)
{
	char text[GS_FMT_BYTES];
	unsigned long long s;

	if (isnan(v) || fabs(v) > 1e18) {
		snprintf(out, bytes, "?");
		return;
	}
	switch (form) {
	case FORM_CEIL:
		snprintf(out, bytes, "%.0f", ceil(v));
		return;
	case FORM_ROUND:
		snprintf(out, bytes, "%.0f", v);
		return;
	case FORM_ONE:
		snprintf(out, bytes, "%.1f", v);
		return;
	case FORM_BYTES:
		snprintf(out, bytes, "%s", gs_fmt_bytes(text, v > 0 ? (uint64_t)v : 0));
		return;
	case FORM_MEM: /* what --mem takes: whole GiB, at least one */
		snprintf(out, bytes, "%.0fG", fmax(1, ceil(v / (1 << 30))));
		return;
	case FORM_TIME: /* what --time takes: hours, minutes, seconds; in quarters of an hour */
		s = (unsigned long long)(ceil(fmax(v, 1) / 900) * 900);
		snprintf(out, bytes, "%02llu:%02llu:00", s / 3600, s / 60 % 60);
		return;
	default:
		snprintf(out, bytes, "%g", v);
	}
}

/* What stands between two braces; text is after the first, *ret_end after the second. */
static int put_expr(const char *text, const char **ret_end, const struct gs_figures *figures,
		    char *out, size_t bytes, struct gs_err *err)
{
	const char *end = strchr(text, '}');
	char *colon;
	char body[EXPR_BYTES];
	struct gs_expr *expr = NULL;
	enum form form;
	int r;

	if (!end || (size_t)(end - text) >= sizeof(body))
		return gs_err_set(err, -EINVAL, "\"%.80s\": a closing brace is missing", text);
	memcpy(body, text, (size_t)(end - text));
	body[end - text] = '\0';
	*ret_end = end + 1;
	colon = strchr(body, ':');
	form = form_of(colon ? colon + 1 : "");
	if (form == FORM_NONE)
		return gs_err_set(err, -EINVAL,
				  "\"{%s}\": the form is one of ceil, round, 1, bytes, mem, time",
				  body);
	if (colon)
		*colon = '\0';
	r = gs_expr_parse(body, &expr, err);
	if (r < 0)
		return r;
	if (figures)
		put_number(out, bytes, gs_expr_value(expr, figures), form);
	gs_expr_free(&expr);
	return 0;
}

int gs_rules_fill_template(const char *text, const struct gs_figures *figures, char *out,
			   size_t out_bytes, struct gs_err *err)
{
	size_t n = 0;

	while (*text) {
		char value[64] = "";
		size_t value_bytes;
		int r;

		if (*text != '{') {
			if (n + 1 < out_bytes)
				out[n++] = *text;
			text++;
			continue;
		}
		r = put_expr(text + 1, &text, figures, value, sizeof(value), err);
		if (r < 0)
			return r;
		value_bytes = strlen(value);
		if (n + value_bytes < out_bytes) {
			memcpy(out + n, value, value_bytes);
			n += value_bytes;
		}
	}
	out[n] = '\0';
	return 0;
}
