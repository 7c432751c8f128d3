/*
 * What works on this machine, for this user, and with one program: a list of answers. Each has the effect of a fault and how
 * to fix it. The checks are small real tests, made by the rooms that do the work. The machine is not changed, and processes
 * that are started for a check end before the call returns.
 *
 *     gs_doctor_new(&options, &doctor);
 *     gs_doctor_ask_machine(doctor);
 *     gs_doctor_ask_process(doctor, pid);
 *     for (i = 0; (answer = gs_doctor_at(doctor, i)); i++) ...
 *
 * One thread.
 */
#ifndef GS_ANALYSIS_DOCTOR_DOCTOR_H
#define GS_ANALYSIS_DOCTOR_DOCTOR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

/* From the best to the worst. */
enum gs_doctor_state {
	GS_DOCTOR_NOT_NEEDED = 0, /* nothing here would use it */
	GS_DOCTOR_WORKS,
	GS_DOCTOR_NOT_ASKED, /* not checked: not permitted, or not shown; `found` has the reason */
	GS_DOCTOR_LIMITED,   /* gpuscope runs, with the effect in `without` */
	GS_DOCTOR_FAILS,     /* a required part does not work */
	GS_DOCTOR_STATES
};

/* "not_needed", "works", "not_checked", "limited", "fails", as in JSON. A constant. */
const char *gs_doctor_state_name(enum gs_doctor_state state);

enum gs_doctor_group {
	GS_DOCTOR_RIGHTS = 0,
	GS_DOCTOR_KERNEL,
	GS_DOCTOR_GPU,
	GS_DOCTOR_INSIDE, /* what --inside needs */
	GS_DOCTOR_JOBS,   /* cgroups, Slurm */
	GS_DOCTOR_MACHINE,
	GS_DOCTOR_LIBRARIES, /* optional ones, loaded at run time */
	GS_DOCTOR_PROGRAM,   /* the process or command of -p or -- */
	GS_DOCTOR_GROUPS
};

/* "rights", "kernel", "gpu", ... A constant. */
const char *gs_doctor_group_name(enum gs_doctor_group group);

#define GS_DOCTOR_TEXT_BYTES  384
#define GS_DOCTOR_ANSWERS_MAX 512

/* The result of one check. */
struct gs_doctor_answer {
	enum gs_doctor_group group;
	enum gs_doctor_state state;
	char name[64];                      /* what was checked */
	char found[GS_DOCTOR_TEXT_BYTES];   /* what was found; "": nothing beyond the state */
	char without[GS_DOCTOR_TEXT_BYTES]; /* the effect of the fault; "" if it works */
	char mend[GS_DOCTOR_TEXT_BYTES];    /* a command that fixes it, or advice; "" if it works */
};

struct gs_doctor_options {
	size_t size; /* of this struct */
	const char *
		root; /* prefix of paths of the kernel and the system, for tests; NULL or "": none */
	const char
		*nvml_path; /* NVIDIA's library, which then has to work; NULL: the usual places */
	const char *
		slurm_path; /* directories of Slurm's commands, separated by colons; NULL: the usual ones */
	const char *spank_path; /* gpuscope's SPANK plug-in; NULL or "": not found */
};

struct gs_doctor;

/* Creates a list without answers. Texts of the options must outlive it. Free *ret_doctor with gs_doctor_free(). 0 or
 * -ENOMEM. */
int gs_doctor_new(const struct gs_doctor_options *options, struct gs_doctor **ret_doctor);

/* Frees *doctor and sets it to NULL; *doctor may be NULL. */
void gs_doctor_free(struct gs_doctor **doctor);

/* Checks privileges, kernel, GPUs, jobs and clocks. Takes up to some seconds if a driver or slurmctld does not respond. */
void gs_doctor_ask_machine(struct gs_doctor *doctor);

/* Checks a running process: the libraries that it has mapped, and how well they can be traced. 0, or a negative errno with
 * err; -ESRCH: no such process. */
int gs_doctor_ask_process(struct gs_doctor *doctor, pid_t pid, struct gs_err *err);

/* Checks the libraries that a command would load with this environment, without starting it. 0, or a negative errno with
 * err; -ENOENT: no such command. */
int gs_doctor_ask_command(struct gs_doctor *doctor, const char *command, char *const environment[],
			  struct gs_err *err);

/* Checks that the folder has free space and that this user may write to it. If it does not exist yet, its nearest existing parent is checked.
 * name: what it is for; without: the effect of a fault; elsewhere: how to use another folder. All are copied. */
void gs_doctor_ask_folder(struct gs_doctor *doctor, const char *name, const char *path,
			  const char *without, const char *elsewhere);

/* Checks that a server can listen at 127.0.0.1:port, or that gpuscope already does. name: whose port it is; without and
 * elsewhere as above. */
void gs_doctor_ask_port(struct gs_doctor *doctor, const char *name, uint16_t port,
			const char *without, const char *elsewhere);

/* Checks whether NVTX's slot is free, which has one library in a process. holder: what NVTX_INJECTION64_PATH is there; NULL
 * or "": not set. group: GS_DOCTOR_INSIDE or GS_DOCTOR_PROGRAM. */
void gs_doctor_ask_nvtx(struct gs_doctor *doctor, enum gs_doctor_group group, const char *holder);

/* An answer to add; the texts are copied, and NULL means "". */
struct gs_doctor_row {
	enum gs_doctor_group group;
	enum gs_doctor_state state;
	const char *name, *found, *without, *mend;
};

/* Adds an answer. Answers beyond GS_DOCTOR_ANSWERS_MAX are left out. */
void gs_doctor_put(struct gs_doctor *doctor, const struct gs_doctor_row *row);

/* The i-th answer, in the order of the checks; NULL: there are no more. Valid until the next answer is added. */
const struct gs_doctor_answer *gs_doctor_at(const struct gs_doctor *doctor, size_t i);

#endif
