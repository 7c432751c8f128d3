/*
 * Prints what was slow in a run and why, for a command that it traces or for a recording.
 *
 *     cc summary.c $(pkg-config --cflags --libs libgpuscope) -o summary
 *     ./summary FILE.gst
 *     ./summary COMMAND [ARGUMENT...]
 *
 * If the environment variable JSON is set, prints the summary as `gpuscope report --format json` does; with JSON=findings,
 * the findings as `gpuscope explain --format json` does.
 */
#include <gpuscope/gpuscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_result(const struct gs_result *result)
{
	const struct gs_verdict_result *v = result->verdict;

	printf("%s: %.3f s on %s, %s\n", result->command, (double)result->duration_ns / 1e9,
	       result->host, result->end_reason);
	for (size_t i = 0; i < result->n_functions; i++) {
		const struct gs_function *f = result->functions[i];

		printf("function %s %s calls=%" PRIu64 " errors=%" PRIu64 " total_ns=%" PRIu64
		       " p95_ns=%" PRIu64 " bytes=%" PRIu64 "\n",
		       f->layer, f->name, f->calls, f->errors, f->total_ns, f->p95_ns, f->bytes);
	}
	for (size_t i = 0; i < result->n_processes; i++)
		printf("process %" PRIu32 " %s of user %" PRId32 "\n", result->processes[i]->pid,
		       result->processes[i]->comm, (int32_t)result->processes[i]->uid);
	for (size_t i = 0; i < result->n_lost; i++)
		printf("lost %" PRIu64 " %s\n", result->lost[i]->count, result->lost[i]->cause);
	printf("verdict %s: %s\n", v->class_name[0] ? v->class_name : "none", v->title);
	if (v->evidence[0])
		printf("evidence: %s\n", v->evidence);
	if (v->advice[0])
		printf("advice: %s\n", v->advice);
	for (size_t i = 0; i < result->n_findings; i++)
		printf("finding %s: %s; %s\n", result->findings[i]->subject,
		       result->findings[i]->text, result->findings[i]->cause);
}

static void print_hangs(const struct gs_result *result)
{
	for (size_t i = 0; i < result->n_hangs; i++) {
		const struct gs_hang *h = result->hangs[i];

		printf("hang %s: %s\n", h->sort, h->text);
		for (size_t k = 0; k < h->n_ranks; k++)
			printf("rank %" PRId32 " %s: %s\n", h->ranks[k]->rank, h->ranks[k]->state,
			       h->ranks[k]->text);
	}
}

static int start_or_open(struct gs_trace *trace, char **words)
{
	const char *end = strrchr(words[0], '.');
	struct gs_trace_options options;

	if (end && strcmp(end, ".gst") == 0)
		return gs_trace_open(trace, words[0], NULL);
	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.command = (const char *const *)words;
	options.flags = GS_TRACE_NO_ITEMS;
	return gs_trace_start(trace, &options);
}

int main(int argc, char **argv)
{
	const struct gs_result *result = NULL;
	struct gs_trace *trace = NULL;
	const char *json = NULL;
	int r;

	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE.gst|COMMAND [ARGUMENT...]\n", argv[0]);
		return 2;
	}
	r = gs_trace_new(&trace);
	if (r == 0)
		r = start_or_open(trace, argv + 1);
	if (r == 0)
		r = gs_trace_finish(trace, GS_FOREVER);
	if (r >= 0 && getenv("JSON")) {
		r = strcmp(getenv("JSON"), "findings") == 0
			    ? gs_trace_findings_json(trace, &json, NULL)
			    : gs_trace_result_json(trace, &json, NULL);
		if (r == 0)
			fputs(json, stdout);
	} else if (r >= 0) {
		r = gs_trace_result(trace, &result);
		if (r == 0)
			print_result(result);
		if (r == 0)
			print_hangs(result);
	}
	if (r < 0)
		fprintf(stderr, "%s\n", gs_trace_error(trace));
	gs_trace_free(trace);
	return r < 0;
}
