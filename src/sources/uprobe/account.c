/*
 * The wall-clock account of threads: its programs are loaded and attached beside the others
 * (bpf/account/account.bpf.c), and what they add up is read here. Where the kernel refuses them there
 * is no account, and everything else works as without.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/shrink.h"
#include "sources/kernel_types/kernel_types.h"
#include "sources/uprobe/account_int.h"
#include "sources/uprobe/uprobe_int.h"

#include "account.skel.h"

/* Between two readings of a thread that lives on; one that makes traced calls may make steps, and what
 * became longer in them is known as finely as this. */
#define HANDOVER_NS         10000000000ull
#define HANDOVER_CALLING_NS 1000000000ull

/* Why a thread sleeps that sleeps in a system call. Calls that are not here wait for nothing that
 * has a state of its own. */
static const struct {
	uint16_t nr;
	uint8_t wait;
} waits[] = {
	{SYS_read, GS_ACCOUNT_WAIT_FD},
	{SYS_write, GS_ACCOUNT_WAIT_FD},
	{SYS_readv, GS_ACCOUNT_WAIT_FD},
	{SYS_writev, GS_ACCOUNT_WAIT_FD},
	{SYS_pread64, GS_ACCOUNT_WAIT_FD},
	{SYS_pwrite64, GS_ACCOUNT_WAIT_FD},
	{SYS_preadv, GS_ACCOUNT_WAIT_FD},
	{SYS_pwritev, GS_ACCOUNT_WAIT_FD},
	{SYS_preadv2, GS_ACCOUNT_WAIT_FD},
	{SYS_pwritev2, GS_ACCOUNT_WAIT_FD},
	{SYS_splice, GS_ACCOUNT_WAIT_FD},
	{SYS_getdents64, GS_ACCOUNT_WAIT_FD},
	{SYS_fcntl, GS_ACCOUNT_WAIT_LOCK}, /* locks of files */
	{SYS_flock, GS_ACCOUNT_WAIT_LOCK},
	{SYS_futex, GS_ACCOUNT_WAIT_LOCK},
	{449, GS_ACCOUNT_WAIT_LOCK}, /* futex_waitv, Linux 5.16 */
	{455, GS_ACCOUNT_WAIT_LOCK}, /* futex_wait, Linux 6.7 */
	{SYS_semop, GS_ACCOUNT_WAIT_LOCK},
	{SYS_semtimedop, GS_ACCOUNT_WAIT_LOCK},
	{SYS_poll, GS_ACCOUNT_WAIT_POLL},
	{SYS_ppoll, GS_ACCOUNT_WAIT_POLL},
	{SYS_select, GS_ACCOUNT_WAIT_SELECT},
	{SYS_pselect6, GS_ACCOUNT_WAIT_SELECT},
	{SYS_epoll_wait, GS_ACCOUNT_WAIT_EPOLL},
	{SYS_epoll_pwait, GS_ACCOUNT_WAIT_EPOLL},
	{441, GS_ACCOUNT_WAIT_EPOLL}, /* epoll_pwait2, Linux 5.11 */
	{SYS_nanosleep, GS_ACCOUNT_WAIT_SLEEP},
	{SYS_clock_nanosleep, GS_ACCOUNT_WAIT_SLEEP},
	{SYS_pause, GS_ACCOUNT_WAIT_SLEEP},
	{SYS_rt_sigsuspend, GS_ACCOUNT_WAIT_SLEEP},
	{SYS_rt_sigtimedwait, GS_ACCOUNT_WAIT_SLEEP},
	{SYS_restart_syscall, GS_ACCOUNT_WAIT_SLEEP}, /* mostly of nanosleep */
	{SYS_connect, GS_ACCOUNT_WAIT_NETWORK},
	/* for any client, as epoll does; what it awaits from a peer is network */
	{SYS_accept, GS_ACCOUNT_WAIT_EPOLL},
	{SYS_accept4, GS_ACCOUNT_WAIT_EPOLL},
	{SYS_sendto, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_recvfrom, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_sendmsg, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_recvmsg, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_sendmmsg, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_recvmmsg, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_sendfile, GS_ACCOUNT_WAIT_NETWORK},
	{SYS_fsync, GS_ACCOUNT_WAIT_DISK},
	{SYS_fdatasync, GS_ACCOUNT_WAIT_DISK},
	{SYS_sync, GS_ACCOUNT_WAIT_DISK},
	{SYS_syncfs, GS_ACCOUNT_WAIT_DISK},
	{SYS_sync_file_range, GS_ACCOUNT_WAIT_DISK},
	{SYS_io_getevents, GS_ACCOUNT_WAIT_DISK},
	{SYS_open, GS_ACCOUNT_WAIT_DISK},
	{SYS_openat, GS_ACCOUNT_WAIT_DISK},
	{SYS_stat, GS_ACCOUNT_WAIT_DISK},
	{SYS_lstat, GS_ACCOUNT_WAIT_DISK},
	{SYS_newfstatat, GS_ACCOUNT_WAIT_DISK},
	{SYS_rename, GS_ACCOUNT_WAIT_DISK},
	{SYS_unlink, GS_ACCOUNT_WAIT_DISK},
	{SYS_unlinkat, GS_ACCOUNT_WAIT_DISK},
	{SYS_ftruncate, GS_ACCOUNT_WAIT_DISK},
	{SYS_fallocate, GS_ACCOUNT_WAIT_DISK},
	{SYS_execve, GS_ACCOUNT_WAIT_DISK},
	{SYS_msgrcv, GS_ACCOUNT_WAIT_PIPE},
	{SYS_msgsnd, GS_ACCOUNT_WAIT_PIPE},
	{SYS_mq_timedreceive, GS_ACCOUNT_WAIT_PIPE},
	{SYS_mq_timedsend, GS_ACCOUNT_WAIT_PIPE},
	{SYS_wait4, GS_ACCOUNT_WAIT_CHILD},
	{SYS_waitid, GS_ACCOUNT_WAIT_CHILD},
	{SYS_vfork, GS_ACCOUNT_WAIT_CHILD},
	{SYS_clone, GS_ACCOUNT_WAIT_CHILD}, /* as vfork does */
	{435, GS_ACCOUNT_WAIT_CHILD},       /* clone3, Linux 5.3 */
	{SYS_mmap, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_munmap, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_mprotect, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_madvise, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_mremap, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_brk, GS_ACCOUNT_WAIT_MEMORY},
	{SYS_msync, GS_ACCOUNT_WAIT_DISK},
};

/* Does sched_switch hand over the state of the task that leaves (Linux 5.18)? */
static bool has_switch_state(const struct gs_kernel_types *types)
{
	const struct btf_type *t = gs_kernel_types_point(types, "sched_switch");

	return t && btf_vlen(t) >= 5;
}

static bool has_helper(const struct gs_kernel_types *types, const char *name)
{
	const struct btf *btf = gs_kernel_types_all(types);
	const struct btf_type *t = gs_kernel_types_find(types, "bpf_func_id", BTF_KIND_ENUM);
	const struct btf_enum *e = t ? btf_enum(t) : NULL;

	for (int i = 0; t && i < btf_vlen(t); i++)
		if (strcmp(btf__name_by_offset(btf, e[i].name_off), name) == 0)
			return true;
	return false;
}

static int fill_config(struct gs_account_config *c, const struct gs_uprobe *probe)
{
	const struct gs_kernel_types *types = probe->kernel.types;
	struct stat st;

	if (!types)
		return -ENOTSUP;
	c->switch_state = has_switch_state(types);
	c->has_regs = has_helper(types, "BPF_FUNC_task_pt_regs");
	for (size_t i = 0; i < GS_ARRAY_LEN(waits); i++)
		c->wait[waits[i].nr] = waits[i].wait;
	/* The number of a cgroup's folder is its id (fs/kernfs: 64-bit inode numbers). */
	if (probe->cgroup && !probe->cgroup_v1 && stat(probe->cgroup, &st) == 0)
		c->cgroup = st.st_ino;
	return 0;
}

/* Waits of lines come with samples of lines. */
static bool wants_waits(const struct gs_uprobe *probe)
{
	return probe->options.py_stack_at & GS_AT_SAMPLE;
}

static int load_programs(struct gs_uprobe *probe, struct gs_account_bpf *s, bool with_waits)
{
	bool python = with_waits && s->rodata->gs_account_config.has_regs;

	struct bpf_program *const programs[ACCOUNT_LINKS] = {
		s->progs.gs_account_newtask,
		s->progs.gs_account_exec,
		s->progs.gs_account_exit,
		python ? s->progs.gs_account_switch_python : s->progs.gs_account_switch,
		s->progs.gs_account_wakeup,
		s->progs.gs_account_walk};
	struct uprobe_kernel_side *k = &probe->kernel;
	int r = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(programs); i++)
		bpf_program__set_autoload(programs[i], true);
	gs_shrink_begin_reuse();
	r = gs_account_bpf__load(s);
	gs_shrink_end_reuse();
	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(programs); i++) {
		k->account_links[i] = bpf_program__attach(programs[i]);
		if (!k->account_links[i])
			r = -errno;
	}
	return r;
}

static int load_account(struct gs_uprobe *probe, const struct gs_kernel_config *config,
			const struct features *f, uint32_t ring_bytes, bool with_waits)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	LIBBPF_OPTS(bpf_object_open_opts, opts);
	struct gs_account_bpf *s;
	const void *bytes;
	size_t n_bytes;
	int r;

	bytes = gs_account_bpf__elf_bytes(&n_bytes);
	opts.btf_custom_path = gs_kernel_types_few(k->types, bytes, n_bytes);
	s = gs_account_bpf__open_opts(&opts);
	if (!s)
		return -errno;
	k->account = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	r = fill_config((struct gs_account_config *)&s->rodata->gs_account_config, probe);
	if (r == 0)
		r = uprobe_kernel_share_maps(k, s->obj, f, config, ring_bytes);
	if (r == 0)
		r = load_programs(probe, s, with_waits);
	if (r == 0) {
		k->accounts =
			mmap(NULL, GS_ACCOUNT_MAX * sizeof(*k->accounts), PROT_READ | PROT_WRITE,
			     MAP_SHARED, bpf_map__fd(s->maps.gs_accounts), 0);
		if (k->accounts == MAP_FAILED) {
			k->accounts = NULL;
			r = -errno;
		}
	}
	if (r == 0) {
		probe->account_handed_ns = calloc(GS_ACCOUNT_MAX, sizeof(uint64_t));
		r = probe->account_handed_ns ? 0 : -ENOMEM;
	}
	if (r < 0)
		uprobe_account_unload(k);
	return r;
}

/* A kernel that refuses the program that reads stacks gives an account without lines that wait. */
int uprobe_account_load(struct gs_uprobe *probe, const struct gs_kernel_config *config,
			const struct features *f, uint32_t ring_bytes)
{
	int r = load_account(probe, config, f, ring_bytes, wants_waits(probe));

	if (r == 0 || !wants_waits(probe))
		return r;
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "the kernel refused the program for waits of Python lines: %s", strerror(-r));
	return load_account(probe, config, f, ring_bytes, false);
}

void uprobe_account_unload(struct uprobe_kernel_side *k)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(k->account_links); i++) {
		bpf_link__destroy(k->account_links[i]);
		k->account_links[i] = NULL;
	}
	if (k->accounts)
		munmap(k->accounts, GS_ACCOUNT_MAX * sizeof(*k->accounts));
	k->accounts = NULL;
	gs_account_bpf__destroy(k->account);
	k->account = NULL;
}

/* The last link is that of the walk. */
void uprobe_account_walk(struct gs_uprobe *probe)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	GS_CLOSE int fd = -1;
	char none[64];
	ssize_t r;

	if (!k->accounts)
		return;
	fd = bpf_iter_create(bpf_link__fd(k->account_links[ACCOUNT_LINKS - 1]));
	if (fd < 0)
		return;
	/* EAGAIN: the kernel wants to be asked again after very many tasks. */
	do
		r = read(fd, none, sizeof(none));
	while (r > 0 || (r < 0 && (errno == EAGAIN || errno == EINTR)));
}

void uprobe_account_rescan(struct gs_uprobe *probe)
{
	const struct gs_uprobe_options *o = &probe->options;

	/* Others come into the choice by what they become, which no tracepoint shows. */
	if (probe->account_stale || o->all || o->uid >= 0 || o->comm || o->cgroup)
		uprobe_account_walk(probe);
	probe->account_stale = false;
}

/* A copy that is whole: the kernel side did not change it meanwhile. */
static bool copy_account(const struct gs_account *a, struct gs_account *ret)
{
	for (int i = 0; i < 16; i++) {
		uint32_t sequence = __atomic_load_n(&a->sequence, __ATOMIC_ACQUIRE);

		memcpy(ret, (const void *)a, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(sequence & 1) && __atomic_load_n(&a->sequence, __ATOMIC_ACQUIRE) == sequence)
			return true;
	}
	return false;
}

/* How long the outermost call of the thread, and its outermost operator, have been open. */
static void open_times(const struct gs_uprobe *probe, const struct gs_account *a, uint64_t now_ns,
		       uint64_t open_ns[GS_INSIDE_COUNT])
{
	const struct gs_thread *t = uprobe_thread_is_mapped(&probe->kernel, a->thread)
					    ? &probe->kernel.threads[a->thread]
					    : NULL;
	uint32_t span_first = probe->selection.span_first, scopes;
	uint64_t call_ns = 0;

	memset(open_ns, 0, GS_INSIDE_COUNT * sizeof(*open_ns));
	if (!t || t->tid != a->tid || t->ended)
		return;
	if (t->depth && t->frame[0].inside < GS_INSIDE_COUNT && t->frame[0].start_ns &&
	    t->frame[0].start_ns < now_ns) {
		call_ns = now_ns - t->frame[0].start_ns;
		open_ns[t->frame[0].inside] = call_ns;
	}
	scopes = t->scope_depth < GS_SCOPE_MAX ? t->scope_depth : GS_SCOPE_MAX;
	for (uint32_t i = 0; i < scopes; i++) {
		const struct gs_scope *s = &t->scope[i];

		if (s->layer != GS_LAYER_TORCH || gs_is_span(s->func, span_first) || !s->start_ns ||
		    s->start_ns >= now_ns)
			continue;
		open_ns[GS_INSIDE_OPERATOR] = now_ns - s->start_ns;
		open_ns[GS_INSIDE_OPERATOR] -= call_ns < open_ns[GS_INSIDE_OPERATOR] ? call_ns : 0;
		return;
	}
}

static void hand_over_wait(const struct gs_uprobe_handler *h, const struct gs_account *a,
			   uint32_t stack, uint32_t cause, uint64_t wait_ns, uint64_t now_ns)
{
	const struct gs_event_wait e = {.head = {.kind = GS_EV_WAIT, .bytes = sizeof(e)},
					.time_ns = now_ns,
					.wait_ns = wait_ns,
					.pid = a->pid,
					.tid = a->tid,
					.py_stack = stack,
					.cause = cause};

	if (wait_ns)
		h->event(h->ctx, &e.head);
}

/* What a thread of Python still waits for at the end, and what was added up of it and not sent. */
static void hand_over_waits(const struct gs_uprobe_handler *h, const struct gs_account *a,
			    uint64_t now_ns)
{
	uint64_t since = a->wait_since_ns, woken = a->wait_woken_ns;
	uint64_t bare_ns[2] = {a->wait_bare_ns[0], a->wait_bare_ns[1]};

	if (!a->wait_is_python)
		return;
	if (!a->ended && since && since < now_ns) {
		if (!a->wait_stack)
			bare_ns[a->wait_cause == GS_WAIT_MANY] += now_ns - since;
		else if (woken > since && woken < now_ns) {
			hand_over_wait(h, a, a->wait_stack, a->wait_cause, woken - since, now_ns);
			hand_over_wait(h, a, a->wait_stack, GS_STATE_RUNQUEUE, now_ns - woken,
				       now_ns);
		} else {
			hand_over_wait(h, a, a->wait_stack, a->wait_cause, now_ns - since, now_ns);
		}
	}
	hand_over_wait(h, a, 0, GS_WAIT_BARE, bare_ns[0], now_ns);
	hand_over_wait(h, a, 0, GS_WAIT_MANY, bare_ns[1], now_ns);
}

/* Its process launched work on a GPU for the first time since the last look. */
static bool has_just_launched(const struct gs_uprobe *probe, uint32_t pid)
{
	for (unsigned i = probe->n_launched_handed; i < probe->n_launched; i++)
		if (probe->launched[i] == pid)
			return true;
	return false;
}

static void hand_over(struct gs_uprobe *probe, const struct gs_uprobe_handler *h, uint32_t slot,
		      uint64_t now_ns, bool is_last)
{
	const struct gs_account *a = &probe->kernel.accounts[slot];
	struct gs_account_reading reading;
	uint64_t open_ns[GS_INSIDE_COUNT];
	struct gs_account copy;

	/* A thread that switches without end is read next time; at the end none does. */
	if (!copy_account(a, &copy) && !probe->kernel.state->stopped)
		return;
	if (!copy.pid || copy.pid == (uint32_t)getpid())
		return;
	open_times(probe, &copy, now_ns, open_ns);
	gs_account_settle(&copy, now_ns, open_ns, &reading);
	reading.at_launch = has_just_launched(probe, copy.pid);
	h->account(h->ctx, &reading);
	if (is_last)
		hand_over_waits(h, &copy, now_ns);
	probe->account_handed_ns[slot] = now_ns;
}

bool gs_uprobe_gpu_wait(const struct gs_uprobe *probe, uint64_t *ret_wait_ns, uint64_t *ret_wall_ns)
{
	const struct uprobe_kernel_side *k = &probe->kernel;
	uint64_t now_ns = gs_clock_mono_ns(), open_ns[GS_INSIDE_COUNT], part_ns[GS_PART_COUNT];
	uint32_t n = k->accounts ? __atomic_load_n(&k->state->n_accounts, __ATOMIC_ACQUIRE) + 1 : 0;
	struct gs_account_reading reading;
	struct gs_account copy;

	*ret_wait_ns = *ret_wall_ns = 0;
	for (uint32_t i = 1; i < n && i < GS_ACCOUNT_MAX; i++) {
		uint64_t wall_ns;

		if (!copy_account(&k->accounts[i], &copy) || !copy.pid || copy.ended)
			continue;
		open_times(probe, &copy, now_ns, open_ns);
		gs_account_settle(&copy, now_ns, open_ns, &reading);
		wall_ns = gs_account_parts(reading.time_ns, part_ns);
		if (part_ns[GS_PART_GPU_WAIT] <= *ret_wait_ns)
			continue;
		*ret_wait_ns = part_ns[GS_PART_GPU_WAIT];
		*ret_wall_ns = wall_ns;
	}
	return *ret_wait_ns > 0;
}

static void free_account(struct gs_uprobe *probe, uint32_t slot)
{
	memset(&probe->kernel.accounts[slot], 0, sizeof(struct gs_account));
	probe->account_handed_ns[slot] = 0;
	bpf_map_update_elem(bpf_map__fd(probe->kernel.account->maps.gs_free_accounts), NULL, &slot,
			    BPF_ANY);
}

void uprobe_account_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *h, bool last)
{
	struct uprobe_kernel_side *k = &probe->kernel;
	uint64_t now_ns = gs_clock_mono_ns();
	uint32_t n;

	if (!k->accounts || !h->account)
		return;
	n = __atomic_load_n(&k->state->n_accounts, __ATOMIC_ACQUIRE) + 1;
	for (uint32_t i = 1; i < n && i < GS_ACCOUNT_MAX; i++) {
		const struct gs_account *a = &k->accounts[i];
		bool ended = __atomic_load_n(&a->ended, __ATOMIC_ACQUIRE);
		uint64_t since_ns =
			probe->account_handed_ns[i] ? probe->account_handed_ns[i] : a->born_ns;

		if (!a->pid)
			continue;
		if (ended || last ||
		    now_ns > since_ns + (a->thread ? HANDOVER_CALLING_NS : HANDOVER_NS) ||
		    has_just_launched(probe, a->pid))
			hand_over(probe, h, i, now_ns, ended || last);
		if (ended)
			free_account(probe, i);
	}
	probe->n_launched_handed = probe->n_launched;
}
