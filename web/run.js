/* A recorded run as a page (gpuscope report -o run.html): what limits it, where its time went, an excerpt of its timeline,
 * and a table for each thing that took time. Names in it are those of a traced program: they are only ever shown as text. */
import { h, known, table, percent, bytes, count, none } from './dom.js'
import { list, map, maps, text, number, share, ns, word, figure, panel, facts, card, nameTables } from './report.js'

const LAYERS = { 'cuda-runtime': 'CUDA runtime', 'cuda-driver': 'CUDA driver', nccl: 'NCCL', torch: 'PyTorch operators', torchmem: 'PyTorch allocator', python: 'Python', user: 'described probes', mpi: 'MPI' }
/* As src/model/trace/account.c has them; tests/e2e/run_page.py compares. */
const PARTS = { gpu_wait: 'waiting for the GPU', cuda: 'other CUDA calls', nccl: 'NCCL calls', mpi: 'MPI calls', operators: 'PyTorch operators (self)', cpu: 'other code on the CPU', runqueue: 'ready, but no CPU was free', lock: 'waiting for a lock', poll: 'polling (poll, select, epoll)', pipe: 'waiting for another process', child: 'waiting for a child to end', disk: 'waiting for a disk', network: 'waiting for the network', sleep: 'asleep on purpose', fault: 'page faults and memory mapping', other: 'waiting, reason not known' }

const n = (title, key) => figure(title, key, count), t = (title, key) => figure(title, key, ns), b = (title, key) => figure(title, key, bytes), w = (title, key) => word(title, r => r[key])
const place = r => `${text(r.file).split('/').pop()}${known(r.line) ? `:${r.line}` : ''}`
/* How many rows the file lacks, by the key of their list. */
const lacks = (d, key) => (known(map(d.left_out)[key]) ? `${count(d.left_out[key])} more are not in this file` : '')

/* --- what limits it, and where its time went --- */

function verdict(d) {
	const v = map(d.verdict)
	return h('section.panel.why', { id: 'verdict' }, h('h2', {}, `Verdict: ${text(v.title) || 'none'}`), h('p', {}, text(v.evidence) || 'The run does not say what limits it.'),
		text(v.advice) ? h('p', {}, 'Next: ', text(v.advice)) : null, text(v.see) ? h('p', {}, 'Shown by ', h('code', {}, text(v.see))) : null)
}

function account(d) {
	const threads = maps(map(d.account).threads), pace = threads.find(x => x.critical), rows = maps(pace && pace.components).filter(c => c.ns > 0)
	if (!rows.length) return null
	const sum = rows.reduce((a, c) => a + c.ns, 0), title = c => PARTS[text(c.component)] || text(c.component), kind = c => `t-${text(c.component).replace(/[^a-z_]/g, '')}`
	return h('section.panel', { id: 'account' }, h('h2', {}, 'Where the time went'), h('p.note', {}, 'Wall time of the thread that sets the pace: ', h('bdi', {}, text(pace.comm)), ` (${text(pace.tid)} of process ${text(pace.pid)}), ${ns(pace.wall_ns)}`),
		h('div.stack', { role: 'img', 'aria-label': rows.map(c => `${title(c)} ${percent(c.ns / sum)}`).join(', ') }, rows.map(c => h('i', { class: kind(c), title: `${title(c)}: ${percent(c.ns / sum)}`, style: { width: `${(100 * c.ns) / sum}%` } }))),
		table(rows, [['Part', c => [h('i', { class: `dot ${kind(c)}`, 'aria-hidden': 'true' }), title(c)]], t('Time', 'ns'), figure('Share', 'share_pct', share), w('Source', 'source')], ''))
}

function steps(d) {
	const s = map(d.steps)
	if (!known(s.count)) return text(d.no_steps) ? h('section.panel', { id: 'steps' }, h('h2', {}, 'Steps'), h('p.empty', {}, `None were found: ${text(d.no_steps)}`)) : null
	return h('section.panel', { id: 'steps' }, h('h2', {}, 'Steps'), facts([['found', `${count(s.count)}, of thread ${text(s.comm)} (${text(s.tid)})`], ['begin with', text(s.begins_with)], ['median', ns(s.median_ns)], ['95 % below', ns(s.p95_ns)], ['slowest', `${ns(s.slowest_ns)}, ${ns(s.slowest_start_ns)} after the start`],
		['longer in it', `${text(s.longer) || 'outside of traced calls'}: ${ns(s.longer_ns)}, ${ns(s.longer_mean_ns)} in the mean`], ['left out', s.odd > 0 && `${count(s.odd)} steps with unusual calls`]]))
}

/* --- the excerpt of the timeline --- */

/* One colour for each name, the same on every page. */
function hue(name) {
	let sum = 0
	for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 360
	return sum
}

function span(s, names, whole) {
	const [start, dur, name] = s, words = text(names[name]), percentOf = v => `${(100 * v) / whole}%`
	return h('i', { title: `${words}: ${ns(dur)}, from ${ns(start)}`, style: { left: percentOf(start), width: percentOf(dur), background: `hsl(${hue(words)} 45% 62%)` } }, dur > whole / 40 ? words : '')
}

function track(row, names, whole) {
	const spans = list(row.spans).filter(s => Array.isArray(s) && s.slice(0, 4).every(known)), deep = Math.min(12, Math.max(0, ...spans.map(s => s[3])))
	return h('div.track', {}, h('bdi.note', { title: text(row.name) }, text(row.name)), Array.from({ length: deep + 1 }, (_, depth) => h('div.lane', {}, spans.filter(s => Math.min(12, s[3]) === depth).map(s => span(s, names, whole)))))
}

function timeline(d) {
	const x = map(d.timeline), rows = maps(x.tracks), hides = []
	if (!rows.length || !(x.duration_ns > 0)) return null
	if (x.shorter > 0) hides.push(`${count(x.shorter)} too short to be drawn`)
	if (x.left_out > 0) hides.push(`${count(x.left_out)} more than fit`)
	if (x.tracks_left_out > 0) hides.push(`${count(x.tracks_left_out)} tracks with less`)
	return h('section.panel', { id: 'timeline' }, h('h2', {}, 'Timeline, an excerpt'), h('p.note', {}, `${map(d.steps).count ? 'The slowest step, with the ones before and after it' : 'From the middle of the run'}: ${ns(x.duration_ns)} from ${ns(x.start_ns)} after the start. ${hides.length ? `Not here: ${hides.join(', ')}. ` : ''}All of it: gpuscope report -o run.pftrace`),
		h('div.scroll', {}, h('div.timeline', {}, rows.map(row => track(row, list(x.names), x.duration_ns)), h('div.axis', {}, h('span', {}, ns(x.start_ns)), h('span', {}, ns(x.start_ns + x.duration_ns))))))
}

/* --- findings --- */

function findings(d) {
	const rows = maps(d.findings), hangs = maps(d.hangs)
	if (!rows.length && !hangs.length) return null
	return h('section.panel', { id: 'findings' }, h('h2', {}, 'Findings'), h('ul.advice', {},
		hangs.map(x => h('li', {}, h('b', {}, text(x.text)), h('p.note', {}, `after ${ns(x.since_ns)}`), maps(x.by_rank).slice(0, 16).map(r => h('p', {}, text(r.text))))),
		rows.slice(0, 100).map(f => h('li', {}, h('b', {}, text(f.text)), h('p', {}, `after ${number(f.since_seconds)} s; cause: ${text(map(f.cause).text) || 'not known'}`), text(f.advice) ? h('p', {}, text(f.advice)) : null))))
}

/* --- tables --- */

function calls(d) {
	const all = maps(d.functions), layers = [...new Set(all.map(f => text(f.layer)))]
	return layers.map(layer => panel(`Calls: ${LAYERS[layer] || layer}`, all.filter(f => text(f.layer) === layer), [w('Function', 'name'), n('Calls', 'calls'), n('Failed', 'errors'), t('Total', 'total_ns'), t('Mean', 'mean_ns'), t('p95', 'p95_ns'), t('p99', 'p99_ns'), t('Most', 'max_ns'), b('Bytes', 'bytes')]))
}

function python(d) {
	return [
		panel('Lines of Python', maps(d.python_lines), [['Line', r => h('bdi', { title: text(r.file) }, place(r)), 'cut', place], w('Function', 'function'), t('Running', 'sample_ns'), t('Waiting', 'wait_ns'), t('With what it called', 'total_ns'), n('Launches', 'launches'), n('Collectives', 'collectives'), n('Samples', 'samples')], lacks(d, 'python_lines')),
		panel('Python functions', maps(d.python_functions), [w('Function', 'name'), n('Calls', 'calls'), t('Total', 'total_ns'), t('Itself', 'self_ns'), t('p95', 'p95_ns'), t('Most', 'max_ns'), n('Launches', 'launches')], lacks(d, 'python_functions')),
	]
}

function gpu(d) {
	const g = map(d.gpu_time)
	return [
		panel('GPUs', maps(d.gpus), [w('GPU', 'gpu'), w('Name', 'name'), figure('Busy', 'device_busy_ratio', percent), ['Bounds from calls', r => (known(r.host_busy_min_ratio) ? `${percent(r.host_busy_min_ratio)} to ${percent(r.host_busy_max_ratio)}` : none), 'n'], figure('Compared', 'compared_device_busy_ratio', percent), ['Power', r => (known(r.device_power_watts) ? `${number(r.device_power_watts, 0)} W` : none), 'n', r => r.device_power_watts], b('Memory, most', 'device_memory_peak_bytes'), n('Samples', 'samples')], lacks(d, 'gpus')),
		panel('GPU time by kernel', maps(g.kernels), [w('Kernel', 'short_name'), n('Runs', 'runs'), t('Total', 'total_ns'), t('Least', 'min_ns'), t('Most', 'max_ns')], [known(g.window_ns) ? `as the GPU measured it, in windows of ${ns(g.window_ns)} together` : '', lacks(d, 'gpu_time')].filter(Boolean).join('; ')),
		panel('GPU time by device', maps(g.devices), [n('Process', 'pid'), n('Device', 'device'), t('Of', 'window_ns'), t('Busy', 'busy_ns'), t('Computing', 'compute_ns'), t('NCCL', 'nccl_ns'), t('NCCL hidden', 'nccl_hidden_ns'), t('Copies', 'copy_ns'), t('Copies hidden', 'copy_hidden_ns'), n('Gaps', 'gaps'), t('Idle', 'gap_ns')]),
		panel('Kernels by launches', maps(d.kernels), [w('Kernel', 'short_name'), n('Launches', 'launches'), n('In graphs', 'graph_runs'), n('Failed', 'failed'), t('Host time', 'total_ns'), n('Blocks', 'blocks_mean'), n('Threads', 'threads_mean'), n('Registers', 'registers')], lacks(d, 'kernels')),
		panel('Streams', maps(d.streams), [n('Process', 'pid'), n('Device', 'device'), w('Stream', 'stream'), n('Launches', 'launches'), n('Graphs', 'graph_launches'), n('Copies', 'copies'), b('Copied', 'copied_bytes'), n('Collectives', 'collectives'), t('Busy at least', 'busy_min_ns'), t('at most', 'busy_max_ns'), n('Gaps', 'gaps'), t('Idle', 'gap_ns'), t('Host waits', 'wait_ns')], lacks(d, 'streams')),
		panel('Memory', maps(d.memory), [n('Process', 'pid'), n('Device', 'device'), w('Kind', 'kind'), b('At the end', 'live_bytes'), b('Most', 'peak_bytes'), b('Allocated', 'total_bytes'), n('Allocations', 'allocations'), n('Frees', 'frees'), n('Failed', 'failed')], lacks(d, 'memory')),
		panel('Memory by call site', maps(d.memory_sites), [w('Place', 'place'), w('Call', 'function'), w('Kind', 'kind'), b('At the end', 'live_bytes'), n('Blocks', 'live_blocks'), b('Most', 'peak_bytes'), n('Allocations', 'allocations')], lacks(d, 'memory_sites')),
	]
}

function communication(d) {
	const nccl = map(d.nccl)
	return [
		...maps(map(d.collectives).communicators).map(c => panel(`Arrival at collectives of communicator ${text(c.id)}`, maps(c.by_rank), [n('Rank', 'rank'), n('Process', 'pid'), n('Calls', 'calls'), t('In calls', 'calls_ns'), t('Late, median', 'late_p50_ns'), t('p95', 'late_p95_ns'), t('Most', 'late_max_ns'), n('Last', 'last'), t('Then by', 'last_by_p50_ns')], `${count(c.ranks)} ranks, ${count(c.matched)} matched collectives${known(c.late_rank) ? `; rank ${c.late_rank} is late` : ''}`)),
		panel('NCCL operations', maps(nccl.choices), [w('Function', 'function'), w('Algorithm', 'algorithm'), w('Protocol', 'protocol'), n('Channels', 'channels'), n('Operations', 'operations'), b('Bytes', 'bytes'), t('GPU time', 'gpu_ns'), n('of', 'timed')], lacks(d, 'nccl')),
		panel('Communicators', maps(d.communicators), [n('Process', 'pid'), w('Communicator', 'id_hash'), n('Rank', 'rank'), n('Ranks', 'ranks'), w('Made by', 'origin'), n('Calls', 'calls'), b('Bytes', 'bytes')], lacks(d, 'communicators')),
		panel('MPI', maps(d.mpi_ranks), [n('Rank', 'rank'), n('Process', 'pid'), n('Calls', 'calls'), t('In MPI', 'total_ns'), t('Of', 'span_ns'), b('Sent', 'sent_bytes'), b('Received', 'received_bytes')], lacks(d, 'mpi_ranks')),
	]
}

function host(d) {
	return [
		panel('Threads', maps(map(d.account).threads), [w('Thread', 'comm'), n('Thread id', 'tid'), n('Process', 'pid'), t('Wall time', 'wall_ns'), ...['cpu', 'gpu_wait', 'runqueue', 'lock', 'disk', 'network'].map(part => { const of = r => map(maps(r.components).find(c => c.component === part)).ns; return [PARTS[part], r => ns(of(r)), 'n', of] }), n('Launches', 'launches')], lacks(d, 'account')),
		panel('Processes', maps(d.processes), [n('Process', 'pid'), w('Name', 'comm'), w('Command', 'command'), w('Container', 'container')], lacks(d, 'processes')),
		panel('Errors', maps(d.errors), [w('Function', 'function'), w('Error', 'name'), n('Code', 'code'), n('Count', 'count')], lacks(d, 'errors')),
		panel('Calls that had not returned', maps(d.open_calls), [w('Function', 'function'), w('Thread', 'comm'), n('Thread id', 'tid'), t('Open for', 'age_ns')], lacks(d, 'open_calls')),
	]
}

/* What the figures rest on. */
function accuracy(d) {
	const lost = Object.entries(map(d.lost)).flatMap(([layer, causes]) => Object.entries(map(causes)).map(([cause, v]) => ({ layer: LAYERS[layer] || layer, cause: cause.replaceAll('_', ' '), count: v })))
	return [
		panel('Lost', lost, [w('Layer', 'layer'), w('Cause', 'cause'), n('Count', 'count')]),
		panel('Not attached', maps(d.attach_failures), [w('File', 'path'), w('Function', 'function'), w('Reason', 'reason')], lacks(d, 'attach_failures')),
		h('section.panel', { id: 'accuracy' }, h('h2', {}, 'How it was measured'), facts([['file', text(d.file)], ['machine', text(d.host)], ['kernel', text(d.kernel)], ['attached by', text(d.attach_mode)], ['mode', text(d.mode)], ['tracing took', known(d.tracing_cost_ppm) && `${number(d.tracing_cost_ppm / 1e4, 2)} % of processor time`], ['percentiles', known(d.percentile_error_pct) && `off by ${number(d.percentile_error_pct)} % at most`],
			['lost', lost.length ? 'see above' : 'nothing'], ['recording', d.complete === false ? 'stops before its end' : 'whole'], ['files attached to', count(list(d.attached).length)]])),
	]
}

/* Draws the document of report.html. */
export function drawRun(main, d) {
	const s = map(d.steps), launches = maps(d.functions).filter(f => f.class === 'launch' || f.class === 'graph_launch').reduce((a, f) => a + (known(f.calls) ? f.calls : 0), 0), v = map(d.verdict)
	document.title = `gpuscope: ${text(d.command) || text(d.file)}`
	main.replaceChildren(...[
		h('h1', {}, h('bdi', {}, text(d.command) || text(d.file))),
		h('p.note', {}, `${text(d.start_time).replace('T', ' ').slice(0, 19)} UTC`, text(d.host) ? [' on ', h('bdi', {}, text(d.host))] : '', known(d.exit_status) ? `; exit status ${d.exit_status}` : '', text(d.end_reason) ? `; ${text(d.end_reason)}` : ''),
		h('div.cards', {}, card(text(v.title) || none, known(v.confidence) && v.confidence > 0 ? `verdict, confidence ${number(v.confidence, 1)}` : 'verdict', 'long'), card(ns(d.duration_ns), 'traced'), card(count(s.count), 'steps'), card(ns(s.median_ns), 'a step, median'), card(count(launches), 'launches'), card(count(maps(d.findings).length + maps(d.hangs).length), 'findings')),
		verdict(d), account(d), timeline(d), h('div.grid', {}, steps(d), findings(d)),
		...calls(d), panel('By operator', maps(d.by_operator), [w('Operator', 'name'), n('Launches', 'launches'), n('Copies', 'copies'), n('Allocations', 'allocs'), n('Collectives', 'collectives'), t('In these calls', 'total_ns'), b('Bytes', 'bytes')], lacks(d, 'by_operator')),
		...python(d), ...gpu(d), ...communication(d), ...host(d), ...accuracy(d)].filter(Boolean))
	nameTables(main)
}
