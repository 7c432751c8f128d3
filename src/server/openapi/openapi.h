/*
 * The description of an HTTP API (OpenAPI 3.1), made of tables of its endpoints. Schemas are
 * written short there, as what they describe looks:
 *
 *   {name:text, size:number?, why?:text, links:[Link], values:{*:number}, state:'ok'|'idle'}
 *
 * A type is text, time (RFC 3339), int, number, bool, any, one of some words, a list, an object, an
 * object of any keys ("*"), or a name of the table of types. ? after a type: or null. ? after a
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
	const char *summary;       /* one line, for people */
	bool open;                 /* needs no token */
	const char *role;          /* that a token needs; NULL: any */
	const char *body, *answer; /* schemas; NULL: there is none */
};

struct gs_openapi_name {           /* of a type or a parameter */
	const char *name, *schema; /* schema: written as above */
	const char *text;          /* what it is; may be NULL */
};

struct gs_openapi {                                  /* all lent for the call */
	const char *title, *version;                 /* of the API */
	const char *error;                           /* schema of what is answered instead */
	const struct gs_openapi_endpoint *endpoints; /* n_endpoints of them */
	size_t n_endpoints;
	/* n_types and n_parameters of them; a parameter that is not there is a text. */
	const struct gs_openapi_name *types, *parameters;
	size_t n_types, n_parameters;
};

/* As JSON; whether all of it is there is in out->r. */
void gs_openapi_write(struct gs_buf *out, const struct gs_openapi *api);

#endif
