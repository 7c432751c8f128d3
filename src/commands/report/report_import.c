/* gpuscope report TRACE.json -o FILE.gst. */
#include "commands/report/report_import.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "core/base/mem.h"
#include "pipeline/kineto/kineto.h"
#include "pipeline/recording/recording.h"

bool cmd_is_import(const char *output)
{
	size_t n = strlen(output);

	return n > 4 && strcmp(output + n - 4, ".gst") == 0;
}

static void report_stats(const char *trace, const struct gs_kineto_stats *s)
{
	gs_cli_print_message("%s: %llu calls and %llu operations of GPUs", trace,
			     (unsigned long long)s->n_calls, (unsigned long long)s->n_gpu_work);
	if (s->n_bad || s->n_left_out)
		gs_cli_print_message(
			"%s: %llu events have no name or time, %llu were left out: too many", trace,
			(unsigned long long)s->n_bad, (unsigned long long)s->n_left_out);
	if (s->n_unpaired)
		gs_cli_print_message("%s: %llu begin or end events have no counterpart", trace,
				     (unsigned long long)s->n_unpaired);
}

int cmd_import_trace(const char *trace, const char *output)
{
	GS_FCLOSE FILE *file = fopen(trace, "re");
	struct gs_kineto_stats stats = {0};
	struct gs_recording *recording = NULL;
	struct gs_err err = {{0}}, close_err = {{0}};
	int closed, r;

	if (!file) {
		r = -errno;
		gs_cli_print_message("cannot open %s: %s", trace, strerror(-r));
		return r;
	}
	r = gs_recording_create(output, NULL, &recording, &err);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		return r;
	}
	r = gs_kineto_read(file, trace, gs_recording_sink(recording), &stats, &err);
	closed = gs_recording_close(&recording, &close_err);
	if (r == 0 && closed < 0)
		err = close_err;
	if (r < 0 || closed < 0) {
		r = r < 0 ? r : closed;
		gs_cli_print_message("cannot import %s: %s", trace, gs_err_text(&err, r));
		(void)unlink(output);
		return r;
	}
	report_stats(trace, &stats);
	gs_cli_report_written(output, NULL);
	return 0;
}
