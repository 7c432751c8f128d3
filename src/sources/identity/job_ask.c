/*
 * What is asked of others in the background: one command at a time, one question a job.
 *
 *   scontrol --json -d show job N   since 23.02, where Slurm was built with JSON; one job is one
 *                                   small question to slurmctld, squeue --json would fetch them all
 *   scontrol -o -d show job N       otherwise
 *   scontrol listpids               answered by this node, about processes that may not be read
 *
 * A controller that does not answer in time is left alone for a minute; a job that could not be
 * found is asked for again later, three times in all. And files that a prolog left are read here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/identity/job_table_int.h"
#include "sources/identity/identity_int.h"

#define PAUSE_NS   60000000000ull
#define NO_NODE_NS (10 * PAUSE_NS) /* no slurmd here, or none that runs */
#define PIDS_MAX   65536
#define DROP_BYTES 4096
#define ENV_COUNT  6

/* --- commands --- */

static int start_question(struct gs_jobs *j, enum question question, struct job_entry *e)
{
	char program[FOLDERS_MAX + 16], conf[sizeof(j->slurm_conf) + 16], path[FOLDERS_MAX + 8];
	char id[32];
	char *argv[8] = {program},
	     *envp[ENV_COUNT] = {path, "LC_ALL=C.UTF-8", "SLURM_TIME_FORMAT=%s"};
	size_t n = 1;
	int r;

	if (!gs_command_find(j->command_path, "scontrol", program, sizeof(program)))
		return -ENOENT;
	snprintf(path, sizeof(path), "PATH=%s", j->command_path);
	snprintf(conf, sizeof(conf), "SLURM_CONF=%s", j->slurm_conf);
	if (j->slurm_conf[0])
		envp[3] = conf;
	if (question == Q_PIDS) {
		argv[n++] = "listpids";
	} else {
		if (e->job.job_id >= 0 && !e->by_sluid)
			snprintf(id, sizeof(id), "%lld", (long long)e->job.job_id);
		else
			snprintf(id, sizeof(id), "%s", e->job.sluid);
		argv[n++] = question == Q_JSON ? "--json" : "-o";
		argv[n++] = "-d";
		argv[n++] = "show";
		argv[n++] = "job";
		argv[n++] = id;
	}
	r = gs_command_start(&j->command, argv, envp, j->command_ns);
	if (r < 0)
		return r;
	gs_log(GS_LOG_DEBUG, GS_LOG_JOBS, "asking: %s %s", program,
	       question == Q_PIDS ? "listpids" : id);
	j->stats.n_commands++;
	j->question = question;
	j->asked = e;
	return 0;
}

/* scontrol with one word; what it wrote is in c->out, ended by a zero. 0 or a negative errno. */
static int ask_word(const struct gs_jobs *j, char *word, struct gs_command *c)
{
	char program[FOLDERS_MAX + 16], path[FOLDERS_MAX + 8];
	char conf[sizeof(j->slurm_conf) + 16];
	char *argv[] = {program, word, NULL}, *envp[] = {path, NULL, NULL};
	enum gs_command_state state;
	int r;

	if (!gs_command_find(j->command_path, "scontrol", program, sizeof(program)))
		return -ENOENT;
	snprintf(path, sizeof(path), "PATH=%s", j->command_path);
	snprintf(conf, sizeof(conf), "SLURM_CONF=%s", j->slurm_conf);
	if (j->slurm_conf[0])
		envp[1] = conf;
	r = gs_command_start(c, argv, envp, j->command_ns);
	if (r < 0)
		return r;
	state = gs_command_poll(c, j->command_ns);
	r = gs_buf_put(&c->out, "", 1);
	return r < 0                      ? r
	       : state == GS_COMMAND_DONE ? 0
	       : state == GS_COMMAND_LATE ? -ETIMEDOUT
					  : -EHOSTDOWN;
}

void gs_jobs_slurm_version(const struct gs_jobs *j, char *out, size_t bytes)
{
	char option[] = "--version";
	struct gs_command c = GS_COMMAND_INIT(4096);
	const char *word;

	out[0] = '\0';
	/* "slurm 23.11.4", "slurm-wlm 22.05.8" */
	if (ask_word(j, option, &c) == 0 && (word = strchr((char *)c.out.data, ' ')))
		gs_identity_copy_clean(out, bytes, word + 1, strcspn(word + 1, " \n"));
	gs_command_fini(&c);
}

int gs_jobs_ping_controller(const struct gs_jobs *j, char *out, size_t bytes)
{
	char option[] = "ping";
	struct gs_command c = GS_COMMAND_INIT(4096);
	int r = ask_word(j, option, &c);

	out[0] = '\0';
	/* "Slurmctld(primary) at node1 is UP", a line for each; the status differs by version. */
	if (c.out.bytes) {
		const char *text = (char *)c.out.data;

		gs_identity_copy_clean(out, bytes, text, strcspn(text, "\n"));
		if (r != -ETIMEDOUT)
			r = strstr(text, " is UP") ? 0 : -EHOSTDOWN;
	}
	gs_command_fini(&c);
	return r;
}

static bool may_ask(const struct gs_jobs *j, const struct job_entry *e, uint64_t now)
{
	if (e->job.kind != GS_JOB_SLURM || now < j->paused_ns)
		return false;
	if (e->job.is_claimed && !gs_jobs_may_ask_claim(j, now))
		return false;
	return e->ask == ASK_OPEN || (e->ask == ASK_FAILED && e->tries < TRIES_MAX &&
				      now >= e->retry_ns && e->n_processes);
}

/* Whom to ask about next: what is proven comes before what is claimed. NULL: none. */
static struct job_entry *next_to_ask(const struct gs_jobs *j, uint64_t now)
{
	struct job_entry *claim = NULL;

	for (uint32_t i = 0; i < j->n_entries; i++) {
		if (!may_ask(j, j->entry[i], now))
			continue;
		if (!j->entry[i]->job.is_claimed)
			return j->entry[i];
		if (!claim)
			claim = j->entry[i];
	}
	return claim;
}

/* The next question; false: there is none. */
static bool ask_next(struct gs_jobs *j)
{
	uint64_t now = j->now_ns();
	struct job_entry *e;

	if (!j->no_node && j->n_unreadable && now >= j->node_ns) {
		j->node_ns = now + j->cache_ns;
		j->n_unreadable = 0;
		if (start_question(j, Q_PIDS, NULL) == 0)
			return true;
	}
	if (j->no_controller)
		return false;
	e = next_to_ask(j, now);
	if (!e)
		return false;
	if (start_question(j, j->json_fails ? Q_TEXT : Q_JSON, e) == 0) {
		if (e->job.is_claimed)
			gs_jobs_count_claim_ask(j, now);
		return true;
	}
	/* Slurm's commands are not here: there is nothing to ask for a while. */
	j->paused_ns = now + PAUSE_NS;
	return false;
}

static void note_failure(struct gs_jobs *j, bool is_late)
{
	struct job_entry *e = j->asked;
	uint64_t now = j->now_ns();

	if (j->question == Q_PIDS)
		j->node_ns = now + NO_NODE_NS;
	else if (is_late)
		j->paused_ns = now + PAUSE_NS;
	if (!e)
		return;
	e->ask = ASK_FAILED;
	e->tries++;
	e->retry_ns = now + PAUSE_NS;
}

static int by_pid(const void *a, const void *b)
{
	const struct gs_job_pid *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void learn_pids(struct gs_jobs *j)
{
	if (!j->reported)
		j->reported = calloc(PIDS_MAX, sizeof(*j->reported));
	if (!j->reported)
		return;
	j->n_reported = gs_job_parse_pids((char *)j->command.out.data, j->command.out.bytes,
					  j->reported, PIDS_MAX);
	qsort(j->reported, j->n_reported, sizeof(*j->reported), by_pid);
	for (size_t i = 0; i < j->n_reported; i++) {
		struct job_process *p = gs_jobs_process(j, j->reported[i].pid);

		j->reported[i].start_ticks = p ? p->start_ticks : 0;
		gs_jobs_forget(j, j->reported[i].pid);
	}
}

static int learn_job(struct gs_jobs *j)
{
	struct job_entry *e = j->asked;
	const char *data = (char *)j->command.out.data;
	size_t bytes = j->command.out.bytes;
	int64_t job_id = e->by_sluid ? -1 : e->job.job_id;
	struct gs_job_answer a;
	char node[64];
	int r;

	gs_jobs_node_name(j, e->node, node);
	if (!data)
		return -EBADMSG;
	r = j->question == Q_JSON
		    ? gs_job_parse_json(data, bytes, job_id, e->job.sluid, node, &a)
		    : gs_job_parse_text(data, bytes, e->job.job_id, node, e->job.uid, &a);
	if (r < 0)
		return r;
	if (e->job.is_claimed && !gs_jobs_settle_claim(j, e, &a.job))
		return 0;
	/* An array, and whose it is, stand here; the environment may have said anything. */
	e->job.array_job_id = e->job.array_task_id = -1;
	e->job.het_job_id = e->job.het_offset = -1;
	if (a.job.user[0] || a.job.uid >= 0)
		e->job.user[0] = '\0';
	/* Requeued while it was asked: the answer is of a later run. */
	if (e->was_superseded ||
	    (e->job.sluid[0] && a.job.sluid[0] && strcmp(e->job.sluid, a.job.sluid) != 0)) {
		a.job.start_s = -1;
		a.job.sluid[0] = '\0';
		a.has_gpus = false;
	}
	gs_jobs_merge(e, &a.job, true);
	if (!e->job.user[0])
		gs_jobs_name_user(e->job.uid, e->job.user, sizeof(e->job.user));
	if (a.has_gpus) {
		e->has_gpus_reported = true;
		e->gpus_reported = a.gpus;
	}
	e->ask = ASK_DONE;
	return 0;
}

/* The command ended: what it said. */
static void digest_answer(struct gs_jobs *j, enum gs_command_state state)
{
	enum question question = j->question;
	struct job_entry *e = j->asked;
	int r = 0;

	j->stats.n_commands_failed += state == GS_COMMAND_FAILED;
	j->stats.n_commands_late += state == GS_COMMAND_LATE;
	j->stats.n_answers_long += state == GS_COMMAND_LONG;
	if (state == GS_COMMAND_DONE && question == Q_PIDS)
		learn_pids(j);
	else if (state == GS_COMMAND_DONE)
		r = learn_job(j);
	/* A job that is not known any more is no bad answer. */
	j->stats.n_answers_bad += r < 0 && r != -ENOENT;
	if (question == Q_JSON && state == GS_COMMAND_DONE && r != -EBADMSG)
		j->json_works = true;
	j->question = Q_NONE;
	if (state == GS_COMMAND_DONE && r == 0)
		return;
	if (question == Q_JSON && !j->json_works && state == GS_COMMAND_FAILED) {
		/* An option that it does not know, or a job: the text form shows which. */
		j->stats.n_commands_failed--;
		if (start_question(j, Q_TEXT, e) == 0)
			return;
	}
	if (question == Q_JSON && state == GS_COMMAND_DONE && r == -EBADMSG &&
	    start_question(j, Q_TEXT, e) == 0)
		return;
	j->question = question;
	j->asked = e;
	note_failure(j, state == GS_COMMAND_LATE);
	j->question = Q_NONE;
}

static size_t n_open(const struct gs_jobs *j)
{
	uint64_t now = j->now_ns();
	size_t n = 0;

	if (!j->no_controller)
		for (uint32_t i = 0; i < j->n_entries; i++)
			n += may_ask(j, j->entry[i], now);
	return n + (j->question == Q_PIDS);
}

size_t gs_jobs_ask(struct gs_jobs *j, uint64_t wait_ns)
{
	uint64_t until = j->now_ns() + wait_ns;

	gs_jobs_read_drops(j);
	while (j->question != Q_NONE || ask_next(j)) {
		uint64_t now = j->now_ns();
		enum question question = j->question;
		enum gs_command_state state =
			gs_command_poll(&j->command, until > now ? until - now : 0);

		if (state == GS_COMMAND_RUNS)
			break;
		digest_answer(j, state);
		/* The text form answered what JSON did not: no more JSON. */
		if (question == Q_TEXT && state == GS_COMMAND_DONE && !j->json_works)
			j->json_fails = true;
	}
	return n_open(j);
}

/* --- files of a prolog --- */

struct drop {
	struct gs_jobs *jobs;
};

static void note_drop(void *ctx, int64_t job_id, int64_t uid, uint64_t mask)
{
	struct gs_jobs *j = ((struct drop *)ctx)->jobs;
	struct job_entry *e = gs_jobs_entry_of(j, gs_jobs_key_of_job(job_id), true);

	if (!e)
		return;
	e->job.kind = GS_JOB_SLURM;
	e->job.job_id = job_id;
	e->job.source |= GS_JOB_FROM_DROP;
	e->gpus_drop |= mask;
	if (e->job.uid < 0)
		e->job.uid = uid;
	if (!e->job.user[0])
		gs_jobs_name_user(e->job.uid, e->job.user, sizeof(e->job.user));
	if (e->ask == ASK_NOT)
		e->ask = ASK_OPEN;
	gs_job_name_id(&e->job);
}

static void read_folder(struct gs_jobs *j, const char *folder)
{
	DIR *dir = opendir(folder);
	struct drop drop = {j};
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		GS_CLOSE int fd = -1;
		char text[DROP_BYTES];
		struct stat st;
		ssize_t n;

		if (d->d_name[0] == '.')
			continue;
		fd = openat(dirfd(dir), d->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text));
		/* An empty one is of a free GPU; one that is not there any more, too. */
		if (n > 0 && (fstat(fd, &st) < 0 || !gs_jobs_trusts_file(j, &st)))
			j->stats.n_drops_bad++;
		else if (n > 0 &&
			 !gs_job_parse_drop(d->d_name, text, (size_t)n, &j->gpus, note_drop, &drop))
			j->stats.n_drops_bad++;
	}
	if (dir)
		closedir(dir);
}

void gs_jobs_read_drops(struct gs_jobs *j)
{
	const char *p = j->drop_folders;
	uint64_t now = j->now_ns();
	char folder[FOLDERS_MAX];

	if (j->drops_ns && now - j->drops_ns < j->cache_ns)
		return;
	j->drops_ns = now;
	gs_jobs_prepare_gpus(j, "");
	for (uint32_t i = 0; i < j->n_entries; i++)
		j->entry[i]->gpus_drop = 0;
	while (*p) {
		size_t n = strcspn(p, ":");

		snprintf(folder, sizeof(folder), "%.*s", (int)n, p);
		if (n)
			read_folder(j, folder);
		p += n + (p[n] == ':');
	}
}
