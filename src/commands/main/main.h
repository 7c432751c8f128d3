/* The program: finds the command in the table and runs it. */
#ifndef GS_COMMANDS_MAIN_MAIN_H
#define GS_COMMANDS_MAIN_MAIN_H

/* argc and argv of main(); an exit status. */
int gs_cmd_run(int argc, char **argv);

/* Another program that this one is when it is called by its name. */
struct gs_cmd_program {
	const char *name;                  /* last part of argv[0] */
	int (*run)(int argc, char **argv); /* returns the exit status */
};

/* static; once, before gs_cmd_run(). */
void gs_cmd_set_other(const struct gs_cmd_program *program);

#endif
