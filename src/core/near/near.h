/*
 * "Did you mean": the name that is nearest to a word that was typed.
 *
 *     gs_near_init(&near, word);
 *     for (each name that there is)
 *             gs_near_add(&near, name);
 *     if (near.name) ...
 */
#ifndef GS_CORE_NEAR_NEAR_H
#define GS_CORE_NEAR_NEAR_H

#include <stddef.h>

/* Of the names that are added, the one that is fewest changes away from the word, as a whole or by its first words:
 * "temprature" means temperature_celsius, "cudaLaunch" cudaLaunchKernel. Word and names are borrowed. */
struct gs_near {
	const char *word;   /* that was typed */
	const char *name;   /* NULL: none is near enough to be meant */
	unsigned n_changes; /* of name; before, one more than is near enough */
	size_t n_left;      /* letters of name after its first words; 0: it is meant as a whole */
};

/* For a word that was typed, without a name yet. */
void gs_near_init(struct gs_near *near, const char *word);

/* A name that there is. Of two that are equally near, that with fewer letters left is meant, else the first. */
void gs_near_add(struct gs_near *near, const char *name);

/* "; did you mean "NAME"?", or "" where none is near, cut to the bytes. Returns out. */
const char *gs_near_text(const struct gs_near *near, char *out, size_t bytes);

/* The changes that make b of a: a letter put in, left out, replaced, or swapped with the next one. 999 when one is longer
 * than 63 bytes. */
unsigned gs_near_distance(const char *a, const char *b);

#endif
