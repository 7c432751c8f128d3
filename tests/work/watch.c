/*
 * Follows a command, processes or a cgroup with the work probes and prints what they counted as
 * JSON: the front end that tests and the bench use.
 *
 * usage: work_watch [-f FAMILIES] [-g] [-n] [-a] [-T] [-e N] [-p PID] [-c CGROUP_ID] [-s SECONDS]
 *                   [-k MAX_KEYS] [-m GPU_MAJOR] [-r TIMES] [-q] [COMMAND...]
 *   -g by cgroup; -n do not follow children; -a all processes; -T count calls, do not time them;
 *   -e time one of N calls that do not sleep;
 *   -q no output but "ready" (the bench: until stdin ends); -r run the command so many times, one
 * after the other, and forget each before the next one
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sources/taskstats/taskstats.h"

static void put_io(const struct gs_taskstats_io_count *io)
{
	printf("{\"reads\":%llu,\"writes\":%llu,\"read_bytes\":%llu,\"write_bytes\":%llu,"
	       "\"errors\":%llu,\"total_ns\":%llu}",
	       io->reads, io->writes, io->read_bytes, io->write_bytes, io->errors, io->total_ns);
}

static void put_work(const struct gs_taskstats *w)
{
	printf("\"time\":{");
	for (unsigned i = 0; i < GS_TIME_COUNT; i++)
		printf("%s\"%s\":%llu", i ? "," : "", gs_taskstats_time_name(i), w->time_ns[i]);
	printf("},\"wall_ns\":%" PRIu64 ",\"io\":{", gs_taskstats_wall_ns(w));
	for (unsigned i = 0; i < GS_TASKSTATS_IO_KINDS; i++) {
		printf("%s\"%s\":", i ? "," : "", gs_taskstats_io_name(i));
		put_io(&w->io[i]);
	}
	printf("},\"voluntary\":%llu,\"forced\":%llu,\"migrations\":%llu,\"started\":%llu,"
	       "\"ended\":%llu,\"syscalls\":%llu,\"syscall_errors\":%llu,\"syscall_ns\":%llu,",
	       w->switches_voluntary, w->switches_forced, w->migrations, w->threads_started,
	       w->threads_ended, w->syscalls, w->syscall_errors, w->syscall_ns);
	printf("\"disk_reads\":%llu,\"disk_writes\":%llu,\"disk_read_bytes\":%llu,"
	       "\"disk_write_bytes\":%llu,\"disk_ns\":%llu,\"cached_bytes\":%" PRIu64 ",",
	       w->disk_reads, w->disk_writes, w->disk_read_bytes, w->disk_write_bytes, w->disk_ns,
	       gs_taskstats_cached_bytes(w));
	printf("\"sent\":%llu,\"received\":%llu,\"connects\":%llu,\"accepts\":%llu,"
	       "\"retransmits\":%llu,\"minor\":%llu,\"major\":%llu,\"oom\":%llu",
	       w->net_sent_bytes, w->net_received_bytes, w->net_connects, w->net_accepts,
	       w->net_retransmits, w->faults_minor, w->faults_major, w->oom_kills);
}

static uint64_t sum_hist(const __u32 hist[GS_TASKSTATS_LOG2])
{
	uint64_t sum = 0;

	for (unsigned b = 0; b < GS_TASKSTATS_LOG2; b++)
		sum += hist[b];
	return sum;
}

static void put_calls(const struct gs_taskstats_row *row)
{
	char name[64];

	printf(",\"calls\":{");
	for (size_t i = 0; i < row->n_calls; i++) {
		const struct gs_taskstats_syscall *c = &row->calls[i].call;
		uint64_t in_hist = sum_hist(c->hist);

		printf("%s\"%s\":{\"calls\":%llu,\"errors\":%llu,\"total_ns\":%llu,\"max_ns\":%llu,"
		       "\"timed\":%llu,\"in_hist\":%" PRIu64 "}",
		       i ? "," : "", gs_taskstats_call_name(row->calls[i].id, name, sizeof(name)),
		       c->calls, c->errors, c->total_ns, c->max_ns, c->timed, in_hist);
	}
	printf("}");
}

static void put_tables(const struct gs_taskstats_row *row)
{
	printf(",\"disks\":[");
	for (size_t i = 0; i < row->n_disks; i++) {
		const struct gs_taskstats_disk_row *d = &row->disks[i];

		printf("%s{\"name\":\"%s\",\"major\":%u,\"minor\":%u,\"reads\":%llu,\"read_bytes\":"
		       "%"
		       "llu,\"writes\":%llu,\"write_bytes\":%llu,\"total_ns\":%llu,"
		       "\"flushes\":%llu,\"flush_ns\":%llu,\"in_hist\":%" PRIu64 "}",
		       i ? "," : "", d->name, d->major, d->minor, d->disk.reads, d->disk.read_bytes,
		       d->disk.writes, d->disk.write_bytes, d->disk.total_ns, d->disk.flushes,
		       d->disk.flush_ns, sum_hist(d->disk.hist));
	}
	printf("],\"mounts\":[");
	for (size_t i = 0; i < row->n_mounts; i++) {
		printf("%s{\"path\":\"%s\",\"type\":\"%s\",\"kind\":\"%s\",\"io\":", i ? "," : "",
		       row->mounts[i].path, row->mounts[i].type,
		       gs_taskstats_io_name(row->mounts[i].kind));
		put_io(&row->mounts[i].io);
		printf("}");
	}
	printf("],\"peers\":[");
	for (size_t i = 0; i < row->n_peers; i++) {
		const struct gs_taskstats_peer_row *r = &row->peers[i];
		const struct gs_taskstats_peer *p = &r->peer;

		printf("%s{\"family\":%u,\"port\":%u,\"addr\":\"", i ? "," : "", r->family,
		       r->port);
		for (unsigned b = 0; b < (r->family == 2 ? 4 : 16); b++)
			printf("%02x", r->addr[b]);
		printf("\",\"sent\":%llu,\"received\":%llu,\"connects\":%llu,\"accepts\":%llu,"
		       "\"failed\":%llu,\"retransmits\":%llu,\"connect_ns\":%llu,\"rtt_ns\":%llu,"
		       "\"rtt_count\":%llu}",
		       p->sent_bytes, p->received_bytes, p->connects, p->accepts,
		       p->failed_connects, p->retransmits, p->connect_ns, p->rtt_ns, p->rtt_count);
	}
	printf("]");
}

static void put(const struct gs_taskstats_snapshot *s, const struct gs_taskstats_probe *p)
{
	printf("{\"elapsed_ns\":[%" PRIu64 ",%" PRIu64 "],\"missing\":[", s->mono_ns - s->ready_ns,
	       s->mono_ns - s->begun_ns);
	for (size_t i = 0; gs_taskstats_probe_missing(p, i); i++)
		printf("%s\"%s\"", i ? "," : "", gs_taskstats_probe_missing(p, i));
	printf("],\"missed\":%" PRIu64 ",\"ends\":%" PRIu64 ",\"open\":%" PRIu64
	       ",\"open_bytes\":%" PRIu64 ",\"losses\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64
	       ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],\"rows\":[",
	       s->losses.missed, s->losses.ends, s->open_requests, s->open_bytes,
	       s->losses.keys_full, s->losses.cells_full, s->losses.threads, s->losses.requests,
	       s->losses.torn, s->losses.aio);
	for (size_t i = 0; i < s->n_rows; i++) {
		const struct gs_taskstats_row *r = &s->rows[i];

		printf("%s{\"id\":%" PRIu64
		       ",\"pid\":%u,\"parent\":%u,\"uid\":%u,\"cgroup\":%" PRIu64
		       ",\"comm\":\"%s\",\"threads\":%u,",
		       i ? "," : "", r->id, r->pid, r->parent_pid, r->uid, r->cgroup, r->comm,
		       r->n_threads);
		put_work(&r->work);
		put_calls(r);
		put_tables(r);
		printf("}");
	}
	printf("]}\n");
}

/* A child that waits on *ret_go before it becomes the command. */
static pid_t start(char **argv, int *ret_go)
{
	int go[2];
	pid_t pid;
	char c;

	if (pipe(go) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &c, 1) == 1)
			execvp(argv[0], argv);
		_exit(127);
	}
	close(go[0]);
	*ret_go = go[1];
	return pid;
}

/* Reads and forgets until one that has ended was given back: its last switch comes after wait(). */
static size_t forget_one(struct gs_taskstats_probe *p, struct gs_err *err)
{
	struct gs_taskstats_snapshot *s;
	size_t n = 0;

	for (int i = 0; n == 0 && i < 5000 && gs_taskstats_probe_read(p, &s, err) == 0; i++) {
		n = gs_taskstats_probe_forget_ended(p, s);
		gs_taskstats_snapshot_free(s);
		if (n == 0)
			usleep(2000);
	}
	return n;
}

/* The command once more, followed from before its first instruction. */
static int run_again(struct gs_taskstats_probe *p, char **argv, struct gs_err *err)
{
	int go, status, r;
	pid_t child = start(argv, &go);

	if (child < 0)
		return -errno;
	r = gs_taskstats_probe_follow_pid(p, (uint32_t)child, err);
	if (r == 0 && write(go, "", 1) != 1)
		r = -errno;
	if (r < 0)
		kill(child, SIGKILL);
	close(go);
	waitpid(child, &status, 0);
	return r;
}

static int fail(int r, const struct gs_err *err)
{
	fprintf(stderr, "work_watch: %s\n", gs_err_text(err, r));
	return r == -EPERM || r == -ENOTSUP ? 3 : 1;
}

int main(int argc, char **argv)
{
	struct gs_taskstats_options o = {.size = sizeof(o)};
	uint32_t pids[64], major;
	uint64_t cgroup;
	struct gs_taskstats_snapshot *s;
	struct gs_taskstats_probe *p;
	struct gs_err err = {""};
	double seconds = 0;
	long times = 0;
	bool quiet = false;
	pid_t child = -1;
	size_t gone = 0;
	int opt, r, go = -1, status;

	o.pids = pids;
	while ((opt = getopt(argc, argv, "+f:gnaTe:p:c:s:k:m:r:q")) != -1) {
		if (opt == 'f' && gs_taskstats_families_parse(optarg, &o.families, &err) < 0)
			return fail(-EINVAL, &err) + 1;
		if (opt == 'g')
			o.by_cgroup = true;
		if (opt == 'n')
			o.no_follow = true;
		if (opt == 'a')
			o.all = true;
		if (opt == 'T')
			o.no_call_times = true;
		if (opt == 'e')
			o.call_every = (uint32_t)atol(optarg);
		if (opt == 'q')
			quiet = true;
		if (opt == 'p' && o.n_pids < 63)
			pids[o.n_pids++] = (uint32_t)atol(optarg);
		if (opt == 'c') {
			cgroup = strtoull(optarg, NULL, 10);
			o.cgroups = &cgroup;
			o.n_cgroups = 1;
		}
		if (opt == 's')
			seconds = atof(optarg);
		if (opt == 'k')
			o.max_keys = (uint32_t)atol(optarg);
		if (opt == 'r')
			times = atol(optarg);
		if (opt == 'm') {
			major = (uint32_t)atol(optarg);
			o.gpu_majors = &major;
			o.n_gpu_majors = 1;
		}
		if (opt == '?')
			return 2;
	}
	if (argv[optind]) {
		child = start(argv + optind, &go);
		if (!o.n_cgroups && !o.all)
			pids[o.n_pids++] = (uint32_t)child;
	}
	r = gs_taskstats_probe_new(&o, &p, &err);
	if (r < 0) {
		if (child > 0)
			kill(child, SIGKILL);
		return fail(r, &err);
	}
	if (quiet) {
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	if (child > 0 && write(go, "", 1) == 1) {
		if (seconds == 0)
			waitpid(child, &status, 0);
		for (long i = 1; i < times; i++) {
			gone += forget_one(p, &err);
			r = run_again(p, argv + optind, &err);
			if (r < 0)
				return fail(r, &err);
		}
	}
	if (seconds > 0)
		usleep((useconds_t)(seconds * 1e6));
	/*
	 * A process' last switch comes after its parent has been told of the end, and requests that
	 * it has made end when the device likes.
	 */
	for (int i = 0; i < 100; i++) {
		usleep(20000);
		r = gs_taskstats_probe_read(p, &s, &err);
		if (r < 0)
			return fail(r, &err);
		if (s->open_requests == 0 || i == 99)
			break;
		gs_taskstats_snapshot_free(s);
	}
	if (!quiet)
		put(s, p);
	if (gone)
		fprintf(stderr, "forgot %zu\n", gone);
	gs_taskstats_snapshot_free(s);
	gs_taskstats_probe_free(p);
	if (child > 0 && seconds > 0)
		kill(child, SIGKILL);
	return 0;
}
