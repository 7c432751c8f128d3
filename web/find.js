/* One search over what the cluster has now: nodes, GPUs by node or UUID, jobs, users, processes. */
import { get } from './api.js'
import { h, put, table } from './dom.js'
import { nodeLink } from './links.js'
import { gpuColumns, jobColumns, perProcess, processColumns } from './views.js'

const LIMIT = 100

export function find(begin) {
	const results = h('div'), text = h('input', { type: 'search', value: begin, autocomplete: 'off', placeholder: 'node, GPU UUID, job, user, process', oninput: () => {
		history.replaceState(null, '', `#/find/${encodeURIComponent(text.value)}`)
		refresh()
	} })
	const section = (title, found, element) => (found.length ? h('section.panel', {}, h('h2', {}, `${title}: ${found.length}`), element()) : null)
	let asked = 0

	async function refresh() {
		const wanted = text.value.trim().toLowerCase(), mine = ++asked
		if (!wanted) return put(results, h('p.empty', {}, 'Type a part of a name, a number or a UUID.'))
		const [n, g, j, p] = await Promise.all([get('/api/v1/nodes?limit=2000'), get(`/api/v1/gpus?sort=worst&limit=${LIMIT}&q=${encodeURIComponent(wanted)}`), get('/api/v1/jobs?limit=500'), get('/api/v1/processes?limit=2000')])
		if (mine !== asked) return
		const has = (...values) => values.some(v => v !== null && v !== undefined && String(v).toLowerCase().includes(wanted))
		const nodes = n.nodes.filter(x => has(x.name, x.address)), jobs = j.jobs.filter(x => has(x.job, x.user)), processes = perProcess(p.processes).filter(x => has(x.name, x.user, x.job, x.pid)).slice(0, LIMIT)
		const found = [
			section('Nodes', nodes, () => h('p', {}, nodes.slice(0, LIMIT).flatMap((x, i) => [i ? ', ' : null, nodeLink(x)]))),
			section('Jobs', jobs, () => table(jobs, jobColumns, '')),
			section('GPUs', g.gpus, () => table(g.gpus, gpuColumns, '')),
			section('Processes', processes, () => table(processes, processColumns, '')),
		].filter(Boolean)
		put(results, ...(found.length ? found : [h('p.empty', {}, `Nothing here has "${text.value.trim()}" in its name.`)]))
	}
	return { title: 'Search', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Search'), h('div.panel', {}, h('label', {}, 'Search for', text)), results), focus: () => text.focus() }
}
