/*
 * Findings for `gpuscope top`: those that the agent of this machine keeps, which knows what was before; where none
 * answers, and of a recording, those that the same detectors make of the samples that are shown.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/common/ask.h"
#include "output/findings/findings.h"
#include "commands/main/top.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

#define SPACING_NS  900000000ull /* detectors count in samples of a second */
#define ASK_NS      2000000000ull
#define ASK_LATE_NS 60000000000ull /* when none answered */
#define ANSWER_MS   300            /* readings wait for it */
#define ANSWER_MAX  (1u << 20)
#define OWN_MAX     256 /* of a recording; more are left out */

struct top_findings {
	bool asks_agent;
	uint64_t ask_ns;   /* not before; boot clock */
	uint64_t taken_ns; /* time of the newest sample that was taken */
	struct gs_findings *run;
	pthread_mutex_t lock; /* of what follows */
	struct gs_explain_finding own[OWN_MAX];
	size_t n_own;
	bool agent_answers;
	struct gs_tui_finding agent[GS_TUI_FINDINGS_MAX]; /* the newest first */
	size_t n_agent;
};

int top_findings_new(bool asks_agent, struct top_findings **ret)
{
	struct top_findings *f = calloc(1, sizeof(*f));
	int r = f ? gs_findings_new(NULL, &f->run) : -ENOMEM;

	if (r < 0) {
		free(f);
		return r;
	}
	f->asks_agent = asks_agent;
	pthread_mutex_init(&f->lock, NULL);
	*ret = f;
	return 0;
}

void top_findings_free(struct top_findings **findings)
{
	struct top_findings *f = *findings;

	if (!f)
		return;
	gs_findings_free(&f->run);
	pthread_mutex_destroy(&f->lock);
	gs_free_p(findings);
}

/* Its end takes the place of its begin. */
static void keep_own(void *ctx, const struct gs_explain_finding *finding)
{
	struct top_findings *f = ctx;
	size_t at = 0;

	while (at < f->n_own && (f->own[at].begun.since_ns != finding->begun.since_ns ||
				 f->own[at].subject != finding->subject ||
				 f->own[at].begun.detector != finding->begun.detector ||
				 strcmp(f->own[at].name, finding->name) != 0))
		at++;
	if (at == OWN_MAX)
		return;
	f->own[at] = *finding;
	f->n_own += at == f->n_own;
}

/* --- the agent's --- */

/* From a line of its answer to its end; out is cut nowhere else. */
static const char *take_line(const char *text, const char *before, char *out, size_t bytes)
{
	size_t n = strlen(before), end;

	out[0] = '\0';
	if (strncmp(text, before, n) != 0)
		return text;
	text += n;
	end = strcspn(text, "\n");
	snprintf(out, bytes, "%.*s", (int)end, text);
	return text + end + (text[end] == '\n');
}

/* Lines as gs_findings_put_text() writes them; the newest last. */
static void read_answer(struct top_findings *f, const char *text)
{
	struct gs_tui_finding found;
	char line[sizeof(found.since) + sizeof(found.text) + 8];

	f->n_agent = 0;
	while (*text && strncmp(text, "ok: ", 4) != 0) {
		const char *next = take_line(text, "since ", line, sizeof(line));
		const char *colon = line[0] ? strstr(line, ": ") : NULL;

		if (!colon) { /* one that is over, or a line that is not known */
			text += strcspn(text, "\n");
			text += *text == '\n';
			continue;
		}
		snprintf(found.since, sizeof(found.since), "%.*s", (int)(colon - line), line);
		snprintf(found.text, sizeof(found.text), "%s", colon + 2);
		next = take_line(next, "    cause: ", found.cause + 7, sizeof(found.cause) - 7);
		memcpy(found.cause, "cause: ", 7);
		text = take_line(next, "    do: ", found.advice, sizeof(found.advice));
		if (f->n_agent == GS_TUI_FINDINGS_MAX)
			f->n_agent--;
		memmove(&f->agent[1], &f->agent[0], f->n_agent * sizeof(f->agent[0]));
		f->agent[0] = found;
		f->n_agent++;
	}
}

static void ask_agent(struct top_findings *f, uint64_t now_ns)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf answer = GS_BUF_INIT(ANSWER_MAX);
	struct gs_err err;
	int r = gs_cli_ask_agent_within(AGENT_CONTROL_PATH, "findings 0 text", ANSWER_MS, &answer,
					&err);
	bool is_whole = r == 0 && gs_buf_put(&answer, "", 1) == 0 &&
			strncmp((const char *)answer.data, "error: ", 7) != 0;

	f->ask_ns = now_ns + (is_whole ? ASK_NS : ASK_LATE_NS);
	pthread_mutex_lock(&f->lock);
	f->agent_answers = is_whole;
	if (is_whole)
		read_answer(f, (const char *)answer.data);
	pthread_mutex_unlock(&f->lock);
}

/* --- samples in, findings out --- */

void top_findings_take(struct top_findings *f, const struct gs_node_snapshot *node)
{
	uint64_t now_ns = gs_clock_boot_ns();

	if (f->asks_agent && now_ns >= f->ask_ns)
		ask_agent(f, now_ns);
	if (f->taken_ns && node->time_ns - f->taken_ns < SPACING_NS && !node->gpu->n_events)
		return;
	f->taken_ns = node->time_ns;
	/* A sample that has no room among findings is shown all the same. */
	(void)gs_findings_take_node(f->run, node);
	pthread_mutex_lock(&f->lock);
	gs_findings_report(f->run, keep_own, f);
	pthread_mutex_unlock(&f->lock);
}

static void put_own(const struct top_findings *f, const struct gs_explain_finding *finding,
		    struct gs_tui_finding *ret)
{
	time_t at = (time_t)(gs_findings_wall_of(f->run, finding->begun.since_ns) / 1000000000);
	char cause[GS_FINDINGS_CAUSE_BYTES];
	struct tm tm;

	if (!localtime_r(&at, &tm) || !strftime(ret->since, sizeof(ret->since), "%H:%M:%S", &tm))
		ret->since[0] = '\0';
	gs_explain_text(finding, ret->text);
	snprintf(ret->cause, sizeof(ret->cause), "%s", gs_findings_cause(finding, NULL, cause));
	snprintf(ret->advice, sizeof(ret->advice), "%s", gs_explain_advice(finding));
}

size_t top_findings_at(void *ctx, uint64_t time_ns, struct gs_tui_finding *ret, size_t most)
{
	struct top_findings *f = ctx;
	uint64_t before_ns = UINT64_MAX;
	size_t n = 0;

	pthread_mutex_lock(&f->lock);
	if (f->agent_answers) {
		n = f->n_agent < most ? f->n_agent : most;
		memcpy(ret, f->agent, n * sizeof(*ret));
	}
	/* By their begin, the newest first; of equal ones each once. */
	for (size_t last = OWN_MAX; !f->agent_answers && n < most;) {
		size_t next = OWN_MAX;

		for (size_t i = 0; i < f->n_own; i++) {
			const struct gs_explain_finding *o = &f->own[i];
			uint64_t since_ns = o->begun.since_ns;
			bool is_later = since_ns < before_ns ||
					(since_ns == before_ns && last < OWN_MAX && i > last);

			if (since_ns <= time_ns && (!o->ended_ns || o->ended_ns > time_ns) &&
			    is_later && (next == OWN_MAX || since_ns > f->own[next].begun.since_ns))
				next = i;
		}
		if (next == OWN_MAX)
			break;
		put_own(f, &f->own[next], &ret[n++]);
		before_ns = f->own[next].begun.since_ns;
		last = next;
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}
