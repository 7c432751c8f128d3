/* A run's folder, this process writing into it, and what its reader hands over, counted. */
#ifndef TESTS_UNIT_COMPANION_RUN_H
#define TESTS_UNIT_COMPANION_RUN_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "companion/ring/ring.h"
#include "sources/companion/companion.h"

#define RUN_RING_BYTES 4096u
#define RUN_SLOTS      4u

struct run {
	struct gs_companion_files *files;
	struct gs_companion_handler handler;
	uint64_t n, sum; /* calls, and of their bytes */
	uint64_t n_texts;
	uint64_t next; /* the bytes that the next call has, where they come in order */
	bool in_order;
	uint64_t lost[GS_COMPANION_LOSSES], no_slot, damaged, inner, n_open;
	uint64_t added_up, added_bytes;
	uint32_t pid, tid; /* of the last record */
	size_t longest;
};

static void run_record(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_record *record)
{
	const struct gs_companion_call *c = (const void *)record;
	struct run *r = ctx;

	r->pid = from->pid;
	r->tid = from->tid;
	if (record->bytes > r->longest)
		r->longest = record->bytes;
	r->n_texts += record->kind == GS_COMPANION_ASKED;
	if (record->kind != GS_COMPANION_CALL)
		return;
	r->in_order &= c->bytes == r->next;
	r->next = c->bytes + 1;
	r->sum += c->bytes;
	r->n++;
}

static void run_inner(void *ctx, const struct gs_companion_thread *from, unsigned func, uint32_t n)
{
	((struct run *)ctx)->inner += n;
}

static void run_open(void *ctx, const struct gs_companion_thread *from, const struct gs_frame *call,
		     unsigned depth)
{
	((struct run *)ctx)->n_open++;
}

static void run_sum(void *ctx, const struct gs_companion_thread *from,
		    const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
	((struct run *)ctx)->added_up += now->calls - before->calls;
	((struct run *)ctx)->added_bytes += now->bytes - before->bytes;
}

static void run_lost(void *ctx, const struct gs_companion_thread *from,
		     enum gs_companion_loss cause, unsigned layer, uint64_t n)
{
	((struct run *)ctx)->lost[cause] += n;
}

static void run_no_slot(void *ctx, uint32_t pid, uint64_t n)
{
	((struct run *)ctx)->no_slot += n;
}

static void run_damaged(void *ctx, uint32_t pid, uint64_t bytes)
{
	((struct run *)ctx)->damaged += bytes;
}

static void run_new(struct run *r, const char *parent)
{
	const struct gs_companion_files_options o = {.size = sizeof(o), .parent = parent};
	struct gs_err err;

	*r = (struct run){.in_order = true,
			  .handler = {.record = run_record,
				      .inner = run_inner,
				      .sum = run_sum,
				      .open = run_open,
				      .lost = run_lost,
				      .no_slot = run_no_slot,
				      .damaged = run_damaged,
				      .ctx = r}};
	assert_int_equal(gs_companion_files_new(&o, &r->files, &err), 0);
}

/* This process writes into the run's folder from now on. */
static void run_join(const struct run *r)
{
	struct companion_setup s = {.clock = GS_COMPANION_MONOTONIC,
				    .n_slots = RUN_SLOTS,
				    .ring_bytes = RUN_RING_BYTES};

	snprintf(s.folder, sizeof(s.folder), "%s", gs_companion_files_folder(r->files));
	companion_self = (struct companion_self){0};
	assert_int_equal(companion_start(&s), 0);
}

static bool run_write(uint64_t bytes)
{
	struct gs_companion_call *c = companion_put(GS_COMPANION_CALL, sizeof(*c));

	if (!c)
		return false;
	c->bytes = bytes;
	companion_publish(c);
	return true;
}

static void run_poll(struct run *r, bool harvest)
{
	bool full = false;

	gs_companion_files_poll(r->files, &r->handler, harvest, &full);
}

#endif
