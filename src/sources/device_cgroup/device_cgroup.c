/* What is done for one process, place after place. The public functions; see the header. */
#include "sources/device_cgroup/device_cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sources/device_cgroup/device_int.h"

#define DEVICES_BYTES 65536 /* of /proc/devices */

/* All that is found out about a process before anything is done. */
struct subject {
	struct device_host host;
	int proc_fd;
	struct device_group v1, v2;
	struct device_drivers drivers;
	struct device_rules rules;
};

static void close_subject(struct subject *s)
{
	device_host_close(&s->host);
	gs_close_p(&s->proc_fd);
	gs_close_p(&s->v1.fd);
	gs_close_p(&s->v2.fd);
	free(s);
}

static void close_subject_p(struct subject **s)
{
	if (*s)
		close_subject(*s);
	*s = NULL;
}

static int choose_devices(struct subject *s, int pid, enum gs_device_choice choice,
			  struct gs_err *err)
{
	GS_FREE char *text = malloc(DEVICES_BYTES);
	int r;

	if (!text)
		return gs_err_set(err, -ENOMEM, "no memory");
	r = (int)device_read_text(s->host.root_fd, "proc/devices", text, DEVICES_BYTES);
	if (r < 0)
		return gs_err_set(err, r, "cannot read %s/proc/devices: %s", s->host.root,
				  strerror(-r));
	device_parse_drivers(text, &s->drivers);
	if (!s->drivers.n)
		return gs_err_set(err, -ENODEV,
				  "no driver of NVIDIA's is loaded: %s/proc/devices lists none",
				  s->host.root);
	if (choice == GS_DEVICE_HELD) {
		r = device_read_held(s->proc_fd, &s->drivers, &s->rules);
		if (r < 0)
			return gs_err_set(err, r, "cannot read what process %d has open: %s", pid,
					  r == -E2BIG ? "too many devices" : strerror(-r));
		return s->rules.n ? 0
				  : gs_err_set(err, -ENODEV, "process %d has no NVIDIA device open",
					       pid);
	}
	for (unsigned i = 0; i < s->drivers.n; i++)
		(void)device_add_rule(&s->rules, s->drivers.driver[i].major, DEVICE_ANY_MINOR);
	return 0;
}

static int open_subject(int pid, const struct gs_device_options *o, bool revoke,
			struct subject **ret, struct gs_device_result *result, struct gs_err *err)
{
	GS_CLEANUP(close_subject_p) struct subject *s = calloc(1, sizeof(*s));
	int r;

	*result = (struct gs_device_result){0};
	if (!s)
		return gs_err_set(err, -ENOMEM, "no memory");
	s->proc_fd = s->v1.fd = s->v2.fd = -1;
	r = device_host_open(o->host_root, &s->host, err);
	if (r == 0)
		r = device_open_process(&s->host, pid, &s->proc_fd, err);
	/* What is to be undone is known from what was done. */
	if (r == 0 && !revoke)
		r = choose_devices(s, pid, o->choice, err);
	if (r == 0)
		r = device_open_group(&s->host, s->proc_fd, pid, DEVICE_V1, &s->v1, err);
	if (r == 0)
		r = device_open_group(&s->host, s->proc_fd, pid, DEVICE_V2, &s->v2, err);
	if (r < 0)
		return r;
	snprintf(result->cgroup_v1, sizeof(result->cgroup_v1), "%s", s->v1.path);
	snprintf(result->cgroup_v2, sizeof(result->cgroup_v2), "%s", s->v2.path);
	/* With both versions systemd's own tree may be a third one; the names are the same. */
	if (!(s->v2.fd >= 0 && device_unit_of(s->v2.path, result->unit, sizeof(result->unit))) &&
	    !(s->v1.fd >= 0 && device_unit_of(s->v1.path, result->unit, sizeof(result->unit))))
		result->unit[0] = '\0';
	device_print_rules(&s->rules, result->devices, sizeof(result->devices));
	*ret = gs_take(s);
	return 0;
}

/* The first reason stays. */
static void keep_reason(struct gs_device_result *result, const struct device_change *change)
{
	if (!result->reason[0])
		snprintf(result->reason, sizeof(result->reason), "%s", change->reason);
}

typedef int (*check_fn)(const struct device_group *, const struct device_group *leaf,
			const struct device_rules *, struct device_change *, struct gs_err *);
typedef int (*grant_fn)(const struct device_group *, const struct device_rules *,
			struct device_change *, struct gs_err *);

static int check_v1(const struct device_group *group, const struct device_group *leaf,
		    const struct device_rules *rules, struct device_change *change,
		    struct gs_err *err)
{
	(void)leaf;
	return device_check_v1(group, rules, change, err);
}

/* Of two groups on the way: the one that says more about access comes through. */
static int combine_states(int a, int b)
{
	static const unsigned weight[GS_DEVICE_STATE_COUNT] = {
		[GS_DEVICE_UNRESTRICTED] = 1, [GS_DEVICE_ALLOWED] = 2,   [GS_DEVICE_GRANTED] = 3,
		[GS_DEVICE_UNKNOWN] = 4,      [GS_DEVICE_FORBIDDEN] = 5,
	};

	return weight[b] > weight[a] ? b : a;
}

/* One hierarchy, from its top to the process's group, in which order version 1 permits changes. */
static int judge_hierarchy(const struct subject *s, enum device_version version, bool grant,
			   bool ancestors, struct gs_device_result *result, struct gs_err *err)
{
	const struct device_group *leaf = version == DEVICE_V1 ? &s->v1 : &s->v2;
	check_fn check = version == DEVICE_V1 ? check_v1 : device_check_v2;
	grant_fn change = version == DEVICE_V1 ? device_grant_v1 : device_grant_v2;
	int state = GS_DEVICE_ABSENT, r = 0;

	for (unsigned level = 0; leaf->fd >= 0 && r >= 0; level++) {
		GS_CLEANUP(device_close_group) struct device_group above = {.fd = -1};
		struct device_change done = {0};
		bool is_leaf = !device_open_level(&s->host, version, leaf, level, &above);
		const struct device_group *group = is_leaf ? leaf : &above;

		/* Of version 1 a group's own rules decide: they are never wider than those above. */
		if (!is_leaf && version == DEVICE_V1 && !(grant && ancestors))
			continue;
		r = check(group, leaf, &s->rules, &done, err);
		if (r >= 0 && grant && (is_leaf || (ancestors && r == GS_DEVICE_FORBIDDEN))) {
			done.reason[0] = '\0';
			r = change(group, &s->rules, &done, err);
		}
		result->n_changes += done.n_changes;
		result->superseded |= done.superseded && !grant;
		keep_reason(result, &done);
		state = r < 0 ? GS_DEVICE_UNKNOWN : combine_states(state, r);
		if (is_leaf)
			break;
	}
	*(version == DEVICE_V1 ? &result->v1 : &result->v2) = (enum gs_device_state)state;
	return r < 0 ? r : 0;
}

static void fill_unit(const struct subject *s, const char *name, struct device_unit *ret)
{
	const struct device_group *group = s->v2.fd >= 0 ? &s->v2 : &s->v1;
	char found[sizeof(ret->name)];

	/* As open_subject() has found it. */
	if (s->v2.fd < 0 || !device_unit_of(s->v2.path, found, sizeof(found)))
		group = &s->v1;
	*ret = (struct device_unit){.restricted = device_has_systemd_program(&s->v2)};
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->cgroup, sizeof(ret->cgroup), "%.*s",
		 (int)device_unit_length(group->path, name), group->path);
}

static int judge_all(int pid, const struct gs_device_options *o, bool grant,
		     struct gs_device_result *result, struct gs_err *err)
{
	GS_CLEANUP(close_subject_p) struct subject *s = NULL;
	struct device_unit unit;
	struct gs_err more = {{0}};
	int r = open_subject(pid, o, false, &s, result, err), next;

	if (r < 0)
		return r;
	fill_unit(s, result->unit, &unit);
	r = judge_hierarchy(s, DEVICE_V1, grant, o->ancestors, result, err);
	next = judge_hierarchy(s, DEVICE_V2, grant, o->ancestors, result, r < 0 ? &more : err);
	r = r < 0 ? r : next;
	if (!grant || o->no_drop_in || !result->unit[0])
		return r;
	next = device_write_drop_in(&s->host, &unit, &s->rules, &s->drivers, result->drop_in_path,
				    sizeof(result->drop_in_path), r < 0 ? &more : err);
	result->drop_in = next < 0 ? GS_DEVICE_UNKNOWN : (enum gs_device_state)next;
	result->n_changes += next == GS_DEVICE_GRANTED;
	return r < 0 || next >= 0 ? r : next;
}

int gs_device_check(int pid, const struct gs_device_options *options,
		    struct gs_device_result *ret_result, struct gs_err *err)
{
	return judge_all(pid, options, false, ret_result, err);
}

int gs_device_grant(int pid, const struct gs_device_options *options,
		    struct gs_device_result *ret_result, struct gs_err *err)
{
	return judge_all(pid, options, true, ret_result, err);
}

int gs_device_revoke(int pid, const struct gs_device_options *o, struct gs_device_result *result,
		     struct gs_err *err)
{
	GS_CLEANUP(close_subject_p) struct subject *s = NULL;
	int r = open_subject(pid, o, true, &s, result, err);

	if (r < 0)
		return r;
	/* The drop-in first: what systemd writes in between has its rules of before. */
	if (result->unit[0] && !o->no_drop_in)
		r = device_remove_drop_in(&s->host, result->unit, result->drop_in_path,
					  sizeof(result->drop_in_path), err);
	if (r < 0)
		return r;
	result->drop_in = (enum gs_device_state)r;
	result->n_changes += r == GS_DEVICE_REVOKED;
	for (enum device_version version = DEVICE_V1; version <= DEVICE_V2; version++) {
		const struct device_group *leaf = version == DEVICE_V1 ? &s->v1 : &s->v2;
		enum gs_device_state *state = version == DEVICE_V1 ? &result->v1 : &result->v2;

		for (unsigned level = 0; leaf->fd >= 0; level++) {
			GS_CLEANUP(device_close_group) struct device_group above = {.fd = -1};
			struct device_change done = {0};
			bool is_leaf = !device_open_level(&s->host, version, leaf, level, &above);
			const struct device_group *group = is_leaf ? leaf : &above;

			if (is_leaf || o->ancestors) {
				r = version == DEVICE_V1 ? device_revoke_v1(group, &done, err)
							 : device_revoke_v2(group, &done, err);
				if (r < 0)
					return r;
				*state = r == GS_DEVICE_REVOKED ? GS_DEVICE_REVOKED : *state;
				result->n_changes += done.n_changes;
			}
			if (is_leaf)
				break;
		}
	}
	return 0;
}

static bool is_open(enum gs_device_state state)
{
	return state != GS_DEVICE_FORBIDDEN && state != GS_DEVICE_UNKNOWN;
}

bool gs_device_is_open(const struct gs_device_result *result)
{
	return is_open(result->v1) && is_open(result->v2);
}

const char *gs_device_state_name(enum gs_device_state state)
{
	static const char *const names[GS_DEVICE_STATE_COUNT] = {
		[GS_DEVICE_ABSENT] = "none",         [GS_DEVICE_UNRESTRICTED] = "unrestricted",
		[GS_DEVICE_ALLOWED] = "allowed",     [GS_DEVICE_GRANTED] = "granted",
		[GS_DEVICE_FORBIDDEN] = "forbidden", [GS_DEVICE_REVOKED] = "revoked",
		[GS_DEVICE_UNKNOWN] = "unknown",
	};

	return (unsigned)state < GS_DEVICE_STATE_COUNT ? names[state] : "?";
}
