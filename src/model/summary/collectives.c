/* Names of the causes why a collective is not matched. */
#include "model/summary/collectives.h"

static const struct {
	const char *name, *title;
} causes[GS_COLLECTIVES_N_CAUSES] = {
	[GS_COLLECTIVES_ADDED_UP] = {"added_up", "added up in the kernel"},
	[GS_COLLECTIVES_FAILED] = {"failed", "failed"},
	[GS_COLLECTIVES_UNKNOWN] = {"unknown_ranks", "of communicators whose ranks are not known"},
	[GS_COLLECTIVES_ALONE] = {"alone", "without another rank in the trace"},
	[GS_COLLECTIVES_MISSING] = {"rank_missing", "that a rank did not make, or made far later"},
	[GS_COLLECTIVES_DIFFERS] = {"differs", "after ranks made different calls"},
	[GS_COLLECTIVES_LOST] = {"lost", "after calls were lost"},
	[GS_COLLECTIVES_NO_ROOM] = {"no_room", "beyond the limit"},
};

const char *gs_collectives_cause_name(enum gs_collectives_cause cause)
{
	return causes[cause].name;
}

const char *gs_collectives_cause_title(enum gs_collectives_cause cause)
{
	return causes[cause].title;
}
