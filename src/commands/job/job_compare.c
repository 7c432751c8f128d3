/* gpuscope report --compare: several reports of jobs side by side, out of files or from a head. */
#include <errno.h>
#include <string.h>

#include "core/base/output.h"
#include "commands/common/cli.h"
#include "commands/job/job_compare.h"
#include "commands/common/summary.h"
#include "gpuscope.pb-c.h"

/* --- from a head --- */

static int add_all(struct gs_job_report_comparison *c, const Gpuscope__V1__JobReports *m,
		   uint32_t *left, struct gs_err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_reports && *left; i++, --*left) {
		const Gpuscope__V1__JobReport *report = m->reports[i];
		char name[160];

		snprintf(name, sizeof(name), "%s#%lld", report->node, (long long)report->id);
		r = gs_job_report_compare_text(c, name, (const char *)report->document.data,
					       report->document.len, err);
	}
	return r;
}

/* Newest first, an answer after the other. */
static int read_head(const struct compare_from *from, struct gs_job_report_comparison *c,
		     struct gs_err *err)
{
	Gpuscope__V1__JobReportQuery query = GPUSCOPE__V1__JOB_REPORT_QUERY__INIT;
	struct remote *remote = NULL;
	uint32_t left = from->last ? from->last : COMPARE_LAST;
	char after[64] = "";
	int r = remote_open(&from->remote, &remote, err);

	query.user = (char *)(from->user ? from->user : "");
	query.name = (char *)(from->name ? from->name : "");
	query.job = (char *)(from->job ? from->job : "");
	query.after = after;
	while (r == 0 && left) {
		Gpuscope__V1__JobReports *m = NULL;

		query.limit = left < 100 ? left : 100;
		r = remote_call(remote, "/gpuscope.v1.Control/ListJobReports", &query.base,
				&gpuscope__v1__job_reports__descriptor, &m, err);
		if (r < 0)
			break;
		r = add_all(c, m, &left, err);
		snprintf(after, sizeof(after), "%s", m->next);
		gpuscope__v1__job_reports__free_unpacked(m, NULL);
		if (!after[0])
			break;
	}
	remote_close(&remote);
	if (r == 0 && !c->n_rows)
		return gs_err_set(err, -ESRCH, "the head at %s has no report%s", from->remote.head,
				  from->user || from->name || from->job ? " of such jobs" : "");
	return r;
}

/* --- the comparison --- */

int gs_cmd_compare(char **paths, size_t n, const struct compare_from *from, const char *output,
		   const char *format)
{
	struct gs_report_summary_style terminal = {.size = sizeof(terminal)};
	struct gs_job_report_comparison c = {0};
	struct gs_job_report_style style = {.precision = 2};
	struct gs_output file = GS_OUTPUT_INIT;
	FILE *out = stdout;
	struct gs_err err = {{0}};
	int r = 0;

	if (format ? gs_job_report_format_parse(format, &style.format) < 0
		   : output && gs_job_report_format_of_path(output, &style.format) < 0) {
		gs_cli_print_message(
			"a comparison is a table, JSON, YAML or HTML: --format, or -o FILE.html");
		return GS_EXIT_USAGE;
	}
	if (style.format == GS_JOB_CSV) {
		gs_cli_print_message("a comparison has no CSV form: table, json, yaml or html");
		return GS_EXIT_USAGE;
	}
	if (from->remote.head)
		r = read_head(from, &c, &err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = gs_job_report_compare_file(&c, paths[i], &err);
	if (r == 0 && !c.n_rows)
		r = gs_err_set(&err, -ENODATA, "there is no job in %s: nothing to compare",
			       n == 1 ? paths[0] : "any of these reports");
	if (r == 0)
		r = gs_job_report_compare_finish(&c);
	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
		gs_job_report_comparison_fini(&c);
		return from->remote.head || r == -ENODATA ? gs_cli_exit_status_of(r)
							  : GS_EXIT_FAILED;
	}
	if (output) {
		r = gs_output_open(output, 0, &file, &err);
		out = r == 0 ? gs_output_stream(&file) : NULL;
	} else {
		gs_cli_summary_style(stdout, true, &terminal);
		style.width = terminal.width;
		style.color = terminal.color;
	}
	if (r == 0)
		r = out ? gs_job_report_compare_write(out, &c, &style) : -ENOMEM;
	r = gs_output_close(&file, r, &err);
	if (r < 0 && err.text[0])
		gs_cli_print_message("%s", err.text);
	else if (r < 0)
		gs_cli_print_message("cannot write %s: %s", output ? output : "the comparison",
				     strerror(-r));
	else if (output)
		gs_cli_report_written(output, NULL);
	gs_job_report_comparison_fini(&c);
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
