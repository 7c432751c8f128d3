/* The page of an agent: its one node, by what it remembers of the last minutes. */
import { get } from './api.js'
import { Lines } from './chart.js'
import { h, put, table, state, percent, watts, bytes, count, duration, time, none } from './dom.js'
import { facts } from './report.js'
import { onTheme } from './theme.js'
import { alertList, gpuColumns, perProcess, processColumns } from './views.js'

const seconds = v => (v === null || v === undefined ? none : v < 1 ? `${(v * 1000).toFixed(v < 0.01 ? 1 : 0)} ms` : duration(v))

/* What the agent says of itself: [key, title, unit]. */
const health = [
	['uptime_seconds', 'Running', seconds], ['interval_seconds', 'Between readings', seconds], ['read_seconds_ago', 'Last reading, ago', seconds], ['read_seconds', 'It took', seconds],
	['samples', 'Readings', count], ['missed_late', 'Missed: too late', count], ['missed_driver', 'Missed: the driver hung', count], ['failed_calls', 'Calls of the driver that failed', count],
	['resident_bytes', 'Memory in RAM', bytes], ['cpu_seconds', 'CPU time', seconds], ['scrapes', 'Scrapes of /metrics', count],
	['last_reload_ok', 'Configuration', v => (v ? 'as in its file' : 'the last reload failed')],
	['head_connected', 'Head', v => (v ? 'connected' : 'not connected')], ['head_waiting_samples', 'Waiting for the head', count], ['head_lost_samples', 'Lost before the head', count],
]

/* Time in a step or a second, as explain writes it. */
const nanoseconds = v => (v >= 1e9 ? `${(v / 1e9).toFixed(2)} s` : v >= 1e6 ? `${(v / 1e6).toFixed(1)} ms` : `${(v / 1e3).toFixed(1)} us`)

const evidence = e => `${e.key} ${e.before_ns === undefined ? `${count(e.before_count)} \u2192 ${count(e.after_count)}` : `${nanoseconds(e.before_ns)} \u2192 ${nanoseconds(e.after_ns)}`}`

const finding = f => h('li', {},
	h('span', { class: `state ${f.ended_seconds === null ? 'warning' : 'ok'}` }, f.ended_seconds !== null ? f.became_usual ? 'usual now' : 'over' : 'holds'), ' ', f.text,
	facts([['Since', `${time(f.since)}${f.job ? `, job ${f.job}` : ''}`], ['Cause', f.cause ? `${f.cause.text} (confidence ${percent(f.cause.confidence)})` : 'not known'],
		['Evidence', f.evidence.map(evidence).join(', ')], ['What to do', f.advice], ['See', h('code', {}, f.see)]]))

/* Those that hold first, the newest before the others. */
function findingList(d) {
	if (!d.enabled) return h('p.empty', {}, 'Findings are off: ', h('code', {}, 'findings.enabled'))
	const list = d.findings.slice().reverse().sort((a, b) => (a.ended_seconds !== null) - (b.ended_seconds !== null))
	return list.length ? h('ul.alerts.findings', {}, list.map(finding)) : h('p.empty', {}, 'Nothing was found.')
}

export function local() {
	const title = h('h1', {}, 'Node'), cards = h('div.cards'), gpus = h('div'), processes = h('div'), alerts = h('div'), findings = h('div'), agent = h('div')
	const charts = [new Lines('Utilisation', 'utilization_ratio', '%', 100, 100), new Lines('Memory', 'memory_used_ratio', '%', 100, 100), new Lines('Power', 'power_watts', 'W', 1, 100), new Lines('Temperature', 'temperature_celsius', '°C', 1, 80)]

	onTheme(() => charts.forEach(c => c.element.isConnected && c.redraw()))
	async function refresh() {
		const [o, list, p, a, found, ...rows] = await Promise.all([get('/api/v1/overview'), get('/api/v1/nodes?limit=1'), get('/api/v1/processes?limit=200'), get('/api/v1/alerts?limit=30'), get('/api/v1/findings'),
			...charts.map(c => get(`/api/v1/heatmap?value=${c.key}&points=300&limit=100`))])
		const n = await get(`/api/v1/nodes/${list.nodes[0].id}`)
		const card = (value, text, kind) => h('div.card', {}, h('b', { class: kind }, value), h('span', {}, text))
		put(title, n.name, ' ', state(['failing', 'throttled', 'degraded'].find(s => o.states[s]) || 'ok'))
		put(cards, card(n.gpus, 'GPUs'), card(percent(n.utilization_ratio), 'mean utilisation'), card(watts(n.power_watts), 'power now'), card(bytes(n.memory_used_bytes), `of ${bytes(n.memory_total_bytes)} on GPUs`),
			card(percent(n.cpu_ratio), 'CPU'), card(bytes(n.host_memory_used_bytes), `of ${bytes(n.host_memory_total_bytes)} RAM`))
		put(gpus, table(n.gpu_list, gpuColumns, n.gpu_state_text || 'This node has no GPUs.'))
		charts.forEach((c, i) => c.show(rows[i]))
		put(processes, table(perProcess(p.processes), processColumns, 'No process is on a GPU.'), p.next ? h('p.note', {}, `${p.processes.length} of ${p.total}`) : '')
		put(alerts, ...[alertList(a.alerts, a.total)].flat().filter(Boolean))
		put(findings, findingList(found))
		put(agent, table(health.filter(([key]) => o.agent[key] !== undefined), [['', ([, text]) => text], ['', ([key, , unit]) => unit(o.agent[key]), 'n']], ''))
	}
	return {
		title: 'Node', refresh, close: () => charts.forEach(c => c.close()),
		element: h('div', {}, title, cards, h('div.split', {}, h('section.panel', {}, h('h2', {}, 'GPUs'), gpus), h('section.panel', {}, h('h2', {}, 'Alerts'), alerts)), h('section.panel', { 'aria-label': 'Findings' }, h('h2', {}, 'Findings'), findings), h('div.grid.pairs', {}, charts.map(c => c.element)), h('section.panel', {}, h('h2', {}, 'Processes'), processes),
			h('section.panel', {}, h('h2', {}, 'This agent'), agent)),
	}
}
