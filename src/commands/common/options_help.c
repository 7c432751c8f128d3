/* --help and --help-all of a command, from its table of options. */
#include <string.h>

#include "core/base/mem.h"
#include "commands/common/options.h"

#define COLUMNS 79
#define HELP_AT 30 /* the column where help begins */

/* Text from this column on, wrapped at spaces; each line of the text is one. */
static void print_wrapped(FILE *out, const char *text, size_t indent)
{
	size_t column = indent;

	for (const char *w = text, *end; *w; w = *end ? end + 1 : end) {
		end = w + strcspn(w, " \n");
		if (*w == ' ' && column == indent) /* an example, as it stands */
			end = w + strcspn(w, "\n");
		if (column > indent && column + 1 + (size_t)(end - w) > COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		column += (size_t)fprintf(out, "%s%.*s", column > indent ? " " : "", (int)(end - w),
					  w);
		if (*end == '\n') {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
	}
	putc('\n', out);
}

static void print_option(FILE *out, const struct gs_cli_option *o)
{
	char names[80], letter[8] = "   ";
	const char *argument = o->argument ? o->argument : "";
	int n;

	if (!o->help)
		return;
	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c,", o->letter);
	n = snprintf(names, sizeof(names), "  %s --%s%s%s%s", letter, o->name,
		     argument[0] == '[' ? "[="
		     : argument[0]      ? "="
					: "",
		     argument[0] == '[' ? argument + 1 : argument, "");
	fputs(names, out);
	if (n > HELP_AT - 2) {
		putc('\n', out);
		n = 0;
	}
	fprintf(out, "%*s", HELP_AT - n, "");
	print_wrapped(out, o->help, HELP_AT);
}

static void print_subcommands(FILE *out, const struct gs_cli_command *command)
{
	const struct gs_cli_subcommand *s;

	fputs("\n Commands:\n", out);
	for (size_t i = 0; (s = command->subcommand_at(i)) != NULL; i++) {
		int n = fprintf(out, "  %s%s%s", s->name, s->args[0] ? " " : "", s->args);

		if (n > HELP_AT - 2) {
			putc('\n', out);
			n = 0;
		}
		fprintf(out, "%*s", HELP_AT - n, "");
		print_wrapped(out, s->help, HELP_AT);
	}
}

/* brief: the names of those that are shown, without titles; NULL: all. */
static void print_options(FILE *out, const struct gs_cli_option *o, const char *brief)
{
	for (; o && (o->name || o->help); o++) {
		if (o->name && (!brief || gs_cli_has_word(brief, o->name)))
			print_option(out, o);
		else if (!o->name && !brief)
			fprintf(out, "\n %s\n", o->help);
	}
}

static void print_usage(FILE *out, const struct gs_cli_command *command)
{
	const char *usage = command->usage ? command->usage : "";

	for (bool first = true; first || *usage; first = false) {
		size_t n = strcspn(usage, "\n");

		fprintf(out, "%s %s [OPTION...]%s%.*s\n",
			first ? "Usage:" : "  or: ", command->name, n ? " " : "", (int)n, usage);
		usage += n + (usage[n] == '\n');
	}
}

void gs_cli_print_help(const struct gs_cli_command *command, bool all, FILE *out)
{
	static const struct gs_cli_option common[] = {
		{.name = "help", .letter = 'h', .help = "print a short help"},
		{.name = "help-all", .help = "print all options"},
		{.name = "version", .letter = 'V', .help = "print the version"},
		GS_CLI_END};
	const char *brief = all ? NULL : command->brief;
	bool has_titles = command->options && !command->options[0].name && !brief;

	print_usage(out, command);
	print_wrapped(out, command->about, 0);
	if (command->subcommand_at)
		print_subcommands(out, command);
	if (!has_titles)
		putc('\n', out);
	print_options(out, command->options, brief);
	for (size_t g = 0; g < GS_CLI_GROUPS && command->groups[g].title; g++) {
		if (!brief)
			fprintf(out, "\n %s\n", command->groups[g].title);
		print_options(out, command->groups[g].options, brief);
	}
	if (brief) {
		const char *word = strchr(command->name, ' ');

		fprintf(out, "\nAll options: `%s --help-all`. Manual: `gpuscope help%s`.\n",
			command->name, word ? word : "");
		return;
	}
	putc('\n', out);
	print_options(out, common, NULL);
	if (command->notes) {
		putc('\n', out);
		print_wrapped(out, command->notes, 0);
	}
}
