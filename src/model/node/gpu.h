/*
 * GPUs as they are at one time: plain values, made by sources/gpu and shown, stored and exported by
 * others. A value that could not be had is not there (its valid bit is 0) and is never shown as 0.
 * GPUs are known by UUID and PCI bus id; an index is for display only and may change.
 */
#ifndef GS_MODEL_NODE_GPU_H
#define GS_MODEL_NODE_GPU_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node/gpu_field.h"

#define GS_GPU_LINK_MAX 36 /* NVLinks of one GPU: 18 on Hopper, 36 ids in the API (nvml.h) */

enum gs_metric_unit {
	GS_UNIT_OF_NONE = 0,
	GS_UNIT_OF_RATIO = 1,
	GS_UNIT_OF_BYTES = 2,
	GS_UNIT_OF_CELSIUS = 3,
	GS_UNIT_OF_WATTS = 4,
	GS_UNIT_OF_JOULES = 5,
	GS_UNIT_OF_HERTZ = 6,
	GS_UNIT_OF_SECONDS = 7,
	GS_UNIT_OF_BPS = 8, /* bytes a second */
};

enum gs_gpu_field {
#define GS_GPU_FIELD_ID(id, ...) GS_GPU_##id,
	GS_GPU_FIELDS(GS_GPU_FIELD_ID)
#undef GS_GPU_FIELD_ID
		GS_GPU_FIELD_COUNT
};

struct gs_gpu_field_info { /* a row of model/node/gpu_field.h. Fields as there */
	const char *key;
	enum gs_metric_unit unit;
	bool counter;
	const char *family, *label, *label_value, *title, *help;
};

/* How often values are read: the groups of the agent's schedule (sampling.groups), all values of a
 * part in one. */
enum gs_gpu_pace {
	GS_GPU_PACE_BASIC,
	GS_GPU_PACE_HEALTH,
	GS_GPU_PACE_LINKS,
	GS_GPU_PACE_GPM,
};

/* X(ID, name, GS_GPU_PACE_ pace): values that are read together and therefore have one age. */
#define GS_GPU_PARTS_OF(X)                                                                         \
	X(MEMORY, "memory", BASIC)                                                                 \
	X(UTILIZATION, "utilization", BASIC)                                                       \
	X(MEMORY_ACTIVITY, "memory_activity", BASIC)                                               \
	X(ENGINES, "engines", BASIC)                                                               \
	X(POWER, "power", BASIC)                                                                   \
	X(POWER_INSTANT, "power_instant", BASIC)                                                   \
	X(ENERGY, "energy", BASIC)                                                                 \
	X(TEMPERATURE, "temperature", BASIC)                                                       \
	X(MEMORY_TEMPERATURE, "memory_temperature", BASIC)                                         \
	X(CLOCKS, "clocks", BASIC)                                                                 \
	X(CLOCKS_MORE, "clocks_more", BASIC)                                                       \
	X(STATE, "state", BASIC)                                                                   \
	X(FAN, "fan", BASIC)                                                                       \
	X(PCIE, "pcie_bytes", BASIC)                                                               \
	X(PCIE_RATE, "pcie_rate", BASIC)                                                           \
	X(THROTTLE, "throttle_time", BASIC)                                                        \
	X(PROCESSES, "processes", BASIC)                                                           \
	X(SHARES, "process_shares", BASIC)                                                         \
	X(BAR1, "bar1", HEALTH)                                                                    \
	X(LIMITS, "limits", HEALTH)                                                                \
	X(ECC, "ecc", HEALTH)                                                                      \
	X(REPAIRS, "repairs", HEALTH)                                                              \
	X(PCIE_LINK, "pcie_link", HEALTH)                                                          \
	X(LINKS, "nvlink_state", LINKS)                                                            \
	X(LINK_EACH, "nvlink_each", LINKS)                                                         \
	X(LINK_BYTES, "nvlink_bytes", LINKS)                                                       \
	X(LINK_RATE, "nvlink_rate", LINKS)                                                         \
	X(C2C, "c2c", LINKS)                                                                       \
	X(GPM, "gpm", GPM)

enum gs_gpu_part {
#define GS_GPU_PART_ID(id, ...) GS_GPU_PART_##id,
	GS_GPU_PARTS_OF(GS_GPU_PART_ID)
#undef GS_GPU_PART_ID
		GS_GPU_PARTS
};

const char *gs_gpu_part_name(unsigned part);              /* "" no such part */
int gs_gpu_part_by_name(const char *name);                /* -1: none */
enum gs_gpu_part gs_gpu_part_of(enum gs_gpu_field field); /* field, part: existing ones */
enum gs_gpu_pace gs_gpu_pace_of(enum gs_gpu_part part);   /* likewise */

/* Bits of enum gs_gpu_part: what must be read to have a value. */
uint64_t gs_gpu_parts_needed(enum gs_gpu_field field);

const struct gs_gpu_field_info *gs_gpu_field_info(unsigned field); /* NULL: no such field */
int gs_gpu_field_by_key(const char *key);                          /* -1: none */

enum gs_gpu_vendor {
	GS_GPU_VENDOR_NONE = 0,
	GS_GPU_VENDOR_NVIDIA = 1,
	GS_GPU_VENDOR_AMD = 2,
};

/* Why a value is not there. */
enum gs_gpu_reason {
	GS_GPU_REASON_OK = 0,
	GS_GPU_REASON_NOT_SUPPORTED = 1,
	GS_GPU_REASON_NOT_PERMITTED = 2,
	GS_GPU_REASON_NOT_READ = 3, /* not asked for, or its turn has not come yet */
	GS_GPU_REASON_FAILED = 4,
	GS_GPU_REASON_TIMED_OUT = 5,
	GS_GPU_REASON_LOST = 6, /* the GPU is off the bus */
	/* The driver's answer cannot be: all bits set, which means "not known" in many of its
	 * calls, or out of the range that gs_gpu_plausible() allows. */
	GS_GPU_REASON_IMPLAUSIBLE = 7,
};

/* What stays as it is while the GPU is there. Texts are "" when unknown. */
struct gs_gpu_info {
	uint32_t index;          /* in the vendor library's order; of a MIG device: its parent's */
	uint32_t vendor;         /* enum gs_gpu_vendor */
	char uuid[80];           /* "GPU-..." or "MIG-..." */
	char pci_bus_id[32];     /* "00000000:3B:00.0" */
	char name[96];           /* the model's */
	char serial[32];         /* of the board */
	char vbios[32];          /* its version */
	char driver_version[32]; /* of the driver in the kernel */
	char cuda_version[16];   /* the highest that the driver supports */
	char architecture[32];   /* "Hopper" */
	int32_t minor;           /* /dev/nvidiaN; -1 unknown */
	int32_t numa_node;       /* -1 unknown */
	int32_t n_sms;           /* -1 unknown */
	int32_t compute_major, compute_minor; /* -1 unknown */
	uint8_t persistence;                  /* 0 off, 1 on, 255 unknown */
	uint8_t mig_enabled;                  /* the GPU is in MIG mode; its instances follow it */
	uint8_t is_mig;                       /* this is such an instance */
	uint8_t pad;
	int32_t gpu_instance, compute_instance; /* of a MIG instance; -1 */
	char mig_profile[32];                   /* "1g.10gb" */
};

/* One of which nothing is known: texts "", numbers as said above, index and vendor 0. */
extern const struct gs_gpu_info gs_gpu_info_unknown;

/* CUDA cores of an SM, by compute capability. */
uint32_t gs_gpu_sm_cores(int32_t major, int32_t minor);

#define GS_GPU_NUMBER_BYTES 24

/* What it is called for people, and after -i: "3", and "3:7" a MIG instance. Returns out. */
const char *gs_gpu_number(char out[GS_GPU_NUMBER_BYTES], const struct gs_gpu_info *info);

/* Errors that links of NVLink 5 count (Blackwell and newer), beside those of struct gs_gpu_link. */
enum gs_gpu_link_count {
	GS_GPU_LINK_MALFORMED,
	GS_GPU_LINK_OVERRUN,
	GS_GPU_LINK_RECEIVE,
	GS_GPU_LINK_REMOTE,
	GS_GPU_LINK_GENERAL,
	GS_GPU_LINK_INTEGRITY,
	GS_GPU_LINK_DISCARDS,
	GS_GPU_LINK_RECOVERY_FAILED,
	GS_GPU_LINK_EFFECTIVE,
	GS_GPU_LINK_SYMBOL,
	GS_GPU_LINK_COUNTS
};
/* The field with the sum over all links. */
#define GS_GPU_LINK_COUNT_FIELD(kind) ((enum gs_gpu_field)(GS_GPU_NVLINK_MALFORMED + (kind)))

struct gs_gpu_link {
	uint8_t present;                 /* its state was read; 0: nothing below is there */
	uint8_t up;                      /* it can carry data */
	uint8_t version;                 /* of NVLink; 0 unknown */
	uint8_t have_bytes, have_errors; /* 1: the fields of that kind are there */
	uint64_t tx_bytes, rx_bytes;     /* counters */
	uint64_t crc_errors, replay_errors, recovery_errors; /* counters */
	char remote_bus_id[32];                              /* "" a switch, or unknown */
	uint16_t have_counts; /* bits of enum gs_gpu_link_count: those of count that are there */
	uint64_t count[GS_GPU_LINK_COUNTS]; /* by enum gs_gpu_link_count; counters */
};

/* What earlier samples showed of a GPU's health; only analysis/gpu_health writes it. Not recorded and
 * not sent: a reader of successive samples works it out again. */
#define GS_GPU_PAST_MAX 24
struct gs_gpu_past {
	/* Boot clock: since when each condition holds without a gap; 0: it does not hold. */
	uint64_t since_ns[GS_GPU_PAST_MAX];
	uint32_t from_start; /* bits: it held in the first sample, and perhaps before */
	uint32_t xid;        /* the newest, 0 none; of one that is no fault of the program first */
	uint64_t xid_ns;     /* boot clock */
};

struct gs_gpu_sample {
	uint64_t time_ns;    /* boot clock, when this GPU was read */
	uint64_t elapsed_ns; /* since the sample before; 0 the first: rates are not there yet */
	double value[GS_GPU_FIELD_COUNT]; /* in base units; there where why is 0 */
	uint8_t why[GS_GPU_FIELD_COUNT];  /* enum gs_gpu_reason: 0 the value is there */
	uint32_t n_links;
	struct gs_gpu_link link[GS_GPU_LINK_MAX]; /* by the number of the link, n_links of them */
	uint8_t lost; /* no longer answers: everything else is what was known last */
	/* Boot clock: when the values of each part were read. 0: not read, or not known. */
	uint64_t part_ns[GS_GPU_PARTS];
	/* 1: the rates of bytes over PCIe are those of 20 ms, which NVML measured on request
	 * (nvmlDeviceGetPcieThroughput), for this GPU has neither counters nor GPM. */
	uint8_t pcie_measured;
	struct gs_gpu_past past;
};

/* Whether the value is there. */
static inline bool gs_gpu_has(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	return s->why[f] == GS_GPU_REASON_OK;
}

/* NAN: it is not there. */
static inline double gs_gpu_value(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	return gs_gpu_has(s, f) ? s->value[f] : NAN;
}

/* Memory in use, of all of it: out of bytes where both are known, else as it was reported (clients
 * of other programs send no bytes). NAN: not known. */
double gs_gpu_memory_ratio(const struct gs_gpu_sample *s);

/* Can a GPU have this value? The ranges are wide: they separate measurements from answers that are
 * none. NaN is not plausible. */
bool gs_gpu_plausible(enum gs_gpu_field f, double value);

/* The value is there from now on. */
static inline void gs_gpu_set(struct gs_gpu_sample *s, enum gs_gpu_field f, double value)
{
	s->value[f] = value;
	s->why[f] = GS_GPU_REASON_OK;
}

/* The same for what a driver or another program says: a value that is not plausible is not known,
 * GS_GPU_REASON_IMPLAUSIBLE. */
static inline void gs_gpu_set_checked(struct gs_gpu_sample *s, enum gs_gpu_field f, double value)
{
	gs_gpu_set(s, f, value);
	if (!gs_gpu_plausible(f, value))
		s->why[f] = GS_GPU_REASON_IMPLAUSIBLE;
}

/* How long before the sample began the value was read; 0 also when that is not known. */
static inline uint64_t gs_gpu_age_ns(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	uint64_t read_ns = s->part_ns[gs_gpu_part_of(f)];

	return read_ns && read_ns < s->time_ns ? s->time_ns - read_ns : 0;
}

/* The inverse. */
static inline void gs_gpu_set_age(struct gs_gpu_sample *s, enum gs_gpu_field f, uint64_t age_ns)
{
	s->part_ns[gs_gpu_part_of(f)] = s->time_ns > age_ns ? s->time_ns - age_ns : 0;
}

/* Flags, combined by or. */
enum gs_gpu_process_kind {
	GS_GPU_PROCESS_COMPUTE = 1,
	GS_GPU_PROCESS_GRAPHICS = 2,
	GS_GPU_PROCESS_MPS = 4,
};

/* A process on a GPU. Shares are over the time since the sample before; a process that did nothing
 * has 0, one of which nothing could be learned has -1. */
struct gs_gpu_process {
	uint32_t gpu; /* index in the snapshot's array */
	uint32_t pid;
	uint32_t kind;      /* enum gs_gpu_process_kind, ored */
	uint32_t uid;       /* UINT32_MAX unknown */
	int64_t used_bytes; /* -1 unknown (the driver does not report it everywhere) */
	double sm_ratio, mem_ratio, enc_ratio, dec_ratio, jpg_ratio, ofa_ratio; /* 0 to 1 */
	uint64_t start_ns;  /* boot clock, 0 unknown */
	uint8_t ended;      /* only accounting knows it: it came and went between two samples */
	uint8_t gone;       /* not in /proc: of another pid namespace, or just ended */
	uint8_t kept;       /* used_bytes is from before: the list was not read for this sample */
	char comm[16];      /* as in /proc/PID/comm */
	char user[32];      /* "" not known */
	char container[72]; /* "" outside of one */
	char job[48]; /* of a batch system; "" none, not known, or not asked for. Not recorded */
	char cmdline[256]; /* scrubbed; "" not known */
};

enum gs_gpu_event_source {
	GS_GPU_EVENT_NVML = 1,
	GS_GPU_EVENT_KMSG = 2, /* both: 3 */
};

/* Something that happened, reported once. pci_bus_id: "" not known; text: in words, for people. */
struct gs_gpu_event {
	uint64_t time_ns; /* boot clock */
	uint32_t xid;     /* 0: another event */
	uint32_t source;  /* enum gs_gpu_event_source, ored */
	char pci_bus_id[32];
	char uuid[80]; /* "" not known (any more) */
	char text[192];
};
const char *gs_gpu_xid_text(uint32_t xid); /* "" not known */

/* Of the vendor's library. */
enum gs_gpu_state {
	GS_GPU_STATE_OK = 0,
	GS_GPU_STATE_NO_LIBRARY = 1,
	GS_GPU_STATE_NO_DRIVER = 2, /* library there, kernel module not loaded or another version */
	GS_GPU_STATE_NO_GPU = 3,
	GS_GPU_STATE_RELEASED = 4, /* released on request, so that a GPU can be reset */
	GS_GPU_STATE_HUNG = 5,     /* a call has not come back */
	GS_GPU_STATE_FAILED = 6,
	GS_GPU_STATE_READING = 7, /* no answer yet: the library is only starting */
};

const char *gs_gpu_vendor_name(unsigned vendor); /* "nvidia", "amd"; "" not known */
const char *gs_gpu_state_name(unsigned state);   /* "ok", "no_library", ... */
const char *gs_gpu_reason_name(unsigned why);    /* "ok", "not_supported", ... */

/* One snapshot of all GPUs. Immutable once handed out; freed by its holder. */
struct gs_gpu_snapshot {
	uint64_t time_ns; /* boot clock */
	int64_t wall_ns;
	uint32_t state;               /* enum gs_gpu_state */
	char state_text[256];         /* what is wrong and what to do; "" nothing */
	struct gs_gpu_info *info;     /* n_gpus; the MIG instances of a GPU follow it */
	struct gs_gpu_sample *sample; /* n_gpus */
	uint32_t n_gpus;
	struct gs_gpu_process *process; /* by GPU, then by memory, most first */
	uint32_t n_processes;
	struct gs_gpu_event *event; /* since the snapshot before */
	uint32_t n_events;
	uint64_t missed_samples; /* so far: not taken in time (a call hung, the machine was busy) */
	uint64_t failed_calls;   /* so far */
	uint64_t lost_events;    /* so far */
	uint64_t read_ns;        /* how long this snapshot took */
};

void gs_gpu_snapshot_free(struct gs_gpu_snapshot **snapshot); /* *snapshot may be NULL */

/* Leave only the GPUs (and their processes) for which keep is true; n_gpus of them. */
void gs_gpu_snapshot_keep(struct gs_gpu_snapshot *snapshot, const bool *keep);

/* A deep copy; NULL: no memory. */
struct gs_gpu_snapshot *gs_gpu_snapshot_copy(const struct gs_gpu_snapshot *snapshot);

#endif
