/*
 * The caller's side: ask the worker, and complete its snapshot with what does not need the driver:
 * the kernel's log, names of processes, users and containers.
 */
#include "sources/gpu/gpu.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"
#include "sources/identity/identity.h"

#define USERS_MAX 256

struct user {
	uint32_t uid;
	char name[32];
};

struct gs_gpu {
	struct gs_gpu_worker *worker;
	struct gs_gpu_snapshot *last; /* owned copy; NULL: none yet */
	struct gs_identity *place;
	struct gs_kmsg kmsg;
	unsigned groups;
	unsigned event_sources;
	uint64_t missed;
	struct user users[USERS_MAX]; /* names once looked up: the answer may come over a network */
	unsigned n_users;
	uint32_t *pids; /* owned; those of the snapshot before */
	unsigned n_pids;
};

int gs_gpu_open(const struct gs_gpu_options *options, struct gs_gpu **ret, struct gs_err *err)
{
	struct gs_gpu_options o = *options;
	struct gs_gpu *gpu = calloc(1, sizeof(*gpu));
	int r;

	if (!gpu)
		return -ENOMEM;
	gpu->kmsg.fd = -1;
	o.groups = o.groups ? o.groups : GS_GPU_READ_ALL;
	o.hang_ns = o.hang_ns ? o.hang_ns : 5000000000ull;
	o.slow_ns = o.slow_ns ? o.slow_ns : 30000000000ull;
	o.sysfs_root = o.sysfs_root ? o.sysfs_root : "/sys";
	o.proc_root = o.proc_root ? o.proc_root : "/proc";
	gpu->groups = o.groups;
	gpu->place = gs_identity_new(o.proc_root);
	r = gpu->place ? gs_gpu_worker_new(&o, &gpu->worker, err) : -ENOMEM;
	if (r < 0) {
		gs_identity_free(&gpu->place);
		free(gpu);
		return r;
	}
	gpu->event_sources = GS_GPU_EVENT_NVML;
	if (o.groups & GS_GPU_READ_EVENTS) {
		r = gs_kmsg_open(&gpu->kmsg, o.kmsg_path ? o.kmsg_path : "/dev/kmsg");
		if (r == 0)
			gpu->event_sources |= GS_GPU_EVENT_KMSG;
		else
			gs_log(GS_LOG_INFO, GS_LOG_GPU,
			       "gpu: the kernel's log cannot be read (%s): XIDs from NVML only",
			       strerror(-r));
	}
	*ret = gpu;
	return 0;
}

static void log_costs(struct gs_gpu *gpu)
{
	struct gs_gpu_cost c[GS_GPU_COSTS_MAX];
	size_t n = gs_gpu_costs(gpu, GS_GPU_COST_BY_PART, c, GS_ARRAY_LEN(c));

	for (size_t i = 0; i < n; i++)
		gs_log(GS_LOG_DEBUG, GS_LOG_COST,
		       "GPUs: %s: read %llu times, %.3f ms of processor time each, last each %.2f s",
		       c[i].name, (unsigned long long)c[i].n,
		       (double)c[i].cpu_ns / 1e6 / (double)c[i].n, (double)c[i].interval_ns / 1e9);
}

void gs_gpu_close(struct gs_gpu **ref)
{
	struct gs_gpu *gpu = *ref;

	if (!gpu)
		return;
	log_costs(gpu);
	gs_gpu_worker_free(&gpu->worker);
	gs_gpu_snapshot_free(&gpu->last);
	gs_identity_free(&gpu->place);
	gs_kmsg_close(&gpu->kmsg);
	free(gpu->pids);
	free(gpu);
	*ref = NULL;
}

static const char *user_name(struct gs_gpu *gpu, uint32_t uid)
{
	struct passwd pw, *found = NULL;
	struct user *u;
	char room[4096];

	for (unsigned i = 0; i < gpu->n_users; i++)
		if (gpu->users[i].uid == uid)
			return gpu->users[i].name;
	u = &gpu->users[gpu->n_users < USERS_MAX ? gpu->n_users++ : uid % USERS_MAX];
	u->uid = uid;
	if (getpwuid_r(uid, &pw, room, sizeof(room), &found) == 0 && found)
		snprintf(u->name, sizeof(u->name), "%s", pw.pw_name);
	else
		snprintf(u->name, sizeof(u->name), "%u", uid);
	return u->name;
}

/* A process that left the GPUs may have ended and its pid been reused: look at it again. */
static void forget_ended(struct gs_gpu *gpu, const struct gs_gpu_snapshot *s)
{
	uint32_t *pids = s->n_processes ? malloc(s->n_processes * sizeof(*pids)) : NULL;

	for (unsigned i = 0; i < gpu->n_pids; i++) {
		bool there = false;

		for (unsigned j = 0; j < s->n_processes && !there; j++)
			there = s->process[j].pid == gpu->pids[i];
		if (!there)
			gs_identity_exit(gpu->place, gpu->pids[i], "");
	}
	for (unsigned i = 0; pids && i < s->n_processes; i++)
		pids[i] = s->process[i].pid;
	free(gpu->pids);
	gpu->pids = pids;
	gpu->n_pids = pids ? s->n_processes : 0;
}

static void name_processes(struct gs_gpu *gpu, struct gs_gpu_snapshot *s)
{
	forget_ended(gpu, s);
	for (unsigned i = 0; i < s->n_processes; i++) {
		struct gs_gpu_process *p = &s->process[i];
		const struct gs_identity_process *who = gs_identity_process(gpu->place, p->pid);

		if (!who || (who->gone && !who->comm[0])) {
			p->gone = 1;
			continue;
		}
		p->gone = who->gone;
		p->uid = who->uid;
		p->start_ns = who->start_ns;
		memcpy(p->comm, who->comm, sizeof(p->comm));
		snprintf(p->user, sizeof(p->user), "%s", user_name(gpu, who->uid));
		snprintf(p->container, sizeof(p->container), "%s", who->container);
		snprintf(p->cmdline, sizeof(p->cmdline), "%s", who->cmdline);
	}
}

/* An event of the kernel's log names a GPU by its bus id alone, also one that is lost by now. */
static void name_events(const struct gs_gpu *gpu, struct gs_gpu_snapshot *s)
{
	const struct gs_gpu_snapshot *from[] = {s, gpu->last};

	for (unsigned i = 0; i < s->n_events; i++)
		for (unsigned k = 0; k < 2 && !s->event[i].uuid[0]; k++)
			for (unsigned j = 0; from[k] && j < from[k]->n_gpus; j++)
				if (!from[k]->info[j].is_mig && strcmp(from[k]->info[j].pci_bus_id,
								       s->event[i].pci_bus_id) == 0)
					memcpy(s->event[i].uuid, from[k]->info[j].uuid,
					       sizeof(s->event[i].uuid));
}

static int take_events(struct gs_gpu *gpu, struct gs_gpu_snapshot *s)
{
	struct gs_gpu_events *events = gs_gpu_worker_events(gpu->worker);
	unsigned sources = gpu->event_sources;

	gs_kmsg_read(&gpu->kmsg, events);
	/* While NVML does not answer, nothing comes from it. */
	if (s->state != GS_GPU_STATE_OK && sources != GS_GPU_EVENT_NVML)
		sources &= ~(unsigned)GS_GPU_EVENT_NVML;
	s->event = calloc(GS_GPU_EVENTS_MAX, sizeof(*s->event));
	if (!s->event)
		return -ENOMEM;
	s->n_events = gs_gpu_events_take(events, sources, gs_clock_boot_ns(), s->event);
	pthread_mutex_lock(&events->lock);
	s->lost_events = events->lost;
	pthread_mutex_unlock(&events->lock);
	if (!s->n_events)
		gs_free_p(&s->event);
	name_events(gpu, s);
	return 0;
}

/* What was known last, marked as such. */
static struct gs_gpu_snapshot *snapshot_of_hung(struct gs_gpu *gpu, uint64_t since_ns)
{
	struct gs_gpu_snapshot *s =
		gpu->last ? gs_gpu_snapshot_copy(gpu->last) : calloc(1, sizeof(*s));

	char what[160];

	if (!s)
		return NULL;
	gs_free_p(&s->event);
	s->n_events = 0;
	for (unsigned i = 0; i < s->n_processes; i++)
		s->process[i].kept = 1;
	s->state = GS_GPU_STATE_HUNG;
	gs_gpu_worker_waits_for(gpu->worker, since_ns, what, sizeof(what));
	snprintf(s->state_text, sizeof(s->state_text),
		 "NVIDIA's driver does not answer in time: %s; %s (see dmesg for NVRM messages)",
		 what, s->n_gpus ? "values are the last known" : "nothing is known yet");
	s->time_ns = gs_clock_boot_ns();
	s->wall_ns = (int64_t)gs_clock_wall_ns();
	s->read_ns = 0;
	gpu->missed++;
	return s;
}

int gs_gpu_read(struct gs_gpu *gpu, struct gs_gpu_snapshot **ret)
{
	return gs_gpu_read_groups(gpu, GS_GPU_READ_ALL, ret);
}

int gs_gpu_read_groups(struct gs_gpu *gpu, unsigned groups, struct gs_gpu_snapshot **ret)
{
	struct gs_gpu_snapshot *s = NULL;
	uint64_t since_ns = gs_clock_mono_ns();
	int r = gs_gpu_worker_read(gpu->worker, groups, &s);

	if (r == -ETIMEDOUT) {
		s = snapshot_of_hung(gpu, since_ns);
		r = s ? 0 : -ENOMEM;
	} else if (r == 0) {
		name_processes(gpu, s);
	}
	if (r == 0 && groups & gpu->groups & GS_GPU_READ_EVENTS)
		r = take_events(gpu, s);
	if (r < 0) {
		gs_gpu_snapshot_free(&s);
		return r;
	}
	s->missed_samples = gpu->missed;
	s->failed_calls = gs_gpu_worker_failed_calls(gpu->worker);
	if (s->state != GS_GPU_STATE_HUNG) {
		gs_gpu_snapshot_free(&gpu->last);
		gpu->last = gs_gpu_snapshot_copy(s);
	}
	*ret = s;
	return 0;
}

void gs_gpu_set_budget(struct gs_gpu *gpu, double budget)
{
	gs_gpu_worker_set_budget(gpu->worker, budget);
}

int gs_gpu_set_focus(struct gs_gpu *gpu, const struct gs_gpu_uuid *uuids, size_t n)
{
	return gs_gpu_worker_set_focus(gpu->worker, uuids, n);
}

int gs_gpu_release(struct gs_gpu *gpu)
{
	return gs_gpu_worker_release(gpu->worker, true);
}

void gs_gpu_resume(struct gs_gpu *gpu)
{
	(void)gs_gpu_worker_release(gpu->worker, false);
}

bool gs_gpu_accounting_off(const struct gs_gpu *gpu)
{
	return gs_gpu_worker_accounting_off(gpu->worker);
}

const char *gs_gpu_topology(struct gs_gpu *gpu, uint32_t a, uint32_t b)
{
	return gs_gpu_worker_topology(gpu->worker, a, b);
}

size_t gs_gpu_costs(struct gs_gpu *gpu, enum gs_gpu_cost_by by, struct gs_gpu_cost *ret,
		    size_t room)
{
	return gs_gpu_worker_costs(gpu->worker, by, ret, room);
}
