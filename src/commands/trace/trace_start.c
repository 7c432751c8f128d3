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
#include "core/base/mem.h"
#include "core/base/output.h"

#define MOST_FILES 65536

/* The link to its program asks for the same right as those to its libraries. */
static bool may_see_libraries_of(pid_t pid)
{
	char path[64], target[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, target, sizeof(target)) >= 0 || (errno != EACCES && errno != EPERM);
}

static bool may_see_all(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &h, d) < 0 || d[0].effective >> CAP_SYS_PTRACE & 1;
}

/* Where nothing may be seen, "nothing was called" would not be true. 0 or -EPERM, said. */
int trace_check_sight(const struct trace_options *o)
{

	for (size_t i = 0; i < o->n_pids; i++) {
		if (may_see_libraries_of(o->pids[i]))
			continue;
		gs_cli_print_message(
			"process %d belongs to another user: run as root or with CAP_SYS_PTRACE to see its libraries",
			(int)o->pids[i]);
		return -EPERM;
	}
	if (!o->command && !o->n_pids && !may_see_all())
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
