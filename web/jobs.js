/* Reports of jobs: the list, one job, several compared. What a report holds was written by a node:
 * any part of it may be missing, and all of it is only ever shown as text. */
import { get, peer } from './api.js'
import { h, put, table, percent, bytes, count, duration, energy, time, none } from './dom.js'

const EVERY = 5000 /* ms between two readings of a list or of a job that runs */

const list = x => (Array.isArray(x) ? x : [])
const map = x => (x && typeof x === 'object' && !Array.isArray(x) ? x : {})
const known = v => typeof v === 'number' && Number.isFinite(v)
const text = v => (typeof v === 'string' || typeof v === 'number' ? String(v) : '')
const number = (v, digits = 1) => (known(v) ? v.toFixed(digits).replace(/\.0+$/, '').replace(/^-0$/, '0') : none)
const share = v => (known(v) ? `${number(v)} %` : none)
const long = s => (known(s) ? (s < 10 ? `${number(s, 2)} s` : duration(s)) : none)

const stateOf = r => h('span', { class: `state ${r.stale ? 'unreachable' : r.state === 'running' ? 'active' : r.state === 'finished' ? 'ok' : 'stopped'}` }, r.stale ? 'not heard of' : r.state)
export const jobLink = r => h('a', { href: `#/job/${r.id}` }, r.job)
export const score = v => (known(v) ? points(v, 100, number(v, 0)) : none)
const points = (v, most, words) => h('span.bars', {}, h('span.bar', { 'aria-hidden': 'true' }, h('i', { style: { width: `${most && known(v) ? Math.max(0, Math.min(100, (100 * v) / most)) : 0}%` } })), words)
const signal = () => { let due = 0; return { soon: () => { due = 0 }, due: () => { if (Date.now() < due) return false; due = Date.now() + EVERY; return true } } }

/* --- the list --- */

export function reports() {
	if (peer === 'agent') return { refresh: async () => {}, element: null } // reports are with the head
	const rows = h('div'), more = h('button', { type: 'button', onclick: () => { shown += 50; again() } }, 'Show more')
	const user = h('input', { type: 'search', oninput: () => again(), size: 12 }), name = h('input', { type: 'search', placeholder: 'train*', oninput: () => again(), size: 12 })
	const state = h('select', { onchange: () => again() }, [['', 'any state'], ['running', 'running'], ['finished', 'finished'], ['partial', 'partial']].map(([v, t]) => h('option', { value: v }, t)))
	const compare = h('button', { type: 'button', disabled: true, onclick: () => { location.hash = `#/job-compare?ids=${[...chosen].join(',')}` } }, 'Compare the chosen')
	const all = h('button', { type: 'button', onclick: () => { location.hash = `#/job-compare?${filters()}` } }, 'Compare all of these')
	const chosen = new Set(), turn = signal()
	let shown = 50

	const filters = () => new URLSearchParams(Object.entries({ user: user.value.trim(), name: name.value.trim(), state: state.value }).filter(([, v]) => v)).toString()
	const again = () => { turn.soon(); refresh().catch(() => {}) }
	const pick = r => h('input', { type: 'checkbox', 'aria-label': `Compare ${r.job}, report ${r.id}`, checked: chosen.has(r.id), onchange: e => {
		if (e.target.checked) chosen.add(r.id)
		else chosen.delete(r.id)
		compare.disabled = chosen.size < 2
	} })

	async function refresh() {
		if (!turn.due()) return
		const found = await get(`/api/v1/job-reports?limit=${Math.min(shown, 2000)}&${filters()}`)
		put(rows, table(found.reports, [
			['Compare', pick], ['Job', jobLink, '', r => r.job], ['Name', r => r.name || none, 'cut hide-small', r => r.name], ['User', r => r.user || none, '', r => r.user], ['Node', r => r.node_name, 'hide-small', r => r.node_name], ['State', stateOf, '', r => r.state],
			['Class', r => r.class || none, '', r => r.class], ['Score', r => score(r.score), '', r => r.score], ['Measured from', r => time(r.begin), '', r => r.begin], ['For', r => long(r.duration_seconds), 'n', r => r.duration_seconds],
		], filters() ? 'No report matches.' : 'No report has come yet. Agents with a head send them; so does gpuscope job --head.'))
		more.hidden = !found.next || shown >= 2000
		all.disabled = found.reports.length < 2
	}
	return {
		refresh,
		element: h('section.panel', {}, h('div.row', {}, h('h2', {}, 'Reports'), h('label', {}, 'User', user), h('label', {}, 'Name of the job', name), h('label', {}, 'State', state), compare, all), rows, more),
	}
}

/* --- one job --- */

const waits = [['cpu', 'on a processor'], ['runqueue', 'waiting for a processor'], ['disk', 'for files'], ['network', 'for the network'], ['gpu', 'for the GPU'], ['lock', 'for locks'], ['pipe', 'for pipes'], ['sleep', 'asleep'], ['other', 'other'], ['idle', 'idle threads of pools']]

function times(job) {
	const t = map(job.thread_seconds), rows = waits.map(([key, title]) => ({ key, title, s: t[key] })).filter(r => known(r.s)), sum = rows.reduce((a, r) => a + r.s, 0)
	if (!(sum > 0)) return h('p.empty', {}, 'Not known.')
	return [
		h('div.stack', { role: 'img', 'aria-label': rows.filter(r => r.s > 0).map(r => `${r.title} ${percent(r.s / sum)}`).join(', ') }, rows.filter(r => r.s > 0).map(r => h('i', { class: `t-${r.key}`, title: `${r.title}: ${percent(r.s / sum)}`, style: { width: `${(100 * r.s) / sum}%` } }))),
		table(rows, [['Time of its threads', r => [h('i', { class: `dot t-${r.key}`, 'aria-hidden': 'true' }), r.title]], ['', r => long(r.s), 'n'], ['', r => share((100 * r.s) / sum), 'n']], ''),
	]
}

function gpus(job) {
	const f = map(job.figures), used = list(job.gpus), never = list(job.gpus_never_used)
	if (!known(f.gpus) || !(f.gpus > 0 || used.length)) return null
	const rows = [['GPUs of this node', used.length ? used.map(text).join(', ') : count(f.gpus)], ['never used', never.length ? never.map(text).join(', ') : known(f.gpus_idle) ? count(f.gpus_idle) : none], ['at work', share(f.gpu_percent)], ['memory', share(f.gpu_memory_percent)], ['SMs', share(f.sm_percent)],
		['tensor cores', share(f.tensor_percent)], ['DRAM', share(f.dram_percent)], ['in collectives', share(f.collective_percent)], ['launches/s', number(f.launches_per_second, 0)], ['energy', energy(f.gpu_energy_joules)]]
	return h('section.panel', {}, h('h2', {}, 'GPUs'), table(rows.filter(r => r[1] !== none), [['Value', r => r[0]], ['', r => r[1], 'n']], ''))
}

function ranks(job) {
	const b = map(job.imbalance)
	if (!list(job.ranks).length) return null
	return h('section.panel', {}, h('h2', {}, 'Ranks'), text(b.evidence) ? h('p.note', {}, text(b.evidence)) : null, table(list(job.ranks).slice(0, 512).map(map), [
		['Rank', r => [text(r.rank) || none, known(b.slowest_rank) && r.rank === b.slowest_rank ? h('span', { class: 'state throttled' }, 'stands out') : null].flatMap(x => [x, ' '])], ['Step', r => text(r.step) || none], ['Processes', r => count(r.processes), 'n'],
		['CPU', r => long(r.cpu_seconds), 'n'], ['Waiting', r => long(r.wait_seconds), 'n'], ['of that for the GPU', r => long(r.gpu_wait_seconds), 'n'], ['GPU at work', r => percent(r.gpu_ratio), 'n'],
		['GPU memory', r => bytes(r.gpu_memory_bytes), 'n'], ['Files', r => bytes(r.file_bytes), 'n'], ['Network', r => bytes(r.network_bytes), 'n']], ''))
}

function advice(verdict) {
	const all = list(verdict.advice).map(map)
	if (!all.length) return h('p.empty', {}, 'Nothing to change.')
	return h('ul.advice', {}, all.map(a => h('li', {}, h('b', {}, text(a.fact)), h('p', {}, text(a.cause)), h('p', {}, 'Next time: ', h('code', {}, text(a.next))), h('p.note', {}, text(a.benefit)))))
}

function calls(job) {
	const rows = list(job.syscalls).map(map)
	if (!rows.length) return null
	return h('section.panel', {}, h('h2', {}, 'System calls, longest first'), table(rows.slice(0, 15), [['Call', c => text(c.name)], ['Calls', c => count(c.calls), 'n'], ['Errors', c => count(c.errors), 'n'], ['Time', c => (known(c.total_ns) ? long(c.total_ns / 1e9) : none), 'n']], ''),
		rows.length > 15 ? h('p.note', {}, `15 of ${rows.length}`) : null)
}

function figures(job) {
	const rows = Object.entries(map(job.figures)).filter(([, v]) => known(v))
	return h('details.panel', {}, h('summary', {}, 'All figures'), table(rows, [['Figure', ([key]) => key], ['', ([key, v]) => (key.endsWith('_bytes') ? bytes(v) : key.endsWith('_percent') ? share(v) : number(v, 2)), 'n']], 'None.'))
}

export function job(id) {
	const title = h('h1', {}, 'Job'), where = h('p.note'), cards = h('div.cards'), body = h('div'), others = h('div'), turn = signal()
	let last = null

	function show(r) {
		const j = map(list(r.document.jobs)[0]), verdict = map(j.classification), f = map(j.figures), s = map(r.document.monitoring_session)
		const card = (value, words, kind) => h('div.card', {}, h('b', { class: kind }, value), h('span', {}, words))
		put(title, `Job ${r.job} `, stateOf(r))
		put(where, [text(j.job_name), r.user, r.source === 'agent' ? h('a', { href: `#/node/${r.node}` }, r.node_name) : r.node_name, text(j.partition) && `partition ${text(j.partition)}`, text(j.account) && `account ${text(j.account)}`, `measured ${time(r.begin)} to ${time(r.end)} by gpuscope ${r.source}`,
			text(s.lost) && `lost: ${text(s.lost)}`].filter(Boolean).flatMap((x, i) => (i ? [' · ', x] : [x])).reduce((line, x) => { line.append(x); return line }, h('span')))
		put(cards, card(number(r.score, 0), 'score, of 100'), card(r.class || none, known(verdict.confidence) ? `class, ${percent(verdict.confidence)} sure` : 'class', 'long'), card(long(r.duration_seconds), 'measured'), card(share(f.cpu_percent), `of ${number(j.cpus)} processors`),
			card(share(f.wait_percent), 'of them waiting'), card(share(f.io_percent), 'of its time for files'), card(share(f.net_percent), 'for the network'), card(bytes(f.memory_used_bytes), known(f.memory_usage) ? `of memory, ${share(f.memory_usage)}` : 'of memory'), known(f.gpu_percent) ? card(share(f.gpu_percent), 'GPUs at work') : '')
		put(body, ...[
			h('div.grid', {},
				h('section.panel', {}, h('h2', {}, 'Parts of the score'), table(list(verdict.efficiency_parts).map(map), [['Part', p => text(p.name)], ['Points', p => points(p.points, p.max_points, `${number(p.points)} of ${number(p.max_points)}`)], ['Because', p => text(p.because), 'wrap']], 'The report does not say.')),
				h('section.panel', {}, h('h2', {}, 'Why this class'), list(verdict.evidence).length ? h('ul', {}, list(verdict.evidence).map(e => h('li', {}, text(e)))) : h('p.empty', {}, 'No rule held.'))),
			h('section.panel', {}, h('h2', {}, 'Advice'), advice(verdict)),
			h('div.grid', {}, h('section.panel', {}, h('h2', {}, 'Where the time went'), times(j)), gpus(j)),
			ranks(j), calls(j), figures(j),
		].filter(Boolean))
	}

	async function refresh() {
		if (last && last.state !== 'running') return true
		if (!turn.due()) return false
		const r = await get(`/api/v1/job-reports/${encodeURIComponent(id)}`)
		if (!last || r.received !== last.received || r.stale !== last.stale) show(r)
		last = r
		const same = (await get(`/api/v1/job-reports?limit=200&job=${encodeURIComponent(r.job)}&kind=${encodeURIComponent(r.kind)}`)).reports.filter(x => x.id !== r.id)
		const runs = new URLSearchParams(Object.entries({ name: r.name, user: r.user }).filter(([, v]) => v))
		put(others, h('h2', {}, 'Other reports of this job'), table(same, [['Node', x => x.node_name], ['Report', jobLink], ['State', stateOf], ['Class', x => x.class], ['Score', x => score(x.score)], ['Measured from', x => time(x.begin)]], 'There are none: of other nodes, or of other times.'),
			r.name ? h('p', {}, h('a', { href: `#/job-compare?${runs}` }, 'Compare all runs of this name')) : '')
	}
	return { title: 'Job', refresh, close() {}, element: h('div', {}, title, where, cards, body, h('section.panel', {}, others), h('p', {}, h('a', { href: '#/work' }, 'All jobs'))) }
}

/* --- several compared --- */

const columns = [['efficiency_score', 'Score'], ['cpu_percent', 'CPU %'], ['io_percent', 'I/O %'], ['wait_percent', 'Wait %'], ['net_percent', 'Net %'], ['memory_usage', 'Memory %'], ['gpu_percent', 'GPU %'], ['rank_imbalance_percent', 'Ranks %'], ['context_switches_per_second', 'Switches/s'], ['syscalls_per_second', 'Calls/s'], ['duration_seconds', 'Seconds']]
const titles = Object.fromEntries(columns)
/* "NODE#NUMBER" names a report. */
const fileLink = x => { const [, node, id] = /^(.*)#(\d+)$/.exec(x.file || '') || []; return id ? h('a', { href: `#/job/${id}` }, x.job_id, h('span.note', {}, ` on ${node}`)) : x.job_id }

export function compareJobs(query) {
	const said = h('p.note'), cards = h('div.cards'), body = h('div')
	let done = false

	async function refresh() { // once: reports that are compared have ended, but for those that were chosen
		if (done) return
		const c = await get(`/api/v1/job-reports/compare?${query}`), stats = { efficiency_score: c.summary.efficiency_stats, ...c.summary.resource_usage_stats }
		const odd = new Map(c.outliers.map(o => [`${o.file} ${o.metric}`, o])), used = columns.filter(([key]) => stats[key] && stats[key].n)
		const card = (value, words) => h('div.card', {}, h('b', {}, value), h('span', {}, words))
		done = true
		said.textContent = query.get('ids') ? `${c.summary.total_jobs} chosen reports` : [`The newest reports${query.get('state') ? '' : ' of jobs that run no more'}`, query.get('user') && `of ${query.get('user')}`, query.get('name') && `named ${query.get('name')}`].filter(Boolean).join(', ')
		put(cards, card(count(c.summary.total_jobs), 'reports'), card(number(stats.efficiency_score.median), 'median score'), card(c.patterns.most_common || none, 'most common class'), card(count(c.outliers.length), 'outliers'), card(count(c.patterns.trends.length), 'series of runs'))
		put(body, ...[
			h('section.panel', {}, h('h2', {}, 'Reports'), table(c.jobs, [['Job', fileLink], ['Name', j => j.job_name || none, 'cut'], ['User', j => j.user || none, '', j => j.user], ['Class', j => j.classification, '', j => j.classification],
				...used.map(([key, t]) => [t, j => (odd.has(`${j.file} ${key}`) ? h('b.warning', { title: 'an outlier' }, `${number(j[key])} !`) : number(j[key])), 'n', j => j[key]])], 'No report matches.')),
			h('div.grid', {},
				h('section.panel', {}, h('h2', {}, 'Outliers'), table(c.outliers.slice(0, 100), [['Job', fileLink], ['Value', o => titles[o.metric] || o.metric], ['', o => number(o.value), 'n'], ['Median', o => number(o.median), 'n'], ['Deviations', o => number(o.deviations), 'n']], 'No report stands out.')),
				h('section.panel', {}, h('h2', {}, 'Trends: runs of one name by one user'), table(c.patterns.trends, [['Name', x => x.job_name || none], ['User', x => x.user || none], ['Runs', x => x.runs, 'n'], ['', x => h('span', { class: `state ${x.direction === 'improving' ? 'ok' : x.direction === 'declining' ? 'warning' : 'idle'}` }, x.direction)], ['Points a run', x => number(x.points_per_run, 2), 'n'], ['By chance', x => percent(x.chance), 'n']], 'No name was run often enough.'))),
			h('section.panel', {}, h('h2', {}, 'Statistics'), table(used, [['Value', ([, t]) => t], ['Known of', ([key]) => stats[key].n, 'n'], ['Median', ([key]) => number(stats[key].median), 'n'], ['MAD', ([key]) => number(stats[key].mad), 'n'], ['Min', ([key]) => number(stats[key].min), 'n'], ['Max', ([key]) => number(stats[key].max), 'n']], 'Nothing is known.')),
			c.recommendations.length ? h('section.panel', {}, h('h2', {}, 'What follows'), h('ul', {}, c.recommendations.map(r => h('li', {}, r)))) : null,
		].filter(Boolean))
	}
	return { title: 'Jobs compared', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Jobs compared'), said, cards, body, h('p', {}, h('a', { href: '#/work' }, 'All jobs'))) }
}
