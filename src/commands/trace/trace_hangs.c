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
#include "commands/trace_output/trace_hang.h"
#include "commands/trace_output/trace_output.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "sources/thread_stack/thread_stack.h"

#define N_SHOWN     16 /* ranks of a finding */
#define N_FRAMES    8  /* of a stack */
#define STACK_BYTES 2048

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

static void report_rank(const struct gs_hang_found *f, size_t i,
			const struct trace_hang_stacks *stacks)
{
	char text[GS_HANG_TEXT_BYTES];

	gs_cli_say("  %s", gs_hang_rank_text(f, &f->ranks[i], text));
	if (stacks->python)
		gs_cli_say("    Python: %s", stacks->python);
}

static void report_found(struct trace_hangs *h, const struct gs_hang_found *f)
{
	size_t n = f->n_seen < N_SHOWN ? f->n_seen : N_SHOWN;
	struct trace_hang_stacks stacks[N_SHOWN] = {0};
	char text[GS_HANG_TEXT_BYTES];

	/* First all stacks, which are to be of one moment. */
	for (size_t i = 0; i < n; i++)
		if (f->ranks[i].state != GS_HANG_ENDED)
			stacks[i].python = read_python(h, &f->ranks[i]);
	gs_cli_say("%s: %s", f->kind == GS_HANG_WAITS ? "hang" : "mismatch", gs_hang_text(f, text));
	for (size_t i = 0; i < n; i++)
		report_rank(f, i, &stacks[i]);
	if (f->n_seen > n)
		gs_cli_say("  and %zu more ranks", f->n_seen - n);
	trace_output_hang(h->output, f, stacks, n);
	for (size_t i = 0; i < n; i++)
		free(stacks[i].python);
}

static void report_ended(struct trace_hangs *h, const struct gs_hang_found *f)
{
	char waited[GS_FMT_BYTES];

	trace_output_hang(h->output, f, NULL, 0);
	if (!f->has_arrived)
		return; /* what became of them is in the summary */
	gs_cli_say(
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
