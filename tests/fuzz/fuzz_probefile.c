/* A probe file: YAML, places, types, filters. Whatever is accepted has to fit the kernel's table.
 */
#include <stdlib.h>

#include "sources/probefile/probefile.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_user_set *set = gs_user_set_new();
	struct gs_err err = {{0}};

	if (!set)
		return 0;
	(void)gs_probefile_parse((const char *)data, bytes, "fuzz", set, &err);
	for (size_t i = 0; i < gs_user_set_n(set); i++) {
		const struct gs_user_row *row = &gs_user_set_spec(set, i)->row;

		if (row->n_values > GS_USER_VALUE_MAX || row->n_texts > GS_USER_TEXT_MAX ||
		    row->n_ops > GS_USER_OP_MAX)
			abort();
		for (unsigned k = 0; k < row->n_ops; k++)
			if (!row->ops[k].code || row->ops[k].code >= GS_OP_COUNT ||
			    row->ops[k].arg >= GS_USER_VALUE_MAX)
				abort();
	}
	gs_user_set_free(&set);
	return 0;
}
