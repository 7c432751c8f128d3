/* Between remote.c (files) and described_remote.c (what the user described): parts of their
 * messages. */
#ifndef GS_SOURCES_ATTACH_PLAN_REMOTE_INT_H
#define GS_SOURCES_ATTACH_PLAN_REMOTE_INT_H

#include "sources/attach_plan/attach_plan.h"
#include "core/reader/wire.h"

/* In the reader: options as they came. The texts are the request's. */
struct remote_options {
	struct gs_attach_plan_options options;
	void (*on_attach)(void *ctx, const struct gs_attach *attach); /* the service's */
	void *ctx;
	const char **globs, **ops; /* owned */
	struct gs_func_set *funcs; /* owned */
};

void attach_plan_put_options(struct gs_wire_out *out, const struct gs_attach_plan_options *options);
int attach_plan_take_options(struct gs_wire_in *in, struct remote_options *options);
void attach_plan_options_fini(struct remote_options *options);

/* Why something is not traced. When taken it is reported to options->on_attach. */
void attach_plan_put_reported(struct gs_wire_out *out, const struct gs_attach *attach);
int attach_plan_take_reported(struct gs_wire_in *in, const struct gs_attach_plan_options *options,
			      const char *path);

/* Places; taken as they come: they have to be checked. *plan is the caller's to end. */
void attach_plan_put_plan(struct gs_wire_out *out, const struct gs_attach_plan *plan);
int attach_plan_take_plan(struct gs_wire_in *in, struct gs_attach_plan *plan);

#endif
