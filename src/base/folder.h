/* Folders that are chosen for who names none. */
#ifndef GS_BASE_FOLDER_H
#define GS_BASE_FOLDER_H

#include <stddef.h>

#include "base/err.h"

/* Where what outlives a run is kept: of the system for root, of the user for others. It is made if
 * need be. what and option: for err, as in "no home folder for the data: give --data DIR". */
int gs_folder_state(char *out, size_t bytes, const char *what, const char *option,
		    struct gs_err *err);

#endif
