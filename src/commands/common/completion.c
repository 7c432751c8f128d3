/*
 * gpuscope completion SHELL: a script that completes command lines of gpuscope, from the tables of
 * options of all commands. `make install` puts one where each shell looks for it.
 *
 * A command that has sub-commands completes these until one of them was typed. An option with
 * words completes these, one of another kind nothing, files and folders by the shell. Help is shown
 * by zsh and fish.
 */
#include <errno.h>
#include <string.h>

#include "commands/common/completion.h"

#include "core/near/near.h"

struct completion_options {
	const char *shell;
};

/* "trace", or "agent ctl": a sub-command that has a command line of its own. */
static const char *verb_of(const struct gs_cli_command *command)
{
	return strchr(command->name, ' ') + 1;
}

/* Of a verb of two words the second, else NULL. */
static const char *inner_verb_of(const struct gs_cli_command *command)
{
	const char *space = strchr(verb_of(command), ' ');

	return space ? space + 1 : NULL;
}

static bool takes_file(const struct gs_cli_option *o)
{
	return !o->words && o->argument &&
	       (strncmp(o->argument, "FILE", 4) == 0 || strcmp(o->argument, "PATH") == 0 ||
		strcmp(o->argument, "DIR") == 0 || strcmp(o->argument, "PIDFILE") == 0);
}

/* In single quotes of any shell; before each of these characters comes a backslash. */
static void put_quoted(FILE *out, const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else
			fprintf(out, "%s%c", strchr(escaped, *text) ? "\\" : "", *text);
	}
}

static void put_commands(FILE *out, const struct gs_cli_command *const *commands)
{
	for (size_t i = 0; commands[i]; i++)
		if (!inner_verb_of(commands[i]))
			fprintf(out, "%s%s", i ? " " : "", verb_of(commands[i]));
}

/* The names of a command's sub-commands, with spaces between them. */
static void put_subcommands(FILE *out, const struct gs_cli_command *command)
{
	const struct gs_cli_subcommand *s;

	for (size_t i = 0; (s = command->subcommand_at(i)) != NULL; i++)
		fprintf(out, "%s%s", i ? " " : "", s->name);
}

/* --- bash --- */

static void put_bash_command(FILE *out, const struct gs_cli_command *command)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o;

	for (size_t i = 0; (o = gs_cli_option_at(command, i, &group)); i++) {
		if (!o->help || !o->argument || o->argument[0] == '[')
			continue;
		fprintf(out, "\t\"%s:--%s\"", verb_of(command), o->name);
		if (o->letter)
			fprintf(out, " | \"%s:-%c\"", verb_of(command), o->letter);
		if (o->words)
			fprintf(out, ") words='%s' ;;\n", o->words);
		else
			fprintf(out, ") return ;;\n");
	}
	fprintf(out, "\t\"%s:\"*)\n", verb_of(command));
	if (command->subcommand_at) {
		fputs("\t\t[[ $cur == -* ]] || { _gpuscope_subcommands ", out);
		put_subcommands(out, command);
		fputs("; return; }\n", out);
	} else {
		fputs("\t\t[[ $cur == -* ]] || return\n", out);
	}
	fputs("\t\twords='", out);
	for (size_t i = 0; (o = gs_cli_option_at(command, i, &group)); i++)
		if (o->help)
			fprintf(out, "--%s ", o->name);
	fputs("--help --help-all --version' ;;\n", out);
}

/* A command of two words is taken for one from its third word on. */
static void put_bash_inner(FILE *out, const struct gs_cli_command *command)
{
	const char *inner = inner_verb_of(command);

	if (inner)
		fprintf(out,
			"\t[[ $COMP_CWORD -gt 2 && \"${COMP_WORDS[*]:1:2}\" == '%s' ]] && command='%s'\n",
			verb_of(command), verb_of(command));
}

static void put_bash(FILE *out, const struct gs_cli_command *const *commands)
{
	fputs("# Completion of gpuscope for bash. Without a match bash completes files.\n"
	      "# These sub-commands, unless one of them was typed.\n"
	      "_gpuscope_subcommands()\n{\n"
	      "\tlocal word\n"
	      "\tfor word in \"${COMP_WORDS[@]:2:COMP_CWORD - 2}\"; do\n"
	      "\t\t[[ \" $* \" == *\" $word \"* ]] && return\n"
	      "\tdone\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$*\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n}\n"
	      "_gpuscope()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=\n"
	      "\tlocal command=${COMP_WORDS[1]}\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [[ $cur == = ]]; then\n\t\tcur=\n"
	      "\telif [[ $prev == = ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n",
	      out);
	for (size_t i = 0; commands[i]; i++)
		put_bash_inner(out, commands[i]);
	fputs("\tcase \"$command:$prev\" in\n", out);
	for (size_t i = 0; commands[i]; i++)
		put_bash_command(out, commands[i]);
	fputs("\tesac\n\tif [[ $COMP_CWORD == 1 ]]; then\n\t\twords='", out);
	put_commands(out, commands);
	fputs("'\n\tfi\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
	      "complete -o default -F _gpuscope gpuscope\n",
	      out);
}

/* --- zsh --- */

static void put_zsh_command(FILE *out, const struct gs_cli_command *command)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o;

	fprintf(out,
		"\t'%s')\n\t\t_arguments -S '(- *)--help[print a short help]' '(- *)--help-all[print all options]'",
		verb_of(command));
	for (size_t i = 0; (o = gs_cli_option_at(command, i, &group)); i++) {
		const char *equals = !o->argument ? "" : o->argument[0] == '[' ? "=-" : "=";

		if (!o->help)
			continue;
		fprintf(out, " \\\n\t\t\t'*--%s%s[", o->name, equals);
		put_quoted(out, o->help, "[]:");
		fputc(']', out);
		if (o->argument) {
			fprintf(out, "%s:", equals[0] && equals[1] ? ":" : "");
			put_quoted(out, o->argument, "[]:");
			fputc(':', out);
		}
		if (o->words)
			fprintf(out, "(%s)", o->words);
		else if (takes_file(o))
			fputs("_files", out);
		fputc('\'', out);
	}
	if (command->subcommand_at) {
		fputs(" \\\n\t\t\t'1:command:(", out);
		put_subcommands(out, command);
		fputs(")'", out);
	}
	fputs(" \\\n\t\t\t'*:file:_files' ;;\n", out);
}

static void put_zsh(FILE *out, const struct gs_cli_command *const *commands)
{
	fputs("#compdef gpuscope\n_gpuscope()\n{\n"
	      "\tif (( CURRENT == 2 )); then\n\t\tcompadd ",
	      out);
	put_commands(out, commands);
	fputs("\n\t\treturn\n\tfi\n\tshift words\n\t(( CURRENT-- ))\n\tlocal command=$words[1]\n",
	      out);
	for (size_t i = 0; commands[i]; i++)
		if (inner_verb_of(commands[i]))
			fprintf(out,
				"\tif (( CURRENT > 2 )) && [[ \"$words[1] $words[2]\" == '%s' ]]; then\n"
				"\t\tcommand='%s'\n\t\tshift words\n\t\t(( CURRENT-- ))\n\tfi\n",
				verb_of(commands[i]), verb_of(commands[i]));
	fputs("\tcase $command in\n", out);
	for (size_t i = 0; commands[i]; i++)
		put_zsh_command(out, commands[i]);
	fputs("\tesac\n}\n_gpuscope \"$@\"\n", out);
}

/* --- fish --- */

/* "complete ..." of words that follow this command, up to the condition, which is not closed: not
 * after those of its sub-commands that have a command line of their own. */
static void put_fish_condition(FILE *out, const struct gs_cli_command *command,
			       const struct gs_cli_command *const *commands)
{
	const char *verb = verb_of(command), *inner = inner_verb_of(command);
	size_t outer_bytes = strcspn(verb, " ");

	fprintf(out, "complete -c gpuscope -n '__fish_seen_subcommand_from %.*s", (int)outer_bytes,
		verb);
	if (inner)
		fprintf(out, "; and __fish_seen_subcommand_from %s", inner);
	for (size_t i = 0; commands[i] && !inner; i++)
		if (strncmp(verb_of(commands[i]), verb, outer_bytes) == 0 &&
		    verb_of(commands[i])[outer_bytes] == ' ')
			fprintf(out, "; and not __fish_seen_subcommand_from %s",
				inner_verb_of(commands[i]));
}

static void put_fish_subcommands(FILE *out, const struct gs_cli_command *command,
				 const struct gs_cli_command *const *commands)
{
	const struct gs_cli_subcommand *s;

	for (size_t i = 0; (s = command->subcommand_at(i)) != NULL; i++) {
		put_fish_condition(out, command, commands);
		fputs("; and not __fish_seen_subcommand_from ", out);
		put_subcommands(out, command);
		fprintf(out, "' -f -a %s -d '", s->name);
		put_quoted(out, s->help, "");
		fputs("'\n", out);
	}
}

static void put_fish_command(FILE *out, const struct gs_cli_command *command,
			     const struct gs_cli_command *const *commands)
{
	const struct gs_cli_group *group;
	const struct gs_cli_option *o;

	if (command->subcommand_at)
		put_fish_subcommands(out, command, commands);
	for (size_t i = 0; (o = gs_cli_option_at(command, i, &group)); i++) {
		if (!o->help)
			continue;
		put_fish_condition(out, command, commands);
		fprintf(out, "' -l %s", o->name);
		if (o->letter)
			fprintf(out, " -s %c", o->letter);
		if (o->argument && o->argument[0] != '[')
			fputs(takes_file(o) ? " -r" : " -x", out);
		if (o->words)
			fprintf(out, " -a '%s'", o->words);
		fputs(" -d '", out);
		put_quoted(out, o->help, "");
		fputs("'\n", out);
	}
}

static void put_fish(FILE *out, const struct gs_cli_command *const *commands)
{
	fputs("# Completion of gpuscope for fish.\n"
	      "complete -c gpuscope -n __fish_use_subcommand -f -a '",
	      out);
	put_commands(out, commands);
	fputs("'\n", out);
	for (size_t i = 0; commands[i]; i++)
		put_fish_command(out, commands[i], commands);
}

/* --- the command --- */

static int set_shell(void *target, char **words, struct gs_err *err)
{
	struct completion_options *o = target;

	if (o->shell)
		return gs_err_set(err, -EINVAL, "give one shell; \"%s\" is one too many", words[0]);
	o->shell = words[0];
	return 0;
}

static const struct gs_cli_option no_options[] = {GS_CLI_END};

int gs_cli_print_completion(int argc, char **argv, const struct gs_cli_command *const *commands)
{
	static const struct {
		const char *name;
		void (*put)(FILE *out, const struct gs_cli_command *const *commands);
	} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
	static const struct gs_cli_command command = {
		.name = "gpuscope completion",
		.usage = "bash | zsh | fish",
		.about = "Prints a completion script: source <(gpuscope completion bash)",
		.options = no_options,
		.take_word = set_shell,
	};
	struct completion_options o = {.shell = NULL};
	struct gs_near near;
	char text[128], meant[40];
	int status;

	if (!gs_cli_parse(&command, argc, argv, &o, &status))
		return status;
	for (size_t i = 0; o.shell && i < GS_ARRAY_LEN(shells); i++)
		if (strcmp(o.shell, shells[i].name) == 0) {
			shells[i].put(stdout, commands);
			return fflush(stdout) == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
		}
	gs_near_init(&near, o.shell ? o.shell : "");
	for (size_t i = 0; i < GS_ARRAY_LEN(shells); i++)
		gs_near_add(&near, shells[i].name);
	snprintf(text, sizeof(text), "it takes bash, zsh or fish, not \"%.32s\"%s",
		 o.shell ? o.shell : "", gs_near_text(&near, meant, sizeof(meant)));
	return gs_cli_usage_error(&command, text);
}
