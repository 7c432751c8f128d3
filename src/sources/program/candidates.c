/*
 * Which programs a command may start, known before it runs: probes that are placed when a program
 * has loaded its libraries come after the first calls of a short one. A command is often a wrapper
 * with the real one in its words: "numactl -N 0 python3 train.py", "env A=b ./train",
 * "sh -c 'cd x; ./train'". A word that happens to be another program's name costs some probes that
 * nothing meets.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/program/program.h"
#include "sources/uprobe/uprobe.h"

#define MAX_PROGRAMS  8 /* beside the first */
#define BETWEEN_WORDS " \t\n;&|()'\""
#define LIBRARY_PATH  "LD_LIBRARY_PATH="

struct programs {
	struct gs_uprobe *probe;
	char **environment; /* its first place is for a LD_LIBRARY_PATH that a word has set */
	unsigned n;
};

static void note_program(struct programs *p, char *word)
{
	char **environment = p->environment + (p->environment[0] ? 0 : 1);

	if (strncmp(word, LIBRARY_PATH, strlen(LIBRARY_PATH)) == 0)
		p->environment[0] = word;
	else if (*word != '-' && p->n < MAX_PROGRAMS &&
		 gs_uprobe_attach_candidates(p->probe, word, environment) == 0)
		p->n++;
}

/* All words in one text with ends between them, those of a shell's "-c" too. */
static char *join_words(char *const *words)
{
	size_t bytes = 1;
	char *text, *end;

	for (char *const *w = words; *w; w++)
		bytes += strlen(*w) + 1;
	text = end = malloc(bytes);
	for (char *const *w = words; text && *w; w++) {
		end = stpcpy(end, *w);
		*end++ = '\n';
	}
	if (text)
		*end = '\0';
	return text;
}

void gs_program_attach(struct gs_uprobe *probe, char *const *command, char *const *environment)
{
	char *text GS_FREE = NULL, **more GS_FREE = NULL, *save = NULL;
	struct programs p = {.probe = probe};
	size_t n = 0;

	gs_uprobe_attach_candidates(probe, command[0], environment);
	while (environment[n])
		n++;
	text = join_words(command + 1);
	p.environment = more = calloc(n + 2, sizeof(*more));
	if (!text || !more)
		return;
	memcpy(more + 1, environment, n * sizeof(*more));
	for (char *w = strtok_r(text, BETWEEN_WORDS, &save); w;
	     w = strtok_r(NULL, BETWEEN_WORDS, &save))
		note_program(&p, w);
}
