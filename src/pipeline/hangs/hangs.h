/* Takes in the HANG records of a stream, and puts them into a summary with names. */
#ifndef GS_PIPELINE_HANGS_HANGS_H
#define GS_PIPELINE_HANGS_HANGS_H

#include "model/summary/summary.h"
#include "model/trace/dict.h"
#include "model/trace/record_hang.h"

#define GS_HANGS_MAX 64

struct gs_hangs {
	struct gs_rec_hang *items[GS_HANGS_MAX]; /* owned copies */
	size_t n_items;                          /* of items */
};

/* All zero before the first. False: no room or no memory for it. */
bool gs_hangs_take(struct gs_hangs *hangs, const struct gs_rec_hang *record);
void gs_hangs_fini(struct gs_hangs *hangs);

/* summary->hangs; start_ns: of the stream. 0 or -ENOMEM. */
int gs_hangs_summarize(const struct gs_hangs *hangs, const struct gs_dict *dict, uint64_t start_ns,
		       struct gs_summary *summary);

#endif
