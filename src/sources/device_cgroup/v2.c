/*
 * Version 2 of control groups: programs of class cgroup_device, attached to the folder of a group.
 * All of a group and of those above have to allow an access (BPF_F_ALLOW_MULTI; kernel/bpf/cgroup.c,
 * bpf_prog_run_array_cg()), so the only way to allow more is to put another program in the place of
 * one that forbids. program.c makes that program out of the old one.
 *
 * The exchange is one step of the kernel, in the way in which the old one was attached:
 * - with BPF_F_ALLOW_MULTI (systemd, runc, crun): BPF_F_REPLACE, which fails with ENOENT if its owner
 *   has replaced it meanwhile: then all is looked at again;
 * - with BPF_F_ALLOW_OVERRIDE or without a flag: a second one takes the place of the first;
 * - by a link: BPF_LINK_UPDATE, with the old program named; the link stays its owner's.
 *
 * A program of ours keeps the name of the one that it replaced. When the owner attaches a new one
 * beside it, because it does not find its own any more, ours has the rules of before: it is taken
 * away as soon as the new one has been replaced in turn.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sources/device_cgroup/device_int.h"

#define PROGRAMS_MAX 64 /* BPF_CGROUP_MAX_PROGS of the kernel */
#define ATTEMPTS     5
#define LINKS_MAX    65536
#define SYSTEMD_NAME "sd_devices"
#define LOG_BYTES    (1 << 20)

struct program {
	int fd; /* owned */
	uint32_t id;
	char name[BPF_OBJ_NAME_LEN];
	bool gpl;
	struct bpf_insn *insns; /* owned; with room for another head in front */
	size_t n;
	const char *why_not; /* it cannot be kept; NULL: it can */
	size_t n_head;       /* instructions of ours at its begin; 0: not ours */
	struct device_rules head;
};

struct programs {
	unsigned n;
	uint32_t flags; /* how all of them were attached */
	struct program program[PROGRAMS_MAX];
};

static void free_programs(struct programs *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		gs_close_p(&p->program[i].fd);
		gs_free_p(&p->program[i].insns);
	}
	p->n = 0;
}

/* Fills all but fd and id. */
static int read_instructions(struct program *p)
{
	struct bpf_prog_info info = {0};
	uint32_t bytes = sizeof(info);
	int r = bpf_obj_get_info_by_fd(p->fd, &info, &bytes);

	if (r < 0)
		return -errno;
	p->n = info.xlated_prog_len / sizeof(struct bpf_insn);
	p->gpl = info.gpl_compatible;
	memcpy(p->name, info.name, sizeof(p->name));
	p->name[sizeof(p->name) - 1] = '\0';
	if (p->n > DEVICE_INSNS_MAX) {
		p->why_not = "it is too long";
		return 0;
	}
	p->insns = calloc(p->n + DEVICE_HEAD_MAX, sizeof(*p->insns));
	if (!p->insns)
		return -ENOMEM;
	info = (struct bpf_prog_info){.xlated_prog_insns = (uintptr_t)(p->insns + DEVICE_HEAD_MAX),
				      .xlated_prog_len = (uint32_t)(p->n * sizeof(*p->insns))};
	bytes = sizeof(info);
	if (bpf_obj_get_info_by_fd(p->fd, &info, &bytes) < 0)
		return -errno;
	/* A program that may not be shown has none. */
	p->n = info.xlated_prog_insns ? p->n : 0;
	if (device_program_normalize(p->insns + DEVICE_HEAD_MAX, &p->n, &p->why_not) == 0)
		p->n_head = device_program_read_head(p->insns + DEVICE_HEAD_MAX, p->n, &p->head);
	return 0;
}

static int open_program(uint32_t id, struct program *ret, struct gs_err *err)
{
	int fd = bpf_prog_get_fd_by_id(id), r = 0;

	*ret = (struct program){.fd = fd, .id = id};
	if (fd < 0)
		r = -errno;
	else
		r = read_instructions(ret);
	if (r == 0 || r == -ENOENT)
		return r;
	gs_close_p(&ret->fd);
	gs_free_p(&ret->insns);
	return gs_err_set(err, r, "cannot read eBPF program %u: %s%s", id, strerror(-r),
			  r == -EPERM ? "; CAP_SYS_ADMIN and CAP_BPF are needed" : "");
}

/* Those of the group, without those of groups above. */
static int read_programs(const struct device_group *group, struct programs *ret, struct gs_err *err)
{
	uint32_t ids[PROGRAMS_MAX], n = PROGRAMS_MAX, flags = 0;
	int r;

	ret->n = 0;
	if (bpf_prog_query(group->fd, BPF_CGROUP_DEVICE, 0, &flags, ids, &n) < 0) {
		r = -errno;
		return gs_err_set(err, r, "cannot query the device programs of %.300s: %s%s",
				  group->path, strerror(-r),
				  r == -EPERM ? "; CAP_NET_ADMIN or CAP_SYS_ADMIN is needed" : "");
	}
	ret->flags = flags;
	for (uint32_t i = 0; i < n; i++) {
		r = open_program(ids[i], &ret->program[ret->n], err);
		if (r == -ENOENT)
			continue; /* it has just gone */
		if (r < 0) {
			free_programs(ret);
			return r;
		}
		ret->n++;
	}
	return 0;
}

/* 1, 0, or negative: not known. */
static int program_allows(const struct program *p, const struct device_rules *rules,
			  struct device_rule *ret_forbidden)
{
	if (p->n_head && device_covers_rules(&p->head, rules))
		return 1;
	return p->why_not ? -ENOTSUP
			  : device_program_allows(p->insns + DEVICE_HEAD_MAX, p->n, rules,
						  ret_forbidden);
}

static void name_program(const struct program *p, char *out, size_t bytes)
{
	snprintf(out, bytes, "eBPF program %u%s%s%s", p->id, p->name[0] ? " (" : "", p->name,
		 p->name[0] ? ")" : "");
}

#define EFFECTIVE_MAX 1024

/* Whether a program is asked for an access of a group: one above whose owner permits others to
 * override it is not, where there is another below. */
static bool is_effective(const struct device_group *leaf, uint32_t program_id)
{
	uint32_t ids[EFFECTIVE_MAX], n = EFFECTIVE_MAX;

	if (bpf_prog_query(leaf->fd, BPF_CGROUP_DEVICE, BPF_F_QUERY_EFFECTIVE, NULL, ids, &n) < 0)
		return true;
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] == program_id)
			return true;
	return false;
}

/* Ours that stands beside one of its owner's which came later, and so has newer rules. Another that was
 * there before ours, of the same name, is one of two that both hold. */
static bool is_superseded(const struct programs *p, unsigned which)
{
	const struct program *ours = &p->program[which];

	for (unsigned i = 0; i < p->n; i++)
		if (ours->n_head && !p->program[i].n_head && ours->name[0] &&
		    p->program[i].id > ours->id && strcmp(p->program[i].name, ours->name) == 0)
			return true;
	return false;
}

int device_check_v2(const struct device_group *group, const struct device_group *leaf,
		    const struct device_rules *rules, struct device_change *change,
		    struct gs_err *err)
{
	GS_CLEANUP(free_programs) struct programs p = {0};
	char name[64];
	int state = GS_DEVICE_ALLOWED, r;

	if (group->fd < 0)
		return GS_DEVICE_ABSENT;
	r = read_programs(group, &p, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < p.n; i++) {
		struct device_rule forbidden = {0};

		change->superseded |= is_superseded(&p, i);
		r = program_allows(&p.program[i], rules, &forbidden);
		if (r == 1 || !is_effective(leaf, p.program[i].id))
			continue;
		name_program(&p.program[i], name, sizeof(name));
		if (r == 0)
			snprintf(change->reason, sizeof(change->reason),
				 "%s of %.300s forbids device %u:%u", name, group->path,
				 forbidden.major, forbidden.minor);
		else
			snprintf(change->reason, sizeof(change->reason),
				 "%s of %.300s cannot be evaluated%s%s", name, group->path,
				 p.program[i].why_not ? ": " : "",
				 p.program[i].why_not ? p.program[i].why_not : "");
		state = r == 0 ? GS_DEVICE_FORBIDDEN : GS_DEVICE_UNKNOWN;
		if (r == 0)
			break;
	}
	return p.n ? state : GS_DEVICE_UNRESTRICTED;
}

/* The last line of the verifier's log that says something of the program. */
static void find_reason(const char *log, char *out, size_t bytes)
{
	out[0] = '\0';
	for (const char *line = log; *line;) {
		size_t len = strcspn(line, "\n");

		if (len && strncmp(line, "processed ", 10) != 0)
			snprintf(out, bytes, "%.*s", (int)(len < bytes ? len : bytes), line);
		line += len + (line[len] == '\n');
	}
}

static int load_program(const struct bpf_insn *insns, size_t n, const struct program *old,
			struct gs_err *err)
{
	GS_FREE char *log = calloc(1, LOG_BYTES);
	char reason[200];
	LIBBPF_OPTS(bpf_prog_load_opts, o, .log_buf = log, .log_size = LOG_BYTES);
	int fd, r;

	if (!log)
		return gs_err_set(err, -ENOMEM, "no memory");
	/* libbpf asks for a log only when the program has been refused without one. */
	fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_DEVICE, old->name[0] ? old->name : NULL,
			   old->gpl ? "GPL" : "Proprietary", insns, n, &o);
	if (fd >= 0)
		return fd;
	r = -errno;
	find_reason(log, reason, sizeof(reason));
	return gs_err_set(err, r, "the kernel does not take the changed program %u: %s%s%s%s",
			  old->id, strerror(-r), reason[0] ? ": " : "", reason,
			  r == -EPERM ? "; CAP_BPF and CAP_NET_ADMIN are needed" : "");
}

/* The link by which a program is attached to this group; -ENOENT: none. */
static int find_link(const struct device_group *group, uint32_t program_id)
{
	struct stat st;
	uint32_t id = 0;

	if (fstat(group->fd, &st) < 0)
		return -errno;
	for (unsigned i = 0; i < LINKS_MAX && bpf_link_get_next_id(id, &id) == 0; i++) {
		GS_CLOSE int fd = bpf_link_get_fd_by_id(id);
		struct bpf_link_info info = {0};
		uint32_t bytes = sizeof(info);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0 &&
		    info.type == BPF_LINK_TYPE_CGROUP && info.prog_id == program_id &&
		    info.cgroup.cgroup_id == st.st_ino &&
		    info.cgroup.attach_type == BPF_CGROUP_DEVICE)
			return gs_take_fd(&fd);
	}
	return -ENOENT;
}

/* Whether a program is the only one of a group: without BPF_F_ALLOW_MULTI the kernel compares nothing,
 * and what its owner has attached since would be lost. Between this and the exchange lie microseconds. */
static bool is_still_alone(const struct device_group *group, const struct program *old)
{
	uint32_t ids[2], n = 2, flags;

	return bpf_prog_query(group->fd, BPF_CGROUP_DEVICE, 0, &flags, ids, &n) == 0 && n == 1 &&
	       ids[0] == old->id;
}

/* new_fd in place of old. -ENOENT: old is not there any more. */
static int exchange_program(const struct device_group *group, const struct program *old, int new_fd,
			    uint32_t flags)
{
	LIBBPF_OPTS(bpf_prog_attach_opts, attach, .flags = flags);
	LIBBPF_OPTS(bpf_link_update_opts, update, .flags = BPF_F_REPLACE,
		    .old_prog_fd = (uint32_t)old->fd);
	GS_CLOSE int link_fd = -1;

	if (flags & BPF_F_ALLOW_MULTI) {
		attach.flags |= BPF_F_REPLACE;
		attach.replace_prog_fd = old->fd;
	} else if (!is_still_alone(group, old)) {
		return -ENOENT;
	}
	if (bpf_prog_attach_opts(new_fd, group->fd, BPF_CGROUP_DEVICE, &attach) == 0)
		return 0;
	if (errno != ENOENT || !(flags & BPF_F_ALLOW_MULTI))
		return -errno;
	link_fd = find_link(group, old->id);
	if (link_fd < 0)
		return link_fd;
	if (bpf_link_update(link_fd, new_fd, &update) == 0)
		return 0;
	/* The link has another program by now. */
	return errno == EPERM ? -ENOENT : -errno;
}

/* The program again, with a head for these rules, or without one when there are none. */
static int replace_program(const struct device_group *group, const struct program *p,
			   uint32_t flags, const struct device_rules *rules, struct gs_err *err)
{
	struct bpf_insn head[DEVICE_HEAD_MAX], *begin = p->insns + DEVICE_HEAD_MAX + p->n_head;
	size_t n_head = rules->n ? device_program_write_head(rules, head) : 0;
	size_t n = p->n - p->n_head;
	GS_CLOSE int fd = -1;
	int r;

	memcpy(begin - n_head, head, n_head * sizeof(head[0]));
	fd = load_program(begin - n_head, n_head + n, p, err);
	if (fd < 0)
		return fd;
	r = exchange_program(group, p, fd, flags);
	if (r < 0 && r != -ENOENT)
		return gs_err_set(
			err, r, "cannot replace eBPF program %u of %.300s: %s%s", p->id,
			group->path, strerror(-r),
			r == -EPERM
				? "; a group above permits no programs below it, or CAP_NET_ADMIN is missing"
				: "");
	return r;
}

static int detach_superseded(const struct device_group *group, struct programs *p, bool *stale,
			     struct device_change *change)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (!stale[i])
			continue;
		if (bpf_prog_detach2(p->program[i].fd, group->fd, BPF_CGROUP_DEVICE) < 0)
			return -errno;
		change->n_changes++;
	}
	return 0;
}

/* One look at all of a group. -ENOENT: they have changed meanwhile. */
static int grant_once(const struct device_group *group, const struct device_rules *rules,
		      struct device_change *change, struct gs_err *err)
{
	GS_CLEANUP(free_programs) struct programs p = {0};
	bool stale[PROGRAMS_MAX] = {0};
	unsigned before = change->n_changes;
	int r = read_programs(group, &p, err);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < p.n; i++)
		stale[i] = is_superseded(&p, i);
	for (unsigned i = 0; i < p.n; i++) {
		struct program *one = &p.program[i];
		struct device_rules wanted = one->head;

		if (stale[i] || program_allows(one, rules, NULL) == 1)
			continue;
		if (one->why_not)
			return gs_err_set(
				err, -ENOTSUP,
				"eBPF program %u of %.300s cannot be kept while NVIDIA's devices are added: %s",
				one->id, group->path, one->why_not);
		for (unsigned k = 0; k < rules->n; k++)
			if (!device_add_rule(&wanted, rules->rule[k].major, rules->rule[k].minor))
				return gs_err_set(err, -E2BIG, "too many devices for one group");
		r = replace_program(group, one, p.flags, &wanted, err);
		if (r < 0)
			return r;
		change->n_changes++;
	}
	r = detach_superseded(group, &p, stale, change);
	if (r < 0)
		return gs_err_set(err, r, "cannot detach an old program of %.300s: %s", group->path,
				  strerror(-r));
	return !p.n                         ? GS_DEVICE_UNRESTRICTED
	       : change->n_changes > before ? GS_DEVICE_GRANTED
					    : GS_DEVICE_ALLOWED;
}

int device_grant_v2(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err)
{
	unsigned before = change->n_changes;
	int state = -ENOENT;

	if (group->fd < 0)
		return GS_DEVICE_ABSENT;
	for (unsigned i = 0; i < ATTEMPTS && state == -ENOENT; i++)
		state = grant_once(group, rules, change, err);
	if (state == -ENOENT)
		return gs_err_set(
			err, -EAGAIN,
			"the device programs of %.300s keep changing: another program writes them",
			group->path);
	return state == GS_DEVICE_ALLOWED && change->n_changes > before ? (int)GS_DEVICE_GRANTED
									: state;
}

static int revoke_once(const struct device_group *group, struct device_change *change,
		       struct gs_err *err)
{
	GS_CLEANUP(free_programs) struct programs p = {0};
	const struct device_rules none = {0};
	int r = read_programs(group, &p, err);

	for (unsigned i = 0; i < p.n && r == 0; i++) {
		if (!p.program[i].n_head)
			continue;
		r = replace_program(group, &p.program[i], p.flags, &none, err);
		change->n_changes += r == 0;
	}
	return r;
}

int device_revoke_v2(const struct device_group *group, struct device_change *change,
		     struct gs_err *err)
{
	unsigned before = change->n_changes;
	int r = -ENOENT;

	if (group->fd < 0)
		return GS_DEVICE_ABSENT;
	for (unsigned i = 0; i < ATTEMPTS && r == -ENOENT; i++)
		r = revoke_once(group, change, err);
	if (r < 0)
		return r == -ENOENT ? gs_err_set(err, -EAGAIN,
						 "the device programs of %.300s keep changing",
						 group->path)
				    : r;
	return change->n_changes > before ? GS_DEVICE_REVOKED : GS_DEVICE_ABSENT;
}

bool device_has_systemd_program(const struct device_group *group)
{
	GS_CLEANUP(free_programs) struct programs p = {0};

	if (group->fd < 0 || read_programs(group, &p, NULL) < 0)
		return false;
	for (unsigned i = 0; i < p.n; i++)
		if (strcmp(p.program[i].name, SYSTEMD_NAME) == 0)
			return true;
	return false;
}
