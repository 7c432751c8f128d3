/*
 * The head's configuration file: the tables of which src/core/base/conf makes the parser and the
 * commented default. What options of the command line say is put over it by the same parser.
 */
#ifndef GS_SERVER_HEAD_HEAD_CONF_H
#define GS_SERVER_HEAD_HEAD_CONF_H

#include "core/base/conf.h"
#include "server/head/head.h"
#include "output/metrics_push/set.h"

/* Ports of this machine unless the configuration names others: of nodes, of the page and the HTTP API. */
#define GS_HEAD_PORT      "8090"
#define GS_HEAD_HTTP_PORT "8091"

struct gs_head_conf { /* Fields as the keys of head_conf.c, texts "" where not given */
	struct {
		char listen[1024]; /* with commas */
		char tls_cert[256], tls_key[256], tls_client_ca[256];
		char token_file[256];
		bool allow_exit, anonymous_control, certificate_names;
		char control_socket[128]; /* "": the usual one; "none" */
		char control_group[64];
	} nodes;
	struct {
		char host[256];
		char port[8]; /* "": the usual one, if it can be had; "0": none */
		char hosts[1024], origins[1024]; /* with commas */
		bool anonymous;
	} http;
	struct {
		uint64_t interval_ns;
		bool bandwidth, nvlink;
	} sampling;
	struct {
		char path[512]; /* "": the usual one */
		char output_dir[512];
		char recorder_dir[512], recorder_max[32];
		char retention[32], retention_bytes[32];
		struct gs_conf_rows downsample;
		bool downsample_sessions;
	} store;
	struct gs_push_conf push[GS_PUSH_PROTOCOLS];
};

extern const struct gs_conf_schema gs_head_conf_schema;

struct gs_head_override { /* an option of the command line: its name, the key, its value; lent */
	const char *name, *key, *value;
};

/* The file (NULL: the defaults), and options over it. -EINVAL, ... with err; report: as in
 * core/base/conf.h. */
int gs_head_conf_read(const char *path, const struct gs_head_override *overrides, size_t n,
		      struct gs_head_conf *ret_conf, gs_conf_report_fn report, struct gs_err *err);

/* How long and how fine what is stored is kept. Of a valid configuration. */
void gs_head_conf_retention(const struct gs_head_conf *conf,
			    struct gs_head_retention *ret_retention);

/* A new configuration of a head that runs: keys whose change needs a new start keep their old
 * values in now, and are named in ret_names, with commas ("" none). */
void gs_head_conf_fixed(const struct gs_head_conf *old, struct gs_head_conf *now, char *ret_names,
			size_t bytes);

/* The same, and the rest is done; the head says what it could not do. Switches change only where
 * the file says something new: what was set meanwhile holds otherwise. The thread that started the
 * head. */
void gs_head_apply(struct gs_head *head, const struct gs_head_conf *old, struct gs_head_conf *now,
		   const char *hostname);

#endif
