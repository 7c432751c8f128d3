/*
 * Which processes of a job decide what it is short of, and what they did. A job has launchers
 * (srun, mpirun), shells that wait for commands, and threads that are parked in poll or on a
 * condition: put into the divisor they make every share small, and a poll of a socket that nothing
 * comes by looks like a slow network. So each process is asked by itself: what it did, and what it
 * waited for, as parts of the time of one thread at least.
 */
#include "model/node/job_usage.h"

#define LEAST_ACTIVE   0.1 /* of its wall time; below: it decides nothing */
#define QUEUE_MOST     12  /* waits for a processor, by time on one: waking up is no demand */
#define NET_OPERATIONS 5.0 /* by second of waiting; with fewer calls, and fewer */
#define NET_BYTES      1e4 /* bytes than that, the sockets are quiet */
#define LOCK_WAIT_NS   2e8 /* longer mean waits are those of a pool that has no work */

static double smaller_of(double a, double b)
{
	return a < b ? a : b;
}

static double network_ns(const struct gs_taskstats *w, bool knows_net)
{
	double ns = (double)w->time_ns[GS_TIME_NETWORK], s = ns / 1e9;
	double calls = (double)(w->io[GS_IO_SOCKET].reads + w->io[GS_IO_SOCKET].writes);
	double bytes = (double)(w->net_sent_bytes + w->net_received_bytes);

	return !knows_net || calls >= NET_OPERATIONS * s || bytes >= NET_BYTES * s ? ns : 0;
}

static double lock_ns(const struct gs_taskstats *w)
{
	double ns = (double)w->time_ns[GS_TIME_LOCK] - (double)w->idle_ns;
	double leaves = (double)(w->switches_voluntary + w->switches_forced);

	return leaves > 0 && ns / leaves > LOCK_WAIT_NS ? 0 : ns;
}

void gs_job_pace_add(struct gs_job_pace *p, const struct gs_taskstats *w, uint64_t elapsed_ns,
		     bool knows_net)
{
	const __u64 *t = w->time_ns;
	double cpu = (double)t[GS_TIME_CPU], disk = (double)t[GS_TIME_DISK];
	double queue = smaller_of((double)t[GS_TIME_RUNQUEUE], QUEUE_MOST * cpu);
	double gpu = (double)t[GS_TIME_GPU], net = network_ns(w, knows_net), lock = lock_ns(w);
	double active = cpu + queue + disk + net + lock + gpu, wall = -(double)w->idle_ns;

	/* The reading end of a pipe is part of whatever it waits for. */
	for (unsigned i = 0; i < GS_TIME_COUNT; i++)
		wall += i == GS_TIME_PIPE ? 0 : (double)t[i];
	wall = smaller_of(wall, (double)elapsed_ns);
	if (wall < active)
		wall = active;
	p->n_all++;
	if (active < LEAST_ACTIVE * wall || active <= 0)
		return;
	p->n++;
	p->wall_ns += (uint64_t)wall;
	p->active_ns += (uint64_t)active;
	p->cpu_ns += (uint64_t)cpu;
	p->disk_ns += (uint64_t)disk;
	p->network_ns += (uint64_t)net;
	p->lock_ns += (uint64_t)lock;
	p->gpu_ns += (uint64_t)gpu;
}

/* Waiting for a processor divides as the rest does: others lengthen it, but they do not change what
 * the job is short of by itself. */
void gs_job_pace_shares(const struct gs_job_pace *p, struct gs_job_pace_share *ret)
{
	double own = (double)(p->cpu_ns + p->disk_ns + p->network_ns + p->lock_ns + p->gpu_ns);
	double active = p->wall_ns ? (double)p->active_ns / (double)p->wall_ns : 0;

	own = own > 0 ? active / own : 0;
	*ret = (struct gs_job_pace_share){
		.idle = 1 - active,
		.compute = own * (double)p->cpu_ns,
		.disk = own * (double)p->disk_ns,
		.network = own * (double)p->network_ns,
		.lock = own * (double)p->lock_ns,
		.gpu = own * (double)p->gpu_ns,
	};
}
