/* Between the files of the room. */
#ifndef GS_SOURCES_LAUNCHES_LAUNCHES_INT_H
#define GS_SOURCES_LAUNCHES_LAUNCHES_INT_H

#include <stdbool.h>

#include "core/reader/reader.h"
#include "model/node/job_mpi.h"
#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "model/trace/func.h"
#include "model/trace/kernel_side.h"
#include "model/trace/mpi.h"
#include "sources/elf/library.h"

/* --- program.c --- */

/* Which programs MPI is linked into, as far as they were asked about. */
struct launches_programs;

int launches_programs_new(struct launches_programs **ret_programs);
void launches_programs_free(struct launches_programs **programs);

enum launches_holds {
	LAUNCHES_HOLDS_NO_MPI,
	LAUNCHES_HOLDS_MPI,
	LAUNCHES_HOLDS_HIDDEN_MPI, /* no symbols show where its functions are */
};

/* Which of these holds of a program, which the reader finds out the first time. */
enum launches_holds launches_programs_ask(struct launches_programs *programs,
					  struct gs_reader *reader,
					  const struct gs_mapped_file *file);

/* Whether any has MPI that is seen. programs may be NULL. */
bool launches_programs_any(const struct launches_programs *programs);

/* Take what planning said of a program. False: not that MPI is hidden in it. */
bool launches_programs_add_hidden(struct launches_programs *programs,
				  const struct gs_attach *attach);

struct launches_hidden {
	char name[64];    /* of the program's file */
	char reason[240]; /* why its calls of MPI are not seen: "it has ..." */
};

/* How many there are, and the first of them (lent; with none undefined). programs may be NULL. */
size_t launches_programs_hidden(const struct launches_programs *programs,
				const struct launches_hidden **ret_first);

/* --- mpi.c --- */

/* What one process did in MPI so far. */
struct launches_mpi;

/* Growth of the calls of one function in one thread; of what was moved to or from a peer; the rank
 * in a communicator or its size. *ref is made when it is NULL. -ENOMEM. */
int launches_mpi_add_calls(struct launches_mpi **ref, const struct gs_func *func,
			   const struct gs_cell *before, const struct gs_cell *now);
int launches_mpi_add_row(struct launches_mpi **ref, const struct gs_mpi_row *before,
			 const struct gs_mpi_row *now);
int launches_mpi_add_comm(struct launches_mpi **ref, const struct gs_event_comm *event);

/* Copies it; pid and rank stay as they are where the process did not ask for its rank. -ENOMEM. */
int launches_mpi_copy(const struct launches_mpi *mpi, struct gs_job_mpi_rank *rank);

void launches_mpi_free(struct launches_mpi **ref);

#endif
