/*
 * The flight recorder: the last seconds of chosen jobs in full detail, in memory, and written as .gst files when
 * something happens. A program of its own records each job, `gpuscope trace --keep-last` of the job's processes, so that
 * it costs the agent nothing, and what it holds is written when the agent is killed. agent_recorder.c has the programs,
 * agent_recorder_files.c their files, agent_recorder_conf.c the configuration.
 */
#ifndef GS_COMMANDS_AGENT_RECORDER_AGENT_RECORDER_H
#define GS_COMMANDS_AGENT_RECORDER_AGENT_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/conf.h"
#include "core/base/err.h"
#include "net/http/http.h"
#include "output/metrics/metrics.h"

struct agent_findings;
struct agent_recorder;

struct agent_recorder_conf { /* Fields as the keys of agent_recorder_keys, texts "" where not given */
	char jobs[512];      /* patterns of ids and names of jobs, with commas; "" none */
	uint64_t keep_ns;
	int64_t memory_mib; /* of each recorded job */
	int64_t max_jobs;   /* recorded at one time */
	uint64_t hang_after_ns;
	char directory[256];
	int64_t max_files, max_mib; /* of the directory; the oldest go */
};

#define AGENT_RECORDER_MAX  64 /* programs */
#define AGENT_RECORDER_KEYS 8
extern const struct gs_conf_key agent_recorder_keys[AGENT_RECORDER_KEYS];

/* Begin, in a thread; *ret stays NULL when no jobs are chosen, which all of these take. 0, or a negative errno with
 * err: the directory cannot be used. */
int agent_recorder_start(const struct agent_recorder_conf *conf, struct agent_recorder **ret,
			 struct gs_err *err);

/* Ends its programs; what they hold is not written. */
void agent_recorder_stop(struct agent_recorder **recorder);

/* Writes what is held of a job, "job:ID" (NULL: of all), as soon as its program gets to it. How many were asked; -ENOENT
 * with err: it is not recorded; -ENOTSUP: nothing is. Any thread. */
int agent_recorder_save(struct agent_recorder *recorder, const char *what, struct gs_err *err);

/* The same of the words of save-trace, "job:ID" or none, with an answer of a line. */
void agent_recorder_take_words(struct agent_recorder *recorder, const char *words,
			       struct gs_buf *answer);

/* The same by HTTP: POST /api/v1/recorder/job:4711, or all. */
void agent_recorder_serve_save(struct agent_recorder *recorder,
			       const struct gs_http_request *request, struct gs_http_reply *reply);

/* Findings that began since the last time: their jobs are written, or all where the job is not known. Main thread. */
void agent_recorder_follow(struct agent_recorder *recorder, struct agent_findings *findings);

/* What is recorded and written: lines for people, the document of the API, metrics. Any thread. */
void agent_recorder_status(struct agent_recorder *recorder, struct gs_buf *out);
void agent_recorder_document(struct agent_recorder *recorder, struct gs_buf *out);
void agent_recorder_metrics(struct agent_recorder *recorder, struct gs_metrics *p);

/* --- agent_recorder_files.c --- */

struct agent_recorder_file {
	char name[256];
	uint64_t bytes;
	int64_t wall_ns; /* when it was written */
};

struct agent_recorder_files {
	struct agent_recorder_file *file; /* owned; the newest first */
	size_t n_files;
	uint64_t bytes; /* of all */
};

/* Makes the directory where it is missing, 0700. A negative errno with err. */
int agent_recorder_prepare(const char *directory, struct gs_err *err);

/* The files that recorders have written there; those beyond so many files and bytes are removed, the oldest first.
 * 0 or a negative errno. */
int agent_recorder_prune(const char *directory, uint64_t max_files, uint64_t max_bytes,
			 struct agent_recorder_files *ret_files);
void agent_recorder_files_fini(struct agent_recorder_files *files);

/* "job-4711.gst" in the directory: an id may hold anything. */
void agent_recorder_name(const char *directory, const char *id, char *out, size_t bytes);

#endif
