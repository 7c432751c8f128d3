/* The page: files of web/ that the build put into this program (api_files.h), and the description
 * of the API. */
#include "api/api_int.h"

#include <string.h>

#include "api_files.h"

/* Nothing from elsewhere, nothing inline: what a name of a process might smuggle in does not run.
 */
#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "            \
	"img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

API_HANDLER(api_page)
{
	const char *name = q->param[0] ? q->param[0] : "index.html";

	for (size_t i = 0; i < GS_ARRAY_LEN(api_files); i++) {
		const struct api_file *f = &api_files[i];

		if (strcmp(f->name, name) != 0)
			continue;
		reply->type = f->type;
		reply->etag = f->etag;
		reply->policy = POLICY;
		(void)gs_buf_put(&reply->body, f->data, f->bytes);
		return;
	}
	gs_http_say(reply, 404, "the page has no such part");
}

/* --- openapi.json --- */

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

static void put_parameters(struct gs_buf *b, const struct api_endpoint *e)
{
	const char *names = e->params;
	size_t in_path = 0;
	char name[32];

	for (const char *p = e->path; (p = strstr(p, "{}")); p += 2)
		in_path++;
	j_open(b, "parameters", '[');
	while (*names) {
		size_t n = strcspn(names, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		names += n + (names[n] == ',');
		j_open(b, NULL, '{');
		j_text(b, "name", name);
		j_text(b, "in", in_path ? "path" : "query");
		if (in_path)
			j_bool(b, "required", true);
		j_open(b, "schema", '{');
		j_text(b, "type", "string");
		j_close(b, '}');
		j_close(b, '}');
		in_path -= in_path > 0;
	}
	j_close(b, ']');
}

static void put_operation(struct gs_buf *b, const struct api_endpoint *e)
{
	static const char *const methods[] = {"get", "post", "put", "delete"};
	unsigned m = 0;

	while (!(e->method >> m & 1))
		m++;
	j_open(b, methods[m], '{');
	j_text(b, "summary", e->summary);
	put_parameters(b, e);
	if (e->open)
		j_open(b, "security", '['), j_close(b, ']');
	if (e->control)
		j_text(b, "x-role", "control");
	j_open(b, "responses", '{');
	j_open(b, "200", '{');
	j_text(b, "description", "Done");
	j_close(b, '}');
	j_open(b, "default", '{');
	j_text(b, "description", "{\"error\": {\"code\": ..., \"message\": ...}}");
	j_close(b, '}');
	j_close(b, '}');
	j_close(b, '}');
}

API_HANDLER(api_openapi)
{
	struct gs_buf *b = api_json(reply);
	char path[256];

	j_open(b, NULL, '{');
	j_text(b, "openapi", "3.0.3");
	j_open(b, "info", '{');
	j_text(b, "title", "gpuscope head");
	j_text(b, "version", GS_VERSION);
	j_close(b, '}');
	j_open(b, "components", '{');
	j_open(b, "securitySchemes", '{');
	j_open(b, "token", '{');
	j_text(b, "type", "http");
	j_text(b, "scheme", "bearer");
	j_close(b, '}');
	j_close(b, '}');
	j_close(b, '}');
	j_open(b, "security", '[');
	j_open(b, NULL, '{');
	j_open(b, "token", '['), j_close(b, ']');
	j_close(b, '}');
	j_close(b, ']');
	j_open(b, "paths", '{');
	for (size_t i = 0; i < api_n_endpoints; i++) {
		const struct api_endpoint *e = &api_endpoints[i];
		const char *names = e->params;

		/* Methods of one path follow each other in the table. */
		if (i == 0 || strcmp(e->path, api_endpoints[i - 1].path) != 0) {
			put_path(e->path, &names, path, sizeof(path));
			j_open(b, path, '{');
		}
		put_operation(b, e);
		if (i + 1 == api_n_endpoints || strcmp(e->path, api_endpoints[i + 1].path) != 0)
			j_close(b, '}');
	}
	j_close(b, '}');
	j_close(b, '}');
}
