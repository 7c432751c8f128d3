#include "commands/trace/trace_attach.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/common/cli.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/companion/companion.h"
#include "sources/python_attach/python_attach.h"
#include "sources/unwind/python.h"

#define WAIT_NS      5000000000ull /* for the interpreter to come between two instructions */
#define ASKS_MAX     3             /* more, when there is no answer for so long */
#define AGAIN_NS     1000000000ull
#define TICK_MS      5
#define LEAVE_NS     1000000000ull /* likewise, at the end */
#define LEAVE_ASK_NS 20000000ull   /* a program that calls functions leaves before that */
#define SCRIPT_BYTES 4096

enum state {
	STATE_ASKED = 1,
	STATE_RUNS, /* the lines of ours: too late to take it back */
	STATE_INSIDE,
	STATE_OUT, /* probes see it */
};

struct target {
	pid_t pid;
	enum state state;
	bool is_known;                  /* trace_attach_next() has not said it yet */
	uint64_t ask_ns;                /* monotonic */
	unsigned n_asks;                /* again */
	struct gs_companion_late *late; /* borrowed from files; NULL: none */
	struct gs_python_attach attach;
	char script[PATH_MAX];
};

struct trace_attach {
	struct gs_companion_files *files;
	const char *library;
	struct trace_output *output;
	struct target targets[TRACE_MAX_PIDS];
	size_t n;
};

static void give_up(struct trace_attach *a, struct target *t, const char *why)
{
	gs_cli_print_message(
		"--inside=python: process %d %s: its Python functions are traced by probes",
		(int)t->pid, why);
	t->state = STATE_OUT;
	t->is_known = true;
	trace_output_give_python_up(a->output, t->pid);
}

/* --- asking --- */

static int put_script(struct target *t, const char *name, const struct gs_buf *script)
{
	return gs_companion_late_put(t->late, name, script->data, script->bytes);
}

static int put_files(struct trace_attach *a, struct target *t, bool follows, struct gs_err *why)
{
	GS_CLEANUP(gs_buf_fini)
	struct gs_buf begin = GS_BUF_INIT(3 * SCRIPT_BYTES), end = GS_BUF_INIT(SCRIPT_BYTES);
	const char *folder = gs_companion_late_folder(t->late);
	char library[PATH_MAX];
	int r = gs_companion_late_put_library(t->late, a->library, library, sizeof(library), why);

	if (r == 0)
		r = gs_python_attach_write_begin(&begin, library, folder, t->pid, follows);
	if (r == -EINVAL)
		return gs_err_set(why, r, "cannot be given a library in %s", library);
	if (r == 0)
		r = gs_python_attach_write_end(&end, t->pid);
	if (r == 0)
		r = put_script(t, GS_COMPANION_BEGIN_NAME, &begin);
	if (r == 0)
		r = put_script(t, GS_COMPANION_END_NAME, &end);
	snprintf(t->script, sizeof(t->script), "%s/" GS_COMPANION_BEGIN_NAME, folder);
	return r == 0 ? gs_companion_late_give(a->files, t->late) : r;
}

static int ask_process(struct trace_attach *a, struct target *t, uint64_t runtime, bool follows,
		       struct gs_err *why)
{
	int r = gs_python_attach_open(t->pid, runtime, &t->attach, why);

	if (r == 0)
		r = gs_companion_late_open(a->files, t->pid, follows, &t->late, why);
	if (r == 0)
		r = put_files(a, t, follows, why);
	t->ask_ns = gs_clock_mono_ns();
	if (r == 0)
		r = gs_python_attach_ask(&t->attach, t->script);
	if (r == -EBUSY)
		return gs_err_set(
			why, r,
			"has been asked by another tool (PEP 768) and has not answered yet");
	return r;
}

/* The address of the interpreter's variables, of versions whose stacks cannot be read, too. */
static int find_interpreter(struct gs_pythons *pythons, pid_t pid, uint64_t *ret_runtime,
			    struct gs_err *why)
{
	struct gs_py_proc proc = {0};
	int r = gs_pythons_find(pythons, pid, &proc, NULL);

	if (r == -ENOENT)
		return gs_err_set(why, r, "runs no Python");
	if (r == -EAGAIN)
		return gs_err_set(why, r, "has a Python that is still starting");
	if (proc.version && proc.version < GS_PYTHON_ATTACH_FIRST)
		return gs_err_set(
			why, -ENOTSUP,
			proc.version == GS_PYTHONS_OLD
				? "runs an old Python, which cannot be asked to load a library while it runs (" GS_PYTHON_ATTACH_NAMES
				  " can; others are seen from inside when they are started so: gpuscope trace --inside=python -- COMMAND)"
				: "runs Python 3.%u, which cannot be asked to load a library while it runs (" GS_PYTHON_ATTACH_NAMES
				  " can; others are seen from inside when they are started so: gpuscope trace --inside=python -- COMMAND)",
			proc.version & 0xffu);
	if (!proc.runtime)
		return r < 0 ? r : -ENOENT;
	*ret_runtime = proc.runtime;
	return 0;
}

static void start_target(struct trace_attach *a, struct target *t, struct gs_pythons *pythons,
			 bool follows)
{
	struct gs_err why = {{0}};
	uint64_t runtime = 0;
	int r = find_interpreter(pythons, t->pid, &runtime, &why);

	trace_output_expect_python(a->output, t->pid);
	t->state = STATE_ASKED;
	if (r == 0)
		r = ask_process(a, t, runtime, follows, &why);
	/* Tracing ends just now. */
	if (r == -ECANCELED) {
		t->state = STATE_OUT;
	} else if (r < 0) {
		char text[sizeof(why.text) + 32];

		if (why.text[0])
			snprintf(text, sizeof(text), "%s", why.text);
		else
			snprintf(text, sizeof(text), "cannot be asked (%s)", strerror(-r));
		give_up(a, t, text);
	}
}

void trace_attach_start(const struct trace_options *o, struct trace_inside *inside,
			struct gs_reader *reader, struct trace_output *output,
			struct trace_attach **ret_attach)
{
	const char *library = NULL;
	struct gs_companion_files *files = trace_inside_files(inside, &library);
	struct gs_pythons *pythons;
	struct trace_attach *a;

	if (!files || !o->n_pids)
		return;
	a = calloc(1, sizeof(*a));
	pythons = gs_pythons_new(reader);
	if (a && pythons) {
		*a = (struct trace_attach){.files = files, .library = library, .output = output};
		for (size_t i = 0; i < o->n_pids; i++) {
			struct target *t = &a->targets[a->n++];

			t->pid = o->pids[i];
			t->attach = (struct gs_python_attach)GS_PYTHON_ATTACH_INIT;
			start_target(a, t, pythons, o->follow);
		}
		*ret_attach = a;
		a = NULL;
	}
	gs_pythons_free(&pythons);
	free(a);
}

/* --- answers --- */

static void read_answer(struct trace_attach *a, struct target *t)
{
	uint64_t waited_ns = gs_clock_mono_ns() - t->ask_ns;
	char why[256], took[GS_FMT_BYTES];
	bool taken = false;

	if (trace_output_sees_python(a->output, t->pid)) {
		t->state = STATE_INSIDE;
		t->is_known = true;
		gs_log(GS_LOG_INFO, GS_LOG_PYTHON,
		       "process %d: Python functions are seen from inside, %s after it was asked",
		       (int)t->pid,
		       gs_fmt_ns(took, gs_companion_files_since(a->files, (uint32_t)t->pid,
								GS_COMPANION_PYTHON) -
					       t->ask_ns));
		return;
	}
	if (gs_companion_late_why(t->late, why, sizeof(why))) {
		give_up(a, t, why);
		return;
	}
	if (gs_python_attach_is_taken(&t->attach, &taken) == -ESRCH) {
		t->state = STATE_OUT;
		return;
	}
	/* Python loses its script where a signal's exception comes before the first instruction of it. */
	if (taken && t->state == STATE_ASKED && t->n_asks < ASKS_MAX &&
	    waited_ns > (t->n_asks + 1) * AGAIN_NS) {
		t->n_asks++;
		(void)gs_python_attach_ask(&t->attach, t->script);
		return;
	}
	if (waited_ns < WAIT_NS * (t->state == STATE_RUNS ? 2 : 1))
		return;
	if (t->state == STATE_ASKED && gs_python_attach_withdraw(&t->attach, &taken) == 0 &&
	    taken) {
		t->state = STATE_RUNS;
		return;
	}
	give_up(a, t,
		t->state == STATE_RUNS
			? "has not come to an end of loading the library within 10 s"
			: "has not reached a point within 5 s where Python lets others in, as its main thread waits in a function of C (the request is taken back)");
}

int trace_attach_tick(struct trace_attach *a, struct gs_uprobe *probe, int timeout)
{
	for (size_t i = 0; a && i < a->n; i++) {
		struct target *t = &a->targets[i];

		if (t->state == STATE_ASKED || t->state == STATE_RUNS)
			read_answer(a, t);
		if (t->is_known)
			gs_uprobe_attach_process(probe, t->pid);
		t->is_known = false;
		if ((t->state == STATE_ASKED || t->state == STATE_RUNS) && timeout > TICK_MS)
			timeout = TICK_MS;
	}
	return timeout;
}

void trace_attach_withdraw(struct trace_attach *a)
{
	bool taken;

	for (size_t i = 0; a && i < a->n; i++) {
		struct target *t = &a->targets[i];

		if (t->state == STATE_ASKED && gs_python_attach_withdraw(&t->attach, &taken) == 0 &&
		    !taken) {
			t->state = STATE_OUT;
			gs_cli_print_message(
				"--inside=python: process %d has not answered before the end: its Python functions were not seen",
				(int)t->pid);
		}
		/* One that is just being answered is left like the others. */
		if (t->state == STATE_ASKED || t->state == STATE_RUNS)
			t->state = STATE_INSIDE;
	}
}

/* --- the end --- */

static void sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000l}, NULL);
}

/* Of one that calls no function now: its interpreter is asked once more. */
static void ask_to_leave(struct trace_attach *a, struct target *t)
{
	char script[PATH_MAX];
	uint64_t end_ns = gs_clock_mono_ns() + LEAVE_NS;
	bool taken = true;

	snprintf(script, sizeof(script), "%s/" GS_COMPANION_END_NAME,
		 gs_companion_late_folder(t->late));
	if (gs_python_attach_ask(&t->attach, script) == 0)
		while (!gs_companion_files_has_left(a->files, t->pid) &&
		       gs_clock_mono_ns() < end_ns)
			sleep_ms(1);
	(void)gs_python_attach_withdraw(&t->attach, &taken);
	gs_python_attach_withdraw_children(&t->attach, script);
	if (!gs_companion_files_has_left(a->files, t->pid))
		gs_cli_print_message(
			"--inside=python: process %d has not reached a point where Python lets others in: nothing is recorded any more, and what is registered there goes with its next call of a Python function",
			(int)t->pid);
}

static void leave_target(struct trace_attach *a, struct target *t, uint64_t ask_ns)
{
	/* A child that was forked just then has the question, too. */
	if (t->late && t->script[0])
		gs_python_attach_withdraw_children(&t->attach, t->script);
	if (!t->late || t->state != STATE_INSIDE)
		return;
	while (!gs_companion_files_has_left(a->files, t->pid) && gs_clock_mono_ns() < ask_ns)
		sleep_ms(1);
	if (!gs_companion_files_has_left(a->files, t->pid))
		ask_to_leave(a, t);
}

void trace_attach_free(struct trace_attach **ref)
{
	struct trace_attach *a = *ref;
	uint64_t ask_ns = gs_clock_mono_ns() + LEAVE_ASK_NS;

	if (!a)
		return;
	trace_attach_withdraw(a);
	for (size_t i = 0; i < a->n; i++)
		leave_target(a, &a->targets[i], ask_ns);
	for (size_t i = 0; i < a->n; i++)
		gs_python_attach_close(&a->targets[i].attach);
	free(a);
	*ref = NULL;
}
