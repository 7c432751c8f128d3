/* Overview, GPUs, node, GPU, processes, jobs. A view is {element, refresh(), close()}. */
import { get, peer } from './api.js'
import { Chart } from './chart.js'
import { h, put, table, state, bar, percent, watts, celsius, bytes, count, ago, time, none } from './dom.js'
import { Heatmap, legend, severity } from './heatmap.js'
import { jobLink, reports, score } from './jobs.js'
import { gpuLink, nodeLink, processLink } from './links.js'
import { recorder } from './recorder.js'
import { stepTables } from './steps.js'
import { onTheme } from './theme.js'
import { valueGroups } from './values.js'

const gpuName = g => `${g.node_name} ${g.gpu}`

/* What a GPU showed last, where nothing is known of now. */
const isOld = g => g.state === 'unreachable' || g.condition === 'lost'
const last = cell => g => (isOld(g) ? h('span.old', { title: 'last known value' }, cell(g)) : cell(g))

export const gpuColumns = [
	['GPU', gpuLink, 'name', gpuName],
	['State', g => [state(g.state), g.reason ? h('div.note', { title: g.advice || '' }, g.reason) : null], 'reason', g => severity(g.state)],
	['Utilisation', last(g => bar(g.utilization_ratio)), '', g => g.utilization_ratio],
	['Memory', last(g => bar(g.memory_used_ratio)), '', g => g.memory_used_ratio],
	['Power', last(g => watts(g.power_watts)), 'n', g => g.power_watts],
	['Temp.', last(g => celsius(g.temperature_celsius)), 'n', g => g.temperature_celsius],
	['Model', g => g.name, 'hide-small cut', g => g.name],
]

/* Began in the last five minutes. */
const isNew = a => a.since !== null && Date.now() - new Date(a.since) < 300000

export function alertList(alerts, total) {
	if (!alerts.length) return h('p.empty', {}, 'Nothing is wrong.')
	return [h('ul.alerts', {}, alerts.map(a => h('li', {}, h('span', { class: `state ${a.severity}` }, a.severity), ' ',
		a.node === null ? peer : a.gpu === null ? nodeLink(a) : gpuLink(a), ': ', a.text, isNew(a) ? h('b.new', { title: `since ${a.since}` }, 'new') : null,
		a.jobs.length ? h('div.note', {}, `on ${a.jobs.length > 1 || a.gpus > 1 ? 'these GPUs' : 'this GPU'}: job `, a.jobs.join(', ')) : null, a.advice ? h('div.note', {}, a.advice) : null))),
	total > alerts.length ? h('p.note', {}, `and ${total - alerts.length} more`) : null]
}

const heatUnits = {
	utilization_ratio: ['Utilisation', percent], memory_used_ratio: ['Memory', percent], dram_active_ratio: ['DRAM activity', percent],
	power_watts: ['Power', watts], temperature_celsius: ['Temperature', celsius], sm_clock_hertz: ['SM clock', v => `${Math.round(v / 1e6)} MHz`],
}

/* Of a time in an address: from, to. */
const timeOf = span => `from=${span[0].toFixed(1)}&to=${span[1].toFixed(1)}`

const small = matchMedia('(max-width: 560px)')

export function overview() {
	const cards = h('div.cards'), alerts = h('div'), gpus = h('div')
	const heat = new Heatmap((row, from, to) => { location.hash = `#/gpu/${row.node}/${row.gpu}?${timeOf([from, to])}` }), scale = legend()
	const order = h('select', { 'aria-label': 'Order of the heat map', onchange: () => heat.sort(order.value === 'worst') }, [['name', 'By node'], ['worst', 'Worst first']].map(([value, text]) => h('option', { value }, text)))
	const choice = h('select', { 'aria-label': 'Value of the heat map', onchange: () => refresh() }, Object.entries(heatUnits).map(([key, [title]]) => h('option', { value: key }, title)))
	const more = h('p.note'), nothing = h('p.note'), wrong = ['failing', 'unreachable', 'throttled', 'degraded', 'idle']
	const card = (value, text, href, kind) => h(href ? 'a.card' : 'div.card', { href }, h('b', { class: kind }, value), h('span', {}, text))

	onTheme(() => { heat.draw(); scale.draw() })
	async function refresh() {
		const base = heat.data
		const [o, a, g, m] = await Promise.all([get('/api/v1/overview'), get('/api/v1/alerts?limit=12'), get('/api/v1/gpus?sort=worst&limit=20'), get(`/api/v1/heatmap?limit=2000&value=${choice.value}${heat.since(choice.value)}`)])
		const s = o.states
		put(cards, 
			...wrong.filter(key => s[key]).map(key => card(count(s[key]), key, `#/gpus?state=${key}`, key === 'idle' ? '' : key)),
			card(`${o.healthy_nodes} / ${o.nodes}`, 'nodes send samples', '#/nodes'),
			card(count(o.gpus), 'GPUs', '#/gpus'),
			card(percent(o.utilization_ratio), 'mean utilisation'),
			card(watts(o.power_watts), 'power now'),
			card(o.active_sessions, 'active sessions', '#/sessions'))
		const zero = wrong.filter(key => !s[key])
		nothing.textContent = o.gpus && zero.length ? `No GPU is ${zero.length > 1 ? `${zero.slice(0, -1).join(', ')} or ` : ''}${zero[zero.length - 1]}.` : ''
		put(alerts, ...[alertList(a.alerts, a.total)].flat().filter(Boolean))
		put(gpus, table(g.gpus, gpuColumns, o.nodes ? 'No GPUs are known.' : 'No node has delivered yet.'),
			o.nodes ? '' : h('p.note', {}, 'On each node: ', h('code', {}, `gpuscope connect ${o.grpc_address} --resilient`)))
		heat.show(m, heatUnits[choice.value][1], base)
		scale.name(heatUnits[choice.value][1](0), heatUnits[choice.value][1](m.full))
		heat.element.hidden = !m.rows.length
		more.textContent = m.next ? `The first ${m.rows.length} of ${m.total} GPUs.` : m.rows.length ? '' : 'No GPUs to show.'
	}
	const map = h('section.panel', { 'aria-label': 'Heat map' }, h('div.row', {}, h('h2', {}, 'Every GPU, last minutes'), scale.element, choice, order), heat.element, more)
	const worst = h('section.panel', {}, h('h2', {}, 'GPUs, worst first'), gpus), trouble = h('section.panel', { 'aria-label': 'Alerts' }, h('h2', {}, 'Alerts'), alerts)
	const head = h('h1', {}, 'Cluster'), element = h('div', {})
	/* A small screen begins with what is wrong; the order is that of the document, for those who hear it too. */
	const arrange = () => element.replaceChildren(...(small.matches ? [head, trouble, cards, nothing, worst, map] : [head, cards, nothing, map, h('div.split', {}, worst, trouble)]))
	small.addEventListener('change', arrange)
	arrange()
	return { title: 'Overview', refresh, close: () => small.removeEventListener('change', arrange), element }
}

export function gpuList(query) {
	const list = h('div'), info = h('p.note')
	const which = h('select', { onchange: () => { shown = 100; refresh() } }, ['', 'failing', 'unreachable', 'throttled', 'degraded', 'idle', 'ok'].map(s => h('option', { value: s, selected: s === query.get('state') }, s || 'any state')))
	const name = h('input', { type: 'search', placeholder: 'part of a name', oninput: () => { shown = 100; refresh() } })
	const more = h('button', { type: 'button', onclick: () => { shown = Math.min(shown + 400, 2000); refresh() } }, 'Show more')
	let shown = 100
	async function refresh() {
		const g = await get(`/api/v1/gpus?sort=worst&limit=${shown}${which.value ? `&state=${which.value}` : ''}&q=${encodeURIComponent(name.value)}`)
		info.textContent = `${g.gpus.length} of ${g.total} GPUs, worst first`
		put(list, table(g.gpus, gpuColumns, 'No GPU matches.'))
		more.hidden = !g.next || shown >= 2000
	}
	return { title: 'GPUs', refresh, close() {}, element: h('div', {}, h('h1', {}, 'GPUs'), h('div.panel', {}, h('div.row', {}, h('label', {}, 'State', which), h('label', {}, 'Node', name)), info, list, more)) }
}

/* A node that delivers is no better than its GPUs. */
const worstOf = n => (!n.healthy ? 'unreachable' : ['failing', 'throttled', 'degraded'].find(s => n.states[s]) || 'ok')
function nodeState(n) {
	const worst = worstOf(n)
	return n.states[worst] && n.healthy && worst !== 'ok' ? h('span', { class: `state ${worst}` }, `${n.states[worst]} ${worst}`) : state(worst)
}

export function nodes() {
	const list = h('div')
	async function refresh() {
		const n = await get('/api/v1/nodes?limit=2000')
		n.nodes.sort((a, b) => a.healthy - b.healthy || b.states.failing - a.states.failing || a.name.localeCompare(b.name))
		put(list, table(n.nodes, [
			['Node', nodeLink, 'name', x => x.name],
			['State', nodeState, '', x => severity(worstOf(x))],
			['GPUs', x => x.gpus, 'n', x => x.gpus],
			['Utilisation', x => bar(x.utilization_ratio), '', x => x.utilization_ratio],
			['Power', x => watts(x.power_watts), 'n', x => x.power_watts],
			['CPU', x => percent(x.cpu_ratio), 'n', x => x.cpu_ratio],
			['Last sample', x => ago(x.last_sample), '', x => x.last_sample],
			['Samples', x => count(x.samples), 'n', x => x.samples],
			['Lost', x => count(x.lost_samples), 'n', x => x.lost_samples],
			['Version', x => x.version || none, 'hide-small', x => x.version],
		], 'No node has delivered yet.'), n.next ? h('p.note', {}, `The first ${n.nodes.length}.`) : '')
	}
	return { title: 'Nodes', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Nodes'), h('div.panel', {}, list)) }
}

export const processColumns = [
	['Process', processLink, '', p => p.name], ['GPU', p => p.gpus.flatMap((g, i) => [i ? ', ' : null, gpuLink(g, i > 0)]), 'wrap', gpuName], ['User', p => p.user || none, '', p => p.user], ['Job', p => p.job || none, '', p => p.job],
	['GPU memory', p => bytes(p.memory_used_bytes), 'n', p => p.memory_used_bytes], ['SM', p => percent(p.sm_ratio), 'n', p => p.sm_ratio], ['CPU', p => percent(p.cpu_ratio), 'n', p => p.cpu_ratio], ['Command', p => p.command || none, 'cut hide-small', p => p.command],
]

/* One row for each process, also of one that is on many GPUs: memory is added, SMs are of all its GPUs. */
export function perProcess(rows) {
	const all = new Map()
	for (const row of rows) {
		const key = `${row.node} ${row.pid}`, p = all.get(key)
		if (!p) all.set(key, { ...row, gpus: [row] })
		else p.gpus.push(row)
	}
	const known = (p, key) => p.gpus.map(g => g[key]).filter(v => v !== null && v !== undefined), sum = list => list.reduce((a, b) => a + b, 0)
	for (const p of all.values()) {
		const memory = known(p, 'memory_used_bytes'), sm = known(p, 'sm_ratio')
		p.memory_used_bytes = memory.length ? sum(memory) : null
		p.sm_ratio = sm.length ? sum(sm) / sm.length : null
	}
	return [...all.values()]
}

const ofThen = n => (n.healthy ? [] : ['No samples for ', ago(n.last_sample), '; these are its last values.'])

export function node(id, may) {
	const flight = recorder(id, may)
	const title = h('h1', {}, 'Node'), old = h('p.error'), cards = h('div.cards'), list = h('div'), processes = h('div')
	async function refresh() {
		const [n, p] = await Promise.all([get(`/api/v1/nodes/${id}`), get(`/api/v1/processes?node=${id}&limit=200`)])
		const card = (value, text) => h('div.card', {}, h('b', {}, value), h('span', {}, text))
		put(title, n.name, ' ', nodeState(n))
		put(old, ...ofThen(n))
		put(cards, card(n.gpus, 'GPUs'), card(percent(n.utilization_ratio), 'utilisation'), card(watts(n.power_watts), 'power'), card(percent(n.cpu_ratio), 'CPU'),
			card(bytes(n.host_memory_used_bytes), `of ${bytes(n.host_memory_total_bytes)} RAM`), card(n.clock_offset_seconds === null ? none : `${Math.abs(n.clock_offset_seconds * 1000).toFixed(1)} ms`, `clock ${n.clock_offset_seconds < 0 ? 'ahead' : 'behind'}`),
			card(count(n.lost_samples), 'samples lost'))
		put(list, table(n.gpu_list, gpuColumns, n.gpu_state_text || 'This node has no GPUs.'))
		put(processes, table(perProcess(p.processes), processColumns, 'No process is on a GPU.'))
		flight.refresh()
	}
	return { title: 'Node', refresh, close() {}, element: h('div', {}, title, old, cards, h('section.panel', {}, h('h2', {}, 'GPUs'), list), h('section.panel', {}, h('h2', {}, 'Processes'), processes), flight.element) }
}

const ranges = [[300, 'last 5 minutes'], [3600, 'last hour'], [21600, 'last 6 hours'], [86400, 'last day'], [604800, 'last week']]

/* Sessions and their annotations between two times, for the time axis. */
export async function sessionEvents(from, to) {
	const found = [], inside = at => at >= from && at <= to, seconds = text => new Date(text).getTime() / 1000
	for (const s of (await get('/api/v1/sessions?limit=20')).sessions) {
		const begin = seconds(s.start_time), end = s.end_time ? seconds(s.end_time) : Infinity
		if (begin > to || end < from) continue
		if (inside(begin)) found.push({ at: begin, text: `${s.name} begins` })
		if (inside(end)) found.push({ at: end, text: `${s.name} ends` })
		if (s.annotations) for (const a of (await get(`/api/v1/sessions/${encodeURIComponent(s.id)}/annotations`)).annotations) if (a.time && inside(seconds(a.time))) found.push({ at: seconds(a.time), text: a.name || a.kind })
	}
	return found
}

/* query: last=SECONDS, or from and to, in seconds since 1970. */
export function gpu(id, number, query) {
	const title = h('h1', {}, 'GPU'), where = h('p.note'), old = h('p.error'), why = h('div'), details = h('div.values'), processes = h('div')
	const charts = [
		new Chart('Utilisation', 'utilization_ratio', '%', 100, 100), new Chart('Memory', 'memory_used_ratio', '%', 100, 100), new Chart('Power', 'power_watts', 'W', 1, 100),
		new Chart('Temperature', 'temperature_celsius', '°C', 1, 80), new Chart('DRAM activity', 'dram_active_ratio', '%', 100, 100), new Chart('SM clock', 'sm_clock_hertz', 'MHz', 1e-6, 1000),
	]
	let span = query.has('from') && query.has('to') ? [Number(query.get('from')), Number(query.get('to'))] : null
	const range = h('select', { onchange: () => go(null, range.value) }, ranges.map(([s, text]) => h('option', { value: s, selected: String(s) === query.get('last') }, text)))
	const chosen = h('span.note'), now = h('button', { type: 'button', onclick: () => go(null, range.value) }, 'Back to now')
	/* The address is that of the time that is shown: it can be kept and sent. */
	function go(to, seconds) {
		const address = `#/gpu/${id}/${number}?${to ? timeOf(to) : `last=${seconds}`}`
		if (address === location.hash) return
		history.pushState(null, '', address)
		span = to
		due = eventsDue = 0
		refresh()
	}
	charts.forEach(c => { c.onZoom = (from, to) => go([from, to]) })

	/* It was so when the node was first seen, so that nothing knows since when. */
	const wasBefore = g => g.reason.includes('for at least')

	/* What is wrong, since when, who suffers and what to do. */
	function reason(g, jobs) {
		if (!g.reason) return []
		const names = [...new Set(jobs.map(p => p.job).filter(Boolean))]
		return [h('div', { class: `panel why ${g.state}` }, h('p', {}, h('b', {}, g.reason), g.since ? h('span.note', {}, wasBefore(g) ? ' seen first ' : ' since ', h('time', { datetime: g.since, title: g.since }, time(g.since))) : null),
			names.length ? h('p', {}, `On it: job ${names.join(', ')}.`) : null, g.advice ? h('p', {}, g.advice) : null)]
	}
	let due = 0, eventsDue = 0, sessionMarks = []
	onTheme(() => charts.forEach(c => c.element.isConnected && c.redraw()))
	async function refresh() {
		const n = await get(`/api/v1/nodes/${id}`), g = n.gpu_list.find(x => String(x.gpu) === number)
		if (!g) throw new Error(`${n.name} has no GPU ${number} now`)
		put(title, `${n.name} GPU ${g.gpu} `, state(g.state))
		put(old, ...ofThen(n))
		put(where, nodeLink(n), ` · ${g.name} · ${g.uuid}`)
		put(details, ...valueGroups(g.values))
		const limits = { power_watts: g.values.power_limit_watts, temperature_celsius: g.values.slowdown_temperature_celsius, sm_clock_hertz: g.values.sm_clock_max_hertz }
		charts.forEach(c => { c.setNow(g[c.key] ?? g.values[c.key], limits[c.key]); c.element.hidden = !(c.key in g.values) && !(c.key in g) && !c.any })
		const p = await get(`/api/v1/processes?node=${id}&limit=500`), mine = p.processes.filter(x => String(x.gpu) === number)
		put(why, ...reason(g, mine))
		put(processes, table(perProcess(mine), processColumns, 'No process is on this GPU.'))
		now.hidden = chosen.hidden = !span
		if (Date.now() < due) return
		/* The past is read from disk: not every second, and what is over never again. */
		const isPast = span || range.value > 300, [from, to] = span || [-range.value, 0], keys = charts.map(c => c.key)
		const points = span ? Math.max(20, Math.min(400, Math.round((to - from) / 2))) : isPast ? 400 : 150 // samples are a second apart or more
		due = span && span[1] < Date.now() / 1000 ? Infinity : Date.now() + (isPast ? 30000 : 0)
		chosen.textContent = span ? `${span.map(at => new Date(at * 1000).toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' })).join(' to ')}` : ''
		const data = await get(`/api/v1/series?node=${id}&gpu=${encodeURIComponent(isPast && peer !== 'agent' ? g.uuid : number)}&from=${from}${span ? `&to=${to}` : ''}&points=${points}&values=${keys.join(',')}`)
		charts.forEach(c => c.show(data))
		if (peer !== 'agent' && Date.now() >= eventsDue) {
			eventsDue = Date.now() + 10000
			sessionMarks = await sessionEvents(data.time[0], data.time[data.time.length - 1])
		}
		const xids = data.xids.map(x => ({ at: new Date(x.time).getTime() / 1000, text: `XID ${x.xid}${x.count > 1 ? ` ×${x.count}` : ''}` }))
		const begins = g.since ? [{ at: new Date(g.since).getTime() / 1000, text: wasBefore(g) ? `${g.state}, seen first` : g.state }] : []
		charts.forEach(c => c.setEvents([...sessionMarks, ...begins, ...xids].sort((a, b) => a.at - b.at)))
	}
	return {
		title: 'GPU', refresh, close: () => charts.forEach(c => c.close()),
		element: h('div', {}, title, old, where, why, h('div.row', {}, peer === 'agent' ? null : h('label', {}, 'Time', range), chosen, now, h('span.note', {}, 'Drag in a chart to zoom.')), h('br'), h('div.grid', {}, charts.map(c => c.element)),
			h('section.panel', {}, h('h2', {}, 'Processes'), processes), h('section.panel', {}, h('h2', {}, 'All values now'), details)),
	}
}

/* What holds a job up, over the last minute: its slow GPU and what is wrong with that one. */
function jobState(x) {
	if (x.straggler) return [h('span', { class: 'state warning' }, 'waits'), h('div.note', {}, 'for ', gpuLink(x.straggler), `: ${percent(x.straggler_minute_ratio)} over the last minute, all ${percent(x.utilization_minute_ratio)} (median)${x.straggler_reason ? `; ${x.straggler_reason}` : ''}`)]
	return x.idle ? [state('idle'), h('div.note', {}, 'none of its GPUs did anything in the last minute')] : x.utilization_minute_ratio === null ? h('span.note', {}, 'known in half a minute') : state('ok')
}

export const jobColumns = [
	['Job', x => (x.report ? jobLink(x.report) : x.job), '', x => x.job], ['User', x => x.user || none, '', x => x.user], ['GPUs', x => x.gpus, 'n', x => x.gpus], ['State', jobState, 'reason', x => (x.straggler ? 2 : x.idle ? 1 : 0)],
	['Class', x => (x.report ? x.report.class : none), '', x => x.report && x.report.class], ['Score', x => (x.report ? score(x.report.score) : none), '', x => x.report && x.report.score],
	['Last minute', x => bar(x.utilization_minute_ratio), '', x => x.utilization_minute_ratio], ['Min now', x => percent(x.utilization_min_ratio), 'n', x => x.utilization_min_ratio], ['Max now', x => percent(x.utilization_max_ratio), 'n', x => x.utilization_max_ratio],
]

/* What a head found of ranks of jobs over nodes: an agent's findings are on its own page. */
const findingKinds = { late_rank: 'late rank', hang: 'hang', mismatch: 'mismatch', slowdown: 'slowdown' }
const findingState = f => (f.end_time ? h('span', { class: 'state ok' }, 'over') : h('span', { class: `state ${f.kind === 'hang' || f.kind === 'mismatch' ? 'critical' : 'warning'}` }, 'holds'))
const findingColumns = [
	['Finding', f => findingKinds[f.kind] || f.kind, '', f => f.kind], ['State', findingState, '', f => (f.end_time ? 0 : 1)], ['Job', f => f.job || none, '', f => f.job], ['What', f => f.text, 'wrap'],
	['Since', f => time(f.start_time), '', f => f.start_time], ['Until', f => (f.end_time ? time(f.end_time) : none), 'hide-small', f => f.end_time || ''],
]

export function work() {
	const jobs = h('div'), processes = h('div'), stored = reports(), findings = h('div'), steps = h('div')
	async function refresh() {
		const [j, p, f, s] = await Promise.all([get('/api/v1/jobs?limit=500'), get('/api/v1/processes?limit=300'), peer === 'agent' ? null : get('/api/v1/findings?limit=20'), peer === 'agent' ? null : get('/api/v1/steps?limit=100'), stored.refresh()])
		if (f) put(findings, table(f.findings, findingColumns, 'Nothing was found. Ranks are compared where gpuscope trace --head traces their nodes.'))
		if (s) put(steps, ...stepTables(s.steps))
		put(jobs, table(j.jobs, jobColumns, 'No process on a GPU belongs to a known job.'))
		put(processes, table(perProcess(p.processes), processColumns, 'No process is on a GPU.'), p.next ? h('p.note', {}, `${p.processes.length} of ${p.total}`) : '')
	}
	return { title: 'Jobs', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Jobs and processes'), h('section.panel', {}, h('h2', {}, 'On GPUs now'), jobs), peer === 'agent' ? null : h('section.panel', { 'aria-label': 'Findings' }, h('h2', {}, 'Ranks over nodes'), findings), peer === 'agent' ? null : h('section.panel', { 'aria-label': 'Steps' }, h('h2', {}, 'Steps of ranks'), steps), stored.element, h('section.panel', {}, h('h2', {}, 'Processes'), processes)) }
}

