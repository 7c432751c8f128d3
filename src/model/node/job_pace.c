/*
 * Which processes of a job decide what it is short of, and what they did. A job has launchers
 * (srun, mpirun), shells that wait for commands, and threads that are parked in poll or on a
 * condition: put into the divisor they make every share small, and a poll of a socket that nothing
 * comes by looks like a slow network. So each process is asked by itself: what it did, and what it
 * waited for, as parts of the time of one thread at least.
 *
 * Of a process, the threads that work most set the pace. What others wait for counts as far as it
 * is like what those wait for: threads that share a lock all wait for it, while a pool without
 * work, or a thread that writes to a queue, waits in the same calls for something to do. And who
 * waits for a thread that lacks a processor, at a barrier or for a lock in its hands, lacks that
 * processor too.
 */
#include "model/node/job_usage.h"

#define LEAST_ACTIVE   0.1  /* of its wall time; below: it decides nothing */
#define LEAST_FED      0.01 /* the same of one that waits for its workers */
#define QUEUE_MOST     12   /* waits for a processor, by time on one: waking up is no demand */
#define NET_OPERATIONS 5.0  /* by second of waiting; with fewer calls, and fewer */
#define NET_BYTES      1e4  /* bytes than that, the sockets are quiet */
#define NET_WAKES      12.0 /* by second of waiting; a server without clients wakes up for its timers */
#define SWITCHES_NS    2e9  /* of a process, until its switches were read twice */
#define LOCK_WAIT_NS   2e8  /* longer mean waits are those of a pool that has no work */
#define INPUT_READS    0.1  /* by second of waiting: fewer reads bring no data */
#define LIKE           0.5  /* of two ratios that are the same in kind */
#define LEAST_MOVED    0.01 /* of one thread's time, of a job in which a lock is held by a thread */

/* What a process waited for in one kind of call. */
struct wait {
	double counted_ns; /* as one that sets the pace */
	double parked_ns;  /* the rest of the threads that do not */
	double held_up_ns; /* for a thread that waited for a processor */
	double for_work_ns; /* of those that set the pace: for what no other thread works on either */
};

static double smaller_of(double a, double b)
{
	return a < b ? a : b;
}

/* Unix sockets between processes that work together are what pipes are. */
static bool speaks_to_family(const struct gs_job_pace_process *p)
{
	return (p->has_workers || p->is_worker) && p->knows_net && !p->work->net_sent_bytes &&
	       !p->work->net_received_bytes;
}

/* What it waits in pipes, or what is the same, in ns of all its threads. */
static double pipe_ns(const struct gs_job_pace_process *p)
{
	const __u64 *t = p->work->time_ns;

	return (double)t[GS_TIME_PIPE] + (speaks_to_family(p) ? (double)t[GS_TIME_NETWORK] : 0);
}

static double network_ns(const struct gs_job_pace_process *p)
{
	const struct gs_taskstats *w = p->work;
	double ns = (double)w->time_ns[GS_TIME_NETWORK], s = ns / 1e9;
	const struct gs_taskstats_io_count *io = &w->io[GS_IO_SOCKET];
	/* What returns without data, as at the end of a timeout, is no operation. */
	double calls = (double)(io->reads + io->writes) - (double)io->errors;
	double bytes = (double)(w->net_sent_bytes + w->net_received_bytes);
	/* Each ends a wait; a processor that others take away does not. */
	double leaves = (double)w->switches_voluntary;
	bool is_quiet = p->knows_net
				? calls < NET_OPERATIONS * s && bytes < NET_BYTES * s
				: leaves < NET_WAKES * s && (double)p->elapsed_ns > SWITCHES_NS;

	/* Where calls are not counted: a thread that hardly ever wakes up has received hardly anything. */
	return is_quiet || speaks_to_family(p) ? 0 : ns;
}

static double lock_ns(const struct gs_taskstats *w)
{
	double ns = (double)w->time_ns[GS_TIME_LOCK] - (double)w->idle_ns;
	double leaves = (double)w->switches_voluntary;

	return leaves > 0 && ns / leaves > LOCK_WAIT_NS ? 0 : ns;
}

uint64_t gs_job_pace_worked_ns(const struct gs_taskstats *w)
{
	const __u64 *t = w->time_ns;

	return t[GS_TIME_CPU] + t[GS_TIME_DISK] + t[GS_TIME_GPU];
}

uint64_t gs_job_pace_busy_ns(const struct gs_taskstats *w)
{
	return gs_job_pace_worked_ns(w) + w->time_ns[GS_TIME_RUNQUEUE];
}

/* Requests of a disk go on while the thread that made them waits for a processor, so that the wait for
 * them is short or none. Nothing of what could go on beside its computing is taken for such a wait, and
 * no more than it waited for disks otherwise: a thread that hardly waits has its data in time. */
static double hidden_disk_ns(const struct gs_taskstats *w)
{
	double disk = (double)w->time_ns[GS_TIME_DISK], cpu = (double)w->time_ns[GS_TIME_CPU];
	double beyond = (double)w->disk_ns - disk - cpu;

	if (beyond <= 0)
		return 0;
	return smaller_of(smaller_of(beyond, disk), (double)w->time_ns[GS_TIME_RUNQUEUE]);
}

/* The other threads together wait at most as those that set the pace do, for what they are at work.
 * most_ns: the most that those can have waited so. */
static struct wait wait_of(const struct gs_job_pace_process *p, double ns, double lead_ns,
			   double most_ns)
{
	double others, rest = ns > lead_ns ? ns - lead_ns : 0, lead = smaller_of(lead_ns, ns);

	if (!p->lead || !p->lead->busy_ns)
		return (struct wait){.counted_ns = ns};
	others = (double)gs_job_pace_busy_ns(p->work) / (double)p->lead->busy_ns - 1;
	others = others > 0 ? others : 0;
	return (struct wait){.counted_ns = smaller_of(lead, most_ns) +
					   smaller_of(rest, others * smaller_of(lead, most_ns)),
			     .parked_ns = rest - smaller_of(rest, others * lead)};
}

static double queue_ns(const struct gs_taskstats *w)
{
	return smaller_of((double)w->time_ns[GS_TIME_RUNQUEUE],
			  QUEUE_MOST * (double)w->time_ns[GS_TIME_CPU]);
}

/* What the threads that set the pace waited for another one that waited for a processor: as long as
 * a thread at work does. That lengthens a wait for a lock just so, and is all of one at a barrier. */
static double held_up_ns(const struct gs_job_pace_process *p, double factor)
{
	const struct gs_taskstats_lead *lead = p->lead;
	double n = factor;

	if (lead->lived_ns && lead->wall_ns > lead->lived_ns)
		n *= (double)lead->wall_ns / (double)lead->lived_ns;
	return queue_ns(p->work) / factor * smaller_of(1, n - 1);
}

/* Whether the other threads wait for locks as much as the one that sets the pace, for what they do. */
static bool shares_locks(const struct gs_job_pace_process *p, double lock)
{
	double lead_lock = (double)p->lead->lock_ns, lead_busy = (double)p->lead->busy_ns;
	double rest_lock = lock - lead_lock;
	double rest_busy = (double)gs_job_pace_busy_ns(p->work) - lead_busy;

	return rest_lock >= LIKE * lead_lock &&
	       rest_busy * lead_lock >= LIKE * lead_busy * rest_lock;
}

/* While no other thread is at work, a thread waits for work: the holder of a lock is at work, or waits
 * for the lock itself at other times. */
static struct wait wait_for_locks(const struct gs_job_pace_process *p)
{
	const struct gs_taskstats_lead *lead = p->lead;
	double ns = lock_ns(p->work), most = ns, factor;
	struct wait w;

	if (!lead)
		return (struct wait){.counted_ns = ns};
	if (lead->wall_ns < 1.5 * (double)lead->lived_ns && !shares_locks(p, ns))
		most = (double)gs_job_pace_busy_ns(p->work) - (double)lead->busy_ns +
		       (double)p->others_ns;
	w = wait_of(p, ns, (double)lead->lock_ns, most);
	if ((double)lead->lock_ns > most)
		w.for_work_ns = (double)lead->lock_ns - most;
	factor = lead->busy_ns ? (double)gs_job_pace_busy_ns(p->work) / (double)lead->busy_ns : 0;
	if (factor >= 1) {
		w.held_up_ns = smaller_of(w.counted_ns, factor * held_up_ns(p, factor));
		w.counted_ns -= w.held_up_ns;
	}
	return w;
}

/* Time in which a process waited for data that its workers did not work on either. */
static double starved_ns(const struct gs_job_pace_process *p, double active, double *ret_waited)
{
	const struct gs_taskstats *w = p->work;
	double waited = smaller_of(pipe_ns(p), (double)p->elapsed_ns);

	*ret_waited = 0;
	if (!p->has_workers || (double)w->io[GS_IO_PIPE].reads < INPUT_READS * waited / 1e9 ||
	    active < LEAST_FED * (active + waited))
		return 0;
	*ret_waited = waited;
	return waited > (double)p->workers_ns ? waited - (double)p->workers_ns : 0;
}

/* Time of the threads that are at work: as much for what the others work as for what those that set the
 * pace do. The rest is parked; in this a thread that waits for a processor would be lost. */
static double working_wall_ns(const struct gs_job_pace_process *p, double all)
{
	const struct gs_taskstats_lead *lead = p->lead;

	if (!lead || !lead->busy_ns)
		return all;
	return smaller_of(all, (double)lead->wall_ns * (double)gs_job_pace_busy_ns(p->work) /
				       (double)lead->busy_ns);
}

/* Waiting for a processor divides as the rest of the process does: others lengthen it, but they do not
 * change what the process is short of by itself. How long it would be without them is not known: its
 * other waits may be for something that came meanwhile. alone_ns takes none of them for that. */
void gs_job_pace_add(struct gs_job_pace *pace, const struct gs_job_pace_process *p)
{
	const struct gs_taskstats *w = p->work;
	const __u64 *t = w->time_ns;
	double cpu = (double)t[GS_TIME_CPU], hidden = hidden_disk_ns(w);
	double disk = (double)t[GS_TIME_DISK] + hidden;
	double gpu = (double)t[GS_TIME_GPU], net = network_ns(p), own, active, waited, by;
	struct wait lock = wait_for_locks(p);
	double queued = (double)t[GS_TIME_RUNQUEUE] - hidden + lock.held_up_ns;
	double queue = smaller_of(queued, queue_ns(w) + lock.held_up_ns);
	struct wait wire = wait_of(p, net, p->lead ? (double)p->lead->wire_ns : 0, net);
	double all =
		(double)(gs_taskstats_wall_ns(w) - w->idle_ns) - lock.parked_ns - wire.parked_ns;
	double wall, alone, working;

	/* While it has to wait for work, too, it keeps up: with a processor at once it would wait for that longer. */
	queue -= smaller_of(queue, lock.for_work_ns);
	own = cpu + disk + wire.counted_ns + lock.counted_ns + gpu;
	active = own + queue;
	/* The reading end of a pipe is part of whatever it waits for. */
	all += starved_ns(p, active, &waited) - pipe_ns(p);
	wall = smaller_of(all, (double)p->elapsed_ns);
	working = working_wall_ns(p, all);
	alone = working > queued ? wall * (working - queued) / working : 0;
	if (wall < active)
		wall = active;
	if (alone < own)
		alone = own;
	pace->n_all++;
	pace->n_related += p->knows_related;
	pace->moved_ns += (uint64_t)(cpu + disk + gpu + net);
	pace->naps |= p->naps;
	if (p->elapsed_ns > pace->longest_ns)
		pace->longest_ns = p->elapsed_ns;
	if (own <= 0 || (active < LEAST_ACTIVE * wall && waited <= 0))
		return;
	by = active / own;
	pace->n++;
	pace->wall_ns += (uint64_t)wall;
	pace->active_ns += (uint64_t)active;
	pace->alone_ns += (uint64_t)(cpu * wall / alone);
	pace->cpu_ns += (uint64_t)(by * cpu);
	pace->disk_ns += (uint64_t)(by * disk);
	pace->network_ns += (uint64_t)(by * wire.counted_ns);
	pace->lock_ns += (uint64_t)(by * lock.counted_ns);
	pace->gpu_ns += (uint64_t)(by * gpu);
	if (waited > 0) {
		pace->input_ns += (uint64_t)waited;
		pace->fed_wall_ns += (uint64_t)smaller_of(active + waited, (double)p->elapsed_ns);
	}
}

/* A thread that holds a lock for which others wait is at work, or sleeps with it for a while. Threads of a
 * server without clients wait on conditions by the same system call, for a timer or for work. */
static bool nothing_moves(const struct gs_job_pace *p)
{
	return !p->naps && (double)p->moved_ns < LEAST_MOVED * (double)p->longest_ns;
}

void gs_job_pace_shares(const struct gs_job_pace *p, struct gs_job_pace_share *ret)
{
	double by = p->wall_ns ? 1 / (double)p->wall_ns : 0;
	double lock = (double)p->lock_ns, active = (double)p->active_ns;

	if (nothing_moves(p)) {
		active -= smaller_of(lock, active);
		lock = 0;
	}
	*ret = (struct gs_job_pace_share){
		.idle = 1 - smaller_of(by * active, 1),
		.compute = by * (double)p->cpu_ns,
		.alone = by * (double)p->alone_ns,
		.disk = by * (double)p->disk_ns,
		.network = by * (double)p->network_ns,
		.lock = by * lock,
		.gpu = by * (double)p->gpu_ns,
		.input = p->fed_wall_ns
				 ? smaller_of((double)p->input_ns / (double)p->fed_wall_ns, 1)
				 : 0,
	};
}
