/* From the short form of a schema (openapi.h) to JSON Schema. */
#include <stdio.h>
#include <string.h>

#include "server/openapi/openapi_int.h"
#include "core/text/json.h"

static const char *skip_spaces(const char *p)
{
	while (*p == ' ' || *p == ',')
		p++;
	return p;
}

static size_t word_bytes(const char *p)
{
	return strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* After a type: whether it may be null as well. */
static bool is_nullable(const char *p)
{
	unsigned depth = 0;

	for (; *p; p++) {
		if (*p == '{' || *p == '[')
			depth++;
		if (*p == '}' || *p == ']') {
			if (!depth--)
				return false;
			if (!depth)
				return p[1] == '?';
		}
		if (!depth && (*p == '?' || *p == ','))
			return *p == '?';
	}
	return false;
}

static const char *put_type(struct gs_buf *b, const char *key, const char *p);

/* The keys that are always there, as a list of their own. */
static void put_required(struct gs_buf *b, const char *p)
{
	unsigned depth = 1;

	gs_json_open(b, "required", '[');
	for (p = skip_spaces(p + 1); depth; p++) {
		size_t n = depth == 1 ? word_bytes(p) : 0;
		char key[64];

		if (n && n < sizeof(key) && (p[n] == ':' || (p[n] == '?' && p[n + 1] == ':'))) {
			snprintf(key, sizeof(key), "%.*s", (int)n, p);
			if (p[n] == ':')
				gs_json_text(b, NULL, key);
			p += n;
			/* Its type is no key. */
			while (*p == '?' || *p == ':')
				p++;
		}
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
	}
	gs_json_close(b, ']');
}

static const char *put_object(struct gs_buf *b, const char *p)
{
	const char *begin = p;

	if (strncmp(p, "{*:", 3) == 0)
		return skip_spaces(put_type(b, "additionalProperties", p + 3)) + 1;
	gs_json_open(b, "properties", '{');
	for (p = skip_spaces(p + 1); *p != '}'; p = skip_spaces(p)) {
		size_t n = word_bytes(p);
		char key[64];

		snprintf(key, sizeof(key), "%.*s", (int)n, p);
		p += n;
		p += *p == '?';
		p = put_type(b, key, p + 1);
	}
	gs_json_close(b, '}');
	put_required(b, begin);
	return p + 1;
}

static void put_kind(struct gs_buf *b, const char *kind, bool nullable)
{
	if (!nullable) {
		gs_json_text(b, "type", kind);
		return;
	}
	gs_json_open(b, "type", '[');
	gs_json_text(b, NULL, kind);
	gs_json_text(b, NULL, "null");
	gs_json_close(b, ']');
}

static const char *put_words(struct gs_buf *b, const char *p, bool nullable)
{
	gs_json_open(b, "enum", '[');
	for (; *p == '\''; p += *p == '|') {
		size_t n = strcspn(p + 1, "'");
		char value[64];

		snprintf(value, sizeof(value), "%.*s", (int)n, p + 1);
		gs_json_text(b, NULL, value);
		p += n + 2;
	}
	if (nullable)
		gs_json_null(b, NULL);
	gs_json_close(b, ']');
	return p;
}

static void put_reference(struct gs_buf *b, const char *name, size_t n, bool nullable)
{
	char reference[96];

	snprintf(reference, sizeof(reference), "#/components/schemas/%.*s", (int)n, name);
	if (!nullable) {
		gs_json_text(b, "$ref", reference);
		return;
	}
	gs_json_open(b, "anyOf", '[');
	gs_json_open(b, NULL, '{');
	gs_json_text(b, "$ref", reference);
	gs_json_close(b, '}');
	gs_json_open(b, NULL, '{');
	gs_json_text(b, "type", "null");
	gs_json_close(b, '}');
	gs_json_close(b, ']');
}

static const char *put_simple(struct gs_buf *b, const char *p, bool nullable)
{
	static const struct {
		const char *word, *type;
	} simple[] = {{"text", "string"},   {"time", "string"},  {"int", "integer"},
		      {"number", "number"}, {"bool", "boolean"}, {"any", NULL}};
	size_t n = word_bytes(p);

	for (size_t i = 0; i < GS_ARRAY_LEN(simple); i++) {
		if (strlen(simple[i].word) != n || strncmp(simple[i].word, p, n) != 0)
			continue;
		if (simple[i].type)
			put_kind(b, simple[i].type, nullable);
		if (strcmp(simple[i].word, "time") == 0)
			gs_json_text(b, "format", "date-time");
		return p + n;
	}
	put_reference(b, p, n, nullable);
	return p + n;
}

/* Returns what follows. */
static const char *put_type(struct gs_buf *b, const char *key, const char *p)
{
	bool nullable;

	p = skip_spaces(p);
	nullable = is_nullable(p);
	gs_json_open(b, key, '{');
	if (*p == '{') {
		put_kind(b, "object", nullable);
		p = put_object(b, p);
	} else if (*p == '[') {
		put_kind(b, "array", nullable);
		p = skip_spaces(put_type(b, "items", p + 1)) + 1;
	} else if (*p == '\'') {
		p = put_words(b, p, nullable);
	} else {
		p = put_simple(b, p, nullable);
	}
	gs_json_close(b, '}');
	return p + nullable;
}

void openapi_schema(struct gs_buf *b, const char *key, const char *schema)
{
	(void)put_type(b, key, schema);
}
