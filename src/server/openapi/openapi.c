/* The description of an HTTP API as OpenAPI 3.1. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server/openapi/openapi_int.h"
#include "core/text/json.h"

/* "/a/{}" with the name of the parameter; moves *names on to the next. */
static void put_path(const char *pattern, const char **names, char *out, size_t bytes)
{
	size_t n = 0;

	while (*pattern && n + 40 < bytes) {
		if (strncmp(pattern, "{}", 2) == 0) {
			size_t length = strcspn(*names, ",");

			n += (size_t)snprintf(out + n, bytes - n, "{%.*s}", (int)length, *names);
			*names += length + ((*names)[length] == ',');
			pattern += 2;
		} else {
			out[n++] = *pattern++;
		}
	}
	out[n] = '\0';
}

static const struct gs_openapi_name *add_parameter(const struct gs_openapi *d, const char *name)
{
	for (size_t i = 0; i < d->n_parameters; i++)
		if (strcmp(d->parameters[i].name, name) == 0)
			return &d->parameters[i];
	return NULL;
}

static void put_parameters(struct gs_buf *b, const struct gs_openapi *d,
			   const struct gs_openapi_endpoint *e)
{
	const char *names = e->params;
	const struct gs_openapi_name *known;
	size_t in_path = 0;
	char name[32];

	for (const char *p = e->path; (p = strstr(p, "{}")); p += 2)
		in_path++;
	gs_json_open(b, "parameters", '[');
	while (*names) {
		size_t n = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		names += n + (names[n] == ',');
		gs_json_open(b, NULL, '{');
		gs_json_text(b, "name", name);
		gs_json_text(b, "in", in_path ? "path" : "query");
		if (in_path)
			gs_json_bool(b, "required", true);
		known = add_parameter(d, name);
		if (known && known->text)
			gs_json_text(b, "description", known->text);
		openapi_schema(b, "schema", known ? known->schema : "text");
		gs_json_close(b, '}');
		in_path -= in_path > 0;
	}
	gs_json_close(b, ']');
}

/* One body in one or several types. */
static void put_content(struct gs_buf *b, const char *schema)
{
	gs_json_open(b, "content", '{');
	if (schema[0] != '@') {
		gs_json_open(b, "application/json", '{');
		openapi_schema(b, "schema", schema);
		gs_json_close(b, '}');
	} else {
		char types[256], *next;

		snprintf(types, sizeof(types), "%s", schema + 1);
		for (char *type = strtok_r(types, ",", &next); type;
		     type = strtok_r(NULL, ",", &next)) {
			gs_json_open(b, type, '{');
			gs_json_close(b, '}');
		}
	}
	gs_json_close(b, '}');
}

/* "get_api_v1_nodes_id": letters and digits of method and path. */
static void put_id(struct gs_buf *b, const char *method, const char *path)
{
	char id[256];
	size_t n = (size_t)snprintf(id, sizeof(id), "%s", method);

	for (; *path && n + 2 < sizeof(id); path++)
		if (isalnum((unsigned char)*path))
			id[n++] = *path;
		else if (id[n - 1] != '_')
			id[n++] = '_';
	while (id[n - 1] == '_')
		n--;
	id[n] = '\0';
	gs_json_text(b, "operationId", id);
}

static void put_operation(struct gs_buf *b, const struct gs_openapi *d,
			  const struct gs_openapi_endpoint *e, const char *path)
{
	gs_json_open(b, e->method, '{');
	put_id(b, e->method, path);
	gs_json_text(b, "summary", e->summary);
	put_parameters(b, d, e);
	if (e->open)
		gs_json_open(b, "security", '['), gs_json_close(b, ']');
	if (e->role)
		gs_json_text(b, "x-role", e->role);
	if (e->body) {
		gs_json_open(b, "requestBody", '{');
		put_content(b, e->body);
		gs_json_close(b, '}');
	}
	gs_json_open(b, "responses", '{');
	gs_json_open(b, "200", '{');
	gs_json_text(b, "description", "Done");
	if (e->answer)
		put_content(b, e->answer);
	gs_json_close(b, '}');
	gs_json_open(b, "default", '{');
	gs_json_text(b, "description", "Why not");
	put_content(b, d->error);
	gs_json_close(b, '}');
	gs_json_close(b, '}');
	gs_json_close(b, '}');
}

static void put_paths(struct gs_buf *b, const struct gs_openapi *d)
{
	char path[256];

	gs_json_open(b, "paths", '{');
	for (size_t i = 0; i < d->n_endpoints; i++) {
		const struct gs_openapi_endpoint *e = &d->endpoints[i];
		const char *names = e->params;

		/* Methods of one path follow each other. */
		if (i == 0 || strcmp(e->path, d->endpoints[i - 1].path) != 0) {
			put_path(e->path, &names, path, sizeof(path));
			gs_json_open(b, path, '{');
		}
		put_operation(b, d, e, path);
		if (i + 1 == d->n_endpoints || strcmp(e->path, d->endpoints[i + 1].path) != 0)
			gs_json_close(b, '}');
	}
	gs_json_close(b, '}');
}

void gs_openapi_write(struct gs_buf *b, const struct gs_openapi *d)
{
	gs_json_open(b, NULL, '{');
	gs_json_text(b, "openapi", "3.1.0");
	gs_json_open(b, "info", '{');
	gs_json_text(b, "title", d->title);
	gs_json_text(b, "version", d->version);
	gs_json_close(b, '}');
	gs_json_open(b, "components", '{');
	gs_json_open(b, "schemas", '{');
	for (size_t i = 0; i < d->n_types; i++)
		openapi_schema(b, d->types[i].name, d->types[i].schema);
	gs_json_close(b, '}');
	gs_json_open(b, "securitySchemes", '{');
	gs_json_open(b, "token", '{');
	gs_json_text(b, "type", "http");
	gs_json_text(b, "scheme", "bearer");
	gs_json_close(b, '}');
	gs_json_close(b, '}');
	gs_json_close(b, '}');
	gs_json_open(b, "security", '[');
	gs_json_open(b, NULL, '{');
	gs_json_open(b, "token", '['), gs_json_close(b, ']');
	gs_json_close(b, '}');
	gs_json_close(b, ']');
	put_paths(b, d);
	gs_json_close(b, '}');
}
