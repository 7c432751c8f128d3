/*
 * The arguments of each function of the table, decoded twice out of one frame: by the kernel side's
 * own code for a call that returned (bpf/calls/post.bpf.h, compiled here), and as of a call that is
 * still open. What an open call can know is the same.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace/func.h"
#include "model/trace/kernel_side.h"
#include "pipeline/ingest/ingest_int.h"

#define WORD_BYTES 4096

static uint8_t memory[GS_V_MAX * WORD_BYTES]; /* of the traced process: a part behind each word */

static long bpf_probe_read_user(void *to, uint32_t bytes, const void *from)
{
	const uint8_t *at = from;

	memset(to, 0, bytes);
	if (at < memory || at + bytes > memory + sizeof(memory))
		return -14;
	memcpy(to, at, bytes);
	return 0;
}

/* What post.bpf.h takes from the headers of the kernel side. */
#define GS_BPF_CALLS_CELL_BPF_H
#define __noinline __attribute__((noinline))
#define FUNC_MASK  (GS_FUNC_FIXED - 1)
static volatile struct gs_func_desc gs_desc[GS_FUNC_FIXED];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "bpf/calls/post.bpf.h"
#pragma GCC diagnostic pop

/* seed: the small words; they are addresses where a row reads memory. */
static void make_frame(struct gs_frame *f, unsigned seed)
{
	*f = (struct gs_frame){0};
	for (unsigned i = 0; i < GS_V_NONE; i++)
		f->v[i] = seed ? seed * (i + 3) + ((uint64_t)(seed + i) << 33)
			       : (uintptr_t)&memory[i * WORD_BYTES];
}

static void decode_returned(unsigned id, struct gs_frame *f, bool often, struct gs_event_call *e,
			    struct gs_outcome *o)
{
	const volatile struct gs_func_desc *d = &gs_desc[id];

	*o = (struct gs_outcome){.id = id};
	call_bytes(f, d, o);
	*e = (struct gs_event_call){.aux = (uint32_t)gs_args_word(f, d->v_aux),
				    .bytes = o->bytes,
				    .stream = gs_args_word(f, d->v_stream)};
	for (unsigned i = 0; i < 4; i++)
		e->arg[i] = gs_args_word(f, d->v_arg[i]);
	if (often)
		fill_post(e, f, d, o);
	else
		gs_call_fill(e, f, o, id);
}

static uint64_t known_bytes(enum gs_args_place place, const struct gs_event_call *e)
{
	bool later = place == GS_ARGS_OUT_SIZE || place == GS_ARGS_OUT_SIZE32 ||
		     place == GS_ARGS_COPY || place == GS_ARGS_BATCH;

	return later ? 0 : e->bytes;
}

static void check_row(unsigned id, unsigned seed)
{
	const struct gs_func_desc d = *(const struct gs_func_desc *)&gs_desc[id];
	enum gs_args_place place = gs_args_place(d.post);
	bool in_struct = place == GS_ARGS_COPY || place == GS_ARGS_BATCH;
	struct gs_event_call e, often;
	struct gs_rec_call c = {0};
	struct gs_frame f;
	struct gs_outcome o;

	make_frame(&f, seed);
	decode_returned(id, &f, false, &e, &o);
	decode_returned(id, &f, true, &often, &o);
	gs_ingest_open_args(&d, &f, &c);
	if (memcmp(&e, &often, sizeof(e)) != 0)
		fail_msg("row %u, post %u: two ways in the kernel differ", id, d.post);
	if (c.bytes != known_bytes(place, &e) ||
	    c.stream != (place == GS_ARGS_OUT_STREAM || place == GS_ARGS_LAUNCH ? 0 : e.stream) ||
	    c.aux != (place == GS_ARGS_LAUNCH ? 0
		      : in_struct             ? GS_COPY_DEFAULT
					      : e.aux))
		fail_msg("row %u, post %u: bytes, stream or aux differ", id, d.post);
	for (unsigned i = 0; i < 4; i++) {
		bool later = (place != GS_ARGS_IN_WORDS && place != GS_ARGS_OUT_STREAM && i == 0 &&
			      place != GS_ARGS_LAUNCH) ||
			     (in_struct && i == 1) || (place == GS_ARGS_LAUNCH && i > 0) ||
			     (place == GS_ARGS_BATCH && i == 2);

		if (later ? place != GS_ARGS_BATCH && c.arg[i] != 0 : c.arg[i] != e.arg[i])
			fail_msg("row %u, post %u: arg[%u] %llx, returned %llx", id, d.post, i,
				 (unsigned long long)c.arg[i], (unsigned long long)e.arg[i]);
	}
	assert_int_equal(!!(c.call_flags & GS_CALL_ARGS_UNREAD),
			 place >= GS_ARGS_OUT_SIZE && place != GS_ARGS_IN_WORDS);
}

static void every_row(void **state)
{
	bool seen[GS_POST_UNLOAD + 1] = {false};

	(void)state;
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 7 + 1);
	for (unsigned id = 1; id < GS_FUNC_FIXED && gs_func_by_id(id); id++) {
		*(struct gs_func_desc *)&gs_desc[id] = gs_func_by_id(id)->desc;
		if (gs_desc[id].post == GS_POST_MPI)
			continue; /* its own programs, of other words: src/bpf/mpi */
		assert_in_range(gs_desc[id].post, 0, GS_POST_UNLOAD);
		seen[gs_desc[id].post] = true;
		for (unsigned seed = 0; seed < 4; seed++)
			check_row(id, seed);
	}
	for (unsigned post = 0; post <= GS_POST_UNLOAD; post++)
		if (!seen[post] && post != GS_POST_MPI)
			fail_msg("no row of post %u", post);
}

/* By hand, of the documented signatures of nccl.h (2.28). */
static void nccl_words(void **state)
{
	const struct {
		const char *name;
		uint64_t v[10];
		uint64_t bytes;
		uint32_t aux;
	} calls[] = {
		/* sendbuff, count, datatype, peer, comm, stream: no op */
		{"ncclSend", {1, 10, 7, 3, 5, 6}, 40, 7 | 255u << 8 | 3u << 16},
		{"ncclRecv", {1, 10, 9, 0, 5, 6}, 20, 9 | 255u << 8},
		/* sendbuff, recvbuff, count, datatype, op, comm: no root */
		{"ncclAllReduce", {1, 2, 8, 6, 4, 5, 6}, 16, 6 | 4u << 8 | 65535u << 16},
		/* an op that the program made */
		{"ncclAllReduce", {1, 2, 8, 8, 1000, 5, 6}, 64, 8 | 254u << 8 | 65535u << 16},
		/* sendbuff, recvbuff, count, datatype, op, root, comm, stream */
		{"ncclReduce", {1, 2, 8, 2, 0, 9, 5, 6}, 32, 2 | 9u << 16},
		/* sendbuff, recvbuff, count, datatype, root, comm */
		{"ncclBroadcast", {1, 2, 8, 11, 2, 5, 6}, 8, 11 | 255u << 8 | 2u << 16},
		/* a datatype that nccl.h does not have */
		{"ncclSend", {1, 10, 12, 3, 5, 6}, 0, 12 | 255u << 8 | 3u << 16},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const struct gs_func *func = gs_func_by_name(calls[i].name);
		struct gs_frame f = {0};
		struct gs_rec_call c = {0};

		assert_non_null(func);
		memcpy(f.v, calls[i].v, sizeof(calls[i].v));
		gs_ingest_open_args(&func->desc, &f, &c);
		assert_int_equal(c.bytes, calls[i].bytes);
		assert_int_equal(c.aux, calls[i].aux);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row),
		cmocka_unit_test(nccl_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
