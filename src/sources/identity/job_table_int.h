/*
 * The table of jobs and processes of gs_jobs, between job.c (who is it), job_ask.c (what is
 * asked in the background) and job_list.c.
 */
#ifndef GS_SOURCES_IDENTITY_JOB_TABLE_INT_H
#define GS_SOURCES_IDENTITY_JOB_TABLE_INT_H

#include <sys/stat.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "sources/identity/job.h"
#include "sources/identity/job_cgroup.h"
#include "sources/identity/job_int.h"

#define JOBS_MAX    4096
#define GROUPS_MAX  8
#define TRIES_MAX   3
#define FOLDERS_MAX 1024

#define GS_JOBS_GROUP_BYTES 600 /* a hierarchy's name and a group's path */

#define GS_JOBS_PROCESSES_MAX 65536
#define GS_JOBS_ENVIRON_BYTES (2u << 20)

enum ask_state {
	ASK_NOT = 0, /* nothing to ask */
	ASK_OPEN = 1,
	ASK_DONE = 2,
	ASK_FAILED = 3, /* asked again later, TRIES_MAX times in all */
};

struct job_entry {
	struct gs_job job;
	uint64_t key;
	/* The job's own folders of the cgroup hierarchies: another inode is another run. */
	struct {
		uint64_t path, inode;
	} group[GROUPS_MAX];
	uint32_t n_groups;
	int64_t restart;
	int64_t claim_uid; /* whose claim it is, or was until it was proven; -1 of none */
	bool by_sluid;     /* its folder is called by the sluid: that is what is proven */
	char node[64];     /* ours, as this job's processes call it */
	uint64_t gpus_reported, gpus_environ; /* Slurm's indices */
	uint64_t gpus_drop, gpus_open;        /* as in the snapshot */
	bool has_gpus_reported, has_gpus_environ;
	bool was_superseded; /* a later run has its key */
	uint32_t n_processes;
	uint64_t seen_ns;
	enum ask_state ask;
	uint32_t tries;
	uint64_t retry_ns;
	uint32_t list_at; /* scratch of gs_jobs_list() */
};

struct job_process {
	uint64_t start_ticks;
	uint64_t read_ns;
	struct job_entry *job; /* NULL: of none */
	struct gs_job_task task;
	uint32_t pid; /* 0: the place is free */
	uint32_t next_free;
	bool was_listed; /* scratch of gs_jobs_list() */
	bool is_zombie; /* it ended, its parent has not asked for its status: nothing of it can be read */
	bool is_read; /* false: read it at its next lookup */
};

enum question { Q_NONE, Q_JSON, Q_TEXT, Q_PIDS };

struct gs_jobs {
	int proc_fd, cgroup_fd; /* owned; -1: there is none */
	char command_path[FOLDERS_MAX], drop_folders[FOLDERS_MAX];
	char slurm_conf[512], gres_conf[512], node[64];
	bool no_node, no_controller;
	bool in_container; /* that has ids of its own */
	uint32_t trusted_uid;
	uint32_t claim_asks; /* questions about claims, less those of a while ago */
	uint64_t claim_asks_ns, swept_ns;
	uint64_t cache_ns, command_ns, ns_per_tick;
	uint64_t (*now_ns)(void);

	struct job_entry *entry[JOBS_MAX]; /* owned; no holes */
	uint32_t n_entries;
	struct gs_map by_key; /* -> the address of the newest run's entry */

	struct job_process *process; /* owned; 0 unused */
	uint32_t n_processes, room_processes, free_process;
	struct gs_map by_pid; /* -> index into process */
	struct gs_map
		left_out; /* claims without room, by their keys, as many as are distinguished */

	struct gs_job_gpus gpus;
	bool has_snapshot, has_driver_files, has_gres_conf;
	uint64_t drops_ns; /* when they were read; 0 never */

	struct gs_command command;
	enum question question;
	struct job_entry *asked; /* whom the command is about */
	bool json_works, json_fails;
	uint64_t paused_ns;          /* the controller is left alone until then */
	uint64_t node_ns;            /* when the node may be asked again */
	uint32_t n_unreadable;       /* processes since then whose environment could not be read */
	struct gs_job_pid *reported; /* owned: what the node said, by pid */
	size_t n_reported;

	struct gs_buf text;
	struct gs_jobs_stats stats;
};

/* The entry of a key, made when make is set; NULL: none, or no room. */
struct job_entry *gs_jobs_entry_of(struct gs_jobs *jobs, uint64_t key, bool make);
/* A new run: it takes the key. NULL: no room. */
struct job_entry *gs_jobs_make_entry(struct gs_jobs *jobs, uint64_t key);
uint64_t gs_jobs_key_of_job(int64_t job_id);
uint64_t gs_jobs_key_of_text(uint32_t kind, const char *text);
/* The entry at this place of the list goes away; it has no processes. */
void gs_jobs_free_entry(struct gs_jobs *jobs, uint32_t at);

/* Put what a source knows into the entry: what was empty, or everything when it is the controller.
 */
void gs_jobs_merge(struct job_entry *entry, const struct gs_job *from, bool wins);

/* What Slurm calls this node: said, the option, or the machine's short name. */
void gs_jobs_node_name(const struct gs_jobs *jobs, const char *said, char out[64]);

/* Learn, once, what numbers of GPUs mean on the node of this name ("" ours). */
void gs_jobs_prepare_gpus(struct gs_jobs *jobs, const char *node);

/* What follows from several sources. */
const struct gs_job *gs_jobs_finish(struct gs_jobs *jobs, struct job_entry *entry);

/* The process, read again when that is due; NULL: gone and never seen. */
struct job_process *gs_jobs_process(struct gs_jobs *jobs, uint32_t pid);
void gs_jobs_drop_process(struct gs_jobs *jobs, struct job_process *process);

/* Files of a prolog, when it is time. */
void gs_jobs_read_drops(struct gs_jobs *jobs);

/* The entry goes away: no command may be asked about it. */
bool gs_jobs_is_asked(const struct gs_jobs *jobs, const struct job_entry *entry);

/* --- job_claim.c --- */

/* The inode of the job's own folder; 0: not to be seen. */
uint64_t gs_jobs_group_inode(const struct gs_jobs *jobs, const struct gs_job_cgroup *group);
/* A gs_job_owner_fn; ctx is a struct gs_jobs. */
enum gs_job_owner gs_jobs_group_owner(void *ctx, const char *hierarchy, const char *path);
bool gs_jobs_trusts_file(const struct gs_jobs *jobs, const struct stat *st);

/* A user's claim to a job: by its number, or without one (-1) by its name. */
uint64_t gs_jobs_key_of_claim(uint32_t kind, int64_t job_id, const char *name, uint32_t uid);
/* Whether one more claim of the user is kept; otherwise it is counted. */
bool gs_jobs_claim_room(struct gs_jobs *jobs, uint64_t key, uint32_t uid);
/* The key is that of a job which is proven to be the user's. */
bool gs_jobs_is_owner(struct gs_jobs *jobs, uint64_t key, uint32_t uid);
/* Who claims much shall not keep the controller busy. */
bool gs_jobs_may_ask_claim(const struct gs_jobs *jobs, uint64_t now_ns);
void gs_jobs_count_claim_ask(struct gs_jobs *jobs, uint64_t now_ns);
/* What the controller said of the job that is claimed. True: the entry is this job from now on. */
bool gs_jobs_settle_claim(struct gs_jobs *jobs, struct job_entry *entry, const struct gs_job *said);

#endif
