/* A run in the making, for tests of the rules about traced programs. */
#ifndef TRACE_RUN_H
#define TRACE_RUN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "analysis/rules/trace.h"
#include "model/trace/class.h"
#include "model/trace/event.h"

#define MS  1000000ull
#define RUN 10000 /* ms of every run here */

/* A run in the making: its first thread sets the pace. */
struct run {
	struct gs_summary *s;
	struct gs_account_thread threads[16];
	struct gs_process_summary process;
	struct gs_thread_summary made[2]; /* threads that made calls */
	struct gs_function_stats functions[2][4];
	struct gs_open_call open;
};

static inline GS_UNUSED void run_begin(struct run *r)
{
	memset(r, 0, sizeof(*r));
	r->s = calloc(1, sizeof(*r->s));
	assert_non_null(r->s);
	r->s->end_reason = "the command ended";
	r->s->duration_ns = RUN * MS;
	r->s->account.threads = r->threads;
	r->s->processes = &r->process;
	r->process.pid = 100;
	r->process.threads = r->made;
}

static inline GS_UNUSED struct gs_account_thread *add_thread(struct run *r, uint32_t pid,
							     uint32_t tid, uint32_t parent_pid)
{
	struct gs_account_thread *t = &r->threads[r->s->account.n_threads++];

	*t = (struct gs_account_thread){
		.pid = pid, .tid = tid, .parent_pid = parent_pid, .comm = "app", .process = "app"};
	t->critical = r->s->account.n_threads == 1;
	return t;
}

static inline GS_UNUSED void spend(struct gs_account_thread *t, unsigned state, unsigned inside,
				   uint64_t ms)
{
	t->time_ns[state][inside] += ms * MS;
	t->wall_ns += ms * MS;
}

/* What is left of the run, on the processor. */
static inline GS_UNUSED void rest(struct gs_account_thread *t, unsigned state)
{
	spend(t, state, GS_INSIDE_NONE, RUN - t->wall_ns / MS);
}

static inline GS_UNUSED void add_calls(struct run *r, unsigned thread, uint16_t layer,
				       uint16_t func_class, const char *name, uint64_t calls,
				       uint64_t total_ms)
{
	struct gs_thread_summary *t = &r->made[thread];
	struct gs_function_stats *f = &r->functions[thread][t->functions.n++];

	*f = (struct gs_function_stats){.layer = layer,
					.func_class = func_class,
					.name = name,
					.calls = calls,
					.total_ns = total_ms * MS};
	t->tid = r->threads[thread].tid;
	t->functions.items = r->functions[thread];
	if (r->process.n_threads <= thread)
		r->process.n_threads = thread + 1;
	r->s->n_processes = 1;
	if (func_class == GS_CLASS_LAUNCH)
		r->threads[thread].launches += calls;
}

static inline GS_UNUSED void expect(struct run *r, const char *class_name)
{
	gs_verdict_trace(r->s);
	assert_string_equal(r->s->verdict.class_name, class_name);
	assert_true(r->s->verdict.evidence && r->s->verdict.evidence[0]);
	assert_true(r->s->verdict.advice && r->s->verdict.command);
	assert_true(r->s->verdict.confidence <= 0.95);
	assert_int_equal(r->s->verdict.is_unknown, r->s->verdict.confidence == 0);
	gs_summary_free(&r->s);
}

#endif
