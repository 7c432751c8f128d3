/*
 * The command line of every command, by tables. A row is an option: its names, its argument, its
 * help, how its argument is converted, and where it goes in the command's own struct. Parsing,
 * --help, --help-all, "did you mean", shell completion and the check of the man pages all come from the rows,
 * and from those of its sub-commands.
 *
 * Arguments have one grammar in all commands: TIME is a number with ns, us, ms, s, m or h (a plain
 * number is seconds), BYTES one with K, M or G, N a whole number, WHAT one of some words. Wrong ones
 * have one error text: --NAME takes THIS, not "THAT".
 */
#ifndef GS_COMMANDS_COMMON_OPTIONS_H
#define GS_COMMANDS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"

enum gs_cli_kind {
	GS_CLI_FLAG,  /* bool: true */
	GS_CLI_BITS,  /* unsigned: data is ored into it */
	GS_CLI_TEXT,  /* const char *: the argument, borrowed from argv */
	GS_CLI_TIME,  /* uint64_t: nanoseconds */
	GS_CLI_BYTES, /* uint64_t */
	GS_CLI_COUNT, /* unsigned */
	GS_CLI_WORD,  /* an enum: which of words */
	GS_CLI_LIST,  /* set() is called for each piece between commas */
	GS_CLI_SET,   /* set() is called */
};

struct gs_cli_option {
	const char *name; /* without dashes; NULL: help is the title of the rows below it */
	char letter;      /* 0: none */
	/* Its name in texts; NULL: takes none; in [] when it may be left out. */
	const char *argument;
	const char *help;      /* at most 60 characters, lower case; NULL: a hidden option */
	enum gs_cli_kind kind; /* how the argument is converted */
	size_t offset;         /* of the value in the target */
	size_t given;          /* GS_CLI_GIVEN(): a bool: it was given, not by its variable alone */
	uint64_t min, max;     /* of TIME, BYTES and COUNT, inclusive; max 0: no limit */
	const char *words;     /* all that it takes, with spaces between them; NULL: anything */
	const char *takes;     /* "a file": what is said of wrong ones; NULL: made of the above */
	/* Words that a part of the argument may be, with spaces between them, for "did you mean"; NULL:
	 * those of words. */
	const char *near_words;
	unsigned data; /* for set(), of BITS, and ored into the command's `used` */
	/* "format=json": this option without an argument is that one of the same command with this
	 * argument, which is not written to. NULL: it is an option of its own. */
	const char *same_as;
	const char
		*env; /* environment variable with its argument, where it is not given; or NULL */
	/* 0, or a negative errno; without a text in err the usual one is made. argument is NULL where
	 * it was left out, and may be written to. */
	int (*set)(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err);
};

#define GS_CLI_AT(type, member)    .offset = offsetof(type, member)
#define GS_CLI_GIVEN(type, member) .given = 1 + offsetof(type, member)
#define GS_CLI_TITLE(text)                                                                         \
	{                                                                                          \
		.help = (text)                                                                     \
	}
#define GS_CLI_END                                                                                 \
	{                                                                                          \
		0                                                                                  \
	}

/* A table that several commands share. */
struct gs_cli_group {
	const char *title;                              /* in the help */
	const struct gs_cli_option *options;            /* the last one is all zero */
	size_t offset;                                  /* of its target in the command's */
	int (*check)(void *target, struct gs_err *err); /* what goes together; may be NULL */
};

#define GS_CLI_GROUPS 4

/* A word that says what a command does: `start` of `gpuscope session`. */
struct gs_cli_subcommand {
	const char *name; /* as it is typed */
	const char *args; /* what follows it, as the help shows it; "": nothing */
	const char *help; /* at most 60 characters, lower case */
};

#define GS_CLI_SUBCOMMAND(name, args, help)                                                        \
	{                                                                                          \
		(name), (args), (help)                                                             \
	}

struct gs_cli_command {
	const char *name;  /* "gpuscope top" */
	const char *usage; /* what follows the options, a line for each way; NULL: nothing */
	/* Its i-th sub-command, NULL after the last; NULL: it has none. The command looks them up in
	 * its words itself (gs_cli_find_subcommand). */
	const struct gs_cli_subcommand *(*subcommand_at)(size_t i);
	const char *about; /* before the options in the help */
	const char *notes; /* after them; may be NULL */
	/* Names of the options that --help shows, with spaces between them; NULL: all of them. --help-all
	 * shows all, and the notes. */
	const char *brief;
	const struct gs_cli_option *options;       /* the last one is all zero */
	struct gs_cli_group groups[GS_CLI_GROUPS]; /* those without a title are not there */
	size_t used; /* GS_CLI_GIVEN() of an unsigned that gathers the data of options given */
	bool stops_at_word; /* the first word that is no option begins another program's command */
	/* A word that is no option, or all words from there on; NULL: they are refused. */
	int (*take_word)(void *target, char **words, struct gs_err *err);
	int (*check)(void *target, struct gs_err *err); /* what goes together; may be NULL */
};

/* Fills the target, whose presets are the caller's. True: go on. False: *ret_status is the exit
 * status, after --help, --version or an error that was said. */
bool gs_cli_parse(const struct gs_cli_command *command, int argc, char **argv, void *target,
		  int *ret_status);

/* Says that the command line is wrong, in one line. Returns GS_EXIT_USAGE. */
int gs_cli_usage_error(const struct gs_cli_command *command, const char *text);

/* The options of a command, its groups included, without titles: the i-th, or NULL. */
const struct gs_cli_option *gs_cli_option_at(const struct gs_cli_command *command, size_t i,
					     const struct gs_cli_group **ret_group);

/* The index of a command's sub-command; -1: none has this name. */
int gs_cli_find_subcommand(const struct gs_cli_command *command, const char *name);

/* In err: that a word is no sub-command, which one may be meant, or which there are. -EINVAL. */
int gs_cli_refuse_subcommand(const struct gs_cli_command *command, const char *word,
			     struct gs_err *err);

/* Whether words, with spaces between them, have this one. */
bool gs_cli_has_word(const char *words, const char *word);

/* "start, stop or set": the names of its sub-commands, cut to the bytes. Returns out. */
const char *gs_cli_list_subcommands(const struct gs_cli_command *command, char *out, size_t bytes);

/* options_help.c: --help, of GS_CLI_HELP_LINES at most where the command has a brief list, or, all,
 * --help-all. */
#define GS_CLI_HELP_LINES 25
void gs_cli_print_help(const struct gs_cli_command *command, bool all, FILE *out);

#endif
