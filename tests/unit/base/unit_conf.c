#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/conf.h"
#include "core/base/conf_int.h"

struct whole {
	struct {
		bool on;
		int64_t number;
		uint64_t time_ns;
	} a;
	struct {
		double ratio;
		char text[8];
		int choice;
	} b;
	struct {
		int64_t number;
	} inner;
};

static const char *const colours[] = {"red", "green", NULL};

static bool starts_with_x(const char *text)
{
	return text[0] == 'x';
}

#define AT(section, field) offsetof(__typeof__(((struct whole *)0)->section), field)

static const struct gs_conf_key a_keys[] = {
	{.name = "on",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(a, on),
	 .preset = "true",
	 .comment = "On."},
	{.name = "number",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(a, number),
	 .preset = "7",
	 .comment = "Two\nlines.",
	 .min = -5,
	 .max = 10},
	{.name = "time",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(a, time_ns),
	 .preset = "2s",
	 .comment = "",
	 .min = 1000000,
	 .max = 3600000000000},
};
static const struct gs_conf_key b_keys[] = {
	{.name = "ratio",
	 .kind = GS_CONF_RATIO,
	 .offset = AT(b, ratio),
	 .preset = "25%",
	 .comment = ""},
	{.name = "text",
	 .kind = GS_CONF_TEXT,
	 .offset = AT(b, text),
	 .preset = "",
	 .comment = "",
	 .bytes = 8,
	 .valid = starts_with_x,
	 .expects = "an x"},
	{.name = "choice",
	 .kind = GS_CONF_CHOICE,
	 .offset = AT(b, choice),
	 .preset = "green",
	 .comment = "",
	 .choices = colours},
};
static const struct gs_conf_key inner_keys[] = {
	{.name = "number",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(inner, number),
	 .preset = "1",
	 .comment = "",
	 .min = 0,
	 .max = 9},
};

static int check(const void *conf, const struct gs_conf_where *where, struct gs_err *err)
{
	const struct whole *w = conf;

	if (w->a.number == 9)
		return gs_conf_refuse(where, "a.number", err, "not nine");
	if (w->inner.number == 9)
		return gs_conf_refuse(where, "b.inner.number", err, "not %d", 9);
	if (!w->a.on && w->a.number == 0)
		return gs_conf_refuse(where, "a.time", err, "no time");
	return 0;
}

static const struct gs_conf_section sections[] = {
	{"a", "First.", offsetof(struct whole, a), a_keys, GS_ARRAY_LEN(a_keys)},
	{"b", "", offsetof(struct whole, b), b_keys, GS_ARRAY_LEN(b_keys)},
	{"b.inner", "Within.", offsetof(struct whole, inner), inner_keys, GS_ARRAY_LEN(inner_keys)},
};
static const struct gs_conf_schema schema = {
	"Head.", sizeof(struct whole), sections, GS_ARRAY_LEN(sections), check,
};

static struct whole parse(const char *text)
{
	struct gs_err err = {{0}};
	struct whole w;
	int r = gs_conf_parse(&schema, "f", text, strlen(text), &w, NULL, &err);

	if (r < 0)
		fail_msg("%s: %s", text, err.text);
	return w;
}

static void refuses(const char *text, const char *message)
{
	struct whole w, before;
	struct gs_err err = {{0}};

	memset(&w, 0x5a, sizeof(w));
	before = w;
	assert_int_equal(gs_conf_parse(&schema, "f", text, strlen(text), &w, NULL, &err), -EINVAL);
	assert_string_equal(err.text, message);
	assert_memory_equal(&w, &before, sizeof(w));
}

static void defaults_are_those_of_the_table(void **state)
{
	struct whole w, empty = parse(""), blank = parse("# only a comment\n"),
			bare = parse("a:\nb:\n");

	gs_conf_defaults(&schema, &w);
	assert_true(w.a.on);
	assert_int_equal(w.a.number, 7);
	assert_int_equal(w.a.time_ns, 2000000000);
	assert_float_equal(w.b.ratio, 0.25, 0);
	assert_string_equal(w.b.text, "");
	assert_int_equal(w.b.choice, 1);
	assert_memory_equal(&w, &empty, sizeof(w));
	assert_memory_equal(&w, &blank, sizeof(w));
	assert_memory_equal(&w, &bare, sizeof(w));
}

static void every_kind_is_read(void **state)
{
	struct whole w =
		parse("a: {on: No, number: -5, time: 1.5ms}\n"
		      "b:\n  ratio: .5\n  text: xäö\n  choice: red\n  inner:\n    number: 3\n");

	assert_false(w.a.on);
	assert_int_equal(w.a.number, -5);
	assert_int_equal(w.a.time_ns, 1500000);
	assert_float_equal(w.b.ratio, 0.5, 0);
	assert_string_equal(w.b.text, "xäö");
	assert_int_equal(w.b.choice, 0);
	assert_int_equal(w.inner.number, 3);
	assert_int_equal(parse("a: {time: 1h}").a.time_ns, 3600000000000);
	/* An alias is what it stands for. */
	assert_int_equal(parse("a: {number: &n 3}\nb: {inner: {number: *n}}").inner.number, 3);
}

static void what_is_wrong_is_told_where_it_is(void **state)
{
	refuses("a:\n  number: 11\n",
		"f:2:11: number takes a whole number from -5 to 10, not \"11\"");
	refuses("a:\n  number: 1e1\n",
		"f:2:11: number takes a whole number from -5 to 10, not \"1e1\"");
	refuses("a: {number: 99999999999999999999}",
		"f:1:13: number takes a whole number from -5 to 10, not \"99999999999999999999\"");
	refuses("a: {number: }", "f:1:13: number takes a whole number from -5 to 10, not \"\"");
	refuses("a: {time: 5}",
		"f:1:11: time takes a duration from 1ms to 1h, such as 500ms, 2s or 1m, not \"5\"");
	refuses("a: {time: 0}",
		"f:1:11: time takes a duration from 1ms to 1h, such as 500ms, 2s or 1m, not \"0\"");
	refuses("a: {time: -1s}",
		"f:1:11: time takes a duration from 1ms to 1h, such as 500ms, 2s or 1m, not \"-1s\"");
	refuses("b: {ratio: nan}",
		"f:1:12: ratio takes a share from 0 to 1, or from 0% to 100%, not \"nan\"");
	refuses("b: {ratio: 101%}",
		"f:1:12: ratio takes a share from 0 to 1, or from 0% to 100%, not \"101%\"");
	refuses("b: {text: y}", "f:1:11: text takes an x, not \"y\"");
	refuses("b: {text: xxxxxxxx}", "f:1:11: text takes an x, not \"xxxxxxxx\"");
	refuses("b: {text: \"x\\0\"}", "f:1:11: text takes an x, not \"x?\"");
	refuses("b: {choice: 1}", "f:1:13: choice takes one of red, green, not \"1\"");
	refuses("b: {choise: red}", "f:1:5: unknown key \"choise\" in b; did you mean \"choice\"?");
	refuses("b: {inenr: {}}", "f:1:5: unknown key \"inenr\" in b; did you mean \"inner\"?");
	refuses("b:\n  inner:\n    nunber: 2\n",
		"f:3:5: unknown key \"nunber\" in b.inner; did you mean \"number\"?");
	refuses("c: 1", "f:1:1: unknown key \"c\"; `--print-config` shows all keys");
	refuses("a: {on: yes, on: no}", "f:1:14: a.on is given twice, first on line 1");
	refuses("a: {on: yes}\na: {on: no}", "f:2:1: a is given twice, first on line 1");
	refuses("b: {inner: 3}", "f:1:12: b.inner takes keys and values, not a single value");
	/* A mapping within itself: as deep as the tables go. */
	refuses("b: &b {inner: *b}",
		"f:1:8: unknown key \"inner\" in b.inner; `--print-config` shows all keys");
}

static char all_told[4096];
static unsigned n_told;

static void note(const char *text)
{
	size_t n = strlen(all_told);

	n_told++;
	snprintf(all_told + n, sizeof(all_told) - n, "%s\n", text);
}

static void everything_that_is_wrong_is_told(void **state)
{
	static const char text[] = "a:\n  number: 11\n  nonsense: 1\n  time: 1ms\nc: 1\n"
				   "b: {ratio: 7, inner: {number: x}, choice: red}\n";
	char many[40 * 16] = "";
	struct gs_err err = {{0}};
	struct whole w;

	all_told[0] = '\0';
	assert_int_equal(gs_conf_parse(&schema, "f", text, strlen(text), &w, note, &err), -EINVAL);
	assert_string_equal(all_told,
			    "f:2:11: number takes a whole number from -5 to 10, not \"11\"\n"
			    "f:3:3: unknown key \"nonsense\" in a; `--print-config` shows all "
			    "keys\n"
			    "f:5:1: unknown key \"c\"; `--print-config` shows all keys\n"
			    "f:6:12: ratio takes a share from 0 to 1, or from 0% to 100%, not "
			    "\"7\"\n");
	assert_non_null(strstr(err.text, "f:6:31: number takes"));

	/* A file that is none of ours is not gone through to its end. */
	for (int i = 0; i < 40; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "word%d: 1\n", i);
	n_told = 0;
	assert_int_equal(gs_conf_parse(&schema, "f", many, strlen(many), &w, note, &err), -EINVAL);
	assert_int_equal(n_told, 19);
	assert_non_null(strstr(err.text, "f:20:1: unknown key \"word19\""));
}

static void rules_over_several_keys_point_at_one(void **state)
{
	refuses("a:\n  number: 9\n", "f:2:3: not nine");
	refuses("b:\n  inner:\n    number: 9\n", "f:3:5: not 9");
	/* The key is not given: its section is. */
	refuses("b: {choice: red}\na: {on: false, number: 0}\n", "f:2:1: no time");
}

static void what_is_printed_is_read_back(void **state)
{
	struct gs_buf out = GS_BUF_INIT(1 << 16);
	struct gs_err err = {{0}};
	struct whole w, defaults;

	assert_int_equal(gs_conf_print(&schema, &out), 0);
	gs_conf_defaults(&schema, &defaults);
	assert_int_equal(gs_conf_parse(&schema, "f", out.data, out.bytes, &w, NULL, &err), 0);
	assert_memory_equal(&w, &defaults, sizeof(w));
	assert_int_equal(gs_buf_put(&out, "", 1), 0);
	assert_string_equal((char *)out.data,
			    "# Head.\n"
			    "\n"
			    "# First.\n"
			    "a:\n"
			    "  # On.\n"
			    "  on: true\n"
			    "  # Two\n"
			    "  # lines.\n"
			    "  # (a whole number from -5 to 10)\n"
			    "  number: 7\n"
			    "  # (a duration from 1ms to 1h, such as 500ms, 2s or 1m)\n"
			    "  time: 2s\n"
			    "\n"
			    "b:\n"
			    "  # (a share from 0 to 1, or from 0% to 100%)\n"
			    "  ratio: 25%\n"
			    "  text: \"\"\n"
			    "  # (one of red, green)\n"
			    "  choice: green\n"
			    "\n"
			    "  # Within.\n"
			    "  inner:\n"
			    "    # (a whole number from 0 to 9)\n"
			    "    number: 1\n");
	gs_buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_table),
		cmocka_unit_test(every_kind_is_read),
		cmocka_unit_test(what_is_wrong_is_told_where_it_is),
		cmocka_unit_test(everything_that_is_wrong_is_told),
		cmocka_unit_test(rules_over_several_keys_point_at_one),
		cmocka_unit_test(what_is_printed_is_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
