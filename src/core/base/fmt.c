#include "core/base/fmt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"

/* Three significant digits, and never fewer than the integer part has. */
static void put_scaled(char out[GS_FMT_BYTES], double v, const char *unit)
{
	int digits = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

	snprintf(out, GS_FMT_BYTES, "%.*f%s", digits, v, unit);
}

const char *gs_fmt_ns(char out[GS_FMT_BYTES], uint64_t ns)
{
	double v = (double)ns;

	if (ns < 1000)
		snprintf(out, GS_FMT_BYTES, "%u ns", (unsigned)ns);
	else if (v < 999.5e3)
		put_scaled(out, v / 1e3, " us");
	else if (v < 999.5e6)
		put_scaled(out, v / 1e6, " ms");
	else if (v < 120e9)
		put_scaled(out, v / 1e9, " s");
	else if (v < 7200e9)
		snprintf(out, GS_FMT_BYTES, "%um %02us", (unsigned)(ns / 60000000000ull),
			 (unsigned)(ns / 1000000000ull % 60));
	else
		snprintf(out, GS_FMT_BYTES, "%uh %02um", (unsigned)(ns / 3600000000000ull),
			 (unsigned)(ns / 60000000000ull % 60));
	return out;
}

const char *gs_fmt_bytes(char out[GS_FMT_BYTES], uint64_t bytes)
{
	static const char *const unit[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
	double v = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(out, GS_FMT_BYTES, "%u B", (unsigned)bytes);
		return out;
	}
	for (v /= 1024; v >= 1023.5 && i + 1 < GS_ARRAY_LEN(unit); i++)
		v /= 1024;
	put_scaled(out, v, unit[i]);
	return out;
}

const char *gs_fmt_count(char out[GS_FMT_BYTES], uint64_t count)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), o = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out[o++] = ',';
		out[o++] = digits[i];
	}
	out[o] = '\0';
	return out;
}

const char *gs_fmt_bps(char out[GS_FMT_BYTES], uint64_t bytes, uint64_t ns)
{
	double v;

	if (!ns || !bytes) {
		snprintf(out, GS_FMT_BYTES, "-");
		return out;
	}
	v = (double)bytes / ((double)ns / 1e9);
	gs_fmt_bytes(out, v < 18e18 ? (uint64_t)v : UINT64_MAX);
	strcat(out, "/s");
	return out;
}

const char *gs_fmt_rate(char out[GS_FMT_BYTES], uint64_t count, uint64_t ns)
{
	double v = ns ? (double)count / ((double)ns / 1e9) : 0;

	if (!ns)
		snprintf(out, GS_FMT_BYTES, "-");
	else if (v < 999.5)
		put_scaled(out, v, "/s");
	else if (v < 999.5e3)
		put_scaled(out, v / 1e3, "k/s");
	else
		put_scaled(out, v / 1e6, "M/s");
	return out;
}

struct unit {
	const char *name;
	double factor;
};

static int parse_scaled(const char *text, const struct unit *units, size_t n, double plain,
			uint64_t *ret)
{
	char *end;
	double v, factor = plain;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || errno || !isfinite(v) || v < 0)
		return -EINVAL;
	while (*end == ' ')
		end++;
	if (*end) {
		size_t i = 0;

		while (i < n && strcasecmp(end, units[i].name) != 0)
			i++;
		if (i == n)
			return -EINVAL;
		factor = units[i].factor;
	}
	v *= factor;
	if (v >= 9e18)
		return -EINVAL;
	*ret = (uint64_t)llround(v);
	return 0;
}

int gs_parse_ns(const char *text, uint64_t default_unit_ns, uint64_t *ret_ns)
{
	static const struct unit units[] = {{"ns", 1},     {"us", 1e3},  {"\xc2\xb5s", 1e3},
					    {"ms", 1e6},   {"s", 1e9},   {"m", 60e9},
					    {"min", 60e9}, {"h", 3600e9}};

	return parse_scaled(text, units, GS_ARRAY_LEN(units), (double)default_unit_ns, ret_ns);
}

int gs_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {{"B", 1},
					    {"K", 1024},
					    {"KB", 1024},
					    {"KiB", 1024},
					    {"M", 1048576},
					    {"MB", 1048576},
					    {"MiB", 1048576},
					    {"G", 1073741824.0},
					    {"GB", 1073741824.0},
					    {"GiB", 1073741824.0},
					    {"T", 1099511627776.0},
					    {"TB", 1099511627776.0},
					    {"TiB", 1099511627776.0}};

	return parse_scaled(text, units, GS_ARRAY_LEN(units), 1, ret_bytes);
}
