#!/usr/bin/env python3
"""The rooms of src/: the one place that says which room there is, what it is for, and which other rooms it may include.

A room includes its own headers and those of the rooms that its row names, as "folder/room/file.h"; a row may also name single
headers. Every name stands in a row above: includes go down only. Meson makes one static library of each room and links it with the
libraries of the same rooms (src/meson.build), tools/include_law.py checks every #include line, and the tables in ARCHITECTURE.md
and doc/internals/rooms.md are printed from here. A new room is one row here, its folder, and a meson.build in it that lists its files.

usage: rooms.py --meson     lines for src/meson.build: name|path|kind|rooms linked|libraries linked
       rooms.py --folders   the table of ARCHITECTURE.md
       rooms.py --table     the table of doc/internals/rooms.md
       rooms.py --write     both into these files
       rooms.py --arrows    which folder includes which, with counts of rooms
"""
import collections
import contextlib
import io
import pathlib
import sys

Room = collections.namedtuple("Room", "path includes libraries purpose keeps")
BASE = "core/base"
BELOW = "core/base model/trace"
NODE = "core/base model/trace model/node"
ROOMS = [
    Room("core/near", "", "",
         "\"did you mean\": the name that is nearest to a word that was typed",
         "how near a name must be to be meant"),
    Room("core/base", "core/near", "libm libyaml",
         "errors, log, buffers, maps, clocks, number formats, configuration by tables, Unix sockets, files to write (`output.h`), secrets (`secret.h`), files of traced programs and what reading them may cost (`foreign.h`)",
         "allocation wrappers, clock conversion, numbers with units, YAML, opening a file that another user can change"),
    Room("core/series", "", "libm",
         "values over time: mean, minimum and maximum of an interval; energy from power and counters",
         "when a part of an interval is a gap; when an energy counter was replaced or reset"),
    Room("core/sandbox", BASE, "",
         "drops the privileges of the calling process: user, capabilities, limits, Landlock, seccomp",
         "lists of system calls; which privileges a process drops"),
    Room("core/scrub", BASE, "libjansson",
         "removes secrets from command lines",
         "what is a secret: names, options, shapes of tokens"),
    Room("core/reader", BASE + " core/sandbox", "",
         "unprivileged processes that read foreign files for a privileged one: messages, deadlines, replacement",
         "the framing of that protocol; when a reader is late, dead or not trusted"),
    Room("core/sender", BASE + " core/sandbox core/reader", "",
         "unprivileged processes that talk to other servers for a privileged one: start, messages, deadlines, reasons of their end",
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
         "GPU work as added up by the kernel side: rows by process, stream and kind of work",
         "which rows are sent to user space, and before which calls"),
    Room("model/trace", BASE + " model/gpu_queue", "",
         "raw events, records, function table, histogram: plain values and their names",
         "any struct that crosses kernel and user space or reaches a disk; names of layers and their libraries, losses, error codes"),
    Room("model/summary", BELOW, "",
         "the summary of a trace, as plain values: functions, processes, account, steps, arrivals, streams, verdict",
         "the content of a summary; the owner of its memory"),
    Room("model/node", BELOW + " model/summary", "",
         "one machine at one time: GPUs, host, processes and jobs, as plain values and as records",
         "which values of a GPU there are (`gpu_field.h`), what an XID means"),
    Room("model/gpu_work", BELOW, "",
         "operations of GPUs with device times: plain values and records",
         "CUPTI's numbers that are stored"),
    Room("model/call", "model/trace/call_args.h model/trace/class.h model/trace/event.h model/trace/kernel_side.h", "",
         "arguments of a call beyond the words saved at its entry, and which calls are inner calls of others: for the kernel side and for traced programs",
         "layouts of structs that are passed to CUDA calls"),
    Room("model/nccl", BELOW, "",
         "operations that NCCL reports: plain values and records",
         "NCCL's numbers that are stored"),
    Room("model/companion", "model/trace/account.h model/gpu_work/gpu_work.h model/trace/event.h model/trace/first_side.h model/trace/hist.h model/trace/kernel_side.h model/trace/mpi.h model/trace/python.h model/nccl/nccl.h", "",
         "the file through which a traced process reports observations from inside",
         "its layout, the kinds of its records, the checks that a copy of it must pass"),
    Room("bpf/common", "", "",
         "ids and marks of tasks, for all programs in the kernel",
         "namespaces of process ids; how task storage fails"),
    Room("bpf/calls", "bpf/common model/call model/gpu_queue model/trace/account.h model/trace/call_args.h model/trace/class.h model/trace/event.h model/trace/exec.h model/trace/hist.h model/trace/kernel_side.h model/trace/mark.h model/trace/python.h", "",
         "programs in the kernel that trace calls",
         "sees only `bpf/common`, `model/call`, `model/gpu_queue` and what `model/trace` shares with the kernel"),
    Room("bpf/mpi", "bpf/calls/call.bpf.h bpf/calls/comm.bpf.h bpf/calls/post.bpf.h bpf/calls/ends.bpf.h model/trace/mpi.h", "",
         "programs in the kernel for MPI: bytes and peers of a call",
         "differences between implementations of MPI; sees `bpf/calls`"),
    Room("bpf/user", "bpf/calls/cell.bpf.h bpf/calls/ids.bpf.h bpf/calls/scope.bpf.h bpf/calls/session.bpf.h model/trace/user_probe.h", "",
         "programs in the kernel for described probes: they follow a row of a table",
         "how a described probe reads, filters and adds up; sees `bpf/calls`"),
    Room("bpf/account", "bpf/calls/account.bpf.h bpf/calls/decide.bpf.h bpf/calls/python.bpf.h", "",
         "programs in the kernel for the wall-clock account of threads, and where Python code waits",
         "states of a thread, and what a system call waits for; sees `bpf/calls`"),
    Room("bpf/tasks", "bpf/common model/trace/hist.h model/trace/taskstats.h model/trace/taskstats_side.h", "",
         "programs in the kernel that add up time, I/O and calls of processes",
         "sees only `model/trace/taskstats.h`, `taskstats_side.h`, `hist.h` and `bpf/common`"),
    Room("bpf/traffic", "bpf/common model/trace/hist.h model/trace/traffic_side.h", "",
         "programs in the kernel that add up connections of TCP: bytes, requests, answers, by process, port and peer",
         "sees only `model/trace/traffic_side.h`, `hist.h` and `bpf/common`"),
    Room("companion/ring", "model/trace/hist.h model/trace/kernel_side.h model/companion", "",
         "writes records into the file of this process; part of the library that is loaded into traced programs",
         "system calls without libc; rules for signal handlers, forked children and cancelled threads"),
    Room("companion/gpu", "model/gpu_work/gpu_work.h model/gpu_work/cupti.h model/companion companion/ring", "",
         "operations of GPUs, by CUPTI, from inside of a traced program: libgpuscope_companion_gpu.so",
         "offsets of fields in CUPTI's records, its supported versions, how other tools in the program get to use it"),
    Room("companion/nccl", "model/nccl/nccl.h model/companion companion/ring", "",
         "operations that NCCL reports, from inside of a traced program: libgpuscope_companion_nccl.so",
         "layouts of NCCL's profiler interface; the events that each version can report"),
    Room("companion/python", "model/trace/python.h model/trace/python_match.h model/companion companion/ring", "",
         "calls of Python functions, by the interpreter's monitoring interfaces, from inside of a traced program: libgpuscope_companion_python.so",
         "functions of CPython's C API by version; offsets in its frames and thread states"),
    Room("companion/calls", "model/call model/companion companion/ring", "",
         "calls of CUDA and NCCL from inside of a traced program: libgpuscope_companion.so",
         "the loader's data on libraries in memory, and pointers to functions there"),
    Room("companion/ops", "model/trace/torch_op.h model/companion companion/ring companion/calls/module.h", "",
         "PyTorch operators, by PyTorch's observer, from inside of a traced program: libgpuscope_companion_ops.so",
         "layouts of PyTorch's observer; the versions in which it can be used"),
    Room("sources/companion", "core/base model/trace model/companion", "",
         "reads the files of processes that are traced from inside",
         "when a process's file is trusted; conversion of processor ticks to ns"),
    Room("sources/elf", BELOW, "libelf",
         "files of traced programs: symbols; where libraries are and will be mapped",
         "ELF, the loader's rules, mount namespaces"),
    Room("sources/cubin", BASE + " sources/elf", "libzstd",
         "CUDA code in files: fat binaries, cubins, PTX; their kernels, the resources of each, and the host function that launches it",
         "their layouts, LZ4 blocks, how kernels are registered"),
    Room("sources/x86", BELOW, "",
         "machine code: where in a function a probe is cheap and safe, and where the function exits",
         "decoding of instructions; which ones the kernel emulates"),
    Room("sources/attach_plan", BASE + " core/near core/reader model/trace sources/elf sources/x86", "",
         "from a file to probe sites: which wanted functions, operators and parts of an interpreter it has",
         "names of operators' symbols; how a return is caught; the default choice"),
    Room("sources/sideband", BELOW, "",
         "reports mapped libraries, started and ended programs",
         "the perf events by which the kernel reports them"),
    Room("sources/kernel_features", BASE, "libbpf libelf",
         "eBPF features of this kernel for this user, each tested by a minimal use",
         "how a feature is detected; the bpf(2) call that old libbpf lacks"),
    Room("sources/kernel_types", BASE, "libbpf",
         "the running kernel's types by name, and files with the few types that relocation of programs needs",
         "which types those are; how types refer to each other"),
    Room("sources/uprobe", BELOW + " model/gpu_queue sources/elf sources/x86 sources/attach_plan sources/sideband sources/kernel_features sources/kernel_types", "libbpf libelf threads",
         "loads the programs, attaches probes, reads their maps and ring",
         "libbpf, bpf(2), perf events; which kernel supports which kind of link"),
    Room("sources/program", BELOW + " sources/uprobe", "",
         "the traced command: held until its probes are in place; the libraries that it may load",
         "which programs a command names"),
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
    Room("sources/python_attach", BASE + " core/reader model/trace model/companion sources/unwind", "",
         "makes a running Python run a script: PEP 768, 3.14 and newer",
         "the words of its memory to write, by version, and their order"),
    Room("sources/thread_stack", BASE + " core/reader model/trace sources/unwind", "",
         "stacks of threads of running processes, read from outside: stacks of waiting threads, samples of running ones",
         "which thread state of an interpreter is a thread's"),
    Room("sources/taskstats", BELOW + " sources/kernel_types", "libbpf",
         "kernel counters of processes and cgroups: time by state, calls, I/O, network",
         "the meaning of system calls; its maps and tracepoints"),
    Room("sources/traffic", NODE + " sources/kernel_types", "libbpf libm",
         "TCP traffic: connections, bytes, requests, response times by application, port and peer",
         "the definition of a request; which peers are named; its maps and tracepoints"),
    Room("sources/host", NODE, "",
         "figures of the machine and of processes; signals",
         "procfs counters and their rates"),
    Room("sources/cuda_visible", BASE + " core/reader sources/elf", "",
         "GPUs that CUDA shows a process, from its environment at its start and now",
         "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, NVIDIA_VISIBLE_DEVICES"),
    Room("sources/kineto_daemon", BASE, "",
         "requests traces from PyTorch's profiler (Kineto) in running processes, in the role of its daemon",
         "its messages, and the socket at which it finds its daemon"),
    Room("sources/identity", BASE + " core/scrub model/trace model/node sources/cuda_visible", "libjansson",
         "names of processes, threads, users, containers; their jobs: Slurm, pods, units",
         "procfs texts, cgroup paths, Slurm's variables, commands and files"),
    Room("sources/amdgpu", NODE, "",
         "AMD GPUs, from sysfs",
         "names and units of amdgpu's and amdkfd's files, layouts of `gpu_metrics`"),
    Room("sources/gpu", NODE + " sources/identity sources/amdgpu", "threads dl",
         "snapshots of GPUs and of the processes on them; selection of GPUs",
         "NVML's types, numbers and dlopen; XIDs in the kernel log"),
    Room("sources/device_cgroup", BASE, "libbpf",
         "gives the control group of a process access to NVIDIA's devices that lasts",
         "rules of `devices.allow`, device programs of cgroups, DeviceAllow= of systemd"),
    Room("sources/sampler", NODE + " sources/host sources/identity", "",
         "samples the host and its processes together with the GPUs",
         "when a process name is read again"),
    Room("pipeline/recording", BELOW + " model/gpu_work model/nccl", "libzstd libz",
         "`.gst` files: written, read, recovered; the last seconds of a stream in memory, written as such a file",
         "file format, checksums, the end of a truncated file; the definitions that a part of a stream needs from before it"),
    Room("pipeline/gpu_activity", BELOW + " model/summary", "",
         "GPU work by stream, from calls: pending work, gaps, waits of the host",
         "rules of streams, events, captures and the default stream"),
    Room("pipeline/gpu_memory", BELOW, "",
         "GPU memory and pinned host memory that processes hold, from calls: by device, kind and call site",
         "which call allocates or frees which memory; reserved addresses, mappings and handles"),
    Room("pipeline/gpu_time", BELOW + " model/gpu_work model/summary", "",
         "GPU work with device times: by kernel, and intervals in which a kind of work ran",
         "windows in which all work is known; which kernels are communication"),
    Room("pipeline/nccl_ops", BELOW + " model/nccl model/summary", "",
         "operations that NCCL reports: by algorithm, protocol and channels, and lagging ranks",
         "which channels belong to which operation; bytes over the links of a rank"),
    Room("pipeline/process_gpu", BELOW + " model/summary pipeline/gpu_activity", "",
         "GPU use by process and GPU, as running totals: active time, cores, occupancy, copies, waits",
         "which windows are counted when; limits of SMs; shares if processes together exceed the GPU"),
    Room("pipeline/gpu_accuracy", NODE + " model/summary pipeline/gpu_activity", "",
         "the distance of bounds from host calls to the GPU's own counter",
         "which time is compared"),
    Room("pipeline/correlate", BELOW + " model/summary pipeline/gpu_activity pipeline/gpu_memory", "",
         "data that only a sequence of calls shows: bytes freed, counters of memory, ranks of communicators, which call waited for which launch; which line of Python represents a stack; patterns that select Python functions",
         "ledgers of communicators and of PyTorch's allocator"),
    Room("pipeline/holders", BELOW + " model/summary pipeline/correlate", "",
         "memory in a summary: sums and call sites at the end of a stream",
         "which frame of a stack is the call site of an allocation"),
    Room("pipeline/collectives", BELOW + " model/summary pipeline/gpu_activity", "libm",
         "collectives matched across ranks: which ranks arrive late, how often, by how much",
         "which calls of ranks are one collective; when a rank stands out"),
    Room("pipeline/hangs", BELOW + " model/summary", "",
         "hangs and mismatches in a stream, detected while it was recorded",
         "which records describe the same one"),
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
         "records of processes traced from inside → raw events and accumulators",
         "which door reports the calls of a process; the order of calls from several rings"),
    Room("pipeline/kineto", BELOW + " core/reader model/gpu_work", "libjansson libm",
         "traces of PyTorch's profiler (Kineto), in Chrome's format → records, or only their GPU work",
         "their categories; which of their events are calls, and which are GPU work"),
    Room("pipeline/session_file", NODE, "libjansson libm",
         "JSON of sessions, as exported or written by gswarm-profiler → snapshots of nodes",
         "its form: units, times, names of GPUs; values that gswarm-profiler swaps"),
    Room("pipeline/gpu_meter", NODE + " model/gpu_queue model/companion core/reader sources/elf sources/uprobe sources/companion sources/identity pipeline/gpu_activity pipeline/gpu_memory pipeline/process_gpu pipeline/ingest pipeline/inside", "",
         "traces selected processes while they run and adds up their use of each GPU",
         "the calls that this needs, and the sums that the kernel side keeps"),
    Room("analysis/rules", BELOW + " model/summary core/text", "libm libyaml",
         "class, score and advice of a job, from figures",
         "thresholds, rules and their expressions"),
    Room("analysis/detect", BASE, "libm",
         "detectors of changes in a series: change points, drift, unusual densities, stalls, leaks, fragmentation",
         "the table of detectors (`gs_detectors`), their options and models; robust statistics"),
    Room("analysis/hang", BELOW, "",
         "hangs of jobs whose ranks meet at collectives: ranks that have not arrived, ended, or made a different call",
         "which calls of ranks must match; when a wait is a hang"),
    Room("analysis/fleet", BELOW + " model/nccl analysis/detect analysis/hang", "libm",
         "jobs over many nodes: sums of each rank's collectives, ranks that are late, have not arrived or made a different call, slowdowns of all ranks, and a comparison of their steps",
         "which marks and steps of ranks are compared; when a rank is late, and a communicator hangs"),
    Room("analysis/gpu_health", NODE, "libm",
         "problems of a GPU: condition, severity, text with figures, advice",
         "the table of conditions (`condition.h`), their limits, their Prometheus rules"),
    Room("analysis/explain", NODE + " core/near analysis/detect analysis/gpu_health", "libm",
         "findings of a run: series from steps, calls and samples, their detectors, causes, simultaneous findings",
         "which detector follows which series; which part of a difference is named as its cause; texts of findings"),
    Room("analysis/run_compare", BELOW + " model/gpu_work model/summary core/text", "libm",
         "differences between recorded runs: of a step, with a confidence interval, and their places",
         "how runs are divided into blocks; when a difference is shown, and when a place is named as its cause"),
    Room("analysis/job_conf", "core/base analysis/rules", "libm",
         "the configuration of `gpuscope job`",
         "its keys, those of ebpf-hpc-monitor among them"),
    Room("analysis/job_report", BASE + " core/text model/trace model/node analysis/rules analysis/detect/robust.h", "libm libjansson",
         "reports of jobs: figures, configuration, formats, comparison",
         "the keys of reports"),
    Room("analysis/job_rows", NODE + " sources/taskstats", "",
         "the kernel's counters of the processes of jobs: the job of each, sums, and increases in the last minute",
         "the job of a new process; where the row of an ended process is added"),
    Room("analysis/job_accounting", NODE + " core/series sources/launches sources/taskstats sources/host sources/identity sources/gpu analysis/rules analysis/job_conf analysis/job_report analysis/job_rows", "libm",
         "figures of jobs: running totals of all of the node, measurements of chosen ones",
         "which process belongs to which job; growth, windows"),
    Room("analysis/doctor", NODE + " core/reader model/gpu_work sources/elf sources/x86 sources/attach_plan sources/sideband sources/kernel_features sources/uprobe sources/companion sources/unwind sources/device_cgroup sources/identity sources/gpu", "",
         "which features of gpuscope work on this machine and with one program: answers of the rooms that do the work, the effect of each, and its remedy",
         "which answers are needed; the effect of a missing one; the version of a library"),
    Room("analysis/alert", NODE + " analysis/rules analysis/gpu_health", "libm",
         "alert rules over the values of jobs, GPUs and the node: which message is due when",
         "hysteresis, cool-down, state that survives a restart; keys of alert configurations"),
    Room("net/tls", BASE, "libssl",
         "an OpenSSL context: our certificate and key, trusted CAs, error messages",
         "versions, options, passphrases"),
    Room("net/http", BASE + " core/sandbox core/text model/trace net/tls core/reader/wire.h", "threads libssl libz",
         "HTTP server: routes by a table, TLS, tokens; in a thread, or in an unprivileged process",
         "HTTP parsing, sockets"),
    Room("net/grpc", BELOW + " net/tls", "threads libssl libnghttp2",
         "gRPC over HTTP/2, client and server",
         "nghttp2, framing, back-off"),
    Room("net/http_client", BASE + " core/reader core/sender", "threads dl",
         "requests and e-mail to other servers, by senders",
         "libcurl, opened at run time"),
    Room("net/uplink", BASE + " core/reader core/sender core/queue model/trace model/node net/grpc", "proto libzstd libz threads",
         "the node's connection to a head: batches and acknowledgements in the program, the network connection in a sender; saved traces",
         "the node's side of proto/"),
    Room("output/gpu_report", BASE + " core/text model/trace model/summary", "libm",
         "the GPU and NCCL parts of a summary: tables and keys of streams, GPU time, memory, operations and hangs",
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
    Room("output/findings", NODE + " core/text model/summary model/gpu_work pipeline/correlate pipeline/holders pipeline/aggregate analysis/detect analysis/explain output/gpu_report", "libm",
         "findings of a stream of records: passes records to `analysis/explain`, and writes its findings as text and documents",
         "keys and lines of findings"),
    Room("output/hang_watch", BELOW + " sources/uprobe sources/identity pipeline/aggregate pipeline/ingest analysis/fleet analysis/hang", "",
         "hangs of a run while it is traced: passes calls to `analysis/hang` and, for a head, to `analysis/fleet`, and writes findings as records",
         "which open calls are examined; when ends of processes are passed on"),
    Room("output/plot", NODE + " core/series", "dl libm",
         "samples → figures over time (PDF, SVG, PNG); documents of pages (PDF)",
         "cairo, axes, colours"),
    Room("output/run_page", BASE + " core/text model/trace model/summary model/gpu_work analysis/run_compare output/report output/plot", "threads libm",
         "a recorded run as one HTML file, with an excerpt of its timeline, or as PDF; a comparison of runs likewise",
         "how many rows of each list a page has; which part of a timeline is drawn"),
    Room("output/screen", BASE, "libm",
         "a screen of characters in memory: text, lines, columns, graphs, figures in few columns",
         "where a text is cut, styles, places to click; no ncurses"),
    Room("output/tui", NODE + " analysis/gpu_health output/screen", "ncursesw",
         "the screen of `gpuscope top`",
         "ncurses (`term.c` alone); what comes first"),
    Room("library/gpuscope", NODE + " core/text model/summary model/gpu_work sources/identity sources/uprobe sources/program sources/probefile sources/gpu sources/device_cgroup sources/sampler pipeline/recording pipeline/correlate pipeline/gpu_activity pipeline/aggregate pipeline/ingest analysis/rules analysis/explain analysis/gpu_health output/report output/node_report output/findings output/hang_watch output/trace_export", "threads",
         "libgpuscope: `include/gpuscope/gpuscope.h` above the rooms that the program is made of",
         "handles, lifetimes of borrowed data; the version script"),
    Room("server/openapi", BASE + " core/text", "",
         "the description of an HTTP API, from tables",
         "OpenAPI, JSON Schema"),
    Room("server/store", NODE + " core/series", "libsqlite libzstd",
         "the head's database: nodes, streams, batches, sessions, job reports",
         "SQLite, schema and its migrations, retention, downsampling"),
    Room("server/registry", NODE + " analysis/gpu_health", "libm",
         "the nodes of a cluster now and in the last minutes, as immutable views",
         "which node is healthy or silent; its lock"),
    Room("server/finding", BELOW + " core/text model/nccl analysis/detect analysis/hang analysis/fleet output/metrics server/store", "",
         "findings of jobs over many nodes: to the store, from it as JSON, and as a metric",
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
    Room("server/api", BASE + " core/near core/series core/scrub core/text model/trace model/node analysis/job_report net/http output/metrics output/plot server/openapi server/store server/finding server/session_export server/head server/live", "libjansson threads libm",
         "a head's HTTP API: sessions, job reports, history, exports, plots",
         "keys and statuses of its answers"),
    Room("commands/common", NODE + " core/near core/text model/gpu_work sources/identity sources/sampler pipeline/correlate pipeline/gpu_activity pipeline/holders pipeline/aggregate analysis/detect analysis/explain output/findings output/report output/trace_export output/metrics_push", "libm",
         "code shared by all commands: tables of options, messages, exit statuses, destinations of summaries and findings",
         "the only room that prints, except the commands"),
    Room("commands/head", BASE + " core/text model/trace model/node sources/identity sources/gpu sources/sampler net/grpc net/http_client net/uplink output/plot server/store server/session_export server/head server/api commands/common", "",
         "`gpuscope head`, `connect`, `session`",
         "how a command line becomes calls to a head"),
    Room("commands/trace_options", BELOW + " core/reader sources/elf sources/attach_plan sources/probefile sources/identity pipeline/correlate pipeline/gpu_activity pipeline/aggregate pipeline/inside output/findings output/report output/trace_export commands/common commands/head", "",
         "the request to `gpuscope trace`: its command line and `--list`",
         "which options exist, which can be combined, and the settings that result"),
    Room("commands/trace_output", NODE + " core/text model/summary sources/elf sources/uprobe sources/overhead sources/host sources/identity pipeline/recording pipeline/correlate pipeline/gpu_activity pipeline/aggregate pipeline/ingest pipeline/inside pipeline/kineto analysis/explain analysis/rules output/findings output/hang_watch output/report output/trace_export commands/common commands/head commands/trace_options", "",
         "from events to files, a head and the summary; the overhead of tracing",
         "how the stages after the probe are connected"),
    Room("commands/trace", NODE + " core/reader core/sandbox sources/elf sources/attach_plan sources/kernel_types sources/uprobe sources/program sources/companion sources/unwind sources/python_attach sources/thread_stack sources/kineto_daemon sources/gpu pipeline/inside pipeline/kineto analysis/hang output/hang_watch commands/common commands/trace_options commands/trace_output", "",
         "`gpuscope trace`: the traced command, probes and interpreters, samples of GPUs, the end",
         "the order of work during a trace, and its threads"),
    Room("commands/job", NODE + " core/sandbox core/text sources/launches sources/taskstats sources/host sources/identity sources/gpu analysis/detect analysis/explain analysis/job_conf analysis/job_report analysis/job_accounting analysis/alert output/findings output/notify commands/common commands/head", "",
         "`gpuscope job`: selection of processes, reports, comparisons",
         "recorders in the background"),
    Room("commands/agent_gpu", NODE + " model/summary model/companion core/text sources/companion sources/identity pipeline/gpu_meter output/metrics commands/common", "",
         "GPU use of processes and jobs, traced by the agent on request",
         "requests and their duration; names of metrics and keys of results"),
    Room("commands/agent_findings", NODE + " analysis/detect analysis/explain output/findings output/metrics output/metrics_push commands/common", "",
         "findings of a node, which the agent keeps, and the client that asks for them (`explain --live`, `--job-id`)",
         "their numbers, metrics and answers"),
    Room("commands/agent_devices", BASE + " core/sandbox model/trace model/node sources/device_cgroup output/metrics commands/common", "",
         "the agent's upkeep of access to NVIDIA's devices: a thread, its state and metrics",
         "the section `devices` as values"),
    Room("commands/agent_recorder", NODE + " core/text sources/identity net/http output/metrics commands/common commands/agent_findings", "",
         "the agent's flight recorder: the last seconds of chosen jobs, by programs that trace them, and their files",
         "when a job's program begins, ends and writes; names of its files"),
    Room("commands/agent_traffic", NODE + " core/text sources/identity sources/traffic output/metrics commands/common", "",
         "TCP traffic, as served by the agent: a thread, metrics, a document",
         "the section `traffic` as values; names of its metrics and keys"),
    Room("commands/agent", NODE + " core/near core/reader core/sandbox core/sender sources/host sources/identity sources/gpu sources/sampler analysis/job_report analysis/job_accounting analysis/gpu_health analysis/alert net/http net/http_client net/uplink output/metrics output/metrics_push output/mysql output/notify server/registry server/live commands/common commands/agent_gpu commands/agent_findings commands/agent_devices commands/agent_recorder commands/agent_traffic", "",
         "`gpuscope agent`, the daemon",
         "its configuration, schedule and routes"),
    Room("commands/report", BASE + " core/text model/trace model/node model/gpu_work pipeline/kineto pipeline/session_file pipeline/recording pipeline/correlate pipeline/gpu_activity pipeline/aggregate analysis/explain analysis/rules analysis/run_compare output/findings output/report output/run_page output/trace_export output/plot commands/common commands/job", "",
         "`gpuscope report`: summaries, conversions, comparisons and plots of recordings",
         "which parts of a file each of these reads"),
    Room("commands/doctor", NODE + " core/text model/gpu_work analysis/doctor net/http_client output/metrics_push output/mysql output/plot server/head/head_conf.h commands/common commands/trace/trace_inside.h commands/trace/trace_nccl.h", "",
         "`gpuscope doctor`: checks derived from the defaults of other commands, and the form of answers",
         "which ports, folders and libraries the commands use by default"),
    Room("commands/main", BASE + " core/near core/reader core/sandbox core/sender core/text model/trace model/summary model/node sources/elf sources/attach_plan sources/unwind sources/host sources/cuda_visible sources/identity sources/gpu sources/device_cgroup sources/sampler sources/traffic pipeline/kineto pipeline/recording pipeline/aggregate analysis/job_accounting analysis/doctor/cupti.h analysis/gpu_health net/http net/http_client net/uplink analysis/rules output/gpu_report output/findings output/report output/node_report output/trace_export output/mysql output/tui commands/common commands/report", "",
         "the commands `gpu`, `top`, `explain`, `probes`, `devices`",
         "the table of commands"),
    Room("compat/gswarm", NODE + " core/queue core/text pipeline/session_file net/grpc net/http net/http_client net/uplink output/plot server/store server/session_export server/head server/live server/api commands/common commands/head commands/main", "proto libzstd libjansson libm",
         "gswarm-profiler's interface: gRPC and HTTP on a head, delivery to its heads, `gsprof`",
         "its messages, its clients' versions, its units"),
]
# What each folder is for, and what its rooms do not do.
PURPOSES = {
    "core": ("what any program needs: errors, files, configuration, text, readers without rights", "anything of GPUs, traces or nodes"),
    "model": ("plain values that cross borders: raw events, records, samples, summaries", "reading, writing, deciding"),
    "bpf": ("programs that run in the kernel", "anything but counting and reporting what happens"),
    "companion": ("libraries that are loaded into traced programs", "anything that could harm their host; memory and locks of the host"),
    "sources": ("where facts come from: probes, files of programs, NVML, /proc, cgroups", "what the facts mean"),
    "pipeline": ("from raw events to records and sums", "verdicts"),
    "analysis": ("what is slow and why: classes, findings, hangs, health", "how it is shown"),
    "net": ("HTTP, gRPC, TLS, delivery to a head", "what is sent"),
    "output": ("tables, JSON, trace files, metrics, databases, pages, screens", "finding out figures"),
    "library": ("libgpuscope: the same from other programs", "anything that a library may not: print, exit, catch signals"),
    "server": ("a head: store, API, page", "command lines"),
    "commands": ("one room for each large command; puts the others together", "what two commands share, but for `commands/common`"),
    "compat": ("the interface of another program", "anything that others need"),
}
FOLDERS = tuple(PURPOSES)


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
    if folder == "library":  # a library for other programs, of the objects of all rooms that it needs
        return "shared"
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


def write_documents():
    """Each table in place of the one that is there."""
    top = pathlib.Path(__file__).resolve().parent.parent
    for name, print_it in DOCUMENTS.items():
        table = io.StringIO()
        with contextlib.redirect_stdout(table):
            print_it()
        lines = (top / name).read_text().split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("|"))
        end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
        lines[start:end] = table.getvalue().rstrip("\n").split("\n")
        (top / name).write_text("\n".join(lines))


def needed_by(room):
    """All rooms that a room includes, and those that these include, in the order of ROOMS."""
    by_path, seen, left = {r.path: r for r in ROOMS}, set(), rooms_in(room)
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += rooms_in(by_path[path])
    return [r.path for r in ROOMS if r.path in seen]


def print_meson():
    kinds = {room.path: kind_of(room.path) for room in ROOMS}
    for room in ROOMS:
        names = needed_by(room) if kinds[room.path] == "shared" else rooms_in(room)
        linked = [name_of(name) for name in names if kinds[name] == "library"]
        print("|".join((name_of(room.path), room.path, kinds[room.path], " ".join(linked), room.libraries)))


def print_table():
    print("| room | what | belongs nowhere else |\n|---|---|---|")
    for room in ROOMS:
        print(f"| `{room.path}` | {room.purpose} | {room.keeps} |")


def print_folders():
    print("| folder | what | not | rooms |\n|---|---|---|---|")
    for folder in FOLDERS:
        rooms = " ".join(room.path.split("/")[1] for room in ROOMS if room.path.split("/")[0] == folder)
        print(f"| `{folder}` | {PURPOSES[folder][0]} | {PURPOSES[folder][1]} | {rooms} |")


def print_arrows():
    arrows = collections.Counter()
    for room in ROOMS:
        for target in {name.split("/")[0] for name in rooms_in(room)} - {room.path.split("/")[0]}:
            arrows[room.path.split("/")[0], target] += 1
    for (start, end), count in sorted(arrows.items(), key=lambda a: (FOLDERS.index(a[0][0]), FOLDERS.index(a[0][1]))):
        print(f"{start} -> {end}: {count}")
    print(f"{len(arrows)} arrows between {len(FOLDERS)} folders, {len(ROOMS)} rooms")


DOCUMENTS = {"ARCHITECTURE.md": print_folders, "doc/internals/rooms.md": print_table}

if __name__ == "__main__":
    found = check()
    if found:
        sys.exit("\n".join(found))
    {"--meson": print_meson, "--table": print_table, "--folders": print_folders, "--arrows": print_arrows, "--write": write_documents}.get(sys.argv[1] if len(sys.argv) == 2 else "", lambda: sys.exit(__doc__))()
