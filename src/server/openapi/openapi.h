/*
 * The description of an HTTP API (OpenAPI 3.1), made of tables of its endpoints. Schemas are
 * written short there, as what they describe looks:
 *
 *   {name:text, size:number?, why?:text, links:[Link], values:{*:number}, state:'ok'|'idle'}
 *
 * A type is text, time (RFC 3339), int, number, bool, any, one of some words, a list, an object, an
 * object of any keys ("*"), or a name of the table of types. ? behind a type: or null. ? behind a
 * key: it may be missing. A body that is not JSON is "@" and its media types, with commas. The
 * tables are this program's own: what is not written so is a mistake that a test finds.
 */
#ifndef GS_SERVER_OPENAPI_OPENAPI_H
#define GS_SERVER_OPENAPI_OPENAPI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

struct gs_openapi_endpoint {
	const char *path;   /* "{}" for each parameter in it; those of one path follow each other */
	const char *method; /* "get" */
	const char *params; /* names of those in the path, then of the query, with commas */
	const char *summary;
	bool open;                 /* needs no token */
	const char *role;          /* that a token needs; NULL: any */
	const char *body, *answer; /* schemas; NULL: there is none */
};

struct gs_openapi_name { /* of a type or a parameter */
	const char *name, *schema;
	const char *text; /* what it is; may be NULL */
};

struct gs_openapi { /* all lent for the call */
	const char *title, *version;
	const char *error; /* schema of what is answered instead */
	const struct gs_openapi_endpoint *endpoints;
	size_t n_endpoints;
	const struct gs_openapi_name *types,
		*parameters; /* a parameter that is not there is a text */
	size_t n_types, n_parameters;
};

void gs_openapi_write(struct gs_buf *out, const struct gs_openapi *api);

#endif
