#!/usr/bin/env python3
"""The rooms of src/: the one place that says which room there is, what it is for, and which other rooms it may include.

A room includes its own headers and those of the rooms that its row names, as "folder/room/file.h"; a row may also name single
headers. Every name stands in a row above: includes go down only. Meson makes one static library of each room and links it with the
libraries of the same rooms (src/meson.build), tools/include_law.py checks every #include line, and the table in ARCHITECTURE.md is
printed from here. A new room is one row here, its folder, and a meson.build in it that lists its files.

usage: rooms.py --meson     lines for src/meson.build: name|path|kind|rooms linked|libraries linked
       rooms.py --table     the table of ARCHITECTURE.md
       rooms.py --arrows    which folder includes which, with counts of rooms
"""
import collections
import sys

Room = collections.namedtuple("Room", "path includes libraries purpose keeps")
BASE = "core/base"
BELOW = "core/base model/trace"
NODE = "core/base model/trace model/node"
ROOMS = [
    Room("core/base", "", "libm libyaml",
         "errors, log, buffers, maps, clocks, number formats, configuration by tables, Unix sockets, files to write (`output.h`), secrets (`secret.h`), files of traced programs and what reading them may cost (`foreign.h`)",
         "allocation wrappers, clock conversion, numbers with units, YAML, opening a file that another user can change"),
    Room("core/series", "", "libm",
         "values over time: the mean, lowest and highest of a stretch; energy out of power and counters",
         "what of a stretch is a gap; when a counter of energy is another one's, or started again"),
    Room("core/sandbox", BASE, "",
         "turns the calling process into one without rights: user, capabilities, limits, Landlock, seccomp",
         "lists of system calls; what a process gives up"),
    Room("core/scrub", BASE, "libjansson",
         "removes secrets from command lines",
         "what is a secret: names, options, shapes of tokens"),
    Room("core/reader", BASE + " core/sandbox", "",
         "processes without rights that read foreign files for one that has rights: messages, deadlines, replacement",
         "the frame of that protocol; when a reader is late, dead or not believed"),
    Room("core/sender", BASE + " core/sandbox core/reader", "",
         "processes without rights that talk to other servers for one that has rights: start, messages, deadlines, why they ended",
         "what a sender may do"),
    Room("core/demangle", BASE, "libiberty",
         "names of C++ and Rust as their sources have them",
         "how compilers mangle them; libiberty"),
    Room("core/text", BASE, "libm",
         "writes text of any format into memory: JSON, YAML, pages, documents, protobuf",
         "escaping, UTF-8, columns of a terminal, spelling of JSON and YAML"),
    Room("core/queue", BASE, "libz",
         "durable queue of batches that no head has acknowledged: numbered, in files, bounded",
         "the queue's files; what is dropped when it is full"),
    Room("model/gpu_queue", "", "",
         "work for GPUs as the kernel adds it up: rows by process, stream and sort of work",
         "what crosses of it to user space, and ahead of which calls"),
    Room("model/trace", BASE + " model/gpu_queue", "",
         "raw events, records, function table, histogram: plain values and their names",
         "any struct that crosses kernel and user space or reaches a disk; names of layers and their libraries, losses, error codes"),
    Room("model/summary", BELOW, "",
         "what a trace adds up to, as plain values: functions, processes, account, steps, arrivals, streams, verdict",
         "what a summary holds; who owns its memory"),
    Room("model/node", BELOW + " model/summary", "",
         "one machine at one time: GPUs, host, processes and jobs, as plain values and as records",
         "which values of a GPU there are (`gpu_field.h`), what an XID means"),
    Room("model/gpu_work", BELOW, "",
         "what GPUs did, as they report it themselves: plain values and records",
         "numbers of CUPTI that are stored"),
    Room("model/call", "model/trace/call_args.h model/trace/class.h model/trace/event.h model/trace/kernel_side.h", "",
         "what a call says beyond the words that its entry saved, and which call is how another one does its work: for the kernel and for traced programs",
         "layouts of structs that calls of CUDA are given"),
    Room("model/nccl", BELOW, "",
         "what NCCL says of its operations: plain values and records",
         "numbers of them that are stored"),
    Room("model/companion", "model/trace/account.h model/gpu_work/gpu_work.h model/trace/event.h model/trace/first_side.h model/trace/hist.h model/trace/kernel_side.h model/trace/mpi.h model/trace/python.h model/nccl/nccl.h", "",
         "the file by which a traced process reports what is seen from inside of it",
         "its layout, kinds of its records, what a copy of it must be like to be believed"),
    Room("bpf/common", "", "",
         "ids and marks of tasks, for all programs in the kernel",
         "namespaces of process ids; how task storage fails"),
    Room("bpf/calls", "bpf/common model/call model/gpu_queue model/trace/account.h model/trace/call_args.h model/trace/class.h model/trace/event.h model/trace/hist.h model/trace/kernel_side.h model/trace/mark.h model/trace/python.h", "",
         "programs in the kernel that trace calls",
         "sees only `bpf/common`, `model/call`, `model/gpu_queue` and what `model/trace` shares with the kernel"),
    Room("bpf/mpi", "bpf/calls/call.bpf.h bpf/calls/comm.bpf.h bpf/calls/post.bpf.h bpf/calls/ends.bpf.h model/trace/mpi.h", "",
         "programs in the kernel for MPI: what a call moves, to and from whom",
         "what differs between implementations of MPI; sees `bpf/calls`"),
    Room("bpf/user", "bpf/calls/cell.bpf.h bpf/calls/ids.bpf.h bpf/calls/scope.bpf.h bpf/calls/session.bpf.h model/trace/user_probe.h", "",
         "programs in the kernel for probes that the user described: follow a row of a table",
         "what a described probe reads, filters and adds up; sees `bpf/calls`"),
    Room("bpf/account", "bpf/calls/account.bpf.h bpf/calls/decide.bpf.h bpf/calls/python.bpf.h", "",
         "programs in the kernel for the wall-clock account of threads, and where Python code waits",
         "states of a thread, and what a system call waits for; sees `bpf/calls`"),
    Room("bpf/tasks", "bpf/common model/trace/hist.h model/trace/taskstats.h model/trace/taskstats_side.h", "",
         "programs in the kernel that add up what the kernel does for processes",
         "sees only `model/trace/taskstats.h`, `taskstats_side.h`, `hist.h` and `bpf/common`"),
    Room("companion/ring", "model/trace/hist.h model/trace/kernel_side.h model/companion", "",
         "writes records into the file of this process; part of the library that is loaded into traced programs",
         "system calls without libc; what holds in signal handlers, forked children and cancelled threads"),
    Room("companion/gpu", "model/gpu_work/gpu_work.h model/companion companion/ring", "",
         "what GPUs did, by CUPTI, from inside of a traced program: libgpuscope_companion_gpu.so",
         "where fields lie in CUPTI's records, which of its versions are fit, how others in the program come by it"),
    Room("companion/nccl", "model/nccl/nccl.h model/companion companion/ring", "",
         "operations of NCCL as it reports them itself, from inside of a traced program: libgpuscope_companion_nccl.so",
         "layouts of NCCL's interface for profilers, in which of its versions what may be asked for"),
    Room("companion/python", "model/trace/python.h model/trace/python_match.h model/companion companion/ring", "",
         "calls of Python functions, by the interpreter's own interfaces for it, from inside of a traced program: libgpuscope_companion_python.so",
         "which functions of CPython's C API there are by version, where its frames and thread states have what is read"),
    Room("companion/calls", "model/call model/companion companion/ring", "",
         "calls of CUDA and NCCL from inside of a traced program: libgpuscope_companion.so",
         "what a loader has in memory of libraries, and pointers to functions there"),
    Room("companion/ops", "model/trace/torch_op.h model/companion companion/ring companion/calls/module.h", "",
         "operators of PyTorch by its own observer, from inside of a traced program: libgpuscope_companion_ops.so",
         "layouts of PyTorch's observer, in which of its versions it can be used"),
    Room("sources/companion", "core/base model/trace model/companion", "",
         "reads what traced processes report from inside of themselves",
         "when a process's file is believed; ticks of processors to ns"),
    Room("sources/elf", BELOW, "libelf",
         "files of traced programs: symbols; where libraries are and will be mapped",
         "ELF, the loader's rules, mount namespaces"),
    Room("sources/cubin", BASE + " sources/elf", "libzstd",
         "CUDA code in files: fat binaries, cubins, PTX; which kernels they have, what each needs, by which host function it is launched",
         "their layouts, LZ4 blocks, how kernels are registered"),
    Room("sources/x86", BELOW, "",
         "machine code: where in a function a probe is cheap and safe, and where the function is left",
         "decoding of instructions; what the kernel emulates"),
    Room("sources/attach_plan", BASE + " core/reader model/trace sources/elf sources/x86", "",
         "from a file to probe sites: which wanted functions, operators and parts of an interpreter it has",
         "names of operators' symbols; how a return is caught; the default choice"),
    Room("sources/sideband", BELOW, "",
         "reports mapped libraries, started and ended programs",
         "the perf events by which the kernel reports them"),
    Room("sources/uprobe", BELOW + " model/gpu_queue sources/elf sources/x86 sources/attach_plan sources/sideband", "libbpf libelf threads",
         "loads the programs, attaches probes, reads their maps and ring",
         "libbpf, bpf(2), perf events; which kernel can what"),
    Room("sources/probefile", BELOW, "libyaml",
         "descriptions of probes → rows of the kernel's table",
         "YAML of probes, sites, filters"),
    Room("sources/overhead", BELOW, "",
         "decides how closely each function may be traced",
         "the decisions of `--max-overhead`"),
    Room("sources/launches", BASE + " core/reader model/trace model/node sources/elf sources/attach_plan sources/uprobe", "",
         "counts kernel launches and time in NCCL by job",
         "which functions those figures need"),
    Room("sources/unwind", BASE + " core/demangle core/reader model/trace sources/elf sources/cubin", "libz",
         "stacks: unwinding by tables, names of addresses, frames of Python interpreters",
         "call frame information, symbol indexes; offsets of interpreter versions"),
    Room("sources/thread_stack", BASE + " core/reader model/trace sources/unwind", "",
         "stacks of threads of running processes, read from outside: of those that wait, and samples of those that run",
         "which thread state of an interpreter is a thread's"),
    Room("sources/taskstats", BELOW, "libbpf",
         "what the kernel does for processes and cgroups: time by state, calls, I/O, network",
         "what a system call means, its maps and tracepoints"),
    Room("sources/host", NODE, "",
         "figures of the machine and of processes; signals",
         "procfs counters and their rates"),
    Room("sources/cuda_visible", BASE + " core/reader sources/elf", "",
         "which GPUs CUDA shows a process, by its environment, at its begin and now",
         "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, NVIDIA_VISIBLE_DEVICES"),
    Room("sources/identity", BASE + " core/scrub model/trace model/node sources/cuda_visible", "libjansson",
         "names of processes, threads, users, containers; their jobs: Slurm, pods, units",
         "procfs texts, cgroup paths, Slurm's variables, commands and files"),
    Room("sources/amdgpu", NODE, "",
         "AMD GPUs out of sysfs",
         "names and units of amdgpu's and amdkfd's files, layouts of `gpu_metrics`"),
    Room("sources/gpu", NODE + " sources/identity sources/amdgpu", "threads dl",
         "snapshots of GPUs and of the processes on them; selection of GPUs",
         "NVML's types, numbers and dlopen; XIDs in the kernel log"),
    Room("sources/device_cgroup", BASE, "libbpf",
         "gives the control group of a process access to NVIDIA's devices that lasts",
         "rules of `devices.allow`, device programs of cgroups, DeviceAllow= of systemd"),
    Room("sources/sampler", NODE + " sources/host sources/identity", "",
         "samples the host and its processes beside the GPUs",
         "when a process name is read again"),
    Room("pipeline/recording", BELOW + " model/gpu_work model/nccl", "libzstd libz",
         "`.gst` files: written, read, recovered; the last seconds of a stream in memory, written as such a file",
         "file format, checksums, where a torn file ends; what a part of a stream needs of what came before it"),
    Room("pipeline/gpu_activity", BELOW + " model/summary", "",
         "what the GPU was asked to do, by stream, from calls: pending work, gaps, waits of the host",
         "rules of streams, events, captures and the default stream"),
    Room("pipeline/gpu_memory", BELOW, "",
         "what processes hold of memory for GPUs and pinned of the host, from calls: by device, kind and call site",
         "which call gives or frees which memory; reserved addresses, mappings and handles"),
    Room("pipeline/gpu_time", BELOW + " model/gpu_work model/summary", "",
         "what GPUs did by their own times: by kernel, and stretches in which work of a sort ran",
         "windows in which all work is known; which kernels are communication"),
    Room("pipeline/nccl_ops", BELOW + " model/nccl model/summary", "",
         "operations of NCCL as it reports them itself: by algorithm, protocol and channels, and which rank lags",
         "which channels are of which operation; what crosses the links of a rank"),
    Room("pipeline/process_gpu", BELOW + " model/summary pipeline/gpu_activity", "",
         "what each process asked of each GPU, as sums that only grow: active time, cores, filled thread places, copies, waits",
         "which windows are counted when; limits of SMs; shares where processes use more than there is"),
    Room("pipeline/gpu_accuracy", NODE + " model/summary pipeline/gpu_activity", "",
         "how far bounds of a GPU's time that calls give are from what the GPU itself counted",
         "which time is compared"),
    Room("pipeline/correlate", BELOW + " model/summary pipeline/gpu_activity pipeline/gpu_memory", "",
         "what only a run of calls shows: bytes freed, counters of memory, ranks of communicators, which call waited for which launch; whose a line of Python is; patterns that choose Python functions",
         "ledgers of communicators and of PyTorch's allocator"),
    Room("pipeline/holders", BELOW + " model/summary pipeline/correlate", "",
         "who holds memory, of a summary: the sums and call sites that stand at a stream's end",
         "which frame of a stack is the call site of an allocation"),
    Room("pipeline/collectives", BELOW + " model/summary", "libm",
         "collectives matched across ranks: who arrives late, how often, by how much",
         "which calls of ranks are one collective; when a rank stands out"),
    Room("pipeline/hangs", BELOW + " model/summary", "",
         "hangs and mismatches of a stream, as they were found while it was recorded",
         "which record of one comes again"),
    Room("pipeline/aggregate", BELOW + " model/summary pipeline/correlate pipeline/holders pipeline/hangs pipeline/collectives pipeline/gpu_activity pipeline/gpu_accuracy pipeline/gpu_time pipeline/nccl_ops", "",
         "totals by function, process, thread",
         "ranking, percentiles"),
    Room("pipeline/flamegraph", BELOW, "",
         "records → a tree of weights by process, thread, Python, operator, native code, call",
         "nesting of calls that are reported at their return; merging of stacks"),
    Room("pipeline/ingest", BELOW + " core/demangle model/gpu_work model/nccl sources/cubin sources/cuda_visible sources/unwind sources/identity", "",
         "raw events → records, losses, batches",
         "that conversion"),
    Room("pipeline/inside", BELOW + " model/gpu_work model/nccl model/companion sources/companion pipeline/ingest", "",
         "what processes report from inside of themselves → raw events and cells",
         "by which door the calls of a process are seen; the order of calls of several rings"),
    Room("pipeline/kineto", BELOW + " model/gpu_work", "libjansson libm",
         "traces of PyTorch's profiler (Kineto), in Chrome's format → records",
         "their categories; which of their events are calls, and which work of GPUs"),
    Room("pipeline/gpu_meter", NODE + " model/gpu_queue model/companion core/reader sources/elf sources/uprobe sources/companion sources/identity pipeline/gpu_activity pipeline/gpu_memory pipeline/process_gpu pipeline/ingest pipeline/inside", "",
         "traces chosen processes while they run and keeps what each asks of each GPU",
         "which calls that needs, and what the kernel adds up of them"),
    Room("analysis/rules", BELOW + " model/summary core/text", "libm libyaml",
         "class, score and advice of a job, from figures",
         "thresholds, rules and their expressions"),
    Room("analysis/detect", BASE, "libm",
         "detectors of what changes in a series of numbers: change points, drift, unusual densities, stalls, leaks, fragmentation",
         "the table of detectors (`gs_detectors`), their options and models; robust statistics"),
    Room("analysis/hang", BELOW, "",
         "hangs of jobs whose ranks meet at collectives: who has not arrived, who ended, who made another call",
         "which calls of ranks must be alike; when a wait is a hang"),
    Room("analysis/fleet", BELOW + " model/nccl analysis/detect analysis/hang", "libm",
         "jobs over many nodes: what each rank's collectives add up to, which rank is late, has not arrived or called something else, and when all became slower",
         "which marks of ranks are compared; when a rank is late, and a communicator hangs"),
    Room("analysis/gpu_health", NODE, "libm",
         "what is wrong with a GPU: condition, severity, text with figures, advice",
         "the table of conditions (`condition.h`), their limits, their Prometheus rules"),
    Room("analysis/explain", NODE + " analysis/detect analysis/gpu_health", "libm",
         "findings of a run: series out of steps, calls and samples, their detectors, causes, what was found at the same time",
         "which detector follows which series; which part of a difference is named as its cause; texts of findings"),
    Room("analysis/run_compare", BELOW + " model/summary core/text", "libm",
         "differences between recorded runs: of a step, with a confidence interval, and which part of it is where",
         "how runs are cut into blocks; when a difference is shown, and a place is named as its cause"),
    Room("analysis/job_conf", "core/base analysis/rules", "libm",
         "the configuration of `gpuscope job`",
         "its keys, those of ebpf-hpc-monitor among them"),
    Room("analysis/job_report", BASE + " core/text model/trace model/node analysis/rules analysis/detect/robust.h", "libm libjansson",
         "reports of jobs: figures, configuration, formats, comparison",
         "the keys of reports"),
    Room("analysis/job_rows", NODE + " sources/taskstats", "",
         "the kernel's counters of the processes of jobs: whose each is, what they sum to, and what came in the last minute",
         "which job a new process is of; what becomes of the row of an ended process"),
    Room("analysis/job_accounting", NODE + " core/series sources/launches sources/taskstats sources/host sources/identity sources/gpu analysis/rules analysis/job_conf analysis/job_report analysis/job_rows", "libm",
         "figures of jobs: running totals of all of the node, measurements of chosen ones",
         "which process belongs to which job; growth, windows"),
    Room("analysis/alert", NODE + " analysis/rules analysis/gpu_health", "libm",
         "alert rules over the values of jobs, GPUs and the node: which message is due when",
         "hysteresis, cool-down, what outlives a restart; keys of alert configurations"),
    Room("net/tls", BASE, "libssl",
         "an OpenSSL context: our certificate and key, trusted authorities, errors in words",
         "versions, options, passphrases"),
    Room("net/http", BASE + " core/sandbox core/text model/trace net/tls core/reader/wire.h", "threads libssl libz",
         "HTTP server: routes by a table, TLS, tokens; in a thread, or in a process without rights",
         "HTTP parsing, sockets"),
    Room("net/grpc", BELOW + " net/tls", "threads libssl libnghttp2",
         "gRPC over HTTP/2, client and server",
         "nghttp2, framing, back-off"),
    Room("net/http_client", BASE + " core/reader core/sender", "threads dl",
         "requests and e-mail to other servers, by senders",
         "libcurl, opened at run time"),
    Room("net/uplink", BASE + " core/reader core/sender core/queue model/trace model/node net/grpc", "proto libzstd libz threads",
         "the node's connection to a head: batches and acknowledgements in the program, the line itself in a sender; saved traces",
         "the node's side of proto/"),
    Room("output/gpu_report", BASE + " core/text model/trace model/summary", "libm",
         "what GPUs and NCCL were asked to do, of a summary: tables and keys of streams, GPU time, memory, operations and hangs",
         "which columns and keys of these there are"),
    Room("output/report", BASE + " core/text model/trace model/summary output/gpu_report", "threads libm",
         "summaries as table, JSON, CSV, YAML",
         "which keys and columns there are"),
    Room("output/node_report", BASE + " core/text model/trace model/node analysis/gpu_health output/report", "threads libm",
         "GPU values and samples as table, JSON, CSV, YAML",
         "which keys and columns there are"),
    Room("output/trace_export", BASE + " core/text model/trace model/node model/summary model/gpu_work model/nccl pipeline/correlate pipeline/flamegraph pipeline/gpu_activity", "threads libm libz",
         "trace files in the formats of other tools",
         "the text or bytes of each format"),
    Room("output/metrics", BASE + " core/text model/trace model/node", "libm",
         "metrics for Prometheus and OpenMetrics, from the table of GPU values",
         "names of metrics, their escaping, dcgm-exporter's names"),
    Room("output/metrics_push", BASE + " core/text core/queue model/trace net/http_client output/metrics", "threads dl",
         "metrics to other servers: remote write or OTLP, through the queue",
         "both protocols, snappy, the section `push` of configurations"),
    Room("output/mysql", NODE + " core/text core/reader core/sandbox core/sender core/queue sources/sampler output/metrics", "threads dl",
         "samples of a node to MySQL and MariaDB, in tables of our own or eACGM's: queue, thread, sender",
         "tables and their columns; libmariadb, opened at run time"),
    Room("output/notify", BASE + " core/text model/trace analysis/alert net/http_client", "threads libm",
         "alert messages: webhook, e-mail, log, each with a queue and a thread",
         "the form of messages, back-off"),
    Room("output/plot", NODE + " core/series", "dl libjansson libm",
         "samples → figures over time (PDF, SVG, PNG); documents of pages (PDF)",
         "cairo, axes, colours; JSON of sessions as input"),
    Room("output/run_page", BASE + " core/text model/trace model/summary model/gpu_work output/report output/plot", "threads libm",
         "a recorded run as one HTML file, with an excerpt of its timeline, or as PDF",
         "how many rows of each list a page has; what of a timeline is drawn"),
    Room("output/screen", BASE, "libm",
         "a screen of characters in memory: text, lines, columns, graphs, figures in few columns",
         "where a text is cut, styles, places to click; no ncurses"),
    Room("output/tui", NODE + " analysis/gpu_health output/screen", "ncursesw",
         "the screen of `gpuscope top`",
         "ncurses (`term.c` alone); what comes first"),
    Room("server/openapi", BASE + " core/text", "",
         "the description of an HTTP API, from tables",
         "OpenAPI, JSON Schema"),
    Room("server/store", NODE + " core/series", "libsqlite libzstd",
         "what a head keeps: nodes, streams, batches, sessions, job reports",
         "SQLite, schema and its migrations, retention, downsampling"),
    Room("server/registry", NODE + " analysis/gpu_health", "libm",
         "the nodes of a cluster now and in the last minutes, as immutable views",
         "which node is healthy or silent; its lock"),
    Room("server/finding", BELOW + " core/text model/nccl analysis/detect analysis/hang analysis/fleet output/metrics server/store", "",
         "findings of jobs over many nodes into the store, out of it as JSON, and as a metric",
         "their keys"),
    Room("server/session_export", BASE + " core/series core/scrub core/text model/trace model/node pipeline/recording output/plot server/store", "libm threads",
         "a stored session as JSON, CSV, .gst; files of stopped sessions in a folder",
         "frames, clocks of nodes, keys of the files"),
    Room("server/head", BASE + " core/scrub model/trace model/node model/nccl analysis/fleet analysis/job_report net/grpc net/http output/metrics_push server/store server/finding server/registry server/session_export", "proto threads libjansson",
         "the head: services, the thread that stores, the one that downsamples, push",
         "the head's side of proto/, its configuration, its own metrics"),
    Room("server/live", BASE + " core/series core/scrub core/text model/trace model/node analysis/gpu_health net/http server/registry", "threads libm",
         "a cluster now, over HTTP, for head and agent: documents, events, the page (`web/`)",
         "their keys; the health of a GPU as the page shows it"),
    Room("server/api", BASE + " core/series core/scrub core/text model/trace model/node analysis/job_report net/http output/metrics output/plot server/openapi server/store server/finding server/session_export server/head server/live", "libjansson threads libm",
         "a head's HTTP API: sessions, job reports, history, exports, plots",
         "keys and statuses of its answers"),
    Room("commands/common", NODE + " core/text model/gpu_work sources/identity sources/sampler pipeline/correlate pipeline/gpu_activity pipeline/holders pipeline/aggregate analysis/detect analysis/explain output/report output/trace_export output/metrics_push", "libm",
         "what all commands share: options by tables, messages, exit statuses, where a summary and findings go",
         "the only room beside the commands that prints"),
    Room("commands/head", BASE + " core/text model/trace model/node sources/identity sources/gpu sources/sampler net/grpc net/http_client net/uplink output/plot server/store server/session_export server/head server/api commands/common", "",
         "`gpuscope head`, `connect`, `session`",
         "how a command line becomes calls to a head"),
    Room("commands/trace_options", BELOW + " core/reader sources/elf sources/attach_plan sources/probefile sources/identity pipeline/correlate pipeline/gpu_activity pipeline/aggregate pipeline/inside output/report output/trace_export commands/common commands/head", "",
         "what is asked of `gpuscope trace`: its command line and `--list`",
         "which options there are, which go together, what follows from all of them"),
    Room("commands/trace_output", NODE + " core/text model/summary sources/elf sources/uprobe sources/overhead sources/host sources/identity pipeline/recording pipeline/correlate pipeline/gpu_activity pipeline/aggregate pipeline/ingest pipeline/inside analysis/explain analysis/fleet analysis/hang analysis/rules output/report output/trace_export commands/common commands/head commands/trace_options", "",
         "from events to files, a head and the summary; what tracing costs",
         "what is connected to what after the probe"),
    Room("commands/trace", NODE + " core/reader core/sandbox sources/elf sources/attach_plan sources/uprobe sources/companion sources/unwind sources/thread_stack sources/gpu pipeline/inside analysis/hang commands/common commands/trace_options commands/trace_output", "",
         "`gpuscope trace`: the traced command, probes and interpreters, GPUs beside the calls, the end",
         "what runs when during a trace, and in which thread"),
    Room("commands/job", NODE + " core/sandbox core/text sources/launches sources/taskstats sources/host sources/identity sources/gpu analysis/detect analysis/explain analysis/job_conf analysis/job_report analysis/job_accounting analysis/alert output/notify commands/common commands/head", "",
         "`gpuscope job`: selection of processes, reports, comparisons",
         "recorders in the background"),
    Room("commands/agent_gpu", NODE + " model/summary model/companion core/text sources/companion sources/identity pipeline/gpu_meter output/metrics commands/common", "",
         "what processes and jobs ask of GPUs, traced by the agent on request",
         "requests and their time; names of metrics and keys of what was found"),
    Room("commands/agent_findings", NODE + " analysis/detect analysis/explain output/metrics output/metrics_push commands/common", "",
         "findings of a node, which the agent keeps for who asks, and who asks (`explain --live`, `--job-id`)",
         "their numbers, metrics and answers"),
    Room("commands/agent_devices", BASE + " core/sandbox model/trace model/node sources/device_cgroup output/metrics commands/common", "",
         "what the agent does for access to NVIDIA's devices: a thread, its state and metrics",
         "the section `devices` as values"),
    Room("commands/agent_recorder", NODE + " core/text sources/identity net/http output/metrics commands/common commands/agent_findings", "",
         "the agent's flight recorder: the last seconds of chosen jobs, by programs that trace them, and their files",
         "when a job's program begins, ends and writes; names of its files"),
    Room("commands/agent", NODE + " core/reader core/sandbox core/sender sources/host sources/identity sources/gpu sources/sampler analysis/job_report analysis/job_accounting analysis/gpu_health analysis/alert net/http net/http_client net/uplink output/metrics output/metrics_push output/mysql output/notify server/registry server/live commands/common commands/agent_gpu commands/agent_findings commands/agent_devices commands/agent_recorder", "",
         "`gpuscope agent`, the daemon",
         "its configuration, schedule and routes"),
    Room("commands/report", BASE + " core/text model/trace model/node pipeline/kineto pipeline/recording pipeline/correlate pipeline/gpu_activity pipeline/aggregate analysis/explain analysis/rules analysis/run_compare output/report output/run_page output/trace_export output/plot commands/common commands/job", "",
         "`gpuscope report`: summaries, conversions, comparisons and plots of recordings",
         "what is read of a file for each of these"),
    Room("commands/main", BASE + " core/reader core/sandbox core/sender core/text model/trace model/summary model/node sources/elf sources/attach_plan sources/unwind sources/host sources/cuda_visible sources/identity sources/gpu sources/device_cgroup sources/sampler pipeline/recording pipeline/aggregate analysis/job_accounting analysis/gpu_health net/http net/http_client net/uplink analysis/rules output/gpu_report output/report output/node_report output/trace_export output/mysql output/tui commands/common commands/report", "",
         "the commands `gpu`, `top`, `explain`, `probes`, `devices`",
         "the table of commands"),
    Room("compat/gswarm", NODE + " core/queue core/text net/grpc net/http net/http_client net/uplink output/plot server/store server/session_export server/head server/live server/api commands/common commands/head commands/main", "proto libzstd libjansson libm",
         "gswarm-profiler's interface: gRPC and HTTP on a head, delivery to its heads, `gsprof`",
         "its messages, its clients' versions, its units"),
]
FOLDERS = ("core", "model", "bpf", "companion", "sources", "pipeline", "analysis", "net", "output", "server", "commands", "compat")


def name_of(path):
    """The name of a room's library and of its list of files: its last part, with its folder where another room has that, too."""
    folder, room = path.split("/")
    return f"{folder}_{room}" if folder in ("commands", "bpf", "companion") or path == "sources/companion" else room


def kind_of(path):
    if path in ("model/call", "model/gpu_queue", "model/gpu_work", "model/nccl"):  # no file to compile by itself
        return "headers"
    if path in ("companion/calls", "companion/gpu", "companion/nccl", "companion/ops", "companion/python"):  # libraries of their own, which their meson.builds make
        return "apart"
    folder = path.split("/")[0]
    return "program" if folder == "commands" and path != "commands/common" else "kernel" if folder == "bpf" else "library"


def rooms_in(room):
    """The rooms that a row names, whole or by single headers."""
    return [name.rsplit("/", 1)[0] if name.endswith(".h") else name for name in room.includes.split()]


def check():
    """Problems of the declaration itself: a line each."""
    seen, problems = {}, []
    for room in ROOMS:
        folder = room.path.split("/")[0]
        if folder not in FOLDERS:
            problems.append(f"{room.path}: no folder of src/rooms.py")
            continue
        for target in rooms_in(room):
            if target not in seen:
                problems.append(f"{room.path}: {target} does not stand above it")
            elif FOLDERS.index(target.split("/")[0]) > FOLDERS.index(folder):
                problems.append(f"{room.path}: {target} is in a folder above")
        seen[room.path] = room
    return problems


def print_meson():
    kinds = {room.path: kind_of(room.path) for room in ROOMS}
    for room in ROOMS:
        linked = [name_of(name) for name in rooms_in(room) if kinds[name] == "library"]
        print("|".join((name_of(room.path), room.path, kinds[room.path], " ".join(linked), room.libraries)))


def print_table():
    print("| room | what | belongs nowhere else |\n|---|---|---|")
    for room in ROOMS:
        print(f"| `{room.path}` | {room.purpose} | {room.keeps} |")


def print_arrows():
    arrows = collections.Counter()
    for room in ROOMS:
        for target in {name.split("/")[0] for name in rooms_in(room)} - {room.path.split("/")[0]}:
            arrows[room.path.split("/")[0], target] += 1
    for (start, end), count in sorted(arrows.items(), key=lambda a: (FOLDERS.index(a[0][0]), FOLDERS.index(a[0][1]))):
        print(f"{start} -> {end}: {count}")
    print(f"{len(arrows)} arrows between {len(FOLDERS)} folders, {len(ROOMS)} rooms")


if __name__ == "__main__":
    found = check()
    if found:
        sys.exit("\n".join(found))
    {"--meson": print_meson, "--table": print_table, "--arrows": print_arrows}.get(sys.argv[1] if len(sys.argv) == 2 else "", lambda: sys.exit(__doc__))()
