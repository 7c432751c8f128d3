/* The head's configuration: tables, and what they mean. */
#include "server/head/head_conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "net/http/http_conf.h"
#include "server/head/head_int.h"

#define KEEP_LEAST_BYTES (16ull << 20)
#define PATIENCE_MOST_NS (36500 * 24 * (uint64_t)GS_CONF_H) /* a hundred years */

/* "7d" or what gs_parse_ns() takes with a unit. 0 or -EINVAL. */
static int parse_age(const char *text, uint64_t *ret_ns)
{
	size_t n = strlen(text);
	char *end;
	double days;

	if (n == 0 || strspn(text, "0123456789.") == n)
		return -EINVAL;
	if (text[n - 1] == 'd') {
		if (strspn(text, "0123456789.") != n - 1)
			return -EINVAL;
		days = strtod(text, &end);
		if (*end != 'd' || !(days > 0) || days > 36500)
			return -EINVAL;
		*ret_ns = (uint64_t)(days * 24 * (double)GS_CONF_H);
		return 0;
	}
	if (gs_parse_ns(text, 1, ret_ns) < 0 || *ret_ns == 0 || *ret_ns > PATIENCE_MOST_NS)
		return -EINVAL;
	return 0;
}

static bool valid_keep(const char *text)
{
	uint64_t ns;

	return strcmp(text, "forever") == 0 || parse_age(text, &ns) == 0;
}

static bool valid_size(const char *text)
{
	uint64_t bytes;

	return gs_parse_bytes(text, &bytes) == 0 && bytes >= KEEP_LEAST_BYTES;
}

/* HOST:PORT or [IPv6]:PORT, as the gRPC server takes them. */
static bool valid_listen(const char *text)
{
	const char *colon = strrchr(text, ':');
	char *end;
	long port;

	if (!colon || colon == text || !colon[1] || strspn(colon + 1, "0123456789") > 5)
		return false;
	port = strtol(colon + 1, &end, 10);
	return !*end && port >= 0 && port <= 65535 && !strpbrk(text, " \t/");
}

static bool valid_port(const char *text)
{
	return strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text) &&
	       atol(text) <= 65535;
}

#define AT(section, field)   offsetof(__typeof__(((struct gs_head_conf *)0)->section), field)
#define SIZE(section, field) sizeof(((struct gs_head_conf *)0)->section.field)

static const struct gs_conf_key nodes_keys[] = {
	{.name = "listen",
	 .kind = GS_CONF_LIST,
	 .offset = AT(nodes, listen),
	 .preset = "127.0.0.1:" GS_HEAD_PORT,
	 .comment = "HOST:PORT, or a list of them. Use TLS and tokens beyond this machine.",
	 .bytes = SIZE(nodes, listen),
	 .valid = valid_listen,
	 .expects = "addresses such as 127.0.0.1:8090 or [::1]:8090"},
	{.name = "tls_cert",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, tls_cert),
	 .preset = "",
	 .comment = "Certificate and key (PEM), of HTTP too; both or none. Read again on reload.",
	 .bytes = SIZE(nodes, tls_cert)},
	{.name = "tls_key",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, tls_key),
	 .preset = "",
	 .comment = "",
	 .bytes = SIZE(nodes, tls_key)},
	{.name = "tls_client_ca",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, tls_client_ca),
	 .preset = "",
	 .comment = "CA certificate (PEM): only clients with a certificate of it may connect.",
	 .bytes = SIZE(nodes, tls_client_ca)},
	{.name = "certificate_names",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(nodes, certificate_names),
	 .preset = "true",
	 .comment =
		 "A node's certificate must contain its host name; false: one certificate for all nodes."},
	{.name = "token_file",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, token_file),
	 .preset = "",
	 .comment =
		 "File of ROLE TOKEN lines; a role is node, read or control. Must not be world-readable.\n"
		 "node TOKEN NAME,...: only for these nodes (gpu7, gpu[0-9]*). Read again on reload. HTTP\n"
		 "requires these tokens, too.",
	 .bytes = SIZE(nodes, token_file)},
	{.name = "allow_exit",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(nodes, allow_exit),
	 .preset = "false",
	 .comment = "Allow gswarm-profiler's Exit call to stop this head."},
	{.name = "control_socket",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, control_socket),
	 .preset = "",
	 .comment =
		 "Unix socket on which root and this head's user may do everything without a token; empty: the\n"
		 "default (head-PORT.sock in the runtime directory); none: no socket.",
	 .bytes = SIZE(nodes, control_socket)},
	{.name = "control_group",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(nodes, control_group),
	 .preset = "",
	 .comment = "Group whose members may also use the control socket.",
	 .bytes = SIZE(nodes, control_group)},
	{.name = "anonymous_control",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(nodes, anonymous_control),
	 .preset = "false",
	 .comment =
		 "Without a token_file: anyone who can connect may start, stop and delete sessions, as with\n"
		 "gswarm-profiler, and so may every user of this machine."},
};

static const struct gs_conf_key http_keys[] = {
	{.name = "host",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, host),
	 .preset = "127.0.0.1",
	 .comment = "Address of the page and the HTTP API.",
	 .bytes = SIZE(http, host)},
	{.name = "port",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(http, port),
	 .preset = "",
	 .comment = "Port of the page and the HTTP API; 0: none. Empty: " GS_HEAD_HTTP_PORT
		    ", or none if that is in use.",
	 .bytes = SIZE(http, port),
	 .valid = valid_port,
	 .expects = "0 (no HTTP) to 65535"},
	GS_HTTP_CONF_HOSTS(AT(http, hosts), SIZE(http, hosts)),
	GS_HTTP_CONF_ORIGINS(AT(http, origins), SIZE(http, origins)),
	GS_HTTP_CONF_ANONYMOUS(AT(http, anonymous)),
};

static const struct gs_conf_key sampling_keys[] = {
	{.name = "interval",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(sampling, interval_ns),
	 .preset = "1s",
	 .comment = "Time between samples; sessions may ask for less.",
	 .min = GS_HEAD_INTERVAL_LEAST_NS,
	 .max = GS_HEAD_INTERVAL_MOST_NS},
	{.name = "bandwidth",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(sampling, bandwidth),
	 .preset = "false",
	 .comment = "Read PCIe and memory counters even if no session asks for them."},
	{.name = "nvlink",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(sampling, nvlink),
	 .preset = "false",
	 .comment = "Read NVLink counters even if no session asks for them."},
};

static const char *const downsample_columns[] = {"after", "interval", NULL};

static const struct gs_conf_key store_keys[] = {
	{.name = "path",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, path),
	 .preset = "",
	 .comment = "Data directory; empty: /var/lib/gpuscope/head, or for users other than root\n"
		    "~/.local/state/gpuscope/head.",
	 .bytes = SIZE(store, path)},
	{.name = "output_dir",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, output_dir),
	 .preset = "",
	 .comment =
		 "Directory to which each stopped session is written: NAME.json in gswarm-profiler's form, and\n"
		 "its figure NAME.png. Empty: none. Not changed by a reload.",
	 .bytes = SIZE(store, output_dir)},
	{.name = "recorder_dir",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, recorder_dir),
	 .preset = "",
	 .comment =
		 "Directory to which files of nodes' flight recorders are copied, for nodes that go away. Empty:\n"
		 "none, they stay on the nodes. Not changed by a reload.",
	 .bytes = SIZE(store, recorder_dir)},
	{.name = "recorder_max",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, recorder_max),
	 .preset = "4G",
	 .comment =
		 "Size limit of the copies; then the oldest are removed. Not changed by a reload.",
	 .bytes = SIZE(store, recorder_max),
	 .valid = valid_size,
	 .expects = "16M or more, such as 100G"},
	{.name = "retention",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, retention),
	 .preset = "7d",
	 .comment = "Age limit of data that no session covers: 12h, 90d, forever.",
	 .bytes = SIZE(store, retention),
	 .valid = valid_keep,
	 .expects = "a time such as 12h or 7d, or forever"},
	{.name = "retention_bytes",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(store, retention_bytes),
	 .preset = "",
	 .comment =
		 "Size limit of data that no session covers, such as 100G; then the oldest are removed.\n"
		 "Empty: none.",
	 .bytes = SIZE(store, retention_bytes),
	 .valid = valid_size,
	 .expects = "16M or more, such as 100G"},
	{.name = "downsample",
	 .kind = GS_CONF_ROWS,
	 .offset = AT(store, downsample),
	 .comment =
		 "Downsample older data: one sample per interval, with means, the last value of\n"
		 "counters, and maxima. For example\n"
		 "  - {after: 1d, interval: 10s}\n  - {after: 7d, interval: 60s}\n"
		 "Each interval is a multiple of the previous one. Empty: no downsampling.",
	 .preset = "",
	 .choices = downsample_columns},
	{.name = "downsample_sessions",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(store, downsample_sessions),
	 .preset = "false",
	 .comment = "Also downsample data that sessions cover."},
};

#define SECTION(name_, comment_, field, table)                                                     \
	{                                                                                          \
		.name = name_, .comment = comment_,                                                \
		.offset = offsetof(struct gs_head_conf, field), .keys = table,                     \
		.n_keys = GS_ARRAY_LEN(table)                                                      \
	}

static const struct gs_conf_section sections[] = {
	SECTION("nodes", "Server for nodes and commands. Not changed by a reload.", nodes,
		nodes_keys),
	SECTION("http", "The page and the HTTP API. Not changed by a reload.", http, http_keys),
	SECTION("sampling", "Measurement on nodes.", sampling, sampling_keys),
	SECTION("store", "Storage. The path is not changed by a reload.", store, store_keys),
	GS_PUSH_SECTIONS(offsetof(struct gs_head_conf, push)),
};

/* --- what belongs together --- */

/* The key that is wrong, and why; NULL: none. */
static const char *find_wrong_key(const struct gs_head_conf *c, const char **ret_key)
{
	*ret_key = c->nodes.tls_cert[0] ? "nodes.tls_cert" : "nodes.tls_key";
	if (!c->nodes.tls_cert[0] != !c->nodes.tls_key[0])
		return "tls_cert and tls_key go together";
	*ret_key = "nodes.tls_client_ca";
	if (c->nodes.tls_client_ca[0] && !c->nodes.tls_cert[0])
		return "tls_client_ca without tls_cert and tls_key: there is no TLS";
	*ret_key = "nodes.listen";
	if (!c->nodes.listen[0])
		return "listen must not be empty";
	return NULL;
}

static int parse_level(const struct gs_conf_cell *row, struct gs_head_level *ret_level)
{
	return parse_age(row[0].text, &ret_level->after_ns) < 0 ? 0
	       : parse_age(row[1].text, &ret_level->interval_ns) < 0 ||
			       ret_level->interval_ns < GS_HEAD_COARSE_LEAST_NS ||
			       ret_level->interval_ns > GS_HEAD_COARSE_MOST_NS
		       ? 1
		       : -1;
}

static int check_levels(const struct gs_head_conf *c, const struct gs_conf_where *where,
			struct gs_err *err)
{
	const struct gs_conf_rows *rows = &c->store.downsample;
	struct gs_head_level before = {0}, level;
	const struct gs_conf_cell *cell;

	for (uint32_t i = 0; i < rows->n; i++, before = level) {
		int column = parse_level(rows->cell[i], &level);

		if (column >= 0) {
			/* What is not given stands nowhere: then where its entry begins. */
			cell = &rows->cell[i][column];
			cell = cell->line ? cell : &rows->cell[i][!column];
			return gs_conf_refuse_at(
				where, cell->line, cell->column, err,
				column == 0 ? "after takes an age such as 12h or 7d, not \"%s\""
					    : "interval takes 1s to 10m, not \"%s\"",
				rows->cell[i][column].text);
		}
		cell = rows->cell[i];
		if (i == GS_HEAD_LEVELS_MAX)
			return gs_conf_refuse_at(where, cell->line, cell->column, err,
						 "more than %d steps", GS_HEAD_LEVELS_MAX);
		if (i && level.after_ns <= before.after_ns)
			return gs_conf_refuse_at(
				where, cell->line, cell->column, err,
				"after must be later than that of the previous entry");
		if (i && (level.interval_ns <= before.interval_ns ||
			  level.interval_ns % before.interval_ns))
			return gs_conf_refuse_at(where, cell[1].line, cell[1].column, err,
						 "interval must be a multiple of the previous one");
	}
	return 0;
}

static int check_conf(const void *whole, const struct gs_conf_where *where, struct gs_err *err)
{
	const struct gs_head_conf *c = whole;
	const char *key, *why = find_wrong_key(c, &key);
	int r = why ? gs_conf_refuse(where, key, err, "%s", why) : 0;

	if (r == 0)
		r = check_levels(c, where, err);
	return r == 0 ? gs_push_conf_check(c->push, where, err) : r;
}

const struct gs_conf_schema gs_head_conf_schema = {
	.comment =
		"gpuscope head: /etc/gpuscope/head.yaml. Every key is shown with its default, which holds\n"
		"where it is left out. `gpuscope head --check-config` checks a file; after a change:\n"
		"`systemctl reload gpuscope-head` (SIGHUP).",
	.bytes = sizeof(struct gs_head_conf),
	.sections = sections,
	.n_sections = GS_ARRAY_LEN(sections),
	.check = check_conf,
};

int gs_head_conf_read(const char *path, const struct gs_head_override *overrides, size_t n,
		      struct gs_head_conf *ret_conf, gs_conf_report_fn report, struct gs_err *err)
{
	GS_FREE struct gs_head_conf *conf = calloc(1, sizeof(*conf));
	const char *key, *why;
	int r = 0;

	if (!conf)
		return -ENOMEM;
	if (path)
		r = gs_conf_load(&gs_head_conf_schema, path, conf, report, err);
	else
		gs_conf_defaults(&gs_head_conf_schema, conf);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct gs_err wrong_value = {{0}};

		r = gs_conf_put(&gs_head_conf_schema, overrides[i].key, overrides[i].value, conf,
				&wrong_value);
		if (r < 0)
			return gs_err_set(err, r, "--%s: %s", overrides[i].name, wrong_value.text);
	}
	/* A file and options that are right each for itself need not be so together. */
	why = r == 0 ? find_wrong_key(conf, &key) : NULL;
	if (why)
		r = gs_err_set(err, -EINVAL, "%s: %s", key, why);
	if (r == 0)
		memcpy(ret_conf, conf, sizeof(*conf));
	return r;
}

void gs_head_conf_retention(const struct gs_head_conf *conf,
			    struct gs_head_retention *ret_retention)
{
	*ret_retention =
		(struct gs_head_retention){.coarse_sessions = conf->store.downsample_sessions};
	if (strcmp(conf->store.retention, "forever") != 0)
		(void)parse_age(conf->store.retention, &ret_retention->max_age_ns);
	(void)gs_parse_bytes(conf->store.retention_bytes, &ret_retention->max_bytes);
	for (uint32_t i = 0; i < conf->store.downsample.n && i < GS_HEAD_LEVELS_MAX; i++)
		if (parse_level(conf->store.downsample.cell[i],
				&ret_retention->level[ret_retention->n_levels]) < 0)
			ret_retention->n_levels++;
}

/* --- a head that runs --- */

static void keep_fixed(const char *old, char *now, size_t bytes, const char *name, char *names,
		       size_t names_bytes)
{
	size_t n = strlen(names);

	if (strcmp(old, now) == 0)
		return;
	memcpy(now, old, bytes);
	snprintf(names + n, names_bytes - n, "%s%s", n ? ", " : "", name);
}

static void keep_fixed_bool(bool old, bool *now, const char *name, char *names, size_t names_bytes)
{
	size_t n = strlen(names);

	if (old != *now)
		snprintf(names + n, names_bytes - n, "%s%s", n ? ", " : "", name);
	*now = old;
}

void gs_head_conf_fixed(const struct gs_head_conf *old, struct gs_head_conf *now, char *ret_names,
			size_t bytes)
{
	ret_names[0] = '\0';
#define FIX(section, field)                                                                        \
	keep_fixed(old->section.field, now->section.field, sizeof(now->section.field),             \
		   #section "." #field, ret_names, bytes)
	FIX(nodes, listen);
	FIX(nodes, tls_cert);
	FIX(nodes, tls_key);
	FIX(nodes, tls_client_ca);
	FIX(nodes, token_file);
	FIX(nodes, control_socket);
	FIX(nodes, control_group);
	FIX(http, host);
	FIX(http, port);
	FIX(http, hosts);
	FIX(http, origins);
	FIX(store, path);
	FIX(store, output_dir);
	FIX(store, recorder_dir);
	FIX(store, recorder_max);
#undef FIX
#define FIX_BOOL(section, field)                                                                   \
	keep_fixed_bool(old->section.field, &now->section.field, #section "." #field, ret_names,   \
			bytes)
	FIX_BOOL(http, anonymous);
	FIX_BOOL(nodes, certificate_names);
	FIX_BOOL(nodes, anonymous_control);
	FIX_BOOL(nodes, allow_exit);
#undef FIX_BOOL
}

static int apply_switches(struct gs_head *head, const struct gs_head_conf *old,
			  const struct gs_head_conf *now, struct gs_err *err)
{
	struct gs_head_switches w;

	if (old->sampling.interval_ns == now->sampling.interval_ns &&
	    old->sampling.bandwidth == now->sampling.bandwidth &&
	    old->sampling.nvlink == now->sampling.nvlink)
		return 0;
	gs_head_switches(head, &w);
	w.interval_ns = now->sampling.interval_ns;
	w.bandwidth = now->sampling.bandwidth;
	w.nvlink = now->sampling.nvlink;
	return gs_head_set(head, &w, err);
}

void gs_head_apply(struct gs_head *head, const struct gs_head_conf *old, struct gs_head_conf *now,
		   const char *hostname)
{
	struct gs_err err = {{0}};
	struct gs_head_retention retention;
	char fixed[512];
	int r;

	gs_head_conf_fixed(old, now, fixed, sizeof(fixed));
	if (fixed[0])
		head_log(head, "changed; takes effect after a restart: %s", fixed);
	gs_head_conf_retention(now, &retention);
	gs_head_set_retention(head, &retention);
	r = apply_switches(head, old, now, &err);
	if (r < 0)
		head_log(head, "%s", gs_err_text(&err, r));
	if (gs_push_conf_same(old->push, now->push))
		return;
	err.text[0] = 0;
	r = gs_head_push(head, now->push, hostname, &err);
	if (r < 0)
		head_log(head, "nothing is pushed: %s", gs_err_text(&err, r));
}
