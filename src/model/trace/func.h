/*
 * Every function that can be traced by name: its layer, its class, and how its arguments become a
 * struct gs_event_call. One row of the table in func.c is all that a new function needs: the
 * kernel side, the attach plan, the summary and the trace files follow it.
 */
#ifndef GS_MODEL_TRACE_FUNC_H
#define GS_MODEL_TRACE_FUNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/class.h"
#include "model/trace/kernel_side.h"
#include "model/trace/record.h"

/* Layers that are traced when none are chosen. */
#define GS_LAYERS_DEFAULT                                                                          \
	(1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER | 1u << GS_LAYER_NCCL |          \
	 1u << GS_LAYER_MPI)

struct gs_func {
	uint16_t id;       /* index in the table, from 1; not stored, not stable between versions */
	bool by_default;   /* traced unless functions are chosen by name */
	bool watched_only; /* never counted: first calls come after it (bpf/calls/first.bpf.h) */
	const char *name;  /* the exported symbol */
	struct gs_func_desc desc; /* how the kernel side reads its arguments */
};

/* NULL when there is none. */
const struct gs_func *gs_func_by_id(unsigned id);
const struct gs_func *gs_func_by_name(const char *name);

/* What a thread is in during a call of the function: enum gs_account_inside. */
unsigned gs_func_inside(const struct gs_func *func);

/* Ids run from 1 to this. */
unsigned gs_func_count(void);

/* "cuda-runtime", "cuda-driver", "nccl"; the words used in options and outputs. */
const char *gs_layer_name(unsigned layer);

/* Adds the layers of such a word to a mask (bits 1 << enum gs_layer); "cuda" is both of CUDA. 0 or
 * -EINVAL. */
int gs_layer_add_word(const char *word, uint32_t *layers);

/* A heading for people: "CUDA runtime". */
const char *gs_layer_title(unsigned layer);

/* "launch", "alloc", ... */
const char *gs_class_name(unsigned func_class);

/* Words for enum gs_loss: "no room in the ring ...". */
const char *gs_loss_text(unsigned cause);

/* One word: "ring_full"; the key in JSON. */
const char *gs_loss_name(unsigned cause);

/* "cudaErrorMemoryAllocation"; NULL when the layer has no such code. */
const char *gs_error_name(unsigned layer, int32_t code);

/* Is it what CUDA answers to calls of a process that ends: exit handlers and destructors free what the
 * driver has freed already. Such a call has failed and is no trouble. */
bool gs_error_is_process_end(unsigned layer, int32_t code);

/* Is it no sign of trouble: that of a process that ends, or a question that has "no" for an answer. CUDA's libraries ask with
 * cuLibraryGetKernel whether they carry code for this GPU, and have other code where they do not. */
bool gs_error_is_usual(unsigned layer, const char *function, int32_t code);

/* "float16" and "sum". */
const char *gs_nccl_dtype_name(unsigned dtype);
const char *gs_nccl_op_name(unsigned op);

/* "HtoD" and so on. */
const char *gs_copy_kind_name(unsigned kind);

/* A named argument of a call. */
enum gs_arg_type {
	GS_ARG_U64,    /* a number */
	GS_ARG_BYTES,  /* a number of bytes */
	GS_ARG_HANDLE, /* an address or handle: shown in hex */
	GS_ARG_TEXT,
};

struct gs_arg {
	const char *name;      /* "bytes", "stream", ...; static */
	enum gs_arg_type type; /* how value is shown */
	uint64_t value;        /* but for GS_ARG_TEXT */
	char text[48];         /* GS_ARG_TEXT */
};

#define GS_ARG_MAX 12

/* The arguments of a call in the words of its class, for annotations and columns: grid, block,
 * bytes, kind, stream ... plus "result" (the code by name) when ret is not 0. Returns how many. */
size_t gs_call_args(const struct gs_rec_call *call, unsigned layer, unsigned func_class,
		    struct gs_arg ret_args[GS_ARG_MAX]);

#endif
