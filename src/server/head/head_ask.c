/*
 * What a user wants of a node, passed on over the stream of its samples: the thread that asks waits for the answer, no
 * longer than it has to. Questions are known by number; an answer to none of them, or over another stream, is nothing.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "gpuscope.pb-c.h"

struct head_question {
	struct head_question *next;
	struct gs_head_stream *stream; /* whose node is asked; only compared */
	uint64_t id;
	bool is_done;
	int r; /* of the node, or -ENOTCONN */
	struct gs_head_answer *answer;
};

/* With the lock held. The newest stream of the node's samples; NULL: it is not connected. */
static struct gs_head_stream *stream_of(const struct gs_head *h, int64_t node)
{
	struct gs_head_stream *found = NULL;

	for (struct gs_head_stream *s = h->live; s; s = s->next)
		if (s->node_id == node && s->stream.kind == GS_STORE_SAMPLES && !s->is_mute &&
		    (!found || s->attempt > found->attempt))
			found = s;
	return found;
}

static void send_question(struct gs_head_stream *s, uint64_t id, const struct gs_head_question *q)
{
	Gpuscope__V1__ToNode m = GPUSCOPE__V1__TO_NODE__INIT;
	Gpuscope__V1__Question question = GPUSCOPE__V1__QUESTION__INIT;

	question.id = id;
	question.kind = (Gpuscope__V1__QuestionKind)q->kind; /* the same numbers */
	question.name = (char *)q->name;
	question.offset = q->offset;
	question.max_bytes = q->max_bytes;
	m.body_case = GPUSCOPE__V1__TO_NODE__BODY_QUESTION;
	m.question = &question;
	head_node_send(s, &m);
}

static void forget_question(struct gs_head *h, const struct head_question *q)
{
	struct head_question **at = &h->questions;

	while (*at && *at != q)
		at = &(*at)->next;
	if (*at)
		*at = q->next;
}

int gs_head_ask(struct gs_head *h, int64_t node, const struct gs_head_question *asked,
		uint64_t wait_ns, struct gs_head_answer *ret)
{
	struct head_question q = {.answer = ret};
	uint64_t until_ns = gs_clock_mono_ns() + wait_ns;
	struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
	int r = 0;

	gs_buf_reset(&ret->data);
	ret->text[0] = '\0';
	ret->total_bytes = 0;
	pthread_mutex_lock(&h->lock);
	q.stream = h->stopping ? NULL : stream_of(h, node);
	if (!q.stream) {
		pthread_mutex_unlock(&h->lock);
		return -ENOTCONN;
	}
	q.id = ++h->last_question;
	q.next = h->questions;
	h->questions = &q;
	send_question(q.stream, q.id, asked);
	while (!q.is_done && r == 0)
		r = pthread_cond_timedwait(&h->answered, &h->lock, &until);
	forget_question(h, &q);
	pthread_mutex_unlock(&h->lock);
	return q.is_done ? q.r : -ETIME;
}

void head_answer_take(struct gs_head_stream *s, const Gpuscope__V1__Answer *a)
{
	struct gs_head *h = s->head;

	pthread_mutex_lock(&h->lock);
	for (struct head_question *q = h->questions; q; q = q->next) {
		if (q->id != a->id || q->stream != s || q->is_done)
			continue;
		q->is_done = true;
		q->r = a->error < 0 && a->error > -4096 ? a->error : a->error ? -EPROTO : 0;
		if (q->r == 0 && a->data.len > GS_HEAD_ANSWER_MAX)
			q->r = -EPROTO;
		else if (q->r == 0)
			q->r = gs_buf_put(&q->answer->data, a->data.data, a->data.len);
		q->answer->total_bytes = a->total_bytes;
		snprintf(q->answer->text, sizeof(q->answer->text), "%s", a->text);
		for (char *c = q->answer->text; *c; c++)
			*c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
		pthread_cond_broadcast(&h->answered);
	}
	pthread_mutex_unlock(&h->lock);
}

void head_answers_end(struct gs_head_stream *s)
{
	struct gs_head *h = s->head;

	pthread_mutex_lock(&h->lock);
	for (struct head_question *q = h->questions; q; q = q->next)
		if (q->stream == s && !q->is_done) {
			q->is_done = true;
			q->r = -ENOTCONN;
		}
	pthread_cond_broadcast(&h->answered);
	pthread_mutex_unlock(&h->lock);
}
