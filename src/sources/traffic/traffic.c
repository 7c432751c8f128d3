/* The programs of bpf/traffic: loading, the walk over what is there already, and their rows. */
#include "sources/traffic/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/pidns.h"
#include "sources/kernel_types/kernel_types.h"
#include "traffic.skel.h"

#define MAX_LINKS 4

struct gs_traffic {
	struct gs_traffic_bpf *skeleton;
	struct bpf_link *link[MAX_LINKS];
	size_t n_links;
	uint32_t max_rows;
	/* max_rows + GS_TRAFFIC_OTHERS of each; owned */
	struct gs_traffic_key *key;
	struct gs_traffic_row *row;
	struct gs_traffic_found *found;
	const char *missing;
};

/* Only what the kernel has is loaded. A program for each point of the table, in its order. */
static int choose_programs(struct gs_traffic *t, const struct gs_kernel_types *types,
			   bool without_sends, struct gs_err *err)
{
	struct gs_traffic_bpf *s = t->skeleton;
	const struct {
		struct bpf_program *program;
		const char *point;
		bool needed;
	} all[] = {
		{s->progs.gs_traffic_state_set, "inet_sock_set_state", true},
		{s->progs.gs_traffic_read, "tcp_rcv_space_adjust", true},
		{s->progs.gs_traffic_sent, "sock_send_length", false},   /* Linux 6.3 */
		{s->progs.gs_traffic_send, "tcp_sendmsg_locked", false}, /* Linux 6.16 */
	};
	struct gs_traffic_config *config =
		(struct gs_traffic_config *)&s->rodata->gs_traffic_config;
	bool sends = gs_kernel_types_point(types, "sock_send_length") && !without_sends;

	for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
		bool wanted =
			all[i].needed || (sends && gs_kernel_types_point(types, all[i].point));

		if (all[i].needed && !gs_kernel_types_point(types, all[i].point))
			return gs_err_set(err, -ENOTSUP, "this kernel lacks the tracepoint %s",
					  all[i].point);
		bpf_program__set_autoload(all[i].program, wanted);
	}
	bpf_program__set_autoload(s->progs.gs_traffic_walk, true);
	config->sends_seen = sends;
	if (!sends)
		t->missing =
			"sent bytes are counted late (at the next read or the end of a connection); send calls and response times are missing (they need Linux 6.3)";
	return 0;
}

static int walk_files(struct gs_traffic *t, struct bpf_link *link, uint32_t phase)
{
	GS_CLOSE int fd = bpf_iter_create(bpf_link__fd(link));
	char none[64];
	ssize_t r;

	if (fd < 0)
		return -errno;
	t->skeleton->bss->gs_traffic_state.walk_phase = phase;
	/* EAGAIN: the kernel wants to be asked again after very many files. */
	do
		r = read(fd, none, sizeof(none));
	while (r > 0 || (r < 0 && (errno == EAGAIN || errno == EINTR)));
	return r < 0 ? -errno : 0;
}

static int attach_programs(struct gs_traffic *t)
{
	struct gs_traffic_bpf *s = t->skeleton;
	struct bpf_program *const all[MAX_LINKS] = {
		s->progs.gs_traffic_state_set, s->progs.gs_traffic_read, s->progs.gs_traffic_sent,
		s->progs.gs_traffic_send};

	for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
		if (!bpf_program__autoload(all[i]))
			continue;
		t->link[t->n_links] = bpf_program__attach(all[i]);
		if (!t->link[t->n_links])
			return -errno;
		t->n_links++;
	}
	return 0;
}

/* Who listens is known before the first connection is judged by it. */
static int begin_watching(struct gs_traffic *t)
{
	struct bpf_link *walk = bpf_program__attach_iter(t->skeleton->progs.gs_traffic_walk, NULL);
	int r = walk ? walk_files(t, walk, 0) : -errno;

	if (r == 0)
		r = attach_programs(t);
	if (r == 0)
		r = walk_files(t, walk, 1);
	bpf_link__destroy(walk);
	return r;
}

static int silence_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return gs_log_is_on(GS_LOG_TRACE, GS_LOG_ATTACH) ? vfprintf(stderr, fmt, ap) : 0;
}

static int load_with(struct gs_traffic *t, const struct gs_traffic_options *o,
		     const struct gs_kernel_types *types, struct gs_err *err)
{
	static const struct gs_traffic_key rest = {.rest = 1};
	static const struct gs_traffic_row none;
	struct gs_traffic_config *config;
	int r = choose_programs(t, types, o->without_sends, err);

	if (r < 0)
		return r;
	config = (struct gs_traffic_config *)&t->skeleton->rodata->gs_traffic_config;
	config->pid_namespace = gs_pid_namespace();
	for (; config->n_ports < o->n_ports && config->n_ports < GS_TRAFFIC_PORTS;
	     config->n_ports++)
		config->port[config->n_ports] = o->port[config->n_ports];
	r = bpf_map__set_max_entries(t->skeleton->maps.gs_traffic_rows, t->max_rows);
	if (r == 0)
		r = gs_traffic_bpf__load(t->skeleton);
	if (r == 0)
		r = bpf_map_update_elem(bpf_map__fd(t->skeleton->maps.gs_traffic_others), &rest,
					&none, BPF_ANY);
	if (r == 0)
		r = begin_watching(t);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused to trace sockets: %s%s", strerror(-r),
				  r == -EPERM ? " (run as root, or with CAP_BPF and CAP_PERFMON)"
					      : "");
	return 0;
}

static int load_programs(struct gs_traffic *t, const struct gs_traffic_options *o,
			 struct gs_err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts);
	struct gs_kernel_types *types;
	const void *bytes;
	size_t n_bytes;
	int r = gs_kernel_types_new(&types);

	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return gs_err_set(
			err, -ENOTSUP,
			"this kernel has no type information (/sys/kernel/btf/vmlinux): boot one built with CONFIG_DEBUG_INFO_BTF=y");
	bytes = gs_traffic_bpf__elf_bytes(&n_bytes);
	opts.btf_custom_path = gs_kernel_types_few(types, bytes, n_bytes);
	t->skeleton = gs_traffic_bpf__open_opts(&opts);
	r = t->skeleton ? load_with(t, o, types, err) : -errno;
	gs_kernel_types_free(&types);
	return r;
}

int gs_traffic_open(const struct gs_traffic_options *options, struct gs_traffic **ret,
		    struct gs_err *err)
{
	struct gs_traffic_options o = {0};
	struct gs_traffic *t = calloc(1, sizeof(*t));
	int r;

	*ret = NULL;
	if (!t)
		return -ENOMEM;
	memcpy(&o, options, options->size < sizeof(o) ? options->size : sizeof(o));
	libbpf_set_print(silence_libbpf);
	t->max_rows = o.max_rows ? o.max_rows : 4096;
	t->key = calloc(t->max_rows + GS_TRAFFIC_OTHERS, sizeof(*t->key));
	t->row = calloc(t->max_rows + GS_TRAFFIC_OTHERS, sizeof(*t->row));
	t->found = calloc(t->max_rows + GS_TRAFFIC_OTHERS, sizeof(*t->found));
	r = t->key && t->row && t->found ? load_programs(t, &o, err) : -ENOMEM;
	if (r < 0)
		gs_traffic_close(&t);
	*ret = t;
	return r;
}

void gs_traffic_close(struct gs_traffic **traffic)
{
	struct gs_traffic *t = *traffic;

	if (!t)
		return;
	for (size_t i = 0; i < t->n_links; i++)
		bpf_link__destroy(t->link[i]);
	if (t->skeleton)
		gs_traffic_bpf__destroy(t->skeleton);
	free(t->key);
	free(t->row);
	free(t->found);
	free(t);
	*traffic = NULL;
}

const char *gs_traffic_missing(const struct gs_traffic *t)
{
	return t->missing;
}

/* All rows of a map from element `from` of the arrays on. How many, or a negative errno. */
static int read_map(struct gs_traffic *t, const struct bpf_map *map, uint32_t from)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t n = bpf_map__max_entries(map), at;
	int r = bpf_map_lookup_batch(bpf_map__fd(map), NULL, &at, t->key + from, t->row + from, &n,
				     &opts);

	/* ENOENT: that was all. */
	return r < 0 && r != -ENOENT ? r : (int)n;
}

int gs_traffic_read(struct gs_traffic *t, struct gs_traffic_found **ret_found, size_t *ret_n_found)
{
	int n = read_map(t, t->skeleton->maps.gs_traffic_rows, 0), more;

	if (n < 0)
		return n;
	more = read_map(t, t->skeleton->maps.gs_traffic_others, (uint32_t)n);
	if (more < 0)
		return more;
	for (int i = 0; i < n + more; i++) {
		t->found[i].key = t->key[i];
		t->found[i].row = t->row[i];
	}
	*ret_found = t->found;
	*ret_n_found = (size_t)(n + more);
	return 0;
}

int gs_traffic_take(struct gs_traffic *t, const struct gs_traffic_key *key,
		    struct gs_traffic_row *ret_row)
{
	const struct bpf_map *map = key->family ? t->skeleton->maps.gs_traffic_rows
						: t->skeleton->maps.gs_traffic_others;

	return bpf_map_lookup_and_delete_elem(bpf_map__fd(map), key, ret_row);
}

void gs_traffic_losses(const struct gs_traffic *t, struct gs_traffic_state *ret_state)
{
	*ret_state = t->skeleton->bss->gs_traffic_state;
}
