/* What must be so before tracing begins: may the chosen processes be seen, can the summary be written, are there
 * enough files. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/trace/trace.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "core/base/rights.h"
#include "sources/elf/library.h"

#define MOST_FILES 65536
#define START_NS                                                                                   \
	30000000000ull /* of looking through processes, before a time that is limited begins */

/* Where nothing may be seen, "nothing was called" would not be true. 0 or -EPERM, said. */
int trace_check_sight(const struct trace_options *o)
{
	struct gs_err err = {{0}};

	for (size_t i = 0; i < o->n_pids; i++)
		if (gs_library_may_scan(o->pids[i], &err) < 0) {
			gs_cli_print_failure(&err, -EPERM);
			return -EPERM;
		}
	if (!o->command && !o->n_pids && !gs_rights_have(CAP_SYS_PTRACE))
		gs_cli_print_message(
			"only this user's processes are traced: others need root or CAP_SYS_PTRACE");
	return 0;
}

/* top and ps -L also show the ids of threads. */
void trace_report_no_process(pid_t id)
{
	char path[64], line[128];
	GS_FCLOSE FILE *f = NULL;
	int pid = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)id);
	f = fopen(path, "re");
	while (f && pid <= 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &pid) != 1)
			pid = 0;
	if (pid > 0 && pid != id)
		gs_cli_print_message("%d is a thread of process %d: give -p %d", (int)id, pid, pid);
	else
		gs_cli_print_message("no process has the id %d", (int)id);
}

/* The summary is written when all is over: better to know now that it cannot be. */
int trace_check_summary(const char *path)
{
	struct gs_err err = {{0}};
	int r = path ? gs_output_try(path, &err) : 0;

	if (r < 0)
		gs_cli_print_message("the summary: %s", gs_err_text(&err, r));
	return r;
}

/* Where each function takes links of its own, they are more files than shells mostly allow (1,024):
 * as many as we may. The command, forked before, keeps what it was given. */
void trace_raise_file_limit(void)
{
	struct rlimit limit, most = {MOST_FILES, MOST_FILES};

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= MOST_FILES)
		return;
	if (limit.rlim_max < MOST_FILES && setrlimit(RLIMIT_NOFILE, &most) == 0)
		return;
	limit.rlim_cur = limit.rlim_max < MOST_FILES ? limit.rlim_max : MOST_FILES;
	setrlimit(RLIMIT_NOFILE, &limit);
}

bool trace_wants_code(const struct trace_options *o)
{
	const unsigned cuda = 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER;

	return o->native_stack_at || (!o->summary_only && (!o->layers || o->layers & cuda));
}

void trace_report_no_selection(const char *comm)
{
	if (comm)
		gs_cli_print_message(
			"no process named %s ran; names are those in /proc/PID/comm, cut to 15 characters",
			comm);
	else
		gs_cli_print_message("no process of the selection ran");
}

int trace_open_targets(const struct trace_options *o, int *pid_fds, size_t *ret_n)
{
	for (size_t i = 0; i < o->n_pids; i++) {
		pid_fds[i] = (int)syscall(SYS_pidfd_open, o->pids[i], 0);
		if (pid_fds[i] < 0) {
			trace_report_no_process(o->pids[i]);
			return -ESRCH;
		}
		*ret_n = i + 1;
	}
	return 0;
}

bool trace_saw_nothing(const struct trace_options *o, struct trace_output *output,
		       struct gs_uprobe *probe, const struct trace_python *python)
{
	struct trace_progress progress;
	uint64_t n_calls = 0;

	trace_output_progress(output, &progress);
	for (size_t i = 0; i < GS_LAYER_COUNT; i++)
		n_calls += progress.calls[i];
	if (n_calls)
		return false;
	if (!o->command && !o->n_pids && !o->all && !gs_uprobe_saw_target(probe)) {
		trace_report_no_selection(o->comm);
		return true;
	}
	return gs_uprobe_n_files(probe) == 0 && !trace_python_n_found(python);
}

void trace_limit_start(const struct trace_options *o, struct gs_guard *guard, uint64_t now_ns)
{
	gs_guard_set_deadline(guard, o->duration_ns ? now_ns + START_NS : 0);
}

void trace_report_start(const struct trace_options *o, uint64_t took_ns)
{
	if (o->duration_ns && took_ns >= START_NS)
		gs_cli_print_message(
			"looking through running processes took %llu s, the limit with --duration: the rest are looked through while tracing, and their calls until then are not seen",
			START_NS / 1000000000);
}
