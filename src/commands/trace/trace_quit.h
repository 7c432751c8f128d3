/*
 * Signals while a trace ends: the first one only ended it, and its files and summary are being written. Ctrl-C once
 * more ends the program at once, whatever it waits for, and says what is written.
 */
#ifndef GS_COMMANDS_TRACE_TRACE_QUIT_H
#define GS_COMMANDS_TRACE_TRACE_QUIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum trace_quit_stage {
	TRACE_QUIT_PROFILERS, /* profilers of traced processes hand over their records */
	TRACE_QUIT_FILES,     /* the last events go into files */
	TRACE_QUIT_SUMMARY,   /* files are written */
	TRACE_QUIT_WRITTEN,   /* the summary, too; probes are removed */
};

struct trace_quit {
	_Atomic enum trace_quit_stage stage;
	atomic_uint n_signals;    /* since it began */
	atomic_bool gives_up;     /* profilers are not to be waited for any more */
	atomic_bool is_over;      /* the thread ends */
	unsigned n_before;        /* signals that ended the trace */
	const char *const *files; /* that are written; borrowed */
	unsigned n_files;
	pthread_t thread;
	bool has_thread;
};

/* SIGINT, SIGTERM and SIGHUP are blocked in all threads; none is read elsewhere until the end. Without memory for
 * a thread they stay where they are. */
void trace_quit_begin(struct trace_quit *quit, unsigned n_before, const char *const *files,
		      unsigned n_files);
void trace_quit_enter(struct trace_quit *quit, enum trace_quit_stage stage);

/* Signals so far; 0 where it has not begun. Of any thread. */
unsigned trace_quit_n_signals(const struct trace_quit *quit);

/* Signals are no longer waited for here; nothing happens where it has not begun. */
void trace_quit_end(struct trace_quit *quit);

#endif
