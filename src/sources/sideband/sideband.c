/*
 * Perf's side-band as a news service: a software event that never counts anything (DUMMY) on each
 * CPU still gets the records that inform perf of executable mappings, new programs, forks and exits.
 *
 *     CPU 0 ring ─┐
 *     CPU 1 ring ─┼─ rounds until nothing is new ─ sort by time ─ one callback per notice
 *     CPU n ring ─┘
 *
 * A process may fork on one CPU and its child start a program on another. The fork's record is in
 * its ring before the child can run, so whatever caused a collected record is found at the latest
 * by the next round over the rings: rounds are repeated until one finds nothing, and then a sort by
 * time puts cause before effect. A machine that writes faster than it is read ends this after
 * MAX_ROUNDS; then only the order may suffer.
 *
 * Process ids are those of this process's pid namespace (perf translates them), which is the
 * initial one where gpuscope is meant to run. A process outside of it comes as -1 and is not reported.
 * When a thread other than the first runs a new program, the kernel first ends the first one: EXIT
 * and then EXEC with the same pid.
 */
#include "sources/sideband/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "core/base/buf.h"
#include "core/base/log.h"
#include "core/base/mem.h"

/* A record of a mapping takes some 150 bytes, and a build beside the tracer maps thousands of files a
 * second. What a user without CAP_IPC_LOCK may lock is 516 KiB for each CPU (perf_event_mlock_kb). */
#define MIN_RING_BYTES ((size_t)64 << 10)
#define MAX_RING_BYTES ((size_t)256 << 10)
#define ALL_RING_BYTES ((size_t)8 << 20) /* beyond it rings are the smallest */
#define MAX_CPUS       8192
#define MAX_ROUNDS     4
#define NO_PATH        SIZE_MAX
#define FORMAT_LOST    (1u << 4) /* PERF_FORMAT_LOST of Linux 6.0; older headers lack it */
#define CPUS_ONLINE    "/sys/devices/system/cpu/online"

struct ring {
	int fd;                            /* owned */
	struct perf_event_mmap_page *page; /* owned mapping of the header page and the data */
	const uint8_t *data;               /* within the mapping */
	size_t data_bytes;                 /* a power of two */
};

/* A notice that waits to be sorted. Its path lies in gs_sideband.paths, which still grows. */
struct item {
	struct gs_sideband_notice notice;
	size_t path_off; /* NO_PATH: none */
	size_t idx;      /* keeps the order of equal times */
};

struct gs_sideband {
	int epoll_fd;       /* owned */
	struct ring *rings; /* owned */
	unsigned n_rings;
	size_t ring_bytes;   /* data of each, a power of two */
	struct gs_buf items; /* struct item; of one poll, the memory is kept */
	struct gs_buf paths; /* of one poll */
	size_t n_taken;      /* of the items: were delivered; the rest is kept */
	uint64_t n_own_lost; /* found no memory, or cannot be read */
	uint64_t n_recorded; /* dropped by the kernel, by records in the rings */
	uint64_t n_counted;  /* and by its own count: also those without a record yet */
	bool keeps_count;    /* the kernel says how many */
};

/* ---- opening ---- */

static int open_event(int cpu, bool with_count)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.read_format = with_count ? FORMAT_LOST : 0,
		.exclude_kernel = 1,
		.mmap = 1, /* without mmap_data: executable ones only */
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1, /* the time at the end of each record */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		/* wakeup_events counts samples only, of which there are none; a watermark of one
		 * byte wakes at each record. */
		.watermark = 1,
		.wakeup_watermark = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int explain_open(struct gs_err *err, int cpu, int r)
{
	switch (r) {
	case -EPERM:
	case -EACCES:
		return gs_err_set(
			err, r,
			"cannot watch for new programs and libraries: the kernel refuses perf_event_open; run as root or with CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)");
	case -ENOSYS:
	case -ENOENT:
		return gs_err_set(
			err, r,
			"cannot watch for new programs and libraries: this kernel is built without perf events (CONFIG_PERF_EVENTS)");
	case -EMFILE:
		return gs_err_set(
			err, r,
			"cannot watch for new programs and libraries: too many open files at CPU %d; raise the limit with ulimit -n",
			cpu);
	}
	return gs_err_set(
		err, r,
		"cannot watch for new programs and libraries: perf_event_open for CPU %d: %s", cpu,
		strerror(-r));
}

/* 1 ring added, 0 the CPU is offline, or an error. */
static int add_ring(struct gs_sideband *watch, int cpu, struct gs_err *err)
{
	struct epoll_event ev = {.events = EPOLLIN};
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct ring *ring = &watch->rings[watch->n_rings];
	GS_CLOSE int fd = open_event(cpu, watch->keeps_count);
	void *map;

	if (fd == -EINVAL && watch->keeps_count) {
		watch->keeps_count = false;
		fd = open_event(cpu, false);
	}
	if (fd == -ENODEV)
		return 0;
	if (fd < 0)
		return explain_open(err, cpu, fd);
	map = mmap(NULL, page_bytes + watch->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int r = -errno;

		if (r == -EPERM)
			return gs_err_set(
				err, r,
				"cannot watch for new programs and libraries: the limit of locked memory for perf is reached; raise kernel.perf_event_mlock_kb or give CAP_IPC_LOCK");
		return gs_err_set(
			err, r,
			"cannot watch for new programs and libraries: mmap of a perf ring: %s",
			strerror(-r));
	}
	if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int r = -errno;

		munmap(map, page_bytes + watch->ring_bytes);
		return gs_err_set(err, r, "cannot watch for new programs and libraries: epoll: %s",
				  strerror(-r));
	}
	ring->page = map;
	ring->data = (const uint8_t *)map + page_bytes;
	ring->data_bytes = watch->ring_bytes;
	ring->fd = gs_take_fd(&fd);
	watch->n_rings++;
	return 1;
}

/* Call fn for each number of a list such as "0-3,8"; stops at its first negative answer. -EINVAL:
 * the text is no such list, or names a CPU past MAX_CPUS. */
static int for_each_cpu(const char *text, int (*fn)(void *ctx, int cpu), void *ctx)
{
	const char *p = text;

	do {
		char *end;
		unsigned long first, last;

		if (*p < '0' || *p > '9')
			return -EINVAL;
		first = last = strtoul(p, &end, 10);
		if (*end == '-') {
			p = end + 1;
			if (*p < '0' || *p > '9')
				return -EINVAL;
			last = strtoul(p, &end, 10);
		}
		if (first > last || last >= MAX_CPUS)
			return -EINVAL;
		for (unsigned long cpu = first; cpu <= last; cpu++) {
			int r = fn(ctx, (int)cpu);

			if (r < 0)
				return r;
		}
		p = end;
	} while (*p++ == ',');
	return p[-1] == '\n' || p[-1] == '\0' ? 0 : -EINVAL;
}

static int count_cpu(void *ctx, int cpu)
{
	(*(unsigned *)ctx)++;
	return 0;
}

struct adding {
	struct gs_sideband *watch;
	struct gs_err *err;
};

static int add_cpu(void *ctx, int cpu)
{
	struct adding *adding = ctx;

	return add_ring(adding->watch, cpu, adding->err);
}

static int read_online(char *out, size_t bytes, struct gs_err *err)
{
	GS_FCLOSE FILE *f = fopen(CPUS_ONLINE, "re");

	if (!f || !fgets(out, (int)bytes, f))
		return gs_err_set(err, f ? -EINVAL : -errno, "cannot read " CPUS_ONLINE);
	return 0;
}

static size_t choose_ring_bytes(unsigned n_cpus)
{
	size_t bytes = MAX_RING_BYTES;

	while (bytes > MIN_RING_BYTES && bytes * n_cpus > ALL_RING_BYTES)
		bytes /= 2;
	return bytes;
}

int gs_sideband_new(struct gs_sideband **ret_watch, struct gs_err *err)
{
	GS_CLEANUP(gs_sideband_free) struct gs_sideband *watch = NULL;
	struct adding adding = {.err = err};
	unsigned n_cpus = 0;
	char online[4096];
	int r;

	r = read_online(online, sizeof(online), err);
	if (r < 0)
		return r;
	r = for_each_cpu(online, count_cpu, &n_cpus);
	if (r < 0)
		return gs_err_set(err, r, CPUS_ONLINE " does not read as a list of CPUs");
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return gs_err_set(err, -ENOMEM, "out of memory");
	watch->ring_bytes = choose_ring_bytes(n_cpus);
	watch->keeps_count = true;
	watch->items = GS_BUF_INIT(n_cpus * MAX_ROUNDS * watch->ring_bytes /
				   sizeof(struct perf_event_header) * sizeof(struct item));
	watch->paths = GS_BUF_INIT(n_cpus * MAX_ROUNDS * watch->ring_bytes);
	watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll_fd < 0) {
		r = -errno;
		return gs_err_set(err, r, "cannot watch for new programs and libraries: epoll: %s",
				  strerror(-r));
	}
	watch->rings = calloc(n_cpus, sizeof(*watch->rings));
	if (!watch->rings)
		return gs_err_set(err, -ENOMEM, "out of memory");
	adding.watch = watch;
	r = for_each_cpu(online, add_cpu, &adding);
	if (r < 0)
		return r;
	gs_log(GS_LOG_DEBUG, GS_LOG_ATTACH, "watch: %u rings of %zu KiB", watch->n_rings,
	       watch->ring_bytes >> 10);
	*ret_watch = gs_take(watch);
	return 0;
}

void gs_sideband_free(struct gs_sideband **watch)
{
	struct gs_sideband *w = *watch;

	if (!w)
		return;
	for (unsigned i = 0; i < w->n_rings; i++) {
		munmap(w->rings[i].page, (size_t)sysconf(_SC_PAGESIZE) + w->ring_bytes);
		gs_close_p(&w->rings[i].fd);
	}
	free(w->rings);
	gs_close_p(&w->epoll_fd);
	gs_buf_fini(&w->items);
	gs_buf_fini(&w->paths);
	free(w);
	*watch = NULL;
}

int gs_sideband_fd(const struct gs_sideband *watch)
{
	return watch->epoll_fd;
}

uint64_t gs_sideband_lost(const struct gs_sideband *watch)
{
	uint64_t dropped =
		watch->n_recorded > watch->n_counted ? watch->n_recorded : watch->n_counted;

	return watch->n_own_lost + dropped;
}

void gs_sideband_count_lost(struct gs_sideband *watch)
{
	struct {
		uint64_t events, lost;
	} count;

	if (!watch->keeps_count)
		return;
	watch->n_counted = 0;
	for (unsigned i = 0; i < watch->n_rings; i++)
		if (read(watch->rings[i].fd, &count, sizeof(count)) == sizeof(count))
			watch->n_counted += count.lost;
}

/* ---- records ---- */

/* The layouts are those of enum perf_event_type in linux/perf_event.h, header left off. */
struct mmap2_body {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	/* char filename[], zero-padded to eight bytes */
};

struct task_body {
	uint32_t pid, ppid, tid, ptid;
	uint64_t time_ns;
};

struct comm_body {
	uint32_t pid, tid;
	/* char comm[] */
};

struct lost_body {
	uint64_t id, lost;
};

static uint64_t read_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Keep the notice for delivery. Without memory it is lost, and counted so. */
static void keep_notice(struct gs_sideband *watch, const struct gs_sideband_notice *notice,
			const char *path)
{
	size_t path_off = NO_PATH;
	struct item *item;

	if (path) {
		path_off = watch->paths.bytes;
		if (gs_buf_put(&watch->paths, path, strlen(path) + 1) < 0) {
			watch->n_own_lost++;
			return;
		}
	}
	item = gs_buf_extend(&watch->items, sizeof(*item));
	if (!item) {
		watch->n_own_lost++;
		return;
	}
	item->notice = *notice;
	item->path_off = path_off;
	item->idx = watch->items.bytes / sizeof(*item);
}

/* Files only: what the kernel makes up is named [vdso], //anon, //enomem, anon_inode:... */
static bool is_file_path(const char *path)
{
	return path[0] == '/' && path[1] != '/';
}

static void take_mmap2(struct gs_sideband *watch, const uint8_t *body, size_t bytes,
		       uint64_t time_ns)
{
	struct gs_sideband_notice notice = {.kind = GS_SIDEBAND_MAP, .time_ns = time_ns};
	const char *path = (const char *)body + sizeof(struct mmap2_body);
	struct mmap2_body m;

	if (bytes <= sizeof(m) || !memchr(path, 0, bytes - sizeof(m)))
		return;
	memcpy(&m, body, sizeof(m));
	if (!(m.prot & PROT_EXEC) || !is_file_path(path))
		return;
	notice.pid = (pid_t)m.pid;
	notice.dev = makedev(m.maj, m.min);
	notice.ino = m.ino;
	notice.start = m.addr;
	notice.len_bytes = m.len;
	notice.file_off = m.pgoff;
	if (notice.pid > 0)
		keep_notice(watch, &notice, path);
}

static void take_task(struct gs_sideband *watch, uint32_t type, const uint8_t *body, size_t bytes,
		      uint64_t time_ns)
{
	struct gs_sideband_notice notice = {.time_ns = time_ns};
	struct task_body t;

	if (bytes < sizeof(t))
		return;
	memcpy(&t, body, sizeof(t));
	notice.pid = (pid_t)t.pid;
	if (type == PERF_RECORD_FORK) {
		if (t.pid == t.ppid)
			return; /* a thread */
		notice.kind = GS_SIDEBAND_FORK;
		notice.parent_pid = (pid_t)t.ppid;
	} else {
		if (t.pid != t.tid)
			return;
		notice.kind = GS_SIDEBAND_EXIT;
	}
	if (notice.pid > 0)
		keep_notice(watch, &notice, NULL);
}

/* One record, in one piece: header, body, and the time because of sample_id_all. */
static void take_record(struct gs_sideband *watch, const uint8_t *record, size_t bytes)
{
	struct gs_sideband_notice notice = {.kind = GS_SIDEBAND_EXEC};
	const uint8_t *body = record + sizeof(struct perf_event_header);
	struct perf_event_header header;
	struct comm_body comm;

	if (bytes < sizeof(header) + sizeof(uint64_t))
		return;
	memcpy(&header, record, sizeof(header));
	notice.time_ns = read_u64(record + bytes - sizeof(uint64_t));
	bytes -= sizeof(header) + sizeof(uint64_t);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		take_mmap2(watch, body, bytes, notice.time_ns);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		take_task(watch, header.type, body, bytes, notice.time_ns);
		break;
	case PERF_RECORD_COMM: /* also of prctl(PR_SET_NAME), which is no news */
		if (!(header.misc & PERF_RECORD_MISC_COMM_EXEC) || bytes < sizeof(comm))
			break;
		memcpy(&comm, body, sizeof(comm));
		notice.pid = (pid_t)comm.pid;
		if (notice.pid > 0)
			keep_notice(watch, &notice, NULL);
		break;
	case PERF_RECORD_LOST:
		if (bytes >= sizeof(struct lost_body))
			watch->n_recorded += read_u64(body + offsetof(struct lost_body, lost));
		break;
	}
}

/* ---- delivery ---- */

/* Take all records of a ring; true when there was one. The kernel writes data and then the head; it
 * does not write past the tail, which is ours. */
static bool drain_ring(struct gs_sideband *watch, struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	size_t mask = ring->data_bytes - 1;
	uint8_t whole[UINT16_MAX + 1]; /* header.size has 16 bits */
	bool found = head != tail;

	while (head != tail) {
		struct perf_event_header header;
		size_t at = tail & mask, to_end = ring->data_bytes - at;
		const uint8_t *record = ring->data + at;

		/* Records are multiples of eight bytes, so a header is never split. What does not
		 * fit together cannot be read any further: give up what is there. */
		if (head - tail > ring->data_bytes || head - tail < sizeof(header) || at % 8) {
			watch->n_own_lost++;
			break;
		}
		memcpy(&header, record, sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 || header.size > head - tail) {
			watch->n_own_lost++;
			break;
		}
		if (header.size > to_end) {
			memcpy(whole, record, to_end);
			memcpy(whole + to_end, ring->data, header.size - to_end);
			record = whole;
		}
		take_record(watch, record, header.size);
		tail += header.size;
	}
	if (found)
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return found;
}

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->notice.time_ns != y->notice.time_ns)
		return x->notice.time_ns < y->notice.time_ns ? -1 : 1;
	return x->idx < y->idx ? -1 : x->idx > y->idx;
}

static size_t count_items(const struct gs_sideband *watch)
{
	return watch->items.bytes / sizeof(struct item);
}

int gs_sideband_poll_kept(struct gs_sideband *watch, gs_sideband_fn fn, void *ctx)
{
	struct item *items = (struct item *)watch->items.data;
	size_t n_items = count_items(watch), before = watch->n_taken;

	for (; watch->n_taken < n_items; watch->n_taken++) {
		struct item *item = &items[watch->n_taken];

		if (item->path_off != NO_PATH)
			item->notice.path = (char *)watch->paths.data + item->path_off;
		if (!fn(ctx, &item->notice))
			break;
	}
	return (int)(watch->n_taken - before);
}

int gs_sideband_poll(struct gs_sideband *watch, gs_sideband_fn fn, void *ctx)
{
	int n_kept = gs_sideband_poll_kept(watch, fn, ctx);
	bool found = true;
	size_t n_items;

	if (watch->n_taken < count_items(watch))
		return n_kept;
	watch->n_taken = 0;
	gs_buf_reset(&watch->items);
	gs_buf_reset(&watch->paths);
	for (unsigned round = 0; found && round < MAX_ROUNDS; round++) {
		found = false;
		for (unsigned i = 0; i < watch->n_rings; i++)
			found |= drain_ring(watch, &watch->rings[i]);
	}
	n_items = count_items(watch);
	if (n_items)
		qsort(watch->items.data, n_items, sizeof(struct item), by_time);
	return n_kept + gs_sideband_poll_kept(watch, fn, ctx);
}
