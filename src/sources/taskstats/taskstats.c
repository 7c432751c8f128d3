/*
 * Reading what the work probes added up, and who is followed. The counters are mapped: a read asks
 * the kernel for nothing.
 */
#include "sources/taskstats/taskstats_int.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"

#define FOLLOW_AT_ONCE 2048 /* half of what the map holds */
#define TORN_TRIES     1000

int gs_taskstats_families_parse(const char *text, uint32_t *ret_families, struct gs_err *err)
{
	static const struct {
		const char *name;
		uint32_t families;
	} words[] = {{"all", GS_TASKSTATS_ALL},
		     {"sched", GS_TASKSTATS_SCHED},
		     {"syscall", GS_TASKSTATS_SYSCALL},
		     {"io", GS_TASKSTATS_IO},
		     {"net", GS_TASKSTATS_NET}};

	*ret_families = 0;
	for (;;) {
		size_t n = strcspn(text, ","), i = 0;

		while (i < GS_ARRAY_LEN(words) &&
		       (strlen(words[i].name) != n || strncmp(words[i].name, text, n) != 0))
			i++;
		if (i == GS_ARRAY_LEN(words))
			return gs_err_set(
				err, -EINVAL,
				"no such family of probes: \"%.*s\" (all, syscall, sched, io, net)",
				(int)(n < 40 ? n : 40), text);
		*ret_families |= words[i].families;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

/* ---- following ---- */

int gs_taskstats_probe_follow_pid(struct gs_taskstats_probe *p, uint32_t pid, struct gs_err *err)
{
	uint32_t one = 1;
	int r;

	/* access() of its folder in /proc would go by the real user's rights, who may not see it. */
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		return gs_err_set(err, -ESRCH, "no process has the id %u", pid);
	r = bpf_map_update_elem(p->pids_fd, &pid, &one, BPF_ANY);
	if (r == 0)
		r = taskstats_walk(p);
	/* Only the walk looks there: an id that is given to another process later matches none. */
	bpf_map_delete_elem(p->pids_fd, &pid);
	return r < 0 ? gs_err_set(err, r, "cannot track process %u: %s", pid, strerror(-r)) : 0;
}

int gs_taskstats_probe_follow_pids(struct gs_taskstats_probe *p, const uint32_t *pids,
				   size_t n_pids, struct gs_err *err)
{
	uint32_t one = 1;
	int r = 0;

	for (size_t at = 0; r == 0 && at < n_pids; at += FOLLOW_AT_ONCE) {
		size_t end = n_pids - at < FOLLOW_AT_ONCE ? n_pids : at + FOLLOW_AT_ONCE;

		for (size_t i = at; r == 0 && i < end; i++)
			r = bpf_map_update_elem(p->pids_fd, &pids[i], &one, BPF_ANY);
		if (r == 0)
			r = taskstats_walk(p);
		for (size_t i = at; i < end; i++)
			bpf_map_delete_elem(p->pids_fd, &pids[i]);
	}
	return r < 0 ? gs_err_set(err, r, "cannot track %zu processes: %s", n_pids, strerror(-r))
		     : 0;
}

/* ---- one slot ---- */

/* A whole copy (struct gs_taskstats_slot says when it is one). The counters are read by plain loads in
 * the order of the barriers. */
static bool copy_slot(const struct gs_taskstats_slot *s, struct gs_taskstats_slot *ret)
{
	for (int i = 0; i < TORN_TRIES; i++) {
		uint64_t ended = __atomic_load_n(&s->ended, __ATOMIC_ACQUIRE);

		*ret = *(const volatile struct gs_taskstats_slot *)s;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&s->begun, __ATOMIC_ACQUIRE) == ended)
			return true;
	}
	return false;
}

static void times_at(struct gs_taskstats_slot *s, uint64_t now_ns)
{
	uint64_t n, waited;

	for (size_t i = 0; i < GS_TIME_COUNT; i++) {
		int64_t t = (int64_t)(s->work.time_ns[i] + s->in_state[i] * now_ns);

		/* Who came into the state after now has been there for less than nothing. */
		s->work.time_ns[i] = t > 0 ? (uint64_t)t : 0;
	}
	/* Of those that wait now, only the sum is known: short waits do not make a long mean. */
	n = s->in_state[GS_TIME_LOCK];
	waited = n * now_ns - s->lock_since;
	if (n && (int64_t)waited > 0 && waited / n >= GS_TASKSTATS_IDLE_NS)
		s->work.idle_ns += waited;
	if (s->work.idle_ns > s->work.time_ns[GS_TIME_LOCK])
		s->work.idle_ns = s->work.time_ns[GS_TIME_LOCK];
}

static uint64_t alive_ns(const struct gs_taskstats_slot *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < GS_TIME_COUNT; i++)
		n += s->in_state[i];
	return n;
}

/* ---- rows ---- */

static void add_slot(struct gs_taskstats_row *row, struct gs_taskstats_slot *s)
{
	if (!row->id) {
		row->id = s->key.id;
		row->start_ns = s->key.start_ns;
		row->cgroup = s->cgroup;
		row->pid = s->pid;
		row->parent_pid = s->parent_pid;
		row->uid = s->uid;
		memcpy(row->comm, s->comm, sizeof(row->comm));
		row->comm[sizeof(row->comm) - 1] = '\0';
	}
	/* A program's new name stands where the thread that ran exec stood. */
	if (s->key.stripe == 0)
		memcpy(row->comm, s->comm, sizeof(row->comm) - 1);
	row->n_threads += (uint32_t)alive_ns(s);
	gs_taskstats_add(&row->work, &s->work);
}

static void add_group(struct gs_taskstats_row *row, const struct gs_taskstats_slot *s)
{
	const __u64 *t = s->work.time_ns;

	if (s->key.stripe < GS_TASKSTATS_GROUPS)
		row->group[s->key.stripe] = (struct gs_taskstats_group){
			.worked_ns = t[GS_TIME_CPU] + t[GS_TIME_DISK] + t[GS_TIME_GPU],
			.queue_ns = t[GS_TIME_RUNQUEUE],
			.lock_ns = t[GS_TIME_LOCK] - s->work.idle_ns,
			.wire_ns = t[GS_TIME_NETWORK],
			.wall_ns = gs_taskstats_wall_ns(&s->work)};
}

void gs_taskstats_lead_of(const struct gs_taskstats_group group[GS_TASKSTATS_GROUPS],
			  struct gs_taskstats_lead *ret)
{
	double most = 0;

	*ret = (struct gs_taskstats_lead){.lived_ns = group[0].wall_ns};
	for (size_t i = 0; i < GS_TASKSTATS_GROUPS; i++) {
		const struct gs_taskstats_group *g = &group[i];
		uint64_t lived_ns = g->wall_ns > ret->lived_ns ? g->wall_ns : ret->lived_ns;

		if (!lived_ns || (double)g->worked_ns / (double)lived_ns <= most)
			continue;
		most = (double)g->worked_ns / (double)lived_ns;
		ret->busy_ns = g->worked_ns + g->queue_ns;
		ret->lock_ns = g->lock_ns;
		ret->wire_ns = g->wire_ns;
		ret->wall_ns = g->wall_ns;
	}
}

static int by_key(const void *a, const void *b, void *ctx)
{
	const struct gs_taskstats_probe *p = ctx;
	const struct gs_taskstats_key *x = &taskstats_slot(p, *(const uint32_t *)a)->key;
	const struct gs_taskstats_key *y = &taskstats_slot(p, *(const uint32_t *)b)->key;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->stripe < y->stripe ? -1 : x->stripe > y->stripe;
}

static bool same_key(const struct gs_taskstats_slot *a, const struct gs_taskstats_slot *b)
{
	return a->key.id == b->key.id && a->key.start_ns == b->key.start_ns;
}

/* The used slots, those of one key side by side. */
static uint32_t *sorted_slots(struct gs_taskstats_probe *p, size_t *ret_n)
{
	uint32_t *found = calloc(p->n_slots, sizeof(*found));
	size_t n = 0;

	for (uint32_t i = 1; found && i < p->n_slots; i++) {
		if (__atomic_load_n(&taskstats_slot(p, i)->used, __ATOMIC_ACQUIRE))
			found[n++] = i;
	}
	if (found)
		qsort_r(found, n, sizeof(*found), by_key, p);
	*ret_n = n;
	return found;
}

/* Rows, and row_of: the row of each slot plus one. */
static int read_rows(struct gs_taskstats_probe *p, struct gs_taskstats_snapshot *s,
		     uint32_t *row_of)
{
	size_t n;
	GS_FREE uint32_t *slots = sorted_slots(p, &n);

	if (!slots)
		return -ENOMEM;
	s->rows = calloc(n ? n : 1, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct gs_taskstats_slot *at = taskstats_slot(p, slots[i]);
		struct gs_taskstats_slot copy;

		if (i == 0 || !same_key(at, taskstats_slot(p, slots[i - 1])))
			s->n_rows++;
		if (!copy_slot(at, &copy))
			p->torn++;
		times_at(&copy, s->mono_ns);
		add_slot(&s->rows[s->n_rows - 1], &copy);
		add_group(&s->rows[s->n_rows - 1], &copy);
		row_of[slots[i]] = (uint32_t)s->n_rows;
	}
	for (size_t i = 0; i < s->n_rows; i++)
		gs_taskstats_lead_of(s->rows[i].group, &s->rows[i].lead);
	return 0;
}

/* ---- tables ---- */

struct found_cell {
	uint32_t row; /* plus one; 0: no owner */
	const struct gs_taskstats_cell *cell;
};

static int by_row(const void *a, const void *b)
{
	const struct found_cell *x = a, *y = b;
	const struct gs_taskstats_cell_key *k = &x->cell->key, *l = &y->cell->key;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (k->table != l->table)
		return k->table < l->table ? -1 : 1;
	return memcmp(&k->a, &l->a, sizeof(*k) - offsetof(struct gs_taskstats_cell_key, a));
}

/* Rows of a table are distinguished by their first member after the common key, so each table's rows
 * are made by the first cell and added to by the others of the same key. */
static void add_call(struct gs_taskstats_call_row *row, const struct gs_taskstats_cell *c)
{
	row->id = (uint32_t)c->key.a;
	gs_taskstats_syscall_add(&row->call, &c->call);
}

static void add_disk(struct gs_taskstats_disk_row *row, const struct gs_taskstats_cell *c)
{
	/* include/linux/kdev_t.h: twelve bits and twenty */
	row->major = (uint32_t)c->key.a >> 20;
	row->minor = (uint32_t)c->key.a & 0xfffff;
	gs_taskstats_disk_add(&row->disk, &c->disk);
}

static void add_mount(struct gs_taskstats_mount_row *row, const struct gs_taskstats_cell *c)
{
	row->major = (uint32_t)c->key.a >> 20;
	row->minor = (uint32_t)c->key.a & 0xfffff;
	row->kind = (enum gs_taskstats_io)c->key.b;
	gs_taskstats_io_add(&row->io, &c->mount.io);
}

static void add_peer(struct gs_taskstats_peer_row *row, const struct gs_taskstats_cell *c)
{
	row->family = (uint16_t)(c->key.c >> 16);
	row->port = (uint16_t)c->key.c;
	memcpy(row->addr, &c->key.a, sizeof(row->addr));
	gs_taskstats_peer_add(&row->peer, &c->peer);
}

/* One more element at the end of an array that is grown by one key at a time: sorted cells of one
 * table of one row come in one run, whose length is known first. */
static int fill_run(struct gs_taskstats_snapshot *s, const struct found_cell *run, size_t n)
{
	struct gs_taskstats_row *row = run->row ? &s->rows[run->row - 1] : NULL;
	uint32_t table = run->cell->key.table;
	size_t at = 0, size;
	void *rows;

	size = table == GS_TABLE_CALL    ? sizeof(struct gs_taskstats_call_row)
	       : table == GS_TABLE_DISK  ? sizeof(struct gs_taskstats_disk_row)
	       : table == GS_TABLE_MOUNT ? sizeof(struct gs_taskstats_mount_row)
					 : sizeof(struct gs_taskstats_peer_row);
	if (!row && table != GS_TABLE_DISK)
		return 0;
	rows = calloc(n, size);
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (i && by_row(&run[i], &run[i - 1]) != 0)
			at++;
		if (table == GS_TABLE_CALL)
			add_call((struct gs_taskstats_call_row *)rows + at, run[i].cell);
		else if (table == GS_TABLE_DISK)
			add_disk((struct gs_taskstats_disk_row *)rows + at, run[i].cell);
		else if (table == GS_TABLE_MOUNT)
			add_mount((struct gs_taskstats_mount_row *)rows + at, run[i].cell);
		else
			add_peer((struct gs_taskstats_peer_row *)rows + at, run[i].cell);
	}
	if (!row) {
		s->unowned = rows;
		s->n_unowned = at + 1;
	} else if (table == GS_TABLE_CALL) {
		row->calls = rows;
		row->n_calls = at + 1;
	} else if (table == GS_TABLE_DISK) {
		row->disks = rows;
		row->n_disks = at + 1;
	} else if (table == GS_TABLE_MOUNT) {
		row->mounts = rows;
		row->n_mounts = at + 1;
	} else {
		row->peers = rows;
		row->n_peers = at + 1;
	}
	return 0;
}

static int read_tables(struct gs_taskstats_probe *p, struct gs_taskstats_snapshot *s,
		       const uint32_t *row_of)
{
	GS_FREE struct found_cell *found = calloc(p->n_cells, sizeof(*found));
	size_t n = 0, end;
	int r = 0;

	if (!found)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->n_cells; i++) {
		const struct gs_taskstats_cell *c = taskstats_cell(p, i);
		uint32_t slot = c->key.slot;

		if (!__atomic_load_n(&c->used, __ATOMIC_ACQUIRE) || slot >= p->n_slots)
			continue;
		/* A slot made since the rows were read: its cells come with the next read. */
		if (slot && !row_of[slot])
			continue;
		found[n++] = (struct found_cell){slot ? row_of[slot] : 0, c};
	}
	qsort(found, n, sizeof(*found), by_row);
	for (size_t i = 0; r == 0 && i < n; i = end) {
		for (end = i + 1; end < n && found[end].row == found[i].row &&
				  found[end].cell->key.table == found[i].cell->key.table;
		     end++)
			;
		r = fill_run(s, &found[i], end - i);
	}
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct gs_taskstats_syscall *x = &((const struct gs_taskstats_call_row *)a)->call;
	const struct gs_taskstats_syscall *y = &((const struct gs_taskstats_call_row *)b)->call;

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return x->calls > y->calls ? -1 : x->calls < y->calls;
}

/* System calls in all are the sum of the table, so that the kernel side need not count twice. */
static void sum_calls(struct gs_taskstats_row *row)
{
	for (size_t i = 0; i < row->n_calls; i++) {
		struct gs_taskstats_call_row *c = &row->calls[i];

		gs_taskstats_syscall_settle(&c->call);
		if (GS_TASKSTATS_CALL_ABI(c->id) == GS_TASKSTATS_ABI_URING)
			continue;
		row->work.syscalls += c->call.calls;
		row->work.syscall_errors += c->call.errors;
		row->work.syscall_ns += c->call.total_ns;
	}
	if (row->n_calls)
		qsort(row->calls, row->n_calls, sizeof(*row->calls), by_time);
}

/* ---- names of devices ---- */

static void name_disks(struct gs_taskstats_disk_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char path[64], target[PATH_MAX];
		const char *base;
		ssize_t len;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", rows[i].major, rows[i].minor);
		len = readlink(path, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = '\0';
		base = strrchr(target, '/');
		snprintf(rows[i].name, sizeof(rows[i].name), "%s", base ? base + 1 : target);
	}
}

static void name_mounts(struct gs_taskstats_snapshot *s)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/mountinfo", "re");
	GS_FREE char *line = NULL;
	size_t capacity = 0;

	while (f && getline(&line, &capacity, f) > 0) {
		struct taskstats_mount m;
		bool whole;

		if (!taskstats_mount_line(line, &m, &whole))
			continue;
		for (size_t i = 0; i < s->n_rows; i++) {
			for (size_t j = 0; j < s->rows[i].n_mounts; j++) {
				struct gs_taskstats_mount_row *row = &s->rows[i].mounts[j];

				if (row->major != m.major || row->minor != m.minor ||
				    (row->path[0] && !whole))
					continue;
				memcpy(row->path, m.path, sizeof(row->path));
				memcpy(row->type, m.type, sizeof(row->type));
			}
		}
	}
}

/* Requests that have begun and not ended, as far as was seen. In batches: going from key to key
 * begins again when one is removed meanwhile. */
static void read_open(struct gs_taskstats_probe *p, struct gs_taskstats_snapshot *s)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	struct gs_taskstats_request r[256];
	uint64_t keys[GS_ARRAY_LEN(r)];
	uint32_t at = 0, next = 0, n;
	bool first = true;
	int result;

	if (!(p->families & GS_TASKSTATS_IO))
		return;
	do {
		n = GS_ARRAY_LEN(r);
		result = bpf_map_lookup_batch(p->rqs_fd, first ? NULL : &at, &next, keys, r, &n,
					      &opts);
		if (result && result != -ENOENT)
			return;
		for (uint32_t i = 0; i < n; i++) {
			if (!r[i].issued_ns || !r[i].moves)
				continue;
			s->open_requests++;
			s->open_bytes += r[i].bytes;
		}
		at = next;
		first = false;
	} while (result == 0);
}

static uint64_t missed_events(const struct gs_taskstats_probe *p)
{
	uint64_t n = 0;

	for (size_t i = 0; i < p->n_links; i++) {
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);

		if (bpf_obj_get_info_by_fd(p->prog_fds[i], &info, &bytes) == 0)
			n += info.recursion_misses;
	}
	return n;
}

/* ---- the door ---- */

int gs_taskstats_probe_read(struct gs_taskstats_probe *p,
			    struct gs_taskstats_snapshot **ret_snapshot, struct gs_err *err)
{
	GS_FREE uint32_t *row_of = calloc(p->n_slots, sizeof(*row_of));
	struct gs_taskstats_snapshot *s = calloc(1, sizeof(*s));
	uint64_t rescan = __atomic_load_n(&p->state->rescan, __ATOMIC_RELAXED);
	int r = row_of && s ? taskstats_show(p) : -ENOMEM;

	if (r == 0 && rescan != p->rescanned) {
		p->rescanned = rescan;
		r = taskstats_walk(p);
	}
	if (r == 0) {
		s->mono_ns = gs_clock_mono_ns();
		s->begun_ns = p->begun_ns;
		s->ready_ns = p->ready_ns;
		r = read_rows(p, s, row_of);
	}
	if (r == 0)
		r = read_tables(p, s, row_of);
	if (r < 0) {
		gs_taskstats_snapshot_free(s);
		return gs_err_set(err, r, "cannot read the counters of the host: %s", strerror(-r));
	}
	for (size_t i = 0; i < s->n_rows; i++) {
		sum_calls(&s->rows[i]);
		name_disks(s->rows[i].disks, s->rows[i].n_disks);
		if (!(p->families & GS_TASKSTATS_SCHED))
			memset(s->rows[i].work.time_ns, 0, sizeof(s->rows[i].work.time_ns));
	}
	name_disks(s->unowned, s->n_unowned);
	read_open(p, s);
	name_mounts(s);
	s->losses = (struct gs_taskstats_losses){
		.keys_full = p->state->lost[GS_TASKSTATS_LOST_KEY],
		.cells_full = p->state->lost[GS_TASKSTATS_LOST_CELL],
		.threads = p->state->lost[GS_TASKSTATS_LOST_THREAD],
		.requests = p->state->lost[GS_TASKSTATS_LOST_REQUEST],
		.ends = p->state->lost[GS_TASKSTATS_LOST_END],
		.aio = p->state->lost[GS_TASKSTATS_LOST_AIO],
		.torn = p->torn,
		.missed = missed_events(p),
	};
	*ret_snapshot = s;
	return 0;
}

void gs_taskstats_snapshot_free(struct gs_taskstats_snapshot *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_rows; i++) {
		free(s->rows[i].calls);
		free(s->rows[i].disks);
		free(s->rows[i].mounts);
		free(s->rows[i].peers);
	}
	free(s->rows);
	free(s->unowned);
	free(s);
}

/* ---- giving back ---- */

/* Deletes what still points to slots that go: the value's slot stands at the offset. */
static void forget_pointers(int fd, size_t value_bytes, size_t slot_off, const bool *gone,
			    uint32_t n_slots)
{
	uint64_t key, next;
	uint8_t value[64];
	bool more = bpf_map_get_next_key(fd, NULL, &next) == 0;
	uint32_t slot;

	if (value_bytes > sizeof(value))
		return;
	while (more) {
		key = next;
		more = bpf_map_get_next_key(fd, &key, &next) == 0;
		if (bpf_map_lookup_elem(fd, &key, value) != 0)
			continue;
		memcpy(&slot, value + slot_off, sizeof(slot));
		if (slot < n_slots && gone[slot])
			bpf_map_delete_elem(fd, &key);
	}
}

static void forget_cells(struct gs_taskstats_probe *p, const bool *gone)
{
	GS_FREE uint8_t *zero = calloc(1, p->cell_bytes);

	for (uint32_t i = 1; zero && i < p->n_cells; i++) {
		const struct gs_taskstats_cell *c = taskstats_cell(p, i);
		struct gs_taskstats_cell_key key = c->key;

		if (!c->used || key.slot >= p->n_slots || !gone[key.slot])
			continue;
		bpf_map_delete_elem(p->cell_of_fd, &key);
		bpf_map_update_elem(p->cells_fd, &i, zero, BPF_ANY);
		bpf_map_update_elem(p->free_cells_fd, NULL, &i, BPF_ANY);
	}
}

/* Whether the process of this slot had ended at the reading: one that ended since then has done
 * what was never read. *at moves on: both are in the order of their keys. */
static bool had_ended(const struct gs_taskstats_snapshot *s, const struct gs_taskstats_key *key,
		      size_t *at)
{
	while (*at < s->n_rows &&
	       (s->rows[*at].id < key->id ||
		(s->rows[*at].id == key->id && s->rows[*at].start_ns < key->start_ns)))
		(*at)++;
	return *at < s->n_rows && s->rows[*at].id == key->id &&
	       s->rows[*at].start_ns == key->start_ns && !s->rows[*at].n_threads;
}

size_t gs_taskstats_probe_forget_ended(struct gs_taskstats_probe *p,
				       const struct gs_taskstats_snapshot *s)
{
	size_t n = 0, end, n_gone = 0, at = 0;
	GS_FREE uint32_t *slots = taskstats_show(p) == 0 ? sorted_slots(p, &n) : NULL;
	GS_FREE bool *gone = calloc(p->n_slots, sizeof(*gone));
	GS_FREE uint8_t *zero = calloc(1, p->slot_bytes);

	if (!slots || !gone || !zero)
		return 0;
	for (size_t i = 0; i < n; i = end) {
		uint64_t threads = alive_ns(taskstats_slot(p, slots[i]));

		for (end = i + 1; end < n && same_key(taskstats_slot(p, slots[end]),
						      taskstats_slot(p, slots[i]));
		     end++)
			threads += alive_ns(taskstats_slot(p, slots[end]));
		if (threads || !had_ended(s, &taskstats_slot(p, slots[i])->key, &at))
			continue;
		for (size_t j = i; j < end; j++)
			gone[slots[j]] = true;
		n_gone++;
	}
	if (!n_gone)
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct gs_taskstats_key key = taskstats_slot(p, slots[i])->key;

		if (gone[slots[i]])
			bpf_map_delete_elem(p->slot_of_fd, &key);
	}
	forget_pointers(p->rqs_fd, sizeof(struct gs_taskstats_request),
			offsetof(struct gs_taskstats_request, slot), gone, p->n_slots);
	forget_pointers(p->socks_fd, 24, 8, gone, p->n_slots);
	forget_cells(p, gone);
	for (size_t i = 0; i < n; i++) {
		if (!gone[slots[i]])
			continue;
		bpf_map_update_elem(p->slots_fd, &slots[i], zero, BPF_ANY);
		bpf_map_update_elem(p->free_slots_fd, NULL, &slots[i], BPF_ANY);
	}
	return n_gone;
}
