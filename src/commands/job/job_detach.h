/* Recording in the background: `gpuscope job --detach PIDFILE ...`, ended by --stop PIDFILE. */
#ifndef GS_COMMANDS_JOB_JOB_DETACH_H
#define GS_COMMANDS_JOB_JOB_DETACH_H

/* Fork. In the child 0, and it goes on; in the parent, when the child is ready or has failed, 1 and
 * the exit status with which to end; -1 with an exit status after having said why. */
int job_detach_fork(const char *pid_file, int *ret_status);

/* The child measures: lets the parent go, and writes what it says from now on to PIDFILE.log. */
void job_detach_ready(const char *pid_file);

/* The recorder has ended with this exit status: kept in PIDFILE for who stops it later. */
void job_detach_end(int status);

/* Ask the recorder of this file to end, wait until its report is written, pass on what it said. Its
 * exit status, also of one that had ended by itself; 1 of one that was killed. */
int job_detach_stop(const char *pid_file);

#endif
