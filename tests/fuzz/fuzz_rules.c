/* Conditions and advice of rules files, which anybody may have written. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "analysis/rules/expr.h"
#include "analysis/rules/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_rules *rules = gs_rules_new();
	char *text = malloc(bytes + 1);
	struct gs_figures figures;
	struct gs_err err = {{0}};
	struct gs_verdict verdict;
	struct gs_expr *expr = NULL;

	if (text && rules) {
		if (bytes)
			memcpy(text, data, bytes);
		text[bytes] = '\0';
		gs_figures_clear(&figures);
		for (unsigned i = 0; i < GS_FIGURE_COUNT; i += 2)
			figures.v[i] = i * 7;
		if (gs_expr_parse(text, &expr, &err) == 0)
			(void)gs_expr_value(expr, &figures);
		else
			assert(err.text[0]);
		gs_rules_add_class(rules, "of the user", text, NULL);
		gs_rules_add_advice(rules, "of the user", "cores >= 0", text, text, text, text,
				    NULL);
		gs_verdict_of(rules, &figures, &verdict);
		assert(memchr(verdict.job_class, '\0', sizeof(verdict.job_class)));
		assert(!(verdict.score < 0) && !(verdict.score > 100));
	}
	gs_expr_free(&expr);
	gs_rules_free(&rules);
	free(text);
	return 0;
}
