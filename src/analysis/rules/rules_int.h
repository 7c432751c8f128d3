/* Shared among the files of this room. */
#ifndef GS_ANALYSIS_RULES_RULES_INT_H
#define GS_ANALYSIS_RULES_RULES_INT_H

#include "analysis/rules/expr.h"
#include "analysis/rules/verdict.h"

enum gs_threshold_id {
	GS_T_CPU_BOUND,
	GS_T_CPU_PURE,
	GS_T_IO_BOUND,
	GS_T_NET_BOUND,
	GS_T_LOCK_BOUND,
	GS_T_INPUT_BOUND,
	GS_T_IDLE,
	GS_T_STARVED,
	GS_T_ALONE,
	GS_T_THROTTLED,
	GS_T_MIXED,
	GS_T_PAGING,
	GS_T_PRESSURE,
	GS_T_KILLS,
	GS_T_SWITCHES,
	GS_T_MEMORY,
	GS_T_GPU_IDLE,
	GS_T_GPU_SM,
	GS_T_GPU_TENSOR,
	GS_T_GPU_DRAM,
	GS_T_GPU_COLLECTIVE,
	GS_T_GPU_LAUNCHES,
	GS_T_GPU_FEEDER,
	GS_T_GPU_FED,
	GS_T_GPU_USED,
	GS_T_GPU_BUSY,
	GS_T_COUNT
};

struct gs_class_rule {
	char name[48];
	struct gs_expr *condition; /* owned */
	char text[256];
};

struct gs_advice_rule {
	char name[64];
	struct gs_expr *condition; /* owned */
	char fact[256], cause[256], next[256], benefit[160];
};

#define GS_RULES_MAX 128

struct gs_rules {
	double threshold[GS_T_COUNT];
	struct gs_class_rule *classes; /* owned; in the order they were added */
	size_t n_classes;
	struct gs_advice_rule *advice; /* owned */
	size_t n_advice;
};

/* classify.c: class, confidence and evidence. */
void gs_rules_classify(const struct gs_rules *rules, const struct gs_figures *f,
		       struct gs_verdict *v);

/* classes.c: what is said of the class; after the class and the advice. */
void gs_verdict_describe(const struct gs_figures *f, struct gs_verdict *v);

/* score.c: score and its parts. */
void gs_rules_score(const struct gs_rules *rules, const struct gs_figures *f, struct gs_verdict *v);

/* advice.c: the built-in rules, and the advice that applies. */
int gs_rules_add_built_in_advice(struct gs_rules *rules);
void gs_rules_advise(const struct gs_rules *rules, const struct gs_figures *f,
		     struct gs_verdict *v);

/* Put the values of the expressions between braces into a text. 0, or -EINVAL with the place of
 * what is wrong (figures may be NULL: only look). A figure that is not known is "?". */
int gs_rules_fill_template(const char *text, const struct gs_figures *figures, char *out,
			   size_t out_bytes, struct gs_err *err);

#endif
