/*
 * SPANK plug-in: srun --gpuscope[=job|trace] [--gpuscope-output=DIR] records the step's job and
 * leaves a report (and a trace) in the user's folder. This file only reads options and starts
 * slurm-record, as root where slurmstepd is root; everything else happens there, in processes of
 * their own. It has no state beyond the options, takes nothing from the job's environment but the
 * name of a folder, and never returns an error: a step that cannot be recorded runs all the same,
 * and one line on its standard error says why.
 *
 * plugstack.conf: optional /usr/lib/.../spank_gpuscope.so
 * [record=/usr/libexec/gpuscope/slurm-record]
 *
 * The functions and their order: spank(8); contexts: <slurm/spank.h>. A plug-in is loaded by the
 * Slurm version whose headers it was built with.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#ifndef GS_RECORD_PATH
#define GS_RECORD_PATH "/usr/libexec/gpuscope/slurm-record"
#endif
#define START_MS 45000 /* slurm-record has limits of its own, which are shorter */
#define STOP_MS  120000

SPANK_PLUGIN(gpuscope, 1);

static char kind[8];          /* "" not asked for, "job", "trace" */
static char folder[PATH_MAX]; /* --gpuscope-output; "" the folder that the job was submitted in */
static char record[PATH_MAX] = GS_RECORD_PATH;
static uint32_t local_job, local_step; /* in srun: what it started */
static uint32_t n_exited;              /* in slurmstepd: tasks that have ended */
static int running;                    /* in slurmstepd: "start" was called, "stop" was not */
static char told[512];                 /* the line that the user gets */
static int was_told;

static int take_kind(int val, const char *arg, int remote)
{
	(void)val;
	if (!arg || !*arg || strcmp(arg, "(null)") == 0)
		arg = "job";
	if (strcmp(arg, "job") != 0 && strcmp(arg, "trace") != 0) {
		if (!remote)
			slurm_error("--gpuscope takes job or trace, not \"%s\"", arg);
		return -1;
	}
	snprintf(kind, sizeof(kind), "%s", arg);
	return 0;
}

static int take_folder(int val, const char *arg, int remote)
{
	(void)val;
	if (!arg || !*arg || strlen(arg) >= sizeof(folder)) {
		if (!remote)
			slurm_error("--gpuscope-output takes a folder");
		return -1;
	}
	snprintf(folder, sizeof(folder), "%s", arg);
	return 0;
}

/* has_arg 2: optional (getopt_long's optional_argument). */
static struct spank_option options[] = {
	{"gpuscope", "job|trace",
	 "Record what the job does on each node and leave a report; trace: also calls of CUDA and "
	 "NCCL.",
	 2, 0, take_kind},
	{"gpuscope-output", "DIR", "Where reports go; default: where the job was submitted.", 1, 0,
	 take_folder},
	SPANK_OPTIONS_TABLE_END};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	/* A table that Slurm finds by itself would be srun's alone; this is sbatch's and salloc's
	 * too. */
	for (struct spank_option *o = options; o->name; o++)
		spank_option_register(sp, o);
	for (int i = 0; i < ac; i++)
		if (strncmp(av[i], "record=", 7) == 0)
			snprintf(record, sizeof(record), "%s", av[i] + 7);
		else
			slurm_error("spank_gpuscope: plugstack.conf: \"%s\" is not known; there is "
				    "record=PATH",
				    av[i]);
	return 0;
}

/* The step's name as in Slurm's own file names. */
static void step_name(uint32_t step, char *out, size_t bytes)
{
	if (step == SLURM_BATCH_SCRIPT)
		snprintf(out, bytes, "batch");
	else if (step == SLURM_INTERACTIVE_STEP)
		snprintf(out, bytes, "interactive");
	else
		snprintf(out, bytes, "%u", step);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The child's part: a clean environment, no signals blocked, nothing open but the pipe. */
static void become(char **argv, int out)
{
	char *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL, NULL};
	char conf[PATH_MAX + 32];
	const char *slurm_conf = getenv("SLURM_CONF"); /* slurmstepd's own */
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	if (slurm_conf &&
	    snprintf(conf, sizeof(conf), "SLURM_CONF=%s", slurm_conf) < (int)sizeof(conf))
		env[2] = conf;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	setsid();
	execve(argv[0], argv, env);
	_exit(127);
}

/* One line to the user. What is said before the tasks are made reaches slurmd's log alone, so it
 * waits until they have ended. */
static void tell(const char *text)
{
	if (!told[0])
		snprintf(told, sizeof(told), "%s", text);
}

/* Run slurm-record; its first line is the user's to read. It is not waited for longer than limit.
 * -1: it could not be run. */
static int run(char **argv, int limit_ms)
{
	int64_t end = now_ms() + limit_ms;
	char line[512];
	size_t n = 0;
	int fds[2], status = 0;
	pid_t child;

	if (pipe(fds) < 0 || (child = fork()) < 0) {
		snprintf(line, sizeof(line), "gpuscope: the step is not recorded: %s",
			 strerror(errno));
		tell(line);
		return -1;
	}
	if (child == 0) {
		close(fds[0]);
		become(argv, fds[1]);
	}
	close(fds[1]);
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	for (;;) {
		struct pollfd p = {.fd = fds[0], .events = POLLIN};
		int64_t left = end - now_ms();
		ssize_t got;
		char rest[256];

		if (left <= 0 || poll(&p, 1, (int)left) < 0) {
			if (left > 0 && errno == EINTR)
				continue;
			break;
		}
		if (now_ms() >= end)
			break;
		/* What is more than a line is read and dropped. */
		got = n < sizeof(line) - 1 ? read(fds[0], line + n, sizeof(line) - 1 - n)
					   : read(fds[0], rest, sizeof(rest));
		if (got <= 0)
			break;
		n += n < sizeof(line) - 1 ? (size_t)got : 0;
	}
	close(fds[0]);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	/* It closes its output when it ends; one that is stuck is left to itself (its own limits
	 * end it), and init takes it over when slurmstepd ends. */
	while (waitpid(child, &status, now_ms() < end ? 0 : WNOHANG) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && !line[0])
		snprintf(line, sizeof(line),
			 "gpuscope: the step is not recorded: cannot run %.300s", argv[0]);
	if (line[0])
		tell(line);
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -1 : 0;
}

/* Tell slurm-record to start or stop; -1 without --gpuscope, or where there is no task. */
static int call_record(spank_t sp, const char *what)
{
	char job[16], step[16], uid[16], gid[16], pid[16], node[256] = "", where[PATH_MAX] = "/";
	uint32_t job_id, step_id;
	uid_t user;
	gid_t group;

	if (!kind[0] || spank_context() != S_CTX_REMOTE ||
	    spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &user) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_GID, &group) != ESPANK_SUCCESS || step_id == SLURM_EXTERN_CONT)
		return -1;
	snprintf(job, sizeof(job), "%u", job_id);
	step_name(step_id, step, sizeof(step));
	snprintf(uid, sizeof(uid), "%u", (unsigned)user);
	snprintf(gid, sizeof(gid), "%u", (unsigned)group);
	if (spank_getenv(sp, "SLURMD_NODENAME", node, sizeof(node)) != ESPANK_SUCCESS)
		gethostname(node, sizeof(node) - 1);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	/* A relative folder is below that of the submission. */
	if (folder[0] != '/')
		spank_getenv(sp, "SLURM_SUBMIT_DIR", where, sizeof(where));
	if (folder[0])
		snprintf(where + (folder[0] == '/' ? 0 : strlen(where)),
			 sizeof(where) - (folder[0] == '/' ? 0 : strlen(where)), "%s%s",
			 folder[0] == '/' ? "" : "/", folder);
	return run(
		(char *[]){record, (char *)what, job, step, uid, gid, node, kind, pid, where, NULL},
		strcmp(what, "start") == 0 ? START_MS : STOP_MS);
}

/* In slurmstepd, as root, before the tasks are made. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	running = call_record(sp, "start") == 0;
	return 0;
}

/* In srun, when it knows what it has started. */
int slurm_spank_local_user_init(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	if (spank_get_item(sp, S_JOB_ID, &local_job) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_STEPID, &local_step) != ESPANK_SUCCESS)
		local_job = 0;
	return 0;
}

/* In srun, as the user: the reports of the nodes, as far as their folder is seen here. */
static void print_reports(void)
{
	char pattern[PATH_MAX + 64], where[PATH_MAX], step[16], text[4096];
	glob_t found = {0};

	step_name(local_step, step, sizeof(step));
	if (folder[0] == '/')
		snprintf(where, sizeof(where), "%s", folder);
	else if (!getcwd(where, sizeof(where)))
		return;
	else if (folder[0])
		snprintf(where + strlen(where), sizeof(where) - strlen(where), "/%s", folder);
	/* A folder whose name has characters of patterns is looked into all the same. */
	if (chdir(where) < 0)
		return;
	snprintf(pattern, sizeof(pattern), "gpuscope-%u.%s.*.txt", local_job, step);
	if (glob(pattern, GLOB_NOMAGIC, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			FILE *f = fopen(found.gl_pathv[i], "re");
			size_t n;

			while (f && (n = fread(text, 1, sizeof(text), f)) > 0)
				fwrite(text, 1, n, stderr);
			if (f)
				fclose(f);
		}
	globfree(&found);
}

static void stop(spank_t sp)
{
	if (running)
		call_record(sp, "stop");
	running = 0;
	if (told[0] && !was_told)
		slurm_error("%s", told);
	was_told = 1;
}

/* In slurmstepd as root. The last task's end is told to srun only after this: so the report is
 * there when srun looks for it, which it is not yet when slurm_spank_exit() is called (22.05). */
int slurm_spank_task_exit(spank_t sp, int ac, char **av)
{
	uint32_t n;

	(void)ac;
	(void)av;
	if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &n) == ESPANK_SUCCESS && ++n_exited >= n)
		stop(sp);
	return 0;
}

/* In slurmstepd as root, at its end; in srun at its end. */
int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	if (spank_context() == S_CTX_REMOTE)
		stop(sp);
	else if (spank_context() == S_CTX_LOCAL && kind[0] && local_job)
		print_reports();
	return 0;
}
