/* One value of a configuration: from text to what the program uses. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/base/conf_int.h"
#include "core/base/fmt.h"

/* "100ms", "1s", "90s", "1h": the largest unit that has no remainder. */
static void duration_text(char *out, size_t bytes, int64_t ns)
{
	static const struct {
		int64_t ns;
		const char *name;
	} units[] = {
		{3600000000000, "h"}, {60000000000, "m"}, {1000000000, "s"},
		{1000000, "ms"},      {1000, "us"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
		if (ns >= units[i].ns && ns % units[i].ns == 0) {
			snprintf(out, bytes, "%lld%s", (long long)(ns / units[i].ns),
				 units[i].name);
			return;
		}
	snprintf(out, bytes, "%lldns", (long long)ns);
}

const char *gs_conf_expects(const struct gs_conf_key *key, char *out, size_t bytes)
{
	char low[32], high[32];
	size_t n;

	switch (key->kind) {
	case GS_CONF_BOOL:
		return "true or false";
	case GS_CONF_NUMBER:
		snprintf(out, bytes, "a whole number from %lld to %lld", (long long)key->min,
			 (long long)key->max);
		return out;
	case GS_CONF_DURATION:
		duration_text(high, sizeof(high), key->max);
		if (key->min == 0) {
			snprintf(out, bytes, "0, or a duration up to %s, such as 500ms, 2s or 1m",
				 high);
			return out;
		}
		duration_text(low, sizeof(low), key->min);
		snprintf(out, bytes, "a duration from %s to %s, such as 500ms, 2s or 1m", low,
			 high);
		return out;
	case GS_CONF_RATIO:
		return "a share from 0 to 1, or from 0% to 100%";
	case GS_CONF_LIST:
		if (key->expects)
			return key->expects;
		return "a text, or a list of texts without commas";
	case GS_CONF_TEXT:
		if (key->expects)
			return key->expects;
		snprintf(out, bytes, "a text of at most %zu bytes", key->bytes - 1);
		return out;
	case GS_CONF_CHOICE:
		n = (size_t)snprintf(out, bytes, "one of");
		for (int i = 0; key->choices[i] && n < bytes; i++)
			n += (size_t)snprintf(out + n, bytes - n, "%s %s", i ? "," : "",
					      key->choices[i]);
		return out;
	case GS_CONF_REAL:
		snprintf(out, bytes, "a number from %lld to %lld", (long long)key->min,
			 (long long)key->max);
		return out;
	case GS_CONF_ROWS:
		n = (size_t)snprintf(out, bytes, "a list of entries with");
		for (int i = 0; key->choices[i] && n < bytes; i++)
			n += (size_t)snprintf(out + n, bytes - n, "%s %s", i ? "," : "",
					      key->choices[i]);
		return out;
	default:
		return "nothing";
	}
}

static int parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};

	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
		if (strcasecmp(text, words[i]) == 0) {
			*ret_value = i % 2;
			return 0;
		}
	return -EINVAL;
}

static int parse_number(const struct gs_conf_key *key, const char *text, int64_t *ret_value)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || end == text || *end || isspace((unsigned char)text[0]) || n < key->min ||
	    n > key->max)
		return -EINVAL;
	*ret_value = n;
	return 0;
}

static int parse_duration(const struct gs_conf_key *key, const char *text, uint64_t *ret_value)
{
	size_t n = strlen(text);
	uint64_t ns;

	/* A bare number could be seconds or milliseconds: such a slip once made an exporter of
	 * another house sample a thousand times too often. 0 needs no unit. */
	if (n == 0 || (isdigit((unsigned char)text[n - 1]) && strcmp(text, "0") != 0) ||
	    gs_parse_ns(text, 1, &ns) < 0)
		return -EINVAL;
	if (ns > INT64_MAX || (int64_t)ns < key->min || (int64_t)ns > key->max)
		return -EINVAL;
	*ret_value = ns;
	return 0;
}

static int parse_ratio(const char *text, double *ret_value)
{
	char *end;
	double d;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	if (strspn(text, "0123456789.eE+-%") != strlen(text))
		return -EINVAL;
	d = strtod(text, &end);
	if (*end == '%') {
		d /= 100;
		end++;
	}
	if (*end || !isfinite(d) || d < 0 || d > 1)
		return -EINVAL;
	*ret_value = d;
	return 0;
}

static int parse_real(const struct gs_conf_key *key, const char *text, double *ret_value)
{
	char *end;
	double d;

	/* No "inf", "nan" or "0x10". */
	if (!*text || strspn(text, "0123456789.eE+-") != strlen(text))
		return -EINVAL;
	d = strtod(text, &end);
	if (*end || !isfinite(d) || d < (double)key->min || d > (double)key->max)
		return -EINVAL;
	*ret_value = d;
	return 0;
}

static int set_text(const struct gs_conf_key *key, const char *text, size_t bytes, char *value)
{
	if (bytes >= key->bytes || (bytes && key->valid && !key->valid(text)))
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return -EINVAL;
	memset(value, 0, key->bytes);
	memcpy(value, text, bytes);
	return 0;
}

/* Texts with commas between them; blanks around them do not count. */
static int set_list(const struct gs_conf_key *key, const char *text, char *value)
{
	struct gs_conf_key one = *key;
	GS_FREE char *piece = malloc(key->bytes), *whole = calloc(1, key->bytes);
	size_t n = 0, k;
	int r = piece && whole ? 0 : -ENOMEM;

	for (; r == 0 && *text; text += k + (text[k] == ',')) {
		k = strcspn(text, ",");
		while (k && *text == ' ') {
			text++;
			k--;
		}
		size_t bytes = k;

		while (bytes && text[bytes - 1] == ' ')
			bytes--;
		if (!bytes || n + bytes + 2 > key->bytes)
			return -EINVAL;
		memcpy(piece, text, bytes);
		piece[bytes] = '\0';
		one.bytes = key->bytes - n - (n > 0);
		r = set_text(&one, piece, bytes, whole + n + (n > 0));
		if (r == 0 && n)
			whole[n++] = ',';
		n += bytes;
	}
	if (r == 0)
		memcpy(value, whole, key->bytes);
	return r;
}

static int set_value(const struct gs_conf_key *key, const char *text, size_t bytes, char *value)
{
	switch (key->kind) {
	case GS_CONF_BOOL:
		return parse_bool(text, (bool *)value);
	case GS_CONF_NUMBER:
		return parse_number(key, text, (int64_t *)value);
	case GS_CONF_DURATION:
		return parse_duration(key, text, (uint64_t *)value);
	case GS_CONF_RATIO:
		return parse_ratio(text, (double *)value);
	case GS_CONF_REAL:
		return parse_real(key, text, (double *)value);
	case GS_CONF_TEXT:
		return set_text(key, text, bytes, value);
	case GS_CONF_LIST:
		return set_list(key, text, value);
	case GS_CONF_CHOICE:
		for (int i = 0; key->choices[i]; i++)
			if (strcmp(text, key->choices[i]) == 0) {
				*(int *)value = i;
				return 0;
			}
		return -EINVAL;
	default:
		return -EINVAL;
	}
}

int gs_conf_set(const struct gs_conf_key *key, const char *text, size_t bytes, void *base,
		struct gs_err *err)
{
	char expected[512], shown[64];
	size_t n = 0;
	int r;

	r = strlen(text) == bytes ? set_value(key, text, bytes, (char *)base + key->offset)
				  : -EINVAL;
	if (r == 0)
		return 0;
	for (; n < bytes && n < sizeof(shown) - 1; n++)
		shown[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	shown[n] = '\0';
	return gs_err_set(err, -EINVAL, "%s takes %s, not \"%s%s\"", key->name,
			  gs_conf_expects(key, expected, sizeof(expected)), shown,
			  n < bytes ? "..." : "");
}
