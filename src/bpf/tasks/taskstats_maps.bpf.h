/*
 * Maps of the work probes, the mark that a followed thread carries, and the way to its slot and
 * cells. Hot paths only look into the thread's own storage and into arrays; the hash tables are
 * asked when a thread meets something for the first time.
 */
#ifndef GS_BPF_TASKS_TASKSTATS_MAPS_BPF_H
#define GS_BPF_TASKS_TASKSTATS_MAPS_BPF_H

#include "taskstats_kernel.bpf.h"
#include "model/trace/hist.h"
#include "model/trace/taskstats_side.h"

const volatile struct gs_taskstats_config gs_taskstats_config;

#define GS_CALL_CACHE 8 /* system calls whose cell a thread remembers; a power of two */
#define GS_LOOK_CACHE 4 /* open files that it remembers, by descriptor; a power of two */
#define STATE_NONE    0xff

struct file_look { /* what is known of an open file */
	__u64 file, inode;
	__u64 sk; /* of a socket that is not local, else 0 */
	__u32 dev;
	__u8 io;    /* enum gs_taskstats_io */
	__u8 wait;  /* enum gs_taskstats_time: what waiting for it is */
	__u8 on_fs; /* regular or a folder: has a row of mounts */
	__u8 tcp;
};

struct known_file {
	struct file_look look;
	__u32 mount_cell, peer_cell;
};

struct work_mark {
	__u32 slot;
	__u8 state;      /* enum gs_taskstats_time, or STATE_NONE: ended */
	__u8 uring_wait; /* enum gs_taskstats_time: of the last operation put into a ring */
	__u8 newborn;    /* its first return from the kernel is not from a call of its own */
	__u8 pad;
	__u64 enter_ns; /* into the call that it left its processor in; 0: not known */
	__u64 lock_ns;  /* when it began to wait for a lock, while it does */
	__u64 off_ns;   /* when it left its processor; 0: it is on one */
	__u64 away_ns;  /* that it was off its processor in this call */
	__u64 ran_ns;   /* what the scheduler says that it ran, when it left */
	__u64 turns;    /* on a processor, as the scheduler counts them, when it left */
	__u64 queue_ns; /* when it began to wait for a processor, while it does */
	__u64 faults_minor, faults_major; /* of the task, when they were counted last */
	struct known_file files[GS_LOOK_CACHE];
};

/* What a processor remembers of the thread on it, so that a call that does not sleep needs no look
 * into the thread's own memory. Another thread coming to it ends it. */
struct work_hot {
	__u64 task;     /* address of the thread; 0: none */
	__u64 enter_ns; /* into its call, when this one is timed */
	__u32 slot;     /* 0: it is not followed */
	__u32 made;     /* gs_tasks_made then */
	__u32 gap;      /* calls until the next that is timed */
	__u32 random;
	__u32 weight; /* how many calls the timed one stands for */
	__u32 of;     /* the slot that the cells are of */
	__u32 call_id[GS_CALL_CACHE], call_cell[GS_CALL_CACHE];
};

/* Grows whenever a thread comes to be followed, or moves to another slot. */
__u32 gs_tasks_made;

struct sock_mark {
	__u64 connect_ns;
	__u32 slot, cell;
	__u8 accepted, pad[3];
	__u32 resent; /* segments sent again by this socket that are counted, or were before */
};

struct op_mark {
	__u64 submit_ns;
	__u32 slot;
	__u8 opcode, pad[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct work_mark);
} gs_tasks_marks SEC(".maps");

#define MAP(name, kind, k, v, n, flags)                                                            \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, n);                                                            \
		__uint(map_flags, flags);                                                          \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
	} name SEC(".maps")

/* Sizes of the first four are set by user space. */
MAP(gs_tasks_slots, BPF_MAP_TYPE_ARRAY, __u32, struct gs_taskstats_slot, 2, BPF_F_MMAPABLE);
MAP(gs_tasks_cells, BPF_MAP_TYPE_ARRAY, __u32, struct gs_taskstats_cell, 2, BPF_F_MMAPABLE);
MAP(gs_taskstats_slot_of, BPF_MAP_TYPE_HASH, struct gs_taskstats_key, __u32, 2, 0);
MAP(gs_taskstats_cell_of, BPF_MAP_TYPE_HASH, struct gs_taskstats_cell_key, __u32, 2, 0);
MAP(gs_taskstats_state, BPF_MAP_TYPE_ARRAY, __u32, struct gs_taskstats_state, 1, BPF_F_MMAPABLE);
MAP(gs_tasks_pids, BPF_MAP_TYPE_HASH, __u32, __u32, 4096, 0);
MAP(gs_tasks_groups, BPF_MAP_TYPE_HASH, __u64, __u32, 1024, 0);
MAP(gs_tasks_rqs, BPF_MAP_TYPE_HASH, __u64, struct gs_taskstats_request, 16384, 0);
MAP(gs_tasks_socks, BPF_MAP_TYPE_HASH, __u64, struct sock_mark, 16384, 0);
MAP(gs_tasks_hot, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct work_hot, 1, 0);
MAP(gs_tasks_ops, BPF_MAP_TYPE_HASH, __u64, struct op_mark, 16384, 0);

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__uint(value_size, sizeof(__u32));
} gs_tasks_free_slots SEC(".maps"), gs_tasks_free_cells SEC(".maps");

/* How many places were given for the first time; those that came back wait in the queues, which would
 * take a system call for each place to be filled at the start. */
__u32 gs_tasks_slots_given, gs_tasks_cells_given;

#define add(p, n) __sync_fetch_and_add(&(p), (__u64)(n))

static __always_inline struct gs_taskstats_state *work_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gs_taskstats_state, &zero);
}

static __always_inline void work_lose_many(__u32 what, __u64 n)
{
	struct gs_taskstats_state *s = work_state();

	if (s && what < GS_TASKSTATS_LOST_COUNT)
		add(s->lost[what], n);
}

static __always_inline void work_lose(__u32 what)
{
	work_lose_many(what, 1);
}

static __always_inline struct gs_taskstats_slot *slot_get(__u32 slot)
{
	return bpf_map_lookup_elem(&gs_tasks_slots, &slot);
}

static __always_inline struct gs_taskstats_cell *cell_get(__u32 cell)
{
	return bpf_map_lookup_elem(&gs_tasks_cells, &cell);
}

/* A free place; 0: none. One that came back is given as late as can be: a processor may remember it
 * as the place of what had it before (struct work_hot). */
static __always_inline __u32 take_place(void *queue, __u32 *given, __u32 n)
{
	__u32 place = 0;

	if (*given + 1 < n)
		place = __sync_fetch_and_add(given, 1) + 1;
	if (place && place < n)
		return place;
	return bpf_map_pop_elem(queue, &place) ? 0 : place;
}

static __always_inline struct work_mark *mark_of(struct task_struct *p)
{
	return bpf_task_storage_get(&gs_tasks_marks, p, 0, 0);
}

/* Read before a look-up that it goes with: volatile keeps the compiler, x86 the processor, in order. */
static __always_inline __u32 marks_made(void)
{
	return *(volatile __u32 *)&gs_tasks_made;
}

static __always_inline struct work_hot *hot_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gs_tasks_hot, &zero);
}

static __always_inline bool wants_family(__u32 family)
{
	return gs_taskstats_config.families & family;
}

/*
 * Functions of this shape, not static and with plain numbers only, are verified once by themselves
 * instead of at every place that calls them, which would be more than the kernel's patience.
 */
#define GS_ALONE __attribute__((noinline))

/* The number of the row, made when it is not there; 0: no room. */
GS_ALONE __u32 cell_find(__u64 slot_table, __u64 a, __u64 b, __u64 c)
{
	struct gs_taskstats_cell_key key = {
		.slot = (__u32)slot_table, .table = slot_table >> 32, .a = a, .b = b, .c = c};
	__u32 *found = bpf_map_lookup_elem(&gs_taskstats_cell_of, &key), cell;
	struct gs_taskstats_cell *row;

	if (found)
		return *found;
	cell = take_place(&gs_tasks_free_cells, &gs_tasks_cells_given, gs_taskstats_config.n_cells);
	row = cell_get(cell);
	if (!cell || !row) {
		work_lose(GS_TASKSTATS_LOST_CELL);
		return 0;
	}
	row->key = key;
	if (bpf_map_update_elem(&gs_taskstats_cell_of, &key, &cell, BPF_NOEXIST)) {
		/* Another thread was first, or the table of keys is full. */
		bpf_map_push_elem(&gs_tasks_free_cells, &cell, 0);
		found = bpf_map_lookup_elem(&gs_taskstats_cell_of, &key);
		if (found)
			return *found;
		work_lose(GS_TASKSTATS_LOST_CELL);
		return 0;
	}
	asm volatile("" ::: "memory"); /* stores stay in order on x86 */
	row->used = 1;
	return cell;
}

/* A typed pointer as the number that such a function takes: to the verifier they are different types. */
static __always_inline __u64 number_of(const void *p)
{
	const void *volatile at = p;
	__u64 n = 0;

	bpf_probe_read_kernel(&n, sizeof(n), (const void *)&at);
	return n;
}

#define IN_TABLE(slot, table) ((__u64)(table) << 32 | (slot))

/* Its branches give 64 answers, with each of which the verifier would follow what comes after. */
GS_ALONE __u32 log2_of(__u64 ns)
{
	return ns ? gs_log2_u64(ns) : 0;
}

static __always_inline unsigned bucket_of(__u64 ns)
{
	unsigned b = log2_of(ns);

	return b < GS_TASKSTATS_LOG2 ? b : GS_TASKSTATS_LOG2 - 1;
}

#endif
