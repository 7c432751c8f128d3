/* One process: who it is, what it has of its GPUs, and how that went. The last minutes are read from
 * the store once; what comes then is added as it is seen. */
import { get, peer } from './api.js'
import { Chart } from './chart.js'
import { h, put, table, bar, percent, bytes, count, duration, time, none } from './dom.js'
import { nodeLink } from './links.js'
import { times } from './report.js'
import { onTheme } from './theme.js'

const LIVE = 300
const ranges = [[LIVE, 'last 5 minutes'], [3600, 'last hour'], [21600, 'last 6 hours'], [86400, 'last day'], [604800, 'last week']]
const GIB = 2 ** -30

const seconds = text => new Date(text).getTime() / 1000

export function process(node, pid) {
	const title = h('h1', {}, 'Process'), where = h('p.note'), gone = h('p.error', { role: 'status' }), cards = h('div.cards'), gpus = h('div'), account = h('div'), who = h('div'), said = h('p.note', { role: 'status' })
	const charts = [
		new Chart('CPU, of one processor', 'cpu_ratio', '%', 100, 100), new Chart('Memory of the host', 'host_memory_bytes', 'GiB', GIB, 0.1),
		new Chart('Memory of its GPUs', 'gpu_memory_used_bytes', 'GiB', GIB, 0.1), new Chart('SMs of its GPUs', 'sm_ratio', '%', 100, 100),
	]
	const keys = charts.map(c => c.key)
	const range = h('select', { onchange: () => { due = 0; refresh() } }, ranges.map(([s, text]) => h('option', { value: s }, text)))
	let due = 0, points = null, shown = null

	onTheme(() => charts.forEach(c => c.element.isConnected && c.redraw()))

	/* The points that were seen, with a gap where one is missing. */
	function live() {
		const data = { time: [], complete: true, values: {} }
		for (const key of keys) data.values[key] = { min: [], mean: [], max: [] }
		points.forEach((p, i) => {
			if (i && p.at - points[i - 1].at > 10) add(p.at - 1, {})
			add(p.at, p.values)
		})
		function add(at, values) {
			data.time.push(at)
			for (const key of keys) for (const column of ['min', 'mean', 'max']) data.values[key][column].push(values[key] ?? null)
		}
		charts.forEach(c => c.show(data))
	}

	async function read(p) {
		const end = seconds(p.last_seen), from = end - Number(range.value), started = p.start_time ? `&started=${seconds(p.start_time).toFixed(3)}` : ''
		return get(`/api/v1/process-series?node=${node}&pid=${pid}${started}&from=${Math.floor(from)}&to=${Math.ceil(end) + 1}&points=${range.value > LIVE ? 400 : 150}`)
	}

	async function draw(p) {
		const isLive = p.running && Number(range.value) === LIVE
		try {
			if (!isLive || !points) {
				if (Date.now() < due) return
				due = Date.now() + 30000
				/* An agent keeps nothing of processes. */
				const data = peer === 'agent' ? null : await read(p)
				said.textContent = ''
				if (data && !isLive) {
					points = null
					charts.forEach(c => c.show(data))
					return
				}
				points = data ? data.time.map((at, i) => ({ at, values: Object.fromEntries(keys.map(key => [key, data.values[key].mean[i]])) })).filter(x => keys.some(key => x.values[key] !== null)) : []
			}
			const at = seconds(p.last_seen)
			if (!points.length || at > points[points.length - 1].at) points.push({ at, values: p })
			points = points.filter(x => x.at > at - LIVE)
			live()
		} catch (error) {
			if (error.name === 'AbortError' || error.status === 401 || error.status === 0) throw error
			said.textContent = `The past could not be read: ${error.message}`
		}
	}

	async function look() {
		try {
			return await get(`/api/v1/processes/${node}/${pid}`)
		} catch (error) {
			if (error.status !== 404 || !shown) throw error
			return { ...shown, running: false }
		}
	}

	async function refresh() {
		/* What has ended stays as it is: its last sight is read from disk. */
		const p = shown && !shown.running && Date.now() < shown.again ? shown : await look()
		if (p !== shown) p.again = Date.now() + 15000
		shown = p
		const card = (value, text) => h('div.card', {}, h('b', {}, value), h('span', {}, text))
		put(title, `${p.name || '?'} (${p.pid}) `, h('span', { class: `state ${p.running ? 'active' : 'stopped'}` }, p.running ? 'running' : 'ended'))
		put(where, nodeLink(p), p.user ? ` · ${p.user}` : '', p.job ? ' · job ' : '', p.job ? p.job : '', p.container ? ` · container ${p.container}` : '')
		gone.textContent = p.running ? '' : `It has ended, or its node is silent. Last seen ${time(p.last_seen)}.`
		gone.hidden = p.running
		put(cards, card(percent(p.sm_ratio), 'of SMs, all its GPUs'), card(bytes(p.gpu_memory_used_bytes), 'on GPUs'), card(percent(p.cpu_ratio), 'of one processor'), card(bytes(p.host_memory_bytes), 'of the host\'s memory'),
			card(p.cpu_seconds === null ? none : duration(p.cpu_seconds), 'of CPU time'), card(p.start_time ? duration(seconds(p.last_seen) - seconds(p.start_time)) : none, 'running'), card(count(p.threads), 'threads'))
		put(gpus, table(p.gpus, [
			['GPU', g => h('a', { href: `#/gpu/${node}/${g.gpu}` }, `GPU ${g.gpu}`)], ['Its memory', g => `${bytes(g.memory_used_bytes)} of ${bytes(g.memory_total_bytes)}`, 'n'],
			['Its share of SMs', g => bar(g.sm_ratio)], ['GPU busy, all processes', g => bar(g.utilization_ratio)], ['Model', g => g.name, 'hide-small cut'],
		], 'It is on no GPU.'))
		put(account, ...[Object.keys(p.thread_seconds).length ? times(p) : h('p.note', {}, 'Available if an agent measures its job. For any process: ', h('code', {}, `gpuscope trace -p ${p.pid}`))].flat().filter(Boolean))
		put(who, table([['Command', p.command], ['User', p.user], ['Job', p.job], ['Container', p.container], ['Parent', p.parent_pid], ['State', p.state], ['Started', p.start_time && time(p.start_time)], ['Last seen', time(p.last_seen)]], [['', x => x[0]], ['', x => x[1] || none, 'wrap']], ''))
		await draw(p)
	}
	return {
		title: 'Process', refresh, close: () => charts.forEach(c => c.close()),
		element: h('div', {}, title, where, gone, cards, h('section.panel', { 'aria-label': 'GPUs of the process' }, h('h2', {}, 'Its GPUs'), gpus), h('div.row', {}, peer === 'agent' ? null : h('label', {}, 'Time', range), said), h('br'),
			h('div.grid', {}, charts.map(c => c.element)), h('section.panel', { 'aria-label': 'Where its time went' }, h('h2', {}, 'Where its time went'), account), h('section.panel', {}, h('h2', {}, 'Identity'), who)),
	}
}
