/*
 * Loading and attaching the work probes. What a kernel's tracepoints hand over is read from its
 * type information; a tracepoint that is not there leaves its family's part out and is reported.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/pidns.h"
#include "sources/kernel_types/kernel_types.h"
#include "sources/taskstats/taskstats_int.h"
#include "taskstats.skel.h"

struct prog {
	struct bpf_program *prog;
	const char *point; /* NULL: not here */
	uint32_t families; /* any of */
	const char *missing;
};

/* ---- what this kernel's tracepoints look like ---- */

/* Arguments that a program gets: all but the first, which is the tracepoint's own. */
static int point_args(const struct gs_kernel_types *types, const char *point)
{
	const struct btf_type *t = gs_kernel_types_point(types, point);

	return t ? (int)btf_vlen(t) - 1 : -1;
}

static bool arg_is_pointer(const struct gs_kernel_types *types, const char *point, int arg)
{
	const struct btf *all = gs_kernel_types_all(types);
	const struct btf_type *t = gs_kernel_types_point(types, point);

	if (!t || arg + 1 >= btf_vlen(t))
		return false;
	t = btf__type_by_id(all, btf_params(t)[arg + 1].type);
	while (t && (btf_is_mod(t) || btf_is_typedef(t)))
		t = btf__type_by_id(all, t->type);
	return t && btf_is_ptr(t);
}

static const char *if_there(const struct gs_kernel_types *types, const char *point)
{
	return gs_kernel_types_point(types, point) ? point : NULL;
}

#define REQUEST_MAKER "block_io_start" /* Linux 6.5 */

static const char *request_maker(const struct gs_kernel_types *types)
{
	const char *first = if_there(types, REQUEST_MAKER);

	return first ? first : if_there(types, "block_rq_insert");
}

static const char *uring_submit(const struct gs_kernel_types *types)
{
	if (gs_kernel_types_point(types, "io_uring_submit_req")) /* Linux 6.3 */
		return "io_uring_submit_req";
	/* 5.19 to 6.2: the same under another name; before that, other arguments. */
	return point_args(types, "io_uring_submit_sqe") == 2 ? "io_uring_submit_sqe" : NULL;
}

static const char *uring_complete(const struct gs_kernel_types *types)
{
	int n = point_args(types, "io_uring_complete");

	return n == 3 || n >= 6 ? "io_uring_complete" : NULL;
}

/* ---- programs ---- */

static int choose_programs(struct gs_taskstats_probe *p, const struct gs_kernel_types *types,
			   uint32_t families, bool call_times, struct prog *progs, size_t max)
{
	const uint32_t calls = GS_TASKSTATS_SYSCALL | GS_TASKSTATS_IO | GS_TASKSTATS_NET;
	const uint32_t enter = call_times ? calls : 0;
	struct gs_taskstats_bpf *s = p->skeleton;
	const struct prog all[] = {
		{s->progs.gs_tasks_newtask, if_there(types, "task_newtask"), GS_TASKSTATS_ALL,
		 NULL},
		{s->progs.gs_tasks_attach, if_there(types, "cgroup_attach_task"), GS_TASKSTATS_ALL,
		 "processes that are moved into a followed cgroup are not seen"},
		{s->progs.gs_tasks_exec, if_there(types, "sched_process_exec"), GS_TASKSTATS_ALL,
		 NULL},
		{s->progs.gs_tasks_exit, if_there(types, "sched_process_exit"), GS_TASKSTATS_ALL,
		 NULL},
		{s->progs.gs_tasks_free, if_there(types, "sched_process_free"), GS_TASKSTATS_ALL,
		 ""},
		/* Always: who has ended is known by the last switch. */
		{s->progs.gs_tasks_switch, if_there(types, "sched_switch"), GS_TASKSTATS_ALL, NULL},
		{s->progs.gs_tasks_wakeup, if_there(types, "sched_wakeup"), GS_TASKSTATS_SCHED,
		 NULL},
		{s->progs.gs_tasks_migrate, if_there(types, "sched_migrate_task"),
		 GS_TASKSTATS_SCHED, "migrations are not counted"},
		{s->progs.gs_tasks_oom,
		 arg_is_pointer(types, "mark_victim", 0) ? "mark_victim" : NULL, GS_TASKSTATS_SCHED,
		 "OOM kills are not counted (needs Linux 6.8)"},
		{s->progs.gs_tasks_sys_enter, if_there(types, "sys_enter"), enter, NULL},
		{s->progs.gs_tasks_sys_exit, if_there(types, "sys_exit"), calls, NULL},
		{s->progs.gs_tasks_submit_uring, uring_complete(types) ? uring_submit(types) : NULL,
		 calls, "io_uring operations are not counted (needs Linux 5.19)"},
		{s->progs.gs_tasks_complete_uring,
		 uring_submit(types) ? uring_complete(types) : NULL, calls, ""},
		{s->progs.gs_tasks_rq_made, request_maker(types), GS_TASKSTATS_IO,
		 "block requests made by kernel threads are not attributed"},
		{s->progs.gs_tasks_rq_issue, if_there(types, "block_rq_issue"), GS_TASKSTATS_IO,
		 "requests to block devices are not counted"},
		{s->progs.gs_tasks_rq_complete, if_there(types, "block_rq_complete"),
		 GS_TASKSTATS_IO, ""},
		{s->progs.gs_tasks_sock_state, if_there(types, "inet_sock_set_state"),
		 GS_TASKSTATS_NET, "connections are not counted"},
		{s->progs.gs_tasks_retransmit, if_there(types, "tcp_retransmit_skb"),
		 GS_TASKSTATS_NET, "retransmits are not counted"},
	};
	size_t n = 0;

	_Static_assert(GS_ARRAY_LEN(all) <= WORK_MAX_LINKS, "room for every link");
	for (size_t i = 0; i < GS_ARRAY_LEN(all) && n < max; i++) {
		if (!(all[i].families & families))
			continue;
		if (all[i].point)
			progs[n++] = all[i];
		else if (!all[i].missing)
			return -ENOTSUP;
		else if (all[i].missing[0] && p->n_missing < GS_ARRAY_LEN(p->missing))
			p->missing[p->n_missing++] = all[i].missing;
	}
	return (int)n;
}

static unsigned count_stripes(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	unsigned n = 1;

	while (n < GS_TASKSTATS_GROUPS - 1 && n < cpus)
		n *= 2;
	return n;
}

static void gpu_majors(struct gs_taskstats_config *c, const struct gs_taskstats_options *o)
{
	uint32_t found[GS_TASKSTATS_GPU_MAJORS];
	char text[16384] = "";
	size_t n;

	if (o->gpu_majors) {
		for (n = 0; n < o->n_gpu_majors && n < GS_TASKSTATS_GPU_MAJORS; n++)
			c->gpu_majors[n] = o->gpu_majors[n];
	} else {
		GS_FCLOSE FILE *f = fopen("/proc/devices", "re");

		if (f)
			text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		n = taskstats_gpu_majors(text, found, GS_TASKSTATS_GPU_MAJORS);
		memcpy(c->gpu_majors, found, n * sizeof(found[0]));
	}
	c->n_gpu_majors = (uint8_t)n;
}

static void configure_kernel(struct gs_taskstats_config *c, const struct gs_taskstats_options *o,
			     const struct gs_kernel_types *types)
{
	c->families = o->families ? o->families : GS_TASKSTATS_ALL;
	c->stripes_mask = count_stripes() - 1;
	c->all = o->all;
	c->follow = !o->no_follow;
	c->by_cgroup = o->by_cgroup;
	c->call_times = !o->no_call_times;
	c->pid_namespace = gs_pid_namespace();
	c->call_every = o->call_every ? o->call_every : 16;
	c->switch_state = point_args(types, "sched_switch") >= 4;
	c->rq_made = gs_kernel_types_point(types, REQUEST_MAKER) != NULL;
	c->uring_cqe = point_args(types, "io_uring_complete") == 3;
	gpu_majors(c, o);
	taskstats_calls_fill(c->calls);
}

static int size_maps(struct gs_taskstats_probe *p, const struct gs_taskstats_options *o)
{
	struct gs_taskstats_bpf *s = p->skeleton;
	uint32_t keys = o->max_keys ? o->max_keys : 4096;
	uint32_t cells = o->max_cells ? o->max_cells : 32768;
	int r = 0;

	/* Processes of several threads take several slots; most have one. */
	p->n_slots = keys * 2 + 1;
	p->n_cells = cells + 1;
	r |= bpf_map__set_max_entries(s->maps.gs_tasks_slots, p->n_slots);
	r |= bpf_map__set_max_entries(s->maps.gs_taskstats_slot_of, p->n_slots);
	r |= bpf_map__set_max_entries(s->maps.gs_tasks_free_slots, p->n_slots);
	r |= bpf_map__set_max_entries(s->maps.gs_tasks_cells, p->n_cells);
	r |= bpf_map__set_max_entries(s->maps.gs_taskstats_cell_of, p->n_cells);
	r |= bpf_map__set_max_entries(s->maps.gs_tasks_free_cells, p->n_cells);
	return r ? -EINVAL : 0;
}

static const void *map_read_only(struct bpf_map *map, uint32_t n, size_t *ret_bytes)
{
	void *at;

	*ret_bytes = (bpf_map__value_size(map) + 7u) & ~(size_t)7;
	at = mmap(NULL, *ret_bytes * n, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	return at == MAP_FAILED ? NULL : at;
}

int taskstats_show(struct gs_taskstats_probe *p)
{
	if (!p->slots)
		p->slots =
			map_read_only(p->skeleton->maps.gs_tasks_slots, p->n_slots, &p->slot_bytes);
	if (p->slots && !p->cells)
		p->cells =
			map_read_only(p->skeleton->maps.gs_tasks_cells, p->n_cells, &p->cell_bytes);
	return p->slots && p->cells ? 0 : -errno;
}

void gs_taskstats_probe_rest(struct gs_taskstats_probe *p)
{
	if (p->slots)
		munmap((void *)p->slots, p->slot_bytes * p->n_slots);
	if (p->cells)
		munmap((void *)p->cells, p->cell_bytes * p->n_cells);
	p->slots = p->cells = NULL;
}

static int share_maps(struct gs_taskstats_probe *p)
{
	struct gs_taskstats_bpf *s = p->skeleton;
	size_t bytes;
	int r = 0;

	p->state = map_read_only(s->maps.gs_taskstats_state, 1, &bytes);
	if (!p->state)
		return -errno;
	r = taskstats_show(p);
	if (r < 0)
		return r;
	p->slots_fd = bpf_map__fd(s->maps.gs_tasks_slots);
	p->cells_fd = bpf_map__fd(s->maps.gs_tasks_cells);
	p->slot_of_fd = bpf_map__fd(s->maps.gs_taskstats_slot_of);
	p->cell_of_fd = bpf_map__fd(s->maps.gs_taskstats_cell_of);
	p->free_slots_fd = bpf_map__fd(s->maps.gs_tasks_free_slots);
	p->free_cells_fd = bpf_map__fd(s->maps.gs_tasks_free_cells);
	p->pids_fd = bpf_map__fd(s->maps.gs_tasks_pids);
	p->groups_fd = bpf_map__fd(s->maps.gs_tasks_groups);
	p->rqs_fd = bpf_map__fd(s->maps.gs_tasks_rqs);
	p->socks_fd = bpf_map__fd(s->maps.gs_tasks_socks);
	return 0;
}

int taskstats_walk(struct gs_taskstats_probe *p)
{
	GS_CLOSE int fd = bpf_iter_create(bpf_link__fd(p->walk));
	char none[64];
	ssize_t r;

	if (fd < 0)
		return -errno;
	/* EAGAIN: the kernel wants to be asked again after very many tasks. */
	do
		r = read(fd, none, sizeof(none));
	while (r > 0 || (r < 0 && (errno == EAGAIN || errno == EINTR)));
	return r < 0 ? -errno : 0;
}

static int silence_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return gs_log_is_on(GS_LOG_TRACE, GS_LOG_ATTACH) ? vfprintf(stderr, fmt, ap) : 0;
}

static int load_programs(struct gs_taskstats_probe *p, const struct gs_taskstats_options *o,
			 const struct gs_kernel_types *types, struct gs_err *err)
{
	struct gs_taskstats_config *config =
		(struct gs_taskstats_config *)&p->skeleton->rodata->gs_taskstats_config;
	struct prog progs[WORK_MAX_LINKS];
	int n, r;

	configure_kernel(config, o, types);
	n = choose_programs(p, types, config->families, config->call_times, progs, WORK_MAX_LINKS);
	if (n < 0)
		return gs_err_set(
			err, n,
			"this kernel lacks a tracepoint of the scheduler or of system calls: boot one with CONFIG_FTRACE_SYSCALLS=y");
	r = size_maps(p, o);
	config->n_slots = p->n_slots;
	config->n_cells = p->n_cells;
	for (int i = 0; r == 0 && i < n; i++) {
		r = bpf_program__set_autoload(progs[i].prog, true);
		if (r == 0)
			r = bpf_program__set_attach_target(progs[i].prog, 0, progs[i].point);
	}
	if (r == 0)
		r = bpf_program__set_autoload(p->skeleton->progs.gs_tasks_walk, true);
	if (r == 0)
		r = gs_taskstats_bpf__load(p->skeleton);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the probes of the host: %s%s",
				  strerror(-r),
				  r == -EPERM ? " (run as root, or with CAP_BPF and CAP_PERFMON)"
					      : " (Linux 5.15 or newer is needed)");
	r = share_maps(p);
	if (r < 0)
		return gs_err_set(err, r, "cannot share the counters of the host: %s",
				  strerror(-r));
	for (int i = 0; i < n; i++) {
		struct bpf_link *link = bpf_program__attach(progs[i].prog);

		if (!link)
			return gs_err_set(err, -errno, "cannot attach to tracepoint %s: %s",
					  progs[i].point, strerror(errno));
		p->prog_fds[p->n_links] = bpf_program__fd(progs[i].prog);
		p->links[p->n_links++] = link;
	}
	p->walk = bpf_program__attach_iter(p->skeleton->progs.gs_tasks_walk, NULL);
	if (!p->walk)
		return gs_err_set(err, -errno, "the kernel refused the iterator over its tasks: %s",
				  strerror(errno));
	return 0;
}

static int follow_first(struct gs_taskstats_probe *p, const struct gs_taskstats_options *o,
			struct gs_err *err)
{
	uint32_t one = 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n_pids; i++)
		r = bpf_map_update_elem(p->pids_fd, &o->pids[i], &one, BPF_ANY);
	for (size_t i = 0; r == 0 && i < o->n_cgroups; i++)
		r = bpf_map_update_elem(p->groups_fd, &o->cgroups[i], &one, BPF_ANY);
	p->begun_ns = gs_clock_mono_ns();
	if (r == 0)
		r = taskstats_walk(p);
	p->ready_ns = gs_clock_mono_ns();
	/* By now they carry marks: an id that is given to another process later matches none. */
	for (size_t i = 0; i < o->n_pids; i++)
		bpf_map_delete_elem(p->pids_fd, &o->pids[i]);
	return r < 0 ? gs_err_set(err, r, "cannot start to track processes: %s", strerror(-r)) : 0;
}

int gs_taskstats_probe_new(const struct gs_taskstats_options *options,
			   struct gs_taskstats_probe **ret_probe, struct gs_err *err)
{
	struct gs_taskstats_options o = {0};
	struct gs_taskstats_probe *p;
	LIBBPF_OPTS(bpf_object_open_opts, opts);
	struct gs_kernel_types *types;
	const void *bytes;
	size_t n_bytes;
	int r;

	memcpy(&o, options, options->size < sizeof(o) ? options->size : sizeof(o));
	*ret_probe = NULL;
	libbpf_set_print(silence_libbpf);
	r = gs_kernel_types_new(&types);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return gs_err_set(
			err, -ENOTSUP,
			"this kernel has no type information (/sys/kernel/btf/vmlinux): boot one built with CONFIG_DEBUG_INFO_BTF=y");
	p = calloc(1, sizeof(*p));
	if (!p) {
		gs_kernel_types_free(&types);
		return -ENOMEM;
	}
	p->families = o.families ? o.families : GS_TASKSTATS_ALL;
	bytes = gs_taskstats_bpf__elf_bytes(&n_bytes);
	opts.btf_custom_path = gs_kernel_types_few(types, bytes, n_bytes);
	p->skeleton = gs_taskstats_bpf__open_opts(&opts);
	r = p->skeleton ? load_programs(p, &o, types, err) : -errno;
	gs_kernel_types_free(&types);
	if (r == 0)
		r = follow_first(p, &o, err);
	if (r < 0) {
		gs_taskstats_probe_free(p);
		return r;
	}
	*ret_probe = p;
	return 0;
}

void gs_taskstats_probe_free(struct gs_taskstats_probe *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_links; i++)
		bpf_link__destroy(p->links[i]);
	bpf_link__destroy(p->walk);
	gs_taskstats_probe_rest(p);
	if (p->state)
		munmap((void *)p->state, (sizeof(*p->state) + 7) & ~(size_t)7);
	if (p->skeleton)
		gs_taskstats_bpf__destroy(p->skeleton);
	free(p);
}

const char *gs_taskstats_probe_missing(const struct gs_taskstats_probe *p, size_t i)
{
	return i < p->n_missing ? p->missing[i] : NULL;
}
