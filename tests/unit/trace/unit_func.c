/* The table of functions, the words for its numbers, and the arguments of calls in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/func.h"

#define S(n) (GS_V_STACK + (n))

static void ids_and_names_match(void **state)
{
	unsigned n = gs_func_count();

	assert_true(n > 200 && n < GS_FUNC_MAX);
	assert_null(gs_func_by_id(0));
	assert_null(gs_func_by_id(n + 1));
	assert_null(gs_func_by_id(UINT32_MAX));
	assert_null(gs_func_by_name(""));
	assert_null(gs_func_by_name("cudaMallo"));
	for (unsigned id = 1; id <= n; id++) {
		const struct gs_func *f = gs_func_by_id(id);

		assert_int_equal(f->id, id);
		assert_ptr_equal(gs_func_by_name(f->name), f); /* no name twice */
	}
}

/* Words read above the return address. */
static unsigned stack_words(const struct gs_func_desc *d)
{
	return d->n_stack & GS_V_LOW ? 0 : d->n_stack;
}

/* A word is one that is saved: a register, or one of the stack words that the row asks for. */
static void check_word(const struct gs_func *f, unsigned v)
{
	if (v != GS_V_NONE && v >= GS_V_STACK + stack_words(&f->desc))
		fail_msg("%s uses word %u, of which %u are read", f->name, v,
			 stack_words(&f->desc));
}

static bool in(const uint8_t *words, size_t n, unsigned v)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] == v)
			return true;
	return false;
}

/* Marking a word as 32 bits wide says something only of one that is used, and of a register. */
static void check_low(const struct gs_func *f)
{
	const struct gs_func_desc *d = &f->desc;
	const uint8_t used[] = {d->v_bytes,  d->v_bytes2, d->v_arg[0],
				d->v_arg[1], d->v_arg[2], d->v_arg[3]};

	if (!(d->n_stack & GS_V_LOW)) {
		assert_true(d->n_stack <= 7);
		return;
	}
	assert_true((d->n_stack & ~GS_V_LOW) > 0 && (d->n_stack & ~GS_V_LOW) < 1 << GS_V_STACK);
	for (unsigned v = 0; v < GS_V_STACK; v++)
		if (d->n_stack & 1 << v && !in(used, sizeof(used), v))
			fail_msg("%s: word %u is 32 bits wide and not used", f->name, v);
}

static void rows_are_sound(void **state)
{
	static const char *const prefix[GS_LAYER_COUNT] = {NULL, "cuda", "cu",
							   "nccl", [GS_LAYER_MPI] = "MPI_"};

	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);
		const struct gs_func_desc *d = &f->desc;
		const char *name = f->name;

		if (f->watched_only)
			assert_true(d->post == GS_POST_UNLOAD && !f->by_default);
		name += strspn(name, "_");
		assert_in_range(d->layer, 1, GS_LAYER_COUNT - 1);
		assert_memory_equal(name, prefix[d->layer], strlen(prefix[d->layer]));
		assert_true((d->layer == GS_LAYER_CUDA_RUNTIME) == !strncmp(name, "cuda", 4));
		assert_true(d->op < GS_CLASS_COUNT);
		check_low(f);
		assert_true(d->post <= GS_POST_LAUNCH_GRID ||
			    (d->post >= GS_POST_COMM_INIT && d->post <= GS_POST_UNLOAD));
		check_word(f, d->v_bytes);
		check_word(f, d->v_bytes2);
		check_word(f, d->v_stream);
		if (d->post == GS_POST_NCCL) {
			check_word(f, d->v_aux & 15);
			check_word(f, d->v_aux >> 4);
			/* Without the type or the count there are no bytes. */
			assert_true(d->v_bytes != GS_V_NONE && d->v_bytes2 != GS_V_NONE);
			assert_true(d->layer == GS_LAYER_NCCL && d->not_error == 7);
		} else if (d->layer == GS_LAYER_MPI) {
			check_word(f, d->v_aux & 15);
			assert_true(d->v_aux >> 4 <= GS_MPI_COMM_FREE);
			assert_int_equal(d->v_bytes == GS_V_NONE, d->v_bytes2 == GS_V_NONE);
		} else {
			check_word(f, d->v_aux);
		}
		for (unsigned i = 0; i < 4; i++)
			check_word(f, d->v_arg[i]);
		/* What the summary adds up needs its argument. */
		if (d->layer == GS_LAYER_MPI)
			continue;
		if (d->op == GS_CLASS_COPY || d->op == GS_CLASS_MEMSET)
			assert_true(d->v_bytes != GS_V_NONE || d->post != GS_POST_NONE);
		if (d->op == GS_CLASS_FREE || d->op == GS_CLASS_ALLOC)
			assert_true(d->v_arg[0] == 0);
		if (d->op == GS_CLASS_COLLECTIVE || d->op == GS_CLASS_P2P)
			assert_true(d->post == GS_POST_NCCL && d->v_arg[0] == d->v_bytes);
		if (d->op == GS_CLASS_COLLECTIVE || d->op == GS_CLASS_P2P)
			assert_true(d->v_arg[1] != GS_V_NONE && d->v_stream != GS_V_NONE);
	}
}

static void check(const char *name, unsigned bytes, unsigned stream, unsigned aux, unsigned arg0,
		  unsigned arg1)
{
	const struct gs_func *f = gs_func_by_name(name);

	assert_non_null(f);
	if (f->desc.v_bytes != bytes || f->desc.v_stream != stream || f->desc.v_aux != aux ||
	    f->desc.v_arg[0] != arg0 || f->desc.v_arg[1] != arg1)
		fail_msg("%s: %u %u %u %u %u", name, f->desc.v_bytes, f->desc.v_stream,
			 f->desc.v_aux, f->desc.v_arg[0], f->desc.v_arg[1]);
}

/* Against the prototypes in the headers of CUDA and NCCL, counted by hand. */
static void arguments_are_where_the_prototypes_say(void **state)
{
	enum { NO = GS_V_NONE };

	check("cudaLaunchKernel", NO, S(1), S(0), 0, NO);
	check("cudaLaunchKernel_ptsz", NO, S(1), S(0), 0, NO);
	check("cuLaunchKernel", NO, S(2), S(1), 0, NO);
	check("cudaMalloc", 1, NO, NO, 0, NO);
	check("cudaMallocAsync_ptsz", 1, 2, NO, 0, NO);
	check("cudaMemcpyAsync", 2, 4, 3, 0, 1);
	check("cudaMemcpy2DAsync", 4, S(1), S(0), 0, 2);
	check("cudaMemcpyToSymbolAsync", 2, 5, 4, 0, 1);
	check("cudaMemcpyPeerAsync", 4, 5, NO, 0, 2);
	check("cudaMemsetAsync", 2, 3, 1, 0, NO);
	check("cudaMemset3DAsync", S(4), 1, 0, S(0), S(6));
	check("cuMemcpyHtoDAsync_v2", 2, 3, NO, 0, 1);
	check("cuMemsetD2D8Async", 3, 5, 2, 0, NO);
	check("cuEventRecord", NO, 1, NO, 0, NO);
	check("cudaMemcpyArrayToArray", S(0), NO, S(1), 0, 3);
	check("cudaMemcpy2DArrayToArray_ptds", S(0), NO, S(2), 0, 3);
	check("cudaMemcpyFromArrayAsync", 4, S(0), 5, 0, 1);
	check("cudaMemcpyBatchAsync", 2, S(1), NO, 0, 1);
	check("cuMemcpyBatchAsync", 2, S(2), NO, 0, 1);
	check("cuMemcpyBatchAsync_v2_ptsz", 2, S(1), NO, 0, 1);
	check("cudaMemPrefetchAsync", 1, 4, NO, 0, NO);
	check("cuMemPrefetchAsync", 1, 3, NO, 0, NO);
	check("cuMemPrefetchBatchAsync", 1, S(1), NO, 0, NO);
	check("cuMemcpyHtoAAsync_v2", 3, 4, NO, 0, 2);
	check("cuMemcpyAtoA", 4, NO, NO, 0, 2);
	check("cudaMallocMipmappedArray", S(0), NO, 3, 0, NO);
	check("cuStreamWaitValue64_v2_ptsz", NO, 0, 3, NO, NO);
	check("ncclPutSignal", 1, S(4), GS_V_NONE | 3 << 4, 1, S(3));
	check("ncclRedOpCreatePreMulSum", NO, NO, NO, 4, NO);
	check("ncclAllReduce", 2, S(0), 4 | GS_V_NONE << 4, 2, 5);
	check("ncclReduce", 2, S(1), 4 | 5 << 4, 2, S(0));
	check("ncclBroadcast", 2, S(0), GS_V_NONE | 4 << 4, 2, 5);
	check("ncclSend", 1, 5, GS_V_NONE | 3 << 4, 1, 4);
	assert_int_equal(gs_func_by_name("cudaStreamQuery")->desc.not_error, 600);
	assert_int_equal(gs_func_by_name("cuEventQuery")->desc.not_error, 600);
	assert_int_equal(gs_func_by_name("ncclAllReduce")->desc.not_error, 7);
	assert_int_equal(gs_func_by_name("cudaMalloc")->desc.not_error, 0);
	assert_int_equal(gs_func_by_name("cuMemcpyDtoH")->desc.n_stack, GS_V_LOW | 1 << 1 | 1 << 2);
	assert_int_equal(gs_func_by_name("cuEventElapsedTime_v2")->desc.not_error, 600);
	assert_null(gs_func_by_name("ncclAllToAll")); /* no release has it */
	assert_false(gs_func_by_name("cuStreamGetCaptureInfo_v3_ptsz")->by_default);
	assert_false(gs_func_by_name("cudaGetDevice")->by_default);
	assert_true(gs_func_by_name("cudaLaunchKernel")->by_default);
}

static void check_mpi(const char *name, unsigned bytes, unsigned type, unsigned peer, unsigned comm,
		      unsigned shape)
{
	const struct gs_func *f = gs_func_by_name(name);

	assert_non_null(f);
	if (f->desc.v_bytes != bytes || f->desc.v_bytes2 != type || (f->desc.v_aux & 15) != peer ||
	    f->desc.v_arg[1] != comm || f->desc.v_aux >> 4 != shape)
		fail_msg("%s: %u %u %u %u %u", name, f->desc.v_bytes, f->desc.v_bytes2,
			 f->desc.v_aux & 15, f->desc.v_arg[1], f->desc.v_aux >> 4);
}

/* Against the prototypes of MPI 4.0, counted by hand. */
static void arguments_of_mpi(void **state)
{
	enum { NO = GS_V_NONE };

	check_mpi("MPI_Send", 1, 2, 3, 5, GS_MPI_SEND);
	check_mpi("MPI_Irecv", 1, 2, 3, 5, GS_MPI_RECV);
	check_mpi("MPI_Sendrecv", 1, 2, 3, S(4), GS_MPI_SENDRECV);
	check_mpi("MPI_Sendrecv_replace", 1, 2, 3, S(1), GS_MPI_SENDRECV_REPLACE);
	check_mpi("MPI_Bcast", 1, 2, 3, 4, GS_MPI_PLAIN);
	check_mpi("MPI_Reduce", 2, 3, 5, S(0), GS_MPI_PLAIN);
	check_mpi("MPI_Iallreduce", 2, 3, NO, 5, GS_MPI_PLAIN);
	check_mpi("MPI_Gatherv", 1, 2, S(1), S(2), GS_MPI_GATHERV);
	check_mpi("MPI_Scatter", 4, 5, S(0), S(1), GS_MPI_SCATTER);
	check_mpi("MPI_Scatterv", 5, S(0), S(1), S(2), GS_MPI_SCATTERV);
	check_mpi("MPI_Alltoallv", 1, 3, NO, S(2), GS_MPI_ALLTOALLV);
	check_mpi("MPI_Reduce_scatter_block", 2, 3, NO, 5, GS_MPI_PER_RANK);
	check_mpi("MPI_Put", 1, 2, 3, S(1), GS_MPI_SEND);
	check_mpi("MPI_Accumulate", 1, 2, 3, S(2), GS_MPI_SEND);
	check_mpi("MPI_File_write_at", 3, 4, NO, NO, GS_MPI_PLAIN);
	check_mpi("MPI_Barrier", NO, NO, NO, 0, GS_MPI_PLAIN);
}

/* Each number of an enum has a word of its own, what lies past the end has none. */
static void check_words(const char *(*word)(unsigned), unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_non_null(word(i));
		assert_true(word(i)[0] != '\0');
		assert_string_not_equal(word(i), "unknown");
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(word(i), word(j));
	}
	assert_string_equal(word(n), "unknown");
	assert_string_equal(word(UINT32_MAX), "unknown");
}

static void every_number_has_a_word(void **state)
{
	check_words(gs_layer_name, GS_LAYER_COUNT);
	check_words(gs_layer_title, GS_LAYER_COUNT);
	check_words(gs_class_name, GS_CLASS_COUNT);
	check_words(gs_loss_name, GS_LOSS_COUNT);
	check_words(gs_loss_text, GS_LOSS_COUNT);
	check_words(gs_copy_kind_name, GS_COPY_P2P + 1);
	check_words(gs_nccl_dtype_name, 12);
	assert_string_equal(gs_nccl_op_name(0), "sum");
	assert_string_equal(gs_nccl_op_name(4), "avg");
	assert_string_equal(gs_nccl_op_name(5), "user-made");
}

static void errors_by_name(void **state)
{
	assert_string_equal(gs_error_name(GS_LAYER_CUDA_RUNTIME, 2), "cudaErrorMemoryAllocation");
	assert_string_equal(gs_error_name(GS_LAYER_CUDA_RUNTIME, 600), "cudaErrorNotReady");
	assert_string_equal(gs_error_name(GS_LAYER_CUDA_DRIVER, 2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(gs_error_name(GS_LAYER_CUDA_DRIVER, 600), "CUDA_ERROR_NOT_READY");
	assert_string_equal(gs_error_name(GS_LAYER_NCCL, 7), "ncclInProgress");
	assert_string_equal(gs_error_name(GS_LAYER_NCCL, 0), "ncclSuccess");
	assert_null(gs_error_name(GS_LAYER_NCCL, 9));
	assert_null(gs_error_name(GS_LAYER_CUDA_RUNTIME, -1));
	assert_null(gs_error_name(GS_LAYER_NONE, 2));
	assert_null(gs_error_name(77, 2));
}

static void errors_that_are_usual(void **state)
{
	assert_true(gs_error_is_usual(GS_LAYER_CUDA_DRIVER, "cuLibraryUnload", 4));
	assert_true(gs_error_is_usual(GS_LAYER_CUDA_RUNTIME, NULL, 4));
	assert_true(gs_error_is_usual(GS_LAYER_CUDA_DRIVER, "cuLibraryGetKernel", 209));
	/* There a missing kernel is one that was to run. */
	assert_false(gs_error_is_usual(GS_LAYER_CUDA_DRIVER, "cuModuleGetFunction", 209));
	assert_false(gs_error_is_usual(GS_LAYER_CUDA_RUNTIME, "cudaLaunchKernel", 209));
	assert_false(gs_error_is_usual(GS_LAYER_CUDA_DRIVER, "cuLibraryGetKernel", 500));
	assert_false(gs_error_is_usual(GS_LAYER_CUDA_DRIVER, NULL, 209));
}

/* "name=value name=value ..." */
static const char *args(const struct gs_rec_call *c, unsigned layer, unsigned func_class)
{
	static char out[1024];
	struct gs_arg a[GS_ARG_MAX];
	size_t n = gs_call_args(c, layer, func_class, a), o = 0;

	assert_true(n <= GS_ARG_MAX);
	out[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		const char *gap = i ? " " : "";

		if (a[i].type == GS_ARG_TEXT)
			o += (size_t)snprintf(out + o, sizeof(out) - o, "%s%s=%s", gap, a[i].name,
					      a[i].text);
		else
			o += (size_t)snprintf(out + o, sizeof(out) - o,
					      a[i].type == GS_ARG_HANDLE ? "%s%s=0x%llx"
									 : "%s%s=%llu",
					      gap, a[i].name, (unsigned long long)a[i].value);
	}
	return out;
}

static void arguments_in_words(void **state)
{
	struct gs_rec_call c = {.arg = {0xf0, 1 | 2ull << 32, 3 | 4ull << 32, 5 | 6ull << 32},
				.aux = 64,
				.stream = 0x5};

	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH),
			    "function=0xf0 grid=1,2,3 block=4,5,6 shared_bytes=64 stream=0x5");
	c = (struct gs_rec_call){.arg = {0xd, 0xe}, .bytes = 10, .aux = GS_COPY_D2H};
	assert_string_equal(args(&c, GS_LAYER_CUDA_DRIVER, GS_CLASS_COPY),
			    "bytes=10 kind=DtoH destination=0xd source=0xe stream=0x0");
	c.arg[2] = 3; /* of a batch */
	assert_string_equal(args(&c, GS_LAYER_CUDA_DRIVER, GS_CLASS_COPY),
			    "bytes=10 kind=DtoH destination=0xd source=0xe copies=3 stream=0x0");
	c = (struct gs_rec_call){.arg = {0xd}, .bytes = 10, .ret = 2};
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC),
			    "pointer=0xd bytes=10 result=cudaErrorMemoryAllocation");
	c.ret = 12345;
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE),
			    "pointer=0xd bytes=10 result=12345");
	c = (struct gs_rec_call){.aux = 3};
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_DEVICE), "device=3");
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC), "stream=0x0 flags=3");
	c = (struct gs_rec_call){.arg = {0xd}, .bytes = 8, .aux = 7, .stream = 2};
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_MEMSET),
			    "bytes=8 value=7 pointer=0xd stream=0x2");
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_GRAPH_LAUNCH),
			    "graph=0xd stream=0x2");
	assert_string_equal(args(&c, GS_LAYER_CUDA_RUNTIME, GS_CLASS_MODULE), "handle=0xd bytes=8");
	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_ALLOC),
			    "pointer=0xd bytes=8 stream=0x2");
}

static void arguments_of_nccl(void **state)
{
	struct gs_rec_call c = {.arg = {1000, 0xc, 0xa, 0xb},
				.bytes = 4000,
				.stream = 0xd,
				.aux = 7 | 0 << 8 | 0xffffu << 16};

	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE),
			    "bytes=4000 count=1000 datatype=float32 op=sum comm=0xc stream=0xd");
	c.aux = 9 | 0xff << 8 | 3u << 16;
	c.ret = 5;
	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE),
			    "bytes=4000 count=1000 datatype=bfloat16 root=3 comm=0xc stream=0xd "
			    "result=ncclInvalidUsage");
	c.ret = 0;
	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_P2P),
			    "bytes=4000 count=1000 datatype=bfloat16 peer=3 comm=0xc stream=0xd");
	c = (struct gs_rec_call){.arg = {0xc}};
	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_COMM), "comm=0xc");
	c.arg[0] = 0;
	assert_string_equal(args(&c, GS_LAYER_NCCL, GS_CLASS_GROUP), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_and_names_match),
		cmocka_unit_test(rows_are_sound),
		cmocka_unit_test(arguments_are_where_the_prototypes_say),
		cmocka_unit_test(arguments_of_mpi),
		cmocka_unit_test(every_number_has_a_word),
		cmocka_unit_test(errors_by_name),
		cmocka_unit_test(errors_that_are_usual),
		cmocka_unit_test(arguments_in_words),
		cmocka_unit_test(arguments_of_nccl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
