/* The words for the numbers: layers, classes, losses, NCCL types, and the arguments of a call. */
#include "model/trace/func.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"

static const char *word_of(const char *const *words, size_t n, unsigned i)
{
	return i < n && words[i] ? words[i] : "unknown";
}

const char *gs_layer_name(unsigned layer)
{
	static const char *const w[GS_LAYER_COUNT] = {"all",    "cuda-runtime", "cuda-driver",
						      "nccl",   "torch",        "torchmem",
						      "python", "user",         "mpi"};

	return word_of(w, GS_ARRAY_LEN(w), layer);
}

int gs_layer_add_word(const char *word, uint32_t *layers)
{
	if (strcmp(word, "cuda") == 0) {
		*layers |= 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER;
		return 0;
	}
	for (unsigned layer = 1; layer < GS_LAYER_COUNT; layer++) {
		if (strcmp(word, gs_layer_name(layer)) == 0) {
			*layers |= 1u << layer;
			return 0;
		}
	}
	return -EINVAL;
}

const char *gs_layer_title(unsigned layer)
{
	static const char *const w[GS_LAYER_COUNT] = {
		"all layers",     "CUDA runtime", "CUDA driver", "NCCL", "PyTorch operators",
		"PyTorch memory", "Python",       "user probes", "MPI"};

	return word_of(w, GS_ARRAY_LEN(w), layer);
}

const char *gs_class_name(unsigned func_class)
{
	static const char *const w[GS_CLASS_COUNT] = {
		"other",      "launch", "graph-launch", "alloc", "free",   "copy",
		"memset",     "stream", "event",        "sync",  "device", "module",
		"collective", "p2p",    "group",        "comm",  "query",  "operator",
		"python",     "gc",     "gil",          "probe", "site",   "context"};

	return word_of(w, GS_ARRAY_LEN(w), func_class);
}

const char *gs_loss_name(unsigned cause)
{
	static const char *const w[GS_LOSS_COUNT] = {
		"none",        "ring_full",    "too_deep",    "no_thread",     "no_cell",
		"unmatched",   "short",        "late_attach", "output_failed", "bad_event",
		"map_notices", "process_gone", "blocks",      "stacks",        "frames",
		"budget",      "thinned",      "taken_off",   "untimed",       "python_functions",
		"file_full",   "refused",      "notices",     "sizes",         "peers",
		"account",     "first_calls",  "marks",       "before_kept"};

	return word_of(w, GS_ARRAY_LEN(w), cause);
}

const char *gs_loss_text(unsigned cause)
{
	static const char *const w[GS_LOSS_COUNT] = {
		[GS_LOSS_NONE] = "none",
		[GS_LOSS_RING_FULL] =
			"calls missing from the trace: the ring buffer was full (they are in the summary)",
		[GS_LOSS_TOO_DEEP] = "calls not seen: nested too deep in one thread",
		[GS_LOSS_NO_THREAD] = "calls not seen: too many threads at one time",
		[GS_LOSS_NO_CELL] = "calls counted only here: too many thread and function pairs",
		[GS_LOSS_UNMATCHED] = "calls whose entry or return was not seen",
		[GS_LOSS_SHORT] =
			"calls shorter than --min-duration (in the summary, not in the trace)",
		[GS_LOSS_LATE] =
			"libraries that were loaded before their probes were in place (first calls may be missing)",
		[GS_LOSS_SINK] = "records that an output could not take",
		[GS_LOSS_EVENT_BAD] = "events of unknown format",
		[GS_LOSS_MAPS] = "dropped notices of newly loaded libraries",
		[GS_LOSS_PROC] = "processes that ended before their names could be read",
		[GS_LOSS_BLOCKS] =
			"allocations not tracked: too many live at one time (bytes of frees and memory counters are low)",
		[GS_LOSS_STACK] = "stacks that could not be read or stored",
		[GS_LOSS_FRAME] = "stack frames without a name",
		[GS_LOSS_BUDGET] = "calls only counted, to keep --max-overhead",
		[GS_LOSS_OFF] =
			"functions whose probes were removed, to keep --max-overhead: later calls are not counted",
		[GS_LOSS_THINNED] =
			"calls missing from the trace, to keep --max-overhead (they are in the summary)",
		[GS_LOSS_UNTIMED] =
			"calls counted without times, and not in the trace: of functions whose return is not seen, of Python functions nested deeper than 128, or of Python 3.11 and newer",
		[GS_LOSS_FULL] =
			"calls and counter values left out of this file, which was full (--max-size): no figure here includes them",
		[GS_LOSS_KEPT] =
			"calls before the part of the run that this file holds (--keep-last): no figure here includes them",
		[GS_LOSS_PYFUNC] =
			"calls of Python functions not seen: too many functions at one time, or code that could not be read",
		[GS_LOSS_NOTICE] =
			"dropped notices of processes, threads, communicators and arrivals: the ring buffer was full (names or ranks may be missing)",
		[GS_LOSS_SIZE] =
			"MPI calls whose bytes are not known (derived datatypes of MPICH, communicators whose size is not known)",
		[GS_LOSS_PEERS] = "MPI transfers counted by function only: too many peers",
		[GS_LOSS_REFUSED] = "refused, to limit the cost that one user can cause",
		[GS_LOSS_FIRST] =
			"calls counted without their times: the first calls of a process and the first launch of each function, in which a thread may be cancelled",
		[GS_LOSS_MARK] = "dropped marks that steps are found by: the ring buffer was full",
		[GS_LOSS_ACCOUNT] =
			"threads missing from the wall-clock account: too many at one time",
	};

	return word_of(w, GS_ARRAY_LEN(w), cause);
}

/* ncclDataType_t and ncclRedOp_t of nccl.h (NCCL 2.28); sizes are in model/trace/call_args.h. */
const char *gs_nccl_dtype_name(unsigned dtype)
{
	static const char *const w[] = {"int8",    "uint8",    "int32",      "uint32",
					"int64",   "uint64",   "float16",    "float32",
					"float64", "bfloat16", "float8e4m3", "float8e5m2"};

	return dtype < GS_ARRAY_LEN(w) ? w[dtype] : "unknown";
}

const char *gs_nccl_op_name(unsigned op)
{
	static const char *const w[] = {"sum", "prod", "max", "min", "avg"};

	return op < GS_ARRAY_LEN(w) ? w[op] : "user-made";
}

const char *gs_copy_kind_name(unsigned kind)
{
	static const char *const w[] = {"HtoH", "HtoD", "DtoH", "DtoD", "default", "peer"};

	return word_of(w, GS_ARRAY_LEN(w), kind);
}

static struct gs_arg *add_arg(struct gs_arg *args, size_t *n, const char *name,
			      enum gs_arg_type type, uint64_t value)
{
	struct gs_arg *a = &args[(*n)++];

	a->name = name;
	a->type = type;
	a->value = value;
	a->text[0] = '\0';
	return a;
}

/* By hand, as all below: this runs for every call in a trace, and printf would cost more than the
 * rest of writing it. */
static char *put_u32(char *p, uint32_t v)
{
	char digits[10];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	memcpy(p, digits + i, sizeof(digits) - i);
	return p + sizeof(digits) - i;
}

static void add_text(struct gs_arg *args, size_t *n, const char *name, const char *text)
{
	struct gs_arg *a = add_arg(args, n, name, GS_ARG_TEXT, 0);

	size_t bytes = strlen(text);

	if (bytes > sizeof(a->text) - 1)
		bytes = sizeof(a->text) - 1;

	memcpy(a->text, text, bytes);
	a->text[bytes] = '\0';
}

static void add_dim3(struct gs_arg *args, size_t *n, const char *name, uint64_t x, uint64_t y,
		     uint64_t z)
{
	struct gs_arg *a = add_arg(args, n, name, GS_ARG_TEXT, 0);

	char *p = put_u32(a->text, (uint32_t)x);

	_Static_assert(sizeof(a->text) >= 3 * 10 + 3, "three numbers, two commas and the end");
	*p++ = ',';
	p = put_u32(p, (uint32_t)y);
	*p++ = ',';
	p = put_u32(p, (uint32_t)z);
	*p = '\0';
}

static size_t nccl_args(const struct gs_rec_call *c, unsigned func_class, struct gs_arg *args)
{
	unsigned dtype = c->aux & 0xff, op = c->aux >> 8 & 0xff, root = c->aux >> 16;
	size_t n = 0;

	if (func_class == GS_CLASS_COLLECTIVE || func_class == GS_CLASS_P2P) {
		add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
		add_arg(args, &n, "count", GS_ARG_U64, c->arg[0]);
		add_text(args, &n, "datatype", gs_nccl_dtype_name(dtype));
		if (op != 0xff)
			add_text(args, &n, "op", gs_nccl_op_name(op));
		if (root != 0xffff)
			add_arg(args, &n, func_class == GS_CLASS_P2P ? "peer" : "root", GS_ARG_U64,
				root);
		add_arg(args, &n, "comm", GS_ARG_HANDLE, c->arg[1]);
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
	} else if (c->arg[0]) {
		add_arg(args, &n, "comm", GS_ARG_HANDLE, c->arg[0]);
	}
	return n;
}

static size_t mpi_args(const struct gs_rec_call *c, unsigned func_class, struct gs_arg *args)
{
	size_t n = 0;

	if (c->bytes)
		add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
	if (c->aux == GS_MPI_AUX_ANY || c->aux == GS_MPI_AUX_NOBODY)
		add_text(args, &n, "peer", c->aux == GS_MPI_AUX_ANY ? "any" : "none");
	else if (c->aux)
		add_arg(args, &n, func_class == GS_CLASS_COLLECTIVE ? "root" : "peer", GS_ARG_U64,
			c->aux - 1);
	if (c->arg[1])
		add_arg(args, &n, "comm", GS_ARG_HANDLE, c->arg[1]);
	return n;
}

static size_t cuda_args(const struct gs_rec_call *c, unsigned func_class, struct gs_arg *args)
{
	size_t n = 0;

	switch (func_class) {
	case GS_CLASS_LAUNCH:
		add_arg(args, &n, "function", GS_ARG_HANDLE, c->arg[0]);
		add_dim3(args, &n, "grid", c->arg[1], c->arg[1] >> 32, c->arg[2]);
		add_dim3(args, &n, "block", c->arg[2] >> 32, c->arg[3], c->arg[3] >> 32);
		add_arg(args, &n, "shared_bytes", GS_ARG_BYTES, c->aux);
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		break;
	case GS_CLASS_GRAPH_LAUNCH:
		add_arg(args, &n, "graph", GS_ARG_HANDLE, c->arg[0]);
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		break;
	case GS_CLASS_ALLOC:
	case GS_CLASS_FREE:
		add_arg(args, &n, "pointer", GS_ARG_HANDLE, c->arg[0]);
		add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
		if (c->stream)
			add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		break;
	case GS_CLASS_COPY:
		add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
		add_text(args, &n, "kind", gs_copy_kind_name(c->aux));
		add_arg(args, &n, "destination", GS_ARG_HANDLE, c->arg[0]);
		add_arg(args, &n, "source", GS_ARG_HANDLE, c->arg[1]);
		if (c->arg[2])
			add_arg(args, &n, "copies", GS_ARG_U64, c->arg[2]);
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		break;
	case GS_CLASS_MEMSET:
		add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
		add_arg(args, &n, "value", GS_ARG_U64, c->aux);
		add_arg(args, &n, "pointer", GS_ARG_HANDLE, c->arg[0]);
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		break;
	case GS_CLASS_STREAM:
	case GS_CLASS_EVENT:
	case GS_CLASS_SYNC:
	case GS_CLASS_QUERY:
		add_arg(args, &n, "stream", GS_ARG_HANDLE, c->stream);
		if (c->arg[0])
			add_arg(args, &n,
				func_class == GS_CLASS_STREAM && c->arg[1] ? "graph" : "event",
				GS_ARG_HANDLE, c->arg[0]);
		if (c->aux)
			add_arg(args, &n, "flags", GS_ARG_U64, c->aux);
		break;
	case GS_CLASS_DEVICE:
		add_arg(args, &n, "device", GS_ARG_U64, c->aux);
		break;
	case GS_CLASS_CONTEXT:
		if (c->arg[0])
			add_arg(args, &n, "context", GS_ARG_HANDLE, c->arg[0]);
		if (c->arg[1])
			add_arg(args, &n, "device", GS_ARG_U64, c->aux);
		break;
	case GS_CLASS_PYTHON:
		add_arg(args, &n, "self_ns", GS_ARG_U64, c->arg[0]);
		if (c->arg[1])
			add_arg(args, &n, "launches", GS_ARG_U64, c->arg[1]);
		if (c->call_flags & GS_CALL_RESUMED)
			add_text(args, &n, "entry", "resumed");
		break;
	default:
		if (c->arg[0])
			add_arg(args, &n, "handle", GS_ARG_HANDLE, c->arg[0]);
		if (c->bytes)
			add_arg(args, &n, "bytes", GS_ARG_BYTES, c->bytes);
		break;
	}
	return n;
}

size_t gs_call_args(const struct gs_rec_call *c, unsigned layer, unsigned func_class,
		    struct gs_arg args[GS_ARG_MAX])
{
	size_t n = layer == GS_LAYER_NCCL && func_class != GS_CLASS_ALLOC &&
				   func_class != GS_CLASS_FREE
			   ? nccl_args(c, func_class, args)
		   : layer == GS_LAYER_MPI ? mpi_args(c, func_class, args)
					   : cuda_args(c, func_class, args);

	if (layer == GS_LAYER_TORCH_MEM && func_class == GS_CLASS_ALLOC)
		add_arg(args, &n, "device", GS_ARG_U64, c->aux);
	if (c->ret) {
		const char *name = gs_error_name(layer, c->ret);

		if (name)
			add_text(args, &n, "result", name);
		else
			add_arg(args, &n, "result", GS_ARG_U64, (uint32_t)c->ret);
	}
	return n;
}
