/*
 * Version 1 of control groups: devices.list has a group's rules, devices.allow and devices.deny take
 * new ones (Documentation/admin-guide/cgroup-v1/devices.rst). "a *:* rwm" alone: there are none.
 *
 * What this program has added to a group is kept in an attribute of the group's folder, so that a
 * revocation takes away these rules alone, and the record ends with the group.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "sources/device_cgroup/device_int.h"

#define RECORD     "trusted.gpuscope.devices"
#define LIST_BYTES 65536

/* One line, "c 195:* rwm"; false: it is none. */
static bool parse_line(const char *line, size_t len, char *ret_type, struct device_rule *ret,
		       bool *ret_rw)
{
	char text[64], major[16], minor[16], access[8];

	if (len >= sizeof(text))
		return false;
	memcpy(text, line, len);
	text[len] = '\0';
	if (sscanf(text, "%c %15[0-9*]:%15[0-9*] %7[rwm]", ret_type, major, minor, access) != 4)
		return false;
	ret->major =
		strcmp(major, "*") == 0 ? DEVICE_ANY_MINOR : (uint32_t)strtoul(major, NULL, 10);
	ret->minor =
		strcmp(minor, "*") == 0 ? DEVICE_ANY_MINOR : (uint32_t)strtoul(minor, NULL, 10);
	*ret_rw = strchr(access, 'r') && strchr(access, 'w');
	return true;
}

bool device_parse_list(const char *text, const struct device_rules *rules, bool *ret_all)
{
	bool found[DEVICE_RULES_MAX] = {0};

	*ret_all = false;
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		struct device_rule r;
		char type;
		bool rw;

		if (parse_line(line, len, &type, &r, &rw) && rw) {
			*ret_all |= type == 'a' && r.major == DEVICE_ANY_MINOR;
			for (unsigned i = 0; i < rules->n; i++)
				found[i] |= (type == 'c' || type == 'a') &&
					    (r.major == rules->rule[i].major ||
					     r.major == DEVICE_ANY_MINOR) &&
					    (r.minor == rules->rule[i].minor ||
					     r.minor == DEVICE_ANY_MINOR);
		}
		line += len + (line[len] == '\n');
	}
	for (unsigned i = 0; i < rules->n; i++)
		if (!found[i])
			return false;
	return true;
}

static int write_rule(int group_fd, const char *file, const struct device_rule *rule)
{
	GS_CLOSE int fd = openat(group_fd, file, O_WRONLY | O_CLOEXEC);
	char text[64];
	int n;

	if (fd < 0)
		return -errno;
	if (rule->minor == DEVICE_ANY_MINOR)
		n = snprintf(text, sizeof(text), "c %u:* rw", rule->major);
	else
		n = snprintf(text, sizeof(text), "c %u:%u rw", rule->major, rule->minor);
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

static void read_record(int group_fd, struct device_rules *ret)
{
	ssize_t n = fgetxattr(group_fd, RECORD, ret->rule, sizeof(ret->rule));

	ret->n = n > 0 ? (unsigned)((size_t)n / sizeof(ret->rule[0])) : 0;
}

int device_check_v1(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err)
{
	GS_FREE char *text = malloc(LIST_BYTES);
	char names[256];
	bool all, covered;
	ssize_t n;

	if (group->fd < 0)
		return GS_DEVICE_ABSENT;
	if (!text)
		return gs_err_set(err, -ENOMEM, "no memory");
	/* The top has no such file: it has no rules. */
	n = device_read_text(group->fd, "devices.list", text, LIST_BYTES);
	if (n == -ENOENT)
		return GS_DEVICE_UNRESTRICTED;
	if (n < 0)
		return gs_err_set(err, (int)n, "cannot read devices.list of %.300s: %s",
				  group->path, strerror((int)-n));
	covered = device_parse_list(text, rules, &all);
	if (all)
		return GS_DEVICE_UNRESTRICTED;
	if (covered)
		return GS_DEVICE_ALLOWED;
	device_print_rules(rules, names, sizeof(names));
	snprintf(change->reason, sizeof(change->reason),
		 "devices.list of %.300s lacks some of %.150s", group->path, names);
	return GS_DEVICE_FORBIDDEN;
}

int device_grant_v1(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err)
{
	struct device_rules record;
	int state = device_check_v1(group, rules, change, err), r = 0;

	if (state != GS_DEVICE_FORBIDDEN)
		return state;
	read_record(group->fd, &record);
	for (unsigned i = 0; i < rules->n && r == 0; i++) {
		const struct device_rules one = {.n = 1, .rule = {rules->rule[i]}};

		if (device_check_v1(group, &one, change, err) != GS_DEVICE_FORBIDDEN)
			continue;
		/* The record first: a rule without one would stay for ever. */
		if (!device_add_rule(&record, rules->rule[i].major, rules->rule[i].minor))
			r = -E2BIG;
		else if (fsetxattr(group->fd, RECORD, record.rule,
				   record.n * sizeof(record.rule[0]), 0) < 0)
			r = -errno;
		else
			r = write_rule(group->fd, "devices.allow", &rules->rule[i]);
		change->n_changes += r == 0;
	}
	change->reason[0] = '\0';
	if (r < 0)
		return gs_err_set(
			err, r, "cannot add to devices.allow of %.300s: %s", group->path,
			r == -EPERM ? "a group above does not allow it, or CAP_SYS_ADMIN is missing"
				    : strerror(-r));
	return GS_DEVICE_GRANTED;
}

int device_revoke_v1(const struct device_group *group, struct device_change *change,
		     struct gs_err *err)
{
	struct device_rules record;
	int r = 0;

	if (group->fd < 0)
		return GS_DEVICE_ABSENT;
	read_record(group->fd, &record);
	for (unsigned i = 0; i < record.n && r == 0; i++) {
		r = write_rule(group->fd, "devices.deny", &record.rule[i]);
		change->n_changes += r == 0;
	}
	if (r == 0 && record.n && fremovexattr(group->fd, RECORD) < 0)
		r = -errno;
	if (r < 0)
		return gs_err_set(err, r, "cannot take back the rules of %.300s: %s", group->path,
				  strerror(-r));
	return record.n ? GS_DEVICE_REVOKED : GS_DEVICE_ABSENT;
}
