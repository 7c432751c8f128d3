/*
 * Each look reads, for every thread, its scheduler counters and (when it is off the processor) the
 * call it is in. The time since the look before is divided: on the processor and in the run queue
 * as counted, the rest to what it was found waiting for. So the parts sum to the thread's wall
 * time.
 */
#include "sources/host/taskstats.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/vec.h"
#include "sources/host/host_int.h"
#include "sources/host/wait.h"
#include "model/node/job_usage.h"

#define PROCESS_MAX     65536
#define STATUS_EVERY_NS 1000000000ull /* switches are read this often */

struct thread {
	uint32_t tid, pid;
	uint64_t at_ns; /* of the last look */
	uint64_t cpu_ns, queue_ns, slices;
	uint64_t voluntary, forced, status_ns;
	uint32_t look;                /* number of the last look that found it */
	uint64_t lock_ns;             /* of the wait for a lock that it is in */
	struct gs_taskstats_lead did; /* lock_ns: less waits that have become idle ones */
	uint64_t worked_ns;           /* of its busy_ns, without waits for a processor */
	uint8_t cause; /* enum gs_taskstats_time, of the last look that found it off the processor */
};

struct process {
	uint32_t pid, group, parent;
	uint64_t start_ticks;
	uint64_t cpu_ticks, child_ticks; /* of its life: own, of waited-for children */
	uint64_t first_cpu_ticks, first_child_ticks;
	uint64_t faults_minor, faults_major;
	uint64_t io[4]; /* read and written bytes, reads, writes: as /proc/PID/io */
	uint64_t disk[2];
	uint64_t first_io_bytes;
	int64_t rss_bytes;
	uint64_t threads_cpu_ns; /* what its threads were seen to use */
	/* Of its threads, from since_ns to seen_ns (boot clock): what the pace of its job is made of. */
	uint64_t time_ns[GS_TIME_COUNT], idle_ns, switches;
	uint64_t since_ns, seen_ns;
	struct gs_taskstats_lead lead; /* the one that worked most, */
	uint64_t lead_worked_ns;       /* and how long */
	bool io_known, any_thread_ended;
	bool naps; /* a thread was found asleep that had run since the look before */
};

/* When threads were read: reading all of them takes long where others have the processors. */
struct moments {
	uint64_t base_ns, sum_ns; /* of the first one; what the others were later, added up */
	uint32_t n;
};

struct group {
	struct gs_host_taskstats_total total;
	struct gs_job_pace ended; /* of processes that are gone */
	uint64_t causes_unknown, causes_known;
	/* CPU time of children as the kernel added it to their parents, and as we saw it ourselves. */
	uint64_t reaped_ticks, ended_ticks;
	bool used, io_failed, no_queue;
	cpu_set_t cpus;
	struct moments first, last;
};

struct gs_host_taskstats {
	int proc_fd; /* owned */
	uint64_t ns_per_tick, page_bytes;
	uint32_t look;
	uint64_t look_ns;        /* boot clock; of the look before */
	struct process *process; /* owned */
	size_t n_processes, process_capacity;
	struct thread *thread; /* owned */
	size_t n_threads, thread_capacity;
	struct gs_map by_pid, by_tid;
	struct group group[GS_HOST_TASKSTATS_GROUPS];
};

int gs_host_taskstats_open(const char *proc_root, struct gs_host_taskstats **ret,
			   struct gs_err *err)
{
	GS_FREE struct gs_host_taskstats *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->proc_fd = open(proc_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->proc_fd < 0)
		return gs_err_set(err, -errno, "cannot open %s: %s", proc_root, strerror(errno));
	w->ns_per_tick = 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK);
	w->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	w->by_pid = GS_MAP_INIT(PROCESS_MAX);
	w->by_tid = GS_MAP_INIT(4 * PROCESS_MAX);
	w->look_ns = gs_clock_boot_ns();
	*ret = gs_take(w);
	return 0;
}

void gs_host_taskstats_close(struct gs_host_taskstats **ref)
{
	struct gs_host_taskstats *w = *ref;

	if (!w)
		return;
	close(w->proc_fd);
	gs_map_fini(&w->by_pid);
	gs_map_fini(&w->by_tid);
	free(w->process);
	free(w->thread);
	free(w);
	*ref = NULL;
}

/* The text of a small file, terminated. Its bytes, or a negative errno. */
static ssize_t read_file(int proc_fd, const char *name, char *text, size_t bytes)
{
	GS_CLOSE int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, bytes - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return n;
}

struct long_stat { /* what gs_host_parse_stat() does not read */
	uint64_t minflt, majflt, cpu_ticks, child_ticks;
};

static bool parse_long_stat(const char *text, struct long_stat *ret)
{
	const char *at = strrchr(text, ')');
	unsigned long long minflt, majflt, utime, stime;
	long long cutime, cstime;

	/* proc(5): after the name state, ppid, pgrp, session, tty, tpgid, flags, minflt, cminflt,
	 * majflt, cmajflt, utime, stime, cutime, cstime. */
	if (!at ||
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu %lld %lld",
		   &minflt, &majflt, &utime, &stime, &cutime, &cstime) != 6)
		return false;
	*ret = (struct long_stat){
		minflt, majflt, utime + stime,
		(uint64_t)((cutime > 0 ? cutime : 0) + (cstime > 0 ? cstime : 0))};
	return true;
}

static int read_stat(struct gs_host_taskstats *w, uint32_t pid, struct gs_host_stat *ret_stat,
		     struct long_stat *ret_long)
{
	char name[32], text[1024];
	ssize_t n;

	snprintf(name, sizeof(name), "%u/stat", pid);
	n = read_file(w->proc_fd, name, text, sizeof(text));
	if (n < 0)
		return (int)n;
	return gs_host_parse_stat(text, (size_t)n, ret_stat) && parse_long_stat(text, ret_long)
		       ? 0
		       : -EBADMSG;
}

static uint64_t field_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* False: not permitted, or not there. */
static bool read_io(struct gs_host_taskstats *w, uint32_t pid, uint64_t io[4], uint64_t disk[2])
{
	char name[32], text[512];

	snprintf(name, sizeof(name), "%u/io", pid);
	if (read_file(w->proc_fd, name, text, sizeof(text)) <= 0)
		return false;
	io[0] = field_of(text, "rchar: ");
	io[1] = field_of(text, "wchar: ");
	io[2] = field_of(text, "syscr: ");
	io[3] = field_of(text, "syscw: ");
	disk[0] = field_of(text, "\nread_bytes: ");
	disk[1] = field_of(text, "\nwrite_bytes: ");
	return true;
}

static void *grow_array(void *array, size_t n, size_t *capacity, size_t bytes)
{
	if (n >= *capacity && !gs_vec_grow(&array, bytes, capacity, n + 1, SIZE_MAX))
		return NULL;
	return array;
}

bool gs_host_taskstats_watches(const struct gs_host_taskstats *w, uint32_t pid)
{
	uint64_t at;

	return gs_map_get(&w->by_pid, pid, &at);
}

static void note_affinity(struct group *g, uint32_t pid)
{
	cpu_set_t cpus;

	if (sched_getaffinity((pid_t)pid, sizeof(cpus), &cpus) == 0) {
		CPU_OR(&g->cpus, &g->cpus, &cpus);
		g->total.n_cores = (uint32_t)CPU_COUNT(&g->cpus);
	}
}

static struct thread *find_thread(struct gs_host_taskstats *w, uint32_t tid)
{
	uint64_t at;

	return gs_map_get(&w->by_tid, tid, &at) ? &w->thread[at] : NULL;
}

static struct thread *add_thread(struct gs_host_taskstats *w, struct process *p, uint32_t tid)
{
	void *more = grow_array(w->thread, w->n_threads, &w->thread_capacity, sizeof(*w->thread));
	struct thread *t;

	if (!more)
		return NULL;
	w->thread = more;
	if (gs_map_put(&w->by_tid, tid, w->n_threads) < 0)
		return NULL;
	t = &w->thread[w->n_threads++];
	*t = (struct thread){.tid = tid, .pid = p->pid, .cause = GS_TIME_OTHER};
	return t;
}

struct reading { /* of a thread, now */
	uint64_t cpu_ns, queue_ns, slices, start_ns;
	char state;
	bool has_queue;
};

static bool read_thread(struct gs_host_taskstats *w, const struct process *p, uint32_t tid,
			struct reading *ret)
{
	char name[64], text[1024];
	unsigned long long cpu, queue, slices;
	struct gs_host_stat stat;
	ssize_t n;

	snprintf(name, sizeof(name), "%u/task/%u/stat", p->pid, tid);
	n = read_file(w->proc_fd, name, text, sizeof(text));
	if (n <= 0 || !gs_host_parse_stat(text, (size_t)n, &stat))
		return false;
	*ret = (struct reading){.cpu_ns = stat.cpu_ticks * w->ns_per_tick,
				.start_ns = stat.start_ticks * w->ns_per_tick,
				.state = stat.state};
	snprintf(name, sizeof(name), "%u/task/%u/schedstat", p->pid, tid);
	n = read_file(w->proc_fd, name, text, sizeof(text));
	if (n > 0 && sscanf(text, "%llu %llu %llu", &cpu, &queue, &slices) == 3) {
		ret->cpu_ns = cpu;
		ret->queue_ns = queue;
		ret->slices = slices;
		ret->has_queue = true;
	}
	return true;
}

static void read_switches(struct gs_host_taskstats *w, struct process *p, struct thread *t,
			  bool count, uint64_t now_ns)
{
	struct group *g = &w->group[p->group];
	char name[64], text[2048];
	uint64_t voluntary, forced;

	snprintf(name, sizeof(name), "%u/task/%u/status", t->pid, t->tid);
	if (read_file(w->proc_fd, name, text, sizeof(text)) <= 0)
		return;
	voluntary = field_of(text, "\nvoluntary_ctxt_switches:\t");
	forced = field_of(text, "\nnonvoluntary_ctxt_switches:\t");
	if (count && voluntary >= t->voluntary && forced >= t->forced) {
		g->total.work.switches_voluntary += voluntary - t->voluntary;
		g->total.work.switches_forced += forced - t->forced;
		p->switches += voluntary - t->voluntary + forced - t->forced;
	}
	t->voluntary = voluntary;
	t->forced = forced;
	t->status_ns = now_ns;
}

/* What it waits for, when it is off the processor. */
static void find_cause(struct gs_host_taskstats *w, struct group *g, struct thread *t, char state)
{
	struct host_syscall s = {.nr = -1};
	char name[64], text[256];
	int r = -1;

	if (state == 'R')
		return;
	snprintf(name, sizeof(name), "%u/task/%u/syscall", t->pid, t->tid);
	if (read_file(w->proc_fd, name, text, sizeof(text)) > 0)
		r = gs_host_parse_syscall(text, &s);
	if (r == 0) { /* it went on meanwhile */
		if (state == 'D')
			t->cause = GS_TIME_DISK;
		return;
	}
	t->cause = (uint8_t)gs_host_wait_cause(w->proc_fd, t->pid, state, &s);
	if (r > 0 || state == 'D')
		g->causes_known++;
	else
		g->causes_unknown++;
}

static uint64_t growth_since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void add_time(struct group *g, struct process *p, unsigned cause, uint64_t ns)
{
	g->total.work.time_ns[cause] += ns;
	p->time_ns[cause] += ns;
}

/* A wait is over when the thread has had a processor since the look before. */
static void note_lock(struct group *g, struct process *p, struct thread *t, uint64_t off, bool ran)
{
	uint64_t before = t->lock_ns;

	if (ran || t->cause != GS_TIME_LOCK) {
		t->lock_ns = 0;
		return;
	}
	t->lock_ns += off;
	t->did.lock_ns += off;
	if (t->lock_ns >= GS_TASKSTATS_IDLE_NS) {
		uint64_t idle_ns = before >= GS_TASKSTATS_IDLE_NS ? off : t->lock_ns;

		g->total.work.idle_ns += idle_ns;
		p->idle_ns += idle_ns;
		t->did.lock_ns -= idle_ns;
	}
}

/* What a thread did since the last look; the one that has done most sets the pace of its process. How
 * long it waited for a processor to do that says nothing: on a busy machine a helper waits as long. */
static void note_work(struct process *p, struct thread *t, uint64_t cpu, uint64_t queue,
		      uint64_t off)
{
	uint64_t worked = t->cause == GS_TIME_DISK || t->cause == GS_TIME_GPU ? cpu + off : cpu;
	uint64_t wall = cpu + queue + off;

	if (t->cause == GS_TIME_NETWORK)
		t->did.wire_ns += off;
	t->did.busy_ns += worked + queue;
	t->worked_ns += worked;
	t->did.wall_ns += wall;
	t->did.lived_ns += wall;
	if (t->worked_ns < p->lead_worked_ns)
		return;
	p->lead = t->did;
	p->lead_worked_ns = t->worked_ns;
}

static void moments_add(struct moments *m, uint64_t now_ns)
{
	if (m->n == 0)
		*m = (struct moments){.base_ns = now_ns};
	m->sum_ns += now_ns - m->base_ns;
	m->n++;
}

static void sample_thread(struct gs_host_taskstats *w, struct process *p, uint32_t tid, bool first)
{
	struct group *g = &w->group[p->group];
	struct thread *t = find_thread(w, tid);
	uint64_t cpu, queue, wall, off, now_ns = gs_clock_boot_ns();
	bool is_new = !t || t->pid != p->pid, ran;
	struct reading now;

	if (!read_thread(w, p, tid, &now))
		return; /* just ended */
	if (!t)
		t = add_thread(w, p, tid);
	if (!t)
		return;
	t->look = w->look;
	if (is_new) {
		*t = (struct thread){.tid = tid,
				     .pid = p->pid,
				     .look = w->look,
				     .cause = GS_TIME_OTHER,
				     .at_ns = now.start_ns};
		if (first) { /* what it did before is not ours */
			t->at_ns = now_ns;
			t->cpu_ns = now.cpu_ns;
			t->queue_ns = now.queue_ns;
		} else {
			g->total.work.threads_started++;
		}
		read_switches(w, p, t, !first, now_ns);
	}
	/* Who joins a job later does not make it shorter. */
	if (!first)
		moments_add(&g->last, now_ns);
	else if (!g->total.to_ns)
		moments_add(&g->first, now_ns);
	find_cause(w, g, t, now.state);
	g->no_queue |= !now.has_queue;
	cpu = growth_since(now.cpu_ns, t->cpu_ns);
	queue = growth_since(now.queue_ns, t->queue_ns);
	wall = growth_since(now_ns, t->at_ns);
	/* The counters are read a little after the clock. */
	if (cpu > wall)
		cpu = wall;
	if (queue > wall - cpu)
		queue = wall - cpu;
	off = wall - cpu - queue;
	add_time(g, p, GS_TIME_CPU, cpu);
	/* The kernel adds a wait to its counter when the thread gets a processor: one that is
	 * runnable and got none since the last look has been waiting for it. */
	if (now.state == 'R' && now.has_queue &&
	    (t->cause == GS_TIME_OTHER || now.slices == t->slices)) {
		queue += off;
		off = 0;
	}
	add_time(g, p, GS_TIME_RUNQUEUE, queue);
	add_time(g, p, t->cause, off);
	ran = cpu > 0 || now.slices != t->slices;
	p->naps |= !is_new && ran && t->cause == GS_TIME_SLEEP;
	note_lock(g, p, t, off, ran);
	note_work(p, t, cpu, queue, off);
	p->threads_cpu_ns += cpu;
	t->cpu_ns += cpu;
	t->queue_ns = now.queue_ns;
	t->slices = now.slices;
	t->at_ns = now_ns;
	if (now_ns - t->status_ns >= STATUS_EVERY_NS)
		read_switches(w, p, t, true, now_ns);
}

static void sample_threads(struct gs_host_taskstats *w, struct process *p, bool first)
{
	struct group *g = &w->group[p->group];
	char name[32];
	struct dirent *d;
	DIR *dir;
	int fd;

	snprintf(name, sizeof(name), "%u/task", p->pid);
	fd = openat(w->proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		if (fd >= 0)
			close(fd);
		g->total.failed_reads += errno != ENOENT && errno != ESRCH;
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
			sample_thread(w, p, (uint32_t)strtoul(d->d_name, NULL, 10), first);
	closedir(dir);
	p->seen_ns = gs_clock_boot_ns();
}

static void take_io(struct gs_host_taskstats *w, struct process *p, bool count)
{
	struct group *g = &w->group[p->group];
	uint64_t io[4], disk[2];

	if (!read_io(w, p->pid, io, disk)) {
		if (!p->io_known)
			g->io_failed = true;
		return;
	}
	if (count) {
		/* Which kind of file it was is not known: see the words of the report. */
		struct gs_taskstats_io_count *c = &g->total.work.io[GS_IO_FILE];

		c->read_bytes += growth_since(io[0], p->io[0]);
		c->write_bytes += growth_since(io[1], p->io[1]);
		c->reads += growth_since(io[2], p->io[2]);
		c->writes += growth_since(io[3], p->io[3]);
		g->total.work.disk_read_bytes += growth_since(disk[0], p->disk[0]);
		g->total.work.disk_write_bytes += growth_since(disk[1], p->disk[1]);
	}
	memcpy(p->io, io, sizeof(io));
	memcpy(p->disk, disk, sizeof(disk));
	p->io_known = true;
}

int gs_host_taskstats_add(struct gs_host_taskstats *w, uint32_t group, uint32_t pid, bool born)
{
	struct group *g = &w->group[group];
	struct gs_host_stat stat;
	struct long_stat l;
	struct process *p;
	void *more;
	int r;

	if (group >= GS_HOST_TASKSTATS_GROUPS)
		return -EINVAL;
	g->used = true;
	if (gs_host_taskstats_watches(w, pid))
		return 0;
	r = read_stat(w, pid, &stat, &l);
	if (r < 0)
		return -ESRCH;
	more = grow_array(w->process, w->n_processes, &w->process_capacity, sizeof(*w->process));
	if (!more)
		return -ENOMEM;
	w->process = more;
	r = gs_map_put(&w->by_pid, pid, w->n_processes);
	if (r < 0)
		return r;
	p = &w->process[w->n_processes++];
	*p = (struct process){.pid = pid,
			      .group = group,
			      .parent = stat.parent_pid,
			      .start_ticks = stat.start_ticks,
			      .since_ns = born ? stat.start_ticks * w->ns_per_tick
					       : gs_clock_boot_ns()};
	g->total.n_processes_seen++;
	note_affinity(g, pid);
	if (!born) {
		p->first_cpu_ticks = p->cpu_ticks = l.cpu_ticks;
		p->first_child_ticks = p->child_ticks = l.child_ticks;
		p->faults_minor = l.minflt;
		p->faults_major = l.majflt;
	}
	take_io(w, p, born);
	if (!born)
		p->first_io_bytes = p->io[0] + p->io[1];
	sample_threads(w, p, !born);
	return 0;
}

/* False: it is gone. */
static bool sample_process(struct gs_host_taskstats *w, struct process *p)
{
	struct group *g = &w->group[p->group];
	struct gs_host_stat stat;
	struct long_stat l;

	if (read_stat(w, p->pid, &stat, &l) < 0 || stat.start_ticks != p->start_ticks ||
	    stat.state == 'Z' || stat.state == 'X')
		return false;
	p->parent = stat.parent_pid;
	g->reaped_ticks += growth_since(l.child_ticks, p->child_ticks);
	p->cpu_ticks = l.cpu_ticks;
	p->child_ticks = l.child_ticks;
	g->total.work.faults_minor += growth_since(l.minflt, p->faults_minor);
	g->total.work.faults_major += growth_since(l.majflt, p->faults_major);
	p->faults_minor = l.minflt;
	p->faults_major = l.majflt;
	p->rss_bytes = (int64_t)(stat.rss_pages * w->page_bytes);
	take_io(w, p, true);
	sample_threads(w, p, false);
	return true;
}

/* CPU time that its threads, as they were seen, did not use: of threads that came and went. */
static uint64_t hidden_ns(const struct gs_host_taskstats *w, const struct process *p)
{
	uint64_t reaped_ns = (p->cpu_ticks - p->first_cpu_ticks) * w->ns_per_tick;

	/* Both counts round. */
	return p->any_thread_ended ? growth_since(reaped_ns, p->threads_cpu_ns + 2 * w->ns_per_tick)
				   : 0;
}

/* Between threads that hardly run, chance decides which looks busiest. */
static bool works_enough(const struct gs_taskstats_lead *lead)
{
	return (double)lead->busy_ns > 0.1 * (double)lead->lived_ns;
}

static void add_pace(const struct gs_host_taskstats *w, const struct process *p, bool has_lead,
		     struct gs_job_pace *pace)
{
	struct gs_taskstats work = {.idle_ns = p->idle_ns, .switches_voluntary = p->switches};

	memcpy(work.time_ns, p->time_ns, sizeof(work.time_ns));
	work.time_ns[GS_TIME_CPU] += hidden_ns(w, p);
	gs_job_pace_add(pace, &(struct gs_job_pace_process){
				      .work = &work,
				      .lead = has_lead ? &p->lead : NULL,
				      .naps = p->naps,
				      .elapsed_ns = growth_since(p->seen_ns, p->since_ns),
				      .others_ns = UINT64_MAX});
}

/* The pace of a job, process by process: a thread that works is no lead of those of another process.
 * unseen_ns: what processors did for it that came and went between two looks. */
static void sum_pace(const struct gs_host_taskstats *w, uint32_t group, uint64_t unseen_ns,
		     struct gs_job_pace *ret)
{
	struct gs_taskstats unseen = {.time_ns[GS_TIME_CPU] = unseen_ns};
	bool has_lead = false;

	*ret = w->group[group].ended;
	for (size_t i = 0; i < w->n_processes; i++)
		has_lead |= w->process[i].group == group && works_enough(&w->process[i].lead);
	for (size_t i = 0; i < w->n_processes; i++)
		if (w->process[i].group == group)
			add_pace(w, &w->process[i], has_lead, ret);
	if (unseen_ns)
		gs_job_pace_add(ret, &(struct gs_job_pace_process){.work = &unseen,
								   .elapsed_ns = unseen_ns,
								   .others_ns = UINT64_MAX});
}

static void forget_threads(struct gs_host_taskstats *w)
{
	for (size_t i = 0; i < w->n_threads;) {
		struct thread *t = &w->thread[i];
		uint64_t at;

		if (t->look == w->look) {
			i++;
			continue;
		}
		if (gs_map_get(&w->by_pid, t->pid, &at)) {
			struct process *p = &w->process[at];

			p->any_thread_ended = true;
			w->group[p->group].total.work.threads_ended++;
		}
		gs_map_del(&w->by_tid, t->tid);
		*t = w->thread[--w->n_threads];
		if (i < w->n_threads)
			gs_map_put(&w->by_tid, t->tid, i);
	}
}

static void forget_process(struct gs_host_taskstats *w, size_t i)
{
	struct process *p = &w->process[i];
	struct group *g = &w->group[p->group];

	g->total.unseen_cpu_ns += hidden_ns(w, p);
	add_pace(w, p, works_enough(&p->lead), &g->ended);
	g->ended_ticks += p->cpu_ticks + p->child_ticks;
	gs_map_del(&w->by_pid, p->pid);
	*p = w->process[--w->n_processes];
	if (i < w->n_processes)
		gs_map_put(&w->by_pid, p->pid, i);
}

void gs_host_taskstats_reuse(struct gs_host_taskstats *w, uint32_t group)
{
	for (size_t i = 0; i < w->n_processes;)
		if (w->process[i].group == group)
			forget_process(w, i);
		else
			i++;
	w->group[group] = (struct group){0};
}

static uint64_t moments_mean(const struct moments *m)
{
	return m->n ? m->base_ns + m->sum_ns / m->n : 0;
}

uint64_t gs_host_taskstats_poll(struct gs_host_taskstats *w)
{
	uint64_t now_ns = gs_clock_boot_ns();

	w->look++;
	for (uint32_t i = 0; i < GS_HOST_TASKSTATS_GROUPS; i++) {
		w->group[i].last.n = 0;
		w->group[i].total.rss_bytes = 0;
		w->group[i].total.n_processes = 0;
	}
	for (size_t i = 0; i < w->n_processes;) {
		struct process *p = &w->process[i];
		struct group *g = &w->group[p->group];

		if (!sample_process(w, p)) {
			forget_process(w, i);
			continue;
		}
		g->total.rss_bytes += p->rss_bytes;
		g->total.n_processes++;
		i++;
	}
	for (uint32_t i = 0; i < GS_HOST_TASKSTATS_GROUPS; i++) {
		struct gs_host_taskstats_total *t = &w->group[i].total;

		if (t->rss_bytes > t->rss_peak_bytes)
			t->rss_peak_bytes = t->rss_bytes;
		if (w->group[i].last.n)
			t->to_ns = moments_mean(&w->group[i].last);
	}
	forget_threads(w);
	w->look_ns = now_ns;
	return gs_clock_boot_ns() - now_ns;
}

void gs_host_taskstats_total(const struct gs_host_taskstats *w, uint32_t group,
			     struct gs_host_taskstats_total *ret)
{
	const struct group *g = &w->group[group];
	uint64_t unseen_ns = g->total.unseen_cpu_ns;
	uint64_t reaped_ns = growth_since(g->reaped_ticks, g->ended_ticks) * w->ns_per_tick;

	*ret = g->total;
	sum_pace(w, group, reaped_ns, &ret->pace);
	for (size_t i = 0; i < w->n_processes; i++)
		if (w->process[i].group == group)
			unseen_ns += hidden_ns(w, &w->process[i]);
	unseen_ns += reaped_ns;
	ret->from_ns = moments_mean(&g->first);
	ret->unseen_cpu_ns = unseen_ns;
	ret->work.time_ns[GS_TIME_CPU] += unseen_ns;
	if (!g->used)
		return;
	ret->known =
		GS_TASKSTATS_KNOWS_TIME | GS_TASKSTATS_KNOWS_SWITCHES | GS_TASKSTATS_KNOWS_FAULTS;
	if (!g->no_queue)
		ret->known |= GS_TASKSTATS_KNOWS_RUNQUEUE;
	/* A few misses are threads that ended meanwhile. */
	if (g->causes_unknown * 20 <= g->causes_known)
		ret->known |= GS_TASKSTATS_KNOWS_CAUSES;
	if (!g->io_failed)
		ret->known |= GS_TASKSTATS_KNOWS_IO;
}

bool gs_host_taskstats_of(const struct gs_host_taskstats *w, uint32_t pid,
			  struct gs_host_taskstats_process *ret)
{
	const struct process *p;
	uint64_t at;

	if (!gs_map_get(&w->by_pid, pid, &at))
		return false;
	p = &w->process[at];
	*ret = (struct gs_host_taskstats_process){
		.cpu_ns = p->threads_cpu_ns + hidden_ns(w, p),
		.io_bytes = p->io[0] + p->io[1] - p->first_io_bytes,
	};
	return true;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

size_t gs_host_taskstats_pids(const struct gs_host_taskstats *w, uint32_t group, uint32_t *pids,
			      size_t n_pids)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_processes; i++)
		if (w->process[i].group == group) {
			if (n < n_pids)
				pids[n] = w->process[i].pid;
			n++;
		}
	if (n_pids)
		qsort(pids, n < n_pids ? n : n_pids, sizeof(*pids), by_number);
	return n;
}

uint32_t gs_host_taskstats_families(uint32_t host)
{
	static const struct {
		uint32_t host;
		enum gs_job_family family;
	} same[] = {
		{GS_TASKSTATS_KNOWS_TIME, GS_JOB_KNOWS_TIME},
		{GS_TASKSTATS_KNOWS_RUNQUEUE, GS_JOB_KNOWS_RUNQUEUE},
		{GS_TASKSTATS_KNOWS_CAUSES, GS_JOB_KNOWS_CAUSES},
		{GS_TASKSTATS_KNOWS_SWITCHES, GS_JOB_KNOWS_SWITCHES},
		{GS_TASKSTATS_KNOWS_IO, GS_JOB_KNOWS_IO},
		{GS_TASKSTATS_KNOWS_FAULTS, GS_JOB_KNOWS_FAULTS},
	};
	uint32_t known = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(same); i++)
		if (host & same[i].host)
			known |= 1u << same[i].family;
	return known;
}
