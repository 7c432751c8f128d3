/*
 * Among the files of this room.
 *
 *   gpu.c          the caller's side: asks, waits, merges events, names processes
 *   worker.c       the thread that reads: NVML's session and the room amd, one snapshot at a time
 *   nvml.c         the library: found, opened, started, ended; every call is made through NVML()
 *   nvml_device.c  which GPUs there are, and what stays as it is
 *   nvml_part.c    which values are read when, and what they cost
 *   nvml_sample.c  values of one GPU        nvml_slow.c  those that change slowly
 *   nvml_link.c    NVLink and NVLink-C2C    nvml_topology.c  how GPUs are connected
 *   nvml_gpm.c     performance metrics      nvml_process.c  processes, their shares, accounting
 *   nvml_event.c   the thread that waits for XIDs
 *   kmsg.c         XIDs in the kernel's log   xid.c  merged
 *
 * Only the worker touches struct gs_nvml; the event thread has a reference to the session's
 * library.
 */
#ifndef GS_SOURCES_GPU_GPU_INT_H
#define GS_SOURCES_GPU_GPU_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/map.h"
#include "core/base/pci.h"
#include "sources/gpu/gpu.h"
#include "sources/gpu/nvml_calls.h"

#define GS_GPU_MAX         512  /* GPUs and MIG instances; more are not shown */
#define GS_GPU_PROCESS_MAX 4096 /* on one GPU; more are not shown */
#define GS_GPU_EVENTS_MAX  256  /* waiting to be reported; more are counted as lost */

/* What the caller's side watches of the worker: since when the call it makes has lasted. */
struct gs_gpu_watch {
	_Atomic uint64_t call_since_ns; /* monotonic; 0: in no call */
	_Atomic unsigned call;          /* enum nvml_call: the last one */
	_Atomic uint64_t n_calls;       /* so far */
	_Atomic uint64_t failed_calls;
	_Atomic bool accounting_off; /* of a GPU, though it was asked for */
};

/* ---- events: from the threads that see them to gs_gpu_read() ---- */

struct gs_gpu_events { /* counted: a thread that hangs may outlive the reader */
	_Atomic unsigned refs;
	pthread_mutex_t lock;
	struct gs_gpu_event item[GS_GPU_EVENTS_MAX];
	unsigned n;
	uint64_t lost;
};

struct gs_gpu_events *gs_gpu_events_new(void); /* NULL: no memory */
struct gs_gpu_events *gs_gpu_events_ref(struct gs_gpu_events *events);
void gs_gpu_events_unref(struct gs_gpu_events **events);

/* Add, or join with the other source's report of the same. */
void gs_gpu_events_add(struct gs_gpu_events *events, const struct gs_gpu_event *event);

/* Take out those that are complete: seen by all sources, or older than the time in which the other
 * might still report it. ret_items has room for GS_GPU_EVENTS_MAX. */
unsigned gs_gpu_events_take(struct gs_gpu_events *events, unsigned sources, uint64_t now_ns,
			    struct gs_gpu_event *ret_items);

/* ---- the kernel's log ---- */

struct gs_kmsg {
	int fd; /* -1: cannot be read */
};

/* Only records from now on. 0 or a negative errno. */
int gs_kmsg_open(struct gs_kmsg *kmsg, const char *path);
void gs_kmsg_close(struct gs_kmsg *kmsg);

/* Read what has come; never waits. */
void gs_kmsg_read(struct gs_kmsg *kmsg, struct gs_gpu_events *events);

/* A record "prio,seq,usec,flags;NVRM: Xid (PCI:0000:3b:00): 79, ..." of these bytes, not
 * terminated; false: it is none. ret_mono_ns: the record's time. Pure. */
bool gs_kmsg_parse(const char *text, size_t bytes, struct gs_gpu_event *ret_event,
		   uint64_t *ret_mono_ns);

/* ---- NVML ---- */

/* The library in memory; counted, because the event thread may stay in a call that hangs. */
struct gs_nvml_library {
	_Atomic unsigned refs;
	void *handle;
	struct nvml_api api;
	char path[256];
	struct nvml_event_set *event_set; /* NULL: none */
	_Atomic bool stop;                /* the event thread shall end */
	_Atomic bool event_thread_runs;
};

void gs_nvml_library_unref(struct gs_nvml_library **library);

struct gs_nvml_meter { /* what was there when a reading began */
	uint64_t wall_ns, cpu_ns;
};

struct gs_nvml_cost {
	uint64_t n, wall_ns, cpu_ns;
};

#define GS_NVML_GROUPS 6 /* bits of enum gs_gpu_group */

struct gs_nvml_part {         /* of one device; nvml_part.c */
	uint64_t cost_ns;     /* of processor time, as measured */
	uint64_t interval_ns; /* with a budget: between two readings */
	uint64_t last_ns;     /* monotonic; 0 never */
	uint64_t way_ns[2];   /* what each way costs; UINT64_MAX: it does not work */
	uint8_t tries[2], way, n_costs;
	bool asked, shifted, settled;
};

struct gs_nvml_device {
	nvml_dev handle;       /* NULL: the GPU was there and does not answer */
	nvml_dev parent;       /* of a MIG instance, else NULL */
	uint32_t parent_index; /* in the table of devices; its own of a whole GPU */
	struct gs_gpu_info info;
	struct gs_gpu_sample sample;
	uint64_t unsupported[(NVML_CALL_COUNT + 63) / 64]; /* calls not to be made until slow_ns */
	uint8_t no_field[GS_NVML_FIELD_IDS];               /* by field id: the same */
	uint64_t next_slow_ns;
	uint64_t pcie_high[2], pcie_last[2];      /* a 32-bit counter made 64 bits wide */
	uint64_t bytes_last[4], bytes_time_ns[4]; /* for rates where there is no GPM */
	uint64_t pcie_measured_ns; /* monotonic: when NVML measured rates of PCIe; 0 never */
	struct nvml_gpm_sample *gpm[2];
	uint64_t gpm_time_ns;
	uint8_t rate_from_gpm; /* bits: rates of bytes that GPM reports, in the order of bytes_last */
	uint8_t gpm_at;        /* which of the two was taken last */
	uint8_t gpm_state;     /* 0 not asked yet, 1 supported, 2 not */
	uint64_t util_last_us, util_time_ns;
	uint8_t util_why;               /* enum gs_gpu_reason of the shares */
	struct nvml_process_util *util; /* owned; rows of the last reading */
	unsigned n_util;
	struct gs_map accounted; /* pid -> 1: not to be reported (again) */
	bool accounting_started;
	struct gs_nvml_part part[GS_GPU_PARTS];
	uint64_t plan_ns;   /* when the intervals are to be found again */
	bool out_of_focus;  /* only its processes are asked for */
	bool util_from_gpm; /* GPM reports utilisation, since its own call costs too much */
	uint8_t no_total;   /* bits: sums of bytes over NVLink that the GPU does not report */
	bool links_known;   /* what of the links does not change was read */
	struct gs_gpu_process *kept; /* owned; processes as listed last */
	unsigned n_kept;
};

/* All that the worker knows; one session from init to shutdown. */
struct gs_nvml {
	const struct gs_gpu_options *options;
	struct gs_gpu_watch *watch;
	struct gs_gpu_events *events;
	struct gs_nvml_library *library; /* NULL: not open */
	bool started;
	struct gs_nvml_device *device; /* owned */
	unsigned n_devices;
	uint8_t *topology; /* n_devices squared: gs_nvml_topology_names */
	char driver_version[32], cuda_version[16];
	bool odd_v3;            /* a driver whose process lists _v3 have another layout */
	bool lost, changed;     /* what a call said: a GPU is lost; the table is out of date */
	uint32_t session_state; /* enum gs_gpu_state */
	char text[256];
	uint64_t retry_ns, retry_after_ns; /* next attempt; pause before the one after */
	uint64_t next_layout_ns;
	struct gs_nvml_cost call_cost[NVML_CALL_COUNT], part_cost[GS_GPU_PARTS];
	struct gs_nvml_meter in_call;
	uint64_t group_ns[GS_NVML_GROUPS],
		turn_ns[GS_NVML_GROUPS]; /* last turn; between the last two */
	struct gs_gpu_uuid *focus;       /* owned by the worker; NULL: all */
	size_t n_focus;
	unsigned n_in_focus;                /* of the devices, in this turn */
	double plan_budget;                 /* that of the last turn */
	unsigned plans_due;                 /* turns at which the intervals are found again */
	uint64_t slow_cpu_ns;               /* for slow parts in this turn */
	uint32_t slow_owed, slow_owed_next; /* device and part whose turn this and the next are */
	bool pcie_measured;                 /* of one device again, in this turn */
	struct nvml_process *process_room;  /* owned, GS_GPU_PROCESS_MAX */
	struct nvml_gpm_metrics *gpm_room;  /* owned */
};

/* Make a call, watched; NVML_FUNCTION_NOT_FOUND when the library has none of its names. */
#define NVML(nv, member, ...)                                                                      \
	(!(nv)->library->api.member ? NVML_FUNCTION_NOT_FOUND                                      \
				    : (gs_nvml_enter((nv), NVML_CALL_##member),                    \
				       gs_nvml_leave((nv), NVML_CALL_##member,                     \
						     (nv)->library->api.member(__VA_ARGS__))))

/* The same for a device: a call that it does not support is not made again before its slow values
 * are due. */
#define NVML_OF(nv, dev, member, ...)                                                              \
	(gs_nvml_skip((dev), NVML_CALL_##member)                                                   \
		 ? NVML_NOT_SUPPORTED                                                              \
		 : gs_nvml_note((nv), (dev), NVML_CALL_##member, NVML(nv, member, __VA_ARGS__)))

/* NVML_CALL_COUNT: what opening the library does. */
void gs_nvml_enter(struct gs_nvml *nv, enum nvml_call call);
nvml_return gs_nvml_leave(struct gs_nvml *nv, enum nvml_call call, nvml_return r);
/* The newest name of the function; of NVML_CALL_COUNT what that stands for. */
const char *gs_nvml_call_name(enum nvml_call call);
bool gs_nvml_skip(const struct gs_nvml_device *dev, enum nvml_call call);
nvml_return gs_nvml_note(struct gs_nvml *nv, struct gs_nvml_device *dev, enum nvml_call call,
			 nvml_return r);
enum gs_gpu_reason gs_nvml_why(nvml_return r);

/* Set a field of the device's sample, or why it is not there. */
void gs_nvml_put(struct gs_nvml_device *dev, enum gs_gpu_field field, nvml_return r, double value);

/* Open and start when it is time; afterwards session_state and text say how it went. */
void gs_nvml_start(struct gs_nvml *nv, uint64_t now_ns);
/* End the session (nvmlShutdown) and forget the devices' handles. keep: what is known of lost GPUs
 * stays for the next session. */
void gs_nvml_stop(struct gs_nvml *nv, bool keep);
void gs_nvml_fini(struct gs_nvml *nv);

/* Fill the table of devices; with what was known of them before, by UUID. */
int gs_nvml_enumerate(struct gs_nvml *nv);
/* True when the GPUs or their MIG instances are not those of the table any more. */
bool gs_nvml_layout_changed(struct gs_nvml *nv);
void gs_nvml_device_fini(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_topology(struct gs_nvml *nv);
extern const char *const gs_nvml_topology_names[];

void gs_nvml_sample(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned groups,
		    uint64_t now_ns);

/* A value that GetFieldValues gives. */
struct gs_nvml_row {
	uint16_t id;
	uint16_t field; /* enum gs_gpu_field */
	double scale;   /* to base units */
	bool rest;      /* only sets what no row before it has set */
};

/* At most 32 rows with one call. */
void gs_nvml_read_rows(struct gs_nvml *nv, struct gs_nvml_device *dev,
		       const struct gs_nvml_row *rows, unsigned n_rows);
/* ---- parts: nvml_part.c ---- */

/* A turn begins that asks for these groups. */
void gs_nvml_begin_sample(struct gs_nvml *nv, unsigned groups, uint64_t now_ns);
bool gs_nvml_part_due(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part,
		      unsigned groups, bool slow_turn, uint64_t now_ns);
void gs_nvml_part_begin(struct gs_nvml_meter *meter);
void gs_nvml_part_end(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part, unsigned way,
		      const struct gs_nvml_meter *meter);
void gs_nvml_part_read(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part);
/* All that are due, but processes. */
void gs_nvml_parts_read(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned groups,
			bool slow_turn, uint64_t now_ns);
const char *gs_nvml_part_method(const struct gs_nvml_device *dev, unsigned part);

/* Each reads one part, in one way. */
void gs_nvml_read_memory(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_utilization(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_engines(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_power(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_power_call(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_energy(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_energy_call(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_temperature(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_memory_temperature(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_clocks(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_clocks_more(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_state(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_fan(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_pcie(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_throttle(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_bar1(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_limits(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_ecc(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_repairs(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_pcie_link(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_links(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_links_fields(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_link_each(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_link_bytes(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_c2c(struct gs_nvml *nv, struct gs_nvml_device *dev);
void gs_nvml_read_gpm(struct gs_nvml *nv, struct gs_nvml_device *dev);

/* In base units, whose scale is a whole number or one over one: 308123 mW are 308.123 W, and not
 * 308.12300000000005. */
static inline double gs_nvml_scaled(double v, double scale)
{
	return scale < 1 ? v / (double)(uint64_t)(1 / scale + 0.5) : v * scale;
}

/* The number in a field that was read. */
double gs_nvml_number(const struct nvml_field *f);
/* Bytes a second from two readings of a counter; before: what was read last, and when. */
void gs_nvml_put_rate(struct gs_nvml_device *dev, enum gs_gpu_field rate, enum gs_gpu_field counter,
		      unsigned slot, uint64_t now_ns);

struct gs_gpu_rows { /* growing array of processes */
	struct gs_gpu_process *item;
	unsigned n, room;
};

/* Append the device's processes, as number gpu. 0 or -ENOMEM. */
int gs_nvml_processes(struct gs_nvml *nv, struct gs_nvml_device *dev, uint32_t gpu, uint64_t now_ns,
		      struct gs_gpu_rows *rows);
struct gs_gpu_process *gs_gpu_rows_add(struct gs_gpu_rows *rows, uint32_t gpu, uint32_t pid);

/* Start and end the thread that waits for events. */
void gs_nvml_events_start(struct gs_nvml *nv);
/* False: the thread is in a call that does not come back; the library must stay as it is. */
bool gs_nvml_events_stop(struct gs_nvml *nv);

/* ---- the worker ---- */

struct gs_gpu_worker;

int gs_gpu_worker_new(const struct gs_gpu_options *options, struct gs_gpu_worker **ret_worker,
		      struct gs_err *err);
/* Ends it; when it is in a call that does not come back it is left behind, and frees itself. */
void gs_gpu_worker_free(struct gs_gpu_worker **worker);

/* Of the next readings. */
void gs_gpu_worker_set_budget(struct gs_gpu_worker *worker, double budget);

int gs_gpu_worker_set_focus(struct gs_gpu_worker *worker, const struct gs_gpu_uuid *uuids,
			    size_t n);

/* Have it read. 0 and a snapshot (without names of processes and without events), -ETIMEDOUT: a
 * call hangs, -ENOMEM. */
int gs_gpu_worker_read(struct gs_gpu_worker *worker, unsigned groups,
		       struct gs_gpu_snapshot **ret_snapshot);
int gs_gpu_worker_release(struct gs_gpu_worker *worker, bool release);
/* What it waits for since a reading began: a call that has not come back, or many that are slow. */
void gs_gpu_worker_waits_for(const struct gs_gpu_worker *worker, uint64_t since_ns, char *ret_text,
			     size_t room);
struct gs_gpu_events *gs_gpu_worker_events(struct gs_gpu_worker *worker); /* borrowed */
uint64_t gs_gpu_worker_failed_calls(const struct gs_gpu_worker *worker);
bool gs_gpu_worker_accounting_off(const struct gs_gpu_worker *worker);
size_t gs_gpu_worker_costs(struct gs_gpu_worker *worker, enum gs_gpu_cost_by by,
			   struct gs_gpu_cost *ret_costs, size_t room);
const char *gs_gpu_worker_topology(struct gs_gpu_worker *worker, uint32_t a, uint32_t b);

#endif
