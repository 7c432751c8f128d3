/* Private to the room. */
#ifndef GS_SERVER_OPENAPI_OPENAPI_INT_H
#define GS_SERVER_OPENAPI_OPENAPI_INT_H

#include "server/openapi/openapi.h"

/* A schema in its short form as JSON Schema, a member of this key. */
void openapi_schema(struct gs_buf *b, const char *key, const char *schema);

#endif
