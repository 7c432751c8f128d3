/*
 * Filters: the expressions of C, over the values of a probe, "duration", "pid" and "tid". A
 * recursive descent that makes steps for the kernel's machine as it goes (postfix), and knows of
 * each operand what it is, so that `path > 3` or `duration > 1MB` is refused here rather than never
 * true there.
 *
 *	or: and ("||" and)*      and: not...  by precedence, as in C; all of it in one table
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace/record_stack.h"
#include "sources/probefile/probefile_int.h"

#define MAX_NESTING 32

enum kind {
	IS_NUMBER,
	IS_SIGNED, /* a number that may be negative */
	IS_BYTES,  /* a number written with such a unit */
	IS_TIME,
	IS_STRING,
	IS_CONDITION,
};

static const char *const kind_names[] = {"a number", "a number", "a number of bytes",
					 "a time",   "a string", "a condition"};

struct operand {
	enum kind kind;
	size_t at; /* where it begins */
};

struct filter {
	const char *text;
	const char *at;
	struct gs_user_spec *spec;
	struct fault *fault;
	unsigned waiting, most_waiting; /* operands on the machine's stack */
	unsigned n_ops;                 /* may pass the maximum, to be reported */
	unsigned nesting;
};

static size_t offset_of(const struct filter *f)
{
	return (size_t)(f->at - f->text);
}

static void emit_op(struct filter *f, unsigned code, unsigned arg, uint64_t imm, int growth)
{
	if (f->n_ops < GS_USER_OP_MAX)
		f->spec->row.ops[f->n_ops] =
			(struct gs_user_op){.code = (uint8_t)code, .arg = (uint8_t)arg, .imm = imm};
	f->n_ops++;
	f->waiting = (unsigned)((int)f->waiting + growth);
	if (f->waiting > f->most_waiting)
		f->most_waiting = f->waiting;
}

static void skip_spaces(struct filter *f)
{
	while (isspace((unsigned char)*f->at))
		f->at++;
}

/* --- numbers with units --- */

static const struct unit {
	const char *name;
	enum kind kind;
	uint64_t factor;
} units[] = {
	{"B", IS_BYTES, 1},
	{"K", IS_BYTES, 1ull << 10},
	{"KB", IS_BYTES, 1ull << 10},
	{"KiB", IS_BYTES, 1ull << 10},
	{"M", IS_BYTES, 1ull << 20},
	{"MB", IS_BYTES, 1ull << 20},
	{"MiB", IS_BYTES, 1ull << 20},
	{"G", IS_BYTES, 1ull << 30},
	{"GB", IS_BYTES, 1ull << 30},
	{"GiB", IS_BYTES, 1ull << 30},
	{"T", IS_BYTES, 1ull << 40},
	{"TB", IS_BYTES, 1ull << 40},
	{"TiB", IS_BYTES, 1ull << 40},
	{"ns", IS_TIME, 1},
	{"us", IS_TIME, 1000},
	{"ms", IS_TIME, 1000000},
	{"s", IS_TIME, 1000000000},
	{"m", IS_TIME, 60000000000},
};

static int parse_unit(struct filter *f, size_t at, uint64_t *value, double fraction,
		      bool has_fraction, enum kind *ret_kind)
{
	size_t n = 0;

	while (isalnum((unsigned char)f->at[n]) || f->at[n] == '_')
		n++;
	*ret_kind = IS_NUMBER;
	if (!n)
		return has_fraction
			       ? probefile_set_fault(
					 f->fault, at,
					 "only numbers with a unit may have a fraction, such as 1.5MB")
			       : 0;
	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
		const struct unit *u = &units[i];

		if (strlen(u->name) != n || memcmp(u->name, f->at, n) != 0)
			continue;
		if (*value > UINT64_MAX / u->factor / 2)
			return probefile_set_fault(f->fault, at, "the number is too large");
		*value = *value * u->factor + (uint64_t)(fraction * (double)u->factor);
		*ret_kind = u->kind;
		f->at += n;
		return 0;
	}
	return probefile_set_fault(
		f->fault, offset_of(f),
		"\"%.*s\" is not a unit: KB MB GB TB of bytes (powers of 1024), ns us ms s m of time",
		(int)n, f->at);
}

static int parse_number(struct filter *f, struct operand *o)
{
	bool has_fraction = false;
	double fraction = 0;
	uint64_t value;
	char *end;
	int r;

	errno = 0;
	/* Not base 0: 010 is ten to most people. */
	value = strtoull(f->at, &end,
			 f->at[0] == '0' && (f->at[1] == 'x' || f->at[1] == 'X') ? 16 : 10);
	if (errno)
		return probefile_set_fault(f->fault, o->at, "the number is too large");
	f->at = end;
	if (*f->at == '.') {
		const char *p = f->at + 1;
		double digit = 0.1;

		for (; isdigit((unsigned char)*p); p++, digit /= 10)
			fraction += (*p - '0') * digit;
		f->at = p;
		has_fraction = true;
	}
	r = parse_unit(f, o->at, &value, fraction, has_fraction, &o->kind);
	if (r == 0)
		emit_op(f, GS_OP_CONSTANT, 0, value, 1);
	return r;
}

/* --- operands --- */

static int parse_string(struct filter *f, struct operand *o)
{
	char quote = *f->at, text[GS_USER_TEXT_BYTES];
	size_t n = 0;

	for (f->at++; *f->at && *f->at != quote; f->at++) {
		if (*f->at == '\\' && f->at[1])
			f->at++;
		if (n == sizeof(text) - 1)
			return probefile_set_fault(
				f->fault, o->at,
				"probes read strings of up to %d bytes: this one never matches",
				GS_USER_TEXT_BYTES - 1);
		text[n++] = *f->at;
	}
	if (!*f->at)
		return probefile_set_fault(f->fault, o->at, "unterminated string");
	f->at++;
	text[n] = '\0';
	o->kind = IS_STRING;
	f->spec->row.flags |= GS_USER_HASH;
	emit_op(f, GS_OP_CONSTANT, 0, gs_user_hash(text), 1);
	return 0;
}

static int use_value(struct filter *f, int i, struct operand *o)
{
	const struct gs_user_value *v = &f->spec->row.values[i];

	if (v->value_type == GS_VALUE_F64)
		return probefile_set_fault(
			f->fault, o->at, "%s is a floating-point number, which filters cannot use",
			f->spec->names[i].name);
	if (v->when != GS_WHEN_ENTRY)
		f->spec->row.flags |= GS_USER_FILTER_LATE;
	o->kind = v->is_signed ? IS_SIGNED : IS_NUMBER;
	if (v->value_type == GS_VALUE_STR) {
		o->kind = IS_STRING;
		f->spec->row.flags |= GS_USER_HASH;
	} else if (v->value_type == GS_VALUE_BYTES) {
		o->kind = IS_BYTES;
	}
	emit_op(f, GS_OP_VALUE, (unsigned)i, 0, 1);
	return 0;
}

static int parse_name(struct filter *f, struct operand *o)
{
	const char *name = f->at;
	char known[300];
	size_t n = 0;
	int i;

	while (isalnum((unsigned char)name[n]) || name[n] == '_')
		n++;
	f->at += n;
	i = probefile_find_value(f->spec, name, n);
	if (i >= 0)
		return use_value(f, i, o);
	if (n == 8 && memcmp(name, "duration", n) == 0) {
		if (!probefile_want_return(f->spec))
			return probefile_set_fault(
				f->fault, o->at,
				"duration needs the return, which this probe does not see");
		f->spec->row.flags |= GS_USER_FILTER_LATE;
		o->kind = IS_TIME;
		emit_op(f, GS_OP_DURATION, 0, 0, 1);
		return 0;
	}
	if (n == 3 && (memcmp(name, "pid", n) == 0 || memcmp(name, "tid", n) == 0)) {
		o->kind = IS_NUMBER;
		emit_op(f, *name == 'p' ? GS_OP_PID : GS_OP_TID, 0, 0, 1);
		return 0;
	}
	probefile_list_values(f->spec, known, sizeof(known));
	return probefile_set_fault(f->fault, o->at, "no value is named \"%.*s\": there are %s",
				   (int)n, name, known);
}

static int parse_level(struct filter *f, unsigned level, struct operand *o);

static bool is_number(enum kind kind)
{
	return kind != IS_STRING && kind != IS_CONDITION;
}

static int parse_unary(struct filter *f, struct operand *o)
{
	char c;
	int r;

	skip_spaces(f);
	o->at = offset_of(f);
	c = *f->at;
	if (f->nesting > MAX_NESTING)
		return probefile_set_fault(
			f->fault, o->at,
			"the filter is too complex for the kernel: nested too deep");
	if (c == '!' || c == '-' || c == '~') {
		struct operand inner;

		f->at++;
		f->nesting++;
		r = parse_unary(f, &inner);
		f->nesting--;
		if (r < 0)
			return r;
		if (c == '!' ? inner.kind != IS_CONDITION : !is_number(inner.kind))
			return probefile_set_fault(
				f->fault, inner.at, "%c needs %s, and this is %s", c,
				c == '!' ? "a condition (such as !(size > 4))" : "a number",
				kind_names[inner.kind]);
		o->kind = c == '!' ? IS_CONDITION : c == '-' ? IS_SIGNED : inner.kind;
		emit_op(f, c == '!' ? GS_OP_NOT : c == '-' ? GS_OP_NEGATE : GS_OP_INVERT, 0, 0, 0);
		return 0;
	}
	if (c == '(') {
		size_t at = o->at;

		f->at++;
		f->nesting++;
		r = parse_level(f, 0, o);
		f->nesting--;
		if (r < 0)
			return r;
		skip_spaces(f);
		if (*f->at != ')')
			return probefile_set_fault(f->fault, offset_of(f),
						   "a \")\" is missing here");
		f->at++;
		o->at = at;
		return 0;
	}
	if (c == '"' || c == '\'')
		return parse_string(f, o);
	if (isdigit((unsigned char)c))
		return parse_number(f, o);
	if (isalpha((unsigned char)c) || c == '_')
		return parse_name(f, o);
	return c ? probefile_set_fault(f->fault, o->at, "\"%c\" is not understood here", c)
		 : probefile_set_fault(f->fault, o->at, "a value is missing at the end");
}

/* --- operators, the loosest first --- */

enum sort { OF_CONDITIONS, OF_EQUALITY, OF_ORDER, OF_NUMBERS };

static const struct rule {
	const char *text;
	uint8_t level;
	uint8_t sort; /* enum sort */
	uint8_t code, signed_code;
} rules[] = {
	{"||", 0, OF_CONDITIONS, GS_OP_OR, 0},
	{"&&", 1, OF_CONDITIONS, GS_OP_AND, 0},
	{"|", 2, OF_NUMBERS, GS_OP_BIT_OR, 0},
	{"^", 3, OF_NUMBERS, GS_OP_BIT_XOR, 0},
	{"&", 4, OF_NUMBERS, GS_OP_BIT_AND, 0},
	{"==", 5, OF_EQUALITY, GS_OP_EQ, 0},
	{"!=", 5, OF_EQUALITY, GS_OP_NE, 0},
	{"<=", 6, OF_ORDER, GS_OP_LE, GS_OP_LE_S},
	{">=", 6, OF_ORDER, GS_OP_GE, GS_OP_GE_S},
	{"<<", 7, OF_NUMBERS, GS_OP_SHL, 0},
	{">>", 7, OF_NUMBERS, GS_OP_SHR, GS_OP_SHR_S},
	{"<", 6, OF_ORDER, GS_OP_LT, GS_OP_LT_S},
	{">", 6, OF_ORDER, GS_OP_GT, GS_OP_GT_S},
	{"+", 8, OF_NUMBERS, GS_OP_ADD, 0},
	{"-", 8, OF_NUMBERS, GS_OP_SUB, 0},
	{"*", 9, OF_NUMBERS, GS_OP_MUL, 0},
	{"/", 9, OF_NUMBERS, GS_OP_DIV, GS_OP_DIV_S},
	{"%", 9, OF_NUMBERS, GS_OP_MOD, GS_OP_MOD_S},
};

#define N_LEVELS 10

/* The operator that stands here, when it is of the level. Longer ones are tried first: "<" must not
 * be seen in "<<", nor "|" in "||". */
static const struct rule *rule_here(const struct filter *f, unsigned level)
{
	const struct rule *best = NULL;

	for (size_t i = 0; i < GS_ARRAY_LEN(rules); i++) {
		size_t n = strlen(rules[i].text);

		if (strncmp(f->at, rules[i].text, n) == 0 && (!best || n > strlen(best->text)))
			best = &rules[i];
	}
	return best && best->level == level ? best : NULL;
}

/* Bytes and times go with plain numbers and their like. */
static bool is_comparable(enum kind a, enum kind b)
{
	if (!is_number(a) || !is_number(b))
		return a == b;
	return !((a == IS_BYTES && b == IS_TIME) || (a == IS_TIME && b == IS_BYTES));
}

static int combine_operands(struct filter *f, const struct rule *op, struct operand *a,
			    const struct operand *b)
{
	bool is_signed = a->kind == IS_SIGNED || b->kind == IS_SIGNED;

	if (op->sort == OF_CONDITIONS) {
		const struct operand *wrong = a->kind != IS_CONDITION ? a : b;

		if (wrong->kind != IS_CONDITION)
			return probefile_set_fault(
				f->fault, wrong->at,
				"%s needs conditions on both sides, and this is %s (compare it with something)",
				op->text, kind_names[wrong->kind]);
	} else if (!is_comparable(a->kind, b->kind)) {
		return probefile_set_fault(f->fault, b->at, "%s cannot be compared with %s",
					   kind_names[b->kind], kind_names[a->kind]);
	} else if (op->sort != OF_EQUALITY && !is_number(a->kind)) {
		return probefile_set_fault(f->fault, a->at, "%s is for numbers, and this is %s",
					   op->text, kind_names[a->kind]);
	}
	emit_op(f, is_signed && op->signed_code ? op->signed_code : op->code, 0, 0, -1);
	if (op->sort != OF_NUMBERS)
		a->kind = IS_CONDITION;
	else if (is_signed)
		a->kind = IS_SIGNED;
	else if (a->kind == IS_NUMBER)
		a->kind = b->kind;
	return 0;
}

static int parse_level(struct filter *f, unsigned level, struct operand *o)
{
	const struct rule *op;
	int r;

	if (level == N_LEVELS)
		return parse_unary(f, o);
	r = parse_level(f, level + 1, o);
	for (skip_spaces(f); r == 0 && (op = rule_here(f, level)) != NULL; skip_spaces(f)) {
		struct operand right;

		f->at += strlen(op->text);
		r = parse_level(f, level + 1, &right);
		if (r == 0)
			r = combine_operands(f, op, o, &right);
	}
	return r;
}

int probefile_parse_filter(const char *text, struct gs_user_spec *spec, struct fault *fault)
{
	struct filter f = {.text = text, .at = text, .spec = spec, .fault = fault};
	struct operand o;
	int r = parse_level(&f, 0, &o);

	if (r < 0)
		return r;
	if (*f.at)
		return probefile_set_fault(fault, offset_of(&f), "\"%s\" is not understood here%s",
					   f.at, *f.at == '=' ? " (== compares)" : "");
	if (o.kind != IS_CONDITION)
		return probefile_set_fault(fault, o.at, "a filter is a condition, and this is %s",
					   kind_names[o.kind]);
	if (f.n_ops > GS_USER_OP_MAX)
		return probefile_set_fault(
			fault, 0, "the filter is too complex for the kernel: %u steps, at most %d",
			f.n_ops, GS_USER_OP_MAX);
	if (f.most_waiting > GS_USER_STACK_MAX)
		return probefile_set_fault(
			fault, 0,
			"the filter is too complex for the kernel: it stacks %u operands, at most %d (use fewer parentheses on the right)",
			f.most_waiting, GS_USER_STACK_MAX);
	spec->row.n_ops = (uint8_t)f.n_ops;
	return 0;
}

/* --- aggregates --- */

int probefile_parse_aggregate(const char *text, struct gs_user_spec *spec, struct fault *fault)
{
	bool is_sum = strncmp(text, "sum(", 4) == 0, is_hist = strncmp(text, "hist(", 5) == 0;
	size_t at = is_sum ? 4 : 5, n = strcspn(text + (is_sum || is_hist ? at : 0), ")");
	struct gs_user_row *row = &spec->row;
	char known[300];
	int i;

	row->aggregate_value = GS_USER_NONE;
	if (strcmp(text, "count") == 0) {
		row->aggregate = GS_AGGREGATE_COUNT;
		return 0;
	}
	if ((!is_sum && !is_hist) || strcmp(text + at + n, ")") != 0)
		return probefile_set_fault(
			fault, 0,
			"\"%s\" is not an aggregate: count, sum(VALUE), hist(VALUE) or hist(duration)",
			text);
	if (is_hist && n == 8 && memcmp(text + at, "duration", n) == 0) {
		if (!probefile_want_return(spec))
			return probefile_set_fault(
				fault, at,
				"duration needs the return, which this probe does not see");
		row->aggregate = GS_AGGREGATE_HIST_DURATION;
		return 0;
	}
	i = probefile_find_value(spec, text + at, n);
	if (i < 0) {
		probefile_list_values(spec, known, sizeof(known));
		return probefile_set_fault(fault, at, "no value is named \"%.*s\": there are %s",
					   (int)n, text + at, known);
	}
	if (row->values[i].value_type == GS_VALUE_STR || row->values[i].value_type == GS_VALUE_F64)
		return probefile_set_fault(
			fault, at, "%s is %s: only whole numbers can be added up",
			spec->names[i].name,
			row->values[i].value_type == GS_VALUE_STR ? "a string"
								  : "a floating-point number");
	row->aggregate = is_sum ? GS_AGGREGATE_SUM : GS_AGGREGATE_HIST;
	row->aggregate_value = (uint8_t)i;
	return 0;
}
