/*
 * Who holds memory: takes in the MEMORY and MEMORY_SITE records of a stream, which stand at its end,
 * and, beside these, what samples of GPUs say that processes have there; says it with names in a summary.
 */
#ifndef GS_PIPELINE_HOLDERS_HOLDERS_H
#define GS_PIPELINE_HOLDERS_HOLDERS_H

#include "model/summary/memory.h"
#include "model/summary/summary.h"
#include "model/trace/dict.h"

struct gs_holders;

/* 0 or -ENOMEM. */
int gs_holders_new(struct gs_holders **ret_holders);
void gs_holders_free(struct gs_holders **holders);

/* A record of one of the two kinds, or of a sample (model/trace/record_node.h). False: there is no room
 * for it. */
bool gs_holders_take(struct gs_holders *holders, const struct gs_record *record);

/* summary->memory, with the names that the dictionary has; left alone when there were no records. 0
 * or -ENOMEM. */
int gs_holders_summarize(const struct gs_holders *holders, const struct gs_dict *dict,
			 struct gs_summary *summary);

/* Where memory was asked for, "train.py:31 step", by the stacks and the scope of the record; "unknown", and "" of sites
 * that found no room. */
void gs_holders_describe_place(const struct gs_dict *dict, const struct gs_rec_memory_site *site,
			       char *text, size_t bytes);

#endif
