#include "core/base/share.h"

#include <errno.h>
#include <stdlib.h>

struct gs_share_owner {
	uint64_t key;
	unsigned n;                         /* places */
	struct gs_share *oldest, *newest;   /* resting ones */
	struct gs_share_owner *next, *prev; /* in by_n, while some rest */
};

void gs_shares_fini(struct gs_shares *s)
{
	gs_map_fini(&s->owners);
	free(s->by_n);
	*s = GS_SHARES_INIT(s->max, s->max_per_owner);
}

static struct gs_share_owner *find_owner(const struct gs_shares *s, uint64_t key)
{
	uint64_t found = 0;

	(void)gs_map_get(&s->owners, key, &found);
	return (struct gs_share_owner *)(uintptr_t)found;
}

/* --- lists of owners by the number of their places --- */

static void list_owner(struct gs_shares *s, struct gs_share_owner *o)
{
	struct gs_share_owner **first = &s->by_n[o->n];

	if (!o->oldest)
		return;
	o->prev = NULL;
	o->next = *first;
	if (o->next)
		o->next->prev = o;
	*first = o;
	if (o->n > s->most)
		s->most = o->n;
}

static void unlist_owner(struct gs_shares *s, struct gs_share_owner *o)
{
	if (!o->oldest)
		return;
	if (o->prev)
		o->prev->next = o->next;
	else
		s->by_n[o->n] = o->next;
	if (o->next)
		o->next->prev = o->prev;
}

static int make_list(struct gs_shares *s, unsigned n)
{
	unsigned n_lists = s->n_lists ? s->n_lists : 16;
	struct gs_share_owner **more;

	if (n < s->n_lists)
		return 0;
	while (n_lists <= n)
		n_lists *= 2;
	more = realloc(s->by_n, n_lists * sizeof(*more));
	if (!more)
		return -ENOMEM;
	for (unsigned i = s->n_lists; i < n_lists; i++)
		more[i] = NULL;
	s->by_n = more;
	s->n_lists = n_lists;
	return 0;
}

/* The owner with the most places of which some rest. */
static struct gs_share_owner *greediest_owner(struct gs_shares *s)
{
	while (s->most && !s->by_n[s->most])
		s->most--;
	return s->most ? s->by_n[s->most] : NULL;
}

/* --- places --- */

enum gs_share_verdict gs_shares_ask(struct gs_shares *s, uint64_t key, struct gs_share **ret_victim)
{
	struct gs_share_owner *own = find_owner(s, key), *greediest;
	unsigned n = own ? own->n : 0;

	*ret_victim = NULL;
	if (n >= s->max_per_owner) {
		*ret_victim = own ? own->oldest : NULL;
		return *ret_victim ? GS_SHARE_EVICT : GS_SHARE_OWNER_FULL;
	}
	if (s->n < s->max)
		return GS_SHARE_FREE;
	greediest = greediest_owner(s);
	if (greediest && greediest->n > n)
		*ret_victim = greediest->oldest;
	else if (own)
		*ret_victim = own->oldest;
	return *ret_victim ? GS_SHARE_EVICT : GS_SHARE_FULL;
}

int gs_share_take(struct gs_shares *s, uint64_t key, struct gs_share *share)
{
	struct gs_share_owner *o = find_owner(s, key);
	bool is_new = !o;
	int r = make_list(s, o ? o->n + 1 : 1);

	if (r == 0 && is_new) {
		o = calloc(1, sizeof(*o));
		r = o ? gs_map_put(&s->owners, key, (uintptr_t)o) : -ENOMEM;
	}
	if (r < 0) {
		if (is_new)
			free(o);
		return r;
	}
	unlist_owner(s, o);
	o->key = key;
	o->n++;
	list_owner(s, o);
	s->n++;
	*share = (struct gs_share){.owner = o};
	return 0;
}

static void unlink_share(struct gs_share *share)
{
	struct gs_share_owner *o = share->owner;

	if (share->prev)
		share->prev->next = share->next;
	else
		o->oldest = share->next;
	if (share->next)
		share->next->prev = share->prev;
	else
		o->newest = share->prev;
	share->next = share->prev = NULL;
	share->resting = false;
}

void gs_share_leave(struct gs_shares *s, struct gs_share *share)
{
	struct gs_share_owner *o = share->owner;

	if (!o)
		return;
	unlist_owner(s, o);
	if (share->resting)
		unlink_share(share);
	share->owner = NULL;
	o->n--;
	s->n--;
	list_owner(s, o);
	if (o->n)
		return;
	(void)gs_map_del(&s->owners, o->key);
	free(o);
}

void gs_share_work(struct gs_shares *s, struct gs_share *share)
{
	struct gs_share_owner *o = share->owner;

	if (!o || !share->resting)
		return;
	unlist_owner(s, o);
	unlink_share(share);
	list_owner(s, o);
}

void gs_share_rest(struct gs_shares *s, struct gs_share *share)
{
	struct gs_share_owner *o = share->owner;

	if (!o)
		return;
	unlist_owner(s, o);
	if (share->resting)
		unlink_share(share);
	share->prev = o->newest;
	if (o->newest)
		o->newest->next = share;
	else
		o->oldest = share;
	o->newest = share;
	share->resting = true;
	list_owner(s, o);
}
