/*
 * Names as demanglers print them:
 *
 *	void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_128x64>(cutlass_80...::Params)
 *	void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, ...>(int, ...)
 *
 * They are cut where brackets of all kinds are closed. Texts are of others: nesting is bounded, and a
 * bracket that is never closed ends the text.
 */
#include "sources/cubin/short_name.h"

#include <stdbool.h>
#include <string.h>

#define MOST_LEVELS    2 /* of template arguments that are shown */
#define MOST_ARGUMENTS 3
#define ANONYMOUS      "(anonymous namespace)"

struct span {
	const char *at, *end;
};

struct text {
	char *out;
	size_t n;
};

static void append_text(struct text *t, const char *from, size_t bytes)
{
	size_t left = GS_KERNEL_SHORT_BYTES - 1 - t->n;

	if (bytes > left)
		bytes = left;
	memcpy(t->out + t->n, from, bytes);
	t->n += bytes;
	t->out[t->n] = '\0';
}

static bool begins_with(const char *at, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - at) >= n && memcmp(at, word, n) == 0;
}

static bool is_open(char c)
{
	return c == '<' || c == '(' || c == '[' || c == '{';
}

static bool is_close(char c)
{
	return c == '>' || c == ')' || c == ']' || c == '}';
}

/* After the bracket that closes the one at p. */
static const char *pass_group(const char *p, const char *end)
{
	size_t depth = 0;

	for (; p < end; p++) {
		if (is_open(*p))
			depth++;
		else if (is_close(*p) && p[-1] != '-' && --depth == 0)
			return p + 1;
	}
	return end;
}

/* Where the arguments begin: the first '(' that belongs to no name. */
static const char *find_arguments(struct span s)
{
	for (const char *p = s.at; p < s.end; p++) {
		if (*p == '(' && !begins_with(p, s.end, ANONYMOUS) &&
		    !(p - s.at >= 8 && memcmp(p - 8, "operator", 8) == 0))
			return p;
		if (is_open(*p))
			p = pass_group(p, s.end) - 1;
	}
	return s.end;
}

/* The last part of a qualified name, without the type before it. */
static struct span last_part(struct span s)
{
	struct span last = s;

	for (const char *p = s.at; p < s.end; p++) {
		if (is_open(*p))
			p = pass_group(p, s.end) - 1;
		else if (*p == ' ' && p + 1 < s.end)
			last.at = p + 1;
		else if (begins_with(p, s.end, "::") && p + 2 < s.end)
			last.at = p + 2;
	}
	return last;
}

static struct span trim_span(struct span s)
{
	while (s.at < s.end && *s.at == ' ')
		s.at++;
	while (s.at < s.end && s.end[-1] == ' ')
		s.end--;
	return s;
}

/* The template argument that begins at s->at, up to the comma after it, which is passed. */
static struct span take_argument(struct span *s)
{
	struct span argument = {s->at, s->end};
	const char *p = s->at;

	while (p < s->end && *p != ',')
		p = is_open(*p) ? pass_group(p, s->end) : p + 1;
	argument.end = p;
	s->at = p < s->end ? p + 1 : p;
	return trim_span(argument);
}

/* "(unsigned int)4" is 4. */
static struct span pass_cast(struct span s)
{
	if (s.at < s.end && *s.at == '(' && !begins_with(s.at, s.end, ANONYMOUS)) {
		const char *p = pass_group(s.at, s.end);

		if (p < s.end)
			s.at = p;
	}
	return s;
}

/* Basic types of several words, and what is said of a type after it, stay as they are. */
static struct span type_part(struct span s)
{
	static const char *const words[] = {"unsigned ", "signed ", "long ", "short "};
	struct span part;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (begins_with(s.at, s.end, words[i]))
			return s;
	while (s.end - s.at > 6 && memcmp(s.end - 6, " const", 6) == 0)
		s.end -= 6;
	part = last_part(s);
	return part.at < part.end ? part : s;
}

/* What is between the bracket at group and its end. */
static struct span inside_group(const char *group, const char *end)
{
	struct span inside = {group + 1, pass_group(group, end)};

	if (inside.end > inside.at && inside.end[-1] == '>')
		inside.end--;
	return inside;
}

static void append_arguments(struct text *t, struct span inside, unsigned level);

static void append_name(struct text *t, struct span s, unsigned level)
{
	const char *group = s.at;

	while (group < s.end && *group != '<')
		group++;
	append_text(t, s.at, (size_t)(group - s.at));
	if (group < s.end && level < MOST_LEVELS)
		append_arguments(t, inside_group(group, s.end), level + 1);
}

static void append_type(struct text *t, struct span s, unsigned level)
{
	s = pass_cast(s);
	/* A lambda is named by the function that it stands in. */
	s.end = find_arguments(s);
	append_name(t, type_part(trim_span(s)), level);
}

static void append_arguments(struct text *t, struct span inside, unsigned level)
{
	append_text(t, "<", 1);
	for (unsigned i = 0; inside.at < inside.end; i++) {
		struct span argument = take_argument(&inside);

		if (i)
			append_text(t, ", ", 2);
		if (i == MOST_ARGUMENTS) {
			append_text(t, "...", 3);
			break;
		}
		append_type(t, argument, level);
	}
	append_text(t, ">", 1);
}

/* Kernels that only call their template argument. */
static bool is_wrapper(struct span s)
{
	static const char *const names[] = {"Kernel<", "Kernel2<", "device_kernel<"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (begins_with(s.at, s.end, names[i]))
			return true;
	return false;
}

/* Triton up to 2.x put after a name what it had found of each argument: _0d1d2de3c. */
static size_t bytes_without_signature(const char *name, size_t bytes)
{
	size_t at = bytes;
	bool says_divisible = false;

	while (at > 0 && ((name[at - 1] >= '0' && name[at - 1] <= '9') || name[at - 1] == 'd' ||
			  name[at - 1] == 'e' || name[at - 1] == 'c')) {
		at--;
		says_divisible |= name[at] == 'd';
	}
	return at > 1 && name[at - 1] == '_' && says_divisible && name[at] >= '0' && name[at] <= '9'
		       ? at - 1
		       : bytes;
}

void gs_kernel_short_name(const char *name, char ret_short[GS_KERNEL_SHORT_BYTES])
{
	struct span s = {name, name + strlen(name)}, base;
	struct text t = {.out = ret_short};

	ret_short[0] = '\0';
	if (!strpbrk(name, "<( ")) {
		append_text(&t, name, bytes_without_signature(name, strlen(name)));
		return;
	}
	s.end = find_arguments(s);
	base = last_part(trim_span(s));
	if (is_wrapper(base)) {
		struct span inside = inside_group(strchr(base.at, '<'), base.end);

		append_type(&t, take_argument(&inside), MOST_LEVELS);
	} else {
		append_name(&t, base, 0);
	}
	if (!t.n)
		append_text(&t, name, strlen(name));
}
