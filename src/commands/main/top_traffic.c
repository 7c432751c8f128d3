/*
 * TCP of one process for `gpuscope top`, while its screen is open: sources/traffic is loaded when it is asked for and
 * unloaded when it is not, so that nothing is counted otherwise. The thread that reads samples does that.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "commands/main/top.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/traffic/table.h"
#include "sources/traffic/traffic.h"

struct top_traffic {
	/* Of the thread that reads. */
	uint32_t pid; /* 0: none */
	struct gs_traffic *source;
	struct gs_traffic_table *table;

	pthread_mutex_t lock; /* of what follows */
	uint32_t wanted_pid;
	struct gs_traffic_list list; /* of list_pid, as it was read last */
	uint32_t list_pid;
	char why[GS_TUI_WHY_BYTES]; /* likewise: what is not counted; "" all is */
};

int top_traffic_new(struct top_traffic **ret)
{
	struct top_traffic *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	*ret = t;
	return 0;
}

static void close_source(struct top_traffic *t)
{
	gs_traffic_close(&t->source);
	gs_traffic_table_free(&t->table);
	t->pid = 0;
}

void top_traffic_free(struct top_traffic **traffic)
{
	struct top_traffic *t = *traffic;

	if (!t)
		return;
	close_source(t);
	gs_traffic_list_fini(&t->list);
	pthread_mutex_destroy(&t->lock);
	gs_free_p(traffic);
}

static int open_source(struct top_traffic *t, struct gs_err *err)
{
	const struct gs_traffic_options source = {.size = sizeof(source)};
	const struct gs_traffic_table_options table = {.size = sizeof(table)};
	int r = gs_traffic_table_new(&table, gs_clock_mono_ns(), &t->table);

	return r == 0 ? gs_traffic_open(&source, &t->source, err) : r;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(&((const struct gs_traffic_found *)a)->key,
		      &((const struct gs_traffic_found *)b)->key, sizeof(struct gs_traffic_key));
}

/* The rows of the process alone. */
static int read_rows(struct top_traffic *t, struct gs_traffic_list *ret)
{
	struct gs_traffic_found *found;
	size_t n, n_own = 0;
	int r = gs_traffic_read(t->source, &found, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (found[i].key.pid == t->pid)
			found[n_own++] = found[i];
	qsort(found, n_own, sizeof(*found), by_key);
	r = gs_traffic_table_take(t->table, found, n_own, gs_clock_mono_ns());
	return r == 0 ? gs_traffic_table_copy(t->table, ret) : r;
}

void top_traffic_take(struct top_traffic *t)
{
	struct gs_traffic_list list = {0};
	struct gs_err err = {{0}};
	const char *missing = NULL;
	uint32_t wanted_pid;
	int r = 0;

	pthread_mutex_lock(&t->lock);
	wanted_pid = t->wanted_pid;
	pthread_mutex_unlock(&t->lock);
	if (wanted_pid != t->pid) {
		close_source(t);
		t->pid = wanted_pid;
		if (t->pid)
			r = open_source(t, &err);
	}
	if (r == 0 && t->source) {
		r = read_rows(t, &list);
		missing = gs_traffic_missing(t->source);
	}
	pthread_mutex_lock(&t->lock);
	gs_traffic_list_fini(&t->list);
	t->list = list;
	t->list_pid = t->pid;
	if (r < 0)
		snprintf(t->why, sizeof(t->why), "not counted: %s", gs_err_text(&err, r));
	else if (t->source)
		snprintf(t->why, sizeof(t->why), "%s", missing ? missing : "");
	pthread_mutex_unlock(&t->lock);
}

bool top_traffic_want(struct top_traffic *t, uint32_t pid)
{
	bool changed;

	pthread_mutex_lock(&t->lock);
	changed = t->wanted_pid != pid;
	t->wanted_pid = pid;
	pthread_mutex_unlock(&t->lock);
	return changed;
}

bool top_traffic_of(void *ctx, uint32_t pid, struct gs_tui_traffic *ret)
{
	struct top_traffic *t = ctx;
	bool is_known;

	pthread_mutex_lock(&t->lock);
	is_known = t->list_pid == pid;
	if (is_known) {
		ret->n_peers = t->list.n_peers;
		for (size_t i = 0; i < ret->n_peers && i < GS_TUI_PEERS_MAX; i++)
			ret->peers[i] = t->list.peer[i];
		memcpy(ret->why, t->why, sizeof(ret->why));
	}
	pthread_mutex_unlock(&t->lock);
	return is_known;
}
