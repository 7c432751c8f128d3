/* A report of a job, and several compared, as elements: on a head's page, and in the file that a report is written to
 * (report.html). What a report holds was written by a node: any part of it may be missing, and all of it is only ever
 * shown as text. */
import { h, known, table, percent, bytes, count, duration, energy, none } from './dom.js'

const ROWS = 500 /* most of a table */

export const list = x => (Array.isArray(x) ? x : [])
export const map = x => (x && typeof x === 'object' && !Array.isArray(x) ? x : {})
export const maps = x => list(x).map(map)
/* Without control characters, and without those that turn the direction of what follows. */
export const text = v => (typeof v === 'string' || typeof v === 'number' ? String(v).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '?') : '')
export const number = (v, digits = 1) => (known(v) ? v.toFixed(digits).replace(/\.0+$/, '').replace(/^-0$/, '0') : none)
export const share = v => (known(v) ? `${number(v)} %` : none)
export const long = s => (known(s) ? (s < 10 ? `${number(s, 2)} s` : duration(s)) : none)
export function ns(v) {
	if (!known(v)) return none
	for (const [unit, size] of [['ms', 1e6], ['µs', 1e3], ['ns', 1]])
		if (v < 1000 * size && v >= size) return `${Number((v / size).toPrecision(3))} ${unit}`
	return long(v / 1e9)
}
const each = (sum, n) => (known(sum) && n > 0 ? ns(sum / n) : none)
export const points = (v, most, words) => h('span.bars', {}, h('span.bar', { 'aria-hidden': 'true' }, h('i', { style: { width: `${most && known(v) ? Math.max(0, Math.min(100, (100 * v) / most)) : 0}%` } })), words)

/* --- tables --- */

export const word = (title, value) => [title, r => h('bdi', { title: text(value(r)) }, text(value(r)) || none), 'cut', r => text(value(r))]
export const figure = (title, key, write) => [title, r => write(r[key]), 'n', r => r[key]]
export const panel = (title, rows, columns, note) => rows.length ? h('section.panel', {}, h('h2', {}, title), note ? h('p.note', {}, note) : null, table(rows.slice(0, ROWS), columns, ''),
	rows.length > ROWS ? h('p.note', {}, `and ${rows.length - ROWS} more`) : null) : null
export const facts = rows => h('dl.facts', {}, rows.filter(([, v]) => v && v !== none).map(([key, v]) => [h('dt', {}, key), h('dd', {}, h('bdi', {}, v))]))

/* How long each took: counts by powers of two, as bars. */
function histogram(rows) {
	const found = maps(rows).filter(r => known(r.from_ns) && r.count > 0).slice(0, 64), at = r => Math.floor(Math.log2(Math.max(1, r.from_ns)))
	if (!found.length) return none
	const first = at(found[0]), last = Math.max(...found.map(at)), most = Math.max(...found.map(r => r.count)), from = ns(found[0].from_ns), to = ns(2 ** (last + 1))
	const high = Array.from({ length: last - first + 1 }, (_, i) => (found.find(r => at(r) === first + i) || { count: 0 }).count)
	return [from, ' ', h('span.hist', { role: 'img', 'aria-label': `histogram from ${from} to ${to}` }, high.map(n => h('i', { style: { height: `${n ? 10 + (90 * n) / most : 0}%` } }))), ' ', to]
}

/* --- one job --- */

const waits = [['cpu', 'on a processor'], ['runqueue', 'waiting for a processor'], ['disk', 'for files'], ['network', 'for the network'], ['gpu', 'for the GPU'], ['lock', 'for locks'], ['pipe', 'for pipes'], ['sleep', 'asleep'], ['other', 'other'], ['idle', 'idle threads of pools']]

/* Of a report, or of one process. */
export function times(job) {
	const t = map(job.thread_seconds), account = map(job.wall_account), rows = waits.map(([key, title]) => ({ key, title, s: t[key] })).filter(r => known(r.s)), sum = rows.reduce((a, r) => a + r.s, 0)
	const sources = Object.fromEntries(maps(account.components).map(c => [c.component, text(c.source)]))
	if (!(sum > 0)) return h('p.empty', {}, 'Not known.')
	return [
		h('div.stack', { role: 'img', 'aria-label': rows.filter(r => r.s > 0).map(r => `${r.title} ${percent(r.s / sum)}`).join(', ') }, rows.filter(r => r.s > 0).map(r => h('i', { class: `t-${r.key}`, title: `${r.title}: ${percent(r.s / sum)}`, style: { width: `${(100 * r.s) / sum}%` } }))),
		table(rows.filter(r => r.s > 0), [['Time of its threads', r => h('span', { title: sources[r.key] }, h('i', { class: `dot t-${r.key}`, 'aria-hidden': 'true' }), r.title)], ['', r => long(r.s), 'n'], ['', r => share((100 * r.s) / sum), 'n']], ''),
		text(account.shown_by) ? h('p.note', {}, `Time in CUDA and NCCL calls is not shown separately: see ${text(account.shown_by)}`) : null,
	]
}

function gpus(job) {
	const f = map(job.figures), used = list(job.gpus), never = list(job.gpus_never_used)
	if (!known(f.gpus) || !(f.gpus > 0 || used.length)) return null
	const rows = [['GPUs of this node', used.length ? used.map(text).join(', ') : count(f.gpus)], ['never used', never.length ? never.map(text).join(', ') : known(f.gpus_idle) ? count(f.gpus_idle) : none], ['at work', share(f.gpu_percent)], ['memory', share(f.gpu_memory_percent)], ['SMs', share(f.sm_percent)],
		['tensor cores', share(f.tensor_percent)], ['DRAM', share(f.dram_percent)], ['in collectives', share(f.collective_percent)], ['launches/s', number(f.launches_per_second, 0)], ['energy', energy(f.gpu_energy_joules)]]
	return panel('GPUs', rows.filter(r => r[1] !== none), [['Value', r => r[0]], ['', r => r[1], 'n']])
}

function ranks(job) {
	const b = map(job.imbalance)
	return panel('Ranks', maps(job.ranks), [
		['Rank', r => [text(r.rank) || none, known(b.slowest_rank) && r.rank === b.slowest_rank ? h('span', { class: 'state throttled' }, 'stands out') : null].flatMap(x => [x, ' ']), '', r => r.rank], ['Step', r => text(r.step) || none], figure('Processes', 'processes', count),
		figure('CPU', 'cpu_seconds', long), figure('Waiting', 'wait_seconds', long), figure('of that for the GPU', 'gpu_wait_seconds', long), figure('GPU busy', 'gpu_ratio', percent),
		figure('GPU memory', 'gpu_memory_bytes', bytes), figure('Files', 'file_bytes', bytes), figure('Network', 'network_bytes', bytes)], text(b.evidence))
}

const mpiName = r => (known(r.rank) ? `rank ${r.rank}` : `process ${text(r.pid)}`)

function mpi(job) {
	const rows = maps(job.mpi_ranks), rank = panel('MPI', rows, [['Rank', mpiName, '', r => r.rank], figure('Process', 'pid', text), figure('Calls', 'calls', count), figure('In MPI', 'total_ns', ns), figure('Of', 'span_ns', ns), figure('Sent', 'sent_bytes', bytes), figure('Received', 'received_bytes', bytes)])
	if (!rank) return null
	rank.append(...rows.slice(0, ROWS).map(r => h('details', {}, h('summary', {}, mpiName(r)),
		panel('Functions', maps(r.functions), [word('Function', f => f.name), figure('Calls', 'calls', count), figure('Failed', 'errors', count), figure('Time', 'total_ns', ns), figure('Most', 'max_ns', ns), figure('Bytes', 'bytes', bytes)]),
		panel('Peers', maps(r.peers), [word('Direction', p => p.direction), ['Peer', p => (known(p.peer) ? count(p.peer) : 'any'), 'n', p => p.peer], word('Communicator', p => p.communicator), figure('Transfers', 'calls', count), ['Bytes', p => (p.unsized_calls === p.calls ? none : bytes(p.bytes)), 'n', p => p.bytes]]))))
	return rank
}

function advice(verdict) {
	const all = maps(verdict.advice)
	if (!all.length) return h('p.empty', {}, 'Nothing to change.')
	return h('ul.advice', {}, all.map(a => h('li', {}, h('b', {}, text(a.fact)), h('p', {}, text(a.cause)), h('p', {}, 'Next time: ', h('code', {}, text(a.next))), h('p.note', {}, text(a.benefit)))))
}

const io = [figure('Reads', 'reads', count), figure('Read', 'read_bytes', bytes), figure('Writes', 'writes', count), figure('Written', 'write_bytes', bytes), figure('Failed', 'errors', count)]
const howLong = ['Mean time', r => histogram(r.histogram), 'hists']

/* What its threads did, row by row. */
function detail(job) {
	const s = map(job.scheduling), queue = map(s.run_queue), cache = map(job.page_cache), tcp = map(job.tcp), p = map(job.pressure)
	const stalls = [['a CPU', p.cpu_some_percent], ['memory', p.memory_some_percent, p.memory_full_percent], ['I/O', p.io_some_percent, p.io_full_percent]].filter(([, v]) => known(v))
	return [
		panel('System calls', maps(job.syscalls), [word('System call', c => c.name), figure('Calls', 'calls', count), figure('Failed', 'errors', count), figure('Time', 'total_ns', ns), ['Each', c => each(c.total_ns, c.timed), 'n'], figure('Most', 'max_ns', ns), howLong]),
		panel('Waits for a CPU', queue.waits_with_length > 0 ? [{ ...queue, ...s }] : [], [figure('Waits', 'waits', count), figure('p50', 'p50_ns', ns), figure('p95', 'p95_ns', ns), figure('p99', 'p99_ns', ns), figure('Wake-ups', 'wakeups', count), figure('Migrations', 'migrations', count), howLong]),
		panel('Files', maps(job.file_systems), [word('File system', m => m.path), word('Type', m => m.type || m.kind), ...io, figure('Time', 'total_ns', ns)]),
		panel('Block devices', maps(job.block_devices), [word('Device', d => d.name), ...io, ['Each', d => each(d.total_ns, d.reads + d.writes), 'n'], figure('Most', 'max_ns', ns), figure('Flushes', 'flushes', count), ['Each flush', d => each(d.flush_ns, d.flushes), 'n'], howLong]),
		panel('Network', maps(job.peers), [word('Peer', x => x.peer), figure('Sent', 'sent_bytes', bytes), figure('Received', 'received_bytes', bytes), figure('Connected', 'connects', count), figure('Refused', 'failed_connects', count), figure('Accepted', 'accepts', count), figure('Round trip', 'rtt_mean_ns', ns), figure('Sent again', 'retransmits', count)]),
		panel('More', [
			['page cache', known(cache.device_read_bytes) && `${bytes(cache.cached_read_bytes)} read from memory, ${bytes(cache.device_read_bytes)} from devices; ${bytes(cache.device_write_bytes)} written to devices`],
			['TCP', tcp.retransmits > 0 && `${count(tcp.retransmits)} segments retransmitted`],
			['pressure', stalls.length && `stalled for ${stalls.map(([what, some, all]) => `${what} ${share(some)}${known(all) ? ` (all tasks ${share(all)})` : ''}`).join(', ')}`],
			['OOM', job.oom_kills > 0 && `${count(job.oom_kills)} killed for lack of memory`],
		].filter(([, words]) => words), [['What', r => r[0]], ['', r => r[1], 'wrap']]),
	]
}

function figures(job) {
	const rows = Object.entries(map(job.figures)).filter(([, v]) => known(v))
	return h('details.panel', {}, h('summary', {}, 'All figures'), table(rows, [['Figure', ([key]) => text(key)], ['', ([key, v]) => (key.endsWith('_bytes') ? bytes(v) : key.endsWith('_percent') ? share(v) : number(v, 2)), 'n']], 'None.'))
}

export const card = (value, words, kind) => h('div.card', {}, h('b', { class: kind }, value), h('span', {}, words))

export function jobCards(job) {
	const verdict = map(job.classification), f = map(job.figures)
	return [card(number(verdict.efficiency_score, 0), 'score, of 100'), card(text(verdict.type) || none, known(verdict.confidence) ? `class, ${percent(verdict.confidence)} sure` : 'class', 'long'), card(long(job.duration_seconds), 'measured'), card(share(f.cpu_percent), `of ${number(job.cpus)} processors`),
		card(share(f.wait_percent), 'of CPU time unused'), card(share(f.io_percent), 'of its time for files'), card(share(f.net_percent), 'for the network'), card(bytes(f.memory_used_bytes), known(f.memory_usage) ? `of memory, ${share(f.memory_usage)}` : 'of memory'), known(f.gpu_percent) ? card(share(f.gpu_percent), 'GPUs busy') : '']
}

export function jobPanels(job) {
	const verdict = map(job.classification)
	return [
		h('div.grid', {},
			h('section.panel', {}, h('h2', {}, 'Parts of the score'), table(maps(verdict.efficiency_parts), [['Part', p => text(p.name)], ['Points', p => points(p.points, p.max_points, `${number(p.points)} of ${number(p.max_points)}`)], ['Because', p => text(p.because), 'wrap']], 'The report does not say.')),
			h('section.panel', {}, h('h2', {}, 'Why this class'), list(verdict.evidence).length ? h('ul', {}, list(verdict.evidence).map(e => h('li', {}, text(e)))) : h('p.empty', {}, 'No rule applies.'))),
		'advice' in verdict ? h('section.panel', {}, h('h2', {}, 'Advice'), advice(verdict)) : null,
		h('div.grid', {}, h('section.panel', {}, h('h2', {}, 'Where the time went'), times(job)), gpus(job)),
		ranks(job), mpi(job), ...detail(job), figures(job),
	].filter(Boolean)
}

/* --- several compared --- */

const columns = [['efficiency_score', 'Score'], ['cpu_percent', 'CPU %'], ['io_percent', 'I/O %'], ['wait_percent', 'Wait %'], ['net_percent', 'Net %'], ['memory_usage', 'Memory %'], ['gpu_percent', 'GPU %'], ['rank_imbalance_percent', 'Ranks %'], ['context_switches_per_second', 'Switches/s'], ['syscalls_per_second', 'Calls/s'], ['duration_seconds', 'Seconds']]
const titles = Object.fromEntries(columns)

function svg(tag, attributes, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
	element.append(...children)
	return element
}
const label = (x, y, words, anchor = 'start') => svg('text', { x, y, 'text-anchor': anchor }, words)
const picture = (title, words, ...children) => h('section.panel', {}, h('h2', {}, title), svg('svg', { viewBox: '0 0 220 120', role: 'img', 'aria-label': words, class: 'picture' }, ...children))
const within = (v, most) => Math.min(most, Math.max(0, v))

function scores(jobs) {
	const bins = Array(20).fill(0)
	for (const j of jobs) if (known(j.efficiency_score)) bins[within(Math.floor(j.efficiency_score / 5), 19)]++
	const most = Math.max(1, ...bins)
	return picture('Scores', 'histogram of scores', ...bins.map((n, i) => svg('rect', { x: 10 + 10 * i, y: 100 - (90 * n) / most, width: 9, height: (90 * n) / most }, svg('title', {}, `${5 * i} to ${5 * i + 5}: ${n} jobs`))),
		svg('path', { d: 'M10 100H210' }), label(10, 110, '0'), label(110, 110, '50', 'middle'), label(210, 110, '100', 'end'), label(10, 8, `${most} job${most === 1 ? '' : 's'}`))
}

function scatter(jobs) {
	return picture('CPU and I/O, percent', 'CPU and I/O of each job', svg('path', { d: 'M20 8V104H214' }), label(20, 114, '0'), label(214, 114, 'CPU 100', 'end'), label(22, 12, 'I/O 100'),
		...jobs.filter(j => known(j.cpu_percent) && known(j.io_percent)).slice(0, 5000).map(j => svg('circle', { r: 2.5, cx: 20 + 1.94 * within(j.cpu_percent, 100), cy: 104 - 0.96 * within(j.io_percent, 100) }, svg('title', {}, `${text(j.job_id)} ${text(j.classification)}`))))
}

/* link: what shows a job and leads to its report. */
export function comparedPanels(c, link) {
	const summary = map(c.summary), stats = { efficiency_score: map(summary.efficiency_stats), ...map(summary.resource_usage_stats) }, jobs = maps(c.jobs), outliers = maps(c.outliers), trends = maps(map(c.patterns).trends)
	const odd = new Map(outliers.map(o => [`${o.file} ${o.metric}`, o])), used = columns.filter(([key]) => stats[key] && stats[key].n)
	return [
		h('div.cards', {}, card(count(summary.total_jobs), 'reports'), card(number(map(stats.efficiency_score).median), 'median score'), card(text(map(c.patterns).most_common) || none, 'most common class'), card(count(outliers.length), 'outliers'), card(count(trends.length), 'series of runs')),
		h('div.grid', {}, scores(jobs), scatter(jobs)),
		h('section.panel', {}, h('h2', {}, 'Reports'), table(jobs.slice(0, 10 * ROWS), [['Job', link], word('Name', j => j.job_name), ['User', j => text(j.user) || none, '', j => text(j.user)], ['Class', j => text(j.classification), '', j => text(j.classification)],
			...used.map(([key, t]) => [t, j => (odd.has(`${j.file} ${key}`) ? h('b.warning', { title: 'an outlier' }, `${number(j[key])} !`) : number(j[key])), 'n', j => j[key]])], 'No report matches.'), jobs.length > 10 * ROWS ? h('p.note', {}, `The first ${10 * ROWS} of ${jobs.length}`) : null),
		h('div.grid', {},
			h('section.panel', {}, h('h2', {}, 'Outliers'), table(outliers.slice(0, 100), [['Job', link], ['Value', o => titles[o.metric] || text(o.metric)], ['', o => number(o.value), 'n'], ['Median', o => number(o.median), 'n'], ['Deviations', o => number(o.deviations), 'n']], 'No report stands out.')),
			h('section.panel', {}, h('h2', {}, 'Trends: runs of one name by one user'), table(trends, [word('Name', x => x.job_name), ['User', x => text(x.user) || none], figure('Runs', 'runs', count), ['', x => h('span', { class: `state ${x.direction === 'improving' ? 'ok' : x.direction === 'declining' ? 'warning' : 'idle'}` }, text(x.direction))], ['Points a run', x => number(x.points_per_run, 2), 'n'], ['By chance', x => percent(x.chance), 'n']], 'No name was run often enough.'))),
		panel('Users', maps(c.users), [word('User', u => u.user), figure('Jobs', 'jobs', count), figure('Median score', 'median_efficiency', number), ['Unused core hours', u => number(u.unused_core_seconds / 3600), 'n', u => u.unused_core_seconds]]),
		h('section.panel', {}, h('h2', {}, 'Statistics'), table(used, [['Value', ([, t]) => t], ['Known of', ([key]) => stats[key].n, 'n'], ['Median', ([key]) => number(stats[key].median), 'n'], ['MAD', ([key]) => number(stats[key].mad), 'n'], ['Min', ([key]) => number(stats[key].min), 'n'], ['Max', ([key]) => number(stats[key].max), 'n']], 'Nothing is known.')),
		list(c.recommendations).length ? h('section.panel', {}, h('h2', {}, 'What follows'), h('ul', {}, list(c.recommendations).map(r => h('li', {}, text(r))))) : null,
	].filter(Boolean)
}

/* --- a file of its own --- */

function jobSection(j, i, heading) {
	return h('section', { id: `job${i}` }, h(heading, {}, 'Job ', h('bdi', {}, text(j.job_id) || '?'), text(j.job_name) ? [' ', h('bdi.note', {}, text(j.job_name))] : null),
		facts([['user', text(j.user)], ['command', text(j.command)], ['account', text(j.account)], ['partition', text(j.partition)], ['cluster', text(j.cluster)], ['nodes', list(j.nodes).map(text).join(', ')], ['measured', long(j.duration_seconds)], ['now', j.ended ? 'ended' : 'was still running']]),
		h('div.cards', {}, jobCards(j)), jobPanels(j))
}

function measuredHow(d) {
	const s = map(d.monitoring_session), system = map(d.system_info)
	return h('section.panel', {}, h('h2', {}, 'How it was measured'), facts([['machine', text(system.hostname)], ['kernel', text(system.kernel_version)], ['gpuscope', text(s.monitor_version)], ...Object.entries(map(s.sources)).map(([key, v]) => [text(key), text(v)]),
		['unfinished', s.complete === false && 'saved while the recorder ran; it was killed, or still runs'], ['lost', text(s.lost) || 'nothing'], ['not read', s.failed_reads > 0 && `${count(s.failed_reads)} files of /proc could not be read`],
		['device requests not completed', s.device_bytes_without_an_end > 0 && bytes(s.device_bytes_without_an_end)]]))
}

function contents(jobs) {
	return h('section.panel', {}, table(jobs.map((j, i) => ({ j, i })), [['Job', r => h('a', { href: `#job${r.i}` }, text(r.j.job_id) || '?')], word('Name', r => r.j.job_name), word('User', r => r.j.user), word('Class', r => map(r.j.classification).type), ['Score', r => number(map(r.j.classification).efficiency_score), 'n', r => map(r.j.classification).efficiency_score]], ''))
}

/* A table that is wider than its place is scrolled with the keyboard, too. */
export function nameTables(main) {
	for (const e of main.querySelectorAll('.scroll')) {
		const title = e.closest('section, details').querySelector('h2, summary')
		e.tabIndex = 0
		e.setAttribute('role', 'region')
		e.setAttribute('aria-label', title ? title.textContent : 'Jobs')
	}
}

/* Draws the document of report.html. */
export function drawFile(main, d) {
	const jobs = maps(d.jobs), one = jobs.length === 1
	if (d.patterns) {
		document.title = 'gpuscope: comparison of jobs'
		main.replaceChildren(h('h1', {}, `Comparison of ${count(jobs.length)} jobs`), ...comparedPanels(d, j => text(j.job_id)))
	} else {
		document.title = one ? `gpuscope: job ${text(jobs[0].job_id)}` : `gpuscope: ${count(jobs.length)} jobs on ${text(map(d.system_info).hostname)}`
		main.replaceChildren(...(one ? [] : [h('h1', {}, document.title), contents(jobs)]), ...jobs.map((j, i) => jobSection(j, i, one ? 'h1' : 'h2')), measuredHow(d))
	}
	nameTables(main)
}
