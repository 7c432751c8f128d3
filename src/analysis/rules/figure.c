/* The names of the figures. */
#include <math.h>
#include <string.h>

#include "analysis/rules/verdict.h"

static const char *const keys[GS_FIGURE_COUNT] = {
#define KEY(id, key, help) [GS_FIGURE_##id] = key,
	GS_FIGURES(KEY)
#undef KEY
};

const char *gs_figure_key(unsigned figure)
{
	return figure < GS_FIGURE_COUNT ? keys[figure] : "";
}

int gs_figure_by_key(const char *key)
{
	for (int i = 0; i < GS_FIGURE_COUNT; i++)
		if (strcmp(keys[i], key) == 0)
			return i;
	return -1;
}

void gs_figures_clear(struct gs_figures *figures)
{
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++)
		figures->v[i] = NAN;
}
