/* Prints the table of functions that can be traced, one "layer name" to a line, for check_abi.py.
 */
#include <stdio.h>

#include "model/trace/func.h"

int main(void)
{
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *func = gs_func_by_id(id);

		if (!func->watched_only)
			printf("%s %s\n", gs_layer_name(func->desc.layer), func->name);
	}
	return 0;
}
