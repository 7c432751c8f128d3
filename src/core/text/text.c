#include "core/text/text.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "core/text/put.h"

#define REPLACEMENT 0xfffdu

uint32_t gs_text_decode(const char *text, size_t *ret_bytes)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c = p[0], least;
	size_t n;

	*ret_bytes = 1;
	if (c < 0x80)
		return c;
	if (c >= 0xc2 && c <= 0xdf) {
		n = 2, c &= 0x1f, least = 0x80;
	} else if (c >= 0xe0 && c <= 0xef) {
		n = 3, c &= 0x0f, least = 0x800;
	} else if (c >= 0xf0 && c <= 0xf4) {
		n = 4, c &= 0x07, least = 0x10000;
	} else {
		return REPLACEMENT;
	}
	/* The terminator is no continuation byte, so this stops at it. */
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return REPLACEMENT;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return REPLACEMENT;
	*ret_bytes = n;
	return c;
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f);
}

/* Marks that turn the direction of the text around them. */
static bool is_bidi(uint32_t c)
{
	return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* Valid, but line breaks or not characters at all for some readers. */
static bool is_odd(uint32_t c)
{
	return c == 0x2028 || c == 0x2029 || c == 0xfeff || (c & 0xfffe) == 0xfffe;
}

bool gs_text_is_steering(uint32_t c)
{
	return (c >= 0x80 && c <= 0x9f) || is_bidi(c) || is_odd(c);
}

bool gs_text_is_formula(const char *text, size_t bytes)
{
	size_t n = strnlen(text, bytes);
	char number[32], *end;

	if (n == 0 || !strchr("=+-@\t\r", text[0]) || (n == 1 && (*text == '-' || *text == '+')))
		return false;
	if (n >= sizeof(number) || !strchr("+-", text[0]) || !strchr("0123456789.", text[1]))
		return true;
	memcpy(number, text, n);
	number[n] = '\0';
	(void)strtod(number, &end);
	return *end;
}

/* The character that gs_text_decode() found in n bytes at p, or its replacement. */
static int put_char(struct gs_buf *buf, uint32_t c, const char *p, size_t n)
{
	if (c == REPLACEMENT)
		return gs_buf_puts(buf, "\xef\xbf\xbd");
	return gs_buf_put(buf, p, n);
}

int gs_text_utf8(struct gs_buf *buf, const char *text)
{
	int r = 0;

	for (size_t n; text && *text && r == 0; text += n) {
		uint32_t c = gs_text_decode(text, &n);

		r = put_char(buf, c, text, n);
	}
	return r;
}

static int put_json_char(struct gs_buf *buf, uint32_t c, const char *p, size_t n)
{
	char escape[6];

	if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
		return gs_buf_put(buf, escape,
				  (size_t)(gs_put_json_escape(escape, (uint8_t)c) - escape));
	if (c > 0xffff && is_odd(c)) {
		c -= 0x10000;
		return gs_buf_printf(buf, "\\u%04x\\u%04x", 0xd800 | c >> 10, 0xdc00 | (c & 0x3ff));
	}
	if (is_control(c) || is_bidi(c) || is_odd(c))
		return gs_buf_printf(buf, "\\u%04x", c);
	return put_char(buf, c, p, n);
}

/* Bytes at the beginning of a text that stand for themselves in JSON. */
static size_t json_plain(const char *text)
{
	size_t n = 0;

	while (text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

int gs_text_json(struct gs_buf *buf, const char *text)
{
	int r = gs_buf_put(buf, "\"", 1);

	for (size_t n; text && *text && r == 0; text += n) {
		uint32_t c;

		n = json_plain(text);
		if (n) {
			r = gs_buf_put(buf, text, n);
			continue;
		}
		c = gs_text_decode(text, &n);

		r = put_json_char(buf, c, text, n);
	}
	return r < 0 ? r : gs_buf_put(buf, "\"", 1);
}

/* Starts like a name or a path, and holds nothing that YAML gives a meaning to. */
static bool is_yaml_plain(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
	static const char others[] = "0123456789 .+-";
	static const char *const words[] = {"y",  "n",   "yes",  "no",   "true",
					    "on", "off", "null", "false"};
	size_t n = strlen(text);

	if (!n || !strchr(letters, text[0]) || text[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strchr(letters, text[i]) && !strchr(others, text[i]))
			return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return false;
	return true;
}

int gs_text_yaml(struct gs_buf *buf, const char *text)
{
	/* A JSON string is a YAML one, but for pairs of surrogates, which YAML spells \U. */
	int r = 0;

	if (text && is_yaml_plain(text))
		return gs_buf_puts(buf, text);
	r = gs_buf_puts(buf, "\"");
	for (size_t n; text && *text && r == 0; text += n) {
		uint32_t c = gs_text_decode(text, &n);

		if (c > 0xffff && is_odd(c))
			r = gs_buf_printf(buf, "\\U%08x", c);
		else
			r = put_json_char(buf, c, text, n);
	}
	return r < 0 ? r : gs_buf_puts(buf, "\"");
}

int gs_text_csv(struct gs_buf *buf, const char *text)
{
	bool quoted = text && strpbrk(text, ",\"\r\n") != NULL;
	int r = quoted ? gs_buf_puts(buf, "\"") : 0;

	if (r == 0 && text && gs_text_is_formula(text, SIZE_MAX))
		r = gs_buf_puts(buf, "'");

	for (size_t n; text && *text && r == 0; text += n) {
		uint32_t c = gs_text_decode(text, &n);

		if (c == '"')
			r = gs_buf_puts(buf, "\"\"");
		else if ((is_control(c) && c != '\t' && c != '\r' && c != '\n') ||
			 gs_text_is_steering(c))
			r = put_char(buf, REPLACEMENT, text, n);
		else
			r = put_char(buf, c, text, n);
	}
	return r < 0 || !quoted ? r : gs_buf_puts(buf, "\"");
}

int gs_text_line(struct gs_buf *buf, const char *text)
{
	int r = 0;

	for (size_t n; text && *text && r == 0; text += n) {
		uint32_t c = gs_text_decode(text, &n);

		if (c == '\n' || c == '\t')
			r = gs_buf_puts(buf, c == '\n' ? "\\n" : "\\t");
		else if (is_control(c))
			r = gs_buf_printf(buf, "\\x%02x", c);
		else if (is_bidi(c) || is_odd(c))
			r = put_char(buf, REPLACEMENT, text, n);
		else
			r = put_char(buf, c, text, n);
	}
	return r;
}

struct range {
	uint32_t first, last;
};

static bool is_in(uint32_t c, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

/*
 * Our own table and not wcwidth(3), which knows only the characters of the process's locale: a
 * name is as wide under LANG=C. The blocks that Unicode's EastAsianWidth.txt gives as W or F, and
 * those of combining marks; a rare character that is taken for one column shifts one line.
 */
unsigned gs_text_char_columns(uint32_t c)
{
	static const struct range none[] = {{0x0300, 0x036f}, {0x0483, 0x0489},  {0x0591, 0x05bd},
					    {0x064b, 0x065f}, {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff},
					    {0x200b, 0x200d}, {0x20d0, 0x20ff},  {0xfe00, 0xfe0f},
					    {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};
	static const struct range wide[] = {
		{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},
		{0xa960, 0xa97f},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
		{0xff01, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
		{0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

	if (c < 0x300)
		return 1;
	return is_in(c, none, GS_ARRAY_LEN(none)) ? 0 : is_in(c, wide, GS_ARRAY_LEN(wide)) ? 2 : 1;
}

size_t gs_text_columns(const char *text)
{
	size_t columns = 0;

	for (size_t n; text && *text; text += n)
		columns += gs_text_char_columns(gs_text_decode(text, &n));
	return columns;
}
