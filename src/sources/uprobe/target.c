/*
 * Which processes are followed. The kernel side decides by the map of processes and by criteria
 * (model/trace/event.h, enum gs_filter); here these are made from the options, and the one
 * criterion that the kernel side cannot see, a cgroup of an old (v1) hierarchy, is turned into
 * processes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/pidns.h"
#include "sources/uprobe/uprobe_int.h"

#define CHILDREN_MAX_DEPTH 32
#define CGROUP_MAX_DEPTH   16

static int use_cgroup(struct gs_uprobe *probe, struct gs_kernel_config *config, struct gs_err *err)
{
	const char *path = probe->cgroup;
	struct statfs fs;

	if (statfs(path, &fs) != 0)
		return gs_err_set(err, -errno, "--cgroup %s: %s", path, strerror(errno));
	if (fs.f_type == CGROUP_SUPER_MAGIC) {
		probe->cgroup_v1 = true;
		config->follow = 1;
		return 0;
	}
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		return gs_err_set(
			err, -ENOTDIR,
			"--cgroup %s: not a folder of a cgroup hierarchy (they are below /sys/fs/cgroup)",
			path);
	config->filter |= GS_FILTER_CGROUP;
	return 0;
}

int uprobe_target_config(struct gs_uprobe *probe, struct gs_kernel_config *config,
			 struct gs_err *err)
{
	const struct gs_uprobe_options *o = &probe->options;

	*config = (struct gs_kernel_config){
		.gpu_queue = o->gpu_role && !o->events,
		.min_dur_ns = o->min_dur_ns,
		.events = o->events,
		.follow = o->follow,
		.task_storage = probe->features.task_storage,
		.scopes = probe->selection.scopes || gs_user_set_n(o->users),
		.py_stack_at = (uint8_t)o->py_stack_at,
		.slow_scope_ns = o->slow_scope_ns,
		.native_stack_at = (uint8_t)o->native_stack_at,
		.native_units = (uint8_t)(o->stack_bytes / GS_STACK_UNIT),
		.sample_period_ns = (o->py_stack_at | o->native_stack_at) & GS_AT_SAMPLE
					    ? o->sample_period_ns
					    : 0,
		.modes = o->modes,
		.span_first = probe->selection.span_first,
		.n_cells = probe->selection.py_func ? GS_CELL_MAX_PYTHON : GS_CELL_MAX,
		.py_func = probe->selection.py_func,
		.account = probe->features.task_storage &&
			   !(o->disabled_features & GS_DISABLED_ACCOUNT),
		.first_calls = uprobe_leaves_first_calls(probe),
		.marks = o->marks && !o->events,
		.pid_namespace = gs_pid_namespace(),
	};
	if (o->all)
		config->filter |= GS_FILTER_ALL;
	if (o->uid >= 0) {
		config->filter |= GS_FILTER_UID;
		config->uid = (uint32_t)o->uid;
	}
	if (probe->comm) {
		config->filter |= GS_FILTER_COMM;
		/* The kernel keeps 15 characters of a name. */
		memcpy(config->comm, probe->comm, strnlen(probe->comm, sizeof(config->comm) - 1));
	}
	return probe->cgroup ? use_cgroup(probe, config, err) : 0;
}

int uprobe_target_fill_maps(struct gs_uprobe *probe, struct gs_err *err)
{
	GS_CLOSE int fd = -1;
	uint32_t zero = 0;

	if (!probe->cgroup || probe->cgroup_v1)
		return 0;
	fd = open(probe->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || bpf_map_update_elem(probe->kernel.cgroup_fd, &zero, &fd, BPF_ANY) < 0)
		return gs_err_set(err, -errno, "--cgroup %s: %s", probe->cgroup, strerror(errno));
	return 0;
}

bool uprobe_target_may_match(const struct gs_uprobe *probe, pid_t pid)
{
	const struct gs_uprobe_options *o = &probe->options;
	uint32_t key = (uint32_t)pid, value;
	char path[32];
	struct stat st;

	if (o->all || o->comm || (o->cgroup && !probe->cgroup_v1))
		return true;
	if (bpf_map_lookup_elem(probe->kernel.procs_fd, &key, &value) == 0)
		return true;
	if (o->uid < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) == 0 && st.st_uid == (uint64_t)o->uid;
}

bool uprobe_target_is_named(const struct gs_uprobe *probe, pid_t pid)
{
	char path[64], comm[17] = "";
	GS_FCLOSE FILE *f = NULL;

	if (!probe->comm)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, sizeof(comm), f))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return strncmp(comm, probe->comm, 15) == 0;
}

static void follow_members(struct gs_uprobe *probe, const char *folder, int depth)
{
	GS_FCLOSE FILE *f = NULL;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;
	int pid;

	if (snprintf(path, sizeof(path), "%s/cgroup.procs", folder) >= (int)sizeof(path))
		return;
	f = fopen(path, "re");
	while (!gs_guard_stopped() && f && fscanf(f, "%d", &pid) == 1) {
		uint32_t key = (uint32_t)pid, value;

		if (pid > 0 && bpf_map_lookup_elem(probe->kernel.procs_fd, &key, &value) != 0) {
			gs_uprobe_follow(probe, pid);
			gs_uprobe_attach_process(probe, pid);
		}
	}
	dir = depth < CGROUP_MAX_DEPTH ? opendir(folder) : NULL;
	while (!gs_guard_stopped() && dir && (e = readdir(dir)) != NULL) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) < (int)sizeof(path))
			follow_members(probe, path, depth + 1);
	}
	if (dir)
		closedir(dir);
}

/* Its children are read after the kernel follows it: those that it starts meanwhile are followed
 * already. */
void uprobe_target_follow_children(struct gs_uprobe *probe, pid_t pid, int depth)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = depth < CHILDREN_MAX_DEPTH ? opendir(path) : NULL;
	while (!gs_guard_stopped() && tasks && (e = readdir(tasks)) != NULL) {
		GS_FCLOSE FILE *f = NULL;
		int child;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid, e->d_name);
		f = fopen(path, "re");
		while (f && !gs_guard_stopped() && fscanf(f, "%d", &child) == 1) {
			if (child > 0 && gs_uprobe_follow(probe, child) == 0)
				uprobe_target_follow_children(probe, child, depth + 1);
		}
	}
	if (tasks)
		closedir(tasks);
}

void uprobe_target_follow_cgroup_v1(struct gs_uprobe *probe)
{
	if (probe->cgroup_v1)
		follow_members(probe, probe->cgroup, 0);
}
