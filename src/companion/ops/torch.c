/*
 * PyTorch's observer: at::addGlobalCallback() and what a callback may ask of a record, from ATen/record_function.h,
 * the same from 1.13 to main at 0370aaa (2025). No header of PyTorch is needed: functions are called by
 * their mangled names, with arguments laid out as the System V ABI of x86-64 has them. What is passed is tried out first,
 * in a scope that nothing else uses: a PyTorch whose struct is another one does not answer as it should.
 */
#include "companion/ops/ops_int.h"

#include <sys/uio.h>

#include "companion/ring/ring.h"
#include "companion/ring/sys.h"

#define N_SCOPES     10
#define SCOPE_TRIED  6    /* LITE_INTERPRETER: PyTorch of phones */
#define RECORD_BYTES 4096 /* at::RecordFunction has 400 */
#define NAME_TRIED   "gpuscope tries PyTorch's observer"

/* at::RecordFunctionCallback, passed by value in memory; what a longer one would have after it is 0. */
struct callback {
	ops_start_fn start;
	ops_end_fn end;
	double sampling;
	bool scopes[N_SCOPES];
	bool needs_inputs, needs_outputs, needs_ids;
	uint64_t more[6];
};
_Static_assert(offsetof(struct callback, scopes) == 24 && offsetof(struct callback, more) == 40,
	       "at::RecordFunctionCallback");

/* std::variant<std::string_view, ...> with the first of them. */
struct text_variant {
	size_t bytes;
	const char *text;
	uint64_t index;
};

static struct {
	uint64_t (*add)(struct callback);
	void (*remove)(uint64_t handle);
	const char *(*name)(const void *record);
	void (*operator_name)(void *ret_name, const void *record);
	void (*begin)(void *record, uint8_t scope);
	void (*before)(void *record, const char *name, int64_t sequence);
	void (*before_text)(void *record, struct text_variant name, int64_t sequence);
	void (*end)(void *record);
	void (*destroy)(void *record);
	uint8_t *(*exceptions)(void);
} torch;

static __thread const uint32_t *thrown __attribute__((tls_model("initial-exec")));

const char *ops_torch_name(const void *record)
{
	return torch.name(record);
}

/* __cxa_eh_globals of the C++ ABI: caughtExceptions, uncaughtExceptions. */
uint32_t ops_torch_thrown(void)
{
	if (!thrown && torch.exceptions)
		thrown = (const uint32_t *)(torch.exceptions() + 8);
	return thrown ? *thrown : 0;
}

/* --- the name of an operator --- */

/* Of a std::string somewhere in bytes that need not hold one. How long it is, at most bytes - 1; -1: it cannot be one. */
static int read_text(uint64_t from, char *out, size_t bytes)
{
	struct iovec here = {out, bytes}, there = {(void *)from, bytes};
	long pid = COMPANION_SYS3(getpid, 0, 0, 0), got;

	__builtin_memset(out, 0, bytes);
	if (from < 4096)
		return -1;
	/* It may lie at the end of what there is of memory. */
	if (from % 4096 + bytes > 4096)
		there.iov_len = 4096 - from % 4096;
	got = COMPANION_SYS6(process_vm_readv, pid, &here, 1, &there, 1, 0);
	if (got == (long)there.iov_len && there.iov_len < bytes) {
		here.iov_base = out + got;
		there.iov_base = (void *)(from + (uint64_t)got);
		here.iov_len = there.iov_len = bytes - (size_t)got;
		if (COMPANION_SYS6(process_vm_readv, pid, &here, 1, &there, 1, 0) > 0)
			got = (long)bytes;
	}
	for (long n = 0; n < got; n++)
		if (!out[n])
			return (int)n;
	return -1;
}

static bool begins_with(const char *text, const char *with, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (text[i] != with[i] || !with[i])
			return false;
	return true;
}

/*
 * std::optional<c10::OperatorName>, two std::string and whether there is one: with the flag before (c10::optional) or
 * after them, of either ABI of libstdc++ (a pointer first in both). Which it is shows by the first text, which is known.
 */
static const struct name_layout {
	uint8_t flag, first, second;
} layouts[] = {{64, 0, 32}, {0, 8, 40}, {16, 0, 8}, {0, 8, 16}};

size_t ops_torch_operator(const void *record, const char *name, char *out, size_t bytes)
{
	uint64_t raw[24] = {0};
	const uint8_t *at = (const uint8_t *)raw;
	size_t n = 0;

	while (name[n])
		n++;
	if (!torch.operator_name || n + 2 > bytes)
		return 0;
	/* Its strings are not freed: once for each operator. */
	torch.operator_name(raw, record);
	for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct name_layout *l = &layouts[i];
		uint64_t first, second;
		int more;

		__builtin_memcpy(&first, at + l->first, 8);
		__builtin_memcpy(&second, at + l->second, 8);
		if (at[l->flag] != 1 || read_text(first, out, bytes) != (int)n ||
		    !begins_with(out, name, n))
			continue;
		more = read_text(second, out + n + 1, bytes - n - 1);
		if (more < 0)
			continue;
		out[n] = more ? '.' : '\0';
		return more ? n + 1 + (size_t)more : n;
	}
	return 0;
}

/* --- the test --- */

static struct {
	const void *record;     /* that is tried */
	uint8_t scope, running; /* in which it was called last; in which a record is now */
	unsigned n_begun, n_ended, n_wrong;
	bool is_named;
} trial;

static bool is_tried_name(const char *name)
{
	return begins_with(name, NAME_TRIED, sizeof(NAME_TRIED) - 1) &&
	       !name[sizeof(NAME_TRIED) - 1];
}

static void *start_trial(void **ret_context, const void *record)
{
	char text[64];

	*ret_context = NULL;
	if (record == trial.record &&
	    read_text((uint64_t)torch.name(record), text, sizeof(text)) > 0) {
		trial.n_begun++;
		trial.scope = trial.running;
		trial.is_named = is_tried_name(text);
	} else {
		trial.n_wrong++;
	}
	return ret_context;
}

static void end_trial(const void *record, void *context)
{
	if (record == trial.record && !context && trial.n_begun == 1)
		trial.n_ended++;
	else
		trial.n_wrong++;
}

static void run_record(uint8_t scope)
{
	static uint8_t record[RECORD_BYTES] __attribute__((aligned(64)));

	trial.record = record;
	trial.running = scope;
	torch.begin(record, scope);
	if (torch.before)
		torch.before(record, NAME_TRIED, -1);
	else
		torch.before_text(record,
				  (struct text_variant){sizeof(NAME_TRIED) - 1, NAME_TRIED, 0}, -1);
	torch.end(record);
	torch.destroy(record);
}

static uint64_t register_for(uint8_t scope, ops_start_fn start, ops_end_fn end)
{
	struct callback c = {.start = start, .end = end, .sampling = 1};

	c.scopes[scope] = true;
	return torch.add(c);
}

/* It is called for the scope that it is for, once at the begin and once at the end, and for no other, nor afterwards. */
static bool observer_works(void)
{
	uint64_t handle = register_for(SCOPE_TRIED, start_trial, end_trial);
	bool good;

	for (uint8_t scope = 0; scope < N_SCOPES; scope++)
		run_record(scope);
	good = trial.n_begun == 1 && trial.n_ended == 1 && trial.is_named;
	torch.remove(handle);
	run_record(SCOPE_TRIED);
	return good && trial.n_begun == 1 && trial.n_ended == 1 && !trial.n_wrong &&
	       trial.scope == SCOPE_TRIED;
}

/* --- begin --- */

enum gs_companion_state ops_torch_start(void *(*find)(const char *name))
{
	static const uint8_t scopes[OPS_KINDS] = {
		[OPS_FUNCTION] = 0, [OPS_NODE] = 1, [OPS_SPAN] = 7};

	/* Of 1.12 and later alone: before it, callbacks and names were passed in another way. */
	if (!find("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"))
		return GS_COMPANION_OLD;
	*(void **)&torch.add = find("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
	*(void **)&torch.remove = find("_ZN2at14removeCallbackEm");
	*(void **)&torch.name = find("_ZNK2at14RecordFunction4nameEv");
	*(void **)&torch.operator_name = find("_ZNK2at14RecordFunction13operator_nameEv");
	*(void **)&torch.begin = find("_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
	*(void **)&torch.before = find("_ZN2at14RecordFunction6beforeEPKcl");
	*(void **)&torch.before_text = find(
		"_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl");
	*(void **)&torch.end = find("_ZN2at14RecordFunction3endEv");
	*(void **)&torch.destroy = find("_ZN2at14RecordFunctionD1Ev");
	*(void **)&torch.exceptions = find("__cxa_get_globals");
	if (!torch.add || !torch.remove || !torch.name || !torch.operator_name || !torch.begin ||
	    (!torch.before && !torch.before_text) || !torch.end || !torch.destroy ||
	    !observer_works())
		return GS_COMPANION_DIFFERS;
	for (unsigned kind = 0; kind < OPS_KINDS; kind++)
		if (ops_name_wants(kind))
			register_for(scopes[kind], ops_op_starts[kind], ops_op_ends[kind]);
	ops_name_start_passes();
	return GS_COMPANION_SEES;
}
