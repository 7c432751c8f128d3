/*
 * Jobs: functions that need the store, run on the thread that has one. The writer's thread runs
 * them between its transactions (head_store.c); the reader's has a connection of its own, so that a
 * long look at what is stored does not delay storing.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>

struct head_job {
	struct head_job *next;
	gs_head_job_fn fn;
	void *ctx;
};

static int put_job(struct gs_head *h, struct head_jobs *jobs, gs_head_job_fn fn, void *ctx)
{
	struct head_job *job = malloc(sizeof(*job));
	bool ended;

	if (!job)
		return -ENOMEM;
	*job = (struct head_job){.fn = fn, .ctx = ctx};
	pthread_mutex_lock(&h->lock);
	ended = h->jobs_ended;
	if (!ended) {
		if (jobs->last)
			jobs->last->next = job;
		else
			jobs->first = job;
		jobs->last = job;
		pthread_cond_signal(jobs == &h->writes ? &h->more : &h->more_reads);
	}
	pthread_mutex_unlock(&h->lock);
	if (ended) {
		free(job);
		fn(ctx, NULL);
	}
	return 0;
}

int gs_head_write(struct gs_head *head, gs_head_job_fn fn, void *ctx)
{
	return put_job(head, &head->writes, fn, ctx);
}

int gs_head_read(struct gs_head *head, gs_head_job_fn fn, void *ctx)
{
	return put_job(head, &head->reads, fn, ctx);
}

void head_jobs_run(struct gs_head *h, struct head_jobs *jobs, struct gs_store *store)
{
	for (;;) {
		struct head_job *job;

		pthread_mutex_lock(&h->lock);
		job = jobs->first;
		if (job) {
			jobs->first = job->next;
			if (!jobs->first)
				jobs->last = NULL;
		}
		pthread_mutex_unlock(&h->lock);
		if (!job)
			return;
		job->fn(job->ctx, store);
		free(job);
	}
}

/* --- the reader's thread --- */

static void *run_jobs(void *arg)
{
	struct gs_head *h = arg;
	bool stop = false;

	while (!stop) {
		pthread_mutex_lock(&h->lock);
		while (!h->jobs_ended && !h->reads.first)
			pthread_cond_wait(&h->more_reads, &h->lock);
		stop = h->jobs_ended;
		pthread_mutex_unlock(&h->lock);
		head_jobs_run(h, &h->reads, stop ? NULL : h->reader);
	}
	return NULL;
}

int gs_head_reader(struct gs_head *head, struct gs_store **ret_store, struct gs_err *err)
{
	return gs_store_open(head->o.data, GS_STORE_READ, ret_store, err);
}

int head_reader_start(struct gs_head *h, struct gs_err *err)
{
	int r = gs_head_reader(h, &h->reader, err);

	if (r < 0)
		return r;
	r = -pthread_create(&h->read_thread, NULL, run_jobs, h);
	h->has_read_thread = r == 0;
	return r < 0 ? gs_err_set(err, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

void head_jobs_end(struct gs_head *h)
{
	pthread_mutex_lock(&h->lock);
	h->jobs_ended = true;
	pthread_cond_broadcast(&h->more_reads);
	pthread_cond_broadcast(&h->more);
	pthread_mutex_unlock(&h->lock);
	if (h->has_read_thread)
		pthread_join(h->read_thread, NULL);
	h->has_read_thread = false;
	gs_store_close(&h->reader);
}
