/*
 * AMD's GPUs, read from sysfs as the amdgpu driver shows them (kernel, Documentation/gpu/amdgpu/
 * thermal.rst and driver-misc.rst) and, for processes, as its compute part amdkfd does. No library.
 * A file that is not there is a value that is not there.
 *
 * pcie_bw is never read: the driver counts for a second while its reader waits.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/pci.h"
#include "sources/amdgpu/amdgpu.h"

#define AMD_MAX    64
#define FILE_BYTES 4096

struct card {
	char device[288]; /* ".../class/drm/card0/device" */
	char hwmon[320];  /* ".../hwmon/hwmon3"; "" none */
	uint64_t kfd_id;  /* 0 unknown */
	uint64_t before_ns;
	struct gs_gpu_info info;
	struct gs_gpu_sample sample; /* slow values stay in it */
	uint64_t next_slow_ns;
	bool no_metrics; /* no table, or one of a version that is not known: until the next look */
};

struct gs_amdgpu {
	char root[256];
	struct card card[AMD_MAX];
	unsigned n;
};

/* The start of a file as text; false: it cannot be read. */
static bool read_text(const char *dir, const char *name, char *out, size_t out_bytes)
{
	char path[512];
	GS_CLOSE int fd = -1;
	ssize_t n;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, out_bytes - 1);
	if (n < 0)
		return false;
	out[n] = '\0';
	return true;
}

static void copy_line(char *out, size_t out_bytes, const char *text)
{
	size_t n = 0;

	for (; text[n] && text[n] != '\n' && n + 1 < out_bytes; n++)
		out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	out[n] = '\0';
}

bool gs_amdgpu_parse_number(const char *text, uint64_t *ret)
{
	char *end;

	/* strtoull takes blanks and signs. */
	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 0);
	return errno == 0 && end != text && (*end == '\0' || *end == '\n' || *end == ' ');
}

bool gs_amdgpu_parse_levels(const char *text, uint64_t *ret_now_hz, uint64_t *ret_max_hz)
{
	bool found = false;

	*ret_now_hz = *ret_max_hz = 0;
	/* Lines like "1: 1300Mhz *". */
	while (*text) {
		const char *line_end = strchr(text, '\n'), *p;
		size_t bytes = line_end ? (size_t)(line_end - text) : strlen(text);
		uint64_t mhz = 0;

		p = memchr(text, ':', bytes);
		for (p = p ? p + 1 : text + bytes; p < text + bytes && *p == ' '; p++)
			;
		for (; p < text + bytes && isdigit((unsigned char)*p) && mhz < 10000000; p++)
			mhz = mhz * 10 + (uint64_t)(*p - '0');
		if (mhz && p + 3 <= text + bytes && strncasecmp(p, "mhz", 3) == 0) {
			if (mhz * 1000000 > *ret_max_hz)
				*ret_max_hz = mhz * 1000000;
			if (memchr(p, '*', (size_t)(text + bytes - p))) {
				*ret_now_hz = mhz * 1000000;
				found = true;
			}
		}
		text += bytes + (line_end != NULL);
	}
	return found;
}

static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	char text[FILE_BYTES];

	return read_text(dir, name, text, sizeof(text)) && gs_amdgpu_parse_number(text, ret);
}

static void put_file(struct card *c, const char *dir, const char *name, enum gs_gpu_field field,
		     double scale)
{
	uint64_t v = 0;

	if (*dir && read_number(dir, name, &v))
		gs_gpu_set_checked(&c->sample, field, (double)v * scale);
	else
		c->sample.why[field] = GS_GPU_REASON_NOT_SUPPORTED;
}

/* What has no file of its own. */
static void read_metrics(struct card *c, bool basic, bool health)
{
	uint8_t table[GS_AMDGPU_METRICS_MAX];
	char path[320];
	GS_CLOSE int fd = -1;
	ssize_t n;

	if (c->no_metrics)
		return;
	snprintf(path, sizeof(path), "%s/gpu_metrics", c->device);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, table, sizeof(table));
	/* A file that is there and cannot be read: the GPU may be asleep or in a reset. */
	c->no_metrics = fd < 0 || (n > 0 && !gs_amdgpu_metrics_fill(table, (size_t)n, basic, health,
								    &c->sample));
}

/* ---- which GPUs there are ---- */

static void find_hwmon(struct card *c)
{
	char path[320];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/hwmon", c->device);
	dir = opendir(path);
	c->hwmon[0] = '\0';
	while (dir && (e = readdir(dir)))
		if (strncmp(e->d_name, "hwmon", 5) == 0 &&
		    (size_t)snprintf(c->hwmon, sizeof(c->hwmon), "%s/%s", path, e->d_name) >=
			    sizeof(c->hwmon))
			c->hwmon[0] = '\0';
	if (dir)
		closedir(dir);
}

/* The minor number of the GPU's render node, as amdkfd names it; -1: it has none. */
static long render_minor(const struct card *c)
{
	char path[320];
	struct dirent *e;
	long minor = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/drm", c->device);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (strncmp(e->d_name, "renderD", 7) == 0)
			minor = strtol(e->d_name + 7, NULL, 10);
	if (dir)
		closedir(dir);
	return minor;
}

/* The number after a word at the start of a line of kfd's properties. */
static long read_property(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, n) == 0 && line[n] == ' ')
			return strtol(line + n + 1, NULL, 10);
	}
	return -1;
}

static void find_kfd(const struct gs_amdgpu *amd, struct card *c)
{
	long minor = render_minor(c), simds, per_cu;
	char nodes[320], node[640], text[FILE_BYTES];
	struct dirent *e;
	DIR *dir;

	snprintf(nodes, sizeof(nodes), "%s/class/kfd/kfd/topology/nodes", amd->root);
	dir = minor < 0 ? NULL : opendir(nodes);
	while (dir && (e = readdir(dir))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(node, sizeof(node), "%s/%s", nodes, e->d_name);
		if (!read_text(node, "properties", text, sizeof(text)) ||
		    read_property(text, "drm_render_minor") != minor)
			continue;
		read_number(node, "gpu_id", &c->kfd_id);
		simds = read_property(text, "simd_count");
		per_cu = read_property(text, "simd_per_cu");
		if (simds > 0 && per_cu > 0)
			c->info.n_sms = (int32_t)(simds / per_cu);
	}
	if (dir)
		closedir(dir);
}

static bool describe_card(const struct gs_amdgpu *amd, struct card *c)
{
	char text[FILE_BYTES], slot[64] = "", *at;
	uint64_t v = 0;

	if (!read_number(c->device, "vendor", &v) || v != 0x1002)
		return false;
	c->info = gs_gpu_info_unknown;
	c->info.vendor = GS_GPU_VENDOR_AMD;
	if (read_text(c->device, "uevent", text, sizeof(text)) &&
	    (at = strstr(text, "PCI_SLOT_NAME=")))
		copy_line(slot, sizeof(slot), at + 14);
	gs_pci_bus_id(slot, c->info.pci_bus_id);
	if (read_text(c->device, "unique_id", text, sizeof(text)))
		copy_line(slot, sizeof(slot), text);
	else
		slot[0] = '\0';
	/* GPUs for desktops have no number of their own: known by their place. */
	snprintf(c->info.uuid, sizeof(c->info.uuid), "AMD-%s", slot[0] ? slot : c->info.pci_bus_id);
	if (read_text(c->device, "product_name", text, sizeof(text)) && text[0] && text[0] != '\n')
		copy_line(c->info.name, sizeof(c->info.name), text);
	else if (read_number(c->device, "device", &v))
		snprintf(c->info.name, sizeof(c->info.name), "AMD GPU 0x%04llx",
			 (unsigned long long)v);
	if (read_text(c->device, "serial_number", text, sizeof(text)))
		copy_line(c->info.serial, sizeof(c->info.serial), text);
	if (read_text(c->device, "vbios_version", text, sizeof(text)))
		copy_line(c->info.vbios, sizeof(c->info.vbios), text);
	if (read_text(amd->root, "module/amdgpu/version", text, sizeof(text)))
		copy_line(c->info.driver_version, sizeof(c->info.driver_version), text);
	if (read_text(c->device, "numa_node", text, sizeof(text)) && text[0] != '-' &&
	    gs_amdgpu_parse_number(text, &v))
		c->info.numa_node = (int32_t)v;
	find_hwmon(c);
	find_kfd(amd, c);
	memset(c->sample.why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(c->sample.why));
	return true;
}

static int by_number(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

static void scan_cards(struct gs_amdgpu *amd)
{
	char path[280];
	long numbers[AMD_MAX];
	unsigned n = 0, n_old = amd->n;
	GS_FREE struct card *old = n_old ? malloc(n_old * sizeof(*old)) : NULL;
	struct dirent *e;
	DIR *dir;

	if (n_old && !old)
		return;
	for (unsigned i = 0; i < n_old; i++)
		old[i] = amd->card[i];
	snprintf(path, sizeof(path), "%s/class/drm", amd->root);
	dir = opendir(path);
	while (dir && n < AMD_MAX && (e = readdir(dir))) {
		char *end;

		if (strncmp(e->d_name, "card", 4) != 0 || !isdigit((unsigned char)e->d_name[4]))
			continue;
		numbers[n] = strtol(e->d_name + 4, &end, 10);
		/* card0-DP-1 is a socket of card0. */
		if (*end == '\0')
			n++;
	}
	if (dir)
		closedir(dir);
	qsort(numbers, n, sizeof(numbers[0]), by_number);
	amd->n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct card *c = &amd->card[amd->n];

		memset(c, 0, sizeof(*c));
		snprintf(c->device, sizeof(c->device), "%s/card%ld/device", path, numbers[i]);
		if (!describe_card(amd, c))
			continue;
		c->info.index = amd->n++;
		for (unsigned j = 0; j < n_old; j++)
			if (strcmp(old[j].info.uuid, c->info.uuid) == 0) {
				c->sample = old[j].sample;
				c->before_ns = old[j].before_ns;
			}
	}
}

struct gs_amdgpu *gs_amdgpu_new(const char *sysfs_root)
{
	struct gs_amdgpu *amd = calloc(1, sizeof(*amd));

	if (!amd)
		return NULL;
	snprintf(amd->root, sizeof(amd->root), "%s", sysfs_root);
	scan_cards(amd);
	return amd;
}

void gs_amdgpu_free(struct gs_amdgpu **amd)
{
	free(*amd);
	*amd = NULL;
}

unsigned gs_amdgpu_count(const struct gs_amdgpu *amd)
{
	return amd->n;
}

/* ---- values ---- */

static void read_clocks(struct card *c)
{
	static const struct {
		const char *file, *hwmon;
		enum gs_gpu_field now, max;
	} clocks[] = {{"pp_dpm_sclk", "freq1_input", GS_GPU_CLOCK_SM, GS_GPU_CLOCK_SM_MAX},
		      {"pp_dpm_mclk", "freq2_input", GS_GPU_CLOCK_MEM, GS_GPU_CLOCK_MEM_MAX}};

	for (size_t i = 0; i < GS_ARRAY_LEN(clocks); i++) {
		char text[FILE_BYTES];
		uint64_t now = 0, max = 0;
		bool have = read_text(c->device, clocks[i].file, text, sizeof(text)) &&
			    gs_amdgpu_parse_levels(text, &now, &max);

		c->sample.why[clocks[i].max] = GS_GPU_REASON_NOT_SUPPORTED;
		if (max)
			gs_gpu_set_checked(&c->sample, clocks[i].max, (double)max);
		put_file(c, c->hwmon, clocks[i].hwmon, clocks[i].now, 1);
		if (!gs_gpu_has(&c->sample, clocks[i].now) && have)
			gs_gpu_set_checked(&c->sample, clocks[i].now, (double)now);
	}
}

/* A sensor's label says what it measures; the first is the GPU's edge where there is none. */
static void read_temperatures(struct card *c)
{
	c->sample.why[GS_GPU_TEMP_MEM] = GS_GPU_REASON_NOT_SUPPORTED;
	put_file(c, c->hwmon, "temp1_input", GS_GPU_TEMP_GPU, 1e-3);
	put_file(c, c->hwmon, "temp1_crit", GS_GPU_TEMP_SLOWDOWN, 1e-3);
	put_file(c, c->hwmon, "temp1_emergency", GS_GPU_TEMP_SHUTDOWN, 1e-3);
	for (unsigned i = 1; i <= 8 && c->hwmon[0]; i++) {
		char name[32], label[64];

		snprintf(name, sizeof(name), "temp%u_label", i);
		if (!read_text(c->hwmon, name, label, sizeof(label)))
			continue;
		snprintf(name, sizeof(name), "temp%u_input", i);
		if (strncmp(label, "edge", 4) == 0)
			put_file(c, c->hwmon, name, GS_GPU_TEMP_GPU, 1e-3);
		else if (strncmp(label, "junction", 8) == 0 &&
			 !gs_gpu_has(&c->sample, GS_GPU_TEMP_GPU))
			put_file(c, c->hwmon, name, GS_GPU_TEMP_GPU, 1e-3);
		else if (strncmp(label, "mem", 3) == 0)
			put_file(c, c->hwmon, name, GS_GPU_TEMP_MEM, 1e-3);
	}
}

static void read_basic(struct card *c)
{
	struct gs_gpu_sample *s = &c->sample;
	uint64_t pwm = 0, max = 255;

	put_file(c, c->device, "gpu_busy_percent", GS_GPU_UTIL, 0.01);
	put_file(c, c->device, "mem_busy_percent", GS_GPU_MEM_UTIL, 0.01);
	put_file(c, c->device, "vcn_busy_percent", GS_GPU_DEC_UTIL, 0.01);
	put_file(c, c->device, "mem_info_vram_total", GS_GPU_MEM_TOTAL, 1);
	put_file(c, c->device, "mem_info_vram_used", GS_GPU_MEM_USED, 1);
	s->why[GS_GPU_MEM_FREE] = GS_GPU_REASON_NOT_SUPPORTED;
	if (gs_gpu_has(s, GS_GPU_MEM_TOTAL) && gs_gpu_has(s, GS_GPU_MEM_USED) &&
	    s->value[GS_GPU_MEM_USED] <= s->value[GS_GPU_MEM_TOTAL])
		gs_gpu_set_checked(s, GS_GPU_MEM_FREE,
				   s->value[GS_GPU_MEM_TOTAL] - s->value[GS_GPU_MEM_USED]);
	put_file(c, c->device, "mem_info_vis_vram_total", GS_GPU_BAR1_TOTAL, 1);
	put_file(c, c->device, "mem_info_vis_vram_used", GS_GPU_BAR1_USED, 1);
	read_temperatures(c);
	put_file(c, c->hwmon, "power1_average", GS_GPU_POWER, 1e-6);
	put_file(c, c->hwmon, "power1_input", GS_GPU_POWER_INSTANT, 1e-6);
	if (!gs_gpu_has(s, GS_GPU_POWER) && gs_gpu_has(s, GS_GPU_POWER_INSTANT))
		gs_gpu_set_checked(s, GS_GPU_POWER, s->value[GS_GPU_POWER_INSTANT]);
	put_file(c, c->hwmon, "energy1_input", GS_GPU_ENERGY, 1e-6);
	read_clocks(c);
	s->why[GS_GPU_FAN] = GS_GPU_REASON_NOT_SUPPORTED;
	if (c->hwmon[0] && read_number(c->hwmon, "pwm1", &pwm)) {
		read_number(c->hwmon, "pwm1_max", &max);
		if (max && pwm <= max)
			gs_gpu_set_checked(s, GS_GPU_FAN, (double)pwm / (double)max);
	}
}

/* "16.0 GT/s PCIe" is generation 4. */
static void put_generation(struct card *c, const char *name, enum gs_gpu_field field)
{
	static const char *const speeds[] = {"2.5", "5", "8", "16", "32", "64"};
	char text[64];
	size_t n;

	c->sample.why[field] = GS_GPU_REASON_NOT_SUPPORTED;
	if (!read_text(c->device, name, text, sizeof(text)))
		return;
	for (size_t i = 0; i < GS_ARRAY_LEN(speeds); i++) {
		n = strlen(speeds[i]);
		if (strncmp(text, speeds[i], n) == 0 &&
		    (text[n] == ' ' || strncmp(text + n, ".0 ", 3) == 0))
			gs_gpu_set_checked(&c->sample, field, (double)(i + 1));
	}
}

static void put_ecc(struct card *c)
{
	static const struct {
		const char *word;
		enum gs_gpu_field field;
	} kinds[] = {{"ue: ", GS_GPU_ECC_NOW_UNCORRECTED}, {"ce: ", GS_GPU_ECC_NOW_CORRECTED}};
	char text[FILE_BYTES];
	bool have = read_text(c->device, "ras/umc_err_count", text, sizeof(text));

	for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
		const char *at = have ? strstr(text, kinds[i].word) : NULL;
		uint64_t v = 0;

		c->sample.why[kinds[i].field] = GS_GPU_REASON_NOT_SUPPORTED;
		if (at && gs_amdgpu_parse_number(at + 4, &v))
			gs_gpu_set_checked(&c->sample, kinds[i].field, (double)v);
	}
}

static void read_slow(struct card *c)
{
	put_file(c, c->hwmon, "power1_cap", GS_GPU_POWER_LIMIT, 1e-6);
	put_file(c, c->hwmon, "power1_cap_default", GS_GPU_POWER_LIMIT_DEFAULT, 1e-6);
	put_file(c, c->hwmon, "power1_cap_max", GS_GPU_POWER_LIMIT_MAX, 1e-6);
	put_file(c, c->hwmon, "power1_cap_min", GS_GPU_POWER_LIMIT_MIN, 1e-6);
	put_generation(c, "current_link_speed", GS_GPU_PCIE_GEN);
	put_generation(c, "max_link_speed", GS_GPU_PCIE_GEN_MAX);
	put_file(c, c->device, "current_link_width", GS_GPU_PCIE_WIDTH, 1);
	put_file(c, c->device, "max_link_width", GS_GPU_PCIE_WIDTH_MAX, 1);
	put_file(c, c->device, "pcie_replay_count", GS_GPU_PCIE_REPLAYS, 1);
	put_ecc(c);
}

int gs_amdgpu_processes(const struct gs_amdgpu *amd, gs_amdgpu_process_fn add, void *ctx)
{
	char path[300], proc[600], name[48];
	struct dirent *e;
	int r = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/kfd/kfd/proc", amd->root);
	dir = opendir(path);
	while (dir && r == 0 && (e = readdir(dir))) {
		long pid = strtol(e->d_name, NULL, 10);

		if (pid <= 0 || pid > INT32_MAX)
			continue;
		snprintf(proc, sizeof(proc), "%s/%s", path, e->d_name);
		for (unsigned i = 0; i < amd->n && r == 0; i++) {
			uint64_t bytes = 0;

			snprintf(name, sizeof(name), "vram_%llu",
				 (unsigned long long)amd->card[i].kfd_id);
			if (amd->card[i].kfd_id && read_number(proc, name, &bytes) && bytes)
				r = add(ctx, i, (uint32_t)pid, bytes);
		}
	}
	if (dir)
		closedir(dir);
	return r;
}

void gs_amdgpu_rescan(struct gs_amdgpu *amd)
{
	scan_cards(amd);
	for (unsigned i = 0; i < amd->n; i++)
		amd->card[i].next_slow_ns = 0;
}

void gs_amdgpu_read(struct gs_amdgpu *amd, bool basic, bool health, struct gs_gpu_info *info,
		    struct gs_gpu_sample *sample)
{
	for (unsigned i = 0; i < amd->n; i++) {
		struct card *c = &amd->card[i];
		bool slow;

		c->sample.time_ns = gs_clock_boot_ns();
		c->sample.elapsed_ns = c->before_ns ? c->sample.time_ns - c->before_ns : 0;
		c->before_ns = c->sample.time_ns;
		/* Slow values stay until the next look. */
		slow = health && !c->next_slow_ns;
		gs_amdgpu_metrics_forget(basic, slow, &c->sample);
		if (basic)
			read_basic(c);
		if (slow) {
			read_slow(c);
			c->next_slow_ns = 1;
		}
		if (basic || slow)
			read_metrics(c, basic, slow);
		info[i] = c->info;
		sample[i] = c->sample;
	}
}
