/* Text in memory that renderers write through a stream. */
#include "library/gpuscope/library_int.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"

int rendered_begin(struct rendered *to)
{
	rendered_fini(to);
	to->out = open_memstream(&to->text, &to->bytes);
	return to->out ? 0 : -ENOMEM;
}

int rendered_end(struct rendered *to, int r)
{
	int closed = fclose(to->out) == 0 ? 0 : -errno;

	to->out = NULL;
	r = r < 0 ? r : closed;
	if (r < 0)
		rendered_fini(to);
	return r;
}

void rendered_fini(struct rendered *to)
{
	free(to->text);
	to->text = NULL;
	to->bytes = 0;
}
