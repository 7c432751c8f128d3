/*
 * Names: which of them are wanted, and the numbers of those. PyTorch says a name by a pointer. That of an operator stays
 * where it is, so that it is found by its address; what else is marked has its name in memory of its own each time, and
 * is found by the text. A text that lies where another one was is noticed: it is compared.
 *
 * What is found is read without a lock: an entry is whole before anything leads to it, and is never changed.
 */
#include "companion/ops/ops_int.h"

#include <sys/mman.h>

#include "companion/ring/ring.h"
#include "companion/ring/sys.h"
#include "model/trace/torch_op.h"

#define ENTRIES    4096u /* names that were seen, wanted or not; the first one is none */
#define PLACES     8192u /* of a table by text: a power of two, twice as many */
#define TEXTS_MAX  1024u /* of what is no operator: the rest has no name of its own */
#define SPANS_MAX  (GS_SPAN_NAMES - 1) /* as probes distinguish */
#define ARENA      (1u << 20)
#define NAME_MAX   512u
#define GLOBS_MAX  64u
#define INDEX_BITS 12 /* of an entry; addresses have 47 */
#define NODE       "autograd::engine::evaluate_function: "
#define NODE_NAME  "autograd::evaluate_function" /* as probes call it */
#define PASS_NAME  "autograd::execute"           /* likewise */
#define REST       "other operators"

enum set { SET_DEFAULT, SET_ALL, SET_INSTEAD, SET_NAMES };

struct entry {
	const char *key; /* as PyTorch says it */
	uint16_t key_bytes;
	uint16_t number; /* 0: it is not wanted */
	uint8_t kind;    /* enum ops_kind */
	bool is_operator;
};

static struct {
	enum set set;
	bool with_spans;
	const char *globs[GLOBS_MAX];
	unsigned n_globs;
} choice;

static struct entry entries[ENTRIES];
static uint32_t n_entries = 1, n_texts, n_spans;
static uint64_t by_address[ENTRIES]; /* address << INDEX_BITS | entry */
static uint16_t by_text[PLACES];     /* of operators the full name, of others what PyTorch says */
static const char *texts[GS_COMPANION_OP_NAMES]; /* by number */
static uint32_t n_numbers = 1, n_pass;           /* of passes: a number */
static char *arena;
static size_t n_arena;
static struct companion_lock lock;

/* --- what is chosen --- */

static bool begins_with(const char *text, const char *with)
{
	while (*with && *text == *with) {
		text++;
		with++;
	}
	return !*with;
}

static size_t text_bytes(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

/* By pairs of lines: of which operator, what it is to be called. */
static const char *name_instead(const char *op)
{
	for (unsigned i = 0; i + 1 < choice.n_globs; i += 2)
		if (gs_torch_is_overload(op, choice.globs[i]))
			return choice.globs[i + 1];
	return NULL;
}

static bool is_named(const char *text)
{
	for (unsigned i = 0; i < choice.n_globs; i++)
		if (gs_torch_matches(choice.globs[i], text))
			return true;
	return false;
}

/* Its lines, kept in memory of ours. */
static void take_globs(const char *lines)
{
	char *at = arena;

	for (; *lines && n_arena < ARENA / 2; lines++, n_arena++)
		at[n_arena] = *lines == '\n' ? '\0' : *lines;
	at[n_arena++] = '\0';
	for (size_t i = 0; i < n_arena && choice.n_globs < GLOBS_MAX; i++)
		if (at[i] && (!i || !at[i - 1]))
			choice.globs[choice.n_globs++] = at + i;
}

bool ops_name_start(const char *settings)
{
	static const char *const words[] = {"default", "all", "instead\n", "names\n"};
	long at = COMPANION_SYS6(mmap, 0, ARENA, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned set = SET_DEFAULT;

	if (at < 0 && at > -4096)
		return false;
	arena = (char *)at;
	while (set <= SET_NAMES && !begins_with(settings, words[set]))
		set++;
	if (set > SET_NAMES)
		return false;
	choice.set = (enum set)set;
	if (set >= SET_INSTEAD)
		take_globs(settings + text_bytes(words[set]));
	choice.with_spans =
		choice.set == SET_NAMES ? is_named(GS_TORCH_SPANS) : choice.set != SET_INSTEAD;
	return true;
}

bool ops_name_wants(enum ops_kind kind)
{
	if (kind == OPS_SPAN)
		return choice.with_spans;
	if (kind == OPS_FUNCTION || choice.set == SET_ALL)
		return true;
	/* What their names are like. */
	for (unsigned i = 0; i < choice.n_globs; i++)
		for (const char *c = choice.globs[i]; *c; c++)
			if (begins_with(c, "Backward"))
				return true;
	return is_named("AddmmBackward0");
}

/* What it is to be called; NULL: it is not wanted. */
static const char *choose_operator(const char *full)
{
	const char *op = begins_with(full, "aten::") ? full + sizeof("aten::") - 1 : NULL;

	switch (choice.set) {
	case SET_ALL:
		return full;
	case SET_INSTEAD:
		return op ? name_instead(op) : NULL;
	case SET_NAMES:
		return is_named(full) ? full : NULL;
	default:
		return op && gs_torch_is_trivial(op) ? NULL : full;
	}
}

static const char *choose_name(enum ops_kind kind, const char *text)
{
	if (kind == OPS_SPAN)
		return text;
	if (kind == OPS_FUNCTION && begins_with(text, NODE))
		text = NODE_NAME;
	return choice.set == SET_ALL || is_named(text) ? text : NULL;
}

/* --- numbers: with the lock --- */

static const char *keep_text(const char *text, size_t n)
{
	char *kept = arena + n_arena;

	if (n + 1 > ARENA - n_arena)
		return NULL;
	for (size_t i = 0; i < n; i++)
		kept[i] = text[i];
	kept[n] = '\0';
	n_arena += n + 1;
	return kept;
}

static size_t length_of(const char *text)
{
	size_t n = 0;

	while (n < NAME_MAX - 1 && text[n])
		n++;
	return n;
}

static uint16_t number_of(const char *text, size_t n)
{
	for (uint32_t i = 1; i < n_numbers; i++)
		if (length_of(texts[i]) == n && __builtin_memcmp(texts[i], text, n) == 0)
			return (uint16_t)i;
	if (n_numbers == GS_COMPANION_OP_NAMES)
		return GS_COMPANION_OP_NAMES - 1;
	if (n_numbers == GS_COMPANION_OP_NAMES - 1) {
		text = REST;
		n = sizeof(REST) - 1;
	}
	texts[n_numbers] = keep_text(text, n);
	return texts[n_numbers] ? (uint16_t)n_numbers++ : 0;
}

/* As many names as probes distinguish, and as much of them. */
static uint16_t number_of_span(const char *text)
{
	static const char unnamed[] = GS_TORCH_SPANS " \"\"";
	size_t n = length_of(text);

	if (n_spans == SPANS_MAX)
		return number_of(GS_TORCH_SPANS, sizeof(GS_TORCH_SPANS) - 1);
	n_spans++;
	if (!n)
		return number_of(unnamed, sizeof(unnamed) - 1);
	return number_of(text, n < GS_SPAN_NAME_BYTES ? n : GS_SPAN_NAME_BYTES - 1);
}

void ops_name_start_passes(void)
{
	bool wanted = choice.set == SET_NAMES ? is_named(PASS_NAME) : choice.set != SET_INSTEAD;

	if (!wanted || !companion_lock_take(&lock, NULL))
		return;
	__atomic_store_n(&n_pass, number_of(PASS_NAME, sizeof(PASS_NAME) - 1), __ATOMIC_RELEASE);
	companion_lock_drop(&lock);
}

uint32_t ops_name_pass(void)
{
	return __atomic_load_n(&n_pass, __ATOMIC_ACQUIRE);
}

const char *ops_name_text(uint32_t number)
{
	return texts[number];
}

/* --- entries --- */

static uint32_t hash_text(const char *text, size_t n, unsigned kind)
{
	uint64_t h = 14695981039346656037ull + kind;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)text[i]) * 1099511628211ull;
	return (uint32_t)(h ^ h >> 29) & (PLACES - 1);
}

static inline bool has_key(const struct entry *e, const char *name)
{
	const char *key = e->key;

	for (; *key && *key == *name; key++)
		name++;
	/* Of an operator, the key goes on with its overload. */
	return !*name && (!*key || (e->is_operator && *key == '.'));
}

/* Where it is, or is to be. */
static uint16_t *place_of(const char *text, size_t n, enum ops_kind kind, bool is_operator)
{
	uint32_t at = hash_text(text, n, kind + (is_operator ? OPS_KINDS : 0));

	for (;; at = (at + 1) & (PLACES - 1)) {
		uint16_t i = __atomic_load_n(&by_text[at], __ATOMIC_ACQUIRE);
		const struct entry *e = &entries[i];

		if (!i || (e->kind == kind && e->is_operator == is_operator && e->key_bytes == n &&
			   __builtin_memcmp(e->key, text, n) == 0))
			return &by_text[at];
	}
}

static uint32_t address_at(const char *name)
{
	return (uint32_t)(((uint64_t)name >> 3) * 0x9e3779b97f4a7c15ull >> (64 - INDEX_BITS)) & ~1u;
}

/* Two places for each: the one that is there moves on. */
static void note_address(const char *name, uint16_t i)
{
	uint64_t *at = &by_address[address_at(name)];

	__atomic_store_n(&at[1], __atomic_load_n(&at[0], __ATOMIC_RELAXED), __ATOMIC_RELEASE);
	__atomic_store_n(&at[0], (uint64_t)name << INDEX_BITS | i, __ATOMIC_RELEASE);
}

/* 0: there is no room. */
static uint16_t add_entry(uint16_t *place, const char *text, size_t n, enum ops_kind kind,
			  bool is_operator)
{
	struct entry *e = &entries[n_entries];
	const char *name;

	if (n_entries == ENTRIES || (!is_operator && n_texts == TEXTS_MAX))
		return 0;
	e->key = keep_text(text, n);
	if (!e->key)
		return 0;
	n_texts += !is_operator;
	e->key_bytes = (uint16_t)n;
	e->kind = kind;
	e->is_operator = is_operator;
	name = is_operator ? choose_operator(e->key) : choose_name(kind, e->key);
	if (name)
		e->number = is_operator || name != e->key ? number_of(name, length_of(name))
							  : number_of_span(name);
	__atomic_store_n(place, (uint16_t)n_entries, __ATOMIC_RELEASE);
	return (uint16_t)n_entries++;
}

/* What finds no room: a span is one without a name of its own, all else is as if not wanted. */
static uint32_t number_of_rest(enum ops_kind kind)
{
	return kind == OPS_SPAN ? number_of(GS_TORCH_SPANS, sizeof(GS_TORCH_SPANS) - 1) : 0;
}

static uint32_t add_name(enum ops_kind kind, const void *record, const char *name)
{
	char full[NAME_MAX];
	size_t n = kind == OPS_FUNCTION ? ops_torch_operator(record, name, full, sizeof(full)) : 0;
	bool is_operator = n != 0;
	const char *text = is_operator ? full : name;
	uint16_t *place, i;

	if (!is_operator)
		n = length_of(name);
	place = place_of(text, n, kind, is_operator);
	i = *place ? *place : add_entry(place, text, n, kind, is_operator);
	if (!i)
		return number_of_rest(kind);
	if (is_operator)
		note_address(name, i);
	return entries[i].number;
}

static __attribute__((noinline)) uint32_t find_by_text(enum ops_kind kind, const void *record,
						       const char *name)
{
	uint16_t i =
		__atomic_load_n(place_of(name, length_of(name), kind, false), __ATOMIC_ACQUIRE);
	uint32_t number = 0;

	if (i)
		return entries[i].number;
	if (companion_lock_take(&lock, NULL)) {
		number = add_name(kind, record, name);
		companion_lock_drop(&lock);
	}
	return number;
}

uint32_t ops_name_find(enum ops_kind kind, const void *record, const char *name)
{
	const uint64_t *at = &by_address[address_at(name)];

	for (unsigned i = 0; i < 2 && kind == OPS_FUNCTION; i++) {
		uint64_t found = __atomic_load_n(&at[i], __ATOMIC_ACQUIRE);
		const struct entry *e = &entries[found & (ENTRIES - 1)];

		if (found >> INDEX_BITS == (uint64_t)name && has_key(e, name))
			return e->number;
	}
	return find_by_text(kind, record, name);
}
