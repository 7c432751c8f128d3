/* What the files of the room share. Inside the room only. */
#ifndef GS_OUTPUT_RUN_PAGE_RUN_PAGE_INT_H
#define GS_OUTPUT_RUN_PAGE_RUN_PAGE_INT_H

#include "model/summary/activity.h"
#include "model/summary/gpu_time.h"
#include "model/summary/memory.h"
#include "model/summary/nccl.h"
#include "output/run_page/run_page.h"

/* The member "timeline" of the document. */
void run_page_put_timeline(struct gs_doc *doc, const struct gs_run_page_timeline *timeline);

/* A list that was made shorter. */
struct run_page_cut {
	const char *key; /* of the document */
	size_t n;        /* that are missing */
};

#define RUN_PAGE_CUTS 32

/* A summary with the rows that a page shows; arrays are the other summary's, or owned. */
struct run_page_excerpt {
	struct gs_summary summary;
	struct gs_activity_summary activity;
	struct gs_memory_summary memory;
	struct gs_gpu_time gpu_time;
	struct gs_nccl_summary nccl;
	struct gs_collectives_summary collectives;
	struct gs_function_stats *functions;  /* owned */
	struct gs_process_summary *processes; /* owned */
	struct gs_account_thread *threads;    /* owned */
	struct run_page_cut cuts[RUN_PAGE_CUTS];
	size_t n_cuts;
};

/* 0 or -ENOMEM. */
int run_page_make_excerpt(const struct gs_summary *summary, struct run_page_excerpt *ret);
void run_page_fini_excerpt(struct run_page_excerpt *excerpt);

#endif
