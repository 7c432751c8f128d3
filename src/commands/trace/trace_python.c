/*
 * Finds the Python interpreters of the processes that come and go, so that their stacks can be read. Control thread.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "commands/trace/trace.h"
#include "sources/unwind/python.h"

#define N_WAITING 256
/* After 1, 2, 4, 8 and then each 16 ms for a second: lines that run before it is found are not seen.
 * After that each wait is twice as long, for some seconds. */
#define FIRST_TRY_NS 1000000ull
#define QUICK_SHIFT  4
#define QUICK_TRIES  64
#define MAX_TRIES    (QUICK_TRIES + 8)

struct waiting {   /* a process whose interpreter is not in place yet */
	pid_t pid; /* 0: free */
	unsigned n_tries;
	uint64_t next_ns;
};

struct trace_python {
	struct gs_pythons *pythons;
	struct gs_uprobe *probe;     /* borrowed */
	struct trace_output *output; /* borrowed */
	struct waiting waiting[N_WAITING];
	unsigned n_found;
	bool has_reported;
	uint16_t reported; /* version of the last interpreter that cannot be read */
};

void trace_python_calls(const struct trace_options *o, struct gs_uprobe_options *po)
{
	/* Other probes in the interpreter take those of calls along: they are left out then. */
	po->python_calls =
		o->python_calls && !(o->inside_python && (o->python_gc || o->python_gil));
	memcpy(po->py_globs, o->python_globs, sizeof(po->py_globs));
	po->n_py_globs = o->n_python_globs;
	for (unsigned i = 0; i < GS_PYCALL_N; i++)
		gs_python_layout((uint16_t)(GS_PYCALL_FIRST + i), &po->py_layouts[i]);
}

int trace_python_new(const struct trace_options *options, struct gs_uprobe *probe,
		     struct gs_reader *reader, struct trace_output *output,
		     struct trace_python **ret)
{
	struct trace_python *p;

	if (!options->py_stack_at)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->probe = probe;
	p->output = output;
	p->pythons = gs_pythons_new(reader);
	if (!p->pythons) {
		free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void trace_python_free(struct trace_python **ref)
{
	if (!*ref)
		return;
	gs_pythons_free(&(*ref)->pythons);
	free(*ref);
	*ref = NULL;
}

unsigned trace_python_n_found(const struct trace_python *p)
{
	return p ? p->n_found : 0;
}

/* Reported once for many processes of one program, which come one after the other. */
static void report_unreadable(struct trace_python *p, uint16_t version, const char *text)
{
	struct gs_attach a = {
		.path = "python", .reason = text, .status = -ENOTSUP, .layer = GS_LAYER_PYTHON};

	gs_log(GS_LOG_INFO, GS_LOG_PYTHON, "%s", text);
	if (p->has_reported && p->reported == version)
		return;
	p->has_reported = true;
	p->reported = version;
	trace_output_attach(p->output, &a);
}

/* 0: done with it; -EAGAIN: to be asked again. */
static int find_python(struct trace_python *p, pid_t pid)
{
	struct gs_err err = {{0}};
	struct gs_py_proc python = {0};
	uint64_t image = 0;
	int r = gs_pythons_find(p->pythons, pid, &python, &err);

	if (r == -EAGAIN)
		return r;
	if (r == -ENOENT) {
		/* What was known is of the program before. */
		gs_uprobe_python(p->probe, pid, NULL);
	} else if (r == -ENOTSUP) {
		report_unreadable(p, python.version, gs_err_text(&err, r));
	} else if (r == 0) {
		r = gs_uprobe_python(p->probe, pid, &python);
		/* It ran exec() meanwhile: what was found is of the program before. */
		if (r == 0 && gs_python_image(pid, &image) != -ESRCH && image != python.image) {
			gs_uprobe_python(p->probe, pid, NULL);
			return -EAGAIN;
		}
		p->n_found++;
		trace_output_python(p->output, pid);
		gs_log(GS_LOG_INFO, GS_LOG_PYTHON,
		       "process %d: Python 3.%u%s at %#llx, stacks can be read%s%s", (int)pid,
		       python.version & 0xffu, python.is_free_threaded ? "t" : "",
		       (unsigned long long)python.runtime, r < 0 ? ": " : "",
		       r < 0 ? strerror(-r) : "");
	}
	return 0;
}

static uint64_t wait_ns(unsigned n_tries)
{
	unsigned shift = n_tries < QUICK_SHIFT ? n_tries : QUICK_SHIFT;

	return FIRST_TRY_NS << (n_tries > QUICK_TRIES ? shift + n_tries - QUICK_TRIES : shift);
}

static void wait_for(struct trace_python *p, pid_t pid)
{
	struct waiting *at = NULL;

	for (unsigned i = 0; i < N_WAITING; i++) {
		struct waiting *w = &p->waiting[i];

		if (w->pid == pid) {
			at = w;
			break;
		}
		if (!w->pid && !at)
			at = w;
	}
	if (at)
		*at = (struct waiting){.pid = pid, .next_ns = gs_clock_mono_ns() + FIRST_TRY_NS};
}

void trace_python_find(struct trace_python *p, pid_t pid)
{
	if (p && find_python(p, pid) == -EAGAIN)
		wait_for(p, pid);
}

void trace_python_find_all(struct trace_python *p)
{
	DIR *proc = p ? opendir("/proc") : NULL;
	struct dirent *e;

	while (!gs_guard_stopped() && proc && (e = readdir(proc)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]))
			trace_python_find(p, (pid_t)atoi(e->d_name));
	if (proc)
		closedir(proc);
}

int trace_python_tick(struct trace_python *p)
{
	uint64_t now = gs_clock_mono_ns(), next = UINT64_MAX;

	for (unsigned i = 0; p && i < N_WAITING; i++) {
		struct waiting *w = &p->waiting[i];

		if (!w->pid)
			continue;
		if (now >= w->next_ns) {
			w->next_ns = now + wait_ns(++w->n_tries);
			if (w->n_tries > MAX_TRIES || find_python(p, w->pid) != -EAGAIN) {
				*w = (struct waiting){0};
				continue;
			}
		}
		if (w->next_ns < next)
			next = w->next_ns;
	}
	return next == UINT64_MAX ? -1 : next > now ? (int)((next - now) / 1000000 + 1) : 0;
}
