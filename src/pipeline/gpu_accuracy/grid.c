/* The grid of time, and what lies in its cells. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/gpu_accuracy/accuracy_int.h"

bool accuracy_grid_holds(const struct accuracy_grid *grid, uint64_t time_ns)
{
	return time_ns <= grid->from_ns ||
	       (time_ns - grid->from_ns) / grid->cell_ns < GS_ACCURACY_CELLS;
}

bool accuracy_row_add(const struct accuracy_grid *grid, struct accuracy_row *row, uint64_t from_ns,
		      uint64_t to_ns, double weight)
{
	uint64_t at_ns = from_ns > grid->from_ns ? from_ns - grid->from_ns : 0;
	uint64_t end_ns = to_ns > grid->from_ns ? to_ns - grid->from_ns : 0;

	if (at_ns >= end_ns)
		return true;
	if (!accuracy_grid_holds(grid, to_ns))
		return false;
	if (!row->cells)
		row->cells = calloc(GS_ACCURACY_CELLS, sizeof(*row->cells));
	if (!row->cells)
		return false;
	while (at_ns < end_ns) {
		uint64_t cell = at_ns / grid->cell_ns, next_ns = (cell + 1) * grid->cell_ns;

		next_ns = next_ns < end_ns ? next_ns : end_ns;
		row->cells[cell] += weight * (double)(next_ns - at_ns);
		at_ns = next_ns;
	}
	return true;
}

void accuracy_row_halve(struct accuracy_row *row)
{
	const size_t half = GS_ACCURACY_CELLS / 2;

	if (!row->cells)
		return;
	for (size_t i = 0; i < half; i++)
		row->cells[i] = row->cells[2 * i] + row->cells[2 * i + 1];
	memset(row->cells + half, 0, half * sizeof(*row->cells));
}

static bool has_bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

void accuracy_bits_halve(uint64_t bits[ACCURACY_WORDS])
{
	uint64_t halved[ACCURACY_WORDS] = {0};

	for (size_t i = 0; i < GS_ACCURACY_CELLS / 2; i++)
		if (has_bit(bits, 2 * i) || has_bit(bits, 2 * i + 1))
			halved[i / 64] |= 1ull << i % 64;
	memcpy(bits, halved, sizeof(halved));
}

void accuracy_bits_set(const struct accuracy_grid *grid, uint64_t bits[ACCURACY_WORDS],
		       uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first = from_ns > grid->from_ns ? (from_ns - grid->from_ns) / grid->cell_ns : 0;
	uint64_t last = to_ns > grid->from_ns ? (to_ns - grid->from_ns) / grid->cell_ns : 0;

	for (uint64_t i = first; i <= last && i < GS_ACCURACY_CELLS; i++)
		bits[i / 64] |= 1ull << i % 64;
}
