/*
 * Requests at block devices. A request belongs to the thread that made it: who makes it is seen
 * where it is set up or put into the queue; the start at the device may come from a kernel thread.
 *
 * A request that empties the device's write cache, or that must be on the medium when it ends, is
 * taken apart by the kernel (block/blk-flush.c): it waits for a flush, moves its data if it has
 * any, and waits for another. Its data has a start and an end at the device as any other. The flush
 * is a request of the kernel's own, shared by all who wait for one at that time, so what those
 * waited is the time between the making of their request and its last end, less that of the data.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_BLOCK_BPF_H
#define GS_BPF_TASKS_TASKSTATS_BLOCK_BPF_H

#include "taskstats_task.bpf.h"

static __always_inline __u32 rq_dev(struct request *rq)
{
	struct gendisk *d = BPF_CORE_READ(rq, q, disk);

	return (__u32)BPF_CORE_READ(d, major) << 20 | BPF_CORE_READ(d, first_minor);
}

static __always_inline void add_disk(struct gs_taskstats_disk *d, bool write, bool failed,
				     __u64 bytes, __u64 took)
{
	if (write) {
		add(d->writes, 1);
		add(d->write_bytes, bytes);
	} else {
		add(d->reads, 1);
		add(d->read_bytes, bytes);
	}
	if (failed)
		add(d->errors, 1);
	if (!took)
		return;
	add(d->total_ns, took);
	__sync_fetch_and_add(&d->hist[bucket_of(took)], 1);
	if (took > d->max_ns)
		d->max_ns = took;
}

static __always_inline void add_slot(struct gs_taskstats_slot *s, bool write, __u64 bytes,
				     __u64 took)
{
	if (write) {
		add(s->work.disk_writes, 1);
		add(s->work.disk_write_bytes, bytes);
	} else {
		add(s->work.disk_reads, 1);
		add(s->work.disk_read_bytes, bytes);
	}
	add(s->work.disk_ns, took);
}
static __always_inline struct gs_taskstats_cell *disk_cell(__u32 slot, struct request *rq)
{
	__u32 cell = cell_find(IN_TABLE(slot, GS_TABLE_DISK), rq_dev(rq), 0, 0);
	struct gs_taskstats_cell *c = cell_get(cell);

	return cell ? c : NULL;
}

/* A request of so many bytes has ended; took is 0 when its start was not seen. */
static __always_inline void settle_request(const struct gs_taskstats_request *r, struct request *rq,
					   bool failed, __u64 took)
{
	__u64 bytes = failed ? 0 : r->bytes;
	struct gs_taskstats_slot *s = slot_get(r->slot);
	struct gs_taskstats_cell *c = disk_cell(r->slot, rq);

	if (s && r->slot)
		add_slot(s, r->write, bytes, took);
	if (c)
		add_disk(&c->disk, r->write, failed, bytes, took);
}

static __always_inline void settle_flush(const struct gs_taskstats_request *r, struct request *rq,
					 bool failed, __u64 now)
{
	struct gs_taskstats_cell *c = disk_cell(r->slot, rq);
	__u64 took = now - r->flush_ns;

	if (!c)
		return;
	add(c->disk.flushes, 1);
	add(c->disk.flush_ns, took);
	if (took > c->disk.flush_max_ns)
		c->disk.flush_max_ns = took;
	if (failed)
		add(c->disk.errors, 1);
}

/* The kernel uses the memory of its requests again. A mark that still stands there is of a request
 * that was merged into another before it was started, or of one whose end was not seen: a program
 * is skipped when it is running on that processor already (and some kernels run none while certain
 * tasks are interrupted). Its bytes were known at its start. */
static __always_inline void settle_old(__u64 key, struct request *rq)
{
	struct gs_taskstats_request *found = bpf_map_lookup_elem(&gs_tasks_rqs, &key), r;

	if (!found)
		return;
	r = *found;
	bpf_map_delete_elem(&gs_tasks_rqs, &key);
	if (!r.issued_ns || !r.moves)
		return;
	settle_request(&r, rq, false, 0);
	work_lose(GS_TASKSTATS_LOST_END);
}

/* To be asked before the kernel takes the request apart, when it clears these bits. */
static __always_inline bool wants_flush(struct request *rq)
{
	__u32 bits = 1u << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) |
		     1u << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA);

	return BPF_CORE_READ(rq, cmd_flags) & bits;
}

/* Who has it made: block_io_start (Linux 6.5), or its way into the queue before that. */
SEC("?tp_btf/block_io_start")
int gs_tasks_rq_made(__u64 *ctx)
{
	struct work_mark *m = mark_of(bpf_get_current_task_btf());
	struct gs_taskstats_request r = {};
	__u64 key = ctx[0];

	settle_old(key, (struct request *)ctx[0]);
	if (!m)
		return 0;
	r.slot = m->slot;
	if (wants_flush((struct request *)ctx[0]))
		r.flush_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&gs_tasks_rqs, &key, &r, BPF_ANY))
		work_lose(GS_TASKSTATS_LOST_REQUEST);
	return 0;
}

static __always_inline void start_request(struct gs_taskstats_request *r, struct request *rq)
{
	/* include/linux/blk_types.h: 0 read, odd ones write data; a flush (2) moves none, nor do
	 * REQ_OP_DISCARD (3) and REQ_OP_SECURE_ERASE (5), which say that data is of no use any more. */
	__u32 op = BPF_CORE_READ(rq, cmd_flags) & 0xff;

	/* Merging may have made it larger since; trying again restarts the clock. */
	r->bytes = BPF_CORE_READ(rq, __data_len);
	r->write = op & 1;
	r->moves = !op || (op & 1 && op != 3 && op != 5);
	r->issued_ns = bpf_ktime_get_ns();
}

SEC("?tp_btf/block_rq_issue")
int gs_tasks_rq_issue(__u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	__u64 key = (__u64)rq;
	struct gs_taskstats_request *old = bpf_map_lookup_elem(&gs_tasks_rqs, &key), r = {};
	struct work_mark *m;

	if (old) {
		start_request(old, rq);
		return 0;
	}
	/* Who is here now may have nothing to do with it: a full queue is emptied by all who come
	 * to it, and by whom the device's interrupt meets. */
	m = gs_taskstats_config.rq_made ? NULL : mark_of(bpf_get_current_task_btf());
	if (!m && !gs_taskstats_config.all)
		return 0;
	r.slot = m ? m->slot : 0;
	start_request(&r, rq);
	if (bpf_map_update_elem(&gs_tasks_rqs, &key, &r, BPF_ANY))
		work_lose(GS_TASKSTATS_LOST_REQUEST);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int gs_tasks_rq_complete(__u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	__u32 bytes = (__u32)ctx[2];
	__u64 key = (__u64)rq;
	struct gs_taskstats_request *found = bpf_map_lookup_elem(&gs_tasks_rqs, &key), r;
	__u64 now;

	/* Parts of a request are reported one by one; the last leaves nothing over. */
	if (!found || bytes < BPF_CORE_READ(rq, __data_len))
		return 0;
	r = *found;
	now = bpf_ktime_get_ns();
	if (r.flush_ns && r.moves && BPF_CORE_READ(rq, end_io)) {
		/* Its data has arrived; the flush comes next and ends with no bytes. */
		found->flush_ns += now - r.issued_ns;
		found->moves = 0;
		settle_request(&r, rq, (int)ctx[1] != 0, now - r.issued_ns);
		return 0;
	}
	bpf_map_delete_elem(&gs_tasks_rqs, &key);
	if (r.flush_ns && !r.moves && !bytes) {
		settle_flush(&r, rq, (int)ctx[1] != 0, now);
		return 0;
	}
	if (!r.issued_ns) {
		/* Its start was not seen, so its size is what is left now. */
		start_request(&r, rq);
		work_lose(GS_TASKSTATS_LOST_END);
		now = 0;
	}
	if (r.moves)
		settle_request(&r, rq, (int)ctx[1] != 0, now ? now - r.issued_ns : 0);
	return 0;
}

#endif
