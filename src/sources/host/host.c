/*
 * The machine's own values. Its files are opened once and read again from their beginning: procfs
 * makes their text again at each read from offset 0.
 */
#include "sources/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "sources/host/room_int.h"

#define TEXT_MAX_BYTES (4u << 20)

static const char *const file_names[HOST_N_FILES] = {"stat", "meminfo", "loadavg", "diskstats",
						     "net/dev"};

int gs_host_open(const char *proc_root, struct gs_host **ret_host, struct gs_err *err)
{
	struct gs_host *h = calloc(1, sizeof(*h));
	long hz = sysconf(_SC_CLK_TCK);

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	h->text = GS_BUF_INIT(TEXT_MAX_BYTES);
	h->users = GS_MAP_INIT(HOST_MAX_USERS);
	h->ns_per_tick = 1000000000ull / (uint64_t)(hz > 0 ? hz : 100);
	h->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < HOST_N_FILES; i++)
		h->file_fd[i] = -1;
	h->proc_fd = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->proc_fd < 0) {
		int e = -errno;

		gs_err_set(err, e, "cannot read %s: %s", proc_root, strerror(-e));
		gs_host_close(&h);
		return e;
	}
	/* What cannot be opened is counted at each reading. */
	for (size_t i = 0; i < HOST_N_FILES; i++)
		h->file_fd[i] = openat(h->proc_fd, file_names[i], O_RDONLY | O_CLOEXEC);
	*ret_host = h;
	return 0;
}

void gs_host_close(struct gs_host **ref)
{
	struct gs_host *h = *ref;

	if (!h)
		return;
	for (size_t i = 0; i < HOST_N_FILES; i++)
		gs_close_p(&h->file_fd[i]);
	gs_close_p(&h->proc_fd);
	gs_buf_fini(&h->text);
	gs_map_fini(&h->users);
	for (size_t i = 0; i < h->n_users; i++)
		free(h->user_names[i]);
	free(h->user_names);
	free(h->seen);
	free(h);
	*ref = NULL;
}

/* The whole of an open file, from its beginning, terminated, into h->text. */
static int read_again(struct gs_host *h, int fd)
{
	gs_buf_reset(&h->text);
	if (fd < 0)
		return -ENOENT;
	for (off_t at = 0;;) {
		ssize_t n;

		/* The last byte of the maximum is for the end of the text. */
		if (gs_buf_reserve(&h->text, 4096) < 0)
			break;
		n = pread(fd, h->text.data + at, h->text.capacity_bytes - (size_t)at - 1, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		at += n;
		h->text.bytes = (size_t)at;
	}
	if (!h->text.data)
		return -ENOMEM;
	h->text.data[h->text.bytes] = '\0';
	return 0;
}

static double rate_of(uint64_t now, uint64_t before, uint64_t elapsed_ns)
{
	/* Counters may go back: an interface went away, or a disk. */
	if (now == UINT64_MAX || before == UINT64_MAX || now < before || !elapsed_ns)
		return -1;
	return (double)(now - before) / ((double)elapsed_ns / 1e9);
}

static double share_of(uint64_t now, uint64_t before, uint64_t all)
{
	return now == UINT64_MAX || before == UINT64_MAX || now < before || !all
		       ? -1
		       : (double)(now - before) / (double)all;
}

static double root_used(void)
{
	struct statvfs v;

	double used, usable;

	if (statvfs("/", &v) < 0 || !v.f_blocks)
		return -1;
	/* As df: of what programs may use, which leaves out what is kept for root. */
	used = (double)(v.f_blocks - v.f_bfree);
	usable = used + (double)v.f_bavail;
	return usable > 0 ? used / usable : -1;
}

static void read_machine(struct gs_host *h, struct gs_host_sample *s)
{
	struct gs_host_counters now, *before = &h->counters;
	uint64_t ticks;

	memset(&now, 0xff, sizeof(now));
	s->time_ns = gs_clock_boot_ns();
	s->elapsed_ns = h->time_ns ? s->time_ns - h->time_ns : 0;
	s->n_cpus = s->n_tasks = s->n_running = -1;
	s->load1 = s->load5 = s->load15 = -1;
	s->mem_used_ratio = -1;
	s->root_used_ratio = root_used();
	s->mem_total_bytes = s->mem_used_bytes = s->swap_total_bytes = s->swap_used_bytes = -1;
	for (size_t i = 0; i < HOST_N_FILES; i++) {
		const char *text;

		if (read_again(h, h->file_fd[i]) < 0) {
			h->failed_reads++;
			continue;
		}
		text = (const char *)h->text.data;
		switch (i) {
		case HOST_STAT:
			gs_host_parse_cpu(text, &now, &s->n_cpus);
			break;
		case HOST_MEMINFO:
			gs_host_parse_meminfo(text, s);
			break;
		case HOST_LOADAVG:
			gs_host_parse_loadavg(text, s);
			break;
		case HOST_DISKSTATS:
			gs_host_parse_diskstats(text, &now);
			break;
		default:
			gs_host_parse_net_dev(text, &now);
			break;
		}
	}
	if (!h->time_ns)
		memset(before, 0xff, sizeof(*before));
	ticks = now.cpu_total != UINT64_MAX && before->cpu_total != UINT64_MAX &&
				now.cpu_total > before->cpu_total
			? now.cpu_total - before->cpu_total
			: 0;
	s->iowait_ratio = share_of(now.cpu_iowait, before->cpu_iowait, ticks);
	s->cpu_ratio = share_of(now.cpu_idle, before->cpu_idle, ticks);
	if (s->cpu_ratio >= 0)
		s->cpu_ratio = s->cpu_ratio > 1 ? 0 : 1 - s->cpu_ratio;
	s->disk_read_bps = rate_of(now.disk_read_bytes, before->disk_read_bytes, s->elapsed_ns);
	s->disk_write_bps =
		rate_of(now.disk_written_bytes, before->disk_written_bytes, s->elapsed_ns);
	s->net_rx_bps = rate_of(now.net_rx_bytes, before->net_rx_bytes, s->elapsed_ns);
	s->net_tx_bps = rate_of(now.net_tx_bytes, before->net_tx_bytes, s->elapsed_ns);
	*before = now;
	h->time_ns = s->time_ns;
}

int gs_host_read(struct gs_host *h, const uint32_t *pids, size_t n_pids, bool all,
		 struct gs_host_snapshot **ret)
{
	struct gs_host_snapshot *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	read_machine(h, &s->sample);
	r = gs_host_read_processes(h, pids, n_pids, all, s);
	s->sample.failed_reads = h->failed_reads;
	if (r < 0)
		gs_host_snapshot_free(&s);
	else
		*ret = s;
	return r;
}

const char *gs_host_user_name(struct gs_host *h, uint32_t uid)
{
	struct passwd entry, *found = NULL;
	uint64_t at;
	char text[4096], **names;

	if (uid == UINT32_MAX)
		return "";
	if (gs_map_get(&h->users, uid, &at))
		return h->user_names[at];
	if (h->n_users == HOST_MAX_USERS)
		return "";
	if (!gs_vec_reserve_next(&h->user_names, h->n_users))
		return "";
	names = h->user_names;
	getpwuid_r(uid, &entry, text, sizeof(text), &found);
	names[h->n_users] = strdup(found ? entry.pw_name : "");
	if (!names[h->n_users])
		return "";
	if (gs_map_put(&h->users, uid, h->n_users) < 0) {
		free(names[h->n_users]);
		return "";
	}
	return names[h->n_users++];
}

int gs_host_read_environ(struct gs_host *h, uint32_t pid, struct gs_buf *buf)
{
	char name[32];
	GS_CLOSE int fd = -1;
	int r;

	snprintf(name, sizeof(name), "%u/environ", pid);
	fd = openat(h->proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read_again(h, fd);
	if (r < 0)
		return r;
	return gs_buf_put(buf, h->text.data, h->text.bytes + 1);
}

int gs_host_signal(struct gs_host *h, uint32_t pid, uint64_t start_ns, int number)
{
	/* The descriptor keeps meaning this process, so that what is looked at is what is hit. */
	GS_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct gs_host_stat stat;

	if (fd < 0)
		return -errno;
	if (start_ns &&
	    (gs_host_read_stat(h, pid, &stat) < 0 || stat.start_ticks != start_ns / h->ns_per_tick))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) < 0 ? -errno : 0;
}
