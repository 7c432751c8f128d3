/* JSON documents with command lines in them. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/scrub/scrub.h"

#define COMMAND_BYTES 8192 /* of one; more is cut */
#define DEPTH_MAX     8    /* of what a command is looked for in */

static void hide_commands(json_t *at, bool whole, int depth)
{
	char scrubbed[COMMAND_BYTES];
	const char *key;
	json_t *value;
	size_t i;

	if (depth == DEPTH_MAX)
		return;
	json_array_foreach(at, i, value) hide_commands(value, whole, depth + 1);
	json_object_foreach(at, key, value)
	{
		if (strcmp(key, "command") != 0 || !json_is_string(value)) {
			hide_commands(value, whole, depth + 1);
			continue;
		}
		gs_scrub_text(json_string_value(value), scrubbed, sizeof(scrubbed));
		(void)json_string_set(value, whole ? "" : scrubbed);
	}
}

int gs_scrub_json(const char *text, size_t bytes, bool whole, char **ret_text)
{
	json_t *document = json_loadb(text, bytes, 0, NULL);

	if (!document)
		return -EINVAL;
	hide_commands(document, whole, 0);
	*ret_text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(document);
	return *ret_text ? 0 : -ENOMEM;
}
