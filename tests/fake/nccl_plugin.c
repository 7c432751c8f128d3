#include "nccl_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "nccl_plugin_abi.h"

#define GROUP_MAX 256u
#define ABI_USUAL 5
#define ABI_MAX   6

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct profile_plugin *plugin; /* NULL: there is none */
static void *library;
static int abi;        /* that is spoken */
static unsigned users; /* communicators */
static int mask;       /* what the plug-in wants to know: one for all */
static uint64_t n_ops;

/* The largest of each version. */
union descr {
	struct profile_descr_v1 v1;
	struct profile_descr_v2 v2;
	struct profile_descr_v3 v3;
	struct profile_descr_v4 v4;
	struct profile_descr_v5 v5;
};

/* --- known answers --- */

static const char *name_of(const char *const *names, unsigned n_names, unsigned i)
{
	return i < n_names ? names[i] : "Unknown";
}

#define NAME_OF(names, i) name_of(names, sizeof(names) / sizeof((names)[0]), i)

const char *fake_profile_func(unsigned func)
{
	static const char *const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
					    "AllReduce", "SendRecv", "Send",      "Recv"};

	return NAME_OF(names, func);
}

/* NCCL leaves ncclUint8 out. */
const char *fake_profile_type(unsigned datatype)
{
	static const char *const names[] = {"ncclInt8",     "Unknown",        "ncclInt32",
					    "ncclUint32",   "ncclInt64",      "ncclUint64",
					    "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
					    "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

	return NAME_OF(names, datatype);
}

const char *fake_profile_algo(unsigned algo)
{
	static const char *const names[] = {
		"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};

	return NAME_OF(names, algo);
}

const char *fake_profile_proto(unsigned proto)
{
	static const char *const names[] = {"LL", "LL128", "SIMPLE"};

	return NAME_OF(names, proto);
}

struct fake_profile_choice fake_profile_choice(uint64_t bytes)
{
	if (bytes <= 8192)
		return (struct fake_profile_choice){0, 0, 2, 4};
	if (bytes <= 1 << 20)
		return (struct fake_profile_choice){1, 1, 8, 16};
	return (struct fake_profile_choice){1, 2, 16, 16};
}

static unsigned type_bytes(unsigned datatype)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return datatype < sizeof(bytes) ? bytes[datatype] : 0;
}

static bool is_transfer(const struct fake_profile_op *o)
{
	return o->func == 6 || o->func == 7;
}

/* Where all of a rank's data goes to others, NCCL counts bytes. */
static uint64_t said_count(const struct fake_profile_op *o)
{
	return o->func == 0 || o->func == 2 ? o->count * type_bytes(o->datatype) : o->count;
}

static unsigned said_type(const struct fake_profile_op *o)
{
	return o->func == 0 || o->func == 2 ? 0 : o->datatype;
}

/* --- begin and end --- */

static void load_plugin(void)
{
	const char *name = getenv("NCCL_PROFILER_PLUGIN"), *newest = getenv("FAKE_NCCL_ABI");
	char symbol[32];

	if (!name || strcasecmp(name, "none") == 0)
		return;
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	for (abi = newest ? atoi(newest) : ABI_USUAL; library && abi > 0; abi--) {
		snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", abi);
		plugin = dlsym(library, symbol);
		if (plugin)
			return;
	}
	if (getenv("NCCL_DEBUG"))
		fprintf(stderr, "NCCL INFO PROFILER/Plugin: %s: %s\n", name,
			library ? "has no such symbol" : dlerror());
}

static int begin_context(struct fake_profile_comm *c)
{
	if (abi <= 3)
		return plugin->init_v1(&c->context, &mask);
	if (abi == 4)
		return plugin->init_v4(&c->context, &mask, c->name, c->hash, 1, c->n_ranks, c->rank,
				       NULL);
	return plugin->init_v5(&c->context, c->hash, &mask, c->name, 1, c->n_ranks, c->rank, NULL);
}

int fake_profile_begin(struct fake_profile_comm *c)
{
	pthread_mutex_lock(&lock);
	if (!users++)
		load_plugin();
	pthread_mutex_unlock(&lock);
	c->context = NULL;
	return plugin && begin_context(c) == 0 ? abi : 0;
}

void fake_profile_end(struct fake_profile_comm *c)
{
	if (plugin && c->context)
		plugin->finalize(c->context);
	pthread_mutex_lock(&lock);
	if (!--users && library) {
		dlclose(library);
		plugin = NULL;
		library = NULL;
		mask = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* --- what is said of an operation --- */

/* v1 has numbers, v2 and v3 text. */
#define FILL_OLD(d, c, o, choice)                                                                  \
	do {                                                                                       \
		(d).coll.name = (c)->name;                                                         \
		(d).coll.hash = (c)->hash;                                                         \
		(d).coll.seq = (c)->seq[(o)->func];                                                \
		(d).coll.count = said_count(o);                                                    \
		(d).coll.root = (o)->peer;                                                         \
		(d).coll.channels = (uint8_t)(choice).channels;                                    \
		(d).coll.warps = (uint8_t)(choice).warps;                                          \
	} while (0)
#define FILL_TEXT(d, o, choice)                                                                    \
	do {                                                                                       \
		(d).coll.func = fake_profile_func((o)->func);                                      \
		(d).coll.datatype = fake_profile_type(said_type(o));                               \
		(d).coll.algo = fake_profile_algo((choice).algo);                                  \
		(d).coll.proto = fake_profile_proto((choice).proto);                               \
	} while (0)
#define FILL_NEW(d, c, o, choice)                                                                  \
	do {                                                                                       \
		(d).coll.seq = (c)->seq[(o)->func];                                                \
		(d).coll.count = said_count(o);                                                    \
		(d).coll.root = (o)->peer;                                                         \
		(d).coll.channels = (uint8_t)(choice).channels;                                    \
		(d).coll.warps = (uint8_t)(choice).warps;                                          \
		FILL_TEXT(d, o, choice);                                                           \
	} while (0)

static void fill_collective(union descr *d, const struct fake_profile_comm *c,
			    const struct fake_profile_op *o, void *group)
{
	const struct fake_profile_choice choice =
		fake_profile_choice(o->count * type_bytes(o->datatype));

	switch (abi) {
	case 1:
		FILL_OLD(d->v1, c, o, choice);
		d->v1.coll.func = (uint8_t)o->func;
		d->v1.coll.datatype = (uint8_t)said_type(o);
		d->v1.coll.algo = (uint8_t)choice.algo;
		d->v1.coll.proto = (uint8_t)choice.proto;
		d->v1.coll.op = 0xffffffff;
		break;
	case 2:
		FILL_OLD(d->v2, c, o, choice);
		FILL_TEXT(d->v2, o, choice);
		d->v2.coll.traffic_bytes = ~0ul;
		break;
	case 3:
		FILL_OLD(d->v3, c, o, choice);
		FILL_TEXT(d->v3, o, choice);
		break;
	case 4:
		FILL_NEW(d->v4, c, o, choice);
		break;
	default:
		FILL_NEW(d->v5, c, o, choice);
		d->v5.coll.group = group;
	}
}

static void fill_transfer(union descr *d, const struct fake_profile_comm *c,
			  const struct fake_profile_op *o, void *group)
{
	switch (abi) {
	case 1:
		d->v1.p2p.hash = c->hash;
		d->v1.p2p.func = (uint8_t)o->func;
		d->v1.p2p.datatype = (uint8_t)o->datatype;
		d->v1.p2p.count = o->count;
		d->v1.p2p.peer = o->peer;
		break;
	case 2:
	case 3:
		d->v2.p2p.hash = c->hash;
		d->v2.p2p.func = fake_profile_func(o->func);
		d->v2.p2p.datatype = fake_profile_type(o->datatype);
		d->v2.p2p.count = o->count;
		d->v2.p2p.peer = o->peer;
		break;
	case 4:
		d->v4.p2p.func = fake_profile_func(o->func);
		d->v4.p2p.datatype = fake_profile_type(o->datatype);
		d->v4.p2p.count = o->count;
		d->v4.p2p.peer = o->peer;
		d->v4.p2p.channels = 4;
		break;
	default:
		d->v5.p2p.func = fake_profile_func(o->func);
		d->v5.p2p.datatype = fake_profile_type(o->datatype);
		d->v5.p2p.count = o->count;
		d->v5.p2p.peer = o->peer;
		d->v5.p2p.channels = 4;
		d->v5.p2p.group = group;
	}
}

/* Bytes that are no field are not zero. */
static void fill_head(union descr *d, unsigned type, void *parent, int rank)
{
	memset(d, 0xa5, sizeof(*d));
	if (abi >= 5)
		d->v5.type = type;
	else
		d->v1.type = (uint8_t)type;
	d->v1.parent = parent;
	d->v1.rank = rank;
}

static void *start_event(struct fake_profile_comm *c, union descr *d)
{
	void *handle = NULL;

	plugin->start_event(c->context, &handle, d);
	return handle;
}

static void stop_event(void *handle)
{
	if (handle)
		plugin->stop_event(handle);
}

static void *start_op(struct fake_profile_comm *c, const struct fake_profile_op *o, void *group)
{
	bool by_copies = o->by_copies && abi >= 6;
	union descr d;

	fill_head(&d,
		  by_copies        ? PROFILE_CE_COLL
		  : is_transfer(o) ? PROFILE_P2P
				   : PROFILE_COLL,
		  abi <= 4 ? group : NULL, c->rank);
	if (by_copies) {
		d.v5.ce_coll.seq = c->seq[o->func];
		d.v5.ce_coll.func = fake_profile_func(o->func);
		d.v5.ce_coll.count = o->count;
		d.v5.ce_coll.root = o->peer;
		d.v5.ce_coll.datatype = fake_profile_type(o->datatype);
	} else if (is_transfer(o)) {
		fill_transfer(&d, c, o, group);
	} else {
		fill_collective(&d, c, o, group);
	}
	if (!is_transfer(o))
		c->seq[o->func]++;
	return start_event(c, &d);
}

/* What the GPU, and the thread of a proxy, say when the operation is long handed over. */
static void run_channels(struct fake_profile_comm *c, void *op, unsigned n_channels, int types,
			 uint64_t number)
{
	for (unsigned ch = 0; ch < n_channels && types & PROFILE_KERNEL_CH && abi >= 3; ch++) {
		struct profile_state_args args = {FAKE_PROFILE_GPU_NS + number * 1000 + 500 + ch};
		union descr d;
		void *handle;

		fill_head(&d, PROFILE_KERNEL_CH, op, c->rank);
		d.v4.kernel_ch.channel = (uint8_t)ch;
		if (abi >= 4)
			d.v4.kernel_ch.gpu_time = FAKE_PROFILE_GPU_NS + number * 1000;
		handle = start_event(c, &d);
		if (handle && abi >= 4)
			plugin->record_state(handle, STATE_KERNEL_CH_STOP, &args);
		stop_event(handle);
	}
	if (types & PROFILE_PROXY_OP) {
		union descr d;

		fill_head(&d, PROFILE_PROXY_OP, op, c->rank);
		d.v1.proxy_op = (struct profile_proxy_op){
			getpid(), 1, (c->rank + 1) % c->n_ranks, 7, 65536, 1};
		stop_event(start_event(c, &d));
	}
}

void fake_profile_run(struct fake_profile_comm *c, const struct fake_profile_op *ops, unsigned n)
{
	void *handles[GROUP_MAX] = {NULL}, *group = NULL, *api = NULL;
	int types = __atomic_load_n(&mask, __ATOMIC_RELAXED);
	uint64_t first = __atomic_fetch_add(&n_ops, n, __ATOMIC_RELAXED);
	union descr d;

	if (!plugin || !types || n > GROUP_MAX) {
		for (unsigned i = 0; i < n; i++)
			c->seq[ops[i].func] += !is_transfer(&ops[i]);
		return;
	}
	if (abi >= 5) {
		fill_head(&d, PROFILE_GROUP_API, NULL, c->rank);
		api = start_event(c, &d);
	}
	fill_head(&d, PROFILE_GROUP, NULL, c->rank);
	group = start_event(c, &d);
	for (unsigned i = 0; i < n; i++)
		handles[i] = start_op(c, &ops[i], group);
	for (unsigned i = 0; i < n; i++)
		stop_event(handles[i]);
	stop_event(group);
	stop_event(api);
	for (unsigned i = 0; i < n; i++)
		run_channels(c, handles[i],
			     is_transfer(&ops[i]) ? 1
						  : fake_profile_choice(ops[i].count *
									type_bytes(ops[i].datatype))
							    .channels,
			     types, first + i + 1);
}
