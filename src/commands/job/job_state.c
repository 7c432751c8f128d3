/*
 * The state of one job. `squeue` prints the word alone: what `scontrol show job` prints holds texts
 * that the job's user chose, among which no word is sure to be the state.
 */
#include "commands/job/job_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/identity/job_command.h"

#define FOLDERS    "/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"
#define ANSWER_MAX (1u << 16)     /* some thousand tasks of an array */
#define LIMIT_NS   30000000000ull /* of a busy controller */
#define FIRST_NS   5000000000ull
#define EVERY_NS   60000000000ull

struct gs_job_asker {
	char id[64], conf[4096];
	struct gs_command command;
	uint64_t next_ns, pause_ns; /* boot clock */
	enum gs_job_state state;
};

static enum gs_job_state state_of_word(const char *word, size_t n)
{
	static const struct {
		const char *word;
		enum gs_job_state state;
	} words[] = {
		{"PENDING", GS_JOB_STATE_WAITS},      {"REQUEUED", GS_JOB_STATE_WAITS},
		{"REQUEUE_HOLD", GS_JOB_STATE_WAITS}, {"REQUEUE_FED", GS_JOB_STATE_WAITS},
		{"SPECIAL_EXIT", GS_JOB_STATE_WAITS}, {"BOOT_FAIL", GS_JOB_STATE_OVER},
		{"CANCELLED", GS_JOB_STATE_OVER},     {"COMPLETED", GS_JOB_STATE_OVER},
		{"COMPLETING", GS_JOB_STATE_OVER},    {"DEADLINE", GS_JOB_STATE_OVER},
		{"FAILED", GS_JOB_STATE_OVER},        {"NODE_FAIL", GS_JOB_STATE_OVER},
		{"OUT_OF_MEMORY", GS_JOB_STATE_OVER}, {"PREEMPTED", GS_JOB_STATE_OVER},
		{"REVOKED", GS_JOB_STATE_OVER},       {"TIMEOUT", GS_JOB_STATE_OVER},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
		if (strlen(words[i].word) == n && memcmp(words[i].word, word, n) == 0)
			return words[i].state;
	return GS_JOB_STATE_RUNS;
}

enum gs_job_state gs_job_state_parse(const char *text, size_t bytes)
{
	bool waits = false, over = false, runs = false;

	for (size_t at = 0; at < bytes;) {
		const char *line = text + at, *end = memchr(line, '\n', bytes - at);
		size_t n = end ? (size_t)(end - line) : bytes - at;

		at += n + 1;
		while (n && (line[n - 1] == ' ' || line[n - 1] == '\r'))
			n--;
		if (!n)
			continue;
		switch (state_of_word(line, n)) {
		case GS_JOB_STATE_WAITS:
			waits = true;
			break;
		case GS_JOB_STATE_OVER:
			over = true;
			break;
		default:
			runs = true;
			break;
		}
	}
	return runs    ? GS_JOB_STATE_RUNS
	       : waits ? GS_JOB_STATE_WAITS
	       : over  ? GS_JOB_STATE_OVER
		       : GS_JOB_STATE_UNKNOWN;
}

int gs_job_asker_new(const char *id, const char *slurm_conf, struct gs_job_asker **ret)
{
	struct gs_job_asker *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	if (!slurm_conf)
		slurm_conf = secure_getenv("SLURM_CONF");
	snprintf(a->id, sizeof(a->id), "%s", id);
	if (slurm_conf)
		snprintf(a->conf, sizeof(a->conf), "SLURM_CONF=%s", slurm_conf);
	a->command = GS_COMMAND_INIT(ANSWER_MAX);
	a->pause_ns = FIRST_NS;
	*ret = a;
	return 0;
}

void gs_job_asker_free(struct gs_job_asker **asker)
{
	if (!*asker)
		return;
	gs_command_fini(&(*asker)->command);
	gs_free_p(asker);
}

bool gs_job_asker_is_open(const struct gs_job_asker *a)
{
	return a->command.pid > 0;
}

static int ask_squeue(struct gs_job_asker *a)
{
	char program[128], path[] = "PATH=" FOLDERS, utf8[] = "LC_ALL=C.UTF-8";
	char header[] = "-h", states[] = "-t", all[] = "all", form[] = "-o", word[] = "%T";
	char jobs[] = "-j";
	char *argv[] = {program, header, states, all, form, word, jobs, a->id, NULL};
	char *envp[] = {path, utf8, a->conf[0] ? a->conf : NULL, NULL};

	if (!gs_command_find(FOLDERS, "squeue", program, sizeof(program)))
		return -ENOENT;
	return gs_command_start(&a->command, argv, envp, LIMIT_NS);
}

enum gs_job_state gs_job_asker_poll(struct gs_job_asker *a)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (!a->command.pid) {
		if (now_ns < a->next_ns)
			return a->state;
		a->next_ns = now_ns + a->pause_ns;
		a->pause_ns = 2 * a->pause_ns < EVERY_NS ? 2 * a->pause_ns : EVERY_NS;
		if (ask_squeue(a) < 0) {
			a->state = GS_JOB_STATE_UNKNOWN;
			return a->state;
		}
	}
	switch (gs_command_poll(&a->command, 0)) {
	case GS_COMMAND_RUNS:
		break;
	case GS_COMMAND_DONE:
		a->state = gs_job_state_parse((char *)a->command.out.data, a->command.out.bytes);
		break;
	case GS_COMMAND_LONG: /* very many tasks: some go on */
		a->state = GS_JOB_STATE_RUNS;
		break;
	default:
		a->state = GS_JOB_STATE_UNKNOWN;
		break;
	}
	return a->state;
}
