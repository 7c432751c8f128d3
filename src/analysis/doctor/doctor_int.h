/* Shared by the files of this room: the list of answers, files below the root, and the checks by group. */
#ifndef GS_ANALYSIS_DOCTOR_DOCTOR_INT_H
#define GS_ANALYSIS_DOCTOR_DOCTOR_INT_H

#include <limits.h>
#include <stdbool.h>

#include "analysis/doctor/doctor.h"
#include "core/reader/reader.h"
#include "sources/kernel_features/kernel_features.h"
#include "sources/uprobe/features.h"

struct gs_doctor {
	struct gs_doctor_options options;
	struct gs_doctor_answer *answers; /* owned; n of them */
	size_t n, n_room;
	struct gs_kernel_features features; /* valid once has_features is set */
	struct gs_uprobe_tried tried;       /* likewise */
	bool has_features;
	struct gs_reader *reader; /* owned; NULL until it is needed */
	struct gs_gpu_snapshot
		*gpus; /* owned; NULL until they are read, or if there was no memory */
};

/* The unprivileged process that reads files of others; owned by doctor. NULL with err: it cannot be started. */
struct gs_reader *doctor_get_reader(struct gs_doctor *doctor, struct gs_err *err);

/* Fills features and tried, the first time it is called. */
void doctor_ask_features(struct gs_doctor *doctor);

/* Reads a small file below the root as text, without its last line feed. Returns its length, or a negative errno and "". */
int doctor_read(const struct gs_doctor *doctor, const char *path, char *out, size_t bytes);

/* The path below the root. Returns out. */
const char *doctor_path(const struct gs_doctor *doctor, const char *path, char out[PATH_MAX]);

/* The integer in such a file; fallback if there is none. */
long doctor_number(const struct gs_doctor *doctor, const char *path, long fallback);

/* The checks of gs_doctor_ask_machine(), by group. */
void doctor_ask_rights(struct gs_doctor *doctor);
void doctor_ask_kernel(struct gs_doctor *doctor);
void doctor_ask_gpus(struct gs_doctor *doctor);
void doctor_ask_jobs(struct gs_doctor *doctor);
void doctor_ask_clocks(struct gs_doctor *doctor);

/* Checks whether NCCL's RAS answers at this address ("HOST:PORT"; NULL: NCCL's default). */
void doctor_ask_ras(struct gs_doctor *doctor, enum gs_doctor_group group, const char *address);

/* Whether the PCI bus has an NVIDIA GPU. */
bool doctor_has_nvidia(const struct gs_doctor *doctor);

/* The GPUs, which are read the first time it is called, twice if there are some. Lent; NULL: there was no memory. */
const struct gs_gpu_snapshot *doctor_get_gpus(struct gs_doctor *doctor);

/* Adds an answer about Python's remote debugging, for an interpreter of this version (0x030e: 3.14). */
void doctor_put_remote_debugging(struct gs_doctor *doctor, uint16_t version, bool by_variable,
				 bool by_option);

/* --- version.c: versions from file names --- */

/* -1: unknown. */
struct doctor_version {
	int major, minor, update;
};

/* The version of a library from its file name (2.27.5 of libnccl.so.2.27.5), or from the name of the Python package beside it
 * (.../site-packages/nvidia/nccl/lib/libnccl.so.2 and nvidia_nccl_cu12-2.27.5.dist-info). path: can be opened from here.
 * False: unknown. */
bool doctor_version_of(const char *path, const char *wheel, struct doctor_version *ret);

/* --- cupti.c --- */

/* Adds answers about a copy of CUPTI: its version, and whether the driver can be used with it. path: can be opened from here;
 * "": none was found. other_driver: a library of the driver that the program brings itself, not that of this machine; NULL
 * or "": there is none. */
void doctor_put_cupti(struct gs_doctor *doctor, enum gs_doctor_group group, const char *path,
		      const char *other_driver);

/* Finds the constant that the code stores where its first argument points. False: it stores none. */
bool doctor_find_constant(const uint8_t *code, size_t bytes, uint32_t *ret);

/* The CUDA release with this version of CUPTI, the latest of several. False: unknown version. */
bool doctor_cupti_release(uint32_t version, struct doctor_version *ret);

/* Can CUPTI of this CUDA be used with a driver that supports that one? */
bool doctor_cupti_fits(const struct doctor_version *cupti, const struct doctor_version *driver);

/* Writes the known faults (GS_CUPTI_FAULTS) of a release in one line, "N more" for what does not fit; "": none. Returns their
 * number. */
unsigned doctor_cupti_faults(const struct doctor_version *version, char *out, size_t bytes);

#endif
