/* What the files of this room share. */
#ifndef GS_SOURCES_DEVICE_CGROUP_DEVICE_INT_H
#define GS_SOURCES_DEVICE_CGROUP_DEVICE_INT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/device_cgroup/device_cgroup.h"

/* --- major.c: which devices are NVIDIA's --- */

#define DEVICE_ANY_MINOR UINT32_MAX
#define DEVICE_RULES_MAX 64

struct device_rule {
	uint32_t major, minor; /* DEVICE_ANY_MINOR: all of them */
};

struct device_rules {
	unsigned n;
	struct device_rule rule[DEVICE_RULES_MAX];
};

struct device_driver {
	uint32_t major;
	char name[32]; /* as in /proc/devices */
};

struct device_drivers {
	unsigned n;
	struct device_driver driver[DEVICE_RULES_MAX];
};

/* The character devices of NVIDIA's drivers in the text of /proc/devices; what does not fit is left
 * out. */
void device_parse_drivers(const char *text, struct device_drivers *ret);

bool device_is_major(const struct device_drivers *drivers, uint32_t major);

/* One more rule, unless it is there or another covers it. False: there is no room. */
bool device_add_rule(struct device_rules *rules, uint32_t major, uint32_t minor);

/* Whether all of these are among those. */
bool device_covers_rules(const struct device_rules *those, const struct device_rules *these);

/* "195:* 511:0"; cut where it does not fit. */
void device_print_rules(const struct device_rules *rules, char *out, size_t bytes);

/* --- program.c, program_decide.c: programs of class cgroup_device as instructions --- */

#define DEVICE_INSNS_MAX 65536

/* Instructions as the kernel shows them (bpf_prog_info.xlated_prog_insns) made into what it takes
 * again. 0, or -ENOTSUP and why (a literal): it would not be the same program. *n may shrink. */
int device_program_normalize(struct bpf_insn *insns, size_t *n, const char **ret_why);

/* What such a program answers to one access: 1 allowed, 0 forbidden, -ENOTSUP not known, -ELOOP
 * after *steps of them, which is counted down. access_type: as in struct bpf_cgroup_dev_ctx. */
int device_program_decide(const struct bpf_insn *insns, size_t n, uint32_t access_type,
			  uint32_t major, uint32_t minor, uint32_t *steps);

/* Whether it lets all of these be opened for reading and writing: 1, 0, or as above. ret_forbidden
 * (may be NULL): the first that it does not. */
int device_program_allows(const struct bpf_insn *insns, size_t n, const struct device_rules *rules,
			  struct device_rule *ret_forbidden);

#define DEVICE_HEAD_MAX (12 + 2 * DEVICE_RULES_MAX)

/* The instructions that allow these and go on after their own end for the rest; how many. */
size_t device_program_write_head(const struct device_rules *rules, struct bpf_insn *out);

/* How many instructions of a program are such a head, and of which rules; 0: it has none. */
size_t device_program_read_head(const struct bpf_insn *insns, size_t n, struct device_rules *ret);

/* --- hierarchy.c: where the groups of a process are --- */

struct device_host {
	int root_fd, v1_fd, v2_fd; /* owned; -1: there is no such hierarchy */
	bool initial_cgroups;      /* our own cgroup namespace is the first one */
	bool same_pids;            /* its /proc counts processes as we do */
	char root[256];            /* as it was given, for messages; "" is "/" */
};

#define DEVICE_HOST_INIT                                                                           \
	{                                                                                          \
		.root_fd = -1, .v1_fd = -1, .v2_fd = -1                                            \
	}

int device_host_open(const char *host_root, struct device_host *ret, struct gs_err *err);
void device_host_close(struct device_host *host);

/* A file below the host's root, with no way out of it; flags as of open(2). */
int device_host_openat(int dir_fd, const char *path, int flags);

/* A whole text below a folder, at most bytes - 1; how long it is. */
ssize_t device_read_text(int dir_fd, const char *path, char *out, size_t bytes);

/* /proc/PID of the host. */
int device_open_process(const struct device_host *host, int pid, int *ret_fd, struct gs_err *err);

enum device_version { DEVICE_V1 = 1, DEVICE_V2 = 2 };

/* The path of one hierarchy in the text of /proc/PID/cgroup, as it stands there. False: none, or
 * longer than out. */
bool device_parse_cgroup(const char *text, enum device_version version, char *out, size_t bytes);

/* prefix (absolute, "" the top) and a path that may begin with "/..", joined to an absolute one
 * without any. -EINVAL: it leaves the top, has other such parts, control characters, or is too long. */
int device_join_path(const char *prefix, const char *path, char *out, size_t bytes);

struct device_group {
	int fd;                          /* owned; of the folder; -1: none */
	char path[GS_DEVICE_PATH_BYTES]; /* absolute in the hierarchy */
};

/* The group of a process; ret->fd stays -1 where the hierarchy is not there. */
int device_open_group(const struct device_host *host, int proc_fd, int pid,
		      enum device_version version, struct device_group *ret, struct gs_err *err);

/* The group on the way to this one that lies so many below the top (0: the top itself). False: that is
 * this one, or it cannot be opened. */
bool device_open_level(const struct device_host *host, enum device_version version,
		       const struct device_group *group, unsigned level, struct device_group *ret);
void device_close_group(struct device_group *group);

/* --- held.c: what processes have open --- */

/* The devices of these drivers that a process has open. */
int device_read_held(int proc_fd, const struct device_drivers *drivers, struct device_rules *ret);

/* --- v1.c, v2.c: the rules of one group --- */

struct device_change {
	unsigned n_changes;
	bool superseded; /* as in struct gs_device_result */
	char reason[512];
};

/* state is one of enum gs_device_state, or a negative errno with err. Each looks at the group alone,
 * not at those above it. */
int device_check_v1(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err);
int device_grant_v1(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err);
int device_revoke_v1(const struct device_group *group, struct device_change *change,
		     struct gs_err *err);
/* leaf: only of programs that are asked for an access of that group, which is this one or below it. */
int device_check_v2(const struct device_group *group, const struct device_group *leaf,
		    const struct device_rules *rules, struct device_change *change,
		    struct gs_err *err);
int device_grant_v2(const struct device_group *group, const struct device_rules *rules,
		    struct device_change *change, struct gs_err *err);
int device_revoke_v2(const struct device_group *group, struct device_change *change,
		     struct gs_err *err);

/* Whether one of its programs is systemd's. */
bool device_has_systemd_program(const struct device_group *group);

/* What devices.list has of these: whether all are allowed. ret_all: there are no rules. */
bool device_parse_list(const char *text, const struct device_rules *rules, bool *ret_all);

/* --- drop_in.c: systemd's configuration --- */

/* The unit whose group this is, or is in: the first part of the path that is no slice. False: the
 * group is in none, or its name is none that systemd makes. */
bool device_unit_of(const char *cgroup, char *out, size_t bytes);

/* How much of such a path is the unit's own group: "/a.slice/b.scope" of "/a.slice/b.scope/c". */
size_t device_unit_length(const char *cgroup, const char *unit);

/* The drop-in's whole text. cgroup: the unit's own. drivers: for rules of whole drivers, by name. */
void device_print_drop_in(const char *unit, const char *cgroup, const struct device_rules *rules,
			  const struct device_drivers *drivers, char *out, size_t bytes);

/* The group that the text of a drop-in is for. False: it is none of ours. */
bool device_parse_drop_in(const char *text, char *ret_cgroup, size_t bytes);

/* Add to the text what an older one for the same group has and it lacks: processes of one group hold
 * different devices. 0, or -E2BIG. */
int device_merge_drop_in(const char *old, char *text, size_t bytes);

struct device_unit {
	char name[256];
	char cgroup[GS_DEVICE_PATH_BYTES]; /* its own */
	bool restricted;                   /* it is known that systemd has rules for it */
};

/* The state; *ret_path says where. Drop-ins of units whose groups are gone are removed: systemd does not
 * know a file that came after it had read the unit. */
int device_write_drop_in(const struct device_host *host, const struct device_unit *unit,
			 const struct device_rules *rules, const struct device_drivers *drivers,
			 char *ret_path, size_t bytes, struct gs_err *err);
int device_remove_drop_in(const struct device_host *host, const char *unit, char *ret_path,
			  size_t bytes, struct gs_err *err);

#endif
