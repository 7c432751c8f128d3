/* Sessions: start, stop, resume, export, forget, compare two. */
import { get, send, download } from './api.js'
import { h, put, table, state, ago, duration, percent, watts, celsius, energy, count, none } from './dom.js'


export function sessions(may) {
	const list = h('div'), said = h('p.said', { role: 'status', 'aria-live': 'polite' }), compared = h('section.panel', { hidden: true, 'aria-label': 'Comparison' })
	const chosen = new Set()
	const name = h('input', { placeholder: 'chosen by the time', maxlength: 128, autocomplete: 'off' })
	const nodes = h('input', { placeholder: 'all; or gpu-*, login1' })
	const interval = h('input', { type: 'number', min: 0.05, max: 3600, step: 'any', placeholder: 'the head\'s' })
	const bandwidth = h('input', { type: 'checkbox' }), nvlink = h('input', { type: 'checkbox' })
	const compare = h('button', { type: 'button', disabled: true, onclick: () => showComparison() }, 'Compare the two')
	const more = h('button', { type: 'button', hidden: true, onclick: () => { shown = Math.min(shown + 400, 2000); refresh() } }, 'Show more')
	let busy = false, shown = 100
	/* What the head reads anyway is what one expects in the file. */
	get('/api/v1/switches').then(s => {
		bandwidth.checked = s.bandwidth
		nvlink.checked = s.nvlink
		interval.placeholder = `${s.interval_seconds}, as the head`
	}).catch(() => {})

	async function act(what, text) {
		if (busy) return
		busy = true
		try {
			const r = await what()
			said.className = 'said'
			said.textContent = text(r)
		} catch (error) {
			said.className = 'said error'
			said.textContent = error.message
		}
		busy = false
		await refresh()
	}
	const start = event => {
		event.preventDefault()
		act(() => send('POST', '/api/v1/sessions', {
			name: name.value.trim(), nodes: nodes.value.split(',').map(x => x.trim()).filter(Boolean),
			interval_seconds: interval.value ? Number(interval.value) : null, bandwidth: bandwidth.checked, nvlink: nvlink.checked,
		}), r => { name.value = ''; return `Started ${r.session.name}.` })
	}
	const change = (s, verb, done) => h('button', { type: 'button', 'aria-label': `${verb} ${s.name}`, onclick: () => act(() => send('POST', `/api/v1/sessions/${s.id}/${verb}`), () => `${done} ${s.name}.`) }, verb[0].toUpperCase() + verb.slice(1))
	const forget = s => h('button', { type: 'button', 'aria-label': `Delete ${s.name}`, onclick: () => confirm(`Delete the session ${s.name}? Its samples stay until retention removes them.`) && act(() => send('DELETE', `/api/v1/sessions/${s.id}`), () => `Deleted ${s.name}.`) }, 'Delete')
	const exports = s => {
		const format = h('select', { 'aria-label': `Export ${s.name} as`, onchange: async () => {
			const f = format.value
			format.value = ''
			if (f) await act(() => download(`/api/v1/sessions/${s.id}/export?format=${f}`, `${s.name}${f === 'gswarm' ? '.json' : `.${f}`}`), () => `Exported ${s.name}.`)
		} }, [['', 'Export…'], ['json', 'JSON'], ['csv', 'CSV'], ['gst', '.gst (gpuscope)'], ['gswarm', 'JSON as gswarm']].map(([v, t]) => h('option', { value: v }, t)))
		return format
	}
	const pick = s => h('input', { type: 'checkbox', 'aria-label': `Compare ${s.name}`, checked: chosen.has(s.id), onchange: e => {
		if (e.target.checked) chosen.add(s.id)
		else chosen.delete(s.id)
		compare.disabled = chosen.size !== 2
	} })

	/* GPU by GPU, where both sessions have it. */
	function devices(a, b) {
		const of = new Map(b.gpus.map(g => [g.uuid, g])), both = a.gpus.filter(g => of.has(g.uuid)), pair = (key, unit) => g => `${unit(g[key])} → ${unit(of.get(g.uuid)[key])}`
		if (!both.length) return null
		return [h('h2', {}, 'GPU by GPU'), table(both.slice(0, 200), [
			['GPU', g => `${g.node_name || g.node} GPU ${g.index}`], ['Utilisation, mean', pair('utilization_mean_ratio', percent), 'n'], ['median', pair('utilization_p50_ratio', percent), 'n'], ['95th percentile', pair('utilization_p95_ratio', percent), 'n'],
			['Memory, max', pair('memory_max_ratio', percent), 'n'], ['Power, mean', pair('power_mean_watts', watts), 'n'], ['Energy', pair('energy_joules', energy), 'n'],
		], ''), both.length > 200 ? h('p.note', {}, `The first 200 of ${both.length}.`) : null]
	}

	async function showComparison() {
		compared.hidden = false
		compared.replaceChildren(h('p.empty', {}, 'Reading both sessions…'))
		try {
			const [a, b] = await Promise.all([...chosen].map(id => get(`/api/v1/sessions/${id}/summary`)))
			const mean = (s, key) => { const v = s.gpus.map(g => g[key]).filter(x => x !== null); return v.length ? v.reduce((x, y) => x + y, 0) / v.length : null }
			const sum = (s, key) => { const v = s.gpus.map(g => g[key]).filter(x => x !== null); return v.length ? v.reduce((x, y) => x + y, 0) : null }
			const rows = [
				['GPUs', s => s.gpus.length, count], ['Samples', s => sum(s, 'samples'), count],
				['Utilisation, mean', s => mean(s, 'utilization_mean_ratio'), percent], ['Utilisation, median', s => mean(s, 'utilization_p50_ratio'), percent], ['Utilisation, 95th percentile', s => mean(s, 'utilization_p95_ratio'), percent],
				['Memory, mean', s => mean(s, 'memory_mean_ratio'), percent], ['Power, mean of a GPU', s => mean(s, 'power_mean_watts'), watts],
				['Hottest', s => Math.max(...s.gpus.map(g => g.temperature_max_celsius || 0)) || null, celsius], ['Energy', s => sum(s, 'energy_joules'), energy],
			].map(([text, value, unit]) => ({ text, a: value(a), b: value(b), unit }))
			compared.replaceChildren(...[h('h2', {}, 'Comparison'), table(rows, [
				['', r => r.text], [a.session.name, r => r.unit(r.a), 'n'], [b.session.name, r => r.unit(r.b), 'n'],
				['Difference', r => (r.a === null || r.b === null || !r.a ? none : `${r.b >= r.a ? '+' : '−'}${Math.abs((r.b / r.a - 1) * 100).toFixed(1)} %`), 'n'],
			], ''), devices(a, b), a.complete && b.complete ? '' : h('p.note', {}, 'Only a part of the samples: there are more than can be read in a request.')].flat().filter(Boolean))
		} catch (error) {
			compared.replaceChildren(h('p.error', {}, error.message))
		}
	}

	async function refresh() {
		if (list.contains(document.activeElement) && document.activeElement.tagName === 'SELECT') return
		const s = await get(`/api/v1/sessions?limit=${shown}`)
		const focus = document.activeElement && list.contains(document.activeElement) ? document.activeElement.getAttribute('aria-label') : null
		put(list, table(s.sessions, [
			['', pick], ['Name', x => x.name, 'name', x => x.name], ['State', x => state(x.state), '', x => x.state], ['Started', x => ago(x.start_time), '', x => x.start_time],
			['Lasted', x => duration(((x.end_time ? new Date(x.end_time) : new Date()) - new Date(x.start_time)) / 1000), 'n'],
			['Nodes', x => x.nodes.join(', ') || 'all', 'hide-small'], ['Annotations', x => x.annotations, 'n'],
			['', x => h('div.row', {}, may() && x.state === 'active' ? change(x, 'stop', 'Stopped') : null, may() && x.state !== 'active' ? change(x, 'resume', 'Resumed') : null,
				h('a.button', { href: `#/plots/${x.id}`, 'aria-label': `Plots of ${x.name}` }, 'Plots'), exports(x), may() && x.state !== 'active' ? forget(x) : null)],
		], 'No session yet. A session is an interval with a name: start one, run your work, stop it, export it.'))
		if (focus) for (const e of list.querySelectorAll('[aria-label]')) if (e.getAttribute('aria-label') === focus) e.focus()
		more.hidden = !s.next || shown >= 2000
		form.hidden = !may()
		reader.hidden = may()
	}
	const form = h('form.panel', { onsubmit: start, 'aria-label': 'New session' }, h('h2', {}, 'New session'), h('div.row', {},
		h('label', {}, 'Name', name), h('label', {}, 'Nodes', nodes), h('label', {}, 'Seconds between samples', interval),
		h('label.check', {}, bandwidth, 'bandwidth'), h('label.check', {}, nvlink, 'NVLink'), h('button.main', { type: 'submit' }, 'Start session')))
	const reader = h('p.note', { hidden: true }, 'This token may only read; starting and stopping sessions needs a token of the role control.')
	return { title: 'Sessions', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Sessions'), form, reader, said, h('section.panel', {}, h('div.row', {}, h('h2', {}, 'All sessions'), compare), list, more,
		h('p.note', {}, 'Figures of an exported file: ', h('code', {}, 'gpuscope report FILE --plot X.pdf'))), compared) }
}
