/*
 * A job's side of being traced from inside by the agent: `gpuscope agent --inside-env`, run as the job's user before its
 * programs, prints the environment that they need. Nothing here may end a job: what cannot be is said, and the status is 0.
 */
#ifndef GS_COMMANDS_AGENT_GPU_AGENT_INSIDE_H
#define GS_COMMANDS_AGENT_GPU_AGENT_INSIDE_H

/* control_path: the agent's socket, by whose owner it is known which user reads. An exit status. */
int agent_gpu_print_inside(const char *control_path);

#endif
