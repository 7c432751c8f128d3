/* Findings over the control socket: what is asked, and who asks (gpuscope explain --live, --job-id). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commands/agent_findings/agent_findings.h"
#include "commands/common/ask.h"
#include "commands/common/cli.h"
#include "output/findings/findings.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"

#define ANSWER_MAX (4u << 20)

void agent_findings_take_words(struct agent_findings *findings, const char *words,
			       struct gs_buf *out)
{
	char form[8] = "", job[GS_EXPLAIN_JOB_BYTES] = "";
	unsigned long long since = 0;

	if (sscanf(words, "%llu %7s %47s", &since, form, job) < 2)
		(void)gs_buf_puts(out, "error: findings takes a number, json or text, and a job\n");
	else
		agent_findings_put_lines(findings, since, job[0] ? job : NULL,
					 strcmp(form, "text") == 0, out);
}

struct asking {
	const char *path, *job; /* borrowed; job NULL: of all */
	bool as_text;
	uint64_t since; /* number of the last one that was shown */
};

/* Shows what is new. 0 or a negative errno with err. */
static int show_new(struct asking *a, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf answer = GS_BUF_INIT(ANSWER_MAX);
	char command[120];
	const char *text, *end;
	int r;

	snprintf(command, sizeof(command), "findings %llu %s %s", (unsigned long long)a->since,
		 a->as_text ? "text" : "json", a->job ? a->job : "");
	r = gs_cli_ask_agent(a->path, command, &answer, err);
	if (r == 0)
		r = gs_buf_put(&answer, "", 1);
	if (r < 0)
		return r;
	text = (const char *)answer.data;
	if (strncmp(text, "error: ", 7) == 0)
		return gs_err_set(err, -ENOTSUP, "the agent: %.*s", (int)strcspn(text + 7, "\n"),
				  text + 7);
	end = strstr(text, "\nok: ");
	end = end ? end + 1 : strncmp(text, "ok: ", 4) == 0 ? text : NULL;
	if (!end || end[4] < '0' || end[4] > '9')
		return gs_err_set(err, -EPROTO, "%s: the agent's answer is cut", a->path);
	a->since = strtoull(end + 4, NULL, 10);
	fwrite(text, 1, (size_t)(end - text), stdout);
	return fflush(stdout) == 0 ? 0 : -errno;
}

/* Ctrl-C and the like end it in order. */
static void block_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
	sigprocmask(SIG_BLOCK, ret, NULL);
}

int gs_agent_findings_show(const char *control, const char *job, const char *duration, bool live,
			   unsigned format)
{
	struct asking a = {control ? control : AGENT_CONTROL_PATH, job, format == GS_FINDINGS_TABLE,
			   0};
	const struct timespec second = {1, 0};
	uint64_t duration_ns = 0, start_ns = gs_clock_mono_ns();
	struct gs_err err = {{0}};
	sigset_t ends;
	int r;

	if (duration && gs_parse_ns(duration, 1000000000, &duration_ns) < 0) {
		gs_cli_print_message("--duration takes a time, such as 10 or 500ms");
		return GS_EXIT_USAGE;
	}
	if (job && (strlen(job) >= GS_EXPLAIN_JOB_BYTES || strpbrk(job, " \n"))) {
		gs_cli_print_message("\"%s\" is not a job id", job);
		return GS_EXIT_USAGE;
	}
	block_signals(&ends);
	do {
		r = show_new(&a, &err);
	} while (r == 0 && live && (!duration_ns || gs_clock_mono_ns() - start_ns < duration_ns) &&
		 sigtimedwait(&ends, NULL, &second) < 0);
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(&err, r));
	else if (!a.since && !live)
		gs_cli_print_message("the agent has no findings yet");
	return r == -EACCES ? GS_EXIT_NOT_PERMITTED : r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
