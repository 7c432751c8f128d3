/*
 * Advice: the built-in rules, in the shape that people act on (fact with its number, likely cause,
 * what to write next time, what it brings), and those that apply to a job. Thresholds as jobstats
 * and similar tools use them.
 */
#include <errno.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "analysis/rules/rules_int.h"

static const struct {
	const char *name, *condition, *fact, *cause, *next, *benefit;
} built_in[] = {
	{"gpus-never-used", "gpus > 0 && gpus_idle > 0 && duration_seconds >= 60",
	 "{gpus_idle:round} of {gpus:round} GPUs were never used.",
	 "Does the program see only one GPU (no DDP or MPI start, CUDA_VISIBLE_DEVICES set)?",
	 "--gres=gpu:{gpus-gpus_idle:round}",
	 "The job starts sooner, and other jobs get the GPUs."},
	{"gpu-low", "gpus > 0 && gpus_idle < gpus && gpu_percent < 25 && duration_seconds >= 60",
	 "The GPUs were busy {gpu_percent:1} % of the time.",
	 "Do they wait for data from the CPUs or disks, or for very small kernels?",
	 "more data-loader workers, larger batches, CUDA graphs; or --gres=gpu:1",
	 "Each GPU hour gets more work done."},
	{"gpu-input", "gpus > 0 && gpu_percent < 70 && io_percent >= 30",
	 "{io_percent:1} % of the threads' time was blocked on files while GPUs were {gpu_percent:1} % busy.",
	 "Is the data set read as many small files, or from a slow file system?",
	 "copy it to node-local disk first (cp to $TMPDIR), or pack it into large files",
	 "The GPUs do not wait for input."},
	{"gpu-sync", "gpus > 0 && gpu_sync_percent >= 50 && gpu_percent < 70",
	 "{gpu_sync_percent:1} % of the threads' time waited for a GPU that was {gpu_percent:1} % busy.",
	 "Is a result copied back or printed in each step (.item(), .cpu(), print of a tensor)?",
	 "read results every hundredth step only; use non_blocking copies", "Steps overlap again."},
	{"collectives", "collective_percent >= 30",
	 "{collective_percent:1} % of the time was spent in collectives.",
	 "Is one rank slower, or the network used where NVLink could be?",
	 "compare ranks; NCCL_DEBUG=INFO shows which transport is used; larger gradient buckets",
	 "Additional ranks are worth it again."},
	{"ranks-out-of-step", "rank_imbalance_percent >= 15",
	 "Rank {slowest_rank:round} had {rank_imbalance_percent:1} % more work than the mean of the ranks.",
	 "Is its part of the work larger, or its node slower?",
	 "balance the work; --exclude a node that is slow repeatedly",
	 "All ranks end at the same time."},
	{"serial",
	 "cores > 1.5 && cpus_busy > 0.6 && cpus_busy < 1.15 && cpu_demand_percent * cores / 100 < 1.15 && compute_percent >= 70 && !(lock_percent >= 30) && !(input_percent >= 30)",
	 "{cpus_busy:1} of {cores:round} processors were used.",
	 "Is the program serial, or OMP_NUM_THREADS=1?", "--cpus-per-task=1",
	 "The job starts sooner, and the other processors are free."},
	{"processors-unused",
	 "cores > 1.5 && cpu_demand_percent < 50 && cpus_busy >= 1.15 && io_percent < 30 && !(lock_percent >= 30) && !(net_percent >= 30) && !(input_percent >= 30)",
	 "{cpu_percent*cores/100:1} of {cores:round} processors were used.",
	 "Are there fewer threads or ranks than processors?",
	 "--cpus-per-task={cpu_percent*cores/100*1.1:ceil}", "The job starts sooner."},
	{"processors-taken", "cpu_taken_percent >= 30 && cpu_demand_percent >= 20",
	 "Other processes took {cpu_taken_percent:1} % of the processor time that the job could have used.",
	 "Do other jobs, or left-over processes, run on its processors?",
	 "check with `gpuscope top`; request exclusive processors (--exclusive, or no sharing)",
	 "The job never waits for processors."},
	{"processors-crowded",
	 "forced_switches_per_core_second > 1000 && runqueue_percent > 20 && cpu_taken_percent < 30",
	 "Threads waited for a processor {runqueue_percent:1} % of their time.",
	 "Are there more threads than processors (each rank starting one per core)?",
	 "OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "Fewer context switches, better use of caches."},
	{"cpu-throttled", "cpu_throttled_percent >= 20",
	 "The CPU quota of its cgroup throttled it in {cpu_throttled_percent:1} % of the periods.",
	 "Does it run more threads than the quota of {cores:1} processors allows?",
	 "OMP_NUM_THREADS={cores:ceil}, or a larger quota (cpu.max, limits.cpu)",
	 "No throttling in the middle of work."},
	{"disks", "io_percent >= 30 && !(gpus > 0)",
	 "{io_percent:1} % of the threads' time was blocked on files.",
	 "Does it make many small reads and writes, or use a shared file system?",
	 "buffer and write less often; use $TMPDIR for temporary files", "Less waiting."},
	{"network", "net_percent >= 30",
	 "{net_percent:1} % of the threads' time waited for the network, at {net_bytes_per_second:bytes} a second.",
	 "Does the peer answer late, or are the requests small?",
	 "make larger requests, several at once; see the peers in this report", "Less waiting."},
	{"input", "input_percent >= 30",
	 "Processes that compute waited {input_percent:1} % of their time for data from workers that they started.",
	 "Are the data-loader workers too slow?",
	 "more workers (num_workers, prefetch_factor), or less work for each item; `gpuscope trace -p PID` of a worker shows where its time goes",
	 "The training loop does not wait for its input."},
	{"small-io",
	 "io_bytes_per_operation < 4000 && syscalls_per_core_second > 10000 && (read_bytes_per_second + write_bytes_per_second) / io_bytes_per_operation > 5000",
	 "The mean size of file reads and writes was {io_bytes_per_operation:bytes}.",
	 "Is the output unbuffered?", "buffered or larger reads and writes (setvbuf, 1 MiB blocks)",
	 "Fewer system calls, more time to compute."},
	{"locks", "lock_percent >= 30 && !(input_percent >= 30)",
	 "{lock_percent:1} % of the threads' time waited for locks.",
	 "Do threads share one lock or allocator?",
	 "fewer threads, or jemalloc by LD_PRELOAD; look for the lock with `gpuscope trace`",
	 "Threads work in parallel."},
	{"killed-for-memory", "oom_kills > 0",
	 "The kernel killed {oom_kills:round} of its processes for lack of memory (OOM).",
	 "Did the work need more than its limit, or did every rank load the same data?",
	 "request more memory (--mem), or use fewer ranks per node", "The run does not fail."},
	{"memory-unused",
	 "memory_usage < 50 && memory_allocated_bytes > 4GiB && duration_seconds >= 60",
	 "{memory_used_bytes:bytes} of {memory_allocated_bytes:bytes} of memory were used.",
	 "Was it requested as a precaution?", "--mem={memory_used_bytes*1.2:mem}",
	 "The job starts sooner."},
	{"memory-short", "memory_usage >= 90 && memory_usage <= 110 && memory_allocated_bytes > 0",
	 "{memory_usage:1} % of the requested memory was used.",
	 "Will a slightly larger input be killed (out of memory)?",
	 "--mem={memory_allocated_bytes*1.3:mem}", "The run does not fail."},
	{"paging", "major_faults_per_second > 100 && memory_held_percent >= 90",
	 "{major_faults_per_second:round} page faults a second waited for a disk; the requested memory is full.",
	 "Is its working set larger than its memory?", "--mem={memory_allocated_bytes*1.5:mem}",
	 "Less waiting."},
	{"mapped-files", "major_faults_per_second > 100 && !(memory_held_percent >= 90)",
	 "{major_faults_per_second:round} page faults a second waited for a disk, with memory left.",
	 "Is a large file mapped and read at random?",
	 "read it in order, or ahead (madvise, MAP_POPULATE); or copy it to a faster disk",
	 "Less waiting."},
	{"time-limit", "time_limit_percent < 60 && run_seconds > 900",
	 "The job took {time_limit_percent:1} % of the time it requested.",
	 "Is the limit the partition's default?", "--time={run_seconds*1.25:time}",
	 "The scheduler can backfill shorter jobs earlier."},
	{"idle", "idle_percent >= 90 && !(gpus > 0) && duration_seconds >= 60",
	 "Its processes slept or waited for work {idle_percent:1} % of the time.",
	 "Does it wait for input, a licence or another job, or does it hang?",
	 "check with `gpuscope trace -p PID`; end it if it hangs",
	 "Its resources are free for other jobs."},
};

int gs_rules_add_built_in_advice(struct gs_rules *rules)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(built_in); i++) {
		int r = gs_rules_add_advice(rules, built_in[i].name, built_in[i].condition,
					    built_in[i].fact, built_in[i].cause, built_in[i].next,
					    built_in[i].benefit, NULL);

		if (r < 0)
			return r;
	}
	return 0;
}

void gs_rules_advise(const struct gs_rules *rules, const struct gs_figures *f, struct gs_verdict *v)
{
	for (size_t i = 0; i < rules->n_advice && v->n_advice < GS_VERDICT_ADVICE_MAX; i++) {
		const struct gs_advice_rule *rule = &rules->advice[i];
		struct gs_advice *a = &v->advice[v->n_advice];

		if (gs_expr_value(rule->condition, f) != 1)
			continue;
		snprintf(a->rule, sizeof(a->rule), "%s", rule->name);
		/* They were looked at when they were added. */
		gs_rules_fill_template(rule->fact, f, a->fact, sizeof(a->fact), NULL);
		gs_rules_fill_template(rule->cause, f, a->cause, sizeof(a->cause), NULL);
		gs_rules_fill_template(rule->next, f, a->next, sizeof(a->next), NULL);
		gs_rules_fill_template(rule->benefit, f, a->benefit, sizeof(a->benefit), NULL);
		v->n_advice++;
	}
}
