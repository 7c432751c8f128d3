/*
 * The flight recorder: keeps the last seconds of chosen jobs in memory, in full detail, and writes them as .gst files when
 * something happens. A separate program, `gpuscope trace --keep-last`, records each job. So recording does not slow the
 * agent down, and the data is written even if the agent is killed. agent_recorder.c runs the programs,
 * agent_recorder_files.c manages their files, agent_recorder_conf.c has the configuration.
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

/* The section `recorder`: a field for each of agent_recorder_keys, which has their ranges and defaults. */
struct agent_recorder_conf {
	char jobs[512];     /* patterns of job ids and names, separated by commas; "": none */
	uint64_t keep_ns;   /* how much of each job is kept */
	int64_t memory_mib; /* per program */
	int64_t max_jobs;   /* programs at a time; a job has one for each of its steps */
	uint64_t hang_after_ns;
	char directory[256];
	int64_t max_files, max_mib; /* limits of the directory; the oldest files are removed */
	bool by_head;               /* users of the head may list, download and trigger files */
};

#define AGENT_RECORDER_MAX  64 /* programs, the upper limit of max_jobs */
#define AGENT_RECORDER_KEYS 9
extern const struct gs_conf_key agent_recorder_keys[AGENT_RECORDER_KEYS];

/* Starts the recorder in a thread of its own. If conf->jobs is empty, *ret stays NULL, which the functions below accept.
 * Free *ret with agent_recorder_stop(). 0, or a negative errno with err, such as when the directory cannot be used. */
int agent_recorder_start(const struct agent_recorder_conf *conf, struct agent_recorder **ret,
			 struct gs_err *err);

/* Ends its programs without writing what they hold, frees *recorder and sets it to NULL. Takes up to 10 s. */
void agent_recorder_stop(struct agent_recorder **recorder);

/* Has the programs of a job write what they hold. what: "job:ID" or "ID"; NULL: all jobs. Does not wait for them.
 * Returns how many programs will write; -ENOENT with err: the job is not recorded; -ENOTSUP with err: no jobs are
 * configured. Any thread. */
int agent_recorder_save(struct agent_recorder *recorder, const char *what, struct gs_err *err);

/* The command `gpuscope agent ctl save-trace WORDS`: WORDS is "job:ID" or empty (all). Appends a line to answer. */
void agent_recorder_take_words(struct agent_recorder *recorder, const char *words,
			       struct gs_buf *answer);

/* The same over HTTP: POST /api/v1/recorder/job:4711 or /api/v1/recorder/all. */
void agent_recorder_serve_save(struct agent_recorder *recorder,
			       const struct gs_http_request *request, struct gs_http_reply *reply);

/* Has the jobs of new findings written, or all jobs where the job of a finding is unknown. Main thread. */
void agent_recorder_follow(struct agent_recorder *recorder, struct agent_findings *findings);

/* What is being recorded and what was written: lines for `agent ctl status`, the JSON of /api/v1/recorder, and metrics
 * gpuscope_agent_recorder_*. Errors stay in out and p. Any thread. */
void agent_recorder_status(struct agent_recorder *recorder, struct gs_buf *out);
void agent_recorder_document(struct agent_recorder *recorder, struct gs_buf *out);
void agent_recorder_metrics(struct agent_recorder *recorder, struct gs_metrics *p);

/* Appends bytes of a file to out: from offset on, at most max_bytes. *ret_total_bytes: size of the file. name: as in the
 * document; it comes from outside and is checked. 0; -ENOENT: no such file, or not any more; -ENOTSUP: no jobs are
 * configured; or another negative errno. Any thread. */
int agent_recorder_read(struct agent_recorder *recorder, const char *name, uint64_t offset,
			uint32_t max_bytes, struct gs_buf *out, uint64_t *ret_total_bytes);

/* --- agent_recorder_files.c --- */

struct agent_recorder_file {
	char name[256]; /* without the directory */
	uint64_t bytes;
	int64_t wall_ns; /* when it was written */
	char reason
		[200]; /* why, for people; "": unknown, as the file system has no extended attributes */
};

struct agent_recorder_files {
	struct agent_recorder_file *file; /* owned; the newest first */
	size_t n_files;
	uint64_t bytes; /* of all */
};

/* Creates the directory if it is missing (mode 0700), and checks that others cannot write to it. 0, or a negative errno
 * with err. */
int agent_recorder_prepare(const char *directory, struct gs_err *err);

/* Lists the files of recorders in the directory, after it has removed the oldest ones beyond the limits; the newest one
 * is never removed. Free *ret_files with agent_recorder_files_fini(), also after an error. 0 or a negative errno. */
int agent_recorder_prune(const char *directory, uint64_t max_files, uint64_t max_bytes,
			 struct agent_recorder_files *ret_files);
void agent_recorder_files_fini(struct agent_recorder_files *files);

/* As agent_recorder_read(). */
int agent_recorder_read_file(const char *directory, const char *name, uint64_t offset,
			     uint32_t max_bytes, struct gs_buf *out, uint64_t *ret_total_bytes);

/* Path of a job's files, "DIRECTORY/job-4711.gst", to which the program adds the time. Characters of the id that are not
 * letters, digits, _, - or + become _, and at most 64 are used. */
void agent_recorder_name(const char *directory, const char *id, char *out, size_t bytes);

#endif
