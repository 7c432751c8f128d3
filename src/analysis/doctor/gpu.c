/* GPUs, as sources/gpu reads them, and NCCL's own server for what its communicators do. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/net.h"
#include "sources/elf/library.h"
#include "sources/gpu/gpu.h"

#define DEVICES_MAX   65536
#define NVIDIA_VENDOR "0x10de"
#define DISPLAY_CLASS "0x03" /* of PCI: VGA (00) and 3D controllers (02) */
#define BETWEEN_NS    250000000
#define RAS_DEFAULT   "localhost:28028" /* NCCL, src/ras/ras.cc: NCCL_RAS_ADDR_DEFAULT */
#define RAS_MS        500
#define RAS_ANSWER    "SERVER PROTOCOL "

bool doctor_has_nvidia(const struct gs_doctor *d)
{
	char path[PATH_MAX], text[32];
	DIR *dir = opendir(doctor_path(d, "/sys/bus/pci/devices", path));
	struct dirent *e;
	bool found = false;

	for (unsigned n = 0; dir && !found && n < DEVICES_MAX && (e = readdir(dir)) != NULL; n++) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", e->d_name);
		if (doctor_read(d, path, text, sizeof(text)) <= 0 ||
		    strcmp(text, NVIDIA_VENDOR) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", e->d_name);
		found = doctor_read(d, path, text, sizeof(text)) > 0 &&
			strncmp(text, DISPLAY_CLASS, strlen(DISPLAY_CLASS)) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Two readings, as rates and GPM's values need them. NULL: no memory. */
static struct gs_gpu_snapshot *read_gpus(const struct gs_doctor *d)
{
	const struct gs_gpu_options options = {
		.size = sizeof(options),
		.groups = GS_GPU_READ_BASIC | GS_GPU_READ_GPM,
		.nvml_path = d->options.nvml_path,
		.nvml_option = "--nvml PATH",
	};
	const struct timespec between = {.tv_nsec = BETWEEN_NS};
	GS_CLEANUP(gs_gpu_close) struct gs_gpu *gpu = NULL;
	struct gs_gpu_snapshot *s = NULL;

	if (gs_gpu_open(&options, &gpu, NULL) < 0 || gs_gpu_read(gpu, &s) < 0)
		return NULL;
	if (s->state != GS_GPU_STATE_OK || !s->n_gpus)
		return s;
	gs_gpu_snapshot_free(&s);
	nanosleep(&between, NULL);
	(void)gs_gpu_read(gpu, &s);
	return s;
}

const struct gs_gpu_snapshot *doctor_get_gpus(struct gs_doctor *d)
{
	if (!d->gpus)
		d->gpus = read_gpus(d);
	return d->gpus;
}

static void ask_nvml(struct gs_doctor *d, const struct gs_gpu_snapshot *s)
{
	bool wanted = d->options.nvml_path || doctor_has_nvidia(d);
	struct gs_doctor_row row = {.group = GS_DOCTOR_GPU, .name = "NVML"};
	char found[GS_DOCTOR_TEXT_BYTES];

	snprintf(found, sizeof(found), "%s", s->state_text);
	row.found = found;
	if (s->state == GS_GPU_STATE_OK && s->n_gpus) {
		row.state = GS_DOCTOR_WORKS;
		snprintf(found, sizeof(found), "%u GPU%s%s%s", s->n_gpus, s->n_gpus == 1 ? "" : "s",
			 s->info[0].driver_version[0] ? ", driver " : "",
			 s->info[0].driver_version);
	} else if (!wanted) {
		row.state = GS_DOCTOR_NOT_NEEDED;
		row.found = "no NVIDIA GPU in this machine";
	} else {
		row.state = GS_DOCTOR_FAILS;
		row.without = "no GPU metrics, and the GPUs of jobs are unknown";
		row.mend = s->state == GS_GPU_STATE_NO_DRIVER ? "sudo modprobe nvidia"
			   : s->state == GS_GPU_STATE_NO_LIBRARY && d->options.nvml_path
				   ? "leave out --nvml, or give the path of libnvidia-ml.so.1"
			   : s->state == GS_GPU_STATE_NO_LIBRARY
				   ? "install the NVIDIA driver with its user-space libraries"
				   : "sudo dmesg | grep NVRM";
	}
	gs_doctor_put(d, &row);
}

/* Hopper and newer have it. */
static void ask_gpm(struct gs_doctor *d, const struct gs_gpu_snapshot *s)
{
	struct gs_doctor_row row = {.group = GS_DOCTOR_GPU, .name = "GPM counters"};
	unsigned n_there = 0, n_hidden = 0, n_nvidia = 0;
	char found[96];

	for (uint32_t i = 0; i < s->n_gpus; i++) {
		if (s->info[i].vendor != GS_GPU_VENDOR_NVIDIA || s->info[i].is_mig)
			continue;
		n_nvidia++;
		n_there += gs_gpu_has(&s->sample[i], GS_GPU_SM_ACTIVE);
		n_hidden += s->sample[i].why[GS_GPU_SM_ACTIVE] == GS_GPU_REASON_NOT_PERMITTED;
	}
	snprintf(found, sizeof(found), "%u of %u GPU%s", n_there, n_nvidia,
		 n_nvidia == 1 ? "" : "s");
	row.found = found;
	row.state = n_there && n_there == n_nvidia ? GS_DOCTOR_WORKS
		    : n_hidden                     ? GS_DOCTOR_LIMITED
						   : GS_DOCTOR_NOT_NEEDED;
	if (row.state == GS_DOCTOR_LIMITED) {
		row.found = "the driver shows them only to root";
		row.without = "no SM, tensor or DRAM activity";
		row.mend = "sudo gpuscope doctor";
	} else if (!n_nvidia) {
		row.found = "no GPU could be read";
	} else if (row.state == GS_DOCTOR_NOT_NEEDED) {
		row.found = "not available: needs Hopper or newer, and a driver that shows them";
	}
	gs_doctor_put(d, &row);
}

/* The one that the loader finds; programs may bring another. */
static void ask_cupti(struct gs_doctor *d)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti"};
	const char *folders = getenv("LD_LIBRARY_PATH");
	char path[PATH_MAX];

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
		if (gs_library_by_name(names[i], folders, path) == 0) {
			doctor_put_cupti(d, GS_DOCTOR_GPU, path, NULL);
			return;
		}
	doctor_put_cupti(d, GS_DOCTOR_GPU, "", NULL);
}

void doctor_ask_gpus(struct gs_doctor *d)
{
	const struct gs_gpu_snapshot *s = doctor_get_gpus(d);

	ask_cupti(d);
	if (!s)
		return;
	ask_nvml(d, s);
	ask_gpm(d, s);
}

/* --- NCCL's RAS: since 2.24 each job of NCCL has a thread that answers on a port --- */

static int wait_for(int fd, short events, uint64_t end_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now = gs_clock_mono_ns();

	return now < end_ns && poll(&p, 1, (int)((end_ns - now) / 1000000) + 1) == 1 ? 0
										     : -ETIMEDOUT;
}

/* 0; -ECONNREFUSED and its like: nothing listens; -EPROTO: something else does. */
static int greet_ras(const struct addrinfo *a, uint64_t end_ns)
{
	static const char hello[] = "CLIENT PROTOCOL 2\n"; /* src/ras/client.cc */
	GS_CLOSE int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char answer[sizeof(RAS_ANSWER)] = "";
	size_t have = 0;
	int e = 0;
	socklen_t e_bytes = sizeof(e);

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	if (wait_for(fd, POLLOUT, end_ns) < 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &e_bytes) < 0 || e)
		return e ? -e : -errno;
	if (send(fd, hello, sizeof(hello) - 1, MSG_NOSIGNAL) != sizeof(hello) - 1)
		return -EPROTO;
	while (have < sizeof(answer) - 1 && wait_for(fd, POLLIN, end_ns) == 0) {
		ssize_t n = recv(fd, answer + have, sizeof(answer) - 1 - have, 0);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return memcmp(answer, RAS_ANSWER, sizeof(RAS_ANSWER) - 1) == 0 ? 0 : -EPROTO;
}

static int ask_address(const char *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	char host[256], port[16];
	int r = -EINVAL;

	if (!gs_net_split(address, host, sizeof(host), port, sizeof(port)))
		return r;
	if (getaddrinfo(host, port, &hints, &all) != 0)
		return -EHOSTUNREACH;
	for (const struct addrinfo *a = all; a && r != 0 && r != -EPROTO; a = a->ai_next)
		r = greet_ras(a, gs_clock_mono_ns() + RAS_MS * 1000000ull);
	freeaddrinfo(all);
	return r;
}

void doctor_ask_ras(struct gs_doctor *d, enum gs_doctor_group group, const char *address)
{
	const char *at = address && *address ? address : RAS_DEFAULT;
	int r = ask_address(at);
	char found[GS_DOCTOR_TEXT_BYTES];

	snprintf(found, sizeof(found),
		 r == 0         ? "NCCL answers at %.200s: ncclras shows its communicators"
		 : r == -EPROTO ? "what listens at %.200s is not NCCL's RAS"
				: "nothing listens at %.200s: no job of NCCL 2.24 or newer runs",
		 at);
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = group,
			.state = r == 0         ? GS_DOCTOR_WORKS
				 : r == -EPROTO ? GS_DOCTOR_LIMITED
						: GS_DOCTOR_NOT_NEEDED,
			.name = "NCCL RAS",
			.found = found,
			.without =
				r == -EPROTO
					? "NCCL jobs started here have no RAS (ncclras); gpuscope does without it"
					: "",
			.mend = r == -EPROTO ? "export NCCL_RAS_ADDR=localhost:28029" : ""});
}
