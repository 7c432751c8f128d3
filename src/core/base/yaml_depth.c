#include "core/base/yaml_depth.h"

#include <errno.h>
#include <stdbool.h>
#include <yaml.h>

/* How much deeper the document is after the event. */
static int depth_change(yaml_event_type_t type)
{
	switch (type) {
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return 1;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return -1;
	default:
		return 0;
	}
}

int gs_yaml_check_depth(const char *name, const char *text, size_t bytes, struct gs_err *err)
{
	yaml_parser_t parser;
	bool done = false;
	int depth = 0, r = 0;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	while (r == 0 && !done) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event))
			break;
		depth += depth_change(event.type);
		if (depth > GS_YAML_DEPTH_MAX)
			r = gs_err_set(err, -EINVAL, "%s:%zu:%zu: nested more than %d levels deep",
				       name, event.start_mark.line + 1, event.start_mark.column + 1,
				       GS_YAML_DEPTH_MAX);
		done = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return r;
}
