/* Folders that are chosen for who names none. */
#ifndef GS_CORE_BASE_FOLDER_H
#define GS_CORE_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

/* Where what outlives a run is kept: of the system for root, of the user for others. It is made if
 * need be. what and option: for err, as in "no home folder for the data: give --data DIR". -ENOENT:
 * there is no home; with err. */
int gs_folder_state(char *out, size_t bytes, const char *what, const char *option,
		    struct gs_err *err);

/* Where a user's own configuration is: $XDG_CONFIG_HOME/gpuscope, or ~/.config/gpuscope. False: there
 * is no home folder. Nothing is made. */
bool gs_folder_config(char *out, size_t bytes);

/* Where sockets of this machine's heads are, from the folder where ours would be on; false: there
 * is no i-th. Nothing is made. */
bool gs_folder_sockets(size_t i, char *out, size_t bytes);

/* That of the system: only root, or a service that root has set up, can make a file in it. */
#define GS_FOLDER_SOCKETS_SYSTEM "/run/gpuscope-head"

#endif
