/* Threads that read the store for one request each, so that a long look at the past stops neither
 * the head nor other clients. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "server/api/api_int.h"

static void *run_tasks(void *arg)
{
	struct api_task *t = arg;
	struct gs_api *a = t->api;
	bool of_few;
	int r = gs_head_reader(a->o.head, &t->store, &t->err);

	if (r < 0) {
		struct gs_http_reply reply = gs_http_reply_new(t->later);

		gs_live_fail(&reply, r, &t->err);
		gs_http_answer(&t->later, &reply);
	} else {
		t->run(t);
	}
	gs_store_close(&t->store);
	of_few = t->of_few;
	free(t->arg);
	free(t);
	pthread_mutex_lock(&a->lock);
	a->n_threads--;
	a->n_few -= of_few;
	pthread_cond_broadcast(&a->ended);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* few: how many of those may be, 0: it is none of them. */
static bool take_place(struct gs_api *a, unsigned few)
{
	bool there;

	pthread_mutex_lock(&a->lock);
	there = a->n_threads < API_THREADS_MAX && (!few || a->n_few < few);
	a->n_threads += there;
	a->n_few += there && few;
	pthread_mutex_unlock(&a->lock);
	return there;
}

static int start_thread(struct api_task *t)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&thread, &attr, run_tasks, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return r;
}

void api_task_start(struct gs_api *api, struct gs_http_reply *reply,
		    void (*fn)(struct api_task *task), void *arg)
{
	api_task_start_few(api, reply, fn, arg, 0);
}

void api_task_start_few(struct gs_api *api, struct gs_http_reply *reply,
			void (*fn)(struct api_task *task), void *arg, unsigned most)
{
	struct api_task *t;
	struct gs_http_deferred *later;
	int r;

	if (!take_place(api, most)) {
		free(arg);
		gs_http_error(reply, 503,
			      "too many long requests are already running; try again later");
		return;
	}
	t = calloc(1, sizeof(*t));
	later = t ? gs_http_defer(reply) : NULL;
	if (later) {
		*t = (struct api_task){
			.api = api, .later = later, .run = fn, .arg = arg, .of_few = most > 0};
		r = start_thread(t);
		if (r == 0)
			return;
		struct gs_http_reply failed = gs_http_reply_new(later);

		gs_http_error(&failed, 503, "no thread can be started; try again later");
		gs_http_answer(&later, &failed);
	} else {
		gs_http_error(reply, 503, "out of memory; try again later");
	}
	free(t);
	free(arg);
	pthread_mutex_lock(&api->lock);
	api->n_threads--;
	api->n_few -= most > 0;
	pthread_mutex_unlock(&api->lock);
}

void api_tasks_wait(struct gs_api *api)
{
	pthread_mutex_lock(&api->lock);
	while (api->n_threads)
		pthread_cond_wait(&api->ended, &api->lock);
	pthread_mutex_unlock(&api->lock);
}
