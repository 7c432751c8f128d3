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
#include <sys/socket.h>
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
static int recorder = -1;              /* in slurmstepd: its socket */
static char message[512];              /* the line that the user gets */
static int is_reported;

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

/* One line to the user. What is said before the tasks are made reaches slurmd's log alone, so it
 * waits until they have ended. */
static void set_message(const char *text)
{
	if (!message[0])
		snprintf(message, sizeof(message), "%s", text);
}

/* The recorder's part: a clean environment, no signals blocked, nothing open but its socket. */
static void become(char **argv, int fd)
{
	char *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL, NULL};
	char conf[PATH_MAX + 32], text[PATH_MAX + 128];
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
	if (null < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(null, 2) < 0)
		_exit(0);
	for (int i = 3; i < 1024; i++)
		close(i);
	setsid();
	execve(argv[0], argv, env);
	snprintf(text, sizeof(text), "gpuscope: the step is not recorded: cannot run %s: %s\n",
		 argv[0], strerror(errno));
	_exit(write(1, text, strlen(text)) < 0);
}

/* Lines of the recorder until "." or its end; the first other one is for the user. -1: it has
 * ended, or it took too long. */
static int listen_to_recorder(int limit_ms)
{
	int64_t end = now_ms() + limit_ms;
	char line[512];
	size_t n = 0;

	for (;;) {
		struct pollfd p = {.fd = recorder, .events = POLLIN};
		int64_t left = end - now_ms();
		int r = left > 0 ? poll(&p, 1, (int)left) : 0;
		char c;

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			set_message("gpuscope: recording takes too long; the step goes on without");
		if (r <= 0 || read(recorder, &c, 1) != 1)
			return -1;
		if (c != '\n') {
			if (n < sizeof(line) - 1)
				line[n++] = c;
			continue;
		}
		line[n] = '\0';
		n = 0;
		if (strcmp(line, ".") == 0)
			return 0;
		set_message(line);
	}
}

static void stop_recorder(void)
{
	if (recorder >= 0)
		close(recorder);
	recorder = -1;
}

/* A grandchild: slurmstepd's own wait for its tasks never meets it. */
static void start_recorder(char **argv)
{
	int fds[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		set_message("gpuscope: the step is not recorded: no socket");
		return;
	}
	child = fork();
	if (child == 0) {
		if (fork() == 0)
			become(argv, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	recorder = fds[0];
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (child < 0)
		set_message("gpuscope: the step is not recorded: no process");
	if (child < 0 || listen_to_recorder(START_MS) < 0)
		stop_recorder();
}

/* In slurmstepd, as root, before the tasks are made. Nothing without --gpuscope, or where there is
 * no task. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	char job[16], step[16], uid[16], gid[16], pid[16], node[256] = "node";
	uint32_t job_id, step_id;
	uid_t user;
	gid_t group;

	(void)ac;
	(void)av;
	if (!kind[0] || spank_context() != S_CTX_REMOTE ||
	    spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &user) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_GID, &group) != ESPANK_SUCCESS || step_id == SLURM_EXTERN_CONT)
		return 0;
	snprintf(job, sizeof(job), "%u", job_id);
	step_name(step_id, step, sizeof(step));
	snprintf(uid, sizeof(uid), "%u", (unsigned)user);
	snprintf(gid, sizeof(gid), "%u", (unsigned)group);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	gethostname(node, sizeof(node) - 1);
	start_recorder((char *[]){record, job, step, uid, gid, node, kind, pid, NULL});
	return 0;
}

/* End the recording, and say what there is to say. */
static void stop(spank_t sp)
{
	char node[256] = "", where[PATH_MAX] = "/", text[PATH_MAX + 300];
	size_t n = 0;

	if (recorder >= 0) {
		if (spank_getenv(sp, "SLURMD_NODENAME", node, sizeof(node)) != ESPANK_SUCCESS)
			gethostname(node, sizeof(node) - 1);
		/* A relative folder is below that of the submission. */
		if (folder[0] != '/' &&
		    spank_getenv(sp, "SLURM_SUBMIT_DIR", where, sizeof(where)) == ESPANK_SUCCESS)
			n = strlen(where);
		if (folder[0])
			snprintf(where + n, sizeof(where) - n, "%s%s", n ? "/" : "", folder);
		n = (size_t)snprintf(text, sizeof(text), "%s %s\n", node, where);
		/* MSG_NOSIGNAL: one that is gone must not take slurmstepd with it. */
		if (n < sizeof(text) && send(recorder, text, n, MSG_NOSIGNAL) == (ssize_t)n)
			listen_to_recorder(STOP_MS);
		stop_recorder();
	}
	if (message[0] && !is_reported)
		slurm_error("%s", message);
	is_reported = 1;
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

/* In slurmstepd as root. The last task's end is reported to srun only after this: so the report is
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
