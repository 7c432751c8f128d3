/*
 * Requests at block devices. A request belongs to the thread that made it: who makes it is seen
 * where it is set up or put into the queue; the start at the device may come from a kernel thread.
 */
#ifndef GS_BPF_WORK_BLOCK_H
#define GS_BPF_WORK_BLOCK_H

#include "work_task.bpf.h"

static __always_inline __u32 rq_dev(struct request *rq)
{
	struct gendisk *d = BPF_CORE_READ(rq, q, disk);

	return (__u32)BPF_CORE_READ(d, major) << 20 | BPF_CORE_READ(d, first_minor);
}

/* Who has it made: block_io_start (Linux 6.5), or its way into the queue before that. */
SEC("?tp_btf/block_io_start")
int gs_work_rq_made(__u64 *ctx)
{
	struct work_mark *m = mark_of(bpf_get_current_task_btf());
	struct rq_mark r = {};
	__u64 key = ctx[0];

	if (!m)
		return 0;
	r.slot = m->slot;
	if (bpf_map_update_elem(&gs_work_rqs, &key, &r, BPF_ANY))
		work_lose(GS_WORK_LOST_REQUEST);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int gs_work_rq_issue(__u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	__u64 key = (__u64)rq;
	struct rq_mark *old = bpf_map_lookup_elem(&gs_work_rqs, &key), r = {};
	struct work_mark *m;

	if (old) {
		/* Merging may have made it larger since; trying again starts the clock anew. */
		old->bytes = BPF_CORE_READ(rq, __data_len);
		old->issued_ns = bpf_ktime_get_ns();
		return 0;
	}
	m = mark_of(bpf_get_current_task_btf());
	if (!m && !gs_work_config.all)
		return 0;
	r.slot = m ? m->slot : 0;
	r.bytes = BPF_CORE_READ(rq, __data_len);
	r.issued_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&gs_work_rqs, &key, &r, BPF_ANY))
		work_lose(GS_WORK_LOST_REQUEST);
	return 0;
}

static __always_inline void add_disk(struct gs_work_disk *d, bool write, bool failed, __u64 bytes,
				     __u64 took)
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
	add(d->total_ns, took);
	__sync_fetch_and_add(&d->hist[bucket(took)], 1);
	if (took > d->max_ns)
		d->max_ns = took;
}

static __always_inline void add_slot(struct gs_work_slot *s, bool write, __u64 bytes, __u64 took)
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

SEC("?tp_btf/block_rq_complete")
int gs_work_rq_complete(__u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	__u32 bytes = (__u32)ctx[2];
	bool failed = (int)ctx[1] != 0;
	__u64 key = (__u64)rq;
	struct rq_mark *found = bpf_map_lookup_elem(&gs_work_rqs, &key), r;
	struct gs_work_slot *s;
	struct gs_work_cell *c;
	__u32 cell, op;
	__u64 took;

	/* Parts of a request are told one by one; the last leaves nothing over. */
	if (!found || bytes < BPF_CORE_READ(rq, __data_len))
		return 0;
	r = *found;
	bpf_map_delete_elem(&gs_work_rqs, &key);
	/* include/linux/blk_types.h: 0 read, odd ones write data; a flush (2) moves none. */
	op = BPF_CORE_READ(rq, cmd_flags) & 0xff;
	if (!r.issued_ns || (op && !(op & 1)))
		return 0;
	took = bpf_ktime_get_ns() - r.issued_ns;
	s = slot_get(r.slot);
	if (s && r.slot)
		add_slot(s, op, failed ? 0 : r.bytes, took);
	cell = cell_find(IN_TABLE(r.slot, GS_TABLE_DISK), rq_dev(rq), 0, 0);
	c = cell_get(cell);
	if (c && cell)
		add_disk(&c->disk, op, failed, failed ? 0 : r.bytes, took);
	return 0;
}

#endif
