/*
 * Findings of a stream of records, as commands and the library read and write them: steps of an aggregate, calls,
 * accounts and samples go to analysis/explain; what it finds becomes lines for people, or a document.
 *
 *     gs_aggregate_new(&view);
 *     gs_findings_new(view, &findings);
 *     for (each batch) { view's push; gs_findings_push(findings, &batch); }
 *     gs_findings_finish(findings, slot, run, &result);
 */
#ifndef GS_OUTPUT_FINDINGS_FINDINGS_H
#define GS_OUTPUT_FINDINGS_FINDINGS_H

#include <stdio.h>

#include "analysis/explain/explain.h"
#include "core/text/doc.h"
#include "pipeline/aggregate/aggregate.h"

#define GS_FINDINGS_SETTINGS_MAX 64

/* Counters of a trace that findings read: each value is what came since the one before, and stands until the
 * next. */
#define GS_FINDINGS_QUOTA_COUNTER       "time stopped by the CPU quota (ns)" /* what is traced */
#define GS_FINDINGS_RETRANSMITS_COUNTER "retransmitted TCP segments"         /* of its network */

enum gs_findings_format { GS_FINDINGS_TABLE = 0, GS_FINDINGS_JSON = 1, GS_FINDINGS_YAML = 2 };

struct gs_findings_options {
	enum gs_findings_format format;           /* of what is printed */
	char *settings[GS_FINDINGS_SETTINGS_MAX]; /* KEY=VALUE; borrowed from argv */
	unsigned n_settings;
	bool lists_settings; /* --set help: which there are is asked */
};

/* Takes a KEY=VALUE of --set, or "help". 0, or -EINVAL. */
int gs_findings_add_setting(struct gs_findings_options *options, char *setting, struct gs_err *err);

/* Each option of each detector: its key, its default and what it is for, a line each. */
void gs_findings_list_settings(FILE *out);

struct gs_findings;

/* Steps are those of view, which is lent and takes each batch first; NULL: there are none. Nothing else
 * receives the view's steps then. 0 or -ENOMEM. */
int gs_findings_new(struct gs_aggregate *view, struct gs_findings **ret);
void gs_findings_free(struct gs_findings **findings); /* NULL inside: nothing happens */

/* Options of detectors. 0, or a negative errno with err; -EINVAL: which option is wrong. */
int gs_findings_set(struct gs_findings *findings, const struct gs_findings_options *options,
		    struct gs_err *err);

/* Records, in the order of time. 0 or a negative errno. */
int gs_findings_push(struct gs_findings *findings, const struct gs_batch *batch);

/* A sample that is no record yet, lent for the call. 0 or -ENOMEM. */
int gs_findings_take_node(struct gs_findings *findings, const struct gs_node_snapshot *node);

/* What has begun or ended since the last time, steps of the view as they look now: a line each, of text or
 * JSON, for who reads them as they come. */
void gs_findings_show(struct gs_findings *findings, FILE *out, enum gs_findings_format format);

/* Whether gs_findings_show() has written a line so far. */
bool gs_findings_was_shown(const struct gs_findings *findings);

/* The same, handed on; f is valid for the call. */
void gs_findings_report(struct gs_findings *findings, gs_explain_report_fn fn, void *ctx);

/* One finding as a line of JSON, without the end of the line: with its number first, unless that is 0. */
int gs_findings_put_line(const struct gs_findings *findings,
			 const struct gs_explain_finding *finding, uint64_t number, FILE *out);

/* The same in two lines for people, with the time of day and its end; while it holds a third one says what to do,
 * where that is known. */
void gs_findings_put_text(const struct gs_findings *findings,
			  const struct gs_explain_finding *finding, FILE *out);

/* No more comes. slot, run: the steps of the summary. 0 or -ENOMEM. */
int gs_findings_finish(struct gs_findings *findings, unsigned slot, uint32_t run,
		       struct gs_explain_result *ret);

/* The same with the steps that the view shows as those of the run. */
int gs_findings_finish_steps(struct gs_findings *findings, struct gs_explain_result *ret);

/* What the file begins with; 0: not known. */
uint64_t gs_findings_start_ns(const struct gs_findings *findings);
int64_t gs_findings_wall_of(const struct gs_findings *findings, uint64_t time_ns);

/* The list "findings" of a document, and one of it (key NULL: in a list). beside: with the places of
 * others in the list. recording: the file that commands name; NULL: none. */
void gs_findings_put(struct gs_doc *doc, const struct gs_findings *findings,
		     const struct gs_explain_result *result, const char *recording);

/* All that was found, hangs of the summary too, as one document. file: that was read; "": none. */
void gs_findings_doc(struct gs_doc *doc, const struct gs_findings *findings,
		     const struct gs_explain_result *result, const struct gs_summary *summary,
		     const char *file);

/* One of them, in a list, without what stands beside it. */
void gs_findings_put_one(struct gs_doc *doc, const struct gs_findings *findings,
			 const struct gs_explain_finding *finding);

/* Why, in a line for people, and what shows it; "cause: not known". Returns out. */
#define GS_FINDINGS_CAUSE_BYTES 512
const char *gs_findings_cause(const struct gs_explain_finding *finding, const char *recording,
			      char out[GS_FINDINGS_CAUSE_BYTES]);

#endif
