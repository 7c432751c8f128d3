/*
 * The daemon of a node. The main thread reads the GPUs when a group of values is due, and handles
 * signals; the HTTP server's thread renders what was read last. Between them stands struct
 * agent_state with its lock.
 */
#ifndef GS_COMMANDS_AGENT_AGENT_H
#define GS_COMMANDS_AGENT_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/alert/alert.h"
#include "analysis/alert/conf.h"
#include "commands/agent/agent_devices.h"
#include "commands/agent/agent_hpc.h"
#include "commands/agent_gpu/agent_gpu.h"
#include "core/base/conf.h"
#include "core/base/schedule.h"
#include "sources/gpu/gpu.h"
#include "net/http/http.h"
#include "model/node/job_account.h"
#include "output/metrics/metrics.h"
#include "output/metrics_push/set.h"

/* --- agent_conf.c: the configuration --- */

enum agent_group {
	AGENT_BASIC,
	AGENT_PROCESSES,
	AGENT_GPM,
	AGENT_LINKS,
	AGENT_HEALTH,
	AGENT_GROUPS
};

struct agent_group_conf {
	bool enabled;
	uint64_t interval_ns;     /* 0 in the file: that of sampling */
	uint64_t max_interval_ns; /* as long as nothing changes; at most interval_ns: that */
	double threshold_ratio;
};

struct agent_jobs_conf {
	bool enabled, slurm, pods, containers, units, cgroups, users, probes, controller;
	uint64_t interval_ns, linger_ns, window_ns, gpu_idle_ns;
	int64_t max, syscalls;
	int names; /* enum gs_metrics_job_names */
};

struct agent_conf {
	struct {
		uint64_t interval_ns;
		bool events;
		double budget_ratio; /* of one processor, at one reading a second; 0 no limit */
		char leave_out[512]; /* names of enum gs_gpu_part */
	} sampling;
	struct agent_group_conf group[AGENT_GROUPS];
	struct {
		char library[256];
		uint64_t hang_ns;
		bool accounting;
	} gpu;
	struct {
		char listen[256];
		char tls_cert[256], tls_key[256], tls_client_ca[256];
		char token_file[256], basic_auth_file[256];
		char hosts[1024]; /* with commas */
		bool anonymous;
		int64_t max_connections;
		uint64_t timeout_ns;
	} http;
	struct {
		int commands;            /* enum gs_identity_commands */
		uint64_t gpu_use_max_ns; /* of a request to trace it; 0: none is taken */
		uint64_t gpu_use_linger_ns;
	} processes;
	struct gs_push_conf push[GS_PUSH_PROTOCOLS];
	struct {
		int names; /* enum gs_metrics_names */
		bool processes, links, timestamps;
		int64_t max_processes;
		char hostname[256];
	} metrics;
	struct agent_jobs_conf jobs;
	struct agent_devices_conf devices;
	struct {
		char path[108]; /* "" none */
		char group[64];
	} control;
	struct {
		char addresses[512]; /* "" none */
		bool tls, resilient, all_processes;
		char tls_ca[256], tls_cert[256], tls_key[256], server_name[256];
		char token_file[256];
		char spool[256];
		char spool_max[32];
		char machine_id[64], instance[64];
		bool jobs;
		uint64_t jobs_interval_ns;
	} head;
	struct gs_alert_conf alerts;
	struct agent_hpc_conf hpc_monitor;
};

extern const struct gs_conf_schema agent_conf_schema;
extern const char *const agent_group_name[AGENT_GROUPS]; /* "basic", ... */
extern const unsigned agent_group_bit[AGENT_GROUPS];     /* enum gs_gpu_group */

/* What is not to be read, as bits of enum gs_gpu_part: what the file leaves out, and what is
 * not served. */
uint64_t agent_conf_leave_out(const struct agent_conf *conf);

/* Of one processor, at the configured interval: who reads more often wants to. */
double agent_conf_budget(const struct agent_conf *conf);

/* After reading: what stands for another key is replaced by that. */
void agent_conf_resolve(struct agent_conf *conf);

/* --- agent_schedule.c: when which group is due --- */

struct agent_schedule {
	struct {
		struct gs_schedule turns; /* monotonic */
		uint64_t reads, read_ns;  /* how often; when last, 0 never */
	} group[AGENT_GROUPS];
	struct gs_schedule events;
	uint64_t missed; /* turns that did not take place: the machine or a reading was too slow */
	uint64_t lag_ns; /* how late the last turn began */
};

void agent_schedule_init(struct agent_schedule *s, const struct agent_conf *conf, uint64_t now_ns);

/* The time of the next turn; UINT64_MAX: nothing is ever due. */
uint64_t agent_schedule_next(const struct agent_schedule *s, const struct agent_conf *conf);

/* Groups (enum gs_gpu_group, ored) that are due now; their next turns are set. */
unsigned agent_schedule_take(struct agent_schedule *s, const struct agent_conf *conf,
			     uint64_t now_ns);

/* Whether the values of a group differ by its threshold between two snapshots. */
bool agent_group_changed(const struct gs_gpu_snapshot *before, const struct gs_gpu_snapshot *now,
			 enum agent_group group, double threshold_ratio);

/* What was read makes intervals shorter or longer; before: the snapshot ahead of it, may be NULL. */
void agent_schedule_adapt(struct agent_schedule *s, const struct agent_conf *conf, unsigned groups,
			  const struct gs_gpu_snapshot *before, const struct gs_gpu_snapshot *now,
			  uint64_t now_ns);

/* The group of a value. */
enum agent_group agent_group_of(enum gs_gpu_field field);

/* --- agent_state.c: what was read last --- */

/* Memory of a process that is in RAM, in bytes; negative: not known. */
double agent_resident_bytes(int pid);

#define AGENT_XIDS_MAX 1024 /* pairs of GPU and code */

struct agent_state {
	pthread_mutex_t lock;
	struct gs_gpu_snapshot *latest; /* owned; groups not read keep their last reading */
	struct gs_metrics_xid *xids;    /* owned */
	size_t n_xids;
	uint64_t xids_dropped; /* XIDs for which there was no room */
	struct agent_conf conf;
	struct agent_schedule schedule;
	uint64_t samples, empty_samples; /* readings; those without any GPU */
	uint64_t sample_ns;              /* of the last reading */
	uint64_t sampled_ns;             /* monotonic: when it ended; 0 none yet */
	uint64_t scrapes, scrape_ns, processes_dropped;
	uint64_t reloads_ok, reloads_failed;
	bool last_reload_ok;
	int64_t started_wall_ns;
	struct agent_devices *devices; /* lent; NULL: not kept. Changed under the lock */
	struct agent_jobs *jobs;       /* lent; NULL: not read. Changed under the lock */
	struct agent_gpu *process_gpu; /* lent; what requests trace */
	struct agent_head *head;       /* lent; NULL: delivers to none */
	struct gs_http *http;          /* lent */
	struct gs_gpu_cost call_cost[GS_GPU_COSTS_MAX], part_cost[GS_GPU_COSTS_MAX];
	size_t n_call_costs, n_part_costs;
	struct gs_push_set *push;  /* lent; NULL: nothing is pushed. Changed under the lock */
	struct agent_alert *alert; /* owned by the main thread, which alone changes the pointer */
};

int agent_state_init(struct agent_state *state, const struct agent_conf *conf);
void agent_state_fini(struct agent_state *state);

/* Put a fresh reading of these groups in place of the last; takes it over. The caller holds no
 * lock. gpu: where its cost is counted, NULL: nowhere. */
void agent_state_put(struct agent_state *state, struct gs_gpu_snapshot **snapshot, unsigned groups,
		     struct gs_gpu *gpu);

/* Values of groups that were not read come from the snapshot before. 0 or -ENOMEM. */
int agent_merge(struct gs_gpu_snapshot *fresh, const struct gs_gpu_snapshot *before,
		unsigned groups);

/* --- agent_jobs.c: the jobs of this node --- */

struct agent_jobs;

/* Begin to read them, in a thread; *ret_jobs stays NULL when none are wanted. */
int agent_jobs_start(const struct agent_jobs_conf *conf, struct agent_state *state,
		     struct agent_jobs **ret_jobs, struct gs_err *err);
void agent_jobs_stop(struct agent_jobs **jobs);

/* What was read last, the caller's; NULL: nothing yet, or no memory. Of its processes alone: by pid. */
struct gs_job_accounts *agent_jobs_copy(struct agent_jobs *jobs);
void agent_jobs_times(struct agent_jobs *jobs, struct gs_job_process **ret_times, uint32_t *ret_n);

/* Whether reading goes on as it is; names do not matter to it. */
bool agent_jobs_same(const struct agent_jobs_conf *a, const struct agent_jobs_conf *b);

/* Families of the jobs and of reading them. gpus may be NULL. */
void agent_jobs_render(struct agent_jobs *jobs, struct gs_metrics *p,
		       const struct gs_gpu_snapshot *gpus, int names);
/* --- agent_alert.c: rules over what was read --- */

/* *ret stays NULL when the configuration has no rules. before (may be NULL): of the configuration
 * that this one follows; what fires goes on. */
int agent_alert_open(const struct agent_conf *conf, const struct agent_alert *before,
		     struct agent_alert **ret, struct gs_err *err);
void agent_alert_close(struct agent_alert **alert);

/* When to look again, monotonic; UINT64_MAX without rules. */
uint64_t agent_alert_next(const struct agent_alert *alert);

/* Look at what was read last, if it is time. The main thread's; holds the lock only to copy. */
void agent_alert_poll(struct agent_state *state, uint64_t now_ns);

/* The caller holds the lock. */
void agent_alert_metrics(struct gs_metrics *p, const struct agent_alert *alert);

/* --- agent_shrink.c: memory that only a start needed --- */

#define AGENT_SHRINK_TURNS 3

struct agent_shrink {
	unsigned turn; /* AGENT_SHRINK_TURNS: nothing is due */
	uint64_t next_ns;
};

/* The agent has started, or something in it has. */
void agent_shrink_begin(struct agent_shrink *s, uint64_t now_ns);
uint64_t agent_shrink_next(const struct agent_shrink *s); /* monotonic; UINT64_MAX never */

/* Give back what is free, if it is time. The main thread's; takes the lock of state. */
void agent_shrink_tick(struct agent_shrink *s, struct agent_state *state, uint64_t now_ns);

/* --- agent_routes.c: what is served --- */

extern const struct gs_http_route agent_routes[];
extern const size_t agent_n_routes;

/* --- agent_head.c: delivery to a head --- */

struct agent_head;

/* *ret_head NULL: none is configured. */
int agent_head_start(const struct agent_conf *conf, struct agent_head **ret_head,
		     struct gs_err *err);
/* Delivers for some seconds what waits; the rest stays in the spool. */
void agent_head_stop(struct agent_head **head);

/* What was read last, lent; from the thread that reads. head may be NULL. */
void agent_head_take(struct agent_head *head, struct gs_gpu_snapshot *gpu, struct agent_jobs *jobs);

/* The jobs as they were read last, lent; from the thread that reads them. head may be NULL. */
void agent_head_take_jobs(struct agent_head *head, const struct gs_job_accounts *accounts);

/* They are read no more: those that run get a last report. accounts may be NULL. */
void agent_head_end_jobs(struct agent_head *head, const struct gs_job_accounts *accounts);

/* --- agent_report.c: reports of jobs, for agent_head.c --- */

struct agent_report;
struct gs_uplink_options;

/* link: as of moments; its kind, and its spool (DIR-jobs), are set here. */
int agent_report_start(const struct gs_uplink_options *link, uint64_t interval_ns,
		       struct agent_report **ret_report, struct gs_err *err);

/* How many reports are left in the spool. */
uint64_t agent_report_stop(struct agent_report **report, uint64_t drain_ns);

/* As agent_head_take_jobs(), agent_head_end_jobs(); report may be NULL. */
void agent_report_take(struct agent_report *report, const struct gs_job_accounts *accounts);
void agent_report_end(struct agent_report *report, const struct gs_job_accounts *accounts);

struct agent_report_stats {
	uint64_t reports, failed; /* kept for the head; those that could not be made or kept */
	uint64_t waiting, lost;
};

void agent_report_stats(struct agent_report *report, struct agent_report_stats *ret_stats);

struct agent_head_stats {
	bool has_reports;
	struct agent_report_stats reports;
	bool connected, spool_failed;
	uint64_t connects, moments, failed; /* failed: moments that could not be made or kept */
	uint64_t acked_batches, sent_bytes, waiting_samples, waiting_bytes, lost_samples;
	char trouble[256]; /* why it is not connected; "" nothing */
};

/* Any thread. */
void agent_head_stats(struct agent_head *head, struct agent_head_stats *ret_stats);

/* --- agent_page.c: the page of this node --- */

struct agent_page;

/* From the main thread, all of it. NULL: no memory. */
struct agent_page *agent_page_new(struct agent_state *state);
void agent_page_free(struct agent_page **page); /* when the server has stopped */

/* What was read last, lent. */
void agent_page_take(struct agent_page *page, const struct gs_gpu_snapshot *gpu);

/* The routes of the server: those of agent_routes and the page's. Lent as long as the page is. */
const struct gs_http_route *agent_page_routes(const struct agent_page *page, size_t *ret_n);

/* What fires; the main thread's. alert may be NULL. */
void agent_alert_firing(const struct agent_alert *alert, gs_alert_sink_fn fn, void *ctx);

/* All families that are scraped or pushed; p->error says whether one failed. Takes the lock. */
void agent_put_metrics(struct agent_state *state, struct gs_metrics *p);

/* --- agent_push.c: metrics to engines of others --- */

/* *ret stays NULL when nothing is configured. */
int agent_push_open(const struct agent_conf *conf, struct agent_state *state,
		    struct gs_push_set **ret, struct gs_err *err);

/* Whether pushing goes on as it is. */
bool agent_push_same(const struct agent_conf *a, const struct agent_conf *b);

#endif
