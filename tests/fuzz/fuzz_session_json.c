/* JSON of sessions, as somebody's file may be. */
#include "output/plot/plot.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_plot_options o = {.size = sizeof(o)};
	struct gs_plot *plot = gs_plot_new(&o);
	FILE *file = bytes ? fmemopen((void *)data, bytes, "r") : NULL;
	struct gs_err err;

	if (plot && file)
		(void)gs_plot_add_session(plot, file, &err);
	if (file)
		fclose(file);
	gs_plot_free(&plot);
	return 0;
}
