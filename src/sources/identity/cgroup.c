/*
 * Which container is this: the id in a /proc/PID/cgroup text. Every line is ID:CONTROLLERS:PATH
 * (version 2 has one line, 0::PATH). Each component of PATH is asked whether it is the group that a
 * container engine made for one container; the innermost that is, on the line where it lies
 * deepest, wins. So a container within a container is named by its own id, and a service within a
 * container by the container's. The monitors that engines run beside a container (conmon,
 * lxc.monitor) are not inside of it.
 *
 *   <64 hex>  PREFIX-<64 hex>[.scope]  A:B:<64 hex>   docker, containerd, CRI-O, podman, ECS
 *   <32 hex>-<digits> below /ecs                      Fargate
 *   machine-NAME.scope  systemd-nspawn@NAME.service   systemd-nspawn
 *   lxc.payload.NAME  lxc.payload/NAME  lxc/NAME      lxc
 *   apptainer-PID.scope  singularity-PID.scope        apptainer, when it has a group at all
 */
#include "sources/identity/identity.h"

#include <stdbool.h>
#include <string.h>

#include "sources/identity/identity_int.h"

#define ID_HEX_LEN 64

/* A stretch of text that is not terminated. */
struct piece {
	const char *at;
	size_t len;
};

static bool is_hex(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
			return false;
	return true;
}

static bool is_digits(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] < '0' || p[i] > '9')
			return false;
	return len > 0;
}

static bool piece_equals(struct piece p, const char *word)
{
	return p.len == strlen(word) && memcmp(p.at, word, p.len) == 0;
}

static bool cut_prefix(struct piece *p, const char *prefix)
{
	size_t len = strlen(prefix);

	if (p->len < len || memcmp(p->at, prefix, len) != 0)
		return false;
	p->at += len;
	p->len -= len;
	return true;
}

static bool cut_suffix(struct piece *p, const char *suffix)
{
	size_t len = strlen(suffix);

	if (p->len < len || memcmp(p->at + p->len - len, suffix, len) != 0)
		return false;
	p->len -= len;
	return true;
}

/* A bare id, or one after "engine-" or "slice:engine:". */
static bool match_long_id(struct piece c, struct piece *ret)
{
	struct piece id;

	cut_suffix(&c, ".scope");
	if (c.len < ID_HEX_LEN)
		return false;
	id = (struct piece){c.at + c.len - ID_HEX_LEN, ID_HEX_LEN};
	if (!is_hex(id.at, id.len))
		return false;
	c.len -= ID_HEX_LEN;
	if (c.len) {
		if (c.at[c.len - 1] != '-' && c.at[c.len - 1] != ':')
			return false;
		c.len--;
		if (c.len == 0 || cut_suffix(&c, "conmon"))
			return false;
	}
	*ret = id;
	return true;
}

static bool match_fargate(struct piece c, struct piece *ret)
{
	const size_t hex = 32, digits_max = 10;

	if (c.len < hex + 2 || c.len > hex + 1 + digits_max || c.at[hex] != '-' ||
	    !is_hex(c.at, hex) || !is_digits(c.at + hex + 1, c.len - hex - 1))
		return false;
	*ret = c;
	return true;
}

/* Engines that name a group by the name of the container. parent is the component before it. */
static bool match_name(struct piece c, struct piece parent, struct piece *ret)
{
	struct piece name = c, number;

	if (cut_suffix(&name, ".scope")) {
		*ret = name;
		if (cut_prefix(ret, "machine-"))
			return ret->len > 0;
		number = name;
		if (cut_prefix(&number, "apptainer-") || cut_prefix(&number, "singularity-"))
			return is_digits(number.at, number.len);
		return false;
	}
	*ret = c;
	if (cut_prefix(ret, "systemd-nspawn@"))
		return cut_suffix(ret, ".service") && ret->len > 0;
	if (cut_prefix(ret, "lxc.payload."))
		return ret->len > 0;
	return piece_equals(parent, "lxc") || piece_equals(parent, "lxc.payload");
}

/* The innermost container of a path; depth of its component, 0 none. */
static unsigned match_path(struct piece path, struct piece *ret)
{
	struct piece parent = {"", 0};
	unsigned depth = 0, found = 0;
	bool below_ecs = false;

	while (path.len) {
		const char *slash = memchr(path.at, '/', path.len);
		struct piece c = {path.at, slash ? (size_t)(slash - path.at) : path.len},
			     id = {"", 0};

		path.at += c.len + (slash ? 1 : 0);
		path.len -= c.len + (slash ? 1 : 0);
		if (!c.len)
			continue;
		depth++;
		if (match_long_id(c, &id) || (below_ecs && match_fargate(c, &id)) ||
		    match_name(c, parent, &id)) {
			*ret = id;
			found = depth;
		}
		below_ecs |= piece_equals(c, "ecs");
		parent = c;
	}
	return found;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Names of systemd units hold \xNN for what a unit name must not. */
static void copy_id(struct piece id, char *out)
{
	char plain[GS_IDENTITY_CONTAINER_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < id.len && n < sizeof(plain); n++) {
		if (id.len - i >= 4 && id.at[i] == '\\' && id.at[i + 1] == 'x' &&
		    hex_digit(id.at[i + 2]) >= 0 && hex_digit(id.at[i + 3]) >= 0) {
			plain[n] = (char)(hex_digit(id.at[i + 2]) * 16 + hex_digit(id.at[i + 3]));
			i += 4;
		} else {
			plain[n] = id.at[i++];
		}
	}
	gs_identity_copy_clean(out, GS_IDENTITY_CONTAINER_BYTES, plain, n);
}

void gs_identity_container_of_cgroup(const char *cgroup_text, char *out)
{
	struct piece best = {"", 0};
	unsigned best_depth = 0;

	for (const char *line = cgroup_text; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *colon = memchr(line, ':', (size_t)(end - line));
		const char *path = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;

		if (path && path[1] == '/') {
			struct piece id = {"", 0};
			unsigned depth =
				match_path((struct piece){path + 1, (size_t)(end - path - 1)}, &id);

			if (depth > best_depth) {
				best_depth = depth;
				best = id;
			}
		}
		line = *end ? end + 1 : end;
	}
	copy_id(best, out);
}
