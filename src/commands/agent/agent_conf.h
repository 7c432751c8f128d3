/* The configuration of the agent: its sections as they are read, and what several of them mean together. */
#ifndef GS_COMMANDS_AGENT_AGENT_CONF_H
#define GS_COMMANDS_AGENT_AGENT_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/alert/conf.h"
#include "commands/agent_devices/agent_devices.h"
#include "commands/agent/agent_hpc.h"
#include "commands/agent_recorder/agent_recorder.h"
#include "commands/agent_traffic/agent_traffic.h"
#include "core/base/conf.h"
#include "output/metrics_push/set.h"
#include "output/mysql/mysql.h"

enum agent_group {
	AGENT_BASIC,
	AGENT_PROCESSES,
	AGENT_GPM,
	AGENT_LINKS,
	AGENT_HEALTH,
	AGENT_GROUPS
};

struct agent_group_conf { /* Fields as the keys of agent_conf.c */
	bool enabled;
	uint64_t interval_ns;     /* 0 in the file: that of sampling */
	uint64_t max_interval_ns; /* as long as nothing changes; at most interval_ns: that */
	double threshold_ratio;
};

struct agent_jobs_conf { /* Fields as the keys of agent_conf.c */
	bool enabled, slurm, pods, containers, units, cgroups, users, probes, controller;
	uint64_t interval_ns, linger_ns, window_ns, gpu_idle_ns;
	int64_t max, syscalls;
	int names; /* enum gs_metrics_job_names */
};

struct agent_conf { /* Fields as the keys of agent_conf.c, texts "" where not given */
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
		bool gpu_use_inside; /* read what jobs report that have opted in */
	} processes;
	struct gs_push_conf push[GS_PUSH_PROTOCOLS];
	struct {
		char compat[64]; /* gs_metrics_names_parse() */
		bool processes, links, timestamps;
		int64_t max_processes;
		char hostname[256];
	} metrics;
	struct agent_jobs_conf jobs;
	struct {
		bool enabled;
		char settings[512]; /* KEY=VALUE of detectors, with commas */
	} findings;
	struct agent_devices_conf devices;
	struct agent_recorder_conf recorder;
	struct agent_traffic_conf traffic;
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
	struct gs_mysql_conf mysql;
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

/* All keys with their defaults, to standard output. An exit status. */
int agent_conf_print_defaults(void);

#endif
