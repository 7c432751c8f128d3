/*
 * Stands in for a program that Open MPI is linked into, which Debian has no archive for: functions,
 * datatypes and a text by their names and layouts in Open MPI 4.1 (opal_datatype.h: the size at 24,
 * errhandler_predefined.c). `open_mpi_inside FILE [GO]` makes the calls that tests/e2e/mpi.py knows
 * as rank 0 of 2; with GO it leaves FILE.PID.ready after MPI_Init and waits until there is a file GO.
 * -DHIDDEN_END: the machine code of MPI_Finalize does not show where it returns.
 */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

struct datatype {
	char head[24];
	size_t size_bytes;
	char rest[480];
};

struct datatype ompi_mpi_char = {.size_bytes = 1};
struct datatype ompi_mpi_int = {.size_bytes = 4};
struct datatype ompi_mpi_double = {.size_bytes = 8};
char ompi_mpi_comm_world[512];

static volatile int begun;

static int check_begun(const char *function)
{
	if (!begun)
		printf("*** The %s() function was called before MPI_INIT was invoked.\n"
		       "*** This is disallowed by the MPI standard.\n",
		       function);
	return begun ? 0 : 16;
}

/* Each under both of its names, the second weak. */
#define FUNCTION(name_, ...)                                                                       \
	int P##name_(__VA_ARGS__);                                                                 \
	int name_(__VA_ARGS__) __attribute__((weak, alias("P" #name_)));                           \
	__attribute__((noinline)) int P##name_(__VA_ARGS__)

FUNCTION(MPI_Init, int *argc, char ***argv)
{
	return begun++;
}

FUNCTION(MPI_Comm_rank, void *comm, int *ret_rank)
{
	*ret_rank = 0;
	return check_begun("MPI_Comm_rank");
}

FUNCTION(MPI_Comm_size, void *comm, int *ret_size)
{
	*ret_size = 2;
	return check_begun("MPI_Comm_size");
}

FUNCTION(MPI_Send, const void *buf, int count, struct datatype *type, int to, int tag, void *comm)
{
	return check_begun("MPI_Send");
}

FUNCTION(MPI_Barrier, void *comm)
{
	return check_begun("MPI_Barrier");
}

#ifdef HIDDEN_END
int MPI_Finalize(void);
__asm__(".globl PMPI_Finalize\n"
	".weak MPI_Finalize\n"
	".set MPI_Finalize, PMPI_Finalize\n"
	".type PMPI_Finalize, @function\n"
	"PMPI_Finalize:\n"
	"	lea 1f(%rip), %rax\n"
	"	jmp *%rax\n"
	".size PMPI_Finalize, . - PMPI_Finalize\n"
	"1:	xor %eax, %eax\n"
	"	ret\n");
#else
FUNCTION(MPI_Finalize, void)
{
	return check_begun("MPI_Finalize");
}
#endif

int main(int argc, char **argv)
{
	char path[4096];
	double data[8] = {0};
	int n;

	if (argc < 2)
		return 2;
	MPI_Init(&argc, &argv);
	if (argc > 2) {
		snprintf(path, sizeof(path), "%s.%d.ready", argv[1], getpid());
		fclose(fopen(path, "w"));
		while (access(argv[2], F_OK) < 0)
			usleep(10000);
	}
	MPI_Comm_rank(ompi_mpi_comm_world, &n);
	MPI_Comm_size(ompi_mpi_comm_world, &n);
	for (int i = 1; i <= 7; i++)
		MPI_Send(data, i, &ompi_mpi_int, 1, 0, ompi_mpi_comm_world);
	for (int i = 1; i <= 5; i++)
		MPI_Send(data, i, &ompi_mpi_double, 1, 0, ompi_mpi_comm_world);
	MPI_Barrier(ompi_mpi_comm_world);
	return MPI_Finalize();
}
