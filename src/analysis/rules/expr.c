/*
 * A recursive descent over the text that writes postfix code, and a small stack machine that runs
 * it. Both are bounded: GS_CODE_MAX steps, GS_NEST_MAX levels.
 */
#include "analysis/rules/expr.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define GS_CODE_MAX 256
#define GS_NEST_MAX 32

_Static_assert(GS_FIGURE_COUNT <= 64, "gs_expr_figures() has a bit for each");

enum op {
	OP_NUMBER,
	OP_FIGURE,
	OP_NEGATE,
	OP_NOT,
	OP_MUL,
	OP_DIV,
	OP_ADD,
	OP_SUB,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_EQ,
	OP_NE,
	OP_AND,
	OP_OR,
};

/* What a value is of: known by the end of a figure's name, by a number's unit. */
enum dimension {
	DIM_NONE,  /* a number without a unit: of anything */
	DIM_SCALE, /* K, M, G, T alone: of bytes and counts */
	DIM_PERCENT,
	DIM_RATIO,
	DIM_BYTES,
	DIM_TIME,
	DIM_COUNT, /* and all else */
};

struct step {
	enum op op;
	double number;
	unsigned figure;
	enum dimension dim; /* of numbers and figures */
};

struct gs_expr {
	size_t n;
	struct step code[GS_CODE_MAX];
};

struct parser {
	const char *text;
	const char *at;
	struct gs_expr *expr;
	unsigned depth;
	char figure[64]; /* the last one's name */
	gs_expr_find_fn find;
	struct gs_err *err;
	int r;
};

static void fail_parsing(struct parser *p, int code, const char *what)
{
	if (p->r == 0)
		p->r = gs_err_set(p->err, code, "\"%.200s\", column %zu: %s", p->text,
				  (size_t)(p->at - p->text) + 1, what);
}

static void emit_of(struct parser *p, enum op op, double number, unsigned figure,
		    enum dimension dim)
{
	if (p->r < 0)
		return;
	if (p->expr->n == GS_CODE_MAX) {
		fail_parsing(p, -E2BIG, "the expression is too long");
		return;
	}
	p->expr->code[p->expr->n++] = (struct step){op, number, figure, dim};
}

static void emit_op(struct parser *p, enum op op)
{
	emit_of(p, op, 0, 0, DIM_NONE);
}

static void skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

/* True when the operator stands here; it is passed over. A word must end where it ends. */
static bool take_token(struct parser *p, const char *token)
{
	size_t n = strlen(token);

	skip_blanks(p);
	if (strncmp(p->at, token, n) != 0)
		return false;
	if (isalpha((unsigned char)token[0]) &&
	    (isalnum((unsigned char)p->at[n]) || p->at[n] == '_'))
		return false;
	p->at += n;
	return true;
}

static double unit_factor(const char *word, size_t n, enum dimension *ret)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {
		{"%", 1},         {"B", 1},      {"K", 1024},      {"KB", 1e3},     {"KiB", 1024},
		{"M", 1 << 20},   {"MB", 1e6},   {"MiB", 1 << 20}, {"G", 1 << 30},  {"GB", 1e9},
		{"GiB", 1 << 30}, {"T", 0x1p40}, {"TB", 1e12},     {"TiB", 0x1p40}, {"us", 1e-6},
		{"ms", 1e-3},     {"s", 1},      {"min", 60},      {"h", 3600},     {"d", 86400},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
		if (strlen(units[i].unit) == n && strncmp(units[i].unit, word, n) == 0) {
			*ret = i == 0 ? DIM_PERCENT
			       : strchr("usmhd", word[0])
				       ? DIM_TIME
				       : (n == 1 && word[0] != 'B' ? DIM_SCALE : DIM_BYTES);
			return units[i].factor;
		}
	return 0;
}

static bool ends_with(const char *word, const char *end)
{
	size_t n = strlen(word), m = strlen(end);

	return n >= m && strcmp(word + n - m, end) == 0;
}

static enum dimension dimension_of(const char *figure)
{
	if (ends_with(figure, "_percent") || ends_with(figure, "_usage") ||
	    ends_with(figure, "_score"))
		return DIM_PERCENT;
	if (ends_with(figure, "_ratio"))
		return DIM_RATIO;
	if (ends_with(figure, "_bytes") || ends_with(figure, "_bytes_per_second") ||
	    ends_with(figure, "_bytes_per_operation"))
		return DIM_BYTES;
	return ends_with(figure, "_seconds") ? DIM_TIME : DIM_COUNT;
}

/* A comparison that could never be what was meant: of a percentage with bytes. */
static void check_units(struct parser *p, const struct step *a, const struct step *b)
{
	static const char *const is[] = {[DIM_PERCENT] = "is a percentage",
					 [DIM_RATIO] = "is a ratio, 0 to 1 (80% is 80)",
					 [DIM_BYTES] = "is in bytes",
					 [DIM_TIME] = "is in seconds",
					 [DIM_COUNT] = "is not of this unit"};
	enum dimension figure = a->op == OP_FIGURE ? a->dim : b->dim;
	enum dimension unit = a->op == OP_FIGURE ? b->dim : a->dim;
	char text[128];

	if ((a->op == OP_FIGURE) == (b->op == OP_FIGURE) || unit == DIM_NONE || unit == figure ||
	    (unit == DIM_SCALE && (figure == DIM_BYTES || figure == DIM_COUNT)))
		return;
	snprintf(text, sizeof(text), "%s %s", p->figure, is[figure]);
	fail_parsing(p, -EINVAL, text);
}

static void parse_number(struct parser *p)
{
	char *end;
	double v = strtod(p->at, &end), factor = 1;
	enum dimension dim = DIM_NONE;
	size_t n = 0;

	if (!isfinite(v) || end == p->at) {
		fail_parsing(p, -EINVAL, "not a number");
		return;
	}
	p->at = end;
	if (*p->at == '%')
		n = 1;
	else
		while (isalpha((unsigned char)p->at[n]))
			n++;
	if (n)
		factor = unit_factor(p->at, n, &dim);
	if (factor == 0) {
		fail_parsing(p, -EINVAL,
			     "not a unit: use %, B, KB, KiB, ... TiB, us, ms, s, min, h or d");
		return;
	}
	p->at += n;
	emit_of(p, OP_NUMBER, v * factor, 0, dim);
}

static void parse_name(struct parser *p)
{
	char word[64];
	size_t n = 0;
	int figure;

	while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
		n++;
	if (n >= sizeof(word)) {
		fail_parsing(p, -EINVAL, "no figure has such a long name");
		return;
	}
	memcpy(word, p->at, n);
	word[n] = '\0';
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
		emit_of(p, OP_NUMBER, word[0] == 't', 0, DIM_NONE);
		p->at += n;
		return;
	}
	figure = p->find(word);
	if (figure < 0) {
		fail_parsing(p, -EINVAL, "no figure has this name");
		return;
	}
	p->at += n;
	memcpy(p->figure, word, n + 1);
	emit_of(p, OP_FIGURE, 0, (unsigned)figure, dimension_of(word));
}

static void parse_either(struct parser *p);

static void parse_primary(struct parser *p)
{
	skip_blanks(p);
	if (p->r < 0)
		return;
	if (p->depth == GS_NEST_MAX) {
		fail_parsing(p, -E2BIG, "too many levels of brackets and signs");
		return;
	}
	p->depth++;
	if (take_token(p, "(")) {
		parse_either(p);
		if (!take_token(p, ")"))
			fail_parsing(p, -EINVAL, "a closing bracket is missing");
	} else if (take_token(p, "-")) {
		parse_primary(p);
		emit_op(p, OP_NEGATE);
	} else if (*p->at == '!' && p->at[1] != '=' && take_token(p, "!")) {
		parse_primary(p);
		emit_op(p, OP_NOT);
	} else if (isdigit((unsigned char)*p->at) || *p->at == '.') {
		parse_number(p);
	} else if (isalpha((unsigned char)*p->at) || *p->at == '_') {
		parse_name(p);
	} else {
		fail_parsing(p, -EINVAL,
			     *p->at ? "a figure or a number is expected here"
				    : "it ends where a figure or a number is expected");
	}
	p->depth--;
}

static void parse_product(struct parser *p)
{
	parse_primary(p);
	while (p->r == 0) {
		enum op op = take_token(p, "*") ? OP_MUL : take_token(p, "/") ? OP_DIV : OP_NUMBER;

		if (op == OP_NUMBER)
			return;
		parse_primary(p);
		emit_op(p, op);
	}
}

static void parse_sum(struct parser *p)
{
	parse_product(p);
	while (p->r == 0) {
		enum op op = take_token(p, "+") ? OP_ADD : take_token(p, "-") ? OP_SUB : OP_NUMBER;

		if (op == OP_NUMBER)
			return;
		parse_product(p);
		emit_op(p, op);
	}
}

static void parse_comparison(struct parser *p)
{
	static const struct {
		const char *token;
		enum op op;
	} ops[] = {{"<=", OP_LE}, {">=", OP_GE}, {"==", OP_EQ}, {"!=", OP_NE},
		   {"<", OP_LT},  {">", OP_GT},  {"=", OP_EQ}};

	size_t first = p->expr->n, second;

	parse_sum(p);
	second = p->expr->n;
	for (size_t i = 0; p->r == 0 && i < GS_ARRAY_LEN(ops); i++) {
		if (!take_token(p, ops[i].token))
			continue;
		parse_sum(p);
		if (p->r == 0 && second == first + 1 && p->expr->n == second + 1)
			check_units(p, &p->expr->code[first], &p->expr->code[second]);
		emit_op(p, ops[i].op);
		skip_blanks(p);
		if (p->r == 0 && *p->at && strchr("<>=!", *p->at))
			fail_parsing(p, -EINVAL, "one comparison at a time: join two by &&");
		return;
	}
}

/* The word takes a whole comparison, as in Python; the sign only what stands next to it, as in C.
 */
static void parse_negation(struct parser *p)
{
	unsigned n = 0;

	while (take_token(p, "not"))
		n++;
	parse_comparison(p);
	if (n)
		emit_op(p, OP_NOT);
	if (n && n % 2 == 0)
		emit_op(p, OP_NOT);
}

static void parse_both(struct parser *p)
{
	parse_negation(p);
	while (p->r == 0 && (take_token(p, "&&") || take_token(p, "and"))) {
		parse_negation(p);
		emit_op(p, OP_AND);
	}
}

static void parse_either(struct parser *p)
{
	parse_both(p);
	while (p->r == 0 && (take_token(p, "||") || take_token(p, "or"))) {
		parse_both(p);
		emit_op(p, OP_OR);
	}
}

int gs_expr_parse(const char *text, struct gs_expr **ret_expr, struct gs_err *err)
{
	return gs_expr_parse_names(text, gs_figure_by_key, ret_expr, err);
}

int gs_expr_parse_names(const char *text, gs_expr_find_fn find, struct gs_expr **ret_expr,
			struct gs_err *err)
{
	struct parser p = {.text = text, .at = text, .find = find, .err = err};

	p.expr = calloc(1, sizeof(*p.expr));
	if (!p.expr)
		return -ENOMEM;
	parse_either(&p);
	skip_blanks(&p);
	if (p.r == 0 && *p.at)
		fail_parsing(&p, -EINVAL, "an operator is expected here");
	if (p.r < 0) {
		gs_expr_free(&p.expr);
		return p.r;
	}
	*ret_expr = p.expr;
	return 0;
}

static bool is_condition(const struct gs_expr *e)
{
	const struct step *last = &e->code[e->n - 1];

	return last->op == OP_NOT || last->op >= OP_LT ||
	       (last->op == OP_NUMBER && e->n == 1 && (last->number == 0 || last->number == 1));
}

int gs_expr_want_condition(struct gs_expr **e, const char *text, struct gs_err *err)
{
	if (is_condition(*e))
		return 0;
	gs_expr_free(e);
	return gs_err_set(
		err, -EINVAL,
		"\"%.200s\" is a value, not a condition: compare it, as in \"memory_usage > 80\"",
		text);
}

void gs_expr_free(struct gs_expr **expr)
{
	free(*expr);
	*expr = NULL;
}

static double truth_of(double v)
{
	return isnan(v) ? NAN : v != 0;
}

static double compare_values(enum op op, double a, double b)
{
	if (isnan(a) || isnan(b))
		return NAN;
	switch (op) {
	case OP_LT:
		return a < b;
	case OP_LE:
		return a <= b;
	case OP_GT:
		return a > b;
	case OP_GE:
		return a >= b;
	case OP_EQ:
		return a == b;
	default:
		return a != b;
	}
}

static double combine_values(enum op op, double a, double b)
{
	switch (op) {
	case OP_MUL:
		return a * b;
	case OP_DIV:
		return b == 0 ? NAN : a / b;
	case OP_ADD:
		return a + b;
	case OP_SUB:
		return a - b;
	case OP_AND:
		a = truth_of(a);
		b = truth_of(b);
		return a == 0 || b == 0 ? 0 : isnan(a) || isnan(b) ? NAN : 1;
	case OP_OR:
		a = truth_of(a);
		b = truth_of(b);
		return a == 1 || b == 1 ? 1 : isnan(a) || isnan(b) ? NAN : 0;
	default:
		return compare_values(op, a, b);
	}
}

double gs_expr_value(const struct gs_expr *e, const struct gs_figures *f)
{
	return gs_expr_value_of(e, f->v);
}

double gs_expr_value_of(const struct gs_expr *e, const double *values)
{
	double stack[GS_CODE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < e->n; i++) {
		const struct step *s = &e->code[i];

		switch (s->op) {
		case OP_NUMBER:
			stack[n++] = s->number;
			break;
		case OP_FIGURE:
			stack[n++] = values[s->figure];
			break;
		case OP_NEGATE:
			stack[n - 1] = -stack[n - 1];
			break;
		case OP_NOT:
			stack[n - 1] = isnan(stack[n - 1]) ? NAN : stack[n - 1] == 0;
			break;
		default:
			n--;
			stack[n - 1] = combine_values(s->op, stack[n - 1], stack[n]);
		}
	}
	return stack[0];
}

uint64_t gs_expr_figures(const struct gs_expr *e)
{
	uint64_t set = 0;

	for (size_t i = 0; i < e->n; i++)
		if (e->code[i].op == OP_FIGURE)
			set |= 1ull << e->code[i].figure;
	return set;
}

size_t gs_expr_names(const struct gs_expr *e, unsigned *ret_names, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n && n < max; i++) {
		size_t k = 0;

		if (e->code[i].op != OP_FIGURE)
			continue;
		while (k < n && ret_names[k] != e->code[i].figure)
			k++;
		if (k == n)
			ret_names[n++] = e->code[i].figure;
	}
	return n;
}
