/*
 * "*arg1+8->16@return": the argument, a star for each pointer that is followed from it, what lies
 * some bytes beyond where it points, and so on; "@return" says that the memory is read when the
 * function returns, as its results are there only then.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace/class.h"
#include "model/trace/record_stack.h"
#include "sources/probefile/probefile_int.h"

#define MAX_ARG 12
#define REG_AX  10 /* of struct pt_regs, asm/ptrace.h */

int probefile_set_fault(struct fault *fault, size_t at, const char *fmt, ...)
{
	va_list ap;

	fault->at = at;
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* --- types --- */

static const struct type {
	const char *name;
	uint8_t value_type, bytes, is_signed, is_f32;
} types[] = {
	{"u8", GS_VALUE_U64, 1, 0, 0},      {"u16", GS_VALUE_U64, 2, 0, 0},
	{"u32", GS_VALUE_U64, 4, 0, 0},     {"u64", GS_VALUE_U64, 8, 0, 0},
	{"i8", GS_VALUE_I64, 1, 1, 0},      {"i16", GS_VALUE_I64, 2, 1, 0},
	{"i32", GS_VALUE_I64, 4, 1, 0},     {"i64", GS_VALUE_I64, 8, 1, 0},
	{"int", GS_VALUE_I64, 4, 1, 0},     {"long", GS_VALUE_I64, 8, 1, 0},
	{"size_t", GS_VALUE_U64, 8, 0, 0},  {"bool", GS_VALUE_U64, 1, 0, 0},
	{"bytes", GS_VALUE_BYTES, 8, 0, 0}, {"ptr", GS_VALUE_PTR, 8, 0, 0},
	{"str", GS_VALUE_STR, 8, 0, 0},     {"f32", GS_VALUE_F64, 4, 0, 1},
	{"f64", GS_VALUE_F64, 8, 0, 0},
};

/* A text in a struct or an array. */
static const struct type type_text = {"char[]", GS_VALUE_STR, 8, 0, 0};

/* The 16 of "char[16]"; 0: it is no such type. */
static unsigned text_in_place(const char *name, size_t n)
{
	static const char begin[] = "char[";
	size_t at = sizeof(begin) - 1;
	unsigned bytes = 0;

	if (n < at + 2 || memcmp(name, begin, at) != 0 || name[n - 1] != ']')
		return 0;
	for (; at < n - 1; at++) {
		if (!isdigit((unsigned char)name[at]))
			return 0;
		bytes = bytes * 10 + (unsigned)(name[at] - '0');
		if (bytes >= GS_USER_TEXT_BYTES)
			return 0;
	}
	return bytes;
}

static const struct type *type_find(const char *name, size_t n)
{
	if (text_in_place(name, n))
		return &type_text;
	for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
		if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0)
			return &types[i];
	return NULL;
}

/* --- the place --- */

struct place {
	unsigned arg; /* 0: the result */
	unsigned derefs;
	int32_t chain[GS_USER_CHAIN_MAX];
	bool later;
};

static int add_deref(struct place *p, int64_t offset, size_t at, struct fault *fault)
{
	if (p->derefs == 3)
		return probefile_set_fault(fault, at, "more than three pointers to follow");
	if (offset > INT32_MAX || offset < INT32_MIN)
		return probefile_set_fault(fault, at, "the offset is out of range");
	p->chain[p->derefs++] = (int32_t)offset;
	return 0;
}

static int parse_base(const char **at, const char *text, struct place *p, struct fault *fault)
{
	char *end;

	if (strncmp(*at, "ret", 3) == 0) {
		*at += 3;
		return 0;
	}
	if (strncmp(*at, "arg", 3) != 0 || !isdigit((unsigned char)(*at)[3]))
		return probefile_set_fault(
			fault, (size_t)(*at - text),
			"\"%s\" is not a place: arg1 ... arg%d, ret, *arg1, arg1+8, arg1->8, *arg1@return",
			text, MAX_ARG);
	p->arg = (unsigned)strtoul(*at + 3, &end, 10);
	if (p->arg < 1 || p->arg > MAX_ARG)
		return probefile_set_fault(fault, (size_t)(*at - text),
					   "arguments are arg1 to arg%d", MAX_ARG);
	*at = end;
	return 0;
}

static int parse_place(const char *text, struct place *p, struct fault *fault)
{
	const char *at = text;
	unsigned stars = 0;
	int r;

	*p = (struct place){0};
	for (; *at == '*' || *at == ' '; at++)
		stars += *at == '*';
	r = parse_base(&at, text, p, fault);
	while (r == 0 && stars--)
		r = add_deref(p, 0, 0, fault);
	while (r == 0 && (*at == '+' || *at == '-')) {
		const char *from = at;
		bool arrow = at[0] == '-' && at[1] == '>';
		bool minus = *at == '-' && !arrow;
		long long offset;
		char *end;

		at += arrow ? 2 : 1;
		if (!isdigit((unsigned char)*at))
			return probefile_set_fault(fault, (size_t)(at - text),
						   "a number of bytes is missing here");
		offset = strtoll(at, &end, 0);
		at = end;
		r = add_deref(p, minus ? -offset : offset, (size_t)(from - text), fault);
	}
	if (r == 0 && strncmp(at, "@return", 7) == 0) {
		at += 7;
		p->later = true;
		if (!p->arg)
			return probefile_set_fault(
				fault, (size_t)(at - 7 - text),
				"ret is always read at the return: leave out @return");
	}
	if (r == 0 && *at)
		return probefile_set_fault(fault, (size_t)(at - text),
					   "\"%s\" is not understood here", at);
	return r;
}

/* --- the value --- */

int probefile_find_value(const struct gs_user_spec *spec, const char *name, size_t n)
{
	for (int i = 0; i < spec->row.n_values; i++)
		if (strlen(spec->names[i].name) == n && memcmp(spec->names[i].name, name, n) == 0)
			return i;
	return -1;
}

bool probefile_want_return(struct gs_user_spec *spec)
{
	if (spec->row.flags & GS_USER_RETURN)
		return true;
	if (!spec->function || spec->return_given)
		return false;
	spec->row.flags |= GS_USER_RETURN;
	spec->func_class = GS_CLASS_PROBE;
	return true;
}

void probefile_list_values(const struct gs_user_spec *spec, char *out, size_t bytes)
{
	size_t n = 0;

	for (int i = 0; i < spec->row.n_values && n < bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s, ", spec->names[i].name);
	if (n < bytes)
		snprintf(out + n, bytes - n, "%spid, tid",
			 spec->function && !spec->return_given ? "duration, "
			 : spec->row.flags & GS_USER_RETURN    ? "duration, "
							       : "");
}

static int parse_type(const char *text, const char *place, struct gs_user_spec *spec,
		      const struct type **ret_type, struct gs_user_name *name, struct fault *fault)
{
	size_t skip = strspn(text, " "), n = strcspn(text + skip, " ");
	const char *word = text + skip, *label = word + n;

	*ret_type = type_find(word, n);
	if (!*ret_type)
		return probefile_set_fault(
			fault, skip,
			"\"%.*s\" is not a type: u8 u16 u32 u64 i8 i16 i32 i64 bool bytes ptr str f32 f64 char[N] (N up to 127)",
			(int)n, word);
	label += strspn(label, " ");
	n = strcspn(label, " ");
	if (label[n + strspn(label + n, " ")])
		return probefile_set_fault(
			fault, (size_t)(label + n - text) + 1,
			"a type and one name are expected, such as \"u64 size\"");
	if (!n) {
		label = place;
		n = strlen(place);
	} else if (!isalpha((unsigned char)*label) && *label != '_') {
		return probefile_set_fault(fault, (size_t)(label - text),
					   "\"%s\" is not a name: letters, digits and _", label);
	}
	for (size_t i = 0; label != place && i < n; i++)
		if (!isalnum((unsigned char)label[i]) && label[i] != '_')
			return probefile_set_fault(fault, (size_t)(label - text) + i,
						   "\"%.*s\" is not a name: letters, digits and _",
						   (int)n, label);
	if (n >= GS_USER_NAME_MAX)
		return probefile_set_fault(fault, (size_t)(label - text), "the name is too long");
	if (probefile_find_value(spec, label, n) >= 0)
		return probefile_set_fault(fault, label == place ? 0 : (size_t)(label - text),
					   "a second value with the name \"%.*s\"", (int)n, label);
	if ((n == 8 && memcmp(label, "duration", 8) == 0) ||
	    (n == 3 && (memcmp(label, "pid", 3) == 0 || memcmp(label, "tid", 3) == 0)))
		return probefile_set_fault(
			fault, (size_t)(label - text),
			"\"%.*s\" is a name that filters reserve for the call itself", (int)n,
			label);
	*name = (struct gs_user_name){.value_type = (*ret_type)->value_type,
				      .is_f32 = (*ret_type)->is_f32};
	memcpy(name->name, label, n);
	return 0;
}

/* What the place and the type ask of each other and of the probe. */
static int check_value(const struct place *p, const struct type *t, struct gs_user_spec *spec,
		       unsigned *ret_which, struct fault *fault)
{
	*ret_which = 0;
	if ((!p->arg || p->later) && !probefile_want_return(spec))
		return probefile_set_fault(
			fault, 0, "%s needs the return, which this probe does not see%s",
			p->arg ? "@return" : "ret", spec->function ? " (return: false)" : "");
	if (p->later && !p->derefs && t->value_type != GS_VALUE_STR)
		return probefile_set_fault(
			fault, 0, "at the return only memory can be read: *arg%u@return?", p->arg);
	*ret_which = 1;
	if (t == &type_text && !p->derefs)
		return probefile_set_fault(fault, 0,
					   "char[N] is text in memory: *arg%u, arg%u+8 or str?",
					   p->arg ? p->arg : 1, p->arg ? p->arg : 1);
	if (t->value_type == GS_VALUE_F64 && !p->derefs)
		return probefile_set_fault(
			fault, 0,
			"floating-point arguments are in registers that a probe cannot read; those in memory can be");
	return 0;
}

static void fill_start(struct gs_user_value *v, const struct place *p)
{
	static const uint8_t registers[] = {14, 13, 12, 11, 9, 8}; /* di si dx cx r8 r9 */

	if (!p->arg) {
		v->from = GS_FROM_REGISTER;
		v->reg = REG_AX;
		v->when = GS_WHEN_RETURN;
	} else if (p->arg <= GS_ARRAY_LEN(registers)) {
		v->from = GS_FROM_REGISTER;
		v->reg = registers[p->arg - 1];
	} else {
		v->from = GS_FROM_STACK;
		v->add = 8 * (int64_t)(p->arg - GS_ARRAY_LEN(registers));
	}
	if (p->later)
		v->when = GS_WHEN_MEMORY_LATER;
}

int probefile_parse_value(const char *place, const char *type, struct gs_user_spec *spec,
			  unsigned *ret_which, struct fault *fault)
{
	struct gs_user_row *row = &spec->row;
	const struct type *t;
	struct gs_user_value *v;
	struct place p;
	int r;

	*ret_which = 0;
	if (row->n_values == GS_USER_VALUE_MAX)
		return probefile_set_fault(fault, 0,
					   "more than %d values: the kernel side has room for %d",
					   GS_USER_VALUE_MAX, GS_USER_VALUE_MAX);
	r = parse_place(place, &p, fault);
	if (r < 0)
		return r;
	*ret_which = 1;
	r = parse_type(type, place, spec, &t, &spec->names[row->n_values], fault);
	if (r == 0)
		r = check_value(&p, t, spec, ret_which, fault);
	if (r < 0)
		return r;
	if (t->value_type == GS_VALUE_STR && row->n_texts == GS_USER_TEXT_MAX)
		return probefile_set_fault(fault, 0,
					   "more than %d strings: the kernel side has room for %d",
					   GS_USER_TEXT_MAX, GS_USER_TEXT_MAX);
	v = &row->values[row->n_values];
	*v = (struct gs_user_value){.value_type = t->value_type,
				    .index_reg = GS_USER_NONE,
				    .bytes = t->bytes,
				    .is_signed = t->is_signed,
				    .n_chain = (uint8_t)p.derefs,
				    .text = GS_USER_NONE};
	memcpy(v->chain, p.chain, sizeof(v->chain));
	/* Its place is where the last pointer would be read. */
	if (t == &type_text) {
		v->text_bytes = (uint8_t)text_in_place(type + strspn(type, " "),
						       strcspn(type + strspn(type, " "), " "));
		v->text_add = v->chain[--v->n_chain];
		v->chain[v->n_chain] = 0;
	}
	fill_start(v, &p);
	if (t->value_type == GS_VALUE_STR)
		v->text = row->n_texts++;
	spec->starts[row->n_values] = (struct gs_user_start){
		.arg = (uint8_t)p.arg, .derefs = (uint8_t)p.derefs, .typed = 1};
	row->n_values++;
	return 0;
}
