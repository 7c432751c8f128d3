/* The wall-clock account, for the other files of the room. */
#ifndef GS_SOURCES_UPROBE_ACCOUNT_INT_H
#define GS_SOURCES_UPROBE_ACCOUNT_INT_H

#include "sources/uprobe/uprobe_int.h"

/* --- account.c: where the time of threads goes --- */

/* Negative errno: this kernel refuses the programs, nothing is left, and there is no account. */
int uprobe_account_load(struct gs_uprobe *probe, const struct gs_kernel_config *config,
			const struct features *f, uint32_t ring_bytes);
void uprobe_account_unload(struct uprobe_kernel_side *k);

/* Give accounts to chosen threads that have none yet, and read all names again. */
void uprobe_account_walk(struct gs_uprobe *probe);
void uprobe_account_rescan(struct gs_uprobe *probe); /* the same, where it is of use */

/* Of more than UPROBE_LAUNCHED_MAX processes, the first launch of the first ones is known. */
void uprobe_note_call(struct gs_uprobe *probe, unsigned func, uint32_t pid);

/* Hand over accounts: of ended threads, of others from time to time, or (last) of all. */
void uprobe_account_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *handler,
			  bool last);

#endif
