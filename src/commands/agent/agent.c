/*
 * gpuscope agent: reads the GPUs of this node for as long as it runs and serves what it read. This
 * file is the loop and its signals:
 *
 *   SIGHUP   read the configuration again (a bad one is reported and the old one stays)
 *   SIGUSR1  release the driver, so that a GPU can be reset or its MIG instances changed; SIGUSR2 reacquire it
 *   SIGTERM, SIGINT  end
 *
 * The control socket takes the same as commands.
 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "core/base/clock.h"
#include "core/base/systemd.h"
#include "core/base/fmt.h"
#include "core/base/log.h"
#include "core/sandbox/sandbox.h"
#include "commands/agent/agent_alert.h"
#include "commands/agent_findings/agent_findings.h"
#include "commands/agent/agent_head.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_mysql.h"
#include "commands/agent/agent_page.h"
#include "commands/agent/agent_push.h"
#include "commands/agent/agent_routes.h"
#include "commands/agent/agent_shrink.h"
#include "commands/agent/agent_state.h"
#include "commands/agent/agent_control.h"
#include "commands/agent_gpu/agent_gpu.h"
#include "commands/agent_gpu/agent_inside.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "net/http_client/http_client.h"
#include "sources/identity/identity.h"

#define CONF_PATH "/etc/gpuscope/agent.yaml"

struct agent_options {
	const char *path; /* NULL: CONF_PATH when it is there */
	bool print, check, inside_env;
	const char *schema; /* to print; NULL: not asked for */
	/* These win over the file; NULL or 0: not given. */
	const char *listen, *compat, *control, *devices;
	uint64_t interval_ns;
};

struct agent {
	const struct agent_options *options;
	struct agent_state state;
	struct gs_gpu *gpu;
	struct gs_http *http;
	struct agent_head *head;
	struct agent_jobs *jobs;
	struct agent_devices *devices;
	struct agent_gpu *process_gpu;
	struct agent_recorder *recorder;
	struct gs_push_set *push;
	struct agent_shrink shrink;
	struct agent_page *page;
	int signal_fd, control_fd;
	bool ending, released;
	bool logged_start;
	uint32_t logged_state; /* of the driver */
	struct gs_systemd_watchdog watchdog;
};

/* --- configuration --- */

static int apply_option(const char *option, const char *key, const char *value,
			struct agent_conf *conf, struct gs_err *err)
{
	struct gs_err why = {{0}};
	int r = value ? gs_conf_put(&agent_conf_schema, key, value, conf, &why) : 0;

	return r < 0 ? gs_err_set(err, r, "--%s: %s", option, gs_err_text(&why, r)) : 0;
}

static void report_wrong(const char *text)
{
	gs_cli_print_message("agent: %s", text);
}

/* The configuration as it is to be used. */
static int read_conf(const struct agent_options *o, struct agent_conf *ret_conf, struct gs_err *err)
{
	char unused[800] = "";
	struct agent_conf conf;
	int r = 0;

	if (o->path || access(CONF_PATH, F_OK) == 0)
		r = gs_conf_load(&agent_conf_schema, o->path ? o->path : CONF_PATH, &conf,
				 report_wrong, err);
	else
		gs_conf_defaults(&agent_conf_schema, &conf);
	if (r == 0)
		agent_conf_adopt(&conf, unused, sizeof(unused));
	if (unused[0])
		gs_cli_print_message("agent: %s: not used by the agent: %s",
				     o->path ? o->path : CONF_PATH, unused);
	if (r == 0)
		r = apply_option("listen", "http.listen", o->listen, &conf, err);
	if (r == 0)
		r = apply_option("compat", "metrics.compat", o->compat, &conf, err);
	if (r == 0)
		r = apply_option("configure-device-cgroups", "devices.grant", o->devices, &conf,
				 err);
	if (r == 0 && o->interval_ns)
		conf.sampling.interval_ns = o->interval_ns;
	if (r == 0 && o->control && strlen(o->control) >= sizeof(conf.control.path))
		r = gs_err_set(err, -EINVAL, "--control: %s is too long", o->control);
	if (r < 0)
		return r;
	if (o->control)
		strcpy(conf.control.path, o->control);
	agent_conf_resolve(&conf);
	if (!conf.metrics.hostname[0])
		(void)gethostname(conf.metrics.hostname, sizeof(conf.metrics.hostname) - 1);
	*ret_conf = conf;
	return 0;
}

static int open_gpu(struct agent *a, const struct agent_conf *c, struct gs_gpu **ret_gpu,
		    struct gs_err *err)
{
	struct gs_gpu_options o = {
		.size = sizeof(o),
		.nvml_path = c->gpu.library[0] ? c->gpu.library : NULL,
		.nvml_option = "gpu.library in the configuration",
		.hang_ns = c->gpu.hang_ns,
		.accounting = c->gpu.accounting,
		/* The schedule says when health is read; the room must not find it too early. */
		.slow_ns = c->group[AGENT_HEALTH].interval_ns * 3 / 4,
		.leave_out = agent_conf_leave_out(c),
		.budget = agent_conf_budget(c),
	};

	for (int i = 0; i < AGENT_GROUPS; i++)
		if (c->group[i].enabled)
			o.groups |= agent_group_bit[i];
	o.groups |= c->sampling.events ? GS_GPU_READ_EVENTS : 0;
	if (!o.groups) /* 0 would be all */
		o.groups = GS_GPU_READ_BASIC;
	return gs_gpu_open(&o, ret_gpu, err);
}

/* What the GPU room was opened with; another value needs it opened again. */
static bool same_gpu_options(const struct agent_conf *a, const struct agent_conf *b)
{
	bool same = strcmp(a->gpu.library, b->gpu.library) == 0 &&
		    a->gpu.hang_ns == b->gpu.hang_ns && a->gpu.accounting == b->gpu.accounting &&
		    a->sampling.events == b->sampling.events &&
		    agent_conf_leave_out(a) == agent_conf_leave_out(b) &&
		    fabs(agent_conf_budget(a) - agent_conf_budget(b)) < 1e-9 &&
		    a->group[AGENT_HEALTH].interval_ns == b->group[AGENT_HEALTH].interval_ns;

	for (int i = 0; i < AGENT_GROUPS; i++)
		same &= a->group[i].enabled == b->group[i].enabled;
	return same;
}

/* Other options of jobs need them read again; until then there are none. */
static int restart_jobs(struct agent *a, const struct agent_jobs_conf *conf, struct gs_err *err)
{
	struct agent_jobs *jobs = NULL;
	int r;

	pthread_mutex_lock(&a->state.lock);
	a->state.jobs = NULL;
	pthread_mutex_unlock(&a->state.lock);
	agent_jobs_stop(&a->jobs);
	r = agent_jobs_start(conf, &a->state, &jobs, err);
	pthread_mutex_lock(&a->state.lock);
	a->jobs = a->state.jobs = jobs;
	pthread_mutex_unlock(&a->state.lock);
	return r;
}

/* The agent's own group keeps its devices over the change only if it gets them again. */
static int restart_devices(struct agent *a, const struct agent_devices_conf *conf,
			   struct gs_err *err)
{
	struct agent_devices *devices = NULL;
	int r;

	pthread_mutex_lock(&a->state.lock);
	a->state.devices = NULL;
	pthread_mutex_unlock(&a->state.lock);
	agent_devices_stop(&a->devices);
	r = agent_devices_start(conf, &devices, err);
	pthread_mutex_lock(&a->state.lock);
	a->devices = a->state.devices = devices;
	pthread_mutex_unlock(&a->state.lock);
	return r;
}

/* Likewise of pushing: two at once would want the same spool. */
static int restart_push(struct agent *a, const struct agent_conf *conf, struct gs_err *err)
{
	struct gs_push_set *push = NULL;
	int r;

	pthread_mutex_lock(&a->state.lock);
	a->state.push = NULL;
	pthread_mutex_unlock(&a->state.lock);
	gs_push_set_close(&a->push);
	r = agent_push_open(conf, &a->state, &push, err);
	pthread_mutex_lock(&a->state.lock);
	a->push = a->state.push = push;
	pthread_mutex_unlock(&a->state.lock);
	return r;
}

static int reload_conf(struct agent *a, struct gs_err *err)
{
	bool same_jobs, same_push, same_devices;
	struct gs_gpu *gpu = NULL;
	struct gs_http_options o;
	struct agent_alert *alert = NULL, *old_alert;
	struct agent_conf conf;
	int r = read_conf(a->options, &conf, err);

	if (r == 0) { /* the socket stays where it is, and the link */
		conf.control = a->state.conf.control;
		conf.head = a->state.conf.head;
	}
	if (r == 0)
		r = agent_alert_open(&conf, a->state.alert, &alert, err);
	if (r == 0 && !same_gpu_options(&conf, &a->state.conf))
		r = open_gpu(a, &conf, &gpu, err);
	if (r == 0) {
		o = agent_http_options(&conf, &a->state);
		r = gs_http_reload(a->http, &o, err);
	}
	if (r < 0) {
		agent_alert_close(&alert);
		gs_gpu_close(&gpu);
		return r;
	}
	if (gpu) {
		gs_gpu_close(&a->gpu);
		a->gpu = gpu;
		/* The driver was released and has not been asked back. */
		if (a->released)
			gs_gpu_release(a->gpu);
	}
	same_jobs = agent_jobs_same(&conf.jobs, &a->state.conf.jobs);
	same_push = agent_push_same(&conf, &a->state.conf);
	same_devices = agent_devices_same(&conf.devices, &a->state.conf.devices);
	pthread_mutex_lock(&a->state.lock);
	if (gpu) /* a group that is off now shall not keep its last reading for ever */
		gs_gpu_snapshot_free(&a->state.latest);
	a->state.conf = conf;
	gs_identity_keep_commands((enum gs_identity_commands)conf.processes.commands);
	old_alert = a->state.alert;
	a->state.alert = alert;
	agent_schedule_init(&a->state.schedule, &conf, gs_clock_mono_ns());
	pthread_mutex_unlock(&a->state.lock);
	agent_alert_close(&old_alert);
	r = same_push ? 0 : restart_push(a, &conf, err);
	if (!same_devices) {
		int e = restart_devices(a, &conf.devices, r == 0 ? err : NULL);

		r = r < 0 ? r : e;
	}
	if (!same_jobs) {
		int e = restart_jobs(a, &conf.jobs, r == 0 ? err : NULL);

		r = r < 0 ? r : e;
	}
	return r;
}

/* --- messages --- */

static void where_text(const struct agent *a, char *out, size_t bytes)
{
	const struct agent_conf *c = &a->state.conf;
	bool tls = c->http.tls_cert[0], token = c->http.token_file[0],
	     basic = c->http.basic_auth_file[0];

	snprintf(out, bytes, "http%s://%s/metrics (%s, %s)", tls ? "s" : "",
		 gs_http_address(a->http),
		 !tls                       ? "no TLS"
		 : c->http.tls_client_ca[0] ? "TLS with client certificates"
					    : "TLS",
		 token && basic ? "token or password"
		 : token        ? "token"
		 : basic        ? "password"
				: "no authorization");
}

/* One line at the start, and one whenever the driver's state changes. */
static void report_driver_state(struct agent *a, const struct gs_gpu_snapshot *s)
{
	const char *state = s->state_text[0] ? s->state_text : gs_gpu_state_name(s->state);
	bool is_ok = s->state == GS_GPU_STATE_OK;
	char where[400], interval[GS_FMT_BYTES];

	if (!a->logged_start) {
		where_text(a, where, sizeof(where));
		gs_cli_print_message("agent: %u GPU%s, read every %s, served at %s%s%s%s",
				     s->n_gpus, s->n_gpus == 1 ? "" : "s",
				     gs_fmt_ns(interval, a->state.conf.sampling.interval_ns), where,
				     is_ok ? "" : "; ", is_ok ? "" : state,
				     is_ok ? "" : "; `gpuscope doctor` shows what else is missing");
	} else if (s->state != a->logged_state) {
		gs_cli_print_message("agent: GPUs: %s%s%s, %u of them", gs_gpu_state_name(s->state),
				     s->state_text[0] ? ": " : "", s->state_text, s->n_gpus);
	}
	for (uint32_t i = 0; i < s->n_events; i++)
		if (s->event[i].xid) {
			gs_cli_print_message("agent: XID %u on %s: %s", s->event[i].xid,
					     s->event[i].pci_bus_id, s->event[i].text);
			agent_findings_logs_add(&a->state.logs, &s->event[i]);
		}
	a->logged_start = true;
	a->logged_state = s->state;
}

/* --- the loop --- */

/* 0, or why the old configuration stays. */
static int handle_reload(struct agent *a, struct gs_err *err)
{
	char where[400];
	int r;

	gs_systemd_reloading();
	r = reload_conf(a, err);
	pthread_mutex_lock(&a->state.lock);
	a->state.last_reload_ok = r == 0;
	a->state.reloads_ok += r == 0;
	a->state.reloads_failed += r < 0;
	pthread_mutex_unlock(&a->state.lock);
	where_text(a, where, sizeof(where));
	if (r < 0)
		gs_cli_print_message("agent: the old configuration stays in use: %s",
				     gs_err_text(err, r));
	else
		gs_cli_print_message("agent: configuration read again; served at %s", where);
	agent_shrink_begin(&a->shrink, gs_clock_mono_ns());
	gs_systemd_ready();
	return r;
}

/* False: a call of the driver hangs, and it is released when that has come back. */
static bool release_driver(struct agent *a)
{
	bool done = gs_gpu_release(a->gpu) == 0;

	a->released = true;
	gs_cli_print_message(
		"agent: NVIDIA driver %s; SIGUSR2 or `gpuscope agent ctl resume-gpus` reattaches",
		done ? "released" : "not released yet: a driver call does not return");
	return done;
}

static void resume_driver(struct agent *a)
{
	gs_gpu_resume(a->gpu);
	a->released = false;
	agent_shrink_begin(&a->shrink, gs_clock_mono_ns());
	gs_cli_print_message("agent: the driver is reattached");
}

static void handle_signals(struct agent *a)
{
	struct signalfd_siginfo si;
	struct gs_err err = {{0}};

	while (read(a->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		switch (si.ssi_signo) {
		case SIGHUP:
			(void)handle_reload(a, &err);
			break;
		case SIGUSR1:
			(void)release_driver(a);
			break;
		case SIGUSR2:
			resume_driver(a);
			break;
		default:
			if (!a->logged_start && !a->ending)
				gs_cli_print_message("agent: ended before its first sample");
			a->ending = true;
		}
	}
}

static void put_status(struct agent *a, struct gs_buf *out)
{
	const struct agent_state *s = &a->state;
	char where[400], text[GS_FMT_BYTES];
	uint64_t now = gs_clock_mono_ns();

	where_text(a, where, sizeof(where));
	pthread_mutex_lock(&a->state.lock);
	(void)gs_buf_printf(out, "ok: gpuscope %s, pid %d, served at %s\n", GS_VERSION,
			    (int)getpid(), where);
	if (a->released)
		(void)gs_buf_puts(out, "GPUs: released on request\n");
	else if (!s->latest)
		(void)gs_buf_puts(out, "GPUs: not read yet\n");
	else
		(void)gs_buf_printf(out, "GPUs: %u, %s%s%s, read %s ago\n", s->latest->n_gpus,
				    gs_gpu_state_name(s->latest->state),
				    s->latest->state_text[0] ? ": " : "", s->latest->state_text,
				    gs_fmt_ns(text, now - s->sampled_ns));
	(void)gs_buf_printf(
		out,
		"readings: %llu, %llu late, each %s; scrapes: %llu; reloads: %llu, %llu failed\n",
		(unsigned long long)s->samples, (unsigned long long)s->schedule.missed,
		gs_fmt_ns(text, s->conf.sampling.interval_ns), (unsigned long long)s->scrapes,
		(unsigned long long)s->reloads_ok, (unsigned long long)s->reloads_failed);
	if (s->devices)
		agent_devices_status(s->devices, out);
	pthread_mutex_unlock(&a->state.lock);
	agent_gpu_status(a->process_gpu, out);
	agent_recorder_status(a->recorder, out);
}

static void run_command(void *ctx, const char *command, struct gs_buf *answer)
{
	struct agent *a = ctx;
	struct gs_err err = {{0}};

	if (strcmp(command, "status") == 0) {
		put_status(a, answer);
	} else if (strcmp(command, "release-gpus") == 0) {
		(void)gs_buf_puts(
			answer,
			release_driver(a)
				? "ok: the driver is released\n"
				: "error: a driver call does not return; the driver is released as soon as it does\n");
	} else if (strcmp(command, "resume-gpus") == 0) {
		resume_driver(a);
		(void)gs_buf_puts(answer, "ok: the driver is reattached\n");
	} else if (strncmp(command, "trace-gpu ", 10) == 0) {
		uint64_t time_ns;
		char what[80], text[400];

		if (agent_gpu_parse_words(command + 10, what, &time_ns, text, sizeof(text)) == 0)
			(void)agent_control_trace_gpu(&a->state, what, time_ns, text, sizeof(text));
		(void)gs_buf_printf(answer, "%s\n", text);
	} else if (strncmp(command, "save-trace", 10) == 0) {
		agent_recorder_take_words(a->recorder, command + 10, answer);
	} else if (strncmp(command, "findings ", 9) == 0) {
		agent_findings_take_words(a->state.findings, command + 9, answer);
	} else if (strcmp(command, "reload") == 0) {
		int r = handle_reload(a, &err);

		(void)gs_buf_printf(answer,
				    r < 0 ? "error: %s\n" : "ok: configuration read again\n",
				    gs_err_text(&err, r));
	} else {
		(void)gs_buf_puts(
			answer,
			"error: no such command; the commands are release-gpus, resume-gpus, trace-gpu, save-trace, status, reload\n");
	}
}

/* Read the groups that are due. */
static int sample_groups(struct agent *a)
{
	struct gs_gpu_snapshot *s = NULL;
	uint64_t began_ns = gs_clock_mono_ns();
	unsigned groups;
	int r;

	pthread_mutex_lock(&a->state.lock);
	groups = agent_schedule_take(&a->state.schedule, &a->state.conf, began_ns);
	pthread_mutex_unlock(&a->state.lock);
	if (!groups)
		return 0;
	r = gs_gpu_read_groups(a->gpu, groups, &s);
	if (r < 0)
		return r;
	gs_log(GS_LOG_DEBUG, GS_LOG_GPU, "%u GPUs read in %.1f ms, groups %#x", s->n_gpus,
	       (double)(gs_clock_mono_ns() - began_ns) / 1e6, groups);
	report_driver_state(a, s);
	agent_state_put(&a->state, &s, groups, a->gpu);
	/* Only this thread changes it. Without basic values it is no moment of its own. */
	if (groups & GS_GPU_READ_BASIC) {
		agent_head_take(a->head, a->state.latest, a->jobs);
		agent_mysql_take(&a->state, a->jobs);
	}
	agent_page_take(a->page, a->state.latest);
	agent_findings_take(a->state.findings, a->state.latest);
	agent_recorder_follow(a->recorder, a->state.findings);
	return 0;
}

static void feed_watchdog(struct agent *a)
{
	/* An agent whose server is stuck is as good as dead: let systemd see it. */
	if (gs_systemd_watchdog_due(&a->watchdog) && gs_http_answers(a->http))
		gs_systemd_alive();
}

static int run_loop(struct agent *a)
{
	bool ready = false;
	int r = 0;

	while (!a->ending && r == 0) {
		struct pollfd fd[2] = {{a->signal_fd, POLLIN, 0}, {a->control_fd, POLLIN, 0}};
		uint64_t now = gs_clock_mono_ns();
		uint64_t next = agent_schedule_next(&a->state.schedule, &a->state.conf);
		uint64_t next_alert = agent_alert_next(a->state.alert);
		uint64_t next_shrink = ready ? agent_shrink_next(&a->shrink) : UINT64_MAX;
		struct timespec wait;

		if (next_alert < next)
			next = next_alert;
		if (next_shrink < next)
			next = next_shrink;
		if (a->watchdog.next_ns < next)
			next = a->watchdog.next_ns;
		if (next > now + 3600000000000ULL)
			next = now + 3600000000000ULL;
		wait.tv_sec = next > now ? (time_t)((next - now) / 1000000000) : 0;
		wait.tv_nsec = next > now ? (long)((next - now) % 1000000000) : 0;
		if (ppoll(fd, 2, &wait, NULL) > 0) {
			handle_signals(a);
			if (fd[1].revents)
				agent_control_serve(a->control_fd, a, run_command);
		}
		if (a->ending)
			break;
		r = sample_groups(a);
		if (r < 0)
			gs_cli_print_message("agent: cannot read the GPUs: %s", strerror(-r));
		agent_alert_poll(&a->state, gs_clock_mono_ns());
		if (!ready && r == 0)
			gs_systemd_ready();
		ready = true;
		agent_shrink_tick(&a->shrink, &a->state, gs_clock_mono_ns());
		feed_watchdog(a);
	}
	return r;
}

/* Where no control socket was asked for, the agent does without, when it cannot have one. */
static int start_control(struct agent *a, struct gs_err *err)
{
	const struct agent_conf *c = &a->state.conf;
	struct gs_err why = {{0}};
	int r = agent_control_open(c, &why);

	a->control_fd = r < 0 ? -1 : r;
	if (r >= 0 || r == -ENODATA)
		return 0;
	if (strcmp(c->control.path, AGENT_CONTROL_PATH) == 0 && !c->control.group[0] &&
	    !a->options->control) {
		gs_cli_print_message("agent: no control socket, only signals work: %s",
				     gs_err_text(&why, r));
		return 0;
	}
	*err = why;
	return r;
}

static struct gs_gpu_snapshot *copy_gpus(void *ctx)
{
	struct gs_gpu_snapshot *copy = NULL;
	struct agent_state *s = ctx;

	pthread_mutex_lock(&s->lock);
	if (s->latest && s->latest->state == GS_GPU_STATE_OK)
		copy = gs_gpu_snapshot_copy(s->latest);
	pthread_mutex_unlock(&s->lock);
	return copy;
}

static int start_agent(struct agent *a, struct gs_err *err)
{
	struct gs_http_options o = agent_http_options(&a->state.conf, &a->state);
	struct agent_alert *alert = NULL;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	/* Before the threads start, so that all have them blocked. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd < 0)
		return gs_err_set(err, -errno, "cannot watch for signals: %s", strerror(errno));
	/* It gets ready beside what follows. */
	if (agent_push_needs_http_client(&a->state.conf))
		gs_http_client_begin();
	a->state.process_gpu = a->process_gpu = agent_gpu_new(copy_gpus, &a->state);
	a->page = agent_page_new(&a->state);
	if (!a->page || !a->process_gpu)
		return gs_err_set(err, -ENOMEM, "no memory");
	o.routes = agent_page_routes(a->page, &o.n_routes);
	r = a->state.conf.findings.enabled
		    ? agent_findings_start(a->state.conf.findings.settings, &a->state.findings, err)
		    : 0;
	if (r == 0)
		r = agent_recorder_start(&a->state.conf.recorder, &a->recorder, err);
	a->state.recorder = a->recorder;
	if (r == 0)
		a->state.traffic = agent_traffic_start(&a->state.conf.traffic);
	if (r == 0)
		r = gs_http_start(&o, &a->http, err);
	if (r == 0)
		r = open_gpu(a, &a->state.conf, &a->gpu, err);
	if (r == 0)
		r = agent_head_start(&a->state.conf, a->recorder, &a->head, err);
	if (r == 0)
		r = agent_mysql_start(&a->state, err);
	if (r == 0)
		r = agent_alert_open(&a->state.conf, NULL, &alert, err);
	if (r < 0)
		return r;
	r = start_control(a, err);
	pthread_mutex_lock(&a->state.lock);
	a->state.alert = alert;
	pthread_mutex_unlock(&a->state.lock);
	if (r < 0)
		return r;
	pthread_mutex_lock(&a->state.lock);
	a->state.http = a->http;
	a->state.head = a->head;
	agent_schedule_init(&a->state.schedule, &a->state.conf, gs_clock_mono_ns());
	pthread_mutex_unlock(&a->state.lock);
	r = restart_devices(a, &a->state.conf.devices, err);
	if (r == 0)
		r = restart_jobs(a, &a->state.conf.jobs, err);
	if (r == 0)
		r = restart_push(a, &a->state.conf, err);
	if (r < 0)
		return r;
	gs_systemd_watchdog_start(&a->watchdog);
	return 0;
}

/* Frees conf as soon as it has a copy. */
static int run_agent(const struct agent_options *o, struct agent_conf **conf)
{
	struct agent a = {.options = o, .signal_fd = -1, .control_fd = -1};
	struct gs_err err = {{0}};
	int r = agent_state_init(&a.state, *conf);

	agent_findings_logs_init(&a.state.logs);
	/* Before the first thread. What a reload switches on has to do with these. */
	gs_sandbox_keep_tracing(
		GS_SANDBOX_GPU_COUNTERS |
		((*conf)->devices.grant != AGENT_DEVICES_NONE ? GS_SANDBOX_DEVICE_CGROUPS : 0));
	gs_identity_keep_commands((enum gs_identity_commands)(*conf)->processes.commands);
	gs_free_p(conf);
	if (r < 0) {
		gs_cli_print_message("agent: %s", strerror(-r));
		return GS_EXIT_FAILED;
	}
	r = start_agent(&a, &err);
	if (r < 0)
		gs_cli_print_message("agent: %s", gs_err_text(&err, r));
	else
		r = run_loop(&a);
	gs_systemd_stopping();
	gs_http_stop(&a.http);
	agent_page_free(&a.page);
	pthread_mutex_lock(&a.state.lock);
	a.state.push = NULL; /* its last text is made without its own metrics */
	pthread_mutex_unlock(&a.state.lock);
	gs_push_set_close(&a.push);
	agent_devices_stop(&a.devices);
	agent_gpu_free(&a.process_gpu);
	agent_traffic_stop(&a.state.traffic);
	agent_findings_stop(&a.state.findings);
	agent_jobs_stop(&a.jobs); /* which has a last word for the head */
	/* After the push, whose last text still says how the head is. */
	agent_head_stop(&a.head);
	agent_recorder_stop(&a.recorder);
	agent_mysql_stop(&a.state);
	agent_alert_close(&a.state.alert);
	gs_gpu_close(&a.gpu);
	gs_close_p(&a.signal_fd);
	agent_control_close(&a.state.conf, &a.control_fd);
	agent_state_fini(&a.state);
	return r < 0 ? gs_cli_exit_status_of(r) : GS_EXIT_DONE;
}

/* --- options --- */

static int set_devices(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	((struct agent_options *)target)->devices = argument ? argument : "self";
	return 0;
}

#define AT(member) GS_CLI_AT(struct agent_options, member)

static const struct gs_cli_option option_table[] = {
	GS_CLI_CONFIG(struct agent_options, path, "configuration (default " CONF_PATH ")"),
	GS_CLI_CHECK_CONFIG(struct agent_options, check),
	GS_CLI_PRINT_CONFIG(struct agent_options, print),
	{"listen", 0, "HOST:PORT", "override http.listen", GS_CLI_TEXT, AT(listen)},
	{"compat", 0, "NAME[,NAME]", "override metrics.compat: native, dcgm, dcgm-new", GS_CLI_TEXT,
	 AT(compat)},
	{"configure-device-cgroups", 0, "[WHAT]",
	 "keep NVIDIA devices allowed for self (default), jobs", GS_CLI_SET,
	 .words = "self jobs none", .set = set_devices},
	{"interval", 'i', "TIME", "time between samples; override sampling.interval", GS_CLI_TIME,
	 AT(interval_ns), .min = 100000000ull, .max = 3600000000000ull},
	{"inside-env", 0, NULL, "print the environment of jobs traced from inside, and exit",
	 GS_CLI_FLAG, AT(inside_env)},
	{"print-schema", 0, "NAME", "print the tables of mysql.schema NAME as SQL, and exit",
	 GS_CLI_TEXT, AT(schema), .words = "gpuscope eacgm both"},
	{"control", 0, "PATH", "control socket; override control.path; '': none", GS_CLI_TEXT,
	 AT(control)},
	GS_CLI_VERBOSE,
	GS_CLI_LOG_LEVEL,
	GS_CLI_LOG_TOPIC,
	GS_CLI_END};

const struct gs_cli_command gs_cli_agent = {
	.name = "gpuscope agent",
	.usage = "\nctl COMMAND",
	.subcommand_at = agent_control_subcommand_at,
	.about =
		"Samples the GPUs and jobs of this node, and serves them as Prometheus metrics and as a page.",
	.notes =
		"SIGHUP reads the configuration again, SIGUSR1 releases the driver (to reset a GPU), SIGUSR2 reattaches; `gpuscope agent ctl` does the same and reports when it is done.\n"
		"\n"
		"Exit status: 0 ended by SIGTERM or SIGINT, 1 failed, 2 wrong usage or configuration, 3 not permitted.",
	.brief = "config check-config print-config listen compat interval control verbose",
	.options = option_table,
};

int gs_cmd_agent(int argc, char **argv)
{
	struct agent_options o = {0};
	struct gs_err err = {{0}};
	GS_FREE struct agent_conf *conf = NULL;
	int r;

	if (argc > 1 && strcmp(argv[1], "ctl") == 0)
		return agent_control_command(argc - 1, argv + 1);
	gs_cli_hold_signals();
	if (!gs_cli_parse(&gs_cli_agent, argc, argv, &o, &r))
		return r;
	if (o.print)
		return agent_conf_print_defaults();
	if (o.schema)
		return agent_mysql_print_schema(o.schema);
	if (o.inside_env)
		return agent_gpu_print_inside(o.control ? o.control : AGENT_CONTROL_PATH);
	/* A thread's own pool of memory, as glibc makes them, is never used up here; and a large
	 * block that is freed once shall not make the next large ones part of the heap. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_TRIM_THRESHOLD, 256 << 10);
	conf = calloc(1, sizeof(*conf));
	r = conf ? read_conf(&o, conf, &err) : -ENOMEM;
	if (r < 0) {
		gs_cli_print_message("agent: %s", gs_err_text(&err, r));
		return r == -EINVAL ? GS_EXIT_USAGE : gs_cli_exit_status_of(r);
	}
	if (o.check) {
		struct gs_http_options ho = agent_http_options(conf, NULL);

		r = gs_http_check(&ho, &err);
		if (r < 0) {
			gs_cli_print_message("agent: %s", gs_err_text(&err, r));
			return GS_EXIT_USAGE;
		}
		if (o.path || access(CONF_PATH, F_OK) == 0)
			printf("%s: ok\n", o.path ? o.path : CONF_PATH);
		else
			printf("there is no %s: the defaults are used and valid\n", CONF_PATH);
		return fflush(stdout) == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
	}
	return run_agent(&o, &conf);
}
