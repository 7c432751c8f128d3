/*
 * NVIDIA's devices stay allowed (agent --configure-device-cgroups; sources/device_cgroup): a thread of
 * its own looks at the control groups, so that a slow /proc or a slow verifier does not hold up the
 * GPUs.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "commands/agent_devices/agent_devices.h"
#include "commands/common/cli.h"
#include "core/base/clock.h"
#include "sources/device_cgroup/keeper.h"

struct agent_devices {
	struct agent_devices_conf conf;
	struct gs_device_keeper *keeper; /* owned; the thread's until it has ended */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	struct gs_device_keeper_stats stats; /* of the last tick */
};

static void report_device(void *ctx, const char *text)
{
	(void)ctx;
	gs_cli_print_message("agent: %s", text);
}

static void *keep_on(void *arg)
{
	struct agent_devices *d = arg;
	struct gs_device_keeper_stats stats;
	struct timespec due;
	uint64_t due_ns;

	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		pthread_mutex_unlock(&d->lock);
		gs_device_keeper_tick(d->keeper, gs_clock_mono_ns());
		gs_device_keeper_stats(d->keeper, &stats);
		pthread_mutex_lock(&d->lock);
		d->stats = stats;
		due_ns = gs_clock_mono_ns() + d->conf.interval_ns;
		due.tv_sec = (time_t)(due_ns / 1000000000);
		due.tv_nsec = (long)(due_ns % 1000000000);
		while (!d->stop && pthread_cond_timedwait(&d->wake, &d->lock, &due) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

int agent_devices_start(const struct agent_devices_conf *conf, struct agent_devices **ret,
			struct gs_err *err)
{
	const struct gs_device_keeper_options o = {
		.size = sizeof(o),
		.host_root = conf->host_root[0] ? conf->host_root : NULL,
		.self = true,
		.holders = conf->grant == AGENT_DEVICES_JOBS,
		.retries = (unsigned)conf->retries,
		.report = report_device,
	};
	struct agent_devices *d;
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	*ret = NULL;
	if (conf->grant == AGENT_DEVICES_NONE)
		return 0;
	d = calloc(1, sizeof(*d));
	r = d ? gs_device_keeper_new(&o, &d->keeper) : -ENOMEM;
	if (r < 0) {
		free(d);
		return gs_err_set(err, r, "cannot keep devices allowed: %s", strerror(-r));
	}
	d->conf = *conf;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->wake, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&d->thread, NULL, keep_on, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		pthread_cond_destroy(&d->wake);
		pthread_mutex_destroy(&d->lock);
		gs_device_keeper_free(&d->keeper);
		free(d);
		return gs_err_set(err, r, "cannot start a thread: %s", strerror(-r));
	}
	*ret = d;
	return 0;
}

void agent_devices_stop(struct agent_devices **ref)
{
	struct agent_devices *d = *ref;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	pthread_cond_destroy(&d->wake);
	pthread_mutex_destroy(&d->lock);
	gs_device_keeper_free(&d->keeper);
	free(d);
	*ref = NULL;
}

bool agent_devices_same(const struct agent_devices_conf *a, const struct agent_devices_conf *b)
{
	return a->grant == b->grant && a->interval_ns == b->interval_ns &&
	       a->retries == b->retries && strcmp(a->host_root, b->host_root) == 0;
}

void agent_devices_metrics(struct gs_metrics *p, struct agent_devices *d)
{
	struct gs_device_keeper_stats s;

	pthread_mutex_lock(&d->lock);
	s = d->stats;
	pthread_mutex_unlock(&d->lock);

	const struct {
		const char *state;
		unsigned n;
	} of[] = {{"allowed", s.n_allowed}, {"forbidden", s.n_forbidden}, {"unknown", s.n_unknown}};

	gs_metrics_family(
		p, "gpuscope_agent_device_cgroups", GS_METRICS_GAUGE, "",
		"Cgroups for which NVIDIA devices are kept allowed, by the state of their rules.");
	for (size_t i = 0; i < GS_ARRAY_LEN(of); i++) {
		struct gs_metrics_label l = {"state", of[i].state};

		gs_metrics_line(p, "", &l, 1, of[i].n, 0);
	}
	gs_metrics_one(
		p, "gpuscope_agent_device_cgroups_paused", GS_METRICS_GAUGE, s.n_paused,
		"Cgroups left alone for the rest of an hour, because another program keeps forbidding the devices.");
	gs_metrics_one(p, "gpuscope_agent_device_grants", GS_METRICS_COUNTER, (double)s.grants,
		       "Cgroups whose rules were changed when first seen.");
	gs_metrics_one(
		p, "gpuscope_agent_device_regrants", GS_METRICS_COUNTER, (double)s.regrants,
		"Times that devices were allowed again after another program had written the rules.");
	gs_metrics_one(p, "gpuscope_agent_device_errors", GS_METRICS_COUNTER, (double)s.errors,
		       "Failed attempts to read or change device rules of cgroups.");
	gs_metrics_one(p, "gpuscope_agent_device_left_out", GS_METRICS_COUNTER, (double)s.dropped,
		       "Cgroups and processes left out because there were too many.");
}

void agent_devices_status(struct agent_devices *d, struct gs_buf *out)
{
	pthread_mutex_lock(&d->lock);
	(void)gs_buf_printf(
		out,
		"devices: %u cgroups allowed, %u forbidden, %u unknown, %u left alone; %llu granted, %llu granted again, %llu errors\n",
		d->stats.n_allowed, d->stats.n_forbidden, d->stats.n_unknown, d->stats.n_paused,
		(unsigned long long)d->stats.grants, (unsigned long long)d->stats.regrants,
		(unsigned long long)d->stats.errors);
	pthread_mutex_unlock(&d->lock);
}
