/*
 * System calls and operations of io_uring: counts, errors, times, and the bytes that they returned.
 * The entry notes the time only; all the rest is read at the exit from the saved registers. Reading
 * the clock twice and finding the thread's own memory are most of the cost of a call that does not
 * sleep: so one in some of those is timed, and the processor remembers who is on it.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_CALL_BPF_H
#define GS_BPF_TASKS_TASKSTATS_CALL_BPF_H

#include "taskstats_net.bpf.h"
#include "taskstats_wait.bpf.h"

#define IS_ERROR(r) ((unsigned long)(r) >= -4095UL) /* include/linux/err.h */

/* weight: how many calls this time stands for; 0: it was not timed. */
GS_ALONE int count_call(__u32 cell, long result, __u64 took, __u32 weight)
{
	struct gs_taskstats_cell *c = cell_get(cell);

	if (!c || !cell)
		return 0;
	add(c->call.calls, 1);
	if (IS_ERROR(result))
		add(c->call.errors, 1);
	if (!weight)
		return 0;
	add(c->call.timed, 1);
	if (weight == 1) {
		add(c->call.total_ns, took);
	} else {
		add(c->call.sampled, 1);
		add(c->call.sampled_ns, took);
	}
	__sync_fetch_and_add(&c->call.hist[bucket_of(took)], weight);
	if (took > c->call.max_ns)
		c->call.max_ns = took;
	return 0;
}

static __always_inline __u32 call_cell(__u32 slot, __u32 id)
{
	return cell_find(IN_TABLE(slot, GS_TABLE_CALL), id, 0, 0);
}

static __always_inline __u32 call_cell_of(struct work_hot *h, __u32 slot, __u32 id)
{
	__u32 i = id & (GS_CALL_CACHE - 1);

	if (h->of != slot) {
		__builtin_memset(h->call_cell, 0, sizeof(h->call_cell));
		h->of = slot;
	}
	/* Id 0 (read) in an empty place has cell 0, which no row has. */
	if (h->call_id[i] != id || !h->call_cell[i]) {
		h->call_cell[i] = call_cell(slot, id);
		h->call_id[i] = id;
	}
	return h->call_cell[i];
}

static __always_inline bool call_is_known(const struct work_hot *h, __u32 id)
{
	__u32 i = id & (GS_CALL_CACHE - 1);

	return h->of == h->slot && h->call_id[i] == id && h->call_cell[i];
}

static __always_inline void add_io(struct gs_taskstats_io_count *io, bool write, long result,
				   __u64 took)
{
	if (write)
		add(io->writes, 1);
	else
		add(io->reads, 1);
	add(io->total_ns, took);
	if (IS_ERROR(result))
		add(io->errors, 1);
	else if (write)
		add(io->write_bytes, result);
	else
		add(io->read_bytes, result);
}

static __always_inline __u32 mount_cell(__u32 slot, const struct file_look *l)
{
	return cell_find(IN_TABLE(slot, GS_TABLE_MOUNT), l->dev, l->io, 0);
}

/* One transfer on a file that was looked at, with the rows of its mount and of its peer. */
static __always_inline void count_io(struct gs_taskstats_slot *s, struct file_look *l, __u32 mount,
				     __u32 peer, bool write, long result, __u64 took)
{
	struct gs_taskstats_cell *c;

	if (wants_family(GS_TASKSTATS_IO) && l->io < GS_TASKSTATS_IO_KINDS) {
		add_io(&s->work.io[l->io], write, result, took);
		c = cell_get(mount);
		if (c && mount)
			add_io(&c->mount.io, write, result, took);
	}
	if (wants_family(GS_TASKSTATS_NET) && l->sk && !IS_ERROR(result))
		count_net(s, l, peer, write, result);
}

GS_ALONE int count_fd(__u32 fd, __u32 write, long result, __u64 took)
{
	struct task_struct *p = bpf_get_current_task_btf();
	__u64 file = file_of_task_fd(p, fd);
	struct work_mark *m = mark_of(p);
	struct gs_taskstats_slot *s = m ? slot_get(m->slot) : NULL;
	struct known_file *k;

	if (!m || !s || !file)
		return 0;
	k = &m->files[fd & (GS_LOOK_CACHE - 1)];
	if (classify_file(&k->look, file)) {
		k->mount_cell = k->look.on_fs && wants_family(GS_TASKSTATS_IO)
					? mount_cell(m->slot, &k->look)
					: 0;
		k->peer_cell = 0;
	}
	/* Asked again while there is none: a UDP socket gets its peer late. */
	if (k->look.sk && !k->peer_cell && wants_family(GS_TASKSTATS_NET))
		k->peer_cell = peer_of_used(k->look.sk, m->slot, k->look.tcp);
	count_io(s, &k->look, k->mount_cell, k->peer_cell, write, result, took);
	return 0;
}

/*
 * Long loops are loops of a function of their own with a short loop: the verifier walks that one
 * once, and compares each round of a loop with all rounds before it.
 */
#define ROUNDS_EACH 32

#define UNREADABLE (1ull << 63)

/* Bytes of some messages: struct mmsghdr ends with its length, at byte 56 of 64, or 28 of 32 in a
 * 32-bit program (include/linux/socket.h). UNREADABLE is set when the program's memory ended. */
GS_ALONE __u64 sum_some_messages(__u64 at, __u64 n, __u32 small)
{
	__u32 each = small ? 32 : 64, off = small ? 28 : 56, bytes = 0;
	__u64 sum = 0;

	for (__u32 i = 0; i < ROUNDS_EACH && i < n; i++) {
		if (bpf_probe_read_user(&bytes, sizeof(bytes), (void *)(at + i * each + off)))
			return sum | UNREADABLE;
		sum += bytes;
	}
	return sum;
}

/* Bytes of the messages that recvmmsg and sendmmsg handled. */
GS_ALONE long sum_messages(__u64 at, __u64 n, __u32 small)
{
	__u64 sum = 0, some;

	for (__u32 i = 0; i < 1024 && i < n; i += ROUNDS_EACH) { /* UIO_MAXIOV */
		some = sum_some_messages(at + i * (small ? 32 : 64), n - i, small);
		sum += some & ~UNREADABLE;
		if (some & UNREADABLE)
			break;
	}
	return sum;
}

#define AIO_EVENTS 512 /* of one call; libaio's users ask for fewer */

struct aio_event { /* struct io_event of linux/aio_abi.h, the same for 32-bit programs */
	__u64 data, block;
	__s64 result, result2;
};

struct aio_block { /* how a struct iocb of linux/aio_abi.h begins */
	__u64 data, key;
	__u16 opcode;
	__s16 priority;
	__u32 fd;
};

/* An operation of libaio that has ended, with the description that the program gave of it: bytes as
 * returned. When it began is not known. */
GS_ALONE int count_one_aio(__u64 event)
{
	struct aio_event e = {};
	struct aio_block b = {};

	if (bpf_probe_read_user(&e, sizeof(e), (void *)event) ||
	    bpf_probe_read_user(&b, sizeof(b), (void *)e.block)) {
		work_lose(GS_TASKSTATS_LOST_AIO);
		return 0;
	}
	/* enum of linux/aio_abi.h: PREAD 0, PWRITE 1, PREADV 7, PWRITEV 8 */
	if (b.opcode == 0 || b.opcode == 7)
		count_fd(b.fd, false, e.result, 0);
	else if (b.opcode == 1 || b.opcode == 8)
		count_fd(b.fd, true, e.result, 0);
	return 0;
}

GS_ALONE int count_some_aio(__u64 events, __u64 n)
{
	for (__u32 i = 0; i < ROUNDS_EACH && i < n; i++)
		count_one_aio(events + i * sizeof(struct aio_event));
	return 0;
}

GS_ALONE int count_aio(__u64 events, __u64 n)
{
	for (__u32 i = 0; i < AIO_EVENTS && i < n; i += ROUNDS_EACH)
		count_some_aio(events + i * sizeof(struct aio_event), n - i);
	if (n > AIO_EVENTS)
		work_lose_many(GS_TASKSTATS_LOST_AIO, n - AIO_EVENTS);
	return 0;
}

static __always_inline int count_op(__u32 slot, struct call *c, __u8 op, long result, __u64 took)
{
	struct gs_taskstats_slot *s;
	struct file_look l = {};
	__u64 file;

	switch (op) {
	case GS_OP_READ:
	case GS_OP_WRITE:
		return count_fd(c->arg[0], op == GS_OP_WRITE, result, took);
	case GS_OP_READ_MANY:
	case GS_OP_WRITE_MANY:
		if (result > 0)
			result = sum_messages(c->arg[1], result,
					      GS_TASKSTATS_CALL_ABI(c->id) == GS_TASKSTATS_ABI_32);
		return count_fd(c->arg[0], op == GS_OP_WRITE_MANY, result, took);
	case GS_OP_SENDFILE:
		count_fd(c->arg[1], false, result, 0);
		return count_fd(c->arg[0], true, result, took);
	case GS_OP_COPY:
		count_fd(c->arg[0], false, result, 0);
		return count_fd(c->arg[2], true, result, took);
	case GS_OP_AIO:
		return result > 0 ? count_aio(c->arg[3], result) : 0;
	case GS_OP_ACCEPT:
		s = slot_get(slot);
		file = IS_ERROR(result) ? 0 : file_of_fd(bpf_get_current_task(), result);
		if (!s || !file || !wants_family(GS_TASKSTATS_NET))
			return 0;
		classify_file(&l, file);
		count_accept(s, slot, &l);
	}
	return 0;
}

/* What this processor remembers of the thread on it, as long as it has been there: true. Else it
 * begins again. */
static __always_inline bool hot_is(struct work_hot *h, __u64 task)
{
	return h->task == task && h->made == gs_tasks_made;
}

/* made: marks_made() from before the thread was looked up. Were it read after, a thread that comes to
 * be followed in between would pass for one that is not, until it leaves its processor. */
static __always_inline void warm_call(struct work_hot *h, __u64 task, const struct work_mark *m,
				      __u32 made)
{
	h->made = made;
	h->slot = m ? m->slot : 0;
	h->enter_ns = 0;
	h->task = task;
}

/* Is this call to be timed? Which one is left to chance, or a loop of as many calls as the gap
 * would show one of them only. */
static __always_inline bool is_chosen(struct work_hot *h)
{
	__u32 every = gs_taskstats_config.call_every;

	if (h->gap) {
		h->gap--;
		return false;
	}
	h->random = h->random * 1103515245 + 12345; /* as rand(3) may be */
	h->gap = (h->random >> 16) % (2 * every - 1);
	return true;
}

static __always_inline __u32 id_of(struct task_struct *p, __u64 nr)
{
	if (p->thread_info.status & TS_COMPAT)
		return GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_32, (__u32)nr);
	/* Bit 30 marks a call of the x32 numbering (asm/unistd.h). */
	return GS_TASKSTATS_CALL(nr & 0x40000000 ? GS_TASKSTATS_ABI_X32 : GS_TASKSTATS_ABI_64,
				 nr & 0xffff);
}

static __always_inline bool moves_bytes(__u32 id)
{
	const volatile struct gs_taskstats_call_desc *d;

	if (!wants_family(GS_TASKSTATS_IO | GS_TASKSTATS_NET))
		return false;
	d = call_desc(id);
	return d && d->op != GS_OP_NONE;
}

SEC("?tp_btf/sys_enter")
int gs_tasks_sys_enter(__u64 *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct work_hot *h = hot_here();
	__u64 task = (__u64)p;
	struct work_mark *m;
	__u32 id, made;

	if (!h)
		return 0;
	if (!hot_is(h, task)) {
		made = marks_made();
		m = mark_of(p);
		warm_call(h, task, m, made);
		if (m)
			m->away_ns = 0;
		/* It has just come here, as those do that sleep in their calls: worth a time. */
		h->weight = 1;
		if (m)
			h->enter_ns = bpf_ktime_get_ns();
		return 0;
	}
	if (!h->slot)
		return 0;
	id = id_of(p, ctx[1]);
	h->enter_ns = 0;
	if (!call_is_known(h, id) || moves_bytes(id)) {
		h->weight = 1;
		h->enter_ns = bpf_ktime_get_ns();
	} else if (is_chosen(h)) {
		h->weight = gs_taskstats_config.call_every;
		h->enter_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* The time of a call that its thread left the processor in. Where it did not know that it was to be
 * timed, its time away is nearly all of it. */
static __noinline __u64 time_away(struct work_mark *m)
{
	__u64 took = m->enter_ns ? bpf_ktime_get_ns() - m->enter_ns : m->away_ns;

	m->enter_ns = 0;
	m->away_ns = 0;
	return took;
}

SEC("?tp_btf/sys_exit")
int gs_tasks_sys_exit(__u64 *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	__u64 task = (__u64)p, took = 0;
	struct pt_regs *regs = (void *)ctx[0];
	const volatile struct gs_taskstats_call_desc *d;
	struct work_hot *h = hot_here();
	struct work_mark *m;
	long result = (long)ctx[1];
	__u32 weight = 0, id, made;
	struct call c;

	if (!h)
		return 0;
	if (!hot_is(h, task)) {
		made = marks_made();
		m = mark_of(p);
		warm_call(h, task, m, made);
		if (!m)
			return 0;
		if (m->newborn) {
			m->newborn = 0;
			m->enter_ns = 0;
			return 0;
		}
		if (gs_taskstats_config.call_times) {
			took = time_away(m);
			weight = took ? 1 : 0;
		}
	} else if (!h->slot) {
		return 0;
	} else if (h->enter_ns) {
		took = bpf_ktime_get_ns() - h->enter_ns;
		weight = h->weight;
		h->enter_ns = 0;
	}
	id = id_of(p, regs->orig_ax);
	/* The return from a signal handler puts back the registers of before: no number. 15 and
	 * 173 are rt_sigreturn (asm/unistd_64.h, unistd_32.h). */
	if ((long)regs->orig_ax < 0)
		id = GS_TASKSTATS_CALL_ABI(id) == GS_TASKSTATS_ABI_32
			     ? GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_32, 173)
			     : GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_64, 15);
	if (wants_family(GS_TASKSTATS_SYSCALL))
		count_call(call_cell_of(h, h->slot, id), result, took, weight);
	if (!moves_bytes(id))
		return 0;
	call_read(&c, p, regs);
	d = call_desc(id);
	if (d)
		count_op(h->slot, &c, d->op, result, took);
	return 0;
}

/* ---- io_uring ---- */

/* Opcodes: enum io_uring_op of linux/io_uring.h, fixed. */
static __always_inline __u8 uring_op(__u8 opcode)
{
	switch (opcode) {
	case 1:  /* READV */
	case 4:  /* READ_FIXED */
	case 10: /* RECVMSG */
	case 22: /* READ */
	case 27: /* RECV */
		return GS_OP_READ;
	case 2:  /* WRITEV */
	case 5:  /* WRITE_FIXED */
	case 9:  /* SENDMSG */
	case 23: /* WRITE */
	case 26: /* SEND */
		return GS_OP_WRITE;
	}
	return GS_OP_NONE;
}

static __always_inline __u8 uring_wait_of(__u8 opcode)
{
	switch (opcode) {
	case 1:
	case 2:
	case 3:
	case 4:
	case 5: /* reads, writes, fsync */
	case 22:
	case 23:
		return GS_TIME_DISK;
	case 6: /* POLL_ADD */
	case 9:
	case 10:
	case 13:
	case 16:
	case 26:
	case 27: /* messages, accept, connect */
		return GS_TIME_NETWORK;
	case 11: /* TIMEOUT */
		return GS_TIME_SLEEP;
	}
	return GS_TIME_OTHER;
}

SEC("?tp_btf/io_uring_submit_req")
int gs_tasks_submit_uring(__u64 *ctx)
{
	struct io_kiocb *req = (void *)ctx[0];
	struct work_mark *m = mark_of(bpf_get_current_task_btf());
	struct op_mark op = {};
	__u64 key = (__u64)req;

	if (!m)
		return 0;
	op.slot = m->slot;
	op.opcode = req->opcode;
	op.submit_ns = bpf_ktime_get_ns();
	m->uring_wait = uring_wait_of(op.opcode);
	if (bpf_map_update_elem(&gs_tasks_ops, &key, &op, BPF_ANY))
		work_lose(GS_TASKSTATS_LOST_REQUEST);
	return 0;
}

static __always_inline void count_uring_file(const struct op_mark *op, struct io_kiocb *req,
					     int result, __u64 took)
{
	struct gs_taskstats_slot *s = slot_get(op->slot);
	__u64 file = (__u64)BPF_CORE_READ(req, file);
	__u8 what = uring_op(op->opcode);
	struct file_look l = {};
	__u32 mount = 0, peer = 0;

	if (!s || !file || what == GS_OP_NONE || !wants_family(GS_TASKSTATS_IO | GS_TASKSTATS_NET))
		return;
	classify_file(&l, file);
	if (l.on_fs && wants_family(GS_TASKSTATS_IO))
		mount = mount_cell(op->slot, &l);
	if (l.sk && wants_family(GS_TASKSTATS_NET))
		peer = peer_of_used(l.sk, op->slot, l.tcp);
	count_io(s, &l, mount, peer, what == GS_OP_WRITE, result, took);
}

SEC("?tp_btf/io_uring_complete")
int gs_tasks_complete_uring(__u64 *ctx)
{
	struct io_uring_cqe_head cqe = {};
	__u64 key = ctx[1], took;
	struct op_mark *op = bpf_map_lookup_elem(&gs_tasks_ops, &key), copy;

	if (!op)
		return 0;
	copy = *op;
	if (gs_taskstats_config.uring_cqe) {
		bpf_probe_read_kernel(&cqe, sizeof(cqe), (void *)ctx[2]);
	} else {
		cqe.res = (int)ctx[3];
		cqe.flags = (__u32)ctx[4];
	}
	took = bpf_ktime_get_ns() - copy.submit_ns;
	if (!(cqe.flags & 2)) /* IORING_CQE_F_MORE: another completion of this one follows */
		bpf_map_delete_elem(&gs_tasks_ops, &key);
	if (wants_family(GS_TASKSTATS_SYSCALL))
		count_call(call_cell(copy.slot,
				     GS_TASKSTATS_CALL(GS_TASKSTATS_ABI_URING, copy.opcode)),
			   cqe.res, took, 1);
	count_uring_file(&copy, (struct io_kiocb *)key, cqe.res, took);
	return 0;
}

#endif
