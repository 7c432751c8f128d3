/*
 * Parsing of command lines by tables of options (options.h). getopt_long() finds the options; this
 * file makes its table, converts arguments, and says what is wrong.
 */
#include "commands/common/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/near/near.h"
#include "commands/common/cli.h"

#define OPTIONS_MAX 96
#define KEY_HELP    'h'
#define KEY_VERSION 'V'
#define KEY_ALL     1   /* --help-all */
#define KEY_ROW     256 /* and the number of the row */
#define NS_PER_S    1000000000ull
#define PIECE_ENDS  ",=+" /* "launch,slow-op=1ms", "native,at=launch+copy" */

/* What getopt_long() is given. */
struct parse {
	const struct gs_cli_command *command;
	struct option longs[OPTIONS_MAX + 4];
	char shorts[2 * OPTIONS_MAX + 8];
	bool is_given[OPTIONS_MAX];
	size_t n_rows;
};

const struct gs_cli_option *gs_cli_option_at(const struct gs_cli_command *command, size_t i,
					     const struct gs_cli_group **ret_group)
{
	const struct gs_cli_option *o = command->options;

	*ret_group = NULL;
	for (size_t g = 0;; g++) {
		for (; o && (o->name || o->help); o++)
			if (o->name && i-- == 0)
				return o;
		if (g == GS_CLI_GROUPS || !command->groups[g].title)
			return NULL;
		*ret_group = &command->groups[g];
		o = command->groups[g].options;
	}
}

int gs_cli_find_subcommand(const struct gs_cli_command *command, const char *name)
{
	const struct gs_cli_subcommand *s;

	for (size_t i = 0; (s = command->subcommand_at(i)) != NULL; i++)
		if (strcmp(name, s->name) == 0)
			return (int)i;
	return -1;
}

int gs_cli_refuse_subcommand(const struct gs_cli_command *command, const char *word,
			     struct gs_err *err)
{
	const struct gs_cli_subcommand *s;
	struct gs_near near;
	char names[200];

	gs_near_init(&near, word);
	for (size_t i = 0; (s = command->subcommand_at(i)) != NULL; i++)
		gs_near_add(&near, s->name);
	if (near.name)
		return gs_err_set(err, -EINVAL, "no command \"%s\"; did you mean \"%s\"?", word,
				  near.name);
	return gs_err_set(err, -EINVAL, "no command \"%s\"; the commands are %s", word,
			  gs_cli_list_subcommands(command, names, sizeof(names)));
}

const char *gs_cli_list_subcommands(const struct gs_cli_command *command, char *out, size_t bytes)
{
	const struct gs_cli_subcommand *s;
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; n < bytes && (s = command->subcommand_at(i)) != NULL; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%s",
				      i == 0                          ? ""
				      : command->subcommand_at(i + 1) ? ", "
								      : " or ",
				      s->name);
	return out;
}

int gs_cli_usage_error(const struct gs_cli_command *command, const char *text)
{
	fprintf(stderr, "%s: %s\n", command->name, text);
	return GS_EXIT_USAGE;
}

bool gs_cli_has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *w = words, *end; *w; w = *end ? end + 1 : end) {
		end = strchrnul(w, ' ');
		if ((size_t)(end - w) == n && strncmp(w, word, n) == 0)
			return true;
	}
	return false;
}

/* --- conversion --- */

static void format_time(char *out, size_t bytes, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S}, {"s", NS_PER_S},
		     {"ms", 1000000},        {"us", 1000},         {"ns", 1}};
	size_t u = 0;

	while (ns % units[u].ns != 0)
		u++;
	snprintf(out, bytes, "%llu%s", (unsigned long long)(ns / units[u].ns), units[u].name);
}

static void format_bytes(char *out, size_t bytes, uint64_t n)
{
	static const char units[] = "\0KMG";
	size_t u = 0;

	for (; n && n % 1024 == 0 && u < 3; u++)
		n /= 1024;
	snprintf(out, bytes, "%llu%.1s", (unsigned long long)n, &units[u]);
}

/* "from 1 to 9" of a row with limits. */
static void format_range(const struct gs_cli_option *o, char *out, size_t bytes)
{
	char min[32], max[32];

	if (o->kind == GS_CLI_TIME) {
		format_time(min, sizeof(min), o->min);
		format_time(max, sizeof(max), o->max);
	} else if (o->kind == GS_CLI_BYTES) {
		format_bytes(min, sizeof(min), o->min);
		format_bytes(max, sizeof(max), o->max);
	} else {
		snprintf(min, sizeof(min), "%llu", (unsigned long long)o->min);
		snprintf(max, sizeof(max), "%llu", (unsigned long long)o->max);
	}
	if (o->min && o->max)
		snprintf(out, bytes, " from %s to %s", min, max);
	else if (o->min)
		snprintf(out, bytes, " of at least %s", min);
	else if (o->max)
		snprintf(out, bytes, " up to %s", max);
	else
		out[0] = '\0';
}

/* "a, b or c" of "a b c". */
static void join_words(const char *words, const char *before, char *out, size_t bytes)
{
	size_t n = (size_t)snprintf(out, bytes, "%s", before);

	for (const char *w = words, *end; *w && n < bytes; w = *end ? end + 1 : end) {
		end = strchrnul(w, ' ');
		n += (size_t)snprintf(out + n, bytes - n, "%s%.*s",
				      w == words     ? ""
				      : *end == '\0' ? " or "
						     : ", ",
				      (int)(end - w), w);
	}
}

/* What an option takes, in words. */
static void describe_value(const struct gs_cli_option *o, char *out, size_t bytes)
{
	char range[80];

	format_range(o, range, sizeof(range));
	if (o->takes)
		snprintf(out, bytes, "%s", o->takes);
	else if (o->words)
		join_words(o->words, o->kind == GS_CLI_LIST ? "one or more of " : "", out, bytes);
	else if (o->kind == GS_CLI_TIME)
		snprintf(out, bytes, "a time%s, such as 2 (seconds) or 500ms", range);
	else if (o->kind == GS_CLI_BYTES)
		snprintf(out, bytes, "a size%s, such as 256M", range);
	else if (o->kind == GS_CLI_COUNT)
		snprintf(out, bytes, "a number%s", range);
	else
		snprintf(out, bytes, "%s", o->argument ? o->argument : "no argument");
}

static bool is_in_range(const struct gs_cli_option *o, uint64_t n)
{
	return n >= o->min && (!o->max || n <= o->max);
}

static int set_count(const struct gs_cli_option *o, const char *argument, void *at)
{
	char *end;
	unsigned long long n;
	unsigned value;

	errno = 0;
	n = strtoull(argument, &end, 10);
	if (argument[0] < '0' || argument[0] > '9' || *end || errno || n > UINT_MAX ||
	    !is_in_range(o, n))
		return -EINVAL;
	value = (unsigned)n;
	memcpy(at, &value, sizeof(value));
	return 0;
}

static int set_quantity(const struct gs_cli_option *o, const char *argument, void *at)
{
	uint64_t n;
	int r = o->kind == GS_CLI_TIME ? gs_parse_ns(argument, NS_PER_S, &n)
				       : gs_parse_bytes(argument, &n);

	if (r < 0 || !is_in_range(o, n))
		return -EINVAL;
	memcpy(at, &n, sizeof(n));
	return 0;
}

static int set_word(const struct gs_cli_option *o, const char *argument, void *at)
{
	size_t length = strlen(argument);
	unsigned i = 0;

	for (const char *w = o->words, *end; *w; w = *end ? end + 1 : end, i++) {
		end = strchrnul(w, ' ');
		if ((size_t)(end - w) == length && strncmp(w, argument, length) == 0) {
			memcpy(at, &i, sizeof(i));
			return 0;
		}
	}
	return -EINVAL;
}

static int set_list(const struct gs_cli_option *o, char *argument, void *target, struct gs_err *err)
{
	char *save = NULL;
	int r = -EINVAL;

	for (char *w = strtok_r(argument, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		r = o->set(target, o, w, err);
		if (r < 0)
			break;
	}
	return r;
}

static int set_value(const struct gs_cli_option *o, char *argument, char *target,
		     struct gs_err *err)
{
	void *at = target + o->offset;

	switch (o->kind) {
	case GS_CLI_FLAG:
		*(bool *)at = true;
		return 0;
	case GS_CLI_BITS:
		*(unsigned *)at |= o->data;
		return 0;
	case GS_CLI_TEXT:
		memcpy(at, &argument, sizeof(argument));
		return 0;
	case GS_CLI_TIME:
	case GS_CLI_BYTES:
		return set_quantity(o, argument, at);
	case GS_CLI_COUNT:
		return set_count(o, argument, at);
	case GS_CLI_WORD:
		return set_word(o, argument, at);
	case GS_CLI_LIST:
		return argument ? set_list(o, argument, target, err) : o->set(target, o, NULL, err);
	default:
		return o->set(target, o, argument, err);
	}
}

/* The row of this name, which is there. */
static size_t row_of_name(const struct gs_cli_command *command, const char *name, size_t bytes)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o;
	size_t i = 0;

	while ((o = gs_cli_option_at(command, i, &group)) != NULL &&
	       (strlen(o->name) != bytes || strncmp(o->name, name, bytes) != 0))
		i++;
	return i;
}

static int take_option(const struct gs_cli_command *command, size_t row, char *argument,
		       void *target);

/* Another option with the argument that this one stands for. */
static int take_same(const struct gs_cli_command *command, const char *same_as, void *target)
{
	char *equals = strchr(same_as, '=');

	return take_option(command, row_of_name(command, same_as, (size_t)(equals - same_as)),
			   equals + 1, target);
}

/* Which of the words may be meant by a wrong argument, of pieces by the first wrong one; argument is
 * written to. Returns out. */
static const char *suggest_word(const char *all_words, char *argument, char *out, size_t bytes)
{
	struct gs_near near;
	char words[300], *save = NULL, *piece = argument;

	if (strpbrk(argument, PIECE_ENDS)) {
		piece = strtok_r(argument, PIECE_ENDS, &save);
		while (piece && gs_cli_has_word(all_words, piece))
			piece = strtok_r(NULL, PIECE_ENDS, &save);
	}
	gs_near_init(&near, piece ? piece : "");
	snprintf(words, sizeof(words), "%s", all_words);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		gs_near_add(&near, w);
	return gs_near_text(&near, out, bytes);
}

/* An argument of this option, which dashes and name call. at: its target. */
static int convert_argument(const struct gs_cli_command *command, const struct gs_cli_option *o,
			    const char *dashes, const char *name, char *argument, char *at)
{
	char takes[300], given[120], pieces[120], meant[80] = "";
	struct gs_err err = {{0}};

	snprintf(given, sizeof(given), "%s", argument ? argument : ""); /* set() may write to it */
	if (set_value(o, argument, at, &err) == 0)
		return 0;
	describe_value(o, takes, sizeof(takes));
	if (o->words || o->near_words) {
		snprintf(pieces, sizeof(pieces), "%s", given);
		suggest_word(o->near_words ? o->near_words : o->words, pieces, meant,
			     sizeof(meant));
	}
	if (!err.text[0])
		gs_err_set(&err, -EINVAL, "%s%s takes %s, not \"%s\"%s", dashes, name, takes, given,
			   meant);
	return gs_cli_usage_error(command, err.text);
}

static int take_option(const struct gs_cli_command *command, size_t row, char *argument,
		       void *target)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o = gs_cli_option_at(command, row, &group);
	char *at = (char *)target + (group ? group->offset : 0);
	int status;

	if (o->same_as)
		return take_same(command, o->same_as, target);
	status = convert_argument(command, o, "--", o->name, argument, at);
	if (status)
		return status;
	if (o->given)
		*(bool *)(at + o->given - 1) = true;
	if (command->used)
		*(unsigned *)((char *)target + command->used - 1) |= o->data;
	return 0;
}

/* --- the table for getopt_long() --- */

static void make_table(const struct gs_cli_command *command, struct parse *p)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o;
	char *s = p->shorts;

	p->command = command;
	if (command->stops_at_word)
		*s++ = '+';
	*s++ = ':';
	*s++ = KEY_HELP;
	*s++ = KEY_VERSION;
	for (; p->n_rows < OPTIONS_MAX && (o = gs_cli_option_at(command, p->n_rows, &group));
	     p->n_rows++) {
		int takes = !o->argument            ? no_argument
			    : o->argument[0] == '[' ? optional_argument
						    : required_argument;

		p->longs[p->n_rows] =
			(struct option){o->name, takes, NULL, KEY_ROW + (int)p->n_rows};
		if (!o->letter)
			continue;
		*s++ = o->letter;
		if (takes != no_argument)
			*s++ = ':';
		if (takes == optional_argument)
			*s++ = ':';
	}
	p->longs[p->n_rows] = (struct option){"help", no_argument, NULL, KEY_HELP};
	p->longs[p->n_rows + 1] = (struct option){"help-all", no_argument, NULL, KEY_ALL};
	p->longs[p->n_rows + 2] = (struct option){"version", no_argument, NULL, KEY_VERSION};
}

/* The row of what getopt_long() returned, n_rows for none. */
static size_t row_of_key(const struct parse *p, int key)
{
	const struct gs_cli_group *group;
	size_t i = key >= KEY_ROW ? (size_t)key - KEY_ROW : 0;

	for (; key < KEY_ROW && i < p->n_rows; i++)
		if (gs_cli_option_at(p->command, i, &group)->letter == key)
			break;
	return i;
}

/* --- what is wrong --- */

static const char *nearest_name(const struct parse *p, const char *word)
{
	const struct gs_cli_group *group;
	struct gs_near near;

	gs_near_init(&near, word);
	for (size_t i = 0; i < p->n_rows; i++)
		if (gs_cli_option_at(p->command, i, &group)->help)
			gs_near_add(&near, p->longs[i].name);
	return near.name;
}

/* Of a word that getopt_long() did not take: no such option, or the beginning of several. */
static int refuse_option(const struct parse *p, const char *word)
{
	char name[64], text[256];
	const char *near;
	size_t n, matches = 0;

	if (strncmp(word, "--", 2) != 0 || optopt > 0) {
		n = row_of_key(p, optopt);
		if (optopt > 0 && n < p->n_rows) /* --flag=ARGUMENT */
			snprintf(text, sizeof(text), "--%s takes no argument", p->longs[n].name);
		else
			snprintf(text, sizeof(text), "no option \"-%c\"; '%s --help' lists them",
				 optopt, p->command->name);
		return gs_cli_usage_error(p->command, text);
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	n = (size_t)snprintf(text, sizeof(text), "\"--%s\" may be", name);
	for (size_t i = 0; i < p->n_rows; i++)
		if (strncmp(p->longs[i].name, name, strlen(name)) == 0 && n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s --%s",
					      matches++ ? "," : "", p->longs[i].name);
	near = nearest_name(p, name);
	if (matches < 2 && near)
		snprintf(text, sizeof(text), "no option \"--%s\"; did you mean --%s?", name, near);
	else if (matches < 2)
		snprintf(text, sizeof(text), "no option \"--%s\"; '%s --help' lists them", name,
			 p->command->name);
	return gs_cli_usage_error(p->command, text);
}

static int refuse_without_argument(const struct parse *p)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o = gs_cli_option_at(p->command, row_of_key(p, optopt), &group);
	char takes[300], text[400];

	describe_value(o, takes, sizeof(takes));
	snprintf(text, sizeof(text), "--%s takes %s", o->name, takes);
	return gs_cli_usage_error(p->command, text);
}

/* --- words and checks --- */

/* What the environment gives, of options that were not given. */
static int take_environment(const struct parse *p, void *target)
{
	const struct gs_cli_group *group;
	int status = 0;

	for (size_t i = 0; i < p->n_rows && status == 0; i++) {
		const struct gs_cli_option *o = gs_cli_option_at(p->command, i, &group);
		char *value = o->env && !p->is_given[i] ? getenv(o->env) : NULL;

		if (value && *value)
			status = convert_argument(p->command, o, "", o->env, value,
						  (char *)target + (group ? group->offset : 0));
	}
	return status;
}

static int take_words(const struct gs_cli_command *command, int argc, char **argv, void *target)
{
	struct gs_err err = {{0}};
	int r = 0;

	if (optind < argc && !command->take_word) {
		gs_err_set(&err, -EINVAL, "unexpected argument \"%s\"; only options are accepted",
			   argv[optind]);
		return gs_cli_usage_error(command, err.text);
	}
	for (int i = optind; i < argc && r == 0; i = command->stops_at_word ? argc : i + 1)
		r = command->take_word(target, argv + i, &err);
	return r < 0 ? gs_cli_usage_error(command, gs_err_text(&err, r)) : 0;
}

static int check_together(const struct gs_cli_command *command, void *target)
{
	struct gs_err err = {{0}};
	int r = 0;

	for (size_t g = 0; r == 0 && g < GS_CLI_GROUPS && command->groups[g].title; g++)
		if (command->groups[g].check)
			r = command->groups[g].check((char *)target + command->groups[g].offset,
						     &err);
	if (r == 0 && command->check)
		r = command->check(target, &err);
	return r < 0 ? gs_cli_usage_error(command, gs_err_text(&err, r)) : 0;
}

bool gs_cli_parse(const struct gs_cli_command *command, int argc, char **argv, void *target,
		  int *ret_status)
{
	struct parse p = {.command = NULL};
	int key, status = 0;

	make_table(command, &p);
	opterr = 0;
	optind = 0; /* start over, also with '+' (glibc) */
	while (status == 0 && (key = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
		switch (key) {
		case KEY_HELP:
		case KEY_ALL:
			gs_cli_print_help(command, key == KEY_ALL, stdout);
			*ret_status = GS_EXIT_DONE;
			return false;
		case KEY_VERSION:
			puts("gpuscope " GS_VERSION);
			*ret_status = GS_EXIT_DONE;
			return false;
		case ':':
			status = refuse_without_argument(&p);
			break;
		case '?':
			status = refuse_option(&p, argv[optind - 1]);
			break;
		default:
			p.is_given[row_of_key(&p, key)] = true;
			status = take_option(command, row_of_key(&p, key), optarg, target);
		}
	}
	if (status == 0)
		status = take_environment(&p, target);
	if (status == 0)
		status = take_words(command, argc, argv, target);
	if (status == 0)
		status = check_together(command, target);
	*ret_status = status;
	return status == 0;
}
