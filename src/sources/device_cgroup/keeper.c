#include "sources/device_cgroup/keeper.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/vec.h"

#define HOUR_NS     3600000000000ull
#define HOLDERS_MAX 1024
#define GROUPS_MAX  1024
#define NAME_BYTES  256 /* of a group in messages */

/* A group that was seen. */
struct kept {
	char *key;         /* owned; its paths */
	uint64_t since_ns; /* when this hour of it began */
	uint64_t seen_ns;
	unsigned regrants; /* in this hour */
	bool reported_pause;
	enum gs_device_state state; /* ALLOWED, FORBIDDEN or UNKNOWN */
	char reported[128];         /* begin of the last trouble, which is reported once */
};

struct gs_device_keeper {
	struct gs_device_keeper_options options;
	char host_root[256];
	struct kept *kept; /* owned, with their keys */
	size_t n, capacity;
	struct gs_device_keeper_stats stats;
	bool granted_self;
	int no_process_error; /* reported once */
	uint64_t now_ns;
};

int gs_device_keeper_new(const struct gs_device_keeper_options *o, struct gs_device_keeper **ret)
{
	struct gs_device_keeper *k;

	*ret = NULL;
	if (o->host_root && strlen(o->host_root) >= sizeof(k->host_root))
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->options = *o;
	if (o->host_root)
		strcpy(k->host_root, o->host_root);
	k->options.host_root = o->host_root ? k->host_root : NULL;
	*ret = k;
	return 0;
}

static void GS_PRINTF(2, 3) report_line(const struct gs_device_keeper *k, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	k->options.report(k->options.ctx, text);
}

/* The group with these paths; NULL: there is no room. */
static struct kept *find_kept(struct gs_device_keeper *k, const struct gs_device_result *r,
			      bool *ret_new)
{
	struct kept *free_one = NULL;
	size_t n_v1 = strlen(r->cgroup_v1), n_v2 = strlen(r->cgroup_v2);
	char *key;

	*ret_new = false;
	for (size_t i = 0; i < k->n; i++) {
		struct kept *one = &k->kept[i];

		if (one->key && strncmp(one->key, r->cgroup_v1, n_v1) == 0 &&
		    one->key[n_v1] == '\n' && strcmp(one->key + n_v1 + 1, r->cgroup_v2) == 0)
			return one;
		/* Its budget must not come back when it goes and comes. */
		if (!one->key || k->now_ns - one->seen_ns > HOUR_NS)
			free_one = one;
	}
	key = malloc(n_v1 + n_v2 + 2);
	if (!key)
		return NULL;
	snprintf(key, n_v1 + n_v2 + 2, "%s\n%s", r->cgroup_v1, r->cgroup_v2);
	if (!free_one && k->n < GROUPS_MAX && gs_vec_reserve(&k->kept, &k->capacity, k->n + 1)) {
		free_one = &k->kept[k->n++];
		free_one->key = NULL;
	}
	if (!free_one) {
		free(key);
		return NULL;
	}
	free(free_one->key);
	*free_one = (struct kept){.key = key, .since_ns = k->now_ns};
	*ret_new = true;
	return free_one;
}

static const char *name_of(const struct gs_device_result *r)
{
	return r->v1 > GS_DEVICE_UNRESTRICTED && r->v2 <= GS_DEVICE_UNRESTRICTED ? r->cgroup_v1
	       : r->cgroup_v2[0]                                                 ? r->cgroup_v2
										 : r->cgroup_v1;
}

/* Trouble of a group: once, until it is another. */
static void report_trouble(const struct gs_device_keeper *k, struct kept *one, const char *text)
{
	if (strncmp(one->reported, text, sizeof(one->reported) - 1) == 0)
		return;
	snprintf(one->reported, sizeof(one->reported), "%s", text);
	report_line(k, "%s", text);
}

/* Whether a group may have its devices back. */
static bool may_grant(struct gs_device_keeper *k, struct kept *one, const char *name)
{
	if (k->now_ns - one->since_ns >= HOUR_NS) {
		one->since_ns = k->now_ns;
		one->regrants = 0;
		one->reported_pause = false;
	}
	if (one->regrants < k->options.retries)
		return true;
	if (!one->reported_pause)
		report_line(
			k,
			"another program took NVIDIA devices from the cgroup %.*s %u times within an hour: gpuscope leaves it alone for the rest of the hour",
			NAME_BYTES, name, one->regrants);
	one->reported_pause = true;
	return false;
}

static void report_grant(struct gs_device_keeper *k, struct kept *one, int pid, bool first,
			 const struct gs_device_result *r)
{
	if (first) {
		k->stats.grants++;
		report_line(k, "allowed NVIDIA devices %.200s for process %d in the cgroup %.*s",
			    r->devices, pid, NAME_BYTES, name_of(r));
		return;
	}
	one->regrants++;
	k->stats.regrants++;
	report_line(
		k,
		"another program has written the device rules of the cgroup %.*s; allowed NVIDIA devices again (%u of %u this hour)",
		NAME_BYTES, name_of(r), one->regrants, k->options.retries);
}

/* True: something was changed. */
static bool keep_process(struct gs_device_keeper *k, int pid, enum gs_device_choice choice)
{
	const struct gs_device_options o = {
		.size = sizeof(o), .host_root = k->options.host_root, .choice = choice};
	GS_FREE struct gs_device_result *r = calloc(1, sizeof(*r));
	struct gs_err err = {{0}};
	struct kept *one;
	bool first, changed = false;
	int result = r ? gs_device_check(pid, &o, r, &err) : -ENOMEM;

	if (result == -ESRCH || result == -EAGAIN ||
	    (result == -ENODEV && choice == GS_DEVICE_HELD))
		return false; /* it has just ended, moved, or closed them */
	if (!r || (!r->cgroup_v1[0] && !r->cgroup_v2[0])) {
		k->stats.errors++;
		if (k->no_process_error != result)
			report_line(k, "%s", gs_err_text(&err, result));
		k->no_process_error = result;
		return false;
	}
	k->no_process_error = 0;
	one = find_kept(k, r, &first);
	if (!one) {
		k->stats.dropped++;
		return false;
	}
	one->seen_ns = k->now_ns;
	/* At first also for the drop-in, where the rules allow all yet. */
	if (first || ((result < 0 || !gs_device_is_open(r) || r->superseded) &&
		      may_grant(k, one, name_of(r)))) {
		result = gs_device_grant(pid, &o, r, &err);
		changed = r->n_changes > 0;
		if (changed)
			report_grant(k, one, pid, first, r);
	}
	one->state = result < 0 || (!gs_device_is_open(r) && r->v1 != GS_DEVICE_FORBIDDEN &&
				    r->v2 != GS_DEVICE_FORBIDDEN)
			     ? GS_DEVICE_UNKNOWN
		     : gs_device_is_open(r) ? GS_DEVICE_ALLOWED
					    : GS_DEVICE_FORBIDDEN;
	k->stats.errors += result < 0;
	if (result < 0)
		report_trouble(k, one, gs_err_text(&err, result));
	else if (!gs_device_is_open(r) && !one->reported_pause)
		report_trouble(k, one, r->reason);
	return changed;
}

static void count_states(struct gs_device_keeper *k)
{
	k->stats.n_allowed = k->stats.n_forbidden = k->stats.n_unknown = k->stats.n_paused = 0;
	for (size_t i = 0; i < k->n; i++) {
		const struct kept *one = &k->kept[i];

		if (one->seen_ns != k->now_ns)
			continue;
		k->stats.n_allowed += one->state == GS_DEVICE_ALLOWED;
		k->stats.n_forbidden += one->state == GS_DEVICE_FORBIDDEN;
		k->stats.n_unknown += one->state == GS_DEVICE_UNKNOWN;
		k->stats.n_paused += one->state != GS_DEVICE_ALLOWED && one->reported_pause;
	}
}

void gs_device_keeper_tick(struct gs_device_keeper *k, uint64_t now_ns)
{
	const struct gs_device_options o = {.size = sizeof(o), .host_root = k->options.host_root};
	GS_FREE int *pids = NULL;
	int own = gs_device_own_pid(&o);
	unsigned n = 0;

	k->now_ns = now_ns;
	if (k->options.self)
		k->granted_self |= keep_process(k, own > 0 ? own : (int)getpid(), GS_DEVICE_ALL);
	pids = k->options.holders ? calloc(HOLDERS_MAX, sizeof(*pids)) : NULL;
	if (pids && gs_device_find_holders(&o, pids, HOLDERS_MAX, &n, NULL) < 0)
		k->stats.errors++;
	for (unsigned i = 0; i < n && i < HOLDERS_MAX; i++)
		if (pids[i] != own)
			(void)keep_process(k, pids[i], GS_DEVICE_HELD);
	k->stats.dropped += n > HOLDERS_MAX ? n - HOLDERS_MAX : 0;
	count_states(k);
}

void gs_device_keeper_stats(const struct gs_device_keeper *k, struct gs_device_keeper_stats *ret)
{
	*ret = k->stats;
}

void gs_device_keeper_free(struct gs_device_keeper **ref)
{
	struct gs_device_keeper *k = *ref;
	struct gs_device_options o = {.size = sizeof(o)};
	GS_FREE struct gs_device_result *r = calloc(1, sizeof(*r));
	struct gs_err err = {{0}};
	int own;

	if (!k)
		return;
	o.host_root = k->options.host_root;
	own = gs_device_own_pid(&o);
	if (k->granted_self && r && own > 0 && gs_device_revoke(own, &o, r, &err) < 0)
		report_line(k, "cannot take back NVIDIA devices: %s", err.text);
	for (size_t i = 0; i < k->n; i++)
		free(k->kept[i].key);
	free(k->kept);
	free(k);
	*ref = NULL;
}
