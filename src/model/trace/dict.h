/*
 * What a reader of records keeps: the texts, processes, threads and functions announced so far, by
 * id. Every consumer that needs names owns one and feeds it each record before its own work.
 * Everything returned is lent until the next gs_dict_apply() or gs_dict_free().
 */
#ifndef GS_MODEL_TRACE_DICT_H
#define GS_MODEL_TRACE_DICT_H

#include "model/trace/record.h"
#include "model/trace/record_kernel.h"
#include "model/trace/record_stack.h"

#define GS_DICT_MAX_ID (1u << 20) /* a larger id is refused: a file cannot ask for all memory */

struct gs_dict;

struct gs_dict *gs_dict_new(void); /* NULL: no memory */
/* With all that it keeps; NULL inside: nothing. */
void gs_dict_free(struct gs_dict **dict);

/* From now on FRAME and STACK are taken in too: only those who show code have room for them. */
void gs_dict_keep_stacks(struct gs_dict *dict);

/* Take in SESSION, STRING, PROCESS, THREAD, FUNCTION, COMM and KERNEL; others are ignored. 0, -ENOMEM, or
 * -EINVAL for an id out of range. */
int gs_dict_apply(struct gs_dict *dict, const struct gs_record *record);

/* "" for 0 and for ids never announced. */
const char *gs_dict_string(const struct gs_dict *dict, uint32_t id);

/* NULL when never announced. */
const struct gs_rec_session *gs_dict_session(const struct gs_dict *dict);
const struct gs_rec_process *gs_dict_process(const struct gs_dict *dict, uint32_t id);
const struct gs_rec_thread *gs_dict_thread(const struct gs_dict *dict, uint32_t id);
const struct gs_rec_function *gs_dict_function(const struct gs_dict *dict, uint32_t id);

/* NULL: not announced, or gs_dict_keep_stacks() was not asked for. */
const struct gs_rec_frame *gs_dict_frame(const struct gs_dict *dict, uint32_t id);
const struct gs_rec_stack *gs_dict_stack(const struct gs_dict *dict, uint32_t id);

/* The UUID of a process's GPU, as CUDA numbers them for it, into text; "" not known. */
const char *gs_dict_gpu(const struct gs_dict *dict, uint32_t process, uint32_t device, char *text,
			size_t bytes);

/* The newest communicator with this handle in the process, or NULL. */
const struct gs_rec_comm *gs_dict_comm(const struct gs_dict *dict, uint32_t process, uint64_t comm);

/* What is known of the kernel that this function is at present, or NULL. */
const struct gs_rec_kernel *gs_dict_kernel(const struct gs_dict *dict, uint32_t process,
					   uint64_t function);

/* Ids run from 1 to these, some may be NULL. */
uint32_t gs_dict_max_process(const struct gs_dict *dict);
uint32_t gs_dict_max_thread(const struct gs_dict *dict);
uint32_t gs_dict_max_function(const struct gs_dict *dict);
uint32_t gs_dict_max_frame(const struct gs_dict *dict);

#endif
