/*
 * One frame. Numbers are percent and GB/s, null is a value that is not known. gswarm-profiler writes
 * texts: shares of 1 for utilisation and memory, KiB/s for bandwidth, "nan"; its extra metrics have
 * nvitop's names and units, ours those of the table of fields.
 */
#include "pipeline/session_file/session_file_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define GPUS_MAX       4096    /* of a node */
#define FRAME_GPUS_MAX 1000000 /* of all */

/* "hh:mm" or "hhmm", to the end of the text. */
static bool take_offset(const char *p, long *ret_hours, long *ret_minutes)
{
	char digits[5] = "";

	for (size_t n = 0; *p; p++) {
		if (n == 2 && *p == ':' && p[-1] != ':')
			continue;
		if (n == 4 || *p < '0' || *p > '9')
			return false;
		digits[n++] = *p;
	}
	if (!digits[3])
		return false;
	*ret_minutes = strtol(digits + 2, NULL, 10);
	digits[2] = 0;
	*ret_hours = strtol(digits, NULL, 10);
	return *ret_hours <= 15 && *ret_minutes <= 59;
}

/* "2025-05-30T12:00:00.123456", local time as its head wrote it, or with "+hh:mm" or "Z". 0: it is
 * no time. */
static int64_t wall_of(const char *text)
{
	struct tm tm = {.tm_isdst = -1};
	const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	double part = 0;
	long hours, minutes;
	time_t t;

	if (!p)
		p = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
	if (!p || tm.tm_year < 70 || tm.tm_year > 300) /* ns since 1970 end in 2262 */
		return 0;
	if (*p == '.') {
		char *end;

		part = strtod(p, &end);
		if (!(part >= 0 && part < 1)) /* ".5e999" is no part of a second */
			return 0;
		p = end;
	}
	if (*p == 'Z') {
		t = timegm(&tm);
	} else if (*p == '+' || *p == '-') {
		if (!take_offset(p + 1, &hours, &minutes))
			return 0;
		t = timegm(&tm) - (*p == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
	} else {
		if (*p)
			return 0;
		t = mktime(&tm);
	}
	return (int64_t)t * 1000000000 + (int64_t)(part * 1e9);
}

/* The i-th of an array: a text times one factor, a number times another. NAN: not there. */
static double number_at(const json_t *array, size_t i, double of_text, double of_number)
{
	const json_t *v = json_array_get(array, i);
	const char *text = json_string_value(v);
	double x = NAN;
	char *end;

	if (text) {
		x = strtod(text, &end) * of_text;
		if (end == text || *end)
			return NAN;
	} else if (json_is_number(v)) {
		x = json_number_value(v) * of_number;
	}
	return isfinite(x) ? x : NAN;
}

static void set_value(struct gs_gpu_sample *s, enum gs_gpu_field f, double value)
{
	if (!isnan(value))
		gs_gpu_set_checked(s, f, value);
}

/* What a frame is read with. */
struct one_frame {
	const json_t *json, *clients; /* clients: names of nodes; NULL: they are not listed */
	int64_t wall_ns;
	size_t n_gpus, n_nodes;
	size_t client; /* the one that was found last */
	bool is_foreign;
};

/* The node of a GPU among those that the frame lists, most often the last one or the next. SIZE_MAX: none. */
static size_t find_client(struct one_frame *one, const char *id)
{
	size_t n = json_array_size(one->clients);

	for (size_t k = 0; k < n; k++) {
		size_t i = (one->client + k) % n;
		const char *name = json_string_value(json_array_get(one->clients, i));
		size_t bytes = name ? strlen(name) : 0;

		if (bytes && strncmp(id, name, bytes) == 0 && id[bytes] == ':') {
			one->client = i;
			return i;
		}
	}
	return SIZE_MAX;
}

/* A name that is too long keeps its begin, and a number that differs from those of others that begin so. */
static void put_host(char *out, size_t out_bytes, const char *name, size_t bytes)
{
	char all[512];

	snprintf(all, sizeof(all), "%.*s", bytes < sizeof(all) ? (int)bytes : 0, name);
	if (bytes < out_bytes)
		snprintf(out, out_bytes, "%s", all);
	else
		snprintf(out, out_bytes, "%.*s~%08x", (int)out_bytes - 10, all,
			 (unsigned)gs_hash_bytes(name, bytes));
}

/* "node:index:name"; names of hosts have no colons. */
static bool split_id(struct one_frame *one, const char *id, char *host, size_t host_bytes,
		     struct gs_gpu_info *info)
{
	size_t client = find_client(one, id);
	const char *part, *colon = client == SIZE_MAX
					   ? strchr(id, ':')
					   : id + strlen(json_string_value(
							  json_array_get(one->clients, client)));
	char *end;
	long index;

	if (!colon || colon == id)
		return false;
	index = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || (*end && *end != ':') || index < 0 || index > 100000)
		return false;
	put_host(host, host_bytes, id, (size_t)(colon - id));
	info->index = (uint32_t)index;
	snprintf(info->name, sizeof(info->name), "%s", *end ? end + 1 : "");
	/* Parts of a GPU have its index, and end in "MIG 1g.10gb/7". */
	part = strrchr(id, '/');
	if (part && strstr(info->name, " MIG ")) {
		info->is_mig = 1;
		info->gpu_instance = atoi(part + 1);
	}
	return true;
}

static void add_extras(struct gs_gpu_sample *s, const json_t *values)
{
	const char *name;
	const json_t *v;

	json_object_foreach((json_t *)values, name, v)
	{
		int field = gs_gpu_field_by_key(name);
		enum gs_gpu_field f = (enum gs_gpu_field)field;
		double factor = 1;

		if (json_is_number(v) && (field >= 0 || gs_session_file_nvitop(name, &f, &factor)))
			set_value(s, f, json_number_value(v) * factor);
	}
}

static double value_of(const json_t *frame, const char *key, size_t i, double of_text,
		       double of_number)
{
	return number_at(json_object_get(frame, key), i, of_text, of_number);
}

/* Clients of gswarm-profiler, in all versions up to 0.4.3, take nvitop's pair (tx, rx) for (rx, tx), and
 * send 0 for what a GPU does not count. */
static void add_pcie(struct session_file_frames *f, struct gs_gpu_sample *s,
		     const struct one_frame *one, size_t i)
{
	double rx = value_of(one->json, "dram_bandwidth_rx", i, 1024, 1e9),
	       tx = value_of(one->json, "dram_bandwidth_tx", i, 1024, 1e9);

	f->has_pcie |= !one->is_foreign || rx > 0 || tx > 0;
	if (!f->has_pcie)
		return;
	set_value(s, GS_GPU_PCIE_RX_BPS, one->is_foreign ? tx : rx);
	set_value(s, GS_GPU_PCIE_TX_BPS, one->is_foreign ? rx : tx);
}

static void fill_sample(struct session_file_frames *f, struct gs_gpu_sample *s,
			const struct one_frame *one, size_t i)
{
	const json_t *frame = one->json;

	memset(s, 0, sizeof(*s));
	memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
	s->time_ns = (uint64_t)one->wall_ns;
	set_value(s, GS_GPU_UTIL, value_of(frame, "gpu_util", i, 1, 0.01));
	set_value(s, GS_GPU_MEM_USED_RATIO, value_of(frame, "gpu_memory", i, 1, 0.01));
	add_pcie(f, s, one, i);
	set_value(s, GS_GPU_NVLINK_RX_BPS, value_of(frame, "nvlink_rx", i, 1024, 1e9));
	set_value(s, GS_GPU_NVLINK_TX_BPS, value_of(frame, "nvlink_tx", i, 1024, 1e9));
	set_value(s, GS_GPU_DRAM_ACTIVE, value_of(frame, "dram_active", i, 1, 0.01));
	add_extras(s, json_array_get(json_object_get(frame, "extra_metrics"), i));
}

static double share_of(double share)
{
	return share >= 0 && share <= 1 ? share : -1; /* of NAN, too */
}

/* Values of machines, in percent, stand one a client: that of the node in our files, else in the order of
 * their GPUs, when there are as many as nodes. nth: of the nodes. */
static void fill_host(struct gs_host_sample *h, const struct one_frame *one, size_t nth)
{
	const json_t *frame = one->json;
	size_t at = one->clients ? one->client : nth;

	*h = gs_host_sample_unknown;
	h->time_ns = (uint64_t)one->wall_ns;
	if (!one->clients && json_array_size(json_object_get(frame, "dram_util")) != one->n_nodes)
		return;
	h->mem_used_ratio = share_of(value_of(frame, "dram_util", at, 0.01, 0.01));
	h->root_used_ratio = share_of(value_of(frame, "disk_util", at, 0.01, 0.01));
}

static bool was_away(const json_t *frame, size_t i)
{
	return json_is_false(json_array_get(json_object_get(frame, "available"), i));
}

static const char *id_at(const json_t *frame, size_t i)
{
	return json_string_value(json_array_get(json_object_get(frame, "gpu_id"), i));
}

static int pass_on(struct session_file_frames *f, struct gs_node_snapshot *node,
		   const struct one_frame *one, size_t nth, uint32_t n)
{
	struct gs_gpu_snapshot gpu = {.time_ns = (uint64_t)one->wall_ns,
				      .wall_ns = one->wall_ns,
				      .info = f->info,
				      .sample = f->sample,
				      .n_gpus = n};
	struct gs_host_snapshot host = {0};

	if (!n)
		return 0;
	node->gpu = &gpu;
	node->host = &host;
	node->wall_ns = one->wall_ns;
	node->time_ns = (uint64_t)one->wall_ns;
	fill_host(&host.sample, one, nth);
	f->stats->n_samples += n;
	return f->fn(f->ctx, node);
}

/* The GPUs from there on that are of one node. */
static int take_node(struct session_file_frames *f, struct one_frame *one, size_t nth, size_t *at)
{
	struct gs_node_snapshot node = {.name = ""};
	char next[sizeof(node.name)];
	size_t i = *at, client = 0;
	uint32_t n = 0;

	for (; i < one->n_gpus; i++) {
		const char *id = id_at(one->json, i);
		struct gs_gpu_info info = gs_gpu_info_unknown;

		if (!id || !split_id(one, id, next, sizeof(next), &info))
			return -EBADMSG;
		if (i > *at && strcmp(node.name, next) != 0)
			break;
		memcpy(node.name, next, sizeof(next));
		client = one->client;
		if (was_away(one->json, i)) {
			f->stats->n_absent++;
			continue;
		}
		if (n == GPUS_MAX)
			return -EBADMSG;
		if (!gs_vec_reserve(&f->info, &f->info_room, n + 1) ||
		    !gs_vec_reserve(&f->sample, &f->sample_room, n + 1))
			return -ENOMEM;
		f->info[n] = info;
		fill_sample(f, &f->sample[n++], one, i);
	}
	*at = i;
	one->client = client;
	return pass_on(f, &node, one, nth, n);
}

/* How often the name of the node changes, and 1. */
static size_t count_nodes(const json_t *frame, size_t n_gpus)
{
	const char *before = NULL;
	size_t n = 0;

	for (size_t i = 0; i < n_gpus; i++) {
		const char *id = id_at(frame, i);
		size_t bytes = id ? strcspn(id, ":") + 1 : 0;

		n += !before || !id || strncmp(before, id, bytes) != 0;
		before = id;
	}
	return n;
}

int session_file_take_frame(struct session_file_frames *frames, const json_t *frame)
{
	const char *time = json_string_value(json_object_get(frame, "time"));
	struct one_frame one = {.json = frame,
				.clients = json_object_get(frame, "client_id"),
				.wall_ns = time ? wall_of(time) : 0,
				.n_gpus = json_array_size(json_object_get(frame, "gpu_id"))};
	size_t at = 0;
	int r = 0;

	if (one.wall_ns <= 0 || one.n_gpus > FRAME_GPUS_MAX)
		return -EBADMSG;
	one.is_foreign = !one.clients && !json_object_get(frame, "available");
	one.n_nodes = one.clients ? 0 : count_nodes(frame, one.n_gpus);
	for (size_t nth = 0; r == 0 && at < one.n_gpus; nth++)
		r = take_node(frames, &one, nth, &at);
	if (r < 0)
		return r;
	frames->stats->n_frames++;
	frames->stats->n_foreign += one.is_foreign;
	return 0;
}

void session_file_fini(struct session_file_frames *frames)
{
	free(frames->info);
	free(frames->sample);
	*frames = (struct session_file_frames){0};
}
