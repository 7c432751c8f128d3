/* NCCL's plug-in, loaded and spoken to as each version of NCCL does it (tests/fake/nccl_plugin.c): what is said is what
 * arrives, and what NCCL must not do harms nothing. The layouts are those that NCCL publishes. */
#include "run.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "companion/nccl/layout.h"
#include "model/companion/nccl.h"
#include "fake/nccl_plugin.h"
#include "fake/nccl_plugin_abi.h"

/* --- the layouts --- */

#define AT_NUMBERS(field, bytes, v1, v2, v3, v4, v5, v6)                                           \
	AT_##field##_1 = (v1), AT_##field##_2 = (v2), AT_##field##_3 = (v3),                       \
	AT_##field##_4 = (v4), AT_##field##_5 = (v5), AT_##field##_6 = (v6),                       \
	BYTES_##field = (bytes),
enum { NCCL_FIELDS(AT_NUMBERS) N_NUMBERS };

#define SAME(v, field, member)                                                                     \
	_Static_assert(offsetof(struct profile_descr_v##v, member) == AT_##field##_##v, #member)
#define SAME_ALL(field, member)                                                                    \
	SAME(1, field, member);                                                                    \
	SAME(2, field, member);                                                                    \
	SAME(3, field, member);                                                                    \
	SAME(4, field, member);                                                                    \
	SAME(5, field, member);                                                                    \
	SAME(6, field, member);                                                                    \
	_Static_assert(sizeof(((struct profile_descr_v6 *)0)->member) == BYTES_##field, #member)
#define SAME_NEW(field, member)                                                                    \
	SAME(5, field, member);                                                                    \
	SAME(6, field, member)

SAME_ALL(PARENT, parent);
SAME_ALL(RANK, rank);
SAME_ALL(COLL_SEQ, coll.seq);
SAME_ALL(COLL_FUNC_TEXT, coll.func);
SAME_ALL(COLL_COUNT, coll.count);
SAME_ALL(COLL_ROOT, coll.root);
SAME_ALL(COLL_DATATYPE_TEXT, coll.datatype);
SAME_ALL(COLL_CHANNELS, coll.channels);
SAME_ALL(COLL_WARPS, coll.warps);
SAME_ALL(COLL_ALGO_TEXT, coll.algo);
SAME_ALL(COLL_PROTO_TEXT, coll.proto);
SAME(1, COLL_HASH, coll.hash);
SAME(2, COLL_HASH, coll.hash);
SAME(3, COLL_HASH, coll.hash);
SAME(1, COLL_GROUP, parent);
SAME(4, COLL_GROUP, parent);
SAME_NEW(COLL_GROUP, coll.group);
SAME_ALL(P2P_FUNC_TEXT, p2p.func);
SAME_ALL(P2P_DATATYPE_TEXT, p2p.datatype);
SAME_ALL(P2P_COUNT, p2p.count);
SAME_ALL(P2P_PEER, p2p.peer);
SAME(1, P2P_HASH, p2p.hash);
SAME(2, P2P_HASH, p2p.hash);
SAME(3, P2P_HASH, p2p.hash);
SAME(4, P2P_CHANNELS, p2p.channels);
SAME_NEW(P2P_CHANNELS, p2p.channels);
SAME(4, P2P_GROUP, parent);
SAME_NEW(P2P_GROUP, p2p.group);
SAME(6, CE_SEQ, ce_coll.seq);
SAME(6, CE_FUNC_TEXT, ce_coll.func);
SAME(6, CE_COUNT, ce_coll.count);
SAME(6, CE_ROOT, ce_coll.root);
SAME(6, CE_DATATYPE_TEXT, ce_coll.datatype);
SAME_ALL(PROXY_PID, proxy_op.pid);
SAME_ALL(PROXY_CHANNEL, proxy_op.channel);
SAME_ALL(PROXY_PEER, proxy_op.peer);
SAME_ALL(PROXY_STEPS, proxy_op.steps);
SAME_ALL(PROXY_CHUNK, proxy_op.chunk_bytes);
SAME_ALL(PROXY_SEND, proxy_op.is_send);
SAME(3, KERNEL_CHANNEL, kernel_ch.channel);
SAME(4, KERNEL_CHANNEL, kernel_ch.channel);
SAME_NEW(KERNEL_CHANNEL, kernel_ch.channel);
SAME(4, KERNEL_TIME, kernel_ch.gpu_time);
SAME_NEW(KERNEL_TIME, kernel_ch.gpu_time);
_Static_assert(sizeof(struct profile_descr_v1) == 120 && sizeof(struct profile_descr_v2) == 128 &&
		       sizeof(struct profile_descr_v3) == 120 &&
		       sizeof(struct profile_descr_v4) == 104 &&
		       sizeof(struct profile_descr_v5) == 112,
	       "as NCCL's headers, compiled, have them");

/* --- a program with NCCL in it, and what arrives of it --- */

#define HASH    0x1122334455667788ull
#define OPS_MAX 70000u

static const char *plugin_path;

struct seen {
	struct run run;
	struct gs_companion_nccl_op *ops; /* owned; in the order of coming */
	uint64_t n_ops, n_channels, n_proxies, gpu_ns, n_begun, n_ended, n_refused;
	uint32_t newest;                                 /* number of an operation */
	struct gs_companion_nccl_channel channel, proxy; /* the last ones */
	struct gs_companion_nccl_comm comm;              /* the first one's begin */
	char name[64];
	int status;
};

static void see_record(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_record *record)
{
	const struct gs_companion_nccl_channel *channel = (const void *)record;
	const struct gs_companion_nccl_comm *comm = (const void *)record;
	const struct gs_companion_nccl_op *op = (const void *)record;
	struct seen *s = ctx;

	switch (record->kind) {
	case GS_COMPANION_NCCL_OP:
		assert_true(s->n_ops < OPS_MAX);
		s->ops[s->n_ops++] = *op;
		if (op->number > s->newest)
			s->newest = op->number;
		assert_true(op->end >= op->start);
		break;
	case GS_COMPANION_NCCL_CHANNEL:
		*(channel->what == GS_NCCL_CHANNEL_PROXY ? &s->proxy : &s->channel) = *channel;
		*(channel->what == GS_NCCL_CHANNEL_PROXY ? &s->n_proxies : &s->n_channels) += 1;
		s->gpu_ns += channel->gpu_end_ns - channel->gpu_start_ns;
		break;
	case GS_COMPANION_NCCL_COMM:
		if (!s->n_begun && comm->what != GS_NCCL_COMM_ENDED) {
			s->comm = *comm;
			snprintf(s->name, sizeof(s->name), "%s", comm->name);
		}
		s->n_begun += comm->what != GS_NCCL_COMM_ENDED;
		s->n_ended += comm->what == GS_NCCL_COMM_ENDED;
		s->n_refused += comm->what == GS_NCCL_COMM_NO_WINDOWS;
		break;
	default:
		assert_true(false);
	}
}

static void begin_run(struct seen *s, uint32_t doors)
{
	static const bool none[GS_FUNC_FIXED];
	struct gs_err err;

	*s = (struct seen){.ops = calloc(OPS_MAX, sizeof(*s->ops))};
	run_new(&s->run, NULL);
	s->run.handler.record = see_record;
	s->run.handler.ctx = s;
	assert_int_equal(gs_companion_plan_write(gs_companion_files_folder(s->run.files), doors,
						 none, 1u << 20, &err),
			 0);
}

static void end_run(struct seen *s)
{
	gs_companion_files_free(&s->run.files);
	free(s->ops);
	s->ops = NULL;
}

/* program: in a process of its own, which NCCL's variables are set for. abi: the newest that its NCCL speaks. */
static void run_program(struct seen *s, int (*program)(void), int abi, const char *settings)
{
	char number[8];
	pid_t child;

	begin_run(s, 1u << GS_COMPANION_NCCL);
	snprintf(number, sizeof(number), "%d", abi);
	child = fork();
	if (child == 0) {
		setenv(GS_COMPANION_FOLDER_ENV, gs_companion_files_folder(s->run.files), 1);
		setenv("NCCL_PROFILER_PLUGIN", plugin_path, 1);
		setenv("FAKE_NCCL_ABI", number, 1);
		if (settings)
			setenv("GPUSCOPE_COMPANION_NCCL", settings, 1);
		_exit(program());
	}
	while (waitpid(child, &s->status, WNOHANG) == 0) {
		run_poll(&s->run, false);
		usleep(1000);
	}
	run_poll(&s->run, true);
	assert_int_equal(s->status, 0);
	assert_int_equal(s->run.damaged, 0);
}

static struct fake_profile_comm comm_of(int rank)
{
	return (struct fake_profile_comm){.name = "mine", .hash = HASH, .n_ranks = 4, .rank = rank};
}

/* --- each version --- */

static const struct fake_profile_op known[] = {
	{.func = 4, .datatype = 7, .count = 1000},    /* AllReduce, float: TREE, LL */
	{.func = 4, .datatype = 6, .count = 100000},  /* half: RING, LL128 */
	{.func = 3, .datatype = 8, .count = 1000000}, /* ReduceScatter, double: RING, SIMPLE */
	{.func = 2, .datatype = 7, .count = 5000},    /* AllGather */
	{.func = 0, .datatype = 2, .count = 64, .peer = 3}, /* Broadcast */
	{.func = 6, .datatype = 7, .count = 77, .peer = 2}, /* Send */
	{.func = 7, .datatype = 1, .count = 78, .peer = 1}, /* Recv of ncclUint8 */
};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

static int run_known(void)
{
	struct fake_profile_comm c = comm_of(1);

	if (!fake_profile_begin(&c))
		return 1;
	for (unsigned i = 0; i < N_KNOWN; i++)
		fake_profile_run(&c, &known[i], 1);
	fake_profile_run(&c, known, N_KNOWN); /* as a group */
	fake_profile_end(&c);
	return 0;
}

static void expect_op(const struct gs_companion_nccl_op *o, const struct fake_profile_op *k,
		      unsigned version, uint64_t seq)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	bool in_bytes = k->func == 0 || k->func == 2, is_transfer = k->func >= 6;
	const struct fake_profile_choice choice =
		fake_profile_choice(k->count * bytes[k->datatype]);
	const char *type = fake_profile_type(in_bytes ? 0 : k->datatype);

	assert_string_equal(o->func, fake_profile_func(k->func));
	assert_string_equal(o->datatype, version == 1 && k->datatype == 1 ? "ncclUint8" : type);
	assert_int_equal(o->count, in_bytes ? k->count * bytes[k->datatype] : k->count);
	assert_int_equal(o->peer, k->peer);
	assert_int_equal(o->rank, 1);
	assert_int_equal(o->hash, HASH);
	assert_int_equal(o->comm, 1);
	assert_int_equal(o->what, is_transfer ? GS_NCCL_TRANSFER : GS_NCCL_COLLECTIVE);
	assert_int_equal(o->seq, is_transfer ? 0 : seq);
	assert_string_equal(o->algorithm, is_transfer ? "" : fake_profile_algo(choice.algo));
	assert_string_equal(o->protocol, is_transfer ? "" : fake_profile_proto(choice.proto));
	if (is_transfer)
		assert_int_equal(o->channels, version >= 4 ? 4 : 0);
	else
		assert_int_equal(o->channels, choice.channels);
	assert_int_equal(o->warps, is_transfer ? 0 : choice.warps);
}

static void each_version(void **state)
{
	static const uint64_t seqs[2][N_KNOWN] = {{0, 1, 0, 0, 0}, {2, 3, 1, 1, 1}};
	static struct seen s;

	for (unsigned v = 1; v <= GS_NCCL_ABI_MAX; v++) {
		run_program(&s, run_known, (int)v, NULL);
		assert_int_equal(s.n_begun, 1);
		assert_int_equal(s.n_ended, 1);
		assert_int_equal(s.comm.abi, v);
		assert_int_equal(s.comm.number, 1);
		assert_int_equal(s.comm.hash, v >= 4 ? HASH : 0);
		assert_int_equal(s.comm.rank, v >= 4 ? 1 : -1);
		assert_int_equal(s.comm.n_ranks, v >= 4 ? 4 : 0);
		assert_int_equal(s.comm.n_nodes, v >= 4 ? 1 : 0);
		assert_string_equal(s.name, v >= 4 ? "mine" : "");
		assert_int_equal(s.n_ops, 2 * N_KNOWN);
		for (unsigned i = 0; i < 2 * N_KNOWN; i++) {
			assert_int_equal(s.ops[i].number, i + 1);
			assert_int_equal(s.ops[i].group, i < N_KNOWN ? i + 1 : N_KNOWN + 1);
			expect_op(&s.ops[i], &known[i % N_KNOWN], v,
				  seqs[i / N_KNOWN][i % N_KNOWN]);
		}
		assert_int_equal(s.n_channels + s.n_proxies, 0);
		end_run(&s);
	}
}

static int run_copies(void)
{
	const struct fake_profile_op op = {
		.func = 2, .datatype = 7, .count = 12, .by_copies = true};
	struct fake_profile_comm c = comm_of(0);

	fake_profile_begin(&c);
	fake_profile_run(&c, &op, 1);
	fake_profile_end(&c);
	return 0;
}

static void by_the_copy_engine(void **state)
{
	static struct seen s;

	run_program(&s, run_copies, 6, NULL);
	assert_int_equal(s.n_ops, 1);
	assert_int_equal(s.ops[0].what, GS_NCCL_COPY_ENGINE);
	assert_string_equal(s.ops[0].algorithm, "COPY_ENGINE");
	assert_string_equal(s.ops[0].func, "AllGather");
	assert_int_equal(s.ops[0].count, 12);
	end_run(&s);
}

/* --- channels --- */

static void channels(void **state)
{
	static struct seen s;
	uint64_t n = 0;

	for (unsigned i = 0; i < 2 * N_KNOWN; i++)
		n += known[i % N_KNOWN].func >= 6           ? 1
		     : i % N_KNOWN == 0 || i % N_KNOWN == 4 ? 2
		     : i % N_KNOWN == 2                     ? 16
							    : 8;
	for (unsigned v = 1; v <= GS_NCCL_ABI_MAX; v++) {
		run_program(&s, run_known, (int)v, "1000/0");
		assert_int_equal(s.n_ops, 2 * N_KNOWN);
		assert_int_equal(s.n_proxies, 2 * N_KNOWN);
		assert_int_equal(s.proxy.peer, 2);
		assert_int_equal(s.proxy.channel, 1);
		assert_int_equal(s.proxy.steps, 7);
		assert_int_equal(s.proxy.chunk_bytes, 65536);
		assert_int_equal(s.proxy.is_send, 1);
		assert_int_equal(s.proxy.op, 2 * N_KNOWN);
		assert_int_equal(s.n_channels, v >= 3 ? n : 0);
		if (v >= 4) { /* of the last one: channel 0 alone */
			assert_int_equal(s.channel.op, 2 * N_KNOWN);
			assert_int_equal(s.channel.channel, 0);
			assert_int_equal(s.channel.gpu_start_ns,
					 FAKE_PROFILE_GPU_NS + 2 * N_KNOWN * 1000);
			assert_int_equal(s.channel.gpu_end_ns - s.channel.gpu_start_ns, 500);
			assert_true(s.gpu_ns > n * 500 && s.gpu_ns < n * 516);
		} else {
			assert_int_equal(s.gpu_ns, 0);
		}
		end_run(&s);
	}
}

/* The stand-in's version is not to be found by an address: windows are refused, operations come all the same. */
static void windows_of_an_unknown_version(void **state)
{
	static struct seen s;

	run_program(&s, run_known, 5, "100/1000");
	assert_int_equal(s.n_refused, 1);
	assert_int_equal(s.comm.nccl, 0);
	assert_int_equal(s.n_ops, 2 * N_KNOWN);
	assert_int_equal(s.n_channels + s.n_proxies, 0);
	end_run(&s);
}

static int run_windows(void)
{
	struct fake_profile_comm c = comm_of(0);

	if (!fake_profile_begin(&c))
		return 1;
	for (unsigned i = 0; i < 100; i++) {
		fake_profile_run(&c, &known[5], 1);
		usleep(10000);
	}
	fake_profile_end(&c);
	return 0;
}

/* Asked for its version by the plug-in: this program has it, and is linked to show it. */
static int said_version;
__attribute__((visibility("default"))) int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
	*version = said_version;
	return said_version ? 0 : 1;
}

/* 100 operations in some more than 1 s, and channels are looked at for 100 ms of each 400. */
static void windows(void **state)
{
	static struct seen s;

	said_version = 22809;
	run_program(&s, run_windows, 5, "100/400");
	assert_int_equal(s.comm.nccl, 22809);
	assert_int_equal(s.n_refused, 0);
	assert_int_equal(s.n_ops, 100);
	assert_true(s.n_channels >= 3 && s.n_channels <= 70);
	assert_int_equal(s.n_channels, s.n_proxies);
	end_run(&s);
	said_version = 23100; /* loses count while channels are not looked at */
	run_program(&s, run_windows, 6, "100/400");
	assert_int_equal(s.n_refused, 1);
	assert_int_equal(s.n_channels, 0);
	end_run(&s);
	run_program(&s, run_windows, 6, "100/0");
	assert_int_equal(s.n_channels, 100);
	end_run(&s);
	said_version = 0;
}

/* --- what NCCL must not do, and may --- */

static struct profile_plugin *load_v5(void **ret_library)
{
	void *library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);

	*ret_library = library;
	return library ? dlsym(library, "ncclProfiler_v5") : NULL;
}

static void *start_one(struct profile_plugin *p, void *context, uint64_t type, void *parent)
{
	struct profile_descr_v5 d = {.type = type, .parent = parent};
	void *handle = (void *)0x5555;

	if (type == PROFILE_COLL) {
		d.coll.func = "AllReduce";
		d.coll.datatype = "a name that is longer than the room that it is given";
		d.coll.algo = NULL;
		d.coll.proto = "";
	}
	p->start_event(context, &handle, &d);
	return handle;
}

static int misuse(void)
{
	void *library, *context = NULL, *other = NULL, *handle, *open;
	struct profile_plugin *p = load_v5(&library);
	uint64_t args = 1;
	int mask = 0;

	if (!p || p->init_v5(&context, HASH, &mask, NULL, 1, 2, 0, NULL) != 0 || !context)
		return 1;
	if (mask != (PROFILE_COLL | PROFILE_P2P))
		return 2;
	/* Types that nobody asked for have no handle. */
	if (start_one(p, context, PROFILE_COLL_API, NULL) ||
	    start_one(p, context, PROFILE_PROXY_STEP, NULL) ||
	    start_one(p, context, 1ull << 40, NULL))
		return 3;
	/* Ended twice, and spoken to after its end. */
	handle = start_one(p, context, PROFILE_COLL, NULL);
	p->stop_event(handle);
	p->stop_event(handle);
	p->record_state(handle, STATE_KERNEL_CH_STOP, &args);
	/* Handles that never were. */
	p->stop_event(NULL);
	p->stop_event((void *)-1);
	p->stop_event((void *)0xdeadbeef1);
	p->record_state((void *)0xdeadbeef3, STATE_KERNEL_CH_STOP, &args);
	p->record_state(NULL, 5, NULL);
	/* Never ended: its communicator ends; later uses of both are none. */
	open = start_one(p, context, PROFILE_COLL, NULL);
	p->finalize(context);
	p->stop_event(open);
	p->finalize(context);
	p->stop_event(start_one(p, context, PROFILE_COLL, NULL)); /* of no communicator */
	/* Unloaded and loaded again, as NCCL does: the same one. */
	dlclose(library);
	p->stop_event(open);
	p = load_v5(&library);
	if (!p || p->init_v5(&other, HASH, &mask, NULL, 1, 2, 0, NULL) != 0 || !other ||
	    other == context)
		return 4;
	p->stop_event(start_one(p, other, PROFILE_COLL, NULL));
	return 0;
}

static void misused(void **state)
{
	static struct seen s;

	run_program(&s, misuse, 5, NULL);
	assert_int_equal(s.n_begun, 2);
	assert_int_equal(s.n_ended, 1);
	assert_int_equal(s.n_ops, 3);
	assert_int_equal(s.newest, 4); /* the one that was never ended is missing */
	assert_string_equal(s.ops[0].algorithm, "");
	assert_memory_equal(s.ops[0].datatype, "a name that is l", 16);
	assert_int_equal(s.ops[1].comm, 0);
	assert_int_equal(s.ops[2].comm, 2);
	end_run(&s);
}

/* Two copies of NCCL in one program, as PyTorch and another library bring them: each has a mask of its own. */
static int run_two_copies(void)
{
	void *library, *contexts[2], *late;
	struct profile_plugin *p = load_v5(&library);
	int masks[2] = {0, 0}, late_mask = 0;
	unsigned n_open = 0, n_apart = 0;

	for (unsigned k = 0; k < 2; k++)
		if (!p || p->init_v5(&contexts[k], HASH + k, &masks[k], NULL, 1, 2, 0, NULL) != 0)
			return 1;
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned k = 0; k < 2; k++)
			p->stop_event(start_one(p, contexts[k], PROFILE_COLL, NULL));
		n_open += (masks[0] & PROFILE_KERNEL_CH) != 0;
		n_apart += masks[0] != masks[1];
		usleep(10000);
	}
	if (n_open < 3 || n_open > 70 || 2 * n_apart > n_open)
		return 2;
	/* A third that must not have windows: the others lose theirs. */
	for (unsigned i = 0; i < 1000 && !(masks[0] & PROFILE_KERNEL_CH); i++) {
		usleep(1000);
		p->stop_event(start_one(p, contexts[0], PROFILE_COLL, NULL));
	}
	said_version = 23100;
	if (!masks[0] || p->init_v5(&late, HASH, &late_mask, NULL, 1, 2, 0, NULL) != 0)
		return 3;
	p->stop_event(start_one(p, contexts[0], PROFILE_COLL, NULL));
	return masks[0] != late_mask || late_mask & PROFILE_KERNEL_CH ? 4 : 0;
}

static void two_copies(void **state)
{
	static struct seen s;

	said_version = 22809;
	run_program(&s, run_two_copies, 5, "100/400");
	assert_int_equal(s.n_refused, 1);
	end_run(&s);
	said_version = 0;
}

/* More open at one time than there is room for: those are missed, and all others are there, also afterwards. */
static int open_many(void)
{
	static void *handles[6000];
	void *library, *context;
	struct profile_plugin *p = load_v5(&library);
	int mask = 0;

	if (!p || p->init_v5(&context, HASH, &mask, NULL, 1, 2, 0, NULL) != 0)
		return 1;
	for (unsigned i = 0; i < 6000; i++)
		handles[i] = start_one(p, context, PROFILE_COLL, NULL);
	for (unsigned i = 0; i < 6000; i++) {
		p->stop_event(handles[i]);
		if (i % 500 == 0)
			usleep(50000); /* the reader keeps up */
	}
	for (unsigned i = 0; i < 1000; i++)
		p->stop_event(start_one(p, context, PROFILE_COLL, NULL));
	p->finalize(context);
	return 0;
}

static void too_many(void **state)
{
	static struct seen s;

	run_program(&s, open_many, 5, NULL);
	assert_int_equal(s.n_ops, 4096 + 1000);
	assert_int_equal(s.newest, 7000);
	end_run(&s);
}

static struct profile_plugin *shared_plugin;
static void *shared_context;

static void *run_thread(void *ctx)
{
	for (unsigned i = 0; i < 5000; i++) {
		void *a = start_one(shared_plugin, shared_context, PROFILE_COLL, NULL),
		     *b = start_one(shared_plugin, shared_context, PROFILE_COLL, NULL);

		shared_plugin->stop_event(a);
		shared_plugin->stop_event(b);
		if (i % 100 == 0)
			usleep(5000);
	}
	return NULL;
}

static int run_threads(void)
{
	pthread_t threads[4];
	void *library;
	int mask = 0;

	shared_plugin = load_v5(&library);
	shared_plugin->init_v5(&shared_context, HASH, &mask, NULL, 1, 2, 0, NULL);
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, run_thread, NULL) != 0)
			return 1;
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static void threads_at_one_time(void **state)
{
	static struct seen s;
	uint8_t *of = calloc(OPS_MAX, 1);

	run_program(&s, run_threads, 5, NULL);
	assert_int_equal(s.newest, 40000);
	assert_int_equal(s.n_ops, 40000);
	for (uint64_t i = 0; i < s.n_ops; i++)
		of[s.ops[i].number]++;
	for (unsigned i = 1; i <= 40000; i++)
		assert_int_equal(of[i], 1);
	free(of);
	end_run(&s);
}

/* A child writes into a file of its own; one that is killed leaves what was taken. */
static int fork_and_die(void)
{
	void *library, *context;
	struct profile_plugin *p = load_v5(&library);
	int mask = 0, status;
	pid_t child;

	p->init_v5(&context, HASH, &mask, NULL, 1, 2, 0, NULL);
	p->stop_event(start_one(p, context, PROFILE_COLL, NULL));
	child = fork();
	if (child == 0) {
		for (unsigned i = 0; i < 10; i++)
			p->stop_event(start_one(p, context, PROFILE_COLL, NULL));
		usleep(50000);
		kill(getpid(), SIGKILL);
	}
	waitpid(child, &status, 0);
	p->stop_event(start_one(p, context, PROFILE_COLL, NULL));
	return 0;
}

static void forks(void **state)
{
	static struct seen s;

	run_program(&s, fork_and_die, 5, NULL);
	assert_int_equal(s.n_ops, 12);
	end_run(&s);
}

/* --- nobody asks (any more) --- */

static int expect_silence(void)
{
	void *library, *context = (void *)1;
	struct profile_plugin *p = load_v5(&library);
	int mask = 255;

	if (!p || p->init_v5(&context, HASH, &mask, NULL, 1, 2, 0, NULL) != 0)
		return 1;
	if (mask || context || start_one(p, context, PROFILE_COLL, NULL) ||
	    start_one(p, context, PROFILE_GROUP, NULL))
		return 2;
	p->stop_event(NULL);
	p->finalize(context);
	return 0;
}

static void run_silent(const char *folder)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (folder)
			setenv(GS_COMPANION_FOLDER_ENV, folder, 1);
		else
			unsetenv(GS_COMPANION_FOLDER_ENV);
		_exit(expect_silence());
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void nobody_asks(void **state)
{
	static struct seen s;

	run_silent(NULL);
	run_silent("/nonexistent");
	run_silent("/");                         /* another user's, or open to others */
	begin_run(&s, 1u << GS_COMPANION_CALLS); /* asks for something else */
	run_silent(gs_companion_files_folder(s.run.files));
	end_run(&s);
}

static int go_on_after_the_end(void)
{
	void *library, *context;
	struct profile_plugin *p = load_v5(&library);
	int mask = 0;

	p->init_v5(&context, HASH, &mask, NULL, 1, 2, 0, NULL);
	for (unsigned i = 0; i < 10000 && mask; i++) {
		p->stop_event(start_one(p, context, PROFILE_COLL, NULL));
		usleep(1000);
	}
	return mask != 0; /* nothing more is to be said */
}

static void reader_ends_first(void **state)
{
	static struct seen s;
	int status = -1;
	pid_t child;

	begin_run(&s, 1u << GS_COMPANION_NCCL);
	child = fork();
	if (child == 0) {
		setenv(GS_COMPANION_FOLDER_ENV, gs_companion_files_folder(s.run.files), 1);
		_exit(go_on_after_the_end());
	}
	while (s.n_ops < 5)
		run_poll(&s.run, false);
	gs_companion_files_stop(s.run.files, &s.run.handler);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	end_run(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_version),
		cmocka_unit_test(by_the_copy_engine),
		cmocka_unit_test(channels),
		cmocka_unit_test(windows_of_an_unknown_version),
		cmocka_unit_test(windows),
		cmocka_unit_test(misused),
		cmocka_unit_test(two_copies),
		cmocka_unit_test(too_many),
		cmocka_unit_test(threads_at_one_time),
		cmocka_unit_test(forks),
		cmocka_unit_test(nobody_asks),
		cmocka_unit_test(reader_ends_first),
	};

	(void)run_join; /* another writes */
	(void)run_write;
	if (argc != 2)
		return 2;
	plugin_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
