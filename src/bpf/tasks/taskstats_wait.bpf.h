/*
 * What an open file is, and what a thread that goes to sleep waits for. Both are asked of the
 * kernel's structures at the moment itself; the registers that a thread entered the kernel with
 * (system call and arguments) stand at the end of its stack, so no probe at the call's entry is
 * needed for this.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_WAIT_BPF_H
#define GS_BPF_TASKS_TASKSTATS_WAIT_BPF_H

#include "taskstats_maps.bpf.h"

GS_ALONE __u64 file_of_fd(__u64 task, __u32 fd)
{
	struct task_struct *p = (void *)task;
	struct fdtable *t = BPF_CORE_READ(p, files, fdt);
	struct file **fds, *f = NULL;

	if (!t || fd >= BPF_CORE_READ(t, max_fds))
		return 0;
	fds = BPF_CORE_READ(t, fd);
	bpf_probe_read_kernel(&f, sizeof(f), fds + fd);
	return (__u64)f;
}

/* Numbers of statfs(2) and include/uapi/linux/magic.h. */
static __always_inline __u8 io_of_magic(__u64 magic)
{
	switch ((__u32)magic) {
	case 0x01021994: /* tmpfs */
	case 0x858458f6: /* ramfs */
	case 0x958458f6: /* hugetlbfs */
		return GS_IO_TMPFS;
	case 0x6969:     /* NFS */
	case 0x0bd00bd0: /* Lustre */
	case 0xff534d42: /* CIFS */
	case 0xfe534d42: /* SMB2 */
	case 0x00c36400: /* Ceph */
	case 0x47504653: /* GPFS */
	case 0x19830326: /* BeeGFS */
	case 0x65735546: /* FUSE, virtiofs */
	case 0x5346414f: /* AFS */
	case 0x01021997: /* 9p */
	case 0xaad7aaea: /* PanFS */
	case 0x01161970: /* GFS2 */
	case 0x7461636f: /* OCFS2 */
	case 0x20030528: /* OrangeFS */
		return GS_IO_NETFILE;
	case 0x9fa0:     /* proc */
	case 0x62656572: /* sysfs */
	case 0x27e0eb:   /* cgroup */
	case 0x63677270: /* cgroup2 */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
	case 0xcafe4a11: /* bpf */
	case 0x73636673: /* securityfs */
	case 0x09041934: /* anonymous inodes */
		return GS_IO_OTHER;
	}
	return GS_IO_FILE;
}

static __always_inline bool is_gpu(__u32 major)
{
	for (int i = 0; i < GS_TASKSTATS_GPU_MAJORS; i++) {
		if (i < gs_taskstats_config.n_gpu_majors &&
		    gs_taskstats_config.gpu_majors[i] == major)
			return true;
	}
	return false;
}

/* eventfd and timerfd have no type but their name. */
static __always_inline __u8 wait_of_anonymous(struct file *f)
{
	char name[10] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(f, f_path.dentry, d_name.name));
	if (name[1] == 't' && name[2] == 'i' && name[3] == 'm')
		return GS_TIME_SLEEP;
	if (name[1] == 'e' && name[2] == 'v' && name[6] == 'f')
		return GS_TIME_PIPE;
	return GS_TIME_OTHER;
}

static __always_inline void classify_socket(struct file_look *l, struct file *f)
{
	struct socket *socket = BPF_CORE_READ(f, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	l->io = GS_IO_SOCKET;
	l->wait = GS_TIME_NETWORK;
	/* 1, 16, 38: AF_UNIX, AF_NETLINK, AF_ALG stay in the machine. */
	if (family == 1 || family == 16 || family == 38)
		return;
	l->sk = (__u64)sk;
	l->tcp = (family == AF_INET || family == AF_INET6) &&
		 BPF_CORE_READ(sk, sk_protocol) == PROTO_TCP;
}

static __noinline int classify_file(struct file_look *l, __u64 file)
{
	struct file *f = (void *)file;
	struct inode *inode = BPF_CORE_READ(f, f_inode);
	__u16 mode;
	__u64 magic;
	__u32 rdev;

	if (l->file == file && l->inode == (__u64)inode)
		return 0;
	mode = BPF_CORE_READ(inode, i_mode);
	magic = BPF_CORE_READ(inode, i_sb, s_magic);
	l->file = file;
	l->inode = (__u64)inode;
	l->sk = 0;
	l->tcp = 0;
	l->on_fs = 0;
	l->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	l->io = GS_IO_OTHER;
	l->wait = GS_TIME_OTHER;
	if (magic == 0x09041934) {
		l->wait = wait_of_anonymous(f);
		return 1;
	}
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
		l->io = io_of_magic(magic);
		l->on_fs = 1;
		l->wait = l->io == GS_IO_OTHER ? GS_TIME_OTHER : GS_TIME_DISK;
		break;
	case S_IFIFO:
		l->io = GS_IO_PIPE;
		l->wait = GS_TIME_PIPE;
		break;
	case S_IFSOCK:
		classify_socket(l, f);
		break;
	case S_IFBLK:
		l->io = GS_IO_DEVICE;
		l->wait = GS_TIME_DISK;
		break;
	case S_IFCHR:
		rdev = DEV_MAJOR(BPF_CORE_READ(inode, i_rdev));
		l->io = GS_IO_DEVICE;
		/* Documentation/admin-guide/devices.txt: 4, 5 terminals, 136 to 143 pseudo ones */
		if (rdev == 4 || rdev == 5 || (rdev >= 136 && rdev <= 143)) {
			l->io = GS_IO_TTY;
			l->wait = GS_TIME_PIPE;
		}
		if (is_gpu(rdev))
			l->wait = GS_TIME_GPU;
		break;
	}
	return 1;
}

GS_ALONE __u32 wait_of_file(__u64 file)
{
	struct file_look l = {};

	if (!file)
		return GS_TIME_OTHER;
	classify_file(&l, file);
	return l.wait;
}

/* The most telling of several files: a GPU or a socket is why one polls, not the wake-up pipe. */
static __always_inline __u8 stronger_wait(__u8 a, __u8 b)
{
	if (a == GS_TIME_GPU || b == GS_TIME_GPU)
		return GS_TIME_GPU;
	if (a == GS_TIME_NETWORK || b == GS_TIME_NETWORK)
		return GS_TIME_NETWORK;
	if (a == GS_TIME_PIPE || b == GS_TIME_PIPE)
		return GS_TIME_PIPE;
	return a == GS_TIME_OTHER ? b : a;
}

/* The first files of a poll show what is waited for; none: a sleep. */
GS_ALONE __u32 wait_of_poll(__u64 p, __u64 fds, __u64 n)
{
	__u8 r = GS_TIME_OTHER;

	if (n == 0)
		return GS_TIME_SLEEP;
	for (int i = 0; i < 4 && i < n; i++) {
		struct {
			int fd;
			__u32 events;
		} one = {-1};

		if (bpf_probe_read_user(&one, sizeof(one), (void *)(fds + 8 * i)))
			break;
		if (one.fd >= 0)
			r = stronger_wait(r, wait_of_file(file_of_fd(p, one.fd)));
	}
	return r;
}

GS_ALONE __u32 wait_of_select(__u64 p, __u64 n, __u64 set)
{
	__u64 word = 0;

	if (n == 0 || !set)
		return n == 0 ? GS_TIME_SLEEP : GS_TIME_OTHER;
	for (int i = 0; i < 4 && i * 64 < n; i++) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)(set + 8 * i)))
			break;
		if (word)
			return wait_of_file(file_of_fd(p, i * 64 + gs_log2_u64(word)));
	}
	return GS_TIME_OTHER;
}

static __always_inline __u8 wait_of_item(struct rb_node *n)
{
	return n ? wait_of_file((__u64)BPF_CORE_READ((struct epitem *)n, ffd.file)) : GS_TIME_OTHER;
}

/* Three files of the tree that an epoll descriptor holds. */
GS_ALONE __u32 wait_of_epoll(__u64 p, __u32 fd)
{
	struct file *f = (void *)file_of_fd(p, fd);
	struct eventpoll *ep = BPF_CORE_READ(f, private_data);
	struct rb_node *top = BPF_CORE_READ(ep, rbr.rb_root.rb_node);
	__u8 r;

	if (!f || !ep)
		return GS_TIME_OTHER;
	if (!top)
		return GS_TIME_SLEEP;
	r = wait_of_item(top);
	r = stronger_wait(r, wait_of_item(BPF_CORE_READ(top, rb_left)));
	return stronger_wait(r, wait_of_item(BPF_CORE_READ(top, rb_right)));
}

struct call {     /* a system call and its first arguments */
	__u32 id; /* GS_TASKSTATS_CALL() */
	__u64 arg[4];
};

static __always_inline void call_read(struct call *c, struct task_struct *p, struct pt_regs *regs)
{
	__u64 nr = regs->orig_ax;

	if (p->thread_info.status & TS_COMPAT) {
		c->id = GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_32, (__u32)nr);
		c->arg[0] = (__u32)regs->bx;
		c->arg[1] = (__u32)regs->cx;
		c->arg[2] = (__u32)regs->dx;
		c->arg[3] = (__u32)regs->si;
		return;
	}
	/* Bit 30 marks a call of the x32 numbering (asm/unistd.h). */
	c->id = GS_TASKSTATS_CALL(nr & 0x40000000 ? GS_TASKSTATS_ABI_X32 : GS_TASKSTATS_ABI_64,
				  nr & 0xffff);
	c->arg[0] = regs->di;
	c->arg[1] = regs->si;
	c->arg[2] = regs->dx;
	c->arg[3] = regs->r10;
}

static __always_inline const volatile struct gs_taskstats_call_desc *call_desc(__u32 id)
{
	__u32 abi = GS_TASKSTATS_CALL_ABI(id), nr = GS_TASKSTATS_CALL_NR(id);

	if (abi == GS_TASKSTATS_ABI_X32)
		abi = GS_TASKSTATS_ABI_64;
	if (abi > GS_TASKSTATS_ABI_32 || nr >= GS_TASKSTATS_TABLE_CALLS)
		return NULL;
	return &gs_taskstats_config.calls[abi][nr];
}

/* The same of a descriptor whose file the thread may have used a moment ago. */
static __always_inline __u8 wait_of_known(struct work_mark *m, __u32 fd, __u64 file)
{
	struct file_look *l;

	if (!file)
		return GS_TIME_OTHER;
	if (!m)
		return wait_of_file(file);
	l = &m->files[fd & (GS_LOOK_CACHE - 1)].look;
	if (l->file == file && l->inode == (__u64)BPF_CORE_READ((struct file *)file, f_inode))
		return l->wait;
	return wait_of_file(file);
}

/* Why a followed thread that leaves its processor in this state does. */
static __noinline __u8 wait_of_task(struct task_struct *p, __u64 state, struct work_mark *m)
{
	bool blocked = state & TASK_UNINTERRUPTIBLE;
	bool io = BPF_CORE_READ_BITFIELD_PROBED(p, in_iowait);
	const volatile struct gs_taskstats_call_desc *d;
	__u8 r = GS_TIME_OTHER;
	struct pt_regs *regs;
	struct call c;

	if (state & TASK_STOPPED_OR_TRACED)
		return GS_TIME_OTHER;
	regs = (void *)bpf_task_pt_regs(p);
	/* Not in a system call: a page fault. What waits for a page says so by iowait; the rest
	 * is the lock of the memory map. */
	if ((long)regs->orig_ax < 0)
		return io ? GS_TIME_DISK : blocked ? GS_TIME_LOCK : GS_TIME_OTHER;
	call_read(&c, p, regs);
	d = call_desc(c.id);
	if (!d)
		return io || blocked ? GS_TIME_DISK : GS_TIME_OTHER;
	if (d->wait == GS_WAIT_URING)
		return m ? m->uring_wait : GS_TIME_OTHER;
	if (io)
		return GS_TIME_DISK;
	switch (d->wait) {
	case GS_WAIT_FD0:
		r = wait_of_known(m, c.arg[0], file_of_fd(number_of(p), c.arg[0]));
		break;
	case GS_WAIT_NETWORK:
		return GS_TIME_NETWORK;
	case GS_WAIT_LOCK:
		return GS_TIME_LOCK;
	case GS_WAIT_SLEEP:
		return GS_TIME_SLEEP;
	case GS_WAIT_PIPE:
		return GS_TIME_PIPE;
	case GS_WAIT_DISK:
		return GS_TIME_DISK;
	case GS_WAIT_POLL:
		/* Without a mark this is another process's array, which cannot be read here. */
		if (!m && c.arg[1])
			return GS_TIME_OTHER;
		return wait_of_poll(number_of(p), c.arg[0], c.arg[1]);
	case GS_WAIT_SELECT:
		if (!m && c.arg[0])
			return GS_TIME_OTHER;
		return wait_of_select(number_of(p), c.arg[0], c.arg[1]);
	case GS_WAIT_EPOLL:
		return wait_of_epoll(number_of(p), c.arg[0]);
	case GS_WAIT_MAP:
		return blocked ? GS_TIME_LOCK : GS_TIME_OTHER;
	default:
		break;
	}
	return r == GS_TIME_OTHER && blocked ? GS_TIME_DISK : r;
}

#endif
