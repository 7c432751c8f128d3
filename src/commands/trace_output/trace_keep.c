#include "commands/trace_output/trace_keep.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "pipeline/recording/keep.h"

#define FILES_MAX 64 /* of one run, that of the end beside them; the oldest goes */
#define WHY_BYTES 200

struct trace_keep {
	const struct trace_options *options;
	bool is_private;
	struct gs_keep *keep;
	char why[WHY_BYTES];          /* "": no reason */
	bool is_urgent;               /* a user asks: now */
	uint64_t next_ns;             /* not before then for a reason of its own; boot clock */
	char *files[FILES_MAX];       /* owned; a ring of what was written */
	unsigned n_files;             /* so far */
	struct trace_keep_copy *copy; /* owned; to be taken */
};

struct trace_keep_copy {
	struct gs_keep *keep; /* owned */
	uint64_t end_ns;
	bool is_private, is_quiet;
	char why[WHY_BYTES];
	char path[4096];
};

int trace_keep_new(const struct trace_options *options, bool is_private, struct trace_keep **ret,
		   struct gs_err *err)
{
	const struct gs_keep_options o = {.keep_ns = options->keep_last_ns,
					  .max_bytes = options->keep_bytes};
	struct trace_keep *k;
	int r;

	if (!options->keep_last_ns)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->options = options;
	k->is_private = is_private;
	r = gs_keep_new(&o, &k->keep);
	if (r < 0)
		trace_keep_free(&k);
	*ret = k;
	return r < 0 ? gs_err_set(err, r, "--keep-last: %s", strerror(-r)) : 0;
}

static void copy_free(struct trace_keep_copy **copy)
{
	if (!*copy)
		return;
	gs_keep_free(&(*copy)->keep);
	free(*copy);
	*copy = NULL;
}

void trace_keep_free(struct trace_keep **ref)
{
	struct trace_keep *k = *ref;

	if (!k)
		return;
	copy_free(&k->copy);
	gs_keep_free(&k->keep);
	for (unsigned i = 0; i < FILES_MAX; i++)
		free(k->files[i]);
	free(k);
	*ref = NULL;
}

const struct gs_sink *trace_keep_sink(struct trace_keep *k)
{
	return gs_keep_sink(k->keep);
}

/* --- reasons --- */

void trace_keep_ask(struct trace_keep *k, enum trace_keep_on on, const char *why)
{
	if (!k || (on && !(k->options->keep_on & on)))
		return;
	if (!k->why[0] || (!on && !k->is_urgent))
		snprintf(k->why, sizeof(k->why), "%s", why);
	k->is_urgent |= !on;
}

/* Others end programs that are asked to end. */
static bool is_bad_end(unsigned number)
{
	static const int numbers[] = {SIGKILL, SIGSEGV, SIGBUS,  SIGABRT, SIGFPE,
				      SIGILL,  SIGSYS,  SIGTRAP, SIGXCPU};

	for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
		if ((unsigned)numbers[i] == number)
			return true;
	return false;
}

/* The command, or a process that was named; not one of those that they started: a shell's test fails, and nothing
 * is wrong. */
static bool is_chosen(const struct trace_options *o, const struct gs_account_reading *r)
{
	for (size_t i = 0; i < o->n_pids; i++)
		if ((uint32_t)o->pids[i] == r->pid)
			return true;
	return o->command && r->parent_pid == (uint32_t)getpid();
}

void trace_keep_ask_ended(struct trace_keep *k, const struct gs_account_reading *r)
{
	char why[WHY_BYTES];

	if (!k)
		return;
	if (is_bad_end(r->end_signal))
		snprintf(why, sizeof(why), "process %u was killed by signal %u (%s)", r->pid,
			 r->end_signal, strsignal(r->end_signal));
	else if (!r->end_signal && r->exit_status && r->tid == r->pid && is_chosen(k->options, r))
		snprintf(why, sizeof(why), "process %u ended with exit status %u", r->pid,
			 r->exit_status);
	else
		return;
	trace_keep_ask(k, TRACE_KEEP_DEATH, why);
}

void trace_keep_ask_finding(void *ctx, const struct gs_explain_finding *f)
{
	char why[WHY_BYTES];

	if (f->ended_ns)
		return;
	snprintf(why, sizeof(why), "finding: %s of %s%s%.64s", f->begun.detector,
		 gs_explain_subject_name(f->subject), f->name[0] ? " " : "", f->name);
	trace_keep_ask(ctx, TRACE_KEEP_FINDING, why);
}

void trace_keep_ask_signal(struct trace_keep *k, const struct signalfd_siginfo *s)
{
	static const char head[] = "finding: ";
	char why[WHY_BYTES];

	snprintf(why, sizeof(why), "%s", head);
	if (s->ssi_signo == SIGHUP)
		trace_keep_ask(k, 0, "SIGHUP");
	else if (s->ssi_code == SI_QUEUE &&
		 gs_explain_number_text(s->ssi_int, why + strlen(head), sizeof(why) - strlen(head)))
		trace_keep_ask(k, 0, why);
	else
		trace_keep_ask(k, 0, "requested by a user (SIGUSR1)");
}

/* --- files --- */

/* "run.gst" at that time: "run.20261129T053301.123Z.gst". */
static void name_file(const char *path, char *out, size_t bytes)
{
	const char *dot = strrchr(path, '.');
	uint64_t wall_ns = gs_clock_wall_ns();
	time_t s = (time_t)(wall_ns / 1000000000);
	char stamp[32] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
	snprintf(out, bytes, "%.*s.%s.%03uZ%s", (int)(dot - path), path, stamp,
		 (unsigned)(wall_ns / 1000000 % 1000), dot);
}

/* One more: the oldest of as many as there may be goes. */
static void note_file(struct trace_keep *k, const char *path)
{
	char **place = &k->files[k->n_files++ % FILES_MAX];

	if (*place && unlink(*place) < 0 && errno != ENOENT)
		gs_cli_print_message("--keep-last: cannot remove %s: %s", *place, strerror(errno));
	free(*place);
	*place = strdup(path);
}

/* A copy of what there is, for a file of that name; NULL: no memory, said. */
static struct trace_keep_copy *copy_now(struct trace_keep *k, uint64_t now_ns, const char *why)
{
	struct trace_keep_copy *c = calloc(1, sizeof(*c));
	int r = c ? gs_keep_copy(k->keep, &c->keep) : -ENOMEM;

	if (r < 0) {
		gs_cli_print_message("--keep-last: nothing is written: %s", strerror(-r));
		free(c);
		return NULL;
	}
	c->end_ns = now_ns;
	c->is_private = k->is_private;
	c->is_quiet = k->options->quiet;
	snprintf(c->why, sizeof(c->why), "%s", why);
	return c;
}

void trace_keep_tick(struct trace_keep *k, uint64_t now_ns)
{
	if (!k || !k->why[0] || k->copy || (!k->is_urgent && now_ns < k->next_ns))
		return;
	k->copy = copy_now(k, now_ns, k->why);
	if (k->copy) {
		name_file(k->options->outputs[0], k->copy->path, sizeof(k->copy->path));
		note_file(k, k->copy->path);
	}
	k->next_ns = now_ns + k->options->keep_last_ns;
	k->why[0] = '\0';
	k->is_urgent = false;
}

struct trace_keep_copy *trace_keep_take(struct trace_keep *k)
{
	return k ? gs_take(k->copy) : NULL;
}

static void report_written(const struct trace_keep_copy *c, const struct gs_keep_file *file)
{
	char time[GS_FMT_BYTES], calls[GS_FMT_BYTES], before[GS_FMT_BYTES];

	if (file->is_short)
		gs_cli_print_message(
			"%s holds the last %s only: the memory (--keep-memory) held no more",
			c->path, gs_fmt_ns(time, file->end_ns - file->from_ns));
	if (c->is_quiet)
		return;
	gs_cli_print_message("wrote %s: the last %s, with %s calls (%s before are not in it); %s",
			     c->path, gs_fmt_ns(time, file->end_ns - file->from_ns),
			     gs_fmt_count(calls, file->n_calls),
			     gs_fmt_count(before, file->n_before), c->why);
}

int trace_keep_write(struct trace_keep_copy **ref)
{
	struct trace_keep_copy *c = *ref;
	struct gs_keep_file file;
	struct gs_err err = {{0}};
	int r = gs_keep_write(c->keep, c->path, c->end_ns, c->why, c->is_private, &file, &err);

	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(&err, r));
	} else {
		/* The file has it, too, but deep inside: lists of files show this one. */
		(void)setxattr(c->path, GS_OUTPUT_REASON_XATTR, c->why, strlen(c->why), 0);
		report_written(c, &file);
	}
	copy_free(ref);
	return r;
}

int trace_keep_end(struct trace_keep *k)
{
	int r = 0, last = 0;

	if (!k)
		return 0;
	if (k->copy)
		r = trace_keep_write(&k->copy);
	if (k->options->keep_on & TRACE_KEEP_END) {
		k->copy = copy_now(k, gs_clock_boot_ns(), "tracing ended");
		if (k->copy)
			snprintf(k->copy->path, sizeof(k->copy->path), "%s",
				 k->options->outputs[0]);
	} else {
		k->next_ns = 0; /* there will be no later time for it */
		trace_keep_tick(k, gs_clock_boot_ns());
	}
	if (k->copy)
		last = trace_keep_write(&k->copy);
	return r < 0 ? r : last;
}
