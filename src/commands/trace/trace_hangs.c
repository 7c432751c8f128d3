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

/* "step (train.py:31) < main (train.py:60)"; false: it runs no Python that can be read. */
static bool read_python(struct trace_hangs *h, const struct gs_hang_rank *r, char *out,
			size_t bytes)
{
	GS_FREE struct gs_thread_stack_python *frames = calloc(N_FRAMES, sizeof(*frames));
	struct gs_py_proc proc = {0};
	struct gs_err err = {{0}};
	size_t at = 0;
	int n = -ENOMEM;

	if (frames && gs_pythons_find(h->pythons, (pid_t)r->pid, &proc, &err) == 0)
		n = gs_thread_stack_python((pid_t)r->pid, r->tid ? r->tid : r->pid, &proc, frames,
					   N_FRAMES);
	for (int i = 0; i < n && at < bytes; i++)
		at += (size_t)snprintf(out + at, bytes - at, "%s%s (%s:%u)", i ? " < " : "",
				       frames[i].name, frames[i].file, frames[i].line);
	return n > 0;
}

static void report_rank(struct trace_hangs *h, const struct gs_hang_found *f,
			const struct gs_hang_rank *r)
{
	char text[GS_HANG_TEXT_BYTES], stack[STACK_BYTES];

	gs_cli_say("  %s", gs_hang_rank_text(f, r, text));
	if (r->state == GS_HANG_ENDED)
		return;
	if (read_python(h, r, stack, sizeof(stack)))
		gs_cli_say("    Python: %s", stack);
}

static void report_found(struct trace_hangs *h, const struct gs_hang_found *f)
{
	char text[GS_HANG_TEXT_BYTES];

	gs_cli_say("%s: %s", f->kind == GS_HANG_WAITS ? "hang" : "mismatch", gs_hang_text(f, text));
	for (size_t i = 0; i < f->n_seen && i < N_SHOWN; i++)
		report_rank(h, f, &f->ranks[i]);
	if (f->n_seen > N_SHOWN)
		gs_cli_say("  and %zu more ranks", f->n_seen - N_SHOWN);
}

static void report_ended(const struct gs_hang_found *f)
{
	char waited[GS_FMT_BYTES];

	if (!f->has_arrived)
		return; /* what became of them is in the summary */
	gs_cli_say("hang over: all ranks have arrived at collective %llu of communicator %016llx "
		   "after %s",
		   (unsigned long long)f->call, (unsigned long long)f->id,
		   gs_fmt_ns(waited, f->ended_ns - f->since_ns));
}

void trace_hangs_report(struct trace_hangs *h)
{
	struct gs_hang_found found;

	while (trace_output_next_hang(h->output, &found)) {
		trace_live_clear(h->live);
		if (found.ended_ns)
			report_ended(&found);
		else
			report_found(h, &found);
		free(found.ranks);
	}
}
