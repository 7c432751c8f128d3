/* Among the files of `gpuscope top`. */
#ifndef GS_COMMANDS_MAIN_TOP_H
#define GS_COMMANDS_MAIN_TOP_H

#include "output/tui/tui.h"

struct top_options {
	uint64_t interval_ns;
	const char *replay, *record; /* files; NULL none */
	const char *nvml;            /* the library; NULL the usual one */
	const char *gpus;            /* which, with commas (lent); NULL all */
	struct gs_node_choice
		choice;            /* which processes and jobs are shown, not which are recorded */
	struct gs_tui_options tui; /* what the screen begins with */
};

/* --- findings --- */

struct top_findings;

/* asks_agent: what the agent of this machine has found stands before what is found here. 0 or -ENOMEM. */
int top_findings_new(bool asks_agent, struct top_findings **ret_findings);
void top_findings_free(struct top_findings **findings); /* NULL inside: nothing happens */

/* The next sample, lent; one thread at a time. */
void top_findings_take(struct top_findings *findings, const struct gs_node_snapshot *node);

/* For gs_tui_source.findings; any thread. ctx: a struct top_findings. */
size_t top_findings_at(void *ctx, uint64_t time_ns, struct gs_tui_finding *ret, size_t most);

/* --- TCP of one process --- */

struct top_traffic;

int top_traffic_new(struct top_traffic **ret_traffic); /* 0 or -ENOMEM */
void top_traffic_free(struct top_traffic **traffic);   /* NULL inside: nothing happens */

/* Whose is counted from the next top_traffic_take() on; 0: none's, which costs nothing. Is it another one than before?
 * Any thread. */
bool top_traffic_want(struct top_traffic *traffic, uint32_t pid);

/* Read it now, where it is wanted; one thread at a time. What fails is kept as a text. */
void top_traffic_take(struct top_traffic *traffic);

/* For gs_tui_source.traffic; any thread. ctx: a struct top_traffic. */
bool top_traffic_of(void *ctx, uint32_t pid, struct gs_tui_traffic *ret);

/* --- this machine --- */

struct top_live;

/* Opens what this machine is read by; the options are lent until it is freed. A negative errno with
 * err. */
int top_live_new(const struct top_options *options, struct top_live **ret_live, struct gs_err *err);

/* Read now, in the caller's thread, and record it where that was asked for. Not after
 * top_live_start(). A negative errno with err. */
int top_live_read(struct top_live *live, struct gs_node_snapshot **ret_node, struct gs_err *err);

/* From here on a thread reads, and hands over through the source, which is lent. A negative errno
 * with err. */
int top_live_start(struct top_live *live, struct gs_tui_source *ret_source, struct gs_err *err);

/* What has been found so far, lent until the close. */
struct top_findings *top_live_findings(struct top_live *live);

/* Ends the thread and the recording; 0, or why the recording is not whole. */
int top_live_close(struct top_live **live, struct gs_err *err);

/* --- what F2 keeps --- */

/* Theme and hidden columns as they were kept, if they were; what is wrong with the file is printed. */
void top_settings_read(struct gs_tui_options *options);
/* For gs_tui_options.save. */
int top_settings_save(void *ctx, const struct gs_tui_options *now, struct gs_err *err);

/* --- a recording --- */

struct top_replay;

/* Reads the whole file once, for the places of its moments. The options are lent until the close. A
 * negative errno with err. */
int top_replay_open(const struct top_options *options, struct top_replay **ret_replay,
		    struct gs_err *err);
void top_replay_close(struct top_replay **replay);
/* *ret_source is good until the close. */
void top_replay_source(struct top_replay *replay, struct gs_tui_source *ret_source);

/* The last moment, and the one before it (NULL: there is none). A negative errno with err. */
int top_replay_last(struct top_replay *replay, struct gs_node_snapshot **ret_before,
		    struct gs_node_snapshot **ret_node, struct gs_err *err);

/* What is found in it, lent until the close. */
struct top_findings *top_replay_findings(struct top_replay *replay);

/* What reading found wrong, in a line each. */
void top_replay_position(const struct top_replay *replay);

/* Only the GPUs that were asked for. -ENODEV: one of them is not there, and *known (all were there
 * once) is still false. */
int top_select(const struct top_options *options, bool *known, struct gs_node_snapshot *node,
	       struct gs_err *err);

#endif
