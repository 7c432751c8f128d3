/* Private to the room. */
#ifndef GS_DESCRIBE_DESCRIBE_INT_H
#define GS_DESCRIBE_DESCRIBE_INT_H

#include "server/openapi/describe.h"

/* A schema in its short form as JSON Schema, a member of this key. */
void describe_schema(struct gs_buf *b, const char *key, const char *schema);

#endif
