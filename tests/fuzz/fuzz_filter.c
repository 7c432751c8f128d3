/* The input is a filter over some values; the rest of the file stands. */
#include <stdlib.h>
#include <string.h>

#include "sources/probefile/probefile_int.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	struct gs_user_spec spec = {0};
	struct fault fault;
	unsigned which;
	int depth = 0;

	if (!text)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	spec.row.flags = GS_USER_RETURN;
	if (probefile_parse_value("arg1", "u64 size", &spec, &which, &fault) < 0 ||
	    probefile_parse_value("arg2", "str path", &spec, &which, &fault) < 0 ||
	    probefile_parse_value("ret", "i32 r", &spec, &which, &fault) < 0)
		abort();
	if (probefile_parse_filter(text, &spec, &fault) == 0) {
		/* One operand is left, and there are never too many. */
		for (unsigned i = 0; i < spec.row.n_ops; i++) {
			unsigned code = spec.row.ops[i].code;

			depth += code <= GS_OP_TID ? 1 : code <= GS_OP_NEGATE ? 0 : -1;
			if (depth < 1 || depth > GS_USER_STACK_MAX)
				abort();
		}
		if (depth != 1)
			abort();
	} else if (fault.at > bytes) {
		abort();
	}
	free(text);
	return 0;
}
