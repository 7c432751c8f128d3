/* Between the files of reports. */
#ifndef GS_ANALYSIS_JOB_REPORT_REPORT_INT_H
#define GS_ANALYSIS_JOB_REPORT_REPORT_INT_H

#include "analysis/job_report/report.h"
#include "core/text/doc.h"
#include "core/text/pen.h"

const char *gs_job_report_family_key(unsigned family);
bool gs_job_report_knows(const struct gs_job_report *job, enum gs_job_family family);

/* The numbers that ebpf-hpc-monitor calls metrics, in the order of its reports. X(id, key) */
#define GS_JOB_METRICS(X)                                                                          \
	X(CPU_PERCENT, "cpu_percent")                                                              \
	X(IO_PERCENT, "io_percent")                                                                \
	X(WAIT_PERCENT, "wait_percent")                                                            \
	X(NET_PERCENT, "net_percent")                                                              \
	X(TOTAL_SYSCALLS, "total_syscalls")                                                        \
	X(IO_SYSCALLS, "io_syscalls")                                                              \
	X(NET_SYSCALLS, "net_syscalls")                                                            \
	X(CONTEXT_SWITCHES, "context_switches")                                                    \
	X(CPU_TIME_NS, "cpu_time_ns")                                                              \
	X(WAIT_TIME_NS, "wait_time_ns")                                                            \
	X(TOTAL_IO_BYTES, "total_io_bytes")                                                        \
	X(READ_BYTES, "read_bytes")                                                                \
	X(WRITE_BYTES, "write_bytes")                                                              \
	X(IO_OPERATIONS, "io_operations")                                                          \
	X(TOTAL_NET_BYTES, "total_net_bytes")                                                      \
	X(SEND_BYTES, "send_bytes")                                                                \
	X(RECV_BYTES, "recv_bytes")                                                                \
	X(NETWORK_BYTES_SENT, "network_bytes_sent")                                                \
	X(NETWORK_BYTES_RECV, "network_bytes_recv")                                                \
	X(NET_OPERATIONS, "net_operations")                                                        \
	X(AVG_SYSCALL, "avg_syscall_duration")                                                     \
	X(MAX_SYSCALL, "max_syscall_duration")                                                     \
	X(MONITORED_PIDS, "monitored_pids")                                                        \
	X(MEMORY_USAGE, "memory_usage")

enum gs_job_report_metric {
#define GS_JOB_METRIC_ID(id, key) GS_JOB_METRIC_##id,
	GS_JOB_METRICS(GS_JOB_METRIC_ID)
#undef GS_JOB_METRIC_ID
		GS_JOB_METRIC_COUNT
};

const char *gs_job_report_metric_key(unsigned metric);
double gs_job_report_metric(const struct gs_job_report *job, unsigned metric); /* NAN: not known */

/* Rounded as the style wants it. */
double gs_job_report_rounded(const struct gs_job_report_style *style, double v);

/* "fact Cause? Next time: ... Benefit" in one line. */
void gs_job_report_advice_text(const struct gs_advice *advice, char *out, size_t bytes);

void gs_job_report_put_doc(struct gs_pen *pen, const struct gs_job_report_session *s,
			   const struct gs_job_report_style *style);
/* The map "delivery" of a report that is sent: delivery.c */
void gs_job_report_put_delivery(struct gs_doc *doc, const struct gs_job_report_delivery *delivery,
				bool trimmed);
void gs_job_report_put_csv(struct gs_pen *pen, const struct gs_job_report_session *s,
			   const struct gs_job_report_style *style);
void gs_job_report_put_table(struct gs_pen *pen, const struct gs_job_report_session *s,
			     const struct gs_job_report_style *style);
void gs_job_report_put_live(struct gs_pen *pen, const struct gs_job_report_session *s,
			    const struct gs_job_report_style *style);

/* Around the JSON of a report or comparison, written by gs_doc_script: html.c */
void gs_job_report_begin_page(struct gs_pen *pen);
void gs_job_report_end_page(struct gs_pen *pen);

/* --- report_account.c --- */

enum { GS_JOB_PARTS = GS_TASKSTATS_PARTS };

struct gs_job_report_part { /* first of enum gs_taskstats_time, then of threads without work */
	const char *name, *title, *source; /* for programs; for people; how it is known */
	uint64_t ns;
	double share_pct; /* of the whole */
};

/* The time of the job's threads, the sum of the parts; 0: not known, or none was spent. */
uint64_t gs_job_report_account(const struct gs_job_report_session *s,
			       const struct gs_job_report *job,
			       struct gs_job_report_part ret_parts[GS_JOB_PARTS]);

/* A job with GPUs: calls of CUDA are counted, not timed, so their time is in these parts, unknown. */
#define GS_JOB_HIDES_CALLS(job) ((job)->figures.v[GS_FIGURE_N_GPUS] > 0)
#define GS_JOB_HIDDEN_TEXT                                                                         \
	"time in CUDA and NCCL calls is not shown separately: see " GS_VERDICT_ITS_CALLS

/* --- report_detail.c: what the job's threads did, row by row --- */

#define GS_JOB_ROW_BYTES 400

/* The histogram of waits for a processor, as the others are. */
void gs_job_report_queue_hist(const struct gs_taskstats *work, uint32_t out[GS_TASKSTATS_LOG2]);

/* What rows of tables are called. */
void gs_job_report_name_disk(const struct gs_taskstats_disk_row *r, char out[GS_JOB_ROW_BYTES]);
void gs_job_report_name_mount(const struct gs_taskstats_mount_row *r, char out[GS_JOB_ROW_BYTES]);
void gs_job_report_name_peer(const struct gs_taskstats_peer_row *r, char out[GS_JOB_ROW_BYTES]);

void gs_job_report_put_detail(struct gs_doc *doc, const struct gs_job_report *job,
			      const struct gs_job_report_style *style);
void gs_job_report_put_pressure(struct gs_doc *doc, const double ratio[GS_STALL_COUNT],
				const struct gs_job_report_style *style);
/* Lines of "job_id,table,row,key,value". */
void gs_job_report_put_detail_csv(struct gs_pen *pen, const struct gs_job_report *job);
/* Lines of text: each is handed over with the words that lead its table, "" for further ones. */
void gs_job_report_each_detail_line(const struct gs_job_report *job, bool all,
				    void (*put)(void *ctx, const char *lead, const char *line),
				    void *ctx);

/* --- report_mpi.c --- */

const char *gs_job_report_mpi_direction(uint32_t direction);
void gs_job_report_name_mpi_rank(const struct gs_job_mpi_rank *rank, char out[GS_JOB_ROW_BYTES]);
void gs_job_report_put_mpi(struct gs_doc *doc, const struct gs_job_report *job,
			   const struct gs_job_report_style *style);
/* all: each function and peer too. */
void gs_job_report_each_mpi_line(const struct gs_job_report *job, bool all,
				 void (*put)(void *ctx, const char *lead, const char *line),
				 void *ctx);

/* The class that most jobs have, "" without any; and the mean score, NAN. */
const char *gs_job_report_common_class(const struct gs_job_report_session *s);
double gs_job_report_mean_score(const struct gs_job_report_session *s);

#endif
