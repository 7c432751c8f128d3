/* gpuscope report --compare: several reports of jobs side by side. */
#include <errno.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/trace.h"
#include "job/compare.h"

int gs_cmd_compare(char **paths, size_t n, const char *output, const char *format)
{
	struct gs_summary_style terminal = {.size = sizeof(terminal)};
	struct gs_job_comparison c = {0};
	struct gs_job_style style = {.precision = 2};
	GS_FCLOSE FILE *file = NULL;
	struct gs_err err = {{0}};
	int r = 0;

	if (format ? gs_job_format_parse(format, &style.format) < 0
		   : output && gs_job_format_of_path(output, &style.format) < 0) {
		gs_say("a comparison is a table, JSON, YAML or HTML: --format, or -o FILE.html");
		return GS_EXIT_USAGE;
	}
	if (style.format == GS_JOB_CSV) {
		gs_say("a comparison has no CSV form: table, json, yaml or html");
		return GS_EXIT_USAGE;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = gs_job_compare_file(&c, paths[i], &err);
	if (r == 0)
		r = gs_job_compare_finish(&c);
	if (r < 0) {
		gs_say("%s", gs_err_text(&err, r));
		gs_job_comparison_fini(&c);
		return GS_EXIT_FAILED;
	}
	if (output) {
		file = fopen(output, "we");
		if (!file)
			r = -errno;
	} else {
		summary_style_of(stdout, true, &terminal);
		style.width = terminal.width;
		style.color = terminal.color;
	}
	if (r == 0)
		r = gs_job_compare_write(file ? file : stdout, &c, &style);
	if (r < 0)
		gs_say("cannot write %s: %s", output ? output : "the comparison", strerror(-r));
	gs_job_comparison_fini(&c);
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
