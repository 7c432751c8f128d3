/* --help of a command, from its table of options. */
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

static void print_options(FILE *out, const struct gs_cli_option *o)
{
	for (; o && (o->name || o->help); o++) {
		if (o->name)
			print_option(out, o);
		else
			fprintf(out, "\n %s\n", o->help);
	}
}

void gs_cli_print_help(const struct gs_cli_command *command, FILE *out)
{
	static const struct gs_cli_option common[] = {
		{.name = "help", .letter = 'h', .help = "print this help"},
		{.name = "version", .letter = 'V', .help = "print the version"},
		GS_CLI_END};
	const char *usage = command->usage ? command->usage : "";
	bool has_titles = command->options && !command->options[0].name;

	for (bool first = true; first || *usage; first = false) {
		size_t n = strcspn(usage, "\n");

		fprintf(out, "%s %s [OPTION...]%s%.*s\n",
			first ? "Usage:" : "  or: ", command->name, n ? " " : "", (int)n, usage);
		usage += n + (usage[n] == '\n');
	}
	print_wrapped(out, command->about, 0);
	if (command->subcommand_at)
		print_subcommands(out, command);
	if (!has_titles)
		putc('\n', out);
	print_options(out, command->options);
	for (size_t g = 0; g < GS_CLI_GROUPS && command->groups[g].title; g++) {
		fprintf(out, "\n %s\n", command->groups[g].title);
		print_options(out, command->groups[g].options);
	}
	putc('\n', out);
	print_options(out, common);
	if (command->notes) {
		putc('\n', out);
		print_wrapped(out, command->notes, 0);
	}
}
