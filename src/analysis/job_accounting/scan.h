/*
 * The search for processes in /proc: which are there, and of which it is worth asking again whose
 * they are. One search for the agent and for `gpuscope job`.
 *
 * To ask whose a process is costs several files of /proc. What starts jobs first makes a process
 * and then puts it where it belongs, so a new one is asked about often, and an old one, whose
 * answer hardly changes, every few seconds: after a quarter of its age, within bounds. A process
 * that is gone is forgotten at the next search: the next one with its number is new.
 */
#ifndef GS_ANALYSIS_JOB_ACCOUNTING_SCAN_H
#define GS_ANALYSIS_JOB_ACCOUNTING_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"

struct gs_accounting_scan {  /* begins as all 0 */
	struct gs_map asked; /* pid -> when (ms) it was seen first << 32 and asked about last */
};

/* Forgets all processes; not to be used after it. */
void gs_accounting_scan_fini(struct gs_accounting_scan *scan);

/* Whether a process starts those of jobs and is none of them: slurmstepd, which Slurm keeps in the
 * groups of its step. Asked of proc_root. */
bool gs_accounting_is_holder(const char *proc_root, uint32_t pid);

/* Whether all threads of a process have ended, also while its parent has not asked how, or there is
 * no such process. Asked of proc_root. */
bool gs_accounting_has_ended(const char *proc_root, uint32_t pid);

/* ask: it is time to ask whose it is. Negative: stop, with this errno. */
typedef int gs_accounting_scan_visit(void *ctx, uint32_t pid, bool ask);

/* Visit every process of proc_root. 0, what opening it failed with, -ENOMEM or what visit
 * returned; then nothing was forgotten. */
int gs_accounting_scan_processes(struct gs_accounting_scan *scan, const char *proc_root,
				 uint64_t now_ns, gs_accounting_scan_visit *visit, void *ctx);

#endif
