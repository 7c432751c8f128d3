/*
 * Sessions as gswarm-profiler writes them: frames with arrays, one value a GPU. Its numbers are
 * texts: shares of 1 for utilisation and memory, KiB/s for bandwidth. Those that are numbers are
 * ours (percent and GB/s), null is a gap.
 */
#include "plot/plot_int.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

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

static void set(struct gs_gpu_sample *s, enum gs_gpu_field f, double value)
{
	if (!isnan(value))
		gs_gpu_set(s, f, value);
}

/* "hostname:index:name"; host names have no colons. */
static bool split_id(const char *id, char *host, size_t bytes, struct gs_gpu_info *info)
{
	const char *colon = strchr(id, ':');
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
	return true;
}

/* One GPU of a frame is a moment of its own: a frame has GPUs of many nodes. */
static int add_gpu(struct gs_plot *plot, const json_t *frame, size_t i, int64_t wall_ns)
{
	const char *id = json_string_value(json_array_get(json_object_get(frame, "gpu_id"), i));
	struct gs_gpu_info info = {0};
	struct gs_gpu_sample sample;
	struct gs_gpu_snapshot gpu = {.info = &info, .sample = &sample, .n_gpus = 1};
	struct gs_node_snapshot node = {.wall_ns = wall_ns, .gpu = &gpu};

	memset(&sample, 0, sizeof(sample));
	memset(sample.why, GS_GPU_WHY_NOT_READ, sizeof(sample.why));
	if (!id || !split_id(id, node.name, sizeof(node.name), &info))
		return -EBADMSG;
	set(&sample, GS_GPU_UTIL, number_at(json_object_get(frame, "gpu_util"), i, 1, 0.01));
	set(&sample, GS_GPU_MEM_USED, number_at(json_object_get(frame, "gpu_memory"), i, 1, 0.01));
	gs_gpu_set(&sample, GS_GPU_MEM_TOTAL, 1);
	set(&sample, GS_GPU_PCIE_RX_BPS,
	    number_at(json_object_get(frame, "dram_bandwidth_rx"), i, 1024, 1e9));
	set(&sample, GS_GPU_PCIE_TX_BPS,
	    number_at(json_object_get(frame, "dram_bandwidth_tx"), i, 1024, 1e9));
	return gs_plot_add(plot, &node);
}

int gs_plot_add_gswarm(struct gs_plot *plot, FILE *file, struct gs_err *err)
{
	json_error_t je;
	json_t *root = json_loadf(file, 0, &je);
	const json_t *frames = json_object_get(root, "frames");
	size_t k;
	json_t *frame;
	int r = 0;

	if (!root)
		return gs_err_set(err, -EBADMSG, "line %d: %s", je.line, je.text);
	if (!json_is_array(frames))
		r = gs_err_set(err, -EBADMSG, "no frames: not a session of gswarm-profiler");
	json_array_foreach(frames, k, frame)
	{
		const char *time = json_string_value(json_object_get(frame, "time"));
		int64_t wall_ns = time ? wall_of(time) : 0;
		size_t n = json_array_size(json_object_get(frame, "gpu_id"));

		if (wall_ns <= 0 || n > GPUS_MAX)
			r = -EBADMSG;
		for (size_t i = 0; r == 0 && i < n; i++)
			r = add_gpu(plot, frame, i, wall_ns);
		if (r < 0) {
			r = r == -EBADMSG
				    ? gs_err_set(err, r,
						 "frame %zu has no time, or GPUs that are not "
						 "\"host:index:name\"",
						 k + 1)
				    : gs_err_set(err, r, "%s", strerror(-r));
			break;
		}
	}
	json_decref(root);
	return r;
}
