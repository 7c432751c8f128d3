/*
 * gpuscope explain: reads a recorded file and reports when its steps became longer, stalled or drifted, when
 * calls took unusually long, memory grew and a GPU was in an unusual state, each with what was found at
 * the same time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/explain/explain.h"
#include "commands/common/cli.h"
#include "commands/main/damage.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/text/doc.h"
#include "model/node/record.h"
#include "model/trace/dict.h"
#include "output/report/summary_hang.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/recording/recording.h"

#define SETTINGS_MAX 64
#define FEW_STEPS    128 /* as the detector of changes is trained with by default */

_Static_assert(GS_EXPLAIN_STEP_SLOTS == GS_AGGREGATE_STEP_SLOTS, "steps are handed on");

enum explain_format { EXPLAIN_TABLE = 0, EXPLAIN_JSON, EXPLAIN_YAML };

struct explain_options {
	const char *path;
	enum explain_format format;
	char *settings[SETTINGS_MAX]; /* KEY=VALUE; borrowed from argv */
	unsigned n_settings;
};

struct explain_run {
	struct gs_explain *explain;
	struct gs_aggregate *view;
	struct gs_node_decoder *decoder;
	struct gs_dict *dict; /* names of calls */
	uint64_t start_ns;    /* of the session, boot clock; 0: none yet */
	int64_t wall_minus_boot_ns;
	int error; /* of a step, which cannot be returned from where it is reported */
};

static int add_file(void *target, char **words, struct gs_err *err)
{
	struct explain_options *o = target;

	if (o->path)
		return gs_err_set(err, -EINVAL, "one file at a time");
	o->path = words[0];
	return 0;
}

static int add_setting(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	struct explain_options *o = target;

	if (o->n_settings == SETTINGS_MAX)
		return gs_err_set(err, -EINVAL, "at most %d times --set", SETTINGS_MAX);
	if (!strchr(argument, '='))
		return -EINVAL;
	o->settings[o->n_settings++] = argument;
	return 0;
}

static int check_options(void *target, struct gs_err *err)
{
	return ((struct explain_options *)target)->path
		       ? 0
		       : gs_err_set(err, -EINVAL, "which .gst file?");
}

#define AT(member) GS_CLI_AT(struct explain_options, member)

static const struct gs_cli_option option_table[] = {
	{"format", 0, "FORMAT", "table, json, yaml", GS_CLI_WORD, AT(format),
	 .words = "table json yaml"},
	{"set", 0, "KEY=VALUE", "an option of a detector, such as change.min_change=5%", GS_CLI_SET,
	 .takes = "an option of a detector, such as change.min_change=5%", .set = add_setting},
	GS_CLI_END};

const struct gs_cli_command gs_cli_explain = {
	.name = "gpuscope explain",
	.usage = "FILE.gst",
	.about =
		"Finds when a recorded run changed: steps that became longer, stalls, memory that grows, GPUs in an unusual state, and what else changed then.",
	.notes =
		"Steps come from calls (`gpuscope trace -o FILE.gst`), the rest from samples (`gpuscope top --record`).\n"
		"Exit status: 0 done, with or without findings, 1 failed, 2 wrong usage, 4 neither steps nor samples.",
	.options = option_table,
	.take_word = add_file,
	.check = check_options,
};

static void take_step(void *ctx, const struct gs_aggregate_step *step)
{
	struct explain_run *run = ctx;
	struct gs_explain_step s = {step->slot, step->run, step->start_ns, step->dur_ns,
				    step->regular};
	int r = gs_explain_take_step(run->explain, &s);

	if (r < 0)
		run->error = r;
}

/* Of a process and a function that are known. */
static int take_call(struct explain_run *run, const struct gs_rec_call *call)
{
	const struct gs_rec_thread *thread = gs_dict_thread(run->dict, call->thread);
	const struct gs_rec_process *p =
		thread ? gs_dict_process(run->dict, thread->process) : NULL;
	const struct gs_rec_function *f = gs_dict_function(run->dict, call->function);
	struct gs_explain_call c = {.function = call->function,
				    .bytes = call->bytes,
				    .start_ns = call->start_ns,
				    .dur_ns = call->dur_ns};

	if (!p || !f)
		return 0;
	c.process = p->id;
	c.pid = p->pid;
	c.comm = gs_dict_string(run->dict, p->comm_str);
	c.name = gs_dict_string(run->dict, f->name_str);
	return gs_explain_take_call(run->explain, &c);
}

static int take_record(struct explain_run *run, const struct gs_record *record)
{
	const struct gs_rec_session *session = (const void *)record;
	struct gs_node_snapshot *node = NULL;
	int r = gs_dict_apply(run->dict, record);

	/* Names that are out of range are as good as none. */
	if (r == 0 || r == -EINVAL)
		r = gs_node_decode(run->decoder, record, &node);

	if (record->kind == GS_REC_SESSION && !run->start_ns) {
		run->start_ns = session->start_ns;
		run->wall_minus_boot_ns = session->wall_minus_boot_ns;
	} else if (record->kind == GS_REC_END) {
		gs_explain_tick(run->explain, ((const struct gs_rec_end *)record)->end_ns);
	} else if (record->kind == GS_REC_CALL && r == 0) {
		r = take_call(run, (const void *)record);
	} else if (r == GS_NODE_WHOLE) {
		r = gs_explain_take_node(run->explain, node);
		gs_node_snapshot_free(&node);
	}
	return r < 0 ? r : 0;
}

static int read_file(struct explain_run *run, struct gs_recording_reader *reader)
{
	const struct gs_sink *view = gs_aggregate_sink(run->view);
	struct gs_batch batch;
	int r;

	while ((r = gs_recording_next(reader, &batch)) == 0) {
		/* Steps first: what time it is without one is known by the samples after them. */
		r = view->push(view->ctx, &batch);
		gs_records_for_each (&batch, record)
			if (r == 0)
				r = take_record(run, record);
		if (r == 0)
			r = run->error;
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

/* Of options that were given: an exit status. */
static int set_options(struct gs_explain *explain, const struct explain_options *o)
{
	for (unsigned i = 0; i < o->n_settings; i++) {
		char key[128];
		const char *equals = strchr(o->settings[i], '=');
		struct gs_err err = {{0}};

		snprintf(key, sizeof(key), "%.*s", (int)(equals - o->settings[i]), o->settings[i]);
		if (gs_explain_set(explain, key, equals + 1, &err) < 0) {
			gs_cli_say("--set: %s", gs_err_text(&err, -EINVAL));
			return GS_EXIT_USAGE;
		}
	}
	return GS_EXIT_DONE;
}

static double seconds_of(const struct explain_run *run, uint64_t ns)
{
	return ns >= run->start_ns ? (double)(ns - run->start_ns) / 1e9
				   : -(double)(run->start_ns - ns) / 1e9;
}

/* Times of a file may be anything: they wrap, where a sum of signed ones would not be defined. */
static int64_t wall_of(const struct explain_run *run, uint64_t ns)
{
	return (int64_t)(ns + (uint64_t)run->wall_minus_boot_ns);
}

static const char *put_since(char out[GS_FMT_BYTES], const struct explain_run *run, uint64_t ns)
{
	return gs_fmt_ns(out, ns > run->start_ns ? ns - run->start_ns : 0);
}

/* What began near a finding: how long before or after it. */
static void print_beside(const struct gs_explain_finding *f, const struct gs_explain_finding *other)
{
	uint64_t at = f->begun.since_ns, begun = other->begun.since_ns;
	char text[GS_EXPLAIN_TEXT_BYTES], distance[GS_FMT_BYTES];

	gs_fmt_ns(distance, begun > at ? begun - at : at - begun);
	printf("    %s %s: %s\n", distance, begun > at ? "later" : "before",
	       gs_explain_text(other, text));
}

static void print_finding(const struct explain_run *run, const struct gs_explain_result *result,
			  const struct gs_explain_finding *f)
{
	char text[GS_EXPLAIN_TEXT_BYTES], since[GS_FMT_BYTES], until[GS_FMT_BYTES];

	printf("\n  after %s: %s", put_since(since, run, f->begun.since_ns),
	       gs_explain_text(f, text));
	if (!f->ended_ns)
		printf(", until the end\n");
	else
		printf(", %s after %s\n", f->became_usual ? "usual" : "over",
		       put_since(until, run, f->ended_ns));
	printf("    %s: score %.3g, limit %.3g, medians of %u and %u\n", f->begun.detector,
	       f->begun.score, f->begun.limit, f->begun.n_before, f->begun.n_after);
	for (uint32_t i = 0; i < f->n_beside; i++)
		print_beside(f, &result->findings[f->beside[i]]);
}

/* As found while tracing; without the ranks that did as they should. */
static void print_hang(const struct gs_hang_summary *h)
{
	char since[GS_FMT_BYTES];

	printf("\n  after %s: %s\n", gs_fmt_ns(since, h->since_ns), h->text);
	for (size_t i = 0; i < h->n_listed; i++) {
		const struct gs_hang_rank_summary *r = &h->ranks[i];

		if (strcmp(r->state, "arrived") == 0)
			continue;
		printf("    %s\n", r->text);
		if (*r->python)
			printf("      Python: %s\n", r->python);
		if (*r->native)
			printf("      native: %s\n", r->native);
	}
}

static void print_result(const struct explain_options *o, const struct explain_run *run,
			 const struct gs_explain_result *result, const struct gs_summary *summary)
{
	char findings[GS_FMT_BYTES], steps[GS_FMT_BYTES], samples[GS_FMT_BYTES];
	size_t n = result->n_findings + summary->n_hangs;

	gs_fmt_count(findings, n);
	printf("%s: %s finding%s in %s steps and %s samples\n", o->path, n ? findings : "no",
	       n == 1 ? "" : "s", gs_fmt_count(steps, result->n_steps),
	       gs_fmt_count(samples, result->n_samples));
	for (size_t i = 0; i < summary->n_hangs; i++)
		print_hang(&summary->hangs[i]);
	for (size_t i = 0; i < result->n_findings; i++)
		print_finding(run, result, &result->findings[i]);
	if (result->n_left_out)
		gs_cli_say("%llu findings or samples of series had no place",
			   (unsigned long long)result->n_left_out);
	if (result->n_steps && result->n_steps < FEW_STEPS)
		gs_cli_say(
			"%llu steps are too few to know what is usual: record longer, or --set change.training_samples=16",
			(unsigned long long)result->n_steps);
}

static void put_finding(struct gs_doc *doc, const struct explain_run *run,
			const struct gs_explain_finding *f)
{
	static const char *const subjects[] = {
		"", "steps", "gpu_state", "gpu_memory", "node_memory", "process_memory", "calls"};
	char text[GS_EXPLAIN_TEXT_BYTES];

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_text(doc, "text", gs_explain_text(f, text));
	gs_doc_put_text(doc, "detector", f->begun.detector);
	gs_doc_put_text(doc, "subject", subjects[f->subject]);
	gs_doc_put_text(doc, "name", f->name);
	gs_doc_put_double(doc, "since_s", seconds_of(run, f->begun.since_ns));
	gs_doc_put_double(doc, "found_s", seconds_of(run, f->begun.found_ns));
	if (f->ended_ns)
		gs_doc_put_double(doc, "ended_s", seconds_of(run, f->ended_ns));
	else
		gs_doc_put_null(doc, "ended_s");
	gs_doc_put_time(doc, "since", wall_of(run, f->begun.since_ns));
	gs_doc_put_bool(doc, "became_usual", f->became_usual);
	gs_doc_put_text(doc, "unit", gs_explain_unit(f));
	gs_doc_put_double(doc, "before", f->begun.before);
	gs_doc_put_double(doc, "after", f->after);
	gs_doc_put_double(doc, "change_percent",
			  f->begun.before != 0 ? (f->after / f->begun.before - 1) * 100 : 0);
	gs_doc_put_double(doc, "score", f->begun.score);
	gs_doc_put_double(doc, "limit", f->begun.limit);
	gs_doc_put_u64(doc, "n_before", f->begun.n_before);
	gs_doc_put_u64(doc, "n_after", f->begun.n_after);
	gs_doc_begin_flat(doc, "model");
	for (uint32_t i = 0; i < f->begun.n_parameters; i++)
		gs_doc_put_double(doc, f->begun.parameters[i].name, f->begun.parameters[i].value);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "beside", f->n_beside);
	for (uint32_t i = 0; i < f->n_beside; i++)
		gs_doc_put_u64(doc, NULL, f->beside[i]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static int put_result(const struct explain_options *o, const struct explain_run *run,
		      const struct gs_explain_result *result, const struct gs_summary *summary)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = o->format == EXPLAIN_YAML ? &gs_doc_yaml : &gs_doc_json,
			     .pen = &pen};

	gs_pen_open(&pen, stdout);
	gs_doc_begin_map(&doc, NULL);
	gs_doc_put_text(&doc, "file", o->path);
	gs_doc_put_time(&doc, "start", wall_of(run, run->start_ns));
	gs_doc_put_u64(&doc, "steps", result->n_steps);
	gs_doc_put_u64(&doc, "samples", result->n_samples);
	gs_doc_put_u64(&doc, "left_out", result->n_left_out);
	gs_doc_begin_list(&doc, "findings", result->n_findings);
	for (size_t i = 0; i < result->n_findings; i++)
		put_finding(&doc, run, &result->findings[i]);
	gs_doc_end(&doc);
	gs_report_summary_hang_doc(&doc, summary);
	gs_doc_end(&doc);
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
		r = gs_explain_finish(run->explain, summary->steps.slot, summary->steps.run,
				      &result);
	if (r == 0 && !result.n_steps && !result.n_samples && !summary->n_hangs) {
		gs_cli_say(
			"%s has neither steps nor samples: record calls that repeat with `gpuscope trace -o FILE.gst`, or samples with `gpuscope top --record FILE.gst`",
			o->path);
		return GS_EXIT_NOTHING;
	}
	if (r == 0 && o->format == EXPLAIN_TABLE)
		print_result(o, run, &result, summary);
	else if (r == 0)
		r = put_result(o, run, &result, summary);
	if (r < 0)
		gs_cli_say("%s", strerror(-r));
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}

int gs_cmd_explain(int argc, char **argv)
{
	struct explain_options o = {0};
	struct gs_recording_reader *reader = NULL;
	struct gs_recording_stats stats;
	struct explain_run run = {0};
	struct gs_err err = {{0}};
	int r, status;

	if (!gs_cli_parse(&gs_cli_explain, argc, argv, &o, &r))
		return r;
	r = gs_recording_open(o.path, &reader, &err);
	if (r == 0)
		r = gs_explain_new(&run.explain);
	if (r == 0)
		r = gs_aggregate_new(&run.view);
	run.decoder = gs_node_decoder_new();
	run.dict = gs_dict_new();
	if (r == 0 && (!run.decoder || !run.dict))
		r = -ENOMEM;
	status = r == 0 ? set_options(run.explain, &o) : GS_EXIT_FAILED;
	if (status == GS_EXIT_DONE) {
		gs_aggregate_set_step_receiver(run.view, take_step, &run);
		r = read_file(&run, reader);
	}
	if (r < 0) {
		if (reader)
			gs_cli_say("cannot read %s: %s", o.path, gs_err_text(&err, r));
		else /* the text names the file */
			gs_cli_say("%s", gs_err_text(&err, r));
		status = GS_EXIT_FAILED;
	} else if (status == GS_EXIT_DONE) {
		gs_recording_stats(reader, &stats);
		cmd_report_damage(o.path, &stats);
		status = show_findings(&o, &run);
	}
	gs_node_decoder_free(&run.decoder);
	gs_dict_free(&run.dict);
	gs_aggregate_free(&run.view);
	gs_explain_free(&run.explain);
	gs_recording_reader_close(&reader);
	return status;
}
