/* What the files of `gpuscope trace` share. */
#ifndef GS_COMMANDS_TRACE_TRACE_H
#define GS_COMMANDS_TRACE_TRACE_H

#include <signal.h>
#include <sys/types.h>

#include "commands/trace_options/trace_options.h"
#include "commands/trace_output/trace_output.h"
#include "sources/program/program.h"
#include "sources/uprobe/uprobe.h"

struct gs_guard;     /* core/base/foreign.h */
struct trace_inside; /* trace_inside.h */

/* --- trace_start.c: what must be so before tracing begins --- */

/* May what the chosen processes use be seen? 0 or -EPERM, said. */
int trace_check_sight(const struct trace_options *options);
/* Can the summary be written there? 0 or the error, said. */
int trace_check_summary(const char *path);
/* As many open files as we may have: probes are files. */
void trace_raise_file_limit(void);
/* Is code of processes looked into: for native stacks, and for the names of kernels? */
bool trace_wants_code(const struct trace_options *options);
/* Says that there is no such process. */
void trace_report_no_process(pid_t id);

/* Descriptors of the processes of -p, into pid_fds; *ret_n of them. 0, or -ESRCH: there is none, said. */
int trace_open_targets(const struct trace_options *options, int *pid_fds, size_t *ret_n);

/* No process was seen of those that were chosen, by a name or (NULL) otherwise. */
void trace_report_no_selection(const char *comm);

/* Was there nothing that could have been traced? Then the reason is reported, or follows from the summary. */
struct trace_python;
bool trace_saw_nothing(const struct trace_options *options, struct trace_output *output,
		       struct gs_uprobe *probe, const struct trace_python *python);

/* How long running processes are looked through before --duration begins has a limit, from now on. The other one says, after
 * that took so long, whether it was reached. */
void trace_limit_start(const struct trace_options *options, struct gs_guard *guard,
		       uint64_t now_ns);
void trace_report_start(const struct trace_options *options, uint64_t took_ns);

/* --- trace_refused.c --- */

/* What the guard's thread was refused since the last time, as losses. */
void trace_report_refused(struct trace_output *output, struct gs_guard *guard);

/* --- trace_python.c --- */

/* What the probe has to know for --python-calls. */
void trace_python_calls(const struct trace_options *options, struct gs_uprobe_options *probe);

/* Reports interpreters to the probe. Stays NULL when no stacks are asked for, which all these take.
 */
struct trace_python;

/* probe and output are borrowed, reader keeps its state. *ret_python stays NULL where no Python is
 * looked at. 0 or -ENOMEM. */
int trace_python_new(const struct trace_options *options, struct gs_uprobe *probe,
		     struct gs_reader *reader, struct trace_output *output,
		     struct trace_python **ret_python);
void trace_python_free(struct trace_python **python);

/* A process may have got an interpreter; all may. */
void trace_python_find(struct trace_python *python, pid_t pid);
void trace_python_find_all(struct trace_python *python);

/* Asks again for those that were not ready. In how many ms it is to be called next; -1 none. */
int trace_python_tick(struct trace_python *python);
unsigned trace_python_n_found(const struct trace_python *python);

/* --- child.c: the command that is traced --- */

/* What a command inherits from our parent, kept before we change it for ourselves. */
struct inherited_signals {
	sigset_t mask;                    /* signals that were blocked */
	struct sigaction pipe, file_size; /* SIGPIPE, SIGXFSZ */
};

/* Signals come by a descriptor from now on, SIGUSR1 too with --keep-last; what was before is kept. 0 or a negative
 * errno. */
int trace_open_signals(const struct trace_options *options, struct inherited_signals *ret_inherited,
		       int *ret_fd);

/* A child that waits before it becomes the command, with these signals. inside: what its environment
 * is to have, NULL: nothing else. Negative errno. */
int trace_child_prepare(struct gs_program *child, char **command,
			const struct inherited_signals *signals, const struct trace_inside *inside);

/* Lets it run. 0, or an exit status (126, 127) after having said why it could not be started. */
int trace_child_start(struct gs_program *child, char **command);

#endif
