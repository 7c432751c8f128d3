/*
 * A rank that calls ncclCommSplit() passes a color and a key and does not get its new rank until
 * NCCL has asked all others. We see the calls of all ranks that are traced, in any order, and do
 * the same sum: the n-th split that a rank does of its parent belongs with the n-th split of every
 * other rank of that parent (they are collective: every rank does them in the same order). These
 * form a group. When it has as many members as the parent has ranks, it is resolved:
 *
 *	parent: ranks 0..3      color  key          new ranks
 *	  0 ----------------------- 0    1   ----->  1 of 2   of hash(parent, n, 0)
 *	  1 ----------------------- 1    0   ----->  0 of 1   of hash(parent, n, 1)
 *	  2 ----------------------- 0    0   ----->  0 of 2   of hash(parent, n, 0)
 *	  3 ---------------- no color        ----->  none
 *
 * A shrink needs no others: rank and size follow from the parent's and the list of excluded ranks.
 *
 * What is split may itself not be known yet (its own group lacks a member, or the record of its
 * making comes later). Such a child waits in its parent's list and is added when the parent
 * becomes known, which may make its own children known: a work list, not a recursion.
 *
 *	waiting for the parent --> in a group --> known
 *	                      \---- shrink ----/
 *
 * A communicator's place is given back when its handle is closed (destroyed, overtaken by a new one
 * with the same handle, exec) and no call waits for it.
 */
#include "pipeline/correlate/comm.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "pipeline/correlate/correlate.h"

void correlate_comms_init(struct comms *cs)
{
	*cs = (struct comms){
		.by_handle = GS_MAP_INIT(GS_CORRELATE_MAX_COMMS),
		.by_group = GS_MAP_INIT(GS_CORRELATE_MAX_COMMS),
	};
}

void correlate_comms_fini(struct comms *cs)
{
	free(cs->items);
	free(cs->groups);
	gs_map_fini(&cs->by_handle);
	gs_map_fini(&cs->by_group);
	*cs = (struct comms){0};
}

static uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t words[3] = {a, b, c}, h = gs_hash_bytes(words, sizeof(words));

	return h ? h : 1; /* 0 means unknown */
}

static bool is_known(const struct comm *c)
{
	return c->rank >= 0 && c->n_ranks > 0 && c->rank < c->n_ranks;
}

/* --- places --- */

/* Give the place back unless a call still needs it. */
static void release_comm(struct comms *cs, uint32_t i)
{
	struct comm *c = &cs->items[i];

	if (c->open || c->waiting || c->parent || c->group || c->listed || c->busy ||
	    c->kind == COMM_FREE)
		return;
	*c = (struct comm){.next = cs->first_free};
	cs->first_free = i;
}

static void close_handle(struct comms *cs, uint32_t i)
{
	struct comm *c = &cs->items[i];

	if (!c->open)
		return;
	gs_map_del(&cs->by_handle, hash_of(c->process, c->handle, 0));
	c->open = false;
	release_comm(cs, i);
}

/* Take a child out of its parent's list; the parent's place is free when it was the last one of a
 * parent that is closed. */
static void stop_waiting(struct comms *cs, uint32_t i)
{
	struct comm *c = &cs->items[i];
	uint32_t parent = c->parent, *link = &cs->items[parent].waiting;

	while (*link != i)
		link = &cs->items[*link].next;
	*link = c->next;
	c->next = c->parent = 0;
	release_comm(cs, parent);
}

static void free_group(struct comms *cs, uint32_t g)
{
	struct group *group = &cs->groups[g];

	gs_map_del(&cs->by_group, hash_of(group->parent_hash, group->generation, 1));
	*group = (struct group){.next_free = cs->first_free_group};
	cs->first_free_group = g;
}

/* The members have their ranks, or will not get any. */
static void dissolve_group(struct comms *cs, uint32_t g)
{
	for (uint32_t i = cs->groups[g].members, next; i; i = next) {
		struct comm *c = &cs->items[i];

		next = c->next;
		c->next = c->group = 0;
		release_comm(cs, i);
	}
	free_group(cs, g);
}

/* All places are taken: give up what is closed and waits for others that may never come. */
static void sweep_comms(struct comms *cs)
{
	for (uint32_t i = 1; i < cs->n_items; i++) {
		struct comm *c = &cs->items[i];

		if (c->kind == COMM_FREE || c->open)
			continue;
		if (c->parent) {
			stop_waiting(cs, i);
			release_comm(cs, i);
		} else if (c->group) {
			dissolve_group(cs, c->group);
		}
	}
}

/* A place, zeroed but for the unknown values; 0 when there is none. Moves items. */
static uint32_t new_comm(struct comms *cs, enum comm_kind kind, uint32_t process)
{
	uint32_t i;

	if (!cs->first_free && cs->n_items >= GS_CORRELATE_MAX_COMMS)
		sweep_comms(cs);
	if (cs->first_free) {
		i = cs->first_free;
		cs->first_free = cs->items[i].next;
	} else {
		if (cs->n_items >= GS_CORRELATE_MAX_COMMS)
			return 0;
		if (!gs_vec_reserve(&cs->items, &cs->n_room, cs->n_items + 2))
			return 0;
		if (!cs->n_items)
			cs->items[cs->n_items++] = (struct comm){0};
		i = cs->n_items++;
	}
	cs->items[i] = (struct comm){.kind = kind,
				     .process = process,
				     .rank = -1,
				     .n_ranks = -1,
				     .color = GS_COMM_NO_SPLIT};
	return i;
}

static uint32_t new_group(struct comms *cs, uint64_t key)
{
	uint32_t g = cs->first_free_group;

	if (g) {
		cs->first_free_group = cs->groups[g].next_free;
	} else {
		if (!gs_vec_reserve(&cs->groups, &cs->n_groups_room, cs->n_groups + 2))
			return 0;
		if (!cs->n_groups)
			cs->groups[cs->n_groups++] = (struct group){0};
		g = cs->n_groups++;
	}
	cs->groups[g] = (struct group){0};
	if (gs_map_put(&cs->by_group, key, g) < 0) {
		cs->groups[g].next_free = cs->first_free_group;
		cs->first_free_group = g;
		return 0;
	}
	return g;
}

static uint32_t find_open(struct comms *cs, uint32_t process, uint64_t handle)
{
	uint64_t i;

	if (!gs_map_get(&cs->by_handle, hash_of(process, handle, 0), &i))
		return 0;
	return cs->items[i].process == process && cs->items[i].handle == handle ? (uint32_t)i : 0;
}

/* Make i the owner of the handle. False: no memory; the place is given back. */
static bool open_handle(struct comms *cs, uint32_t i, uint64_t handle)
{
	struct comm *c = &cs->items[i];
	uint64_t key = hash_of(c->process, handle, 0), old;

	if (gs_map_get(&cs->by_handle, key, &old))
		close_handle(cs, (uint32_t)old);
	c->handle = handle;
	c->open = gs_map_put(&cs->by_handle, key, i) == 0;
	if (!c->open)
		release_comm(cs, i);
	return c->open;
}

/* --- becoming known --- */

static void emit_comm(const struct comms *cs, uint32_t i, struct gs_buf *extra)
{
	const struct comm *c = &cs->items[i];
	struct gs_rec_comm *r;

	/* The record in hand is completed in place. A handle that is closed may be another's now.
	 */
	if (i == cs->current || !c->open)
		return;
	r = gs_record_put(extra, GS_REC_COMM, sizeof(*r), 0);
	if (!r)
		return;
	r->process = c->process;
	r->rank = c->rank;
	r->n_ranks = c->n_ranks;
	r->origin_str = c->origin_str;
	r->comm = c->handle;
	r->id_hash = c->id_hash;
	r->parent = c->parent_handle;
	r->color = c->color;
	r->key = c->key;
	r->n_excluded = c->n_excluded;
	memcpy(r->excluded, c->excluded, sizeof(r->excluded));
}

static uint64_t list_hash(const struct comm *c)
{
	return gs_hash_bytes(c->excluded, c->n_excluded * sizeof(c->excluded[0]));
}

/* Rank and size after a shrink; false when the list does not fit the parent. */
static bool resolve_shrink(struct comm *c, const struct comm *parent)
{
	int32_t rank = parent->rank;

	if (!c->n_excluded || c->n_excluded > GS_COMM_LIST_MAX)
		return false;
	for (uint32_t i = 0; i < c->n_excluded; i++) {
		if (c->excluded[i] < 0 || c->excluded[i] >= parent->n_ranks ||
		    c->excluded[i] == parent->rank || (i && c->excluded[i] == c->excluded[i - 1]))
			return false;
		rank -= c->excluded[i] < parent->rank;
	}
	c->rank = rank;
	c->n_ranks = parent->n_ranks - (int32_t)c->n_excluded;
	if (parent->id_hash && c->generation)
		c->id_hash = hash_of(parent->id_hash, list_hash(c), 2 + (uint64_t)c->generation);
	return true;
}

/* Note that i became known: its children are to be placed. */
static void list_known(struct comms *cs, uint32_t i, uint32_t *known)
{
	struct comm *c = &cs->items[i];

	if (c->listed)
		return;
	c->listed = true;
	c->next_listed = *known;
	*known = i;
}

/* A member of a group, copied out to be sorted. */
struct member {
	uint32_t comm;
	int32_t parent_rank;
	int32_t color, key;
};

static int compare_by_parent_rank(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return (x->parent_rank > y->parent_rank) - (x->parent_rank < y->parent_rank);
}

static int compare_by_color(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->color != y->color)
		return x->color < y->color ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return compare_by_parent_rank(a, b);
}

static void number_members(struct comms *cs, const struct group *group, struct member *m,
			   uint32_t *known, struct gs_buf *extra)
{
	uint32_t n = group->n_ranks;

	/* A rank that is there twice, and so one that is missing: two jobs were mixed up. */
	qsort(m, n, sizeof(*m), compare_by_parent_rank);
	for (uint32_t i = 0; i < n; i++)
		if (m[i].parent_rank != (int32_t)i)
			return;
	qsort(m, n, sizeof(*m), compare_by_color);
	for (uint32_t first = 0, end; first < n; first = end) {
		for (end = first; end < n && m[end].color == m[first].color;)
			end++;
		if (m[first].color < 0)
			continue;
		for (uint32_t i = first; i < end; i++) {
			struct comm *c = &cs->items[m[i].comm];

			c->rank = (int32_t)(i - first);
			c->n_ranks = (int32_t)(end - first);
			if (group->has_hash)
				c->id_hash =
					hash_of(hash_of(group->parent_hash, group->generation, 3),
						(uint32_t)c->color, 4);
			emit_comm(cs, m[i].comm, extra);
			list_known(cs, m[i].comm, known);
		}
	}
}

static void resolve_group(struct comms *cs, uint32_t g, uint32_t *known, struct gs_buf *extra)
{
	const struct group *group = &cs->groups[g];
	GS_FREE struct member *m = calloc(group->n_ranks, sizeof(*m));
	uint32_t n = 0;

	if (m) {
		for (uint32_t i = group->members; i; i = cs->items[i].next) {
			const struct comm *c = &cs->items[i];

			m[n++] = (struct member){i, c->parent_rank, c->color, c->key};
		}
		number_members(cs, group, m, known, extra);
	}
	dissolve_group(cs, g);
}

/* A split of a known parent: find the others. */
static void join_group(struct comms *cs, uint32_t i, const struct comm *parent, uint32_t *known,
		       struct gs_buf *extra)
{
	struct comm *c = &cs->items[i];
	/* Without the parent's hash there are no others to find, which is right for one rank. */
	uint64_t parent_hash = parent->id_hash ? parent->id_hash : hash_of(c->process, i, 5);
	uint64_t key = hash_of(parent_hash, c->generation, 1), g;
	struct group *group;

	if (!gs_map_get(&cs->by_group, key, &g)) {
		g = new_group(cs, key);
		if (!g)
			return;
		group = &cs->groups[g];
		group->parent_hash = parent_hash;
		group->has_hash = parent->id_hash != 0;
		group->generation = c->generation;
		group->n_ranks = (uint32_t)parent->n_ranks;
	}
	group = &cs->groups[g];
	if (group->parent_hash != parent_hash || group->generation != c->generation ||
	    group->n_ranks != (uint32_t)parent->n_ranks)
		return;
	c->parent_rank = parent->rank;
	c->group = (uint32_t)g;
	c->next = group->members;
	group->members = i;
	if (++group->n_seen == group->n_ranks)
		resolve_group(cs, (uint32_t)g, known, extra);
}

/* Enough is known of the parent to place the child. */
static bool parent_suffices(const struct comm *child, const struct comm *parent)
{
	return is_known(parent) &&
	       (child->kind == COMM_SHRINK || parent->id_hash || parent->n_ranks == 1);
}

static void place_child(struct comms *cs, uint32_t i, uint32_t parent, uint32_t *known,
			struct gs_buf *extra)
{
	struct comm *c = &cs->items[i];

	if (c->kind == COMM_SPLIT) {
		join_group(cs, i, &cs->items[parent], known, extra);
	} else if (resolve_shrink(c, &cs->items[parent])) {
		emit_comm(cs, i, extra);
		list_known(cs, i, known);
	}
}

/* Place the children of those in the list, and theirs. */
static void place_children(struct comms *cs, uint32_t *known, struct gs_buf *extra)
{
	while (*known) {
		uint32_t parent = *known, next;

		*known = cs->items[parent].next_listed;
		for (uint32_t i = cs->items[parent].waiting; i; i = next) {
			next = cs->items[i].next;
			if (!parent_suffices(&cs->items[i], &cs->items[parent]))
				continue;
			stop_waiting(cs, i);
			place_child(cs, i, parent, known, extra);
			release_comm(cs, i);
		}
		/* Until here its place could not be given away. */
		cs->items[parent].listed = false;
		release_comm(cs, parent);
	}
}

/* --- records --- */

static int compare_ranks(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint32_t next_generation(struct comm *parent, const struct comm *child)
{
	uint64_t h;

	if (child->kind == COMM_SPLIT)
		return ++parent->n_splits;
	if (child->n_excluded > GS_COMM_LIST_MAX)
		return 0;
	/* Only the ranks that stay call it: it is counted by the list of those that go. */
	h = list_hash(child);
	for (unsigned i = 0; i < SHRINK_KINDS; i++) {
		if (!parent->shrinks[i].count)
			parent->shrinks[i].list_hash = h;
		if (parent->shrinks[i].list_hash == h)
			return ++parent->shrinks[i].count;
	}
	return 0;
}

/* The parent of a new child; made up when it was not seen. 0: no place. */
static uint32_t find_parent(struct comms *cs, uint32_t process, uint64_t handle)
{
	uint32_t i = find_open(cs, process, handle);

	if (i)
		return i;
	i = new_comm(cs, COMM_ROOT, process);
	return i && open_handle(cs, i, handle) ? i : 0;
}

static void fill_comm(struct comm *c, const struct gs_rec_comm *r, enum comm_kind kind)
{
	c->kind = kind;
	c->announced = true;
	c->origin_str = r->origin_str;
	c->parent_handle = r->parent;
	c->color = r->color;
	c->key = r->key;
	c->n_excluded = r->n_excluded;
	memcpy(c->excluded, r->excluded, sizeof(c->excluded));
	if (c->n_excluded <= GS_COMM_LIST_MAX)
		qsort(c->excluded, c->n_excluded, sizeof(c->excluded[0]), compare_ranks);
}

/* The record says more of a communicator that is known by this handle, rather than of a new one
 * that was given the handle of one whose end was not seen. */
static bool is_update(const struct comm *c, const struct gs_rec_comm *r, enum comm_kind kind)
{
	if (!c->announced)
		return true;
	/* A split or shrink as it comes from the call. */
	if (kind != COMM_ROOT && r->rank < 0 && r->n_ranks < 0)
		return false;
	/* An init call knows the hash; the hash of a child is known here alone. */
	if (kind == COMM_ROOT && c->kind != COMM_ROOT && r->id_hash && r->id_hash != c->id_hash)
		return false;
	return (c->rank < 0 || r->rank < 0 || c->rank == r->rank) &&
	       (c->n_ranks < 0 || r->n_ranks < 0 || c->n_ranks == r->n_ranks) &&
	       (!c->id_hash || !r->id_hash || c->id_hash == r->id_hash);
}

/* The place of the record's communicator; *ret_new when it was not announced before. */
static uint32_t find_or_make(struct comms *cs, const struct gs_rec_comm *r, enum comm_kind kind,
			     bool *ret_new)
{
	uint32_t i = r->comm ? find_open(cs, r->process, r->comm) : 0;

	if (i && is_update(&cs->items[i], r, kind)) {
		*ret_new = !cs->items[i].announced;
	} else {
		i = new_comm(cs, kind, r->process);
		if (!i || (r->comm && !open_handle(cs, i, r->comm)))
			return 0;
		*ret_new = true;
	}
	if (*ret_new)
		fill_comm(&cs->items[i], r, kind);
	return i;
}

/* All ranks of ncclCommInitAll() are of one process and come in one run, without a common id. */
static void take_init_all(struct comms *cs, struct gs_rec_comm *r)
{
	if (r->id_hash || r->rank < 0 || r->n_ranks <= 0)
		return;
	if (r->rank == 0) {
		cs->all_process = r->process;
		cs->all_next_rank = 0;
		cs->all_n_ranks = r->n_ranks;
		cs->all_hash = hash_of(r->process, r->comm, 6 + (uint64_t)cs->n_alls++);
	}
	if (r->process != cs->all_process || r->rank != cs->all_next_rank ||
	    r->n_ranks != cs->all_n_ranks)
		return;
	r->id_hash = cs->all_hash;
	cs->all_next_rank++;
}

void correlate_comms_take(struct comms *cs, struct gs_rec_comm *r, bool init_all,
			  struct gs_buf *extra)
{
	enum comm_kind kind = !r->parent                     ? COMM_ROOT
			      : r->color != GS_COMM_NO_SPLIT ? COMM_SPLIT
							     : COMM_SHRINK;
	uint32_t i, parent = 0, known = 0;
	bool is_new;

	if ((!r->comm && kind != COMM_SPLIT) || (r->parent && r->parent == r->comm))
		return;
	if (init_all)
		take_init_all(cs, r);
	i = find_or_make(cs, r, kind, &is_new);
	if (!i)
		return;
	if (r->rank >= 0)
		cs->items[i].rank = r->rank;
	if (r->n_ranks > 0)
		cs->items[i].n_ranks = r->n_ranks;
	if (r->id_hash)
		cs->items[i].id_hash = r->id_hash;
	cs->current = i;
	if (is_known(&cs->items[i]))
		list_known(cs, i, &known);
	/* Its place must stay its own while one is sought for the parent. */
	cs->items[i].busy = true;
	if (is_new && kind != COMM_ROOT)
		parent = find_parent(cs, r->process, r->parent);
	cs->items[i].busy = false;
	if (parent) {
		struct comm *c = &cs->items[i];

		c->generation = next_generation(&cs->items[parent], c);
		if (parent_suffices(c, &cs->items[parent])) {
			place_child(cs, i, parent, &known, extra);
		} else {
			c->parent = parent;
			c->next = cs->items[parent].waiting;
			cs->items[parent].waiting = i;
		}
	}
	place_children(cs, &known, extra);
	cs->current = 0;
	/* One without a handle was only waiting, and may be gone by now. */
	if (!r->comm) {
		release_comm(cs, i);
		return;
	}
	r->rank = cs->items[i].rank;
	r->n_ranks = cs->items[i].n_ranks;
	r->id_hash = cs->items[i].id_hash;
}

void correlate_comms_end(struct comms *cs, uint32_t process, uint64_t handle)
{
	uint32_t i = find_open(cs, process, handle);

	if (i)
		close_handle(cs, i);
}

void correlate_comms_end_process(struct comms *cs, uint32_t process)
{
	for (uint32_t i = 1; i < cs->n_items; i++)
		if (cs->items[i].open && cs->items[i].process == process)
			close_handle(cs, i);
}
