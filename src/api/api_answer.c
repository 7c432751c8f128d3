/*
 * Answers about the cluster, kept for a moment: several pages that show the same ask the same, and
 * at the same time, since they are told of news at the same time. An answer is made once for all of
 * them, and made smaller once. How long it is used again depends on what it cost (API_AGAIN), so in
 * a small cluster it is as good as not at all.
 */
#include <errno.h>
#include <string.h>

#include "api/api_look.h"
#include "base/clock.h"

#define ANSWERS_MAX       64
#define ANSWERS_MAX_BYTES (16u << 20)
#define WORTH_NS          100000 /* what is made faster is made anew */

struct api_kept {
	char *key; /* owned: what was asked, and by whom as far as that matters */
	uint64_t until_ns;
	const char *type;
	struct gs_buf body, small; /* small: as gzip, of those who asked for that; may be empty */
};

struct api_answers {
	struct api_kept kept[ANSWERS_MAX];
	size_t n, bytes;
};

static void forget(struct api_answers *k, size_t i)
{
	struct api_kept *e = &k->kept[i];

	k->bytes -= e->body.bytes + e->small.bytes;
	free(e->key);
	gs_buf_fini(&e->body);
	gs_buf_fini(&e->small);
	*e = k->kept[--k->n];
}

void api_answers_free(struct gs_api *a)
{
	while (a->answers && a->answers->n)
		forget(a->answers, 0);
	gs_free_p(&a->answers);
}

static struct api_kept *find(struct api_answers *k, const char *key, uint64_t now_ns)
{
	for (size_t i = k->n; i-- > 0;)
		if (k->kept[i].until_ns <= now_ns)
			forget(k, i);
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->kept[i].key, key) == 0)
			return &k->kept[i];
	return NULL;
}

/* Takes the key over, also on failure. NULL: it is not kept. */
static struct api_kept *keep(struct api_answers *k, char *key, const struct gs_http_reply *reply,
			     uint64_t until_ns)
{
	struct api_kept *e;

	if (k->n == ANSWERS_MAX || reply->body.bytes > ANSWERS_MAX_BYTES - k->bytes) {
		free(key);
		return NULL;
	}
	e = &k->kept[k->n];
	*e = (struct api_kept){.key = key,
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
static char *key_of(struct gs_api *a, const struct gs_http_request *q)
{
	struct gs_store_session *active = NULL;
	struct gs_head_switches s;
	uint64_t hash = 0;
	size_t n = 0;
	char *key = NULL;

	(void)gs_head_active(a->o.head, &active, &n);
	for (size_t i = 0; i < n; i++)
		hash = hash * 31 + (uint64_t)active[i].number;
	free(active);
	gs_head_switches(a->o.head, &s);
	if (asprintf(&key, "%s?%s %d %zu %llx %llu %d%d", q->path, q->query, q->may_control, n,
		     (unsigned long long)hash, (unsigned long long)s.interval_ns, s.bandwidth,
		     s.nvlink) < 0)
		return NULL;
	return key;
}

/* In the form that is cheapest in all for who asks. */
static void give(struct api_answers *k, struct api_kept *e, const struct gs_http_request *q,
		 struct gs_http_reply *reply)
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
		gs_http_say(reply, 503, "no memory");
	}
}

static void make(struct gs_api *a, const struct gs_http_request *q, struct gs_http_reply *reply,
		 api_answer_fn fn)
{
	struct api_look *l = api_look(a);

	if (l)
		fn(a, l, q, reply);
	else
		gs_http_say(reply, 503, "no memory");
	api_look_unref(&l);
}

void api_answer(struct gs_api *a, const struct gs_http_request *q, struct gs_http_reply *reply,
		api_answer_fn fn)
{
	uint64_t began = gs_clock_mono_ns(), now;
	GS_FREE char *key = a->o.head ? key_of(a, q) : NULL; /* one node is looked at at once */
	struct api_kept *e = NULL;

	if (!a->answers && a->o.head)
		a->answers = calloc(1, sizeof(*a->answers));
	reply->no_compression = q->local;
	if (key && a->answers)
		e = find(a->answers, key, began);
	if (e) {
		give(a->answers, e, q, reply);
		return;
	}
	make(a, q, reply, fn);
	now = gs_clock_mono_ns();
	if (!key || !a->answers || reply->status != 200 || now - began < WORTH_NS)
		return;
	e = keep(a->answers, gs_take(key), reply, api_again_until(began, now));
	if (e)
		give(a->answers, e, q, reply);
}
