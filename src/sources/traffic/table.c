/* Rows of the kernel as peers of applications (table.h). */
#include "sources/traffic/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define SERVICES_MAX 64
#define NAME_UNUSED_NS                                                                             \
	600000000000ull /* after which another peer may take the place of a named one */
#define NO_PEER UINT32_MAX

_Static_assert(GS_TRAFFIC_BUCKETS == GS_TRAFFIC_LOG2, "the same buckets");

struct live_row { /* as it was read last */
	struct gs_traffic_key key;
	struct gs_traffic_sums sums;
	uint64_t used_ns;
	uint32_t peer; /* where it is added; NO_PEER: to be found */
	bool leaving;  /* gs_traffic_table_next_idle() has named it */
	char comm[16];
};

struct gs_traffic_table {
	struct gs_traffic_table_options o;
	struct live_row *live,
		*next; /* owned; by key; next is filled and changes places with live */
	size_t n_live, live_capacity, next_capacity;
	size_t n_idle_seen;           /* of live, by gs_traffic_table_next_idle() */
	struct gs_traffic_peer *peer; /* owned; room for max_peers */
	size_t n_peers, n_named;
	struct gs_traffic_service service[SERVICES_MAX];
	size_t n_services;
	uint64_t evicted;
	/* As of the last gs_traffic_table_grown(). */
	uint64_t grown_ns, grown_requests, grown_sends;
	uint64_t *grown; /* requests of each peer; owned */
};

int gs_traffic_table_new(const struct gs_traffic_table_options *options, uint64_t now_ns,
			 struct gs_traffic_table **ret)
{
	struct gs_traffic_table *t = calloc(1, sizeof(*t));

	*ret = NULL;
	if (!t)
		return -ENOMEM;
	memcpy(&t->o, options, options->size < sizeof(t->o) ? options->size : sizeof(t->o));
	if (!t->o.max_peers)
		t->o.max_peers = 4096;
	t->n_services = 1; /* takes the rest */
	t->grown_ns = now_ns;
	t->peer = calloc(t->o.max_peers, sizeof(*t->peer));
	t->grown = calloc(t->o.max_peers, sizeof(*t->grown));
	if (!t->peer || !t->grown) {
		gs_traffic_table_free(&t);
		return -ENOMEM;
	}
	*ret = t;
	return 0;
}

void gs_traffic_table_free(struct gs_traffic_table **table)
{
	struct gs_traffic_table *t = *table;

	if (!t)
		return;
	free(t->live);
	free(t->next);
	free(t->peer);
	free(t->grown);
	free(t);
	*table = NULL;
}

static struct gs_traffic_sums sums_of_row(const struct gs_traffic_row *r)
{
	struct gs_traffic_sums s = {.connections = r->connections,
				    .failed = r->failed,
				    .open = r->open,
				    .received_bytes = r->received_bytes,
				    .sent_bytes = r->sent_bytes,
				    .sends = r->sends,
				    .requests = r->requests,
				    .answers = r->answers,
				    .answer_ns = r->answer_ns};

	for (int i = 0; i < GS_TRAFFIC_BUCKETS; i++)
		s.answer_log2[i] = r->answer_log2[i];
	return s;
}

static uint16_t find_service(struct gs_traffic_table *t, const struct gs_traffic_peer *p)
{
	struct gs_traffic_service *s;

	if (!p->port)
		return 0;
	for (size_t i = 1; i < t->n_services; i++) {
		s = &t->service[i];
		if (s->port == p->port && s->accepted == p->accepted &&
		    strcmp(s->application, p->application) == 0)
			return (uint16_t)i;
	}
	if (t->n_services == SERVICES_MAX)
		return 0;
	s = &t->service[t->n_services];
	memcpy(s->application, p->application, sizeof(s->application));
	s->accepted = p->accepted;
	s->port = p->port;
	return (uint16_t)t->n_services++;
}

static bool goes_before(const struct gs_traffic_peer *a, const struct gs_traffic_peer *b)
{
	return a->is_named != b->is_named ? b->is_named : a->used_ns < b->used_ns;
}

/* Its sums stay in its service, where they are already. One with a name last: its series of metrics would end. */
static uint32_t evict_oldest(struct gs_traffic_table *t)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < t->n_peers; i++)
		if (goes_before(&t->peer[i], &t->peer[oldest]))
			oldest = i;
	for (size_t i = 0; i < t->n_live; i++)
		if (t->live[i].peer == oldest)
			t->live[i].peer = NO_PEER;
	t->n_named -= t->peer[oldest].is_named;
	t->evicted++;
	return oldest;
}

static void describe_peer(const struct gs_traffic_table *t, const struct live_row *row,
			  struct gs_traffic_peer *p)
{
	*p = (struct gs_traffic_peer){.accepted = row->key.accepted, .port = row->key.port};
	memcpy(p->application, row->comm, sizeof(p->application) - 1);
	if (row->key.family == 4 || row->key.family == 6)
		(void)inet_ntop(row->key.family == 4 ? AF_INET : AF_INET6, row->key.peer,
				p->address, sizeof(p->address));
	if (row->key.pid && t->o.job_of)
		t->o.job_of(t->o.ctx, row->key.pid, p->job, sizeof(p->job));
}

static bool same_peer(const struct gs_traffic_peer *a, const struct gs_traffic_peer *b)
{
	return a->port == b->port && a->accepted == b->accepted &&
	       strcmp(a->address, b->address) == 0 && strcmp(a->application, b->application) == 0 &&
	       strcmp(a->job, b->job) == 0;
}

/* A peer's own name lasts: series of metrics go on. Free places are taken as peers come; when there are none, that of
 * one which is silent is. */
static void name_peer(struct gs_traffic_table *t, struct gs_traffic_peer *p, uint64_t now_ns)
{
	struct gs_traffic_peer *silent = NULL;

	if (p->is_named || !p->address[0] || !t->o.max_named)
		return;
	if (t->n_named == t->o.max_named) {
		for (size_t i = 0; i < t->n_peers; i++) {
			struct gs_traffic_peer *q = &t->peer[i];

			if (q->is_named && now_ns - q->used_ns > NAME_UNUSED_NS && !q->sums.open &&
			    (!silent || q->used_ns < silent->used_ns))
				silent = q;
		}
		if (!silent)
			return;
		silent->is_named = false;
		t->n_named--;
	}
	p->is_named = true;
	t->n_named++;
}

static uint32_t find_peer(struct gs_traffic_table *t, const struct live_row *row, uint64_t now_ns)
{
	struct gs_traffic_peer wanted;
	uint32_t at;

	describe_peer(t, row, &wanted);
	for (at = 0; at < t->n_peers; at++)
		if (same_peer(&t->peer[at], &wanted))
			return at;
	if (t->n_peers == t->o.max_peers)
		at = evict_oldest(t);
	else
		t->n_peers++;
	t->peer[at] = wanted;
	t->grown[at] = 0;
	t->peer[at].service = find_service(t, &wanted);
	/* Else it would itself be the oldest until the end of this round. */
	t->peer[at].used_ns = now_ns;
	name_peer(t, &t->peer[at], now_ns);
	return at;
}

static void add_growth(struct gs_traffic_table *t, struct live_row *row,
		       const struct gs_traffic_sums *growth, uint64_t now_ns)
{
	struct gs_traffic_service *s;
	struct gs_traffic_peer *p;

	if (row->peer == NO_PEER)
		row->peer = find_peer(t, row, now_ns);
	p = &t->peer[row->peer];
	s = &t->service[p->service];
	if (growth->requests || growth->connections || growth->sends || growth->received_bytes)
		p->used_ns = now_ns;
	if (p->used_ns == now_ns)
		name_peer(t, p, now_ns);
	gs_traffic_sums_add(&p->sums, growth);
	gs_traffic_sums_add(&s->sums, growth);
	gs_traffic_sums_add(p->is_named ? &p->named : &s->unnamed, growth);
}

static int by_key(const void *a, const void *b)
{
	return memcmp(&((const struct gs_traffic_found *)a)->key,
		      &((const struct gs_traffic_found *)b)->key, sizeof(struct gs_traffic_key));
}

int gs_traffic_table_take(struct gs_traffic_table *t, struct gs_traffic_found *found,
			  size_t n_found, uint64_t now_ns)
{
	static const struct gs_traffic_sums none;
	struct live_row *rows;
	size_t capacity, old = 0, n_old = t->n_live;

	if (!gs_vec_reserve(&t->next, &t->next_capacity, n_found))
		return -ENOMEM;
	qsort(found, n_found, sizeof(*found), by_key);
	for (size_t i = 0; i < n_found; i++) {
		struct live_row *row = &t->next[i];

		*row = (struct live_row){.key = found[i].key, .peer = NO_PEER};
		memcpy(row->comm, found[i].row.comm, sizeof(row->comm) - 1);
		while (old < n_old && memcmp(&t->live[old].key, &row->key, sizeof(row->key)) < 0)
			old++;
		if (old < n_old && memcmp(&t->live[old].key, &row->key, sizeof(row->key)) == 0) {
			row->peer = t->live[old].peer;
			row->sums = t->live[old].sums;
		} else {
			row->sums = none;
		}
	}
	rows = t->live;
	capacity = t->live_capacity;
	t->live = t->next;
	t->live_capacity = t->next_capacity;
	t->n_live = n_found;
	t->next = rows;
	t->next_capacity = capacity;
	for (size_t i = 0; i < n_found; i++) {
		struct live_row *row = &t->live[i];
		struct gs_traffic_sums sums = sums_of_row(&found[i].row);
		struct gs_traffic_sums growth = gs_traffic_sums_since(&sums, &row->sums);

		row->sums = sums;
		row->used_ns = found[i].row.used_ns;
		/* The one that takes the rest is mostly empty. */
		if (row->peer != NO_PEER || memcmp(&growth, &none, sizeof(none)) != 0)
			add_growth(t, row, &growth, now_ns);
	}
	t->n_idle_seen = 0;
	return 0;
}

const struct gs_traffic_key *gs_traffic_table_next_idle(struct gs_traffic_table *t, uint64_t now_ns)
{
	while (t->n_idle_seen < t->n_live) {
		struct live_row *row = &t->live[t->n_idle_seen++];

		if (!row->sums.open && !row->key.rest && !row->leaving && row->used_ns < now_ns &&
		    now_ns - row->used_ns > t->o.linger_ns) {
			row->leaving = true;
			return &row->key;
		}
	}
	return NULL;
}

void gs_traffic_table_end(struct gs_traffic_table *t, const struct gs_traffic_key *key,
			  const struct gs_traffic_row *last)
{
	struct gs_traffic_sums sums, growth;

	for (size_t i = 0; i < t->n_live; i++) {
		struct live_row *row = &t->live[i];

		if (memcmp(&row->key, key, sizeof(*key)) != 0)
			continue;
		if (last) {
			sums = sums_of_row(last);
			growth = gs_traffic_sums_since(&sums, &row->sums);
			/* Only what happened since it was read. */
			if (growth.connections || growth.open || growth.received_bytes ||
			    growth.sent_bytes || growth.requests || growth.failed)
				add_growth(t, row, &growth, row->used_ns);
		}
		/* One that comes again begins at zero, and is found as a new one. */
		memset(&row->sums, 0, sizeof(row->sums));
		return;
	}
}

int gs_traffic_table_grown(struct gs_traffic_table *t, uint16_t port, uint32_t max_askers,
			   uint64_t now_ns, struct gs_traffic_growth *ret)
{
	uint64_t requests = 0, sends = 0, named = 0;

	*ret = (struct gs_traffic_growth){.port = port,
					  .ns = now_ns - t->grown_ns,
					  .sends_known = true,
					  .asker = calloc(max_askers + 1, sizeof(*ret->asker))};
	if (!ret->asker)
		return -ENOMEM;
	for (size_t i = 1; i < t->n_services; i++)
		if (t->service[i].port == port && t->service[i].accepted) {
			requests += t->service[i].sums.requests;
			sends += t->service[i].sums.sends;
		}
	ret->requests = requests - t->grown_requests;
	ret->sends = sends - t->grown_sends;
	t->grown_ns = now_ns;
	t->grown_requests = requests;
	t->grown_sends = sends;
	for (size_t i = 0; i < t->n_peers; i++) {
		const struct gs_traffic_peer *p = &t->peer[i];
		uint64_t more = p->sums.requests - t->grown[i];

		if (p->port != port || !p->accepted || !p->address[0])
			continue;
		t->grown[i] = p->sums.requests;
		if (!more || ret->n_askers == max_askers)
			continue;
		memcpy(ret->asker[ret->n_askers].address, p->address, sizeof(p->address));
		ret->asker[ret->n_askers++].requests = more;
		named += more;
	}
	/* Also those of a peer that was given up since. */
	if (ret->requests > named)
		ret->asker[ret->n_askers++].requests = ret->requests - named;
	return 0;
}

static int busiest_first(const void *a, const void *b)
{
	const struct gs_traffic_peer *x = a, *y = b;
	uint64_t n = x->sums.received_bytes + x->sums.sent_bytes,
		 m = y->sums.received_bytes + y->sums.sent_bytes;

	if (x->sums.requests != y->sums.requests)
		return x->sums.requests < y->sums.requests ? 1 : -1;
	return n < m ? 1 : n > m ? -1 : strcmp(x->address, y->address);
}

int gs_traffic_table_copy(const struct gs_traffic_table *t, struct gs_traffic_list *ret)
{
	*ret = (struct gs_traffic_list){
		.n_peers = t->n_peers, .n_services = t->n_services, .evicted_peers = t->evicted};
	ret->peer = malloc((t->n_peers + 1) * sizeof(*ret->peer));
	ret->service = malloc(t->n_services * sizeof(*ret->service));
	if (!ret->peer || !ret->service) {
		gs_traffic_list_fini(ret);
		return -ENOMEM;
	}
	memcpy(ret->peer, t->peer, t->n_peers * sizeof(*ret->peer));
	memcpy(ret->service, t->service, t->n_services * sizeof(*ret->service));
	if (ret->n_peers)
		qsort(ret->peer, ret->n_peers, sizeof(*ret->peer), busiest_first);
	return 0;
}
