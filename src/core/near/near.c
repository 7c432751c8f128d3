/* "Did you mean": the name that is nearest to a word that was typed. */
#include "core/near/near.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LETTERS_MAX 64
#define FAR         999u

/* Of the first letters of both. */
static unsigned distance_of(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][LETTERS_MAX]; /* this one, the one before, and the one before that */

	if (na >= LETTERS_MAX || nb >= LETTERS_MAX)
		return FAR;
	for (unsigned i = 0; i <= na; i++)
		for (unsigned j = 0; j <= nb; j++) {
			unsigned *row = rows[i % 3], best;
			const unsigned *above = rows[(i + 2) % 3], *above_2 = rows[(i + 1) % 3];

			if (i == 0 || j == 0) {
				row[j] = i + j;
				continue;
			}
			best = above[j - 1] + (a[i - 1] != b[j - 1]);
			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    above_2[j - 2] + 1 < best)
				best = above_2[j - 2] + 1;
			row[j] = best;
		}
	return rows[na % 3][nb];
}

unsigned gs_near_distance(const char *a, const char *b)
{
	return distance_of(a, strlen(a), b, strlen(b));
}

void gs_near_init(struct gs_near *near, const char *word)
{
	size_t n = strlen(word);

	/* More than half of a word that was typed wrongly makes another word. */
	*near = (struct gs_near){.word = word, .n_changes = n < 6 ? 1 + (unsigned)n / 2 : 4};
}

/* Whether a word of the name ends before this letter: at an underscore, and between "Launch" and "Kernel". */
static bool ends_word(const char *name, size_t at)
{
	return name[at] == '_' ||
	       (isupper((unsigned char)name[at]) && at > 0 && islower((unsigned char)name[at - 1]));
}

void gs_near_add(struct gs_near *near, const char *name)
{
	size_t n_word = strlen(near->word), n_name = strlen(name);

	for (size_t n = n_name; n > 0; n--) {
		size_t n_left = n_name - n;
		unsigned d;

		if (n_left && !ends_word(name, n))
			continue;
		d = distance_of(near->word, n_word, name, n);
		if (d > near->n_changes ||
		    (d == near->n_changes && (!near->name || n_left >= near->n_left)))
			continue;
		near->n_changes = d;
		near->name = name;
		near->n_left = n_left;
	}
}

const char *gs_near_text(const struct gs_near *near, char *out, size_t bytes)
{
	snprintf(out, bytes, near->name ? "; did you mean \"%s\"?" : "%s",
		 near->name ? near->name : "");
	return out;
}
