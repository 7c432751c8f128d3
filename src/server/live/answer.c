/*
 * Answers about the cluster, kept for a moment: several pages that show the same ask the same, and
 * at the same time, since they get news at the same time. An answer is made once for all of
 * them, and made smaller once. How long it is used again depends on what it cost (LIVE_AGAIN), so
 * in a small cluster it is as good as not at all.
 */
#include <errno.h>
#include <string.h>

#include "server/live/live_int.h"
#include "core/base/clock.h"

#define ANSWERS_MAX       64
#define ANSWERS_MAX_BYTES (16u << 20)
#define WORTH_NS          100000 /* what is made faster is made again */

struct live_kept {
	char *key; /* owned: what was asked, and by whom as far as that matters */
	uint64_t until_ns;
	const char *type;
	struct gs_buf body, small; /* small: as gzip, of those who asked for that; may be empty */
};

struct live_answers {
	struct live_kept kept[ANSWERS_MAX];
	size_t n, bytes;
};

static void forget_answer(struct live_answers *k, size_t i)
{
	struct live_kept *e = &k->kept[i];

	k->bytes -= e->body.bytes + e->small.bytes;
	free(e->key);
	gs_buf_fini(&e->body);
	gs_buf_fini(&e->small);
	*e = k->kept[--k->n];
}

void live_answers_free(struct gs_live *a)
{
	while (a->answers && a->answers->n)
		forget_answer(a->answers, 0);
	gs_free_p(&a->answers);
}

static struct live_kept *find_answer(struct live_answers *k, const char *key, uint64_t now_ns)
{
	for (size_t i = k->n; i-- > 0;)
		if (k->kept[i].until_ns <= now_ns)
			forget_answer(k, i);
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->kept[i].key, key) == 0)
			return &k->kept[i];
	return NULL;
}

/* Takes the key over, also on failure. NULL: it is not kept. */
static struct live_kept *keep_answer(struct live_answers *k, char *key,
				     const struct gs_http_reply *reply, uint64_t until_ns)
{
	struct live_kept *e;

	if (k->n == ANSWERS_MAX || reply->body.bytes > ANSWERS_MAX_BYTES - k->bytes) {
		free(key);
		return NULL;
	}
	e = &k->kept[k->n];
	*e = (struct live_kept){.key = key,
				.until_ns = until_ns,
				.type = reply->type,
				.body = GS_BUF_INIT(ANSWERS_MAX_BYTES),
				.small = GS_BUF_INIT(ANSWERS_MAX_BYTES)};
	if (gs_buf_put(&e->body, reply->body.data, reply->body.bytes) < 0) {
		free(key);
		return NULL;
	}
	k->n++;
	k->bytes += e->body.bytes;
	return e;
}

/* What is asked, who asks as far as the answer shows it, and what the API itself has changed, so
 * that who has changed something sees it at once. NULL: no memory. */
static char *key_of(struct gs_live *a, const struct gs_http_request *q)
{
	struct gs_live_settings s;
	char *key = NULL;

	live_settings(a, &s);
	if (asprintf(&key, "%s?%s %d %d %zu %llx %llu %llx", q->path, q->query, q->may_control,
		     (int)q->see, s.n_sessions, (unsigned long long)s.sessions,
		     (unsigned long long)s.interval_ns, (unsigned long long)s.switches) < 0)
		return NULL;
	return key;
}

/* In the form that is cheapest in all for who asks. */
static void give_answer(struct live_answers *k, struct live_kept *e,
			const struct gs_http_request *q, struct gs_http_reply *reply)
{
	const struct gs_buf *body = &e->body;

	if (q->gzip && !q->local && !e->small.bytes && gs_http_gzip(&e->body, &e->small))
		k->bytes += e->small.bytes;
	if (q->gzip && !q->local && e->small.bytes) {
		body = &e->small;
		reply->is_gzip = true;
	}
	reply->type = e->type;
	gs_buf_reset(&reply->body);
	if (gs_buf_put(&reply->body, body->data, body->bytes) < 0) {
		reply->is_gzip = false;
		gs_http_error(reply, 503, "no memory");
	}
}

static void make_answer(struct gs_live *a, const struct gs_http_request *q,
			struct gs_http_reply *reply, gs_live_answer_fn fn, void *ctx)
{
	struct gs_live_snapshot *l = gs_live_take_snapshot(a);

	if (l)
		fn(ctx, l, q, reply);
	else
		gs_http_error(reply, 503, "no memory");
	gs_live_snapshot_unref(&l);
}

void gs_live_answer(struct gs_live *a, const struct gs_http_request *q, struct gs_http_reply *reply,
		    gs_live_answer_fn fn, void *ctx)
{
	uint64_t began = gs_clock_mono_ns(), now;
	GS_FREE char *key =
		a->o.keeps_answers ? key_of(a, q) : NULL; /* one node is looked at at once */
	struct live_kept *e = NULL;

	if (!a->answers && a->o.keeps_answers)
		a->answers = calloc(1, sizeof(*a->answers));
	reply->no_compression = q->local;
	if (key && a->answers)
		e = find_answer(a->answers, key, began);
	if (e) {
		give_answer(a->answers, e, q, reply);
		return;
	}
	make_answer(a, q, reply, fn, ctx);
	now = gs_clock_mono_ns();
	if (!key || !a->answers || reply->status != 200 || now - began < WORTH_NS)
		return;
	e = keep_answer(a->answers, gs_take(key), reply, live_again_until(began, now));
	if (e)
		give_answer(a->answers, e, q, reply);
}
