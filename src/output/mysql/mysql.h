/*
 * Samples of this node for a MySQL or MariaDB server: tables of our own, or those that eACGM's
 * dashboards read. A sample becomes rows, which wait as one batch in a durable queue until the server
 * has committed them. The batch's number is written in the same transaction, so that a batch that is
 * sent a second time, because it is not known whether the first transaction was committed, changes
 * nothing.
 *
 * The server is spoken to by libmariadb, opened at run time in a process without rights
 * (core/sender/sender.h); a thread gives it the batches and removes rows that are too old.
 */
#ifndef GS_OUTPUT_MYSQL_MYSQL_H
#define GS_OUTPUT_MYSQL_MYSQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/conf.h"
#include "core/base/err.h"
#include "model/node/host.h"
#include "model/node/traffic.h"
#include "output/metrics/metrics.h"

/* Which tables are written, combined by or. */
enum gs_mysql_tables {
	GS_MYSQL_TABLES_OWN = 1,
	GS_MYSQL_TABLES_EACGM = 2,
};

struct gs_mysql_conf {    /* Fields as the keys of conf.c, texts "" where not given */
	char server[256]; /* "": off */
	char database[65], user[81];
	char password_file[256];
	int schema; /* index into gs_mysql_schema_names */
	char node[GS_HOST_NAME_BYTES];
	uint64_t interval_ns;
	uint64_t retention_ns; /* 0: nothing is removed */
	bool tls;
	char tls_ca[256];
	char spool[256]; /* "": in memory */
	int64_t spool_max_mib;
};

#define GS_MYSQL_CONF_KEYS 12
extern const struct gs_conf_key gs_mysql_conf_keys[GS_MYSQL_CONF_KEYS];

extern const char *const gs_mysql_schema_names[]; /* "gpuscope", "eacgm", "both"; ends with NULL */

/* For a schema's check: what no single key decides. 0, or what gs_conf_refuse() returned. */
int gs_mysql_conf_check(const struct gs_mysql_conf *conf, const struct gs_conf_where *where,
			struct gs_err *err);

/* Append the statements that create the tables of a schema (one of gs_mysql_schema_names), and as
 * comments the rights that writing them needs. 0, -EINVAL (no such schema) or -ENOMEM. */
int gs_mysql_print_schema(const char *schema, struct gs_buf *out);

struct gs_mysql;

struct gs_mysql_options {
	size_t size;                      /* of this struct */
	const struct gs_mysql_conf *conf; /* copied */
	/* One line when the server begins to refuse samples, and when it takes them again; on the
	 * thread. May be NULL. */
	void (*on_message)(void *ctx, const char *text);
	void *ctx;
};

/* *ret stays NULL when no server is configured. -ENOENT: no libmariadb; -EBUSY: another program has
 * the spool; -EPERM and others: the password's file. All with err. */
int gs_mysql_start(const struct gs_mysql_options *options, struct gs_mysql **ret,
		   struct gs_err *err);

/* Whether the next sample is due: then it is to be put now. One thread. */
bool gs_mysql_take_turn(struct gs_mysql *m);

/* Queue a sample: this reading of the GPUs, lent, and the machine and its processes as they are now.
 * jobs: taken over; NULL: not known. traffic: since the sample before, for eACGM's tables of Ollama;
 * lent, NULL: not known. 0, or a negative errno: it is lost. The same thread. */
int gs_mysql_put(struct gs_mysql *m, struct gs_gpu_snapshot *gpu, struct gs_job_accounts *jobs,
		 const struct gs_traffic_growth *traffic);

/* Writes what waits, for at most drain_ns. Returns how many samples stay in the spool, or are lost
 * when there is none. */
uint64_t gs_mysql_stop(struct gs_mysql **m, uint64_t drain_ns);

struct gs_mysql_stats {            /* since the start */
	uint64_t samples;          /* committed by the server */
	uint64_t repeated_samples; /* sent again that the server had already */
	uint64_t rejected_samples; /* the server will never take them: dropped */
	uint64_t lost_samples;     /* given up for lack of room, over all runs of the spool */
	uint64_t failures;         /* connections and transactions that failed */
	uint64_t removed_rows;     /* older than the retention */
	uint64_t waiting_samples;  /* in the spool, as of now */
	uint64_t last_ok_wall_ns;  /* 0: none yet */
	bool is_connected;         /* as of the last request */
	char trouble[256];         /* of the last request; "" it succeeded */
};

/* As of now. Any thread. */
void gs_mysql_read_stats(struct gs_mysql *m, struct gs_mysql_stats *ret_stats);

/* Families about it, called PREFIX_mysql_...; m may be NULL: none. */
void gs_mysql_put_metrics(struct gs_metrics *p, struct gs_mysql *m, const char *prefix);

/* Of a process that was started to send (gs_sender_is_called() with "mysql"). Does not return. */
int gs_mysql_sender_main(void);

/* Why no server could be spoken to: "" is none, else what is missing and what to install, lent for ever. Loads libmariadb into
 * this process. */
const char *gs_mysql_missing(void);

#endif
