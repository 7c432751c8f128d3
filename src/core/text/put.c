/*
 * Numbers and texts into memory, by hand: a trace file is made of millions of them, and printf
 * would cost more than everything else together.
 */
#include "core/text/put.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "core/text/text.h"

static const char digit_pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
static const char hex_digits[] = "0123456789abcdef";

char *gs_put_u64(char *p, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	while (v >= 100) {
		i -= 2;
		memcpy(digits + i, digit_pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10) {
		i -= 2;
		memcpy(digits + i, digit_pairs + v * 2, 2);
	} else {
		digits[--i] = (char)('0' + v);
	}
	memcpy(p, digits + i, sizeof(digits) - i);
	return p + sizeof(digits) - i;
}

char *gs_put_i64(char *p, int64_t v)
{
	if (v >= 0)
		return gs_put_u64(p, (uint64_t)v);
	*p++ = '-';
	return gs_put_u64(p, 0 - (uint64_t)v);
}

/* What is very large or very small is rare: printf does it. */
static char *put_rare(char *p, double v)
{
	int n = snprintf(p, GS_PUT_DOUBLE, "%.9g", v);

	for (int i = 0; i < n; i++)
		if (p[i] == ',') /* in some users' languages */
			p[i] = '.';
	return p + n;
}

/* Every number of every document: whole up to 2^53, else nine digits, which is more than anything
 * here is measured to, and never fewer than stand before the point. */
char *gs_put_double(char *p, double v)
{
	static const double power[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5,  1e6,
				       1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13};
	double a = fabs(v), scaled;
	int before = 1, n_decimals;
	uint64_t digits, whole;

	if (a < 0x1p53 && (a == floor(a) || a >= 999999999)) {
		if (signbit(v) && a > 0)
			*p++ = '-';
		return gs_put_u64(p, (uint64_t)llround(a));
	}
	if (!(a >= 1e-4 && a < 999999999))
		return put_rare(p, v);
	while (a >= power[before])
		before++;
	/* Nine digits as a whole number; those of 0.00012 begin after its zeros. */
	n_decimals = 9 - before;
	for (scaled = a * power[n_decimals]; scaled < 1e8; scaled = a * power[n_decimals])
		n_decimals++;
	digits = (uint64_t)(scaled + 0.5);
	for (; n_decimals > 0 && digits % 10 == 0; n_decimals--)
		digits /= 10;
	if (signbit(v))
		*p++ = '-';
	whole = digits / (uint64_t)power[n_decimals];
	p = gs_put_u64(p, whole);
	if (!n_decimals)
		return p;
	digits -= whole * (uint64_t)power[n_decimals];
	*p++ = '.';
	for (int i = n_decimals - 1; i >= 0; i--, digits /= 10)
		p[i] = (char)('0' + digits % 10);
	return p + n_decimals;
}

char *gs_put_time(char *p, int64_t wall_ns, unsigned digits)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	uint32_t rest = (uint32_t)(wall_ns % 1000000000);
	struct tm tm;

	/* Of 64 bits of ns all years have four digits. */
	gmtime_r(&s, &tm);
	p += strftime(p, GS_PUT_TIME - 16, "%Y-%m-%dT%H:%M:%S", &tm);
	if (digits)
		*p++ = '.';
	for (uint32_t unit = 100000000; digits; digits--, unit /= 10)
		*p++ = (char)('0' + rest / unit % 10);
	*p++ = 'Z';
	return p;
}

char *gs_put_hex(char *p, uint64_t v)
{
	int shift = v ? 63 - __builtin_clzll(v) : 0;

	*p++ = '0';
	*p++ = 'x';
	for (shift &= ~3; shift >= 0; shift -= 4)
		*p++ = hex_digits[v >> shift & 15];
	return p;
}

char *gs_put_us(char *p, uint64_t ns)
{
	unsigned rest = (unsigned)(ns % 1000);

	p = gs_put_u64(p, ns / 1000);
	*p++ = '.';
	*p++ = (char)('0' + rest / 100);
	memcpy(p, digit_pairs + rest % 100 * 2, 2);
	return p + 2;
}

char *gs_put_dim3(char *p, uint32_t x, uint32_t y, uint32_t z)
{
	p = gs_put_u64(p, x);
	*p++ = ',';
	p = gs_put_u64(p, y);
	*p++ = ',';
	return gs_put_u64(p, z);
}

/* Bytes of the character at s (left of them are there), or 0 when it is not UTF-8: cut short, a
 * stray continuation, longer than needed, a surrogate, or above U+10FFFF. */
static size_t utf8_bytes(const uint8_t *s, size_t left)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xf8 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
	if (n == 0 || n > left)
		return 0;
	c = s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

static uint32_t utf8_value(const uint8_t *s, size_t n)
{
	uint32_t c = s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

/* Copy the character at *s, which is none of ASCII, or its replacement, and step over it. */
static char *put_utf8(char *p, const uint8_t **s, size_t *left)
{
	size_t n = utf8_bytes(*s, *left);

	if (n && gs_text_is_steering(utf8_value(*s, n))) {
		memcpy(p, "\xef\xbf\xbd", 3);
		*s += n;
		*left -= n;
		return p + 3;
	}

	if (n == 0) {
		memcpy(p, "\xef\xbf\xbd", 3);
		p += 3;
		n = 1;
	} else {
		memcpy(p, *s, n);
		p += n;
	}
	*s += n;
	*left -= n;
	return p;
}

char *gs_put_utf8(char *p, const char *text, size_t max_bytes)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t left = max_bytes;

	/* No character goes on after the text's end: a zero is no part of one. */
	while (left && *s) {
		if (*s < 0x80) {
			*p++ = (char)*s++;
			left--;
		} else {
			p = put_utf8(p, &s, &left);
		}
	}
	return p;
}

char *gs_put_json_escape(char *p, uint8_t c)
{
	static const char named[] = "\bb\tt\nn\ff\rr\"\"\\\\";

	*p++ = '\\';
	for (size_t i = 0; i < sizeof(named) - 1; i += 2) {
		if (c == (uint8_t)named[i]) {
			*p++ = named[i + 1];
			return p;
		}
	}
	memcpy(p, "u00", 3);
	p[3] = hex_digits[c >> 4];
	p[4] = hex_digits[c & 15];
	return p + 5;
}

char *gs_put_json(char *p, const char *text, size_t max_bytes)
{
	size_t left = strnlen(text, max_bytes);
	const uint8_t *s = (const uint8_t *)text;

	*p++ = '"';
	while (left) {
		uint8_t c = *s;

		if (c >= 0x80) {
			p = put_utf8(p, &s, &left);
			continue;
		}
		if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
			p = gs_put_json_escape(p, c);
		else
			*p++ = (char)c;
		s++;
		left--;
	}
	*p++ = '"';
	return p;
}

/* A control character that a field of CSV has no use for. */
static bool is_csv_control(uint8_t c)
{
	return (c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
}

/* RFC 4180: quotes around what holds a comma, a quote or a line end; quotes doubled. */
static char *put_csv_quoted(char *p, const uint8_t *s, size_t left)
{
	*p++ = '"';
	if (gs_text_is_formula((const char *)s, left))
		*p++ = '\'';
	while (left) {
		if (*s >= 0x80) {
			p = put_utf8(p, &s, &left);
			continue;
		}
		if (*s == '"')
			*p++ = '"';
		if (is_csv_control(*s))
			p = gs_put(p, "\xef\xbf\xbd");
		else
			*p++ = (char)*s;
		s++;
		left--;
	}
	*p++ = '"';
	return p;
}

char *gs_put_csv(char *p, const char *text, size_t max_bytes)
{
	size_t all = strnlen(text, max_bytes), left = all;
	const uint8_t *s = (const uint8_t *)text;
	char *begin = p;

	if (gs_text_is_formula(text, all))
		*p++ = '\'';
	while (left) {
		uint8_t c = *s;

		if (c >= 0x80) {
			p = put_utf8(p, &s, &left);
			continue;
		}
		if (c == ',' || c == '"' || c == '\n' || c == '\r')
			return put_csv_quoted(begin, (const uint8_t *)text, all);
		if (is_csv_control(c))
			p = gs_put(p, "\xef\xbf\xbd");
		else
			*p++ = (char)c;
		s++;
		left--;
	}
	return p;
}

/* What XML 1.0 cannot hold (control characters, U+FFFE, U+FFFF) becomes U+FFFD. */
char *gs_put_xml(char *p, const char *text, size_t max_bytes)
{
	size_t left = strnlen(text, max_bytes);
	const uint8_t *s = (const uint8_t *)text;

	while (left) {
		char *before = p;

		if (*s >= 0x80) {
			p = put_utf8(p, &s, &left);
			if (p - before == 3 && memcmp(before, "\xef\xbf", 2) == 0 &&
			    (uint8_t)before[2] >= 0xbe)
				before[2] = (char)0xbd;
			continue;
		}
		if (*s == '&')
			p = gs_put(p, "&amp;");
		else if (*s == '<')
			p = gs_put(p, "&lt;");
		else if (*s == '>')
			p = gs_put(p, "&gt;");
		else if (*s == '"')
			p = gs_put(p, "&quot;");
		else if (*s < 0x20 || *s == 0x7f)
			p = gs_put(p, "\xef\xbf\xbd");
		else
			*p++ = (char)*s;
		s++;
		left--;
	}
	return p;
}
