/*
 * `gpuscope top`: the full-screen view of one machine. What it shows comes from a source, a table
 * of functions, so that this machine, another one and a recorded file have the same screen.
 *
 * The screen is made in two steps: pure functions lay out cells from snapshots, history and what
 * the user chose (screen.h, layout.h), and one file puts cells on a terminal (term.c).
 */
#ifndef GS_OUTPUT_TUI_TUI_H
#define GS_OUTPUT_TUI_TUI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/node/host.h"
#include "model/node/traffic.h"

/* Outcomes of next(). */
enum gs_tui_next {
	GS_TUI_MOMENT = 0,
	GS_TUI_LATER = 1, /* nothing new yet */
	GS_TUI_END = 2,   /* of a recording; one that still grows may go on */
};

#define GS_TUI_FINDINGS_MAX 16 /* the newest */

struct gs_tui_finding {   /* texts for people, whole */
	char since[32];   /* time of day */
	char text[256];   /* what was found */
	char cause[512];  /* why, with the evidence, and what shows it */
	char advice[256]; /* what to do; "" only the cause says that */
};

#define GS_TUI_PEERS_MAX 32 /* the busiest */
#define GS_TUI_WHY_BYTES 160

struct gs_tui_traffic { /* TCP of one process, since it is counted */
	struct gs_traffic_peer peers[GS_TUI_PEERS_MAX];
	size_t n_peers;             /* all; the first GS_TUI_PEERS_MAX are here */
	char why[GS_TUI_WHY_BYTES]; /* what is not counted, and why; "" all is */
};

/* What may be NULL cannot be done with this source, and the screen says so. */
struct gs_tui_source {
	void *ctx;         /* of all functions; borrowed */
	const char *title; /* what is watched: "" this machine, else a file or an address */
	bool is_replay;    /* of a file: nothing is read now */

	/* The next snapshot, which becomes the caller's. enum gs_tui_next, or a negative errno and
	 * err. Does not block. */
	int (*next)(void *ctx, struct gs_node_snapshot **ret_node, struct gs_err *err);
	int wake_fd; /* becomes readable when there is something; -1: asked once an interval */

	/* A recording: how many snapshots it has, and go to one of them. */
	size_t (*length)(void *ctx);
	int (*seek)(void *ctx, size_t snapshot, struct gs_err *err);

	void (*set_interval)(void *ctx, uint64_t interval_ns); /* may be NULL */
	void (*set_all)(void *ctx, bool all);   /* also processes on no GPU; may be NULL */
	void (*set_jobs)(void *ctx, bool jobs); /* read the jobs too; may be NULL */
	/* Send a signal to the process that began at start_ns; may be NULL. */
	int (*signal)(void *ctx, uint32_t pid, uint64_t start_ns, int number);
	/* Append the environment of a process, terminated texts; may be NULL. */
	int (*environment)(void *ctx, uint32_t pid, struct gs_buf *buf);

	/* Count the TCP of this process from now on; 0: of none. Both may be NULL. */
	void (*set_traffic)(void *ctx, uint32_t pid);
	/* What was counted. False: nothing yet. */
	bool (*traffic)(void *traffic_ctx, uint32_t pid, struct gs_tui_traffic *ret);
	void *traffic_ctx; /* borrowed */

	/* Findings that hold at the time of a snapshot, the newest first, most at most. How many;
	 * findings NULL: none are looked for. */
	size_t (*findings)(void *findings_ctx, uint64_t time_ns, struct gs_tui_finding *ret,
			   size_t most);
	void *findings_ctx; /* borrowed */
};

enum gs_tui_theme { GS_TUI_DARK, GS_TUI_LIGHT, GS_TUI_MONO };

#define GS_TUI_TITLES_BYTES 256

struct gs_tui_options {
	size_t size; /* of this struct */
	uint64_t interval_ns;
	enum gs_tui_theme theme; /* colours */
	bool ascii;              /* no character beyond ASCII is drawn */
	bool read_only;          /* no signals */
	bool all;                /* begin with all processes, not only those on GPUs */
	bool jobs;               /* begin with the jobs */
	unsigned count;          /* end after so many snapshots with GPUs' values; 0: never */
	uid_t uid;               /* of the user, for "only mine" */

	/* Titles of the columns that are not shown, of processes and of jobs, with commas. */
	char hidden[GS_TUI_TITLES_BYTES], hidden_jobs[GS_TUI_TITLES_BYTES];
	/* Keep theme, hidden and hidden_jobs of `now` for the next run: 0, or a negative errno and
	 * err. NULL: nothing is kept. */
	int (*save)(void *ctx, const struct gs_tui_options *now, struct gs_err *err);
	void *save_ctx;
};

/* Run until the user quits (0). Needs a terminal on stdin and stdout: -ENOTTY, or -EINVAL for one
 * whose kind is not known; err says why. */
int gs_tui_run(const struct gs_tui_source *source, const struct gs_tui_options *options,
	       struct gs_err *err);

/* The same screen, of one snapshot, as text with all its rows. source: who knows the findings, or NULL. before:
 * the snapshot before, for what needs two, or NULL. 0, or the first error of writing. */
int gs_tui_print(FILE *out, const struct gs_tui_source *source,
		 const struct gs_node_snapshot *before, const struct gs_node_snapshot *node,
		 const struct gs_tui_options *options, int columns);

#endif
