/*
 * Conditions and values over the figures of a job, as rules write them:
 *
 *   memory_usage > 80 && (cpu_percent < 20 || io_percent >= 30)
 *   memory_used_bytes * 1.2
 *
 * Numbers may have a unit: 80%, 1.5GB, 2MiB, 10ms, 3min, 2h; a figure that is of another
 * (by the end of its name) is not compared with it. and and or are other spellings of
 * && and ||; not takes the whole comparison after it, ! what stands next to it. A figure that is
 * not known makes every comparison with it unknown; unknown && false is false, unknown || true is
 * true, as SQL does it.
 */
#ifndef GS_ANALYSIS_RULES_EXPR_H
#define GS_ANALYSIS_RULES_EXPR_H

#include "core/base/err.h"
#include "analysis/rules/verdict.h"

struct gs_expr;

/* Compile. -EINVAL with the column of what is wrong; -E2BIG when it is too long or too deep. */
int gs_expr_parse(const char *text, struct gs_expr **ret_expr, struct gs_err *err);
void gs_expr_free(struct gs_expr **expr);

/* The same over names of another vocabulary: find returns the index of a word among the values, -1
 * for none. */
typedef int (*gs_expr_find_fn)(const char *word);
int gs_expr_parse_names(const char *text, gs_expr_find_fn find, struct gs_expr **ret_expr,
			struct gs_err *err);

/* What was parsed shall be true or false; a value is freed, and -EINVAL with what to write. */
int gs_expr_want_condition(struct gs_expr **expr, const char *text, struct gs_err *err);

/* NAN: unknown. Truth is 1 or 0. */
double gs_expr_value(const struct gs_expr *expr, const struct gs_figures *figures);
double gs_expr_value_of(const struct gs_expr *expr, const double *values);

/* The first max names (their indices), each once. How many are in ret_names. */
size_t gs_expr_names(const struct gs_expr *expr, unsigned *ret_names, size_t max);

/* The figures that an expression of gs_expr_parse() names, as a set of bits. */
uint64_t gs_expr_figures(const struct gs_expr *expr);

#endif
