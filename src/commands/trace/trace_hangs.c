/*
 * Messages about hangs: the finding, then what its ranks do, those that matter first. Stacks are read
 * from outside while the ranks wait, and nothing of them is stopped.
 */
#include "commands/trace/trace_hangs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/hang/hang.h"
#include "commands/common/cli.h"
#include "commands/trace/trace_live.h"
#include "output/hang_watch/hang_watch.h"
#include "commands/trace_output/trace_output.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/reader/reader.h"
#include "sources/thread_stack/thread_stack.h"

#define N_SHOWN        16 /* ranks of a finding */
#define N_FRAMES       8  /* of a Python stack */
#define N_NATIVE       16 /* of a native one */
#define NATIVE_LATE_MS 5000
#define STACK_BYTES    2048

struct trace_hangs {
	struct gs_pythons *pythons;  /* owned */
	struct trace_output *output; /* borrowed */
	struct trace_live *live;     /* borrowed */
};

struct trace_hangs *trace_hangs_new(struct gs_reader *reader, struct trace_output *output,
				    struct trace_live *live)
{
	struct trace_hangs *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->output = output;
	h->live = live;
	h->pythons = gs_pythons_new(reader);
	if (!h->pythons)
		trace_hangs_free(&h);
	return h;
}

void trace_hangs_free(struct trace_hangs **hangs)
{
	if (!*hangs)
		return;
	gs_pythons_free(&(*hangs)->pythons);
	free(*hangs);
	*hangs = NULL;
}

/* "step (train.py:31) < main (train.py:60)", the caller's to free; NULL: it runs no Python that can be read. */
static char *read_python(struct trace_hangs *h, const struct gs_hang_rank *r)
{
	GS_FREE struct gs_thread_stack_python *frames = calloc(N_FRAMES, sizeof(*frames));
	struct gs_py_proc proc = {0};
	struct gs_err err = {{0}};
	char stack[STACK_BYTES];
	size_t at = 0;
	int n = -ENOMEM;

	if (frames && gs_pythons_find(h->pythons, (pid_t)r->pid, &proc, &err) == 0)
		n = gs_thread_stack_python((pid_t)r->pid, r->tid ? r->tid : r->pid, &proc, frames,
					   N_FRAMES);
	for (int i = 0; i < n && at < sizeof(stack); i++)
		at += (size_t)snprintf(stack + at, sizeof(stack) - at, "%s%s (%s:%u)",
				       i ? " < " : "", frames[i].name, frames[i].file,
				       frames[i].line);
	return n > 0 ? strdup(stack) : NULL;
}

/* "poll < wait_for_peer < main", likewise; NULL: it cannot be read. */
static char *read_native(struct gs_native *native, const struct gs_hang_rank *r)
{
	GS_FREE struct gs_native_stack *stack = calloc(1, sizeof(*stack));
	char text[STACK_BYTES], name[512];
	size_t at = 0;

	if (!stack || gs_thread_stack_native(native, r->pid, r->tid ? r->tid : r->pid, stack) < 0)
		return NULL;
	for (unsigned i = 0; i < stack->n_frames && i < N_NATIVE && at < sizeof(text); i++) {
		if (!gs_native_name(native, &stack->frames[i], name, sizeof(name)))
			snprintf(name, sizeof(name), "%.400s+0x%llx",
				 gs_native_path(native, stack->frames[i].file),
				 (unsigned long long)stack->frames[i].file_off);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? " < " : "", name);
	}
	return at ? strdup(text) : NULL;
}

/* Names of functions take a reader of files, which is there for this alone, and the longest time: so these
 * stacks are said last. */
static void report_native(const struct gs_hang_found *f, struct gs_hang_watch_stacks *stacks,
			  size_t n)
{
	const struct gs_reader_options options = {
		.name = "stacks of ranks", .keeps_state = true, .late_ms = NATIVE_LATE_MS};
	struct gs_reader *reader = NULL;
	struct gs_native *native = NULL;
	struct gs_err err = {{0}};

	if (gs_reader_new(&options, &reader, &err) < 0 || gs_native_new(reader, &native) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_PROCESSES, "no native stacks of ranks: %s",
		       gs_err_text(&err, -ENOMEM));
	for (size_t i = 0; native && i < n; i++) {
		if (f->ranks[i].state == GS_HANG_ENDED || !f->ranks[i].pid)
			continue;
		stacks[i].native = read_native(native, &f->ranks[i]);
		if (stacks[i].native)
			gs_cli_print_message("  rank %d, native: %s", f->ranks[i].rank,
					     stacks[i].native);
	}
	gs_native_free(&native);
	gs_reader_free(&reader);
}

static void report_found(struct trace_hangs *h, const struct gs_hang_found *f)
{
	size_t n = f->n_seen < N_SHOWN ? f->n_seen : N_SHOWN;
	struct gs_hang_watch_stacks stacks[N_SHOWN] = {0};
	char text[GS_HANG_TEXT_BYTES];

	for (size_t i = 0; i < n; i++)
		if (f->ranks[i].state != GS_HANG_ENDED && f->ranks[i].pid)
			stacks[i].python = read_python(h, &f->ranks[i]);
	gs_cli_print_message("%s: %s", f->kind == GS_HANG_DIFFERS ? "mismatch" : "hang",
			     gs_hang_text(f, text));
	for (size_t i = 0; i < n; i++) {
		gs_cli_print_message("  %s", gs_hang_rank_text(f, &f->ranks[i], text));
		if (stacks[i].python)
			gs_cli_print_message("    Python: %s", stacks[i].python);
	}
	if (f->n_seen > n)
		gs_cli_print_message("  and %zu more ranks", f->n_seen - n);
	report_native(f, stacks, n);
	trace_output_hang(h->output, f, stacks, n);
	trace_output_ask_keep(h->output, TRACE_KEEP_HANG, gs_hang_text(f, text));
	for (size_t i = 0; i < n; i++) {
		free(stacks[i].python);
		free(stacks[i].native);
	}
}

static void report_ended(struct trace_hangs *h, const struct gs_hang_found *f)
{
	char waited[GS_FMT_BYTES];

	trace_output_hang(h->output, f, NULL, 0);
	if (!f->has_arrived)
		return; /* what became of them is in the summary */
	if (f->kind == GS_HANG_JOINS) {
		gs_cli_print_message("hang over: the %d ranks have made the communicator after %s",
				     f->n_ranks, gs_fmt_ns(waited, f->ended_ns - f->since_ns));
		return;
	}
	gs_cli_print_message(
		"hang over: all ranks have arrived at collective %llu of communicator 0x%llx after %s",
		(unsigned long long)f->call, (unsigned long long)f->id,
		gs_fmt_ns(waited, f->ended_ns - f->since_ns));
}

void trace_hangs_report(struct trace_hangs *h)
{
	struct gs_hang_found found;

	while (trace_output_next_hang(h->output, &found)) {
		trace_live_clear(h->live);
		if (found.ended_ns)
			report_ended(h, &found);
		else
			report_found(h, &found);
		free(found.ranks);
	}
}
