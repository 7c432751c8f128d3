/*
 * Text of other people in our outputs: names of processes, command lines, paths. It may hold any
 * bytes. Each function appends one text to a buffer in the words of one format, so that whatever
 * came in, what goes out is valid UTF-8 and valid in that format; bytes that are no UTF-8 become
 * U+FFFD. Texts are terminated strings; NULL is the empty text. All return 0 or the error of
 * gs_buf_put(), and then may have appended a part.
 */
#ifndef GS_CORE_TEXT_TEXT_H
#define GS_CORE_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

/* What ends a line of CSV (RFC 4180). */
#define GS_TEXT_CSV_EOL "\r\n"

/* The character at text, which is not at its end; *ret_bytes is its length (1 to 4). A byte that
 * starts no character is U+FFFD of length 1. Never reads beyond the terminator. */
uint32_t gs_text_decode(const char *text, size_t *ret_bytes);

/* As it is. */
int gs_text_utf8(struct gs_buf *buf, const char *text);

/* A JSON string with its quotes; what no terminal and no YAML reader takes raw is \u-escaped. */
int gs_text_json(struct gs_buf *buf, const char *text);

/* A YAML 1.2 (and 1.1) scalar that is read back as this string: plain where that is beyond doubt,
 * else in double quotes. */
int gs_text_yaml(struct gs_buf *buf, const char *text);

/* Whether a spreadsheet would take the text (of at most bytes) for a formula: it begins with one of
 * = + - @ tab CR, and is neither a number nor a lone sign. */
bool gs_text_is_formula(const char *text, size_t bytes);

/* Whether the character is none that can be seen but steers what is around it: C1 controls, marks
 * that turn the direction of writing, separators of lines. */
bool gs_text_is_steering(uint32_t c);

/* A CSV field, quoted when it must be; control characters beside tab, CR and LF and those that
 * steer become U+FFFD, and what a spreadsheet would compute begins with a '. */
int gs_text_csv(struct gs_buf *buf, const char *text);

/* One line for a terminal: newline and tab as \n and \t, other control characters as \x1b, and
 * those that turn the direction of writing U+FFFD, so that no name can steer the terminal. */
int gs_text_line(struct gs_buf *buf, const char *text);

/* Columns that a character, or text without control characters, takes on a terminal. */
unsigned gs_text_char_columns(uint32_t c);
size_t gs_text_columns(const char *text);

#endif
