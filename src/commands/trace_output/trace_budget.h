/* What tracing costs the traced program: shown live and at the end, kept within --max-overhead, and
 * foretold by --estimate. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_BUDGET_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "commands/trace_options/trace_options.h"
#include "core/base/err.h"
#include "sources/uprobe/uprobe.h"

struct trace_budget;

/* Measures what a hit costs here. types: the kernel's, borrowed; NULL: they are read. Without
 * --max-overhead and --estimate *ret_budget is NULL where that cannot be done. 0 or negative errno. */
int trace_budget_new(const struct trace_options *options, const struct gs_func_set *funcs,
		     struct gs_kernel_types *types, struct trace_budget **ret_budget,
		     struct gs_err *err);
void trace_budget_free(struct trace_budget **budget);

/* All may be given NULL. Before the first event: the id that all Python functions count as. */
void trace_budget_set_python(struct trace_budget *budget, unsigned func);

/* Of any thread: a probe of the function was placed. */
void trace_budget_function(struct trace_budget *budget, unsigned func, const struct gs_hit *hit);

/* Of the consumer thread: */
void trace_budget_event(struct trace_budget *budget, const struct gs_event *event);
void trace_budget_hits(struct trace_budget *budget, const struct gs_thread *thread,
		       const struct gs_hits *hits);
void trace_budget_cpu(struct trace_budget *budget, const struct gs_thread *thread, uint64_t cpu_ns);
void trace_budget_user(struct trace_budget *budget, const struct gs_user_sum *sum);

/* An interval is over: makes the steps that --max-overhead asks for, and reports them (none with
 * probe NULL). The first one starts the clock. */
void trace_budget_tick(struct trace_budget *budget, struct gs_uprobe *probe);

/* Of any thread: false while a plan that is to wait for the first call has seen none. */
bool trace_budget_has_begun(const struct trace_budget *budget);

/* Of any thread: the largest share of a thread, a process or all in the last interval; negative:
 * not known. */
double trace_budget_ratio(const struct trace_budget *budget);

/* Of the consumer thread: the share of all in the run so far; negative: not known yet. */
double trace_budget_mean_ratio(const struct trace_budget *budget);

/* What a call costs as the run begins, and what a single-stepped probe costs more. */
double trace_budget_call_cost_ns(const struct trace_budget *budget);
double trace_budget_step_ns(const struct trace_budget *budget);

/* At the end: says when the limit was not kept; the plan. */
void trace_budget_report(const struct trace_budget *budget);
int trace_budget_plan(const struct trace_budget *budget, FILE *out,
		      enum gs_report_summary_format format);

#endif
