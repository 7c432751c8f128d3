/*
 * Sessions as `session export` writes them: frames with arrays, one value a GPU. Numbers are percent
 * and GB/s, null is a value that is not known. gswarm-profiler, whose form this is, writes texts:
 * shares of 1 for utilisation and memory, KiB/s for bandwidth; it has no power and energy.
 */
#include "output/plot/plot_int.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"

#define GPUS_MAX 4096 /* of a frame */

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
	} else if ((*p == '+' || *p == '-') && strlen(p) >= 6) {
		hours = strtol(p + 1, NULL, 10);
		minutes = strtol(p + 4, NULL, 10);
		if (hours > 15 || minutes > 59 || hours < 0 || minutes < 0)
			return 0;
		t = timegm(&tm) - (*p == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
	} else {
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
		gs_gpu_set(s, f, value);
}

/* "hostname:index:name"; host names have no colons. */
static bool split_id(const char *id, char *host, size_t bytes, struct gs_gpu_info *info)
{
	const char *colon = strchr(id, ':'), *part;
	char *end;
	long index;

	if (!colon || colon == id || (size_t)(colon - id) >= bytes)
		return false;
	index = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || (*end && *end != ':') || index < 0 || index > 100000)
		return false;
	memcpy(host, id, (size_t)(colon - id));
	host[colon - id] = 0;
	info->index = (uint32_t)index;
	snprintf(info->name, sizeof(info->name), "%s", *end ? end + 1 : "");
	/* Parts of a GPU have its index, and end in "MIG 1g.10gb/7"; the whole id distinguishes them.
	 */
	part = strrchr(id, '/');
	if (part && strstr(info->name, " MIG ")) {
		info->is_mig = 1;
		info->gpu_instance = atoi(part + 1);
	}
	snprintf(info->uuid, sizeof(info->uuid), "%016llx",
		 (unsigned long long)gs_hash_bytes(id, strlen(id)));
	return true;
}

/* What our own files also have of it, in base units. */
static void add_more(struct gs_gpu_sample *s, const json_t *values)
{
	static const enum gs_gpu_field fields[] = {GS_GPU_POWER, GS_GPU_POWER_LIMIT, GS_GPU_ENERGY};

	for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++) {
		const json_t *v = json_object_get(values, gs_gpu_field_info(fields[i])->key);

		if (json_is_number(v))
			set_value(s, fields[i], json_number_value(v));
	}
}

/* One GPU of a frame is a snapshot of its own: a frame has GPUs of many nodes. */
static int add_gpu(struct gs_plot *plot, const json_t *frame, size_t i, int64_t wall_ns)
{
	const char *id = json_string_value(json_array_get(json_object_get(frame, "gpu_id"), i));
	struct gs_gpu_info info = {0};
	struct gs_gpu_sample sample;
	struct gs_gpu_snapshot gpu = {.info = &info, .sample = &sample, .n_gpus = 1};
	struct gs_node_snapshot node = {.wall_ns = wall_ns, .gpu = &gpu};

	memset(&sample, 0, sizeof(sample));
	memset(sample.why, GS_GPU_REASON_NOT_READ, sizeof(sample.why));
	if (!id || !split_id(id, node.name, sizeof(node.name), &info))
		return -EBADMSG;
	/* It was not delivered then: a gap, of what was there before. */
	if (json_is_false(json_array_get(json_object_get(frame, "available"), i)))
		return 0;
	set_value(&sample, GS_GPU_UTIL, number_at(json_object_get(frame, "gpu_util"), i, 1, 0.01));
	set_value(&sample, GS_GPU_MEM_USED,
		  number_at(json_object_get(frame, "gpu_memory"), i, 1, 0.01));
	gs_gpu_set(&sample, GS_GPU_MEM_TOTAL, 1);
	set_value(&sample, GS_GPU_PCIE_RX_BPS,
		  number_at(json_object_get(frame, "dram_bandwidth_rx"), i, 1024, 1e9));
	set_value(&sample, GS_GPU_PCIE_TX_BPS,
		  number_at(json_object_get(frame, "dram_bandwidth_tx"), i, 1024, 1e9));
	set_value(&sample, GS_GPU_NVLINK_RX_BPS,
		  number_at(json_object_get(frame, "nvlink_rx"), i, 1024, 1e9));
	set_value(&sample, GS_GPU_NVLINK_TX_BPS,
		  number_at(json_object_get(frame, "nvlink_tx"), i, 1024, 1e9));
	set_value(&sample, GS_GPU_DRAM_ACTIVE,
		  number_at(json_object_get(frame, "dram_active"), i, 1, 0.01));
	add_more(&sample, json_array_get(json_object_get(frame, "extra_metrics"), i));
	return gs_plot_add(plot, &node, NULL);
}

static int add_frame(struct gs_plot *plot, const json_t *frame)
{
	const char *time = json_string_value(json_object_get(frame, "time"));
	int64_t wall_ns = time ? wall_of(time) : 0;
	size_t n = json_array_size(json_object_get(frame, "gpu_id"));
	int r = wall_ns <= 0 || n > GPUS_MAX ? -EBADMSG : 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_gpu(plot, frame, i, wall_ns);
	return r;
}

/* --- the file: frame by frame, since a session of days has more of them than memory has room ---
 */

static int next_char(FILE *file)
{
	int c;

	do
		c = getc(file);
	while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c;
}

/* The rest of a text whose first quote has been read; as much of it as has room. */
static int rest_of_text(FILE *file, char *out, size_t bytes)
{
	size_t n = 0;
	int c;

	while ((c = getc(file)) != '"') {
		if (c == '\\')
			c = getc(file);
		if (c == EOF)
			return -EBADMSG;
		if (n + 1 < bytes)
			out[n++] = (char)c;
	}
	if (bytes)
		out[n] = 0;
	return 0;
}

/* A value that is not wanted, whose first letter is c. */
static int skip_value(FILE *file, int c)
{
	int depth = 0;

	for (;; c = getc(file)) {
		if (c == EOF || (c == '"' && rest_of_text(file, NULL, 0) < 0))
			return -EBADMSG;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		if (depth == 0 && c != '"' && strchr("}],: \t\r\n", c) == NULL)
			continue; /* within a number or a word */
		if (depth < 0 || (depth == 0 && c == ',')) {
			ungetc(c, file); /* of what is around it */
			return 0;
		}
		if (depth == 0)
			return 0;
	}
}

static int add_frames(struct gs_plot *plot, FILE *file, struct gs_err *err)
{
	size_t k = 1;
	int c = next_char(file);

	for (; c != ']'; c = next_char(file), k++) {
		json_error_t je = {.text = ""};
		json_t *frame = NULL;
		int r = -EBADMSG;

		if (k > 1 && c == ',')
			c = next_char(file);
		else if (k > 1)
			c = EOF;
		if (c == '{' && ungetc(c, file) != EOF)
			frame = json_loadf(file, JSON_DISABLE_EOF_CHECK, &je);
		if (frame)
			r = add_frame(plot, frame);
		json_decref(frame);
		if (r == -EBADMSG && !frame)
			return gs_err_set(err, r, "frame %zu cannot be read%s%s", k,
					  je.text[0] ? ": " : "", je.text);
		if (r == -EBADMSG)
			return gs_err_set(
				err, r,
				"frame %zu has no time, or GPUs that are not \"host:index:name\"",
				k);
		if (r < 0)
			return gs_err_set(err, r, "%s", strerror(-r));
	}
	return 0;
}

int gs_plot_add_session(struct gs_plot *plot, FILE *file, struct gs_err *err)
{
	bool found = false;
	char key[32];
	int c = next_char(file), r = c == '{' ? 0 : -EBADMSG;

	for (c = r == 0 ? next_char(file) : EOF; r == 0 && c != '}'; c = next_char(file)) {
		if (c == ',')
			c = next_char(file);
		if (c != '"' || rest_of_text(file, key, sizeof(key)) < 0 || next_char(file) != ':')
			return gs_err_set(err, -EBADMSG, "it is not JSON, or it is cut off");
		c = next_char(file);
		if (strcmp(key, "frames") != 0) {
			r = skip_value(file, c);
		} else if (c == '[') {
			found = true;
			r = add_frames(plot, file, err);
			if (r < 0)
				return r;
		} else {
			r = -EBADMSG;
		}
	}
	if (r < 0 || !found)
		return gs_err_set(err, -EBADMSG, "no frames: this is not the JSON of a session");
	return 0;
}
