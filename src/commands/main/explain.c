/*
 * gpuscope explain: when steps became longer, stalled or drifted, when calls took unusually long, memory grew
 * and a GPU was in an unusual state, why, as far as that is known, and what was found at the same time. Of a
 * recording all at once; of a traced program, or of what an agent follows, as it comes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/common/show_findings.h"
#include "commands/common/summary.h"
#include "output/findings/findings.h"
#include "output/findings/table.h"
#include "commands/report/damage.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/recording/recording.h"

struct explain_options {
	struct gs_findings_options findings;
	char **words; /* a file, or with live a command; borrowed from argv, as the following */
	unsigned n_words;
	const char *pids, *duration, *job, *control;
	bool live, all;
};

struct explain_run {
	struct gs_findings *findings;
	struct gs_aggregate *view;
};

static int add_word(void *target, char **words, struct gs_err *err)
{
	struct explain_options *o = target;

	if (!o->n_words++)
		o->words = words;
	return 0;
}

static int add_setting(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	return gs_findings_add_setting(&((struct explain_options *)target)->findings, argument,
				       err);
}

/* Before anything is opened or started. */
static int check_settings(const struct gs_findings_options *options, struct gs_err *err)
{
	struct gs_findings *findings = NULL;
	int r = gs_findings_new(NULL, &findings);

	if (r == 0)
		r = gs_findings_set(findings, options, err);
	gs_findings_free(&findings);
	return r;
}

static int check_options(void *target, struct gs_err *err)
{
	const struct explain_options *o = target;
	bool asks_agent = o->job || (o->live && !o->n_words && !o->pids);

	if (o->findings.lists_settings)
		return 0;
	if (!o->live && !o->job && !o->n_words)
		return gs_err_set(
			err, -EINVAL,
			"no recording given: gpuscope explain FILE.gst (or --live, or --job-id JOB)");
	if (!o->live && o->n_words > 1)
		return gs_err_set(err, -EINVAL, "one file at a time");
	if (!o->live && o->pids)
		return gs_err_set(err, -EINVAL, "-p needs --live");
	if (o->pids && o->n_words)
		return gs_err_set(err, -EINVAL, "give either a command or -p, not both");
	if (o->job && (o->n_words || o->pids))
		return gs_err_set(
			err, -EINVAL,
			"--job-id shows findings of the agent: leave out the file, -p and the command");
	if (o->control && !asks_agent)
		return gs_err_set(
			err, -EINVAL,
			"--control is for findings of the agent: give it with --job-id, or with --live and no command or -p");
	if (asks_agent && o->findings.n_settings)
		return gs_err_set(
			err, -EINVAL,
			"--set does not reach the detectors of the agent: use findings.settings of its configuration");
	if (o->findings.n_settings && check_settings(&o->findings, err) < 0)
		return -EINVAL;
	if (o->live && o->findings.format == GS_FINDINGS_YAML)
		return gs_err_set(err, -EINVAL,
				  "--live writes a line at a time: use --format table or json");
	return 0;
}

/* As a text: it is an option of trace, or of what asks the agent. */
static int set_duration(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err)
{
	uint64_t ns;

	((struct explain_options *)target)->duration = argument;
	return gs_parse_ns(argument, 1000000000, &ns) < 0 || !ns ? -EINVAL : 0;
}

#define AT(member) GS_CLI_AT(struct explain_options, member)

static const struct gs_cli_option option_table[] = {
	{"live", 0, NULL, "report findings as they occur (command, -p, or the agent)", GS_CLI_FLAG,
	 AT(live)},
	{"pid", 'p', "PID[,PID]", "with --live: trace these processes", GS_CLI_TEXT, AT(pids)},
	{"duration", 'd', "TIME", "with --live: stop after this time", GS_CLI_SET,
	 .takes = "a time, such as 2 (seconds) or 500ms", .set = set_duration},
	{"job-id", 'j', "ID", "findings of one job, from the agent of this node", GS_CLI_TEXT,
	 AT(job)},
	{"control", 0, "PATH", "control socket of the agent", GS_CLI_TEXT, AT(control)},
	{"format", 0, "FORMAT", "table, json, yaml", GS_CLI_WORD, AT(findings.format),
	 .words = "table json yaml"},
	GS_CLI_JSON,
	{"all", 0, NULL, "print every finding, in the order of time", GS_CLI_FLAG, AT(all)},
	GS_CLI_SETTING,
	GS_CLI_END};

const struct gs_cli_command gs_cli_explain = {
	.name = "gpuscope explain",
	.usage = "FILE.gst | --live [-p PID | -- COMMAND...] | --job-id JOB",
	.about =
		"Finds when a run slowed down or stalled, memory leaked or a GPU was in an unusual state, the cause where it is known, and what else changed then.",
	.notes =
		"Steps come from calls (`gpuscope trace -o FILE.gst`), the rest from samples (`gpuscope top --record`).\n"
		"Exit status: 0 done, with or without findings, 1 failed, 2 wrong usage, 3 not permitted, 4 neither steps nor samples.",
	.brief = "live pid duration job-id format json all set",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = add_word,
	.check = check_options,
};

static int read_file(struct explain_run *run, struct gs_recording_reader *reader)
{
	const struct gs_sink *view = gs_aggregate_sink(run->view);
	struct gs_batch batch;
	int r;

	while ((r = gs_recording_next(reader, &batch)) == 0) {
		/* Steps first: what time it is without one is known by the samples after them. */
		r = view->push(view->ctx, &batch);
		if (r == 0)
			r = gs_findings_push(run->findings, &batch);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

static int print_result(const struct explain_options *o, const struct explain_run *run,
			const struct gs_explain_result *result, const struct gs_summary *summary)
{
	struct gs_report_summary_style style = {.size = sizeof(style)};
	const struct gs_findings_table table = {.file = o->words[0],
						.start_ns = gs_findings_start_ns(run->findings),
						.result = result,
						.summary = summary,
						.all = o->all};
	struct gs_page page;
	struct gs_pen pen;
	int r;

	gs_cli_summary_page(stdout, NULL, true, -1, &style);
	gs_pen_open(&pen, stdout);
	gs_page_init(&page, &pen, style.width, style.color);
	gs_findings_put_table(&page, &table);
	gs_page_fini(&page);
	r = gs_pen_close(&pen);
	if (result->n_left_out)
		gs_cli_print_message("%llu findings or samples were dropped: too many",
				     (unsigned long long)result->n_left_out);
	gs_cli_warn_few_steps(result->n_steps);
	return r;
}

static int put_result(const struct explain_options *o, const struct explain_run *run,
		      const struct gs_explain_result *result, const struct gs_summary *summary)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = o->findings.format == GS_FINDINGS_YAML ? &gs_doc_yaml
									   : &gs_doc_json,
			     .pen = &pen};

	gs_pen_open(&pen, stdout);
	gs_findings_doc(&doc, run->findings, result, summary, o->words[0]);
	gs_pen_puts(&pen, "\n");
	return gs_pen_close(&pen);
}

/* After the file was read: an exit status. */
static int show_findings(const struct explain_options *o, struct explain_run *run)
{
	struct gs_explain_result result;
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	int r = gs_aggregate_make_summary(run->view, &summary);

	if (r == 0)
		r = gs_findings_finish(run->findings, summary->steps.slot, summary->steps.run,
				       &result);
	if (r == 0 && !result.n_steps && !result.n_samples && !result.n_findings &&
	    !summary->n_hangs) {
		gs_cli_print_message(
			"%s has neither steps nor samples: record calls that repeat with `gpuscope trace -o FILE.gst`, or samples with `gpuscope top --record FILE.gst`",
			o->words[0]);
		return GS_EXIT_NOTHING;
	}
	if (r == 0 && o->findings.format == GS_FINDINGS_TABLE)
		r = print_result(o, run, &result, summary);
	else if (r == 0)
		r = put_result(o, run, &result, summary);
	if (r < 0)
		gs_cli_print_message("%s", strerror(-r));
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

static int explain_file(const struct explain_options *o)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_recording_stats stats;
	struct explain_run run = {0};
	struct gs_err err = {{0}};
	int r, status;

	r = gs_recording_open(o->words[0], &reader, &err);
	if (r == 0)
		r = gs_aggregate_new(&run.view);
	if (r == 0)
		r = gs_findings_new(run.view, &run.findings);
	if (r == 0)
		r = gs_findings_set(run.findings, &o->findings, &err);
	status = r == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
	if (status == GS_EXIT_DONE)
		r = read_file(&run, reader);
	if (r < 0) {
		if (reader)
			gs_cli_print_message("cannot read %s: %s", o->words[0],
					     gs_err_text(&err, r));
		else /* the text names the file */
			gs_cli_print_message("%s", gs_err_text(&err, r));
		status = GS_EXIT_FAILED;
	} else if (status == GS_EXIT_DONE) {
		gs_recording_stats(reader, &stats);
		cmd_report_damage(o->words[0], &stats);
		status = show_findings(o, &run);
	}
	gs_findings_free(&run.findings);
	gs_aggregate_free(&run.view);
	gs_recording_reader_close(&reader);
	return status;
}

/* As `gpuscope trace` of the same program, with findings in place of the summary. */
static int explain_program(const struct explain_options *o)
{
	static char name[] = "gpuscope trace", pid[] = "-p", duration[] = "-d", end[] = "--";
	GS_FREE char **argv = calloc(7u + o->n_words, sizeof(*argv));
	unsigned n = 1;

	if (!argv) {
		gs_cli_print_message("no memory");
		return GS_EXIT_FAILED;
	}
	argv[0] = name;
	if (o->pids) {
		argv[n++] = pid;
		argv[n++] = (char *)o->pids;
	}
	if (o->duration) {
		argv[n++] = duration;
		argv[n++] = (char *)o->duration;
	}
	if (o->n_words)
		argv[n++] = end;
	for (unsigned i = 0; i < o->n_words; i++)
		argv[n++] = o->words[i];
	return gs_cmd_trace_findings((int)n, argv, &o->findings);
}

int gs_cmd_explain(int argc, char **argv)
{
	struct explain_options o = {0};
	int r;

	if (!gs_cli_parse(&gs_cli_explain, argc, argv, &o, &r))
		return r;
	if (o.findings.lists_settings)
		return gs_cli_list_settings();
	if (o.job || (o.live && !o.n_words && !o.pids))
		return gs_agent_findings_show(o.control, o.job, o.duration, o.live,
					      o.findings.format);
	return o.live ? explain_program(&o) : explain_file(&o);
}
