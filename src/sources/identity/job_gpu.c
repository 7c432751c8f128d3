/*
 * Which GPUs are meant. Three ways of counting are about, and they differ on some machines:
 *
 *   NVML's index       by PCI bus id; what snapshots and nvidia-smi show
 *   device minor       N of /dev/nvidiaN; the driver's /proc files say which bus id has which
 *   Slurm's index      the order of gres.conf: there by device files (so minors), or found by NVML
 *
 * Everything here ends as a mask in the order of the snapshot.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "sources/identity/job_int.h"
#include "sources/identity/identity_int.h"

#define TEXT_BYTES 4096
#define OPEN_MAX   8192 /* descriptors of one process that are looked at */

/* --- the driver's files --- */

/* The value of "KEY: value". */
static bool line_of(const char *text, size_t bytes, const char *key, const char **ret_at,
		    size_t *ret_bytes)
{
	const char *end = text + bytes;
	size_t n = strlen(key);

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *p;

		if (!eol)
			eol = end;
		if ((size_t)(eol - text) > n && memcmp(text, key, n) == 0) {
			p = text + n;
			while (p < eol && (*p == ':' || isspace((unsigned char)*p)))
				p++;
			*ret_at = p;
			*ret_bytes = (size_t)(eol - p);
			while (*ret_bytes && isspace((unsigned char)p[*ret_bytes - 1]))
				(*ret_bytes)--;
			return true;
		}
		text = eol < end ? eol + 1 : end;
	}
	return false;
}

bool gs_job_parse_information(const char *text, size_t bytes, struct gs_job_gpu *ret)
{
	const char *at;
	size_t n;
	int64_t minor;

	*ret = (struct gs_job_gpu){.minor = -1, .index = -1};
	if (line_of(text, bytes, "GPU UUID", &at, &n))
		gs_identity_copy_clean(ret->uuid, sizeof(ret->uuid), at, n);
	if (line_of(text, bytes, "Bus Location", &at, &n))
		gs_identity_copy_clean(ret->bus_id, sizeof(ret->bus_id), at, n);
	if (line_of(text, bytes, "Device Minor", &at, &n) && gs_job_number(at, n, &minor) &&
	    minor <= INT32_MAX)
		ret->minor = (int32_t)minor;
	return ret->bus_id[0] || ret->minor >= 0;
}

static ssize_t read_text(int folder, const char *name, char *out, size_t bytes)
{
	GS_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t n = 0;

	if (fd < 0)
		return -errno;
	while (n < bytes) {
		ssize_t r = read(fd, out + n, bytes - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	return (ssize_t)n;
}

static int by_bus(const void *a, const void *b)
{
	return strcasecmp(((const struct gs_job_gpu *)a)->bus_id,
			  ((const struct gs_job_gpu *)b)->bus_id);
}

/* Is the model of this file that of the first one? */
static bool is_of_model(const char *text, size_t bytes, char *first, size_t first_bytes)
{
	char model[128];
	const char *at;
	size_t n;

	if (!line_of(text, bytes, "Model", &at, &n))
		return false;
	gs_identity_copy_clean(model, sizeof(model), at, n);
	if (!first[0])
		snprintf(first, first_bytes, "%s", model);
	return strcmp(model, first) == 0;
}

/* What MIG divides a GPU into: capabilities/gpuMINOR/mig/giN/ciM. */
static void read_instances(int proc_fd, struct gs_job_gpu *gpu)
{
	char path[64];
	struct dirent *gi, *ci;
	DIR *dir, *inner;
	int fd;

	snprintf(path, sizeof(path), "driver/nvidia/capabilities/gpu%d/mig", gpu->minor);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	while (dir && (gi = readdir(dir))) {
		if (strncmp(gi->d_name, "gi", 2) != 0)
			continue;
		fd = openat(dirfd(dir), gi->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		inner = fd >= 0 ? fdopendir(fd) : NULL;
		while (inner && (ci = readdir(inner))) {
			if (strncmp(ci->d_name, "ci", 2) != 0 || gpu->n_instances == UINT8_MAX)
				continue;
			gpu->n_instances++;
			snprintf(gpu->instance, sizeof(gpu->instance), "%.6s/%.6s", gi->d_name + 2,
				 ci->d_name + 2);
		}
		if (inner)
			closedir(inner);
	}
	if (dir)
		closedir(dir);
}

void gs_job_gpus_read(int proc_fd, struct gs_job_gpus *gpus)
{
	char model[128] = "";
	int fd = openat(proc_fd, "driver/nvidia/gpus", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	gpus->n = 0;
	gpus->one_model = true;
	if (!dir) {
		gs_close_p(&fd);
		return;
	}
	while ((d = readdir(dir)) && gpus->n < GS_JOB_GPUS_MAX) {
		char path[300], text[TEXT_BYTES];
		ssize_t n;

		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/information", d->d_name);
		n = read_text(dirfd(dir), path, text, sizeof(text));
		if (n <= 0 || !gs_job_parse_information(text, (size_t)n, &gpus->gpu[gpus->n]))
			continue;
		gpus->n++;
		gpus->one_model &= is_of_model(text, (size_t)n, model, sizeof(model));
	}
	closedir(dir);
	qsort(gpus->gpu, gpus->n, sizeof(gpus->gpu[0]), by_bus);
	for (uint32_t i = 0; i < gpus->n; i++) {
		gpus->gpu[i].index = (int32_t)i;
		read_instances(proc_fd, &gpus->gpu[i]);
	}
}

/* --- gres.conf --- */

/* The value of key=... in a line; keys know no case. */
static bool conf_value(const char *line, const char *end, const char *key, char *out, size_t bytes)
{
	size_t n = strlen(key);

	for (const char *p = line; p + n < end; p++) {
		const char *e = p + n + 1;

		if ((p > line && !isspace((unsigned char)p[-1])) || p[n] != '=' ||
		    strncasecmp(p, key, n) != 0)
			continue;
		while (e < end && !isspace((unsigned char)*e))
			e++;
		gs_identity_copy_clean(out, bytes, p + n + 1, (size_t)(e - (p + n + 1)));
		return true;
	}
	return false;
}

static bool add_minor(void *ctx, const char *file, size_t at)
{
	struct gs_job_gpus *gpus = ctx;
	size_t n = strlen(file), digits = 0;
	int64_t minor;

	while (digits < n && isdigit((unsigned char)file[n - 1 - digits]))
		digits++;
	if (gpus->n_minors < GS_JOB_GPUS_MAX)
		gpus->minor[gpus->n_minors++] =
			gs_job_number(file + n - digits, digits, &minor) && minor <= INT32_MAX
				? (int32_t)minor
				: -1;
	return true;
}

void gs_job_parse_gres_conf(const char *text, size_t bytes, const char *node,
			    struct gs_job_gpus *gpus)
{
	const char *end = text + bytes;

	gpus->n_minors = 0;
	gpus->by_nvml = false;
	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *stop;
		char nodes[256], value[512];

		if (!eol)
			eol = end;
		stop = memchr(text, '#', (size_t)(eol - text));
		if (!stop)
			stop = eol;
		if (!conf_value(text, stop, "NodeName", nodes, sizeof(nodes)) || !node[0] ||
		    gs_job_node_position(nodes, node) >= 0) {
			/* "AutoDetect=nvidia" (24.11) is in the order of the driver's files. */
			if (conf_value(text, stop, "AutoDetect", value, sizeof(value)))
				gpus->by_nvml = strncasecmp(value, "nv", 2) == 0;
			if (conf_value(text, stop, "Name", value, sizeof(value)) &&
			    strcasecmp(value, "gpu") == 0 &&
			    conf_value(text, stop, "File", value, sizeof(value)))
				gs_job_each_node(value, add_minor, gpus);
		}
		text = eol < end ? eol + 1 : end;
	}
	/* Files that are written out count, even when their kind is to be found out. */
	if (gpus->n_minors)
		gpus->by_nvml = false;
}

/* --- masks --- */

uint64_t gs_job_gpus_of_minor(const struct gs_job_gpus *gpus, uint32_t minor)
{
	if (!gpus->n)
		return minor < GS_JOB_GPUS_MAX ? 1ull << minor : 0;
	for (uint32_t i = 0; i < gpus->n; i++)
		if (gpus->gpu[i].minor >= 0 && (uint32_t)gpus->gpu[i].minor == minor)
			return 1ull << i;
	return 0;
}

uint64_t gs_job_gpus_of_index(const struct gs_job_gpus *gpus, uint32_t index)
{
	if (!gpus->n)
		return index < GS_JOB_GPUS_MAX ? 1ull << index : 0;
	for (uint32_t i = 0; i < gpus->n; i++)
		if (gpus->gpu[i].index >= 0 && (uint32_t)gpus->gpu[i].index == index)
			return 1ull << i;
	return 0;
}

uint64_t gs_job_gpus_of_slurm(const struct gs_job_gpus *gpus, uint64_t indices)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < GS_JOB_GPUS_MAX; i++) {
		if (!(indices >> i & 1))
			continue;
		if (gpus->by_nvml)
			mask |= gs_job_gpus_of_index(gpus, i);
		else if (!gpus->n_minors)
			mask |= gs_job_gpus_of_minor(gpus, i);
		else if (i < gpus->n_minors && gpus->minor[i] >= 0)
			mask |= gs_job_gpus_of_minor(gpus, (uint32_t)gpus->minor[i]);
	}
	return mask;
}

/* --- files of a prolog --- */

static uint64_t gpu_of_uuid(const struct gs_job_gpus *gpus, const char *uuid)
{
	for (uint32_t i = 0; i < gpus->n; i++)
		if (strcasecmp(gpus->gpu[i].uuid, uuid) == 0)
			return 1ull << i;
	return 0;
}

/* "3", "3.1" (a MIG instance of it), "GPU-..."; kind: of_slurm or the snapshot's own index. */
static uint64_t gpu_of_name(const char *name, const struct gs_job_gpus *gpus, bool of_slurm)
{
	size_t digits = strspn(name, "0123456789");
	int64_t n;

	if (strncasecmp(name, "GPU-", 4) == 0)
		return gpu_of_uuid(gpus, name);
	if (!digits || (name[digits] && name[digits] != '.') ||
	    strspn(name + digits + (name[digits] == '.'), "0123456789") !=
		    strlen(name + digits + (name[digits] == '.')) ||
	    !gs_job_number(name, digits, &n) || n >= GS_JOB_GPUS_MAX)
		return 0;
	return of_slurm ? gs_job_gpus_of_slurm(gpus, 1ull << n)
			: gs_job_gpus_of_index(gpus, (uint32_t)n);
}

/* AMD's exporter: {"SLURM_JOB_ID": "4711", ...}. */
static int64_t job_of_json(const char *text, size_t bytes)
{
	json_t *root = json_loadb(text, bytes, JSON_DECODE_INT_AS_REAL, NULL);
	const json_t *v = json_object_get(root, "SLURM_JOB_ID");
	int64_t n = -1;

	if (json_is_string(v) && !gs_job_number(json_string_value(v), json_string_length(v), &n))
		n = -1;
	else if (json_is_number(v) && json_number_value(v) > 0 && json_number_value(v) < 1e15)
		n = (int64_t)json_number_value(v);
	json_decref(root);
	return n;
}

/*
 *   /run/gpustat/<Slurm's index or UUID>   "jobid uid" (jobstats); empty when it is free
 *   dcgm-exporter's mapping <index[.GI]>   a job id in each line
 *   AMD's exporter <index>                 JSON
 */
bool gs_job_parse_drop(const char *name, const char *text, size_t bytes,
		       const struct gs_job_gpus *gpus,
		       void (*each)(void *, int64_t, int64_t, uint64_t), void *ctx)
{
	const char *end = text + bytes;
	bool any = false;

	if (bytes && text[0] == '{') {
		int64_t job = job_of_json(text, bytes);
		uint64_t mask = gpu_of_name(name, gpus, false);

		if (job > 0 && mask)
			each(ctx, job, -1, mask);
		return job > 0 && mask;
	}
	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *blank;
		int64_t job, uid = -1;
		uint64_t mask;
		bool ok;

		if (!eol)
			eol = end;
		blank = memchr(text, ' ', (size_t)(eol - text));
		ok = gs_job_number(text, (size_t)((blank ? blank : eol) - text), &job) &&
		     (!blank || gs_job_number(blank, (size_t)(eol - blank), &uid));
		mask = gpu_of_name(name, gpus, uid >= 0);
		if (ok && job > 0 && mask) {
			each(ctx, job, uid, mask);
			any = true;
		}
		text = eol < end ? eol + 1 : end;
	}
	return any;
}

/* --- open device files --- */

uint64_t gs_job_gpus_open(int process_fd, const struct gs_job_gpus *gpus)
{
	static const char device[] = "/dev/nvidia";
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	uint64_t mask = 0;
	unsigned left = OPEN_MAX;

	if (!dir) {
		gs_close_p(&fd);
		return 0;
	}
	while ((d = readdir(dir)) && left--) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target));
		int64_t minor;

		if (n > (ssize_t)sizeof(device) - 1 && n < (ssize_t)sizeof(target) &&
		    memcmp(target, device, sizeof(device) - 1) == 0 &&
		    gs_job_number(target + sizeof(device) - 1, (size_t)n - (sizeof(device) - 1),
				  &minor) &&
		    minor < UINT32_MAX)
			mask |= gs_job_gpus_of_minor(gpus, (uint32_t)minor);
	}
	closedir(dir);
	return mask;
}
