/*
 * Which CUPTI a file is, and what faults that version has. What cuptiGetVersion() answers stands in its code as a constant
 * (seen: CUDA 13.0): a process without rights reads it there. A stranger's library is not called, and its name says only
 * the major version.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/doctor/cupti.h"
#include "analysis/doctor/doctor_int.h"
#include "core/base/buf.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "model/gpu_work/cupti.h"
#include "model/node/gpu.h"
#include "sources/elf/elf.h"

#define CODE_BYTES 32 /* of that function, which is shorter */
#define MORE_BYTES 16 /* "; 12 more" */

bool doctor_find_constant(const uint8_t *code, size_t bytes, uint32_t *ret)
{
	/* movl $CONSTANT, (%rdi) */
	for (size_t i = 0; i + 6 <= bytes; i++)
		if (code[i] == 0xc7 && code[i + 1] == 0x07) {
			memcpy(ret, code + i + 2, sizeof(*ret));
			return true;
		}
	return false;
}

int gs_doctor_serve_cupti(void **state, struct gs_reader_request *request,
			  struct gs_wire_out *reply, struct gs_err *err)
{
	static const char *const names[] = {"cuptiGetVersion"};
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	struct gs_elf_symbol symbol = {0};
	uint8_t code[CODE_BYTES];
	uint32_t version = 0;
	long n = 0;
	int r;

	if (!gs_wire_is_done(&request->in))
		return -EBADMSG;
	r = gs_elf_open_fd(&request->fds[0], "CUPTI", false, &elf, err);
	if (r == 0)
		r = gs_elf_find(elf, names, 1, false, &symbol, err);
	if (r == 0 && symbol.found)
		n = gs_elf_read(elf, symbol.file_off, code, sizeof(code));
	if (r < 0 || n < 0)
		return r < 0 ? r : (int)n;
	(void)doctor_find_constant(code, (size_t)n, &version);
	gs_wire_put_u32(reply, version);
	return 0;
}

/* What cuptiGetVersion() of the file answers; 0: it is not known. */
static uint32_t ask_version(struct gs_doctor *d, const char *path)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(16), reply = GS_BUF_INIT(4096);
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	struct gs_reader *reader = doctor_get_reader(d, NULL);
	struct gs_wire_in in;
	uint32_t version;

	if (!reader || gs_foreign_open(path, NULL, &file) < 0)
		return 0;
	gs_reader_set_owner(reader, file.uid);
	if (gs_reader_ask(reader, GS_READER_CUPTI, &request, &file.fd, 1, &reply, NULL) < 0)
		return 0;
	in = GS_WIRE_IN(reply.data, reply.bytes);
	version = gs_wire_u32(&in);
	return gs_wire_is_done(&in) ? version : 0;
}

bool doctor_cupti_release(uint32_t version, struct doctor_version *ret)
{
	static const struct {
		uint32_t version;
		int major, minor, update;
	} counts[] = {
		{13, 11, 0, -1}, {14, 11, 1, -1}, {15, 11, 4, -1}, {16, 11, 5, -1}, {17, 11, 7, -1},
		{18, 11, 8, -1}, {19, 12, 1, -1}, {20, 12, 2, -1}, {21, 12, 3, -1}, {22, 12, 4, -1},
		{23, 12, 5, -1}, {24, 12, 6, -1}, {26, 12, 8, -1}, {27, 12, 9, 0},  {28, 12, 9, 1},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
		if (counts[i].version == version) {
			*ret = (struct doctor_version){counts[i].major, counts[i].minor,
						       counts[i].update};
			return true;
		}
	*ret = (struct doctor_version){(int)(version / 10000), (int)(version / 100 % 100),
				       (int)(version % 100)};
	return version >= 130000 && version < 1000000;
}

unsigned doctor_cupti_faults(const struct doctor_version *v, char *out, size_t bytes)
{
	static const struct gs_cupti_fault faults[] = {GS_CUPTI_FAULTS};
	uint32_t low = (uint32_t)(10000 * v->major + 100 * v->minor), high = low + 99;
	unsigned n = 0, n_shown = 0;
	size_t used = 0;

	if (v->update >= 0)
		low = high = low + (uint32_t)v->update;
	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(faults); i++) {
		int k = -1;

		/* Where the update is not known, a fault of any of them counts. */
		if (high < faults[i].first || low >= faults[i].mended)
			continue;
		n++;
		if (n_shown + 1 == n)
			k = snprintf(out + used, bytes - used, "%s%s (fixed in CUDA %u.%u.%u)",
				     used ? "; " : "", faults[i].what, faults[i].mended / 10000,
				     faults[i].mended / 100 % 100, faults[i].mended % 100);
		if (k > 0 && used + (size_t)k + MORE_BYTES < bytes) {
			used += (size_t)k;
			n_shown++;
		}
		out[used] = '\0'; /* the first ones fit */
	}
	if (n_shown < n && bytes - used > MORE_BYTES)
		snprintf(out + used, bytes - used, "%s%u more", used ? "; " : "", n - n_shown);
	return n;
}

/* The newest CUDA that the machine's driver can be used with. False: NVML does not say. */
static bool ask_driver(struct gs_doctor *d, struct doctor_version *ret)
{
	const struct gs_gpu_snapshot *s = doctor_get_gpus(d);

	*ret = (struct doctor_version){-1, -1, -1};
	for (uint32_t i = 0; s && i < s->n_gpus; i++)
		if (s->info[i].vendor == GS_GPU_VENDOR_NVIDIA &&
		    sscanf(s->info[i].cuda_version, "%5d.%5d", &ret->major, &ret->minor) == 2)
			return true;
	return false;
}

bool doctor_cupti_fits(const struct doctor_version *cupti, const struct doctor_version *driver)
{
	return cupti->major <= driver->major;
}

/* A driver of an older major version refuses CUPTI whole; within one NVIDIA supports each with each. */
static void put_fit(struct gs_doctor *d, enum gs_doctor_group group,
		    const struct doctor_version *cupti, const char *other_driver)
{
	struct gs_doctor_row row = {.group = group, .name = "CUPTI and the driver"};
	char found[GS_DOCTOR_TEXT_BYTES], mend[64];
	struct doctor_version driver;

	row.found = found;
	row.state = GS_DOCTOR_NOT_ASKED;
	if (other_driver && *other_driver) {
		snprintf(found, sizeof(found), "the program brings its own driver library: %.200s",
			 other_driver);
	} else if (!ask_driver(d, &driver)) {
		if (!doctor_has_nvidia(d) && !d->options.nvml_path)
			return;
		snprintf(found, sizeof(found), "NVML does not say which CUDA the driver supports");
	} else {
		bool fits = doctor_cupti_fits(cupti, &driver);

		snprintf(found, sizeof(found),
			 "CUPTI is of CUDA %d.%d, the driver supports CUDA %d.%d%s", cupti->major,
			 cupti->minor, driver.major, driver.minor,
			 fits && cupti->major == driver.major && cupti->minor > driver.minor
				 ? ": supported within a major version"
				 : "");
		row.state = fits ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED;
		row.without =
			fits ? ""
			     : "CUPTI does not start (CUPTI_ERROR_NOT_INITIALIZED): no GPU times of kernels and copies, nor in torch.profiler";
		snprintf(mend, sizeof(mend), "install an NVIDIA driver for CUDA %d.0 or newer",
			 cupti->major);
		row.mend = fits ? "" : mend;
	}
	gs_doctor_put(d, &row);
}

void gs_doctor_ask_nvtx(struct gs_doctor *d, enum gs_doctor_group group, const char *holder)
{
	bool is_taken = holder && *holder;
	char found[GS_DOCTOR_TEXT_BYTES];

	snprintf(found, sizeof(found), is_taken ? "NVTX_INJECTION64_PATH=%.200s" : "free",
		 is_taken ? holder : "");
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = group,
			.state = is_taken ? GS_DOCTOR_LIMITED : GS_DOCTOR_WORKS,
			.name = "NVTX injection slot",
			.found = found,
			.without =
				is_taken
					? "this library is loaded at the first NVTX range; if it uses CUPTI (libcupti.so does), torch.profiler and --inside=gpu may get no GPU times"
					: "",
			.mend = !is_taken ? ""
				: group == GS_DOCTOR_PROGRAM
					? "env -u NVTX_INJECTION64_PATH COMMAND"
					: "unset NVTX_INJECTION64_PATH"});
}

void doctor_put_cupti(struct gs_doctor *d, enum gs_doctor_group group, const char *path,
		      const char *other_driver)
{
	struct gs_doctor_row row = {.group = group, .name = "CUPTI"};
	char found[GS_DOCTOR_TEXT_BYTES], faults[300] = "", number[16] = "";
	uint32_t version = path[0] ? ask_version(d, path) : 0;
	struct doctor_version v = {0};
	bool is_known = doctor_cupti_release(version, &v);
	unsigned n = is_known ? doctor_cupti_faults(&v, faults, sizeof(faults)) : 0;

	if (v.update >= 0)
		snprintf(number, sizeof(number), ".%d", v.update);
	if (!path[0])
		snprintf(found, sizeof(found), "not found; --inside=gpu uses the program's copy");
	else if (!is_known)
		snprintf(found, sizeof(found), "%.200s: cannot find its version", path);
	else
		snprintf(found, sizeof(found), "CUDA %d.%d%s%s%s", v.major, v.minor, number,
			 n ? ", with known faults: " : "", faults);
	row.found = found;
	row.state = !path[0]    ? GS_DOCTOR_NOT_NEEDED
		    : !is_known ? GS_DOCTOR_NOT_ASKED
		    : n         ? GS_DOCTOR_LIMITED
				: GS_DOCTOR_WORKS;
	if (is_known && gs_cupti_refusal(version)) {
		row.without =
			"profilers in the program (such as torch.profiler) may run into these faults; --inside=gpu refuses this version: no GPU times of kernels and copies";
		row.mend = "pip install --upgrade nvidia-cuda-cupti";
	} else if (n) {
		row.without =
			"profilers in the program (such as torch.profiler) may run into these faults; before CUDA 13.4.1, --inside=gpu records only 1 s of every 20 s";
		row.mend = v.major < 13 ? "pip install --upgrade nvidia-cuda-cupti-cu12"
					: "pip install --upgrade nvidia-cuda-cupti";
	}
	gs_doctor_put(d, &row);
	if (is_known)
		put_fit(d, group, &v, other_driver);
}
