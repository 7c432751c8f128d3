/*
 * A stand-in for PyTorch's observer, as far as a callback sees of it: at::addGlobalCallback() and at::RecordFunction. With
 * VIEW names are given as from PyTorch 2.7 on. What a PyTorch that gpuscope does not know might be: OLD (before 1.12),
 * SHIFTED (another layout of a callback), LONGER (a callback has a member more, which must be 0), NAMES (other names).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL(name) __asm__(name) __attribute__((visibility("default")))

struct callback {
	void *(*start)(void **ret_context, const void *record);
	void (*end)(const void *record, void *context);
#ifdef SHIFTED
	bool scopes[10];
	bool needs[3];
	double sampling;
#else
	double sampling;
	bool scopes[10];
	bool needs[3];
#endif
#ifdef LONGER
	void (*more)(void);
#endif
};

struct record {
	uint64_t vtable;
	uint8_t scope;
	bool is_begun;
	const char *name, *overload; /* overload NULL: not of an operator */
};

static struct callback callbacks[8];
static uint64_t handles[8], n_handles;

uint64_t add_callback(struct callback c)
	SYMBOL("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
void remove_callback(uint64_t handle) SYMBOL("_ZN2at14removeCallbackEm");
const char *record_name(const struct record *r) SYMBOL("_ZNK2at14RecordFunction4nameEv");
void *record_operator(void *ret, const struct record *r)
	SYMBOL("_ZNK2at14RecordFunction13operator_nameEv");
void record_make(struct record *r, uint8_t scope)
	SYMBOL("_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
void record_end(struct record *r) SYMBOL("_ZN2at14RecordFunction3endEv");
void record_destroy(struct record *r) SYMBOL("_ZN2at14RecordFunctionD1Ev");
void observe_operator(struct record *r, const char *name, const char *overload);
#ifndef OLD
void step_callbacks(void) SYMBOL("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE");
void step_callbacks(void)
{
}
#endif

uint64_t add_callback(struct callback c)
{
	static uint64_t last;

#ifdef LONGER
	if (c.more)
		c.more();
#endif
	callbacks[n_handles] = c;
	handles[n_handles++] = ++last;
	return last;
}

void remove_callback(uint64_t handle)
{
	for (uint64_t i = 0; i < n_handles; i++) {
		if (handles[i] != handle)
			continue;
		callbacks[i] = callbacks[--n_handles];
		handles[i] = handles[n_handles];
	}
}

const char *record_name(const struct record *r)
{
#ifdef NAMES
	return "another name";
#else
	return r->name;
#endif
}

/* std::optional<c10::OperatorName>: two strings of the new ABI, and whether there are any. */
void *record_operator(void *ret, const struct record *r)
{
	struct text {
		const char *text;
		size_t bytes;
		char room[16];
	} *names = ret;

	memset(ret, 0, 2 * sizeof(*names));
	((char *)ret)[2 * sizeof(*names)] = r->overload != NULL;
	for (int i = 0; r->overload && i < 2; i++) {
		names[i].text = strdup(i ? r->overload : r->name);
		names[i].bytes = strlen(names[i].text);
	}
	return ret;
}

void record_make(struct record *r, uint8_t scope)
{
	*r = (struct record){.scope = scope};
}

static void run_callbacks(struct record *r)
{
	r->is_begun = true;
	for (uint64_t i = 0; i < n_handles; i++) {
		void *context = &context;

		if (callbacks[i].sampling >= 1 && callbacks[i].scopes[r->scope] &&
		    (callbacks[i].start(&context, r) != &context || context))
			abort();
	}
}

#ifdef VIEW
struct view {
	size_t bytes;
	const char *text;
	uint64_t index;
};
void record_before(struct record *r, struct view name, int64_t sequence) SYMBOL(
	"_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl");
void record_before(struct record *r, struct view name, int64_t sequence)
{
	if (name.index || name.bytes != strlen(name.text))
		abort();
	r->name = name.text;
	run_callbacks(r);
}
#else
void record_before(struct record *r, const char *name, int64_t sequence)
	SYMBOL("_ZN2at14RecordFunction6beforeEPKcl");
void record_before(struct record *r, const char *name, int64_t sequence)
{
	r->name = name;
	run_callbacks(r);
}
#endif

void record_end(struct record *r)
{
	for (uint64_t i = 0; r->is_begun && i < n_handles; i++)
		if (callbacks[i].sampling >= 1 && callbacks[i].scopes[r->scope])
			callbacks[i].end(r, NULL);
	r->is_begun = false;
}

void record_destroy(struct record *r)
{
	record_end(r);
}

/* For the program. overload NULL: it is something that the program marks. */
void observe_operator(struct record *r, const char *name, const char *overload)
{
	record_make(r, overload ? 0 : 7);
	r->name = name;
	r->overload = overload;
	run_callbacks(r);
}
