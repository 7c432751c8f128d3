/*
 * What all commands share: how they talk to the user and how the program ends. The commands alone
 * do that and handle signals; everything else returns.
 */
#ifndef GS_COMMANDS_COMMON_CLI_H
#define GS_COMMANDS_COMMON_CLI_H

#include <stdbool.h>

#include "commands/common/options.h"
#include "core/base/mem.h"

/* How the program ends; documented in doc/reading.md. A traced command's own status comes before. */
enum gs_exit {
	GS_EXIT_DONE = 0,
	GS_EXIT_FAILED = 1,
	GS_EXIT_USAGE = 2,
	GS_EXIT_NOT_PERMITTED = 3, /* or not supported by this machine */
	GS_EXIT_NOTHING =
		4, /* nothing found: no such process, job, GPU or session, nothing to trace or to show */
	GS_EXIT_NOT_EXECUTABLE = 126,
	GS_EXIT_NOT_FOUND = 127,
};

struct gs_findings_options; /* findings.h */

/* The commands; argv[0] is "gpuscope NAME". Each returns an exit status. The second of trace: with findings
 * as they come in place of the summary. */
int gs_cmd_trace(int argc, char **argv);
int gs_cmd_trace_findings(int argc, char **argv, const struct gs_findings_options *findings);
int gs_cmd_report(int argc, char **argv);
int gs_cmd_explain(int argc, char **argv);
int gs_cmd_open(int argc, char **argv);
int gs_cmd_top(int argc, char **argv);
int gs_cmd_agent(int argc, char **argv);
int gs_cmd_job(int argc, char **argv);
int gs_cmd_connect(int argc, char **argv);
int gs_cmd_gpu(int argc, char **argv);
int gs_cmd_devices(int argc, char **argv);
int gs_cmd_doctor(int argc, char **argv);
int gs_cmd_head(int argc, char **argv);
int gs_cmd_session(int argc, char **argv);
int gs_cmd_probes(int argc, char **argv);

/* Their command lines. */
extern const struct gs_cli_command gs_cli_trace, gs_cli_report, gs_cli_top, gs_cli_agent,
	gs_cli_agent_ctl, gs_cli_job, gs_cli_connect, gs_cli_gpu, gs_cli_head, gs_cli_session,
	gs_cli_probes, gs_cli_open, gs_cli_devices, gs_cli_explain, gs_cli_doctor;

/* Findings of the agent at this control socket (NULL: the usual one), of all or of one job; live: as they come,
 * for duration (as text; NULL: until it is interrupted). format: enum gs_findings_format. An exit status. */
int gs_agent_findings_show(const char *control, const char *job, const char *duration, bool live,
			   unsigned format);

/* Recorded samples (.gst, or JSON of gswarm-profiler) as a figure; panels: enum gs_plot_panel, 0
 * all. An exit status. */
int gs_cmd_plot(char **paths, size_t n, const char *output, unsigned panels);

/* "gpuscope: ..." on stderr, one line. */
void gs_cli_print_message(const char *fmt, ...) GS_PRINTF(1, 2);
void gs_cli_print_text(const char *text); /* the same of a whole text */

/* Why something did not start, r: a negative errno. Where a right or a part of the machine is missing, the line also names the
 * command that shows all of those. */
void gs_cli_print_failure(const struct gs_err *err, int r);

/* "wrote PATH (SIZE): what opens it" on stderr, of a regular file that has just been closed; nothing for standard output, a
 * pipe or a device. opener: what opens it where its suffix does not say, as .json; NULL: nothing is said then. */
void gs_cli_report_written(const char *path, const char *opener);

/* The same of a file of samples: a recording has no calls then. */
void gs_cli_report_samples_written(const char *path);

/* From now on that prints nothing (--quiet). */
void gs_cli_be_quiet(void);

/* Of a trace in JSON, and of a job's report in JSON. */
#define GS_CLI_OPENS_TRACE "open it in ui.perfetto.dev or speedscope.app"
#define GS_CLI_READS_JOBS  "gpuscope report --compare FILE... compares it with others"

/* The exit status that fits a negative errno of starting something. */
int gs_cli_exit_status_of(int error);

/* From here on SIGINT and SIGTERM wait until the command has said what they do: one that comes while it starts ends it as any
 * later one would. The first thing that a command does; the other lets them come, as before. */
void gs_cli_hold_signals(void);
void gs_cli_release_signals(void);

#endif
