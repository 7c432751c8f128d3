#include "model/summary/summary.h"

#include <stdlib.h>
#include <string.h>

void *gs_summary_alloc(struct gs_summary *s, size_t bytes)
{
	void *p;

	/* Grown at powers of two. */
	if ((s->n_allocations & (s->n_allocations - 1)) == 0) {
		size_t n = s->n_allocations ? s->n_allocations * 2 : 1;
		void **a = realloc(s->allocations, n * sizeof(*a));

		if (!a)
			return NULL;
		s->allocations = a;
	}
	p = calloc(1, bytes ? bytes : 1);
	if (p)
		s->allocations[s->n_allocations++] = p;
	return p;
}

const char *gs_summary_text(struct gs_summary *s, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *p = bytes > 1 ? gs_summary_alloc(s, bytes) : NULL;

	return p ? memcpy(p, text, bytes) : "";
}

void gs_summary_free(struct gs_summary **summary)
{
	struct gs_summary *s = *summary;

	if (!s)
		return;
	for (size_t i = 0; i < s->n_allocations; i++)
		free(s->allocations[i]);
	free(s->allocations);
	free(s);
	*summary = NULL;
}
